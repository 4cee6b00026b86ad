import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import type { GatewayConfig } from '../contract/config.ts';
import { StageError } from '../contract/errors.ts';
import type { Clock, Log } from '../contract/services.ts';
import { Connections } from '../run/answer/connections.ts';
import { framingProblem } from '../run/answer/framing.ts';
import { isUnheard } from '../run/answer/send-whole.ts';
import { Bag } from '../run/bag.ts';
import { BodyBudget } from '../run/body-budget.ts';
import { RequestContext, type RequestEnvironment } from '../run/context.ts';
import { Occupancy } from '../run/occupancy.ts';
import { runRequest } from '../run/run.ts';
import type { ServedPlan } from './app.ts';
import { createClientNotes } from './client.ts';
import { belowPrefix, pathOf, prefixOf } from './path.ts';
import { answerClientError, sendError, writeErrorResponse } from './send-error.ts';
import { refuseWebSocket, wantsWebSocket } from './web-socket.ts';

type ServerConfig = GatewayConfig['server'];

/** The HTTP side of the gateway: one listening socket in front of a plan. */
export interface GatewayServer {
  /** Starts listening. Rejects with Node's error (EADDRINUSE, EACCES, ENOTFOUND ...). */
  listen(): Promise<{ readonly host: string; readonly port: number }>;
  /** Whether `drain` was called. */
  readonly stopping: boolean;
  /**
   * Says in every answer that its connection ends, goes on accepting for `accept_seconds`, stops, lets running requests
   * finish, then ends what is left. All of it takes `server.timeouts.drain_seconds`.
   */
  drain(accept_seconds?: number): Promise<void>;
  /**
   * Serves the requests that come from now on with another plan; reads the certificate anew. Throws when the certificate
   * can't be used, and then goes on with the plan it has.
   */
  use(plan: ServedPlan): void;
}

/** Head of the longest wait that is not trouble, added to the configured ones before a silent connection is cut. */
const SOCKET_GRACE_SECONDS = 30;

/** How long an idle client connection is kept; longer than reverse proxies keep theirs, so that they never meet a closed one. */
const KEEP_ALIVE_SECONDS = 75;

/** How often it is looked for clients that take too long to send the head of a request, in milliseconds. */
const CHECK_CONNECTIONS_MS = 1000;

/** Splits `host:port`, with brackets around IPv6. */
export function parseListen(listen: string): { host: string; port: number } {
  const at = listen.lastIndexOf(':');
  return { host: listen.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(listen.slice(at + 1)) };
}

function readCertificate({ cert_file, key_file }: NonNullable<ServerConfig['tls']>) {
  try {
    const certificate = { cert: readFileSync(cert_file), key: readFileSync(key_file) };
    createSecureContext(certificate);
    return certificate;
  } catch (error) {
    const problem = `the certificate ${cert_file} with the key ${key_file} cannot be used (${(error as Error).message})`;
    throw new Error(problem, { cause: error });
  }
}

/** Longest a connection may be silent, in milliseconds. */
function silence(timeouts: ServerConfig['timeouts']): number {
  const { first_byte_seconds, unstreamed_first_byte_seconds, idle_seconds } = timeouts;
  return (Math.max(first_byte_seconds, unstreamed_first_byte_seconds, idle_seconds) + SOCKET_GRACE_SECONDS) * 1000;
}

/** What one caller can take of the bytes that are held. */
function shareOf({ buffered_bytes, buffered_bytes_per_principal, body_bytes }: ServerConfig['limits']): number {
  return buffered_bytes_per_principal ?? Math.max(body_bytes, Math.floor(buffered_bytes / 4));
}

function tooManyConnections(): StageError {
  return new StageError('overloaded', 'The gateway has as many connections as it may; connect again shortly.', {
    headers: { 'retry-after': '1' },
  });
}

