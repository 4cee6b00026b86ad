import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Stream } from 'node:stream';
import { createProxyServer } from 'http-proxy-3';
import { defineStage, type Relay, StageError, type Timer, type UpstreamConfig } from '../engine/api.ts';

/** Request headers that end here: connection headers (RFC 9110 section 7.6.1), the caller's credential, what is set anew. */
const DROPPED = new Set([
  'authorization',
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-api-key',
]);

/** Idle upstream connections kept open per upstream. */
const FREE_SOCKETS_MAX = 512;

/** An upstream with everything a request to it needs, prepared once. */
interface Target {
  readonly name: string;
  readonly url: URL;
  /** Path of the base URL, without a slash at its end. */
  readonly path_prefix: string;
  readonly agent: http.Agent;
  readonly credential: Readonly<Record<string, string>>;
}

/** Where the proxy's events find what waits for them. A Map that lives as long as the stage would cost more (see Bag). */
const WAITING = Symbol('waiting');

type ProxiedRequest = IncomingMessage & { [WAITING]?: Waiting | undefined };

/** A request that waits for the upstream's response head. */
interface Waiting {
  readonly resolve: (response: IncomingMessage) => void;
  readonly reject: (error: Error) => void;
  request: ClientRequest | undefined;
  /** Whether the request may have reached the upstream. */
  sent: boolean;
}

function createAgent(url: URL): http.Agent {
  const { Agent } = url.protocol === 'https:' ? https : http;
  const agent = new Agent({ keepAlive: true, maxFreeSockets: FREE_SOCKETS_MAX, scheduling: 'lifo' });
  // The agent has one destination. Node would put its name together from all connection options at every request.
  agent.getName = () => url.origin;
  return agent;
}

function createTarget(upstream: UpstreamConfig, secret: (name: string) => string): Target {
  const url = new URL(upstream.base_url);
  return {
    name: upstream.name,
    url,
    path_prefix: url.pathname.replace(/\/$/, ''),
    agent: createAgent(url),
    credential: upstream.api_key_env
      ? { 'x-api-key': secret(upstream.api_key_env) }
      : upstream.auth_token_env
        ? { authorization: `Bearer ${secret(upstream.auth_token_env)}` }
        : {},
  };
}

function upstreamHeaders(
  received: IncomingMessage['headers'],
  target: Target,
  length: number,
): http.IncomingHttpHeaders {
  const { connection } = received;
  const nominated =
    connection === undefined || connection === 'keep-alive' || connection === 'close'
      ? undefined
      : connection.toLowerCase().split(/\s*,\s*/);
  const headers: http.IncomingHttpHeaders = {};
  for (const name in received) {
    if (!DROPPED.has(name) && !nominated?.includes(name)) headers[name] = received[name];
  }
  headers['content-length'] = String(length);
  return Object.assign(headers, target.credential);
}

/** A stand-in for a stream that hands the whole body to the request in one write. */
function bodySource(bytes: Buffer): Stream {
  return { pipe: (destination: ClientRequest) => destination.end(bytes) } as unknown as Stream;
}

function describeFailure(error: NodeJS.ErrnoException, name: string): StageError {
  if (error instanceof StageError) return error;
  const details = { upstream: name };
  switch (error.code) {
    case 'ECONNECT_TIMEOUT':
    case 'ECONNREFUSED':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ETIMEDOUT':
      return new StageError('upstream_unreachable', `No connection to the upstream "${name}" (${error.code}).`, {
        details,
      });
    default:
      return new StageError('upstream_failed', `The upstream "${name}" dropped the connection before it answered.`, {
        details,
      });
  }
}

/**
 * What is wrong with an answer that is not the API's: a redirect, a page, nothing at all. Its status is kept when it is
 * an error, because clients decide by it whether to try again.
 */
function refuseForeignAnswer(
  response: IncomingMessage,
  name: string,
  first: Buffer | undefined,
): StageError | undefined {
  const status = response.statusCode!;
  const found = foreignContent(response, first);
  if (found === undefined) return undefined;
  const message = `The upstream "${name}" answered with ${found} (status ${status}) where JSON was expected.`;
  const retry_after = response.headers['retry-after'];
  return new StageError('upstream_invalid', message, {
    details: { upstream: name, upstream_status: status },
    ...(status >= 400 && { status }),
    headers: {
      ...(retry_after !== undefined && { 'retry-after': retry_after }),
      // A client error stays one however often it is repeated.
      ...(status >= 400 && status < 500 && status !== 429 && { 'x-should-retry': 'false' }),
    },
  });
}

