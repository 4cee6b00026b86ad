import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { createSecureContext } from 'node:tls';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { Clock, Log } from '../../base/contract/services.ts';
import type { Telemetry } from '../../base/contract/telemetry.ts';
import { parseListenAddress } from '../../base/kit/net/addresses.ts';
import { Connections, framingProblem, giveUpOn, isUnheard } from '../../pipeline/run/answer.ts';
import type { CompiledPipeline } from '../../pipeline/run/compiled.ts';
import { RequestContext, type RequestEnvironment } from '../../pipeline/run/context.ts';
import { Bag, BodyBudget, Occupancy } from '../../pipeline/run/holdings.ts';
import { runAfterwards, runRequest } from '../../pipeline/run/run.ts';
import type { ServedPlan } from './app.ts';
import { type AdmitPages, createClientNotes, createCors, noteAnswered } from './client.ts';
import { belowPrefix, identityOf, pathOf, prefixOf } from './request-identity.ts';
import { answerClientError, sendError, wantsWebSocket, webSocketRefusal, writeErrorResponse } from './send-error.ts';
import { isConsoleFile } from './sign-in/paths.ts';

type ServerConfig = GatewayConfig['server'];

/** Head of the longest wait that is not trouble, added to the configured ones before a silent connection is cut. */
const SOCKET_GRACE_SECONDS = 30;

/** How long an idle client connection is kept; longer than reverse proxies keep theirs, so that they never meet a closed one. */
const KEEP_ALIVE_SECONDS = 75;

/** How often it is looked for clients that take too long to send the head of a request, in milliseconds. */
const CHECK_CONNECTIONS_MS = 1000;

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
  const { first_byte_seconds, non_streaming_first_byte_seconds, idle_seconds } = timeouts;
  return (Math.max(first_byte_seconds, non_streaming_first_byte_seconds, idle_seconds) + SOCKET_GRACE_SECONDS) * 1000;
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

/** What a server is made of. */
export interface GatewayServerOptions {
  readonly plan: ServedPlan;
  readonly log: Log;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

/** The HTTP side of the gateway: one listening socket in front of a plan. */
export class GatewayServer {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #server: http.Server | https.Server;
  readonly #budget: BodyBudget;
  readonly #under_way: Occupancy;
  readonly #connections = new Connections();
  readonly #running = new Bag<RequestContext>();
  /** Connections that are being closed for how a request on them was framed. */
  readonly #refused = new WeakSet<Socket>();
  #plan!: ServedPlan;
  #environment!: RequestEnvironment;
  #prefix!: string;
  #noteClient!: (ctx: RequestContext) => void;
  #admitPages: AdmitPages | undefined;
  /** Requests that no pipeline takes. */
  #answering = 0;
  #draining = false;
  #onIdle: (() => void) | undefined;

  /** Nothing listens yet. Throws when the certificate can't be used. */
  constructor({ plan, log, clock, telemetry }: GatewayServerOptions) {
    this.#log = log;
    this.#telemetry = telemetry;
    this.#clock = clock;
    const { limits, timeouts, tls } = plan.config.server;
    this.#budget = new BodyBudget(limits.buffered_bytes, shareOf(limits));
    this.#under_way = new Occupancy(clock);
    const options = {
      maxHeaderSize: limits.header_bytes,
      noDelay: true,
      // Node would answer a request without Host itself, and not as JSON.
      requireHostHeader: false,
      connectionsCheckingInterval: CHECK_CONNECTIONS_MS,
    };
    const handshakeTimeout = timeouts.request_head_seconds * 1000;
    this.#server = tls
      ? https.createServer({ ...options, ...readCertificate(tls), handshakeTimeout })
      : http.createServer(options);
    this.#server.keepAliveTimeout = KEEP_ALIVE_SECONDS * 1000;
    this.#attend();
    this.#serve(plan);
  }