/** Makes the server; nothing listens yet. Throws when its certificate can't be used. */
export function createServer(options: {
  readonly plan: ServedPlan;
  readonly log: Log;
  readonly clock: Clock;
}): GatewayServer {
  const { log, clock } = options;
  let { plan } = options;
  const { limits } = plan.config.server;
  const budget = new BodyBudget(limits.buffered_bytes, shareOf(limits));
  const under_way = new Occupancy(clock);
  const connections = new Connections();
  let environment = environmentOf(plan);
  let prefix = prefixOf(plan.config.server.public_url);
  let noteClient = createClientNotes(plan.config.server);
  const running = new Bag<RequestContext>();
  /** Connections that are being closed for how a request on them was framed. */
  const refused = new WeakSet<Socket>();
  /** Requests that no pipeline takes. */
  let answering = 0;
  let draining = false;
  let onIdle: (() => void) | undefined;

  function handle(req: http.IncomingMessage, res: http.ServerResponse): void {
    if (isUnheard(req.socket)) return;
    if (draining) res.shouldKeepAlive = false;
    // Where one request was framed oddly, what looks like the next may be part of it.
    if (refused.has(req.socket)) return;
    req.url = belowPrefix(req.url!, prefix);
    const path = pathOf(req.url);
    const problem = framingProblem(req);
    if (problem !== undefined) {
      refused.add(req.socket);
      sendError(res, path, new StageError('bad_http', problem, { headers: { connection: 'close' } }));
      return;
    }
    if (wantsWebSocket(req)) {
      refuseWebSocket(res, path);
      return;
    }
    const pipeline = plan.pipelinesAt(path)?.get(req.method!);
    if (pipeline === undefined) {
      answering++;
      res.on('close', () => {
        answering--;
        noteIdle();
      });
      plan.app(req, res);
      return;
    }
    const ctx = new RequestContext(pipeline, req, res, environment, clock.monotonic());
    ctx.note('request.id', randomUUID());
    ctx.note('request.method', req.method!);
    ctx.note('request.path', path);
    ctx.note('request.protocol', pipeline.spec.match.protocol);
    ctx.note('request.received_at', clock.now());
    noteClient(ctx);
    running.add(ctx);
    void runRequest(plan, ctx, () => {
      running.remove(ctx);
      noteIdle();
    });
  }

  // Node would answer a request without Host itself, and not as JSON.
  const server_options = {
    maxHeaderSize: plan.config.server.limits.header_bytes,
    noDelay: true,
    requireHostHeader: false,
    connectionsCheckingInterval: CHECK_CONNECTIONS_MS,
  };
  const handshakeTimeout = plan.config.server.timeouts.request_head_seconds * 1000;
  const { tls } = plan.config.server;
  const server = tls
    ? https.createServer({ ...server_options, ...readCertificate(tls), handshakeTimeout }, handle)
    : http.createServer(server_options, handle);
  server.on('connection', (socket: Socket) => {
    if (connections.add(socket, plan.config.server.limits.connections)) return;
    if (tls) socket.destroy();
    else writeErrorResponse(socket, tooManyConnections());
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const current = running.items().find(({ exchange }) => exchange.req.socket === socket)?.exchange;
    const { limits } = plan.config.server;
    if (refused.has(socket)) socket.destroySoon();
    else if (current === undefined) answerClientError(error, socket, limits);
    // What is broken came behind a good request, which gets its answer first.
    else if (current.req.complete) current.res.on('finish', () => socket.destroySoon());
    else if (current.res.headersSent) socket.destroy();
    else answerClientError(error, socket, limits);
  });
  server.on('checkExpectation', (req: http.IncomingMessage, res: http.ServerResponse) => {
    const problem = 'The gateway meets no expectation but "100-continue"; leave the Expect header out.';
    sendError(
      res,
      pathOf(req.url!),
      new StageError('expectation_failed', problem, { headers: { connection: 'close' } }),
    );
  });
  server.on('connect', (_req: http.IncomingMessage, socket: Socket) => {
    writeErrorResponse(
      socket,
      new StageError('method_not_allowed', 'The gateway is no tunnel: CONNECT is not served.'),
    );
  });
  // A body that will be refused by its declared length is refused before the client sends it.
  server.on('checkContinue', (req: http.IncomingMessage, res: http.ServerResponse) => {
    if (!(Number(req.headers['content-length'] ?? 0) > plan.config.server.limits.body_bytes)) res.writeContinue();
    handle(req, res);
  });
  server.keepAliveTimeout = KEEP_ALIVE_SECONDS * 1000;
  setTimeouts(plan);

  return {
    listen() {
      const { host, port } = parseListen(plan.config.server.listen);
      return new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(port, host, () => {
          server.off('error', reject);
          server.on('error', (err) => log.error({ err }, 'the listening socket failed'));
          const address = server.address();
          resolve({ host, port: typeof address === 'object' && address !== null ? address.port : port });
        });
      });
    },
    get stopping() {
      return draining;
    },
    async drain(accept_seconds = 0) {
      const { drain_seconds } = plan.config.server.timeouts;
      const accepting_seconds = Math.min(accept_seconds, drain_seconds);
      draining = true;
      for (const { exchange } of running.items()) if (!exchange.res.headersSent) exchange.res.shouldKeepAlive = false;
      if (accepting_seconds > 0) await delay(accepting_seconds * 1000);
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      await idleWithin(drain_seconds - accepting_seconds);
      for (const ctx of running.items()) {
        if (ctx.cancel) ctx.cancel(new StageError('draining', 'The gateway is shutting down; send the request again.'));
        else ctx.exchange.res.destroy();
      }
      if (running.size > 0) await idleWithin(SOCKET_GRACE_SECONDS);
      server.closeAllConnections();
      await closed;
    },
    use(next) {
      const { tls, limits } = next.config.server;
      if (tls !== undefined && server instanceof https.Server) server.setSecureContext(readCertificate(tls));
      plan = next;
      environment = environmentOf(next);
      prefix = prefixOf(next.config.server.public_url);
      noteClient = createClientNotes(next.config.server);
      budget.limit_bytes = limits.buffered_bytes;
      budget.share_bytes = shareOf(limits);
      setTimeouts(next);
    },
  };

  function setTimeouts({ config }: ServedPlan): void {
    const { timeouts } = config.server;
    server.setTimeout(silence(timeouts));
    server.headersTimeout = timeouts.request_head_seconds * 1000;
    // For bodies that nobody reads; the others have a deadline of their own that is sooner.
    server.requestTimeout = (timeouts.request_head_seconds + timeouts.request_body_seconds) * 1000;
  }

  function environmentOf({ config }: ServedPlan): RequestEnvironment {
    const { limits, timeouts } = config.server;
    return {
      budget,
      under_way,
      requests_per_principal: limits.requests_per_principal,
      connections,
      connections_per_principal: limits.connections_per_principal,
      body_limits: {
        max_bytes: limits.body_bytes,
        total_seconds: timeouts.request_body_seconds,
        silence_seconds: timeouts.request_silence_seconds,
      },
      json_bounds: { depth: limits.json_depth, values: limits.json_values },
      clock,
    };
  }

  function noteIdle(): void {
    if (running.size + answering === 0) onIdle?.();
  }

  function idleWithin(seconds: number): Promise<void> {
    if (running.size + answering === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