function foreignContent({ statusCode, headers }: IncomingMessage, first: Buffer | undefined): string | undefined {
  if (statusCode! >= 300 && statusCode! < 400) return 'a redirect';
  if (first === undefined) return 'an empty body';
  const type = headers['content-type'] ?? '';
  if (/json|event-stream/.test(type)) return undefined;
  const readable = (headers['content-encoding'] ?? 'identity') === 'identity';
  const json = readable ? /^\s*[{[]/.test(first.toString('latin1', 0, 64)) : type === '';
  return json ? undefined : type.includes('html') ? 'an HTML page' : 'something else';
}

export default defineStage<
  Record<never, never>,
  'route.upstream' | 'route.upstream_model' | 'request.model',
  never,
  'upstream.status' | 'upstream.attempts' | 'upstream.ttfb_ms' | 'upstream.request_id'
>({
  name: 'forward',
  version: 1,
  summary: "Sends the received bytes to the route's upstream and streams its response back.",
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: forward' }],
  reads: ['route.upstream', 'route.upstream_model', 'request.model'],
  writes: ['upstream.status', 'upstream.attempts', 'upstream.ttfb_ms', 'upstream.request_id'],
  raises: ['upstream_unreachable', 'upstream_failed', 'upstream_invalid', 'upstream_timeout'],
  needs: ['raw-body', 'rewrite-body', 'respond', 'network'],
  terminal: true,
  create(_options, { config, clock, secret }) {
    const { timeouts } = config.server;
    const targets = new Map(config.upstreams.map((upstream) => [upstream.name, createTarget(upstream, secret)]));
    const proxy = createProxyServer({ connectTimeout: timeouts.connect_seconds * 1000 });

    proxy.on('proxyReq', (request, req, _res, _options, socket) => {
      const entry = (req as ProxiedRequest)[WAITING];
      if (entry === undefined) return void request.destroy();
      entry.request = request;
      if (!socket.connecting) entry.sent = true;
      else socket.once('encrypted' in socket ? 'secureConnect' : 'connect', () => (entry.sent = true));
    });
    proxy.on('proxyRes', (response, req) => {
      const entry = (req as ProxiedRequest)[WAITING];
      if (entry === undefined) response.destroy();
      else entry.resolve(response);
    });
    proxy.on('econnreset', (error, req) => (req as ProxiedRequest)[WAITING]?.reject(error));

    function send(req: IncomingMessage, res: http.ServerResponse, target: Target, bytes: Buffer, entry: Waiting): void {
      const { headers, url } = req;
      req.headers = upstreamHeaders(headers, target, bytes.length);
      req.url = target.path_prefix + url;
      proxy.web(
        req,
        res,
        {
          target: target.url,
          agent: target.agent,
          changeOrigin: true,
          prependPath: false,
          // The path and query travel as received; parsing them as a URL would re-encode them.
          toProxy: true,
          selfHandleResponse: true,
          buffer: bodySource(bytes),
        },
        (error) => entry.reject(error),
      );
      // The proxy has made its request from them by now; nobody else may see the upstream's credential.
      req.headers = headers;
      req.url = url;
    }

    return {
      async request(ctx): Promise<Relay> {
        const target = targets.get(ctx.get('route.upstream'))!;
        const model = ctx.get('route.upstream_model');
        if (model !== ctx.get('request.model')) ctx.body!.rewrite('model', model);
        const { req, res } = ctx.exchange;
        const started = clock.monotonic();
        let entry: Waiting | undefined;
        let timer: Timer | undefined;
        try {
          const response = await new Promise<IncomingMessage>((resolve, reject) => {
            const pending: Waiting = { resolve, reject, request: undefined, sent: false };
            entry = pending;
            (req as ProxiedRequest)[WAITING] = pending;
            const giveUp = (reason: StageError) => {
              reject(reason);
              pending.request?.destroy();
            };
            ctx.onCancel(giveUp);
            timer = clock.after(timeouts.first_byte_seconds * 1000, () => {
              const message = `The upstream "${target.name}" did not begin to answer within ${timeouts.first_byte_seconds} seconds.`;
              giveUp(new StageError('upstream_timeout', message, { details: { upstream: target.name } }));
            });
            send(req, res, target, ctx.body!.bytes, pending);
          });
          ctx.set('upstream.status', response.statusCode!);
          ctx.set('upstream.ttfb_ms', clock.monotonic() - started);
          const request_id = response.headers['request-id'] ?? response.headers['x-request-id'];
          if (typeof request_id === 'string') ctx.set('upstream.request_id', request_id);
          return relayOf(response, target.name, timeouts.idle_seconds);
        } catch (error) {
          throw describeFailure(error as NodeJS.ErrnoException, target.name);
        } finally {
          timer?.close();
          (req as ProxiedRequest)[WAITING] = undefined;
          if (entry?.sent) ctx.set('upstream.attempts', 1);
        }
      },
      close() {
        for (const target of targets.values()) target.agent.destroy();
      },
    };
  },
});

function relayOf(response: IncomingMessage, name: string, idle_seconds: number): Relay {
  const stream = response.statusCode === 200 && (response.headers['content-type'] ?? '').includes('text/event-stream');
  return {
    kind: 'relay',
    response,
    idle_seconds,
    ...(!stream && { inspect: (first) => refuseForeignAnswer(response, name, first) }),
  };
}