  /** Starts listening. Rejects with Node's error (EADDRINUSE, EACCES, ENOTFOUND ...). */
  async listen(): Promise<{ readonly host: string; readonly port: number }> {
    const { host, port } = parseListenAddress(this.#plan.config.server.listen)!;
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
    this.#server.on('error', (err) => this.#log.error({ err }, 'the listening socket failed'));
    const address = this.#server.address();
    return { host, port: typeof address === 'object' && address !== null ? address.port : port };
  }

  get stopping(): boolean {
    return this.#draining;
  }

  get load() {
    const { held_bytes, limit_bytes } = this.#budget;
    const { connections } = this.#plan.config.server.limits;
    return {
      requests: this.#running.size,
      connections: this.#connections.open,
      connections_max: connections,
      held_bytes,
      held_bytes_max: limit_bytes,
    };
  }

  /**
   * Says in every answer that its connection ends, goes on accepting for `accept_seconds`, stops, lets running requests
   * finish, then ends what is left. All of it takes `server.timeouts.drain_seconds`.
   */
  async drain(accept_seconds = 0): Promise<void> {
    const { drain_seconds } = this.#plan.config.server.timeouts;
    const accepting_seconds = Math.min(accept_seconds, drain_seconds);
    this.#draining = true;
    for (const { call } of this.#running.items()) {
      if (!call.res.headersSent) call.res.shouldKeepAlive = false;
    }
    if (accepting_seconds > 0) {
      await new Promise<void>((resolve) => void this.#clock.after(accepting_seconds * 1000, resolve));
    }
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    await this.#idleWithin(drain_seconds - accepting_seconds);
    for (const ctx of this.#running.items())
      giveUpOn(ctx, new StageError('draining', 'The gateway is shutting down; send the request again.'));
    if (this.#running.size > 0) await this.#idleWithin(SOCKET_GRACE_SECONDS);
    this.#server.closeAllConnections();
    await closed;
  }

  /**
   * Serves the requests that come from now on with another plan; reads the certificate anew. Throws when the certificate
   * can't be used, and then goes on with the plan it has.
   */
  use(plan: ServedPlan): void {
    const { tls } = plan.config.server;
    if (tls !== undefined && this.#server instanceof https.Server) this.#server.setSecureContext(readCertificate(tls));
    this.#serve(plan);
  }

  #serve(plan: ServedPlan): void {
    const { limits, timeouts, public_url } = plan.config.server;
    this.#plan = plan;
    this.#prefix = prefixOf(public_url);
    this.#noteClient = createClientNotes(plan.config);
    this.#admitPages = createCors(plan.config);
    this.#budget.limit_bytes = limits.buffered_bytes;
    this.#budget.share_bytes = shareOf(limits);
    this.#environment = {
      budget: this.#budget,
      under_way: this.#under_way,
      requests_per_principal: limits.requests_per_principal,
      connections: this.#connections,
      connections_per_principal: limits.connections_per_principal,
      body_limits: {
        max_bytes: limits.body_bytes,
        total_seconds: timeouts.request_body_seconds,
        silence_seconds: timeouts.request_silence_seconds,
      },
      json_bounds: { depth: limits.json_depth, values: limits.json_values },
      clock: this.#clock,
      telemetry: this.#telemetry,
    };
    this.#server.setTimeout(silence(timeouts));
    this.#server.headersTimeout = timeouts.request_head_seconds * 1000;
    // For bodies that nobody reads; the others have a deadline of their own that is sooner.
    this.#server.requestTimeout = (timeouts.request_head_seconds + timeouts.request_body_seconds) * 1000;
  }

  #attend(): void {
    const server = this.#server;
    server.on('request', (req, res) => this.#handle(req, res));
    server.on('connection', (socket: Socket) => this.#accept(socket));
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => this.#answerUnreadable(error, socket));
    server.on('checkExpectation', (req: http.IncomingMessage, res: http.ServerResponse) => {
      const problem = 'The gateway meets no expectation but "100-continue"; leave the Expect header out.';
      const headers = { connection: 'close' };
      this.#refuse(req, res, new StageError('expectation_failed', problem, { headers }));
    });
    server.on('connect', (_req: http.IncomingMessage, socket: Socket) => {
      const problem = 'The gateway is no tunnel: CONNECT is not served.';
      this.#tell(writeErrorResponse(socket, new StageError('method_not_allowed', problem)));
    });
    // A body that will be refused by its declared length is refused before the client sends it.
    server.on('checkContinue', (req: http.IncomingMessage, res: http.ServerResponse) => {
      const { body_bytes } = this.#plan.config.server.limits;
      if (!(Number(req.headers['content-length'] ?? 0) > body_bytes)) res.writeContinue();
      this.#handle(req, res);
    });
  }

  /** Answers a request that no pipeline gets to see. */
  #refuse(req: http.IncomingMessage, res: http.ServerResponse, error: StageError): void {
    this.#runAfterwards(req, res);
    this.#tell(sendError(res, pathOf(req.url!), error));
  }

  /** No pipeline has the request that was answered with this error. */
  #tell(error: StageError | undefined): void {
    if (error !== undefined) this.#telemetry.requestRejected(error.status, error.code);
  }

  #accept(socket: Socket): void {
    if (this.#connections.add(socket, this.#plan.config.server.limits.connections)) return;
    if (this.#server instanceof https.Server) socket.destroy();
    else this.#tell(writeErrorResponse(socket, tooManyConnections()));
  }

  #answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
    const current = this.#running.items().find(({ call }) => call.req.socket === socket)?.call;
    const { limits } = this.#plan.config.server;
    if (this.#refused.has(socket)) socket.destroySoon();
    else if (current === undefined) this.#tell(answerClientError(error, socket, limits));
    // What is broken came behind a good request, which gets its answer first.
    else if (current.req.complete) current.res.on('finish', () => socket.destroySoon());
    else if (current.res.headersSent) socket.destroy();
    else answerClientError(error, socket, limits);
  }

  #handle(req: http.IncomingMessage, res: http.ServerResponse): void {
    if (isUnheard(req.socket)) return;
    if (this.#draining) res.shouldKeepAlive = false;
    // Where one request was framed oddly, what looks like the next may be part of it.
    if (this.#refused.has(req.socket)) return;
    req.url = belowPrefix(req.url!, this.#prefix);
    const problem = framingProblem(req);
    if (problem !== undefined) {
      this.#refused.add(req.socket);
      this.#refuse(req, res, new StageError('bad_http', problem, { headers: { connection: 'close' } }));
      return;
    }
    const path = pathOf(req.url);
    const pipelines = this.#plan.pipelinesAt(path);
    if (this.#admitPages?.(req, res, path, pipelines) === true) return;
    const pipeline = pipelines?.get(req.method!);
    if (wantsWebSocket(req)) this.#refuse(req, res, webSocketRefusal(res));
    else if (pipeline === undefined) this.#handToApp(req, res);
    else this.#run(pipeline, req, res);
  }

  #handToApp(req: http.IncomingMessage, res: http.ServerResponse): void {
    this.#answering++;
    this.#runAfterwards(req, res);
    res.on('close', () => {
      this.#answering--;
      this.#noteIdle();
    });
    this.#plan.app(req, res);
  }

  #run(pipeline: CompiledPipeline, req: http.IncomingMessage, res: http.ServerResponse): void {
    const ctx = this.#begin(pipeline, randomUUID(), req, res);
    this.#running.add(ctx);
    void runRequest(this.#plan, ctx, () => {
      this.#running.remove(ctx);
      this.#noteIdle();
    });
  }

  #begin(pipeline: CompiledPipeline, request_id: string, req: http.IncomingMessage, res: http.ServerResponse) {
    const ctx = new RequestContext(pipeline, { req, res }, this.#environment, this.#clock.monotonic());
    ctx.note('request.id', request_id);
    ctx.note('request.method', req.method!);
    ctx.note('request.path', pathOf(req.url!));
    ctx.note('request.protocol', pipeline.spec.match.protocol);
    ctx.note('request.received_at', this.#clock.now());
    this.#noteClient(ctx);
    return ctx;
  }

  /** What no pipeline answers is told to the stages that hear of every request. */
  #runAfterwards(req: http.IncomingMessage, res: http.ServerResponse): void {
    const pipeline = this.#plan.other_requests;
    if (pipeline === undefined || isConsoleFile(pathOf(req.url!))) return;
    const identity = identityOf(res);
    const ctx = this.#begin(pipeline, identity.request_id, req, res);
    void runAfterwards(this.#plan, ctx, () => noteAnswered(ctx, identity));
  }

  get #idle(): boolean {
    return this.#running.size + this.#answering === 0;
  }

  #noteIdle(): void {
    if (this.#idle) this.#onIdle?.();
  }

  #idleWithin(seconds: number): Promise<void> {
    if (this.#idle) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
