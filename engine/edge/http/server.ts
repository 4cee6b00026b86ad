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
import { Connections, cancelRequest, framingProblem, isUnheard } from '../../pipeline/run/answer.ts';
import type { CompiledPipeline } from '../../pipeline/run/compiled.ts';
import { RequestContext, type RequestEnvironment } from '../../pipeline/run/context.ts';
import { ConcurrencyLimiter, MemoryBudget, UnorderedSet } from '../../pipeline/run/resources.ts';
import { runFinallyStages, runRequest } from '../../pipeline/run/run.ts';
import type { ServedPlan } from './app.ts';
import { createClientNotes, createCors, type HandleCors, noteAnswered } from './client.ts';
import { belowPrefix, identityOf, pathOf, prefixOf } from './request-identity.ts';
import { answerClientError, sendError, wantsWebSocket, webSocketRefusal, writeErrorResponse } from './send-error.ts';
import { isConsoleFile } from './sign-in/paths.ts';

type ServerConfig = GatewayConfig['server'];

/** Added to the longest configured timeout before a silent connection is cut. */
const SOCKET_GRACE_SECONDS = 30;

/** Keep-alive of idle client connections; longer than that of reverse proxies, so that they never reuse a closed one. */
const KEEP_ALIVE_SECONDS = 75;

/** How often Node checks for clients that are slow to send a request head, in milliseconds. */
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

function silence(timeouts: ServerConfig['timeouts']): number {
  const { first_byte_seconds, non_streaming_first_byte_seconds, idle_seconds } = timeouts;
  return (Math.max(first_byte_seconds, non_streaming_first_byte_seconds, idle_seconds) + SOCKET_GRACE_SECONDS) * 1000;
}

function shareOf({ buffered_bytes, buffered_bytes_per_principal, body_bytes }: ServerConfig['limits']): number {
  return buffered_bytes_per_principal ?? Math.max(body_bytes, Math.floor(buffered_bytes / 4));
}

/** HTTP server of the gateway: one listening socket that dispatches requests to the pipelines of a plan. */
export class GatewayServer {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #server: http.Server | https.Server;
  readonly #budget: MemoryBudget;
  readonly #under_way: ConcurrencyLimiter;
  readonly #connections = new Connections();
  readonly #running = new UnorderedSet<RequestContext>();
  /** Connections being closed after ambiguous request framing. */
  readonly #refused = new WeakSet<Socket>();
  #plan!: ServedPlan;
  #environment!: RequestEnvironment;
  #prefix!: string;
  #noteClient!: (ctx: RequestContext) => void;
  #handleCors: HandleCors | undefined;
  #answering = 0;
  #draining = false;
  #onIdle: (() => void) | undefined;

  /** Does not listen yet. Throws for an unusable certificate. */
  constructor(dependencies: {
    readonly plan: ServedPlan;
    readonly log: Log;
    readonly clock: Clock;
    readonly telemetry: Telemetry;
  }) {
    const { plan, log, clock, telemetry } = dependencies;
    this.#log = log;
    this.#telemetry = telemetry;
    this.#clock = clock;
    const { limits, timeouts, tls } = plan.config.server;
    this.#budget = new MemoryBudget(limits.buffered_bytes, shareOf(limits));
    this.#under_way = new ConcurrencyLimiter(clock);
    const options = {
      maxHeaderSize: limits.header_bytes,
      noDelay: true,
      // Node's own response to a request without Host is not JSON.
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
    const { used_bytes, limit_bytes } = this.#budget;
    const { connections } = this.#plan.config.server.limits;
    return {
      requests: this.#running.size,
      connections: this.#connections.open,
      connections_max: connections,
      used_bytes,
      used_bytes_max: limit_bytes,
    };
  }

  /**
   * Graceful shutdown: announces `connection: close`, keeps accepting for `accept_seconds`, stops listening, waits for
   * running requests, then aborts the rest. Takes at most `server.timeouts.drain_seconds`, and
   * at most 30 seconds more while aborted requests end.
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
      cancelRequest(ctx, new StageError('draining', 'The gateway is shutting down; send the request again.'));
    if (this.#running.size > 0) await this.#idleWithin(SOCKET_GRACE_SECONDS);
    this.#server.closeAllConnections();
    await closed;
  }

  /** Serves new requests with another plan and certificate. Throws for an unusable certificate. */
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
    this.#handleCors = createCors(plan.config);
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
    // For bodies that are never read; bodies of pipelines have an earlier deadline.
    this.#server.requestTimeout = (timeouts.request_head_seconds + timeouts.request_body_seconds) * 1000;
  }

  #attend(): void {
    const server = this.#server;
    server.on('request', (req, res) => this.#handle(req, res));
    server.on('connection', (socket: Socket) => this.#accept(socket));
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => this.#answerUnreadable(error, socket));
    server.on('checkExpectation', (req: http.IncomingMessage, res: http.ServerResponse) => {
      const problem = 'Unsupported Expect header; only "100-continue" is supported.';
      const headers = { connection: 'close' };
      this.#reject(req, res, new StageError('expectation_failed', problem, { headers }));
    });
    server.on('connect', (_req: http.IncomingMessage, socket: Socket) => {
      const problem = 'CONNECT is not supported.';
      this.#countRejected(writeErrorResponse(socket, new StageError('method_not_allowed', problem)));
    });
    // A body whose declared length is too large is rejected before the client sends it.
    server.on('checkContinue', (req: http.IncomingMessage, res: http.ServerResponse) => {
      const { body_bytes } = this.#plan.config.server.limits;
      if (!(Number(req.headers['content-length'] ?? 0) > body_bytes)) res.writeContinue();
      this.#handle(req, res);
    });
  }

  #reject(req: http.IncomingMessage, res: http.ServerResponse, error: StageError): void {
    this.#runFinallyStages(req, res);
    this.#countRejected(sendError(res, pathOf(req.url!), error));
  }

  #countRejected(error: StageError | undefined): void {
    if (error !== undefined) this.#telemetry.requestRejected(error.status, error.code);
  }

  #accept(socket: Socket): void {
    if (this.#connections.add(socket, this.#plan.config.server.limits.connections)) return;
    const error = new StageError('overloaded', 'Connection limit reached; retry later.', {
      headers: { 'retry-after': '1' },
    });
    if (this.#server instanceof https.Server) socket.destroy();
    else this.#countRejected(writeErrorResponse(socket, error));
  }

  #answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
    const current = this.#running.items().find(({ call }) => call.req.socket === socket)?.call;
    const { limits } = this.#plan.config.server;
    if (this.#refused.has(socket)) socket.destroySoon();
    else if (current === undefined) this.#countRejected(answerClientError(error, socket, limits));
    // The broken bytes follow a complete request: send its response first.
    else if (current.req.complete) current.res.on('finish', () => socket.destroySoon());
    else if (current.res.headersSent) socket.destroy();
    else answerClientError(error, socket, limits);
  }

  #handle(req: http.IncomingMessage, res: http.ServerResponse): void {
    if (isUnheard(req.socket)) return;
    if (this.#draining) res.shouldKeepAlive = false;
    // After ambiguous framing, the next request may be part of the body before it.
    if (this.#refused.has(req.socket)) return;
    req.url = belowPrefix(req.url!, this.#prefix);
    const problem = framingProblem(req);
    if (problem !== undefined) {
      this.#refused.add(req.socket);
      this.#reject(req, res, new StageError('bad_http', problem, { headers: { connection: 'close' } }));
      return;
    }
    const path = pathOf(req.url);
    const pipelines = this.#plan.pipelinesAt(path);
    if (this.#handleCors?.(req, res, path, pipelines) === true) return;
    const pipeline = pipelines?.get(req.method!);
    if (wantsWebSocket(req)) this.#reject(req, res, webSocketRefusal(res));
    else if (pipeline === undefined) this.#handToApp(req, res);
    else this.#run(pipeline, req, res);
  }

  #handToApp(req: http.IncomingMessage, res: http.ServerResponse): void {
    this.#answering++;
    this.#runFinallyStages(req, res);
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
    ctx.putFact('request.id', request_id);
    ctx.putFact('request.method', req.method!);
    ctx.putFact('request.path', pathOf(req.url!));
    ctx.putFact('request.protocol', pipeline.spec.match.protocol);
    ctx.putFact('request.received_at', this.#clock.now());
    this.#noteClient(ctx);
    return ctx;
  }

  /** Runs the `finally` stages that see every request, for one outside the pipelines. */
  #runFinallyStages(req: http.IncomingMessage, res: http.ServerResponse): void {
    const pipeline = this.#plan.other_requests;
    if (pipeline === undefined || isConsoleFile(pathOf(req.url!))) return;
    const identity = identityOf(res);
    const ctx = this.#begin(pipeline, identity.request_id, req, res);
    void runFinallyStages(this.#plan, ctx, () => noteAnswered(ctx, identity));
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
