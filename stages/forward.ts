import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Stream } from 'node:stream';
import { createProxyServer } from 'http-proxy-3';
import {
  API_PATHS,
  askedIn,
  defineStage,
  describeTranslated,
  forwardedHeaders,
  type Protocol,
  protocolOf,
  type Relay,
  refuseForeignAnswer,
  type StageContext,
  StageError,
  type Timer,
  type UpstreamConfig,
  upstreamCredential,
  upstreamPaths,
} from '../engine/api.ts';

/** Idle upstream connections kept open per upstream. */
const FREE_SOCKETS_MAX = 512;

/** An upstream with everything a request to it needs, prepared once. */
interface Target {
  readonly name: string;
  readonly url: URL;
  readonly protocols: readonly Protocol[];
  /** Puts a path behind that of the base URL. */
  readonly pathOf: (path: string) => string;
  readonly agent: http.Agent;
  readonly credential: Readonly<Record<string, string>>;
  /** Headers that reach it though they choose who serves or pays. */
  readonly allowed_headers: ReadonlySet<string>;
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
    protocols: upstream.protocols,
    pathOf: upstreamPaths(upstream),
    agent: createAgent(url),
    credential: upstreamCredential(upstream, secret),
    allowed_headers: new Set(upstream.allow_headers),
  };
}

/**
 * A stand-in for a stream that hands the whole body to the request in one write, and then forgets it: the proxy keeps the
 * stand-in as long as the answer streams.
 */
function bodySource(bytes: Buffer): Stream {
  let rest: Buffer | undefined = bytes;
  const pipe = (destination: ClientRequest) => {
    destination.end(rest);
    rest = undefined;
  };
  return { pipe } as unknown as Stream;
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

type Reads = 'route.upstream' | 'route.upstream_model' | 'request.model' | 'request.surface';
type ReadsIfSet = 'route.protocol' | 'request.alias' | 'request.stream';

/** What the request to the upstream differs in from the one received. */
interface Outgoing {
  readonly path: string;
  readonly headers: http.IncomingHttpHeaders;
}

export default defineStage<
  Record<never, never>,
  Reads,
  ReadsIfSet,
  'request.dropped_headers' | 'upstream.status' | 'upstream.attempts' | 'upstream.ttfb_ms' | 'upstream.request_id'
>({
  name: 'forward',
  version: 1,
  summary: "Sends the received bytes to the route's upstream and streams its response back.",
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: forward' }],
  reads: ['route.upstream', 'route.upstream_model', 'request.model', 'request.surface'],
  readsIfSet: ['route.protocol', 'request.alias', 'request.stream'],
  writes: [
    'request.dropped_headers',
    'upstream.status',
    'upstream.attempts',
    'upstream.ttfb_ms',
    'upstream.request_id',
  ],
  raises: ['not_supported', 'upstream_unreachable', 'upstream_failed', 'upstream_invalid', 'upstream_timeout'],
  needs: ['raw-body', 'rewrite-body', 'respond', 'network'],
  terminal: true,
  create(_options, { config, clock, secret }) {
    const { timeouts, profile } = config.server;
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

    /** Raises not_supported when the upstream would not understand the body. */
    function prepare(ctx: StageContext<Reads, ReadsIfSet>, target: Target): Outgoing {
      const surface = ctx.get('request.surface');
      const spoken = protocolOf(surface);
      const protocol = (ctx.get('route.protocol') as Protocol | undefined) ?? askedIn(surface, target.protocols);
      const foreign = spoken !== undefined && protocol !== spoken;
      const body = ctx.body!;
      if (foreign && !body.replaced) throw notTranslated(target, surface, spoken);
      const model = ctx.get('route.upstream_model');
      if (!body.replaced && model !== (ctx.get('request.alias') ?? ctx.get('request.model')))
        body.rewrite('model', model);
      const { headers, dropped } = forwardedHeaders(ctx.exchange.req.headers, target.allowed_headers);
      if (dropped !== undefined) ctx.set('request.dropped_headers', dropped);
      if (ctx.converts_response) headers['accept-encoding'] = 'identity';
      if (foreign) {
        const stream = ctx.get('request.stream') ?? false;
        describeTranslated(headers, { protocol, stream, header_prefix: profile.header_prefix });
      }
      headers['content-length'] = String(body.bytes.length);
      Object.assign(headers, target.credential);
      return { path: target.pathOf(foreign ? API_PATHS[protocol] : ctx.url), headers };
    }

    function send(ctx: StageContext, target: Target, outgoing: Outgoing, entry: Waiting): void {
      const { req, res } = ctx.exchange;
      const { headers, url } = req;
      req.headers = outgoing.headers;
      req.url = outgoing.path;
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
          buffer: bodySource(ctx.body!.bytes),
        },
        (error) => entry.reject(error),
      );
      // The proxy has made its request from them by now; nobody else may see the upstream's credential.
      req.headers = headers;
      req.url = url!;
    }

    return {
      async request(ctx): Promise<Relay> {
        const target = targets.get(ctx.get('route.upstream'))!;
        const outgoing = prepare(ctx, target);
        const { req } = ctx.exchange;
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
            send(ctx, target, outgoing, pending);
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

function notTranslated({ name, protocols }: Target, surface: string, spoken: Protocol): StageError {
  const speaks = `The upstream "${name}" speaks ${protocols.join(' and ')} and not ${spoken}`;
  const message =
    surface === 'count_tokens'
      ? `${speaks}, so it cannot count tokens.`
      : `${speaks}, and nothing in this pipeline translates: the stage \`translate\` belongs above \`forward\`.`;
  return new StageError('not_supported', message, { details: { upstream: name } });
}

function relayOf(response: IncomingMessage, name: string, idle_seconds: number): Relay {
  const stream = response.statusCode === 200 && (response.headers['content-type'] ?? '').includes('text/event-stream');
  return {
    kind: 'relay',
    response,
    idle_seconds,
    ...(!stream && { inspect: (first) => refuseForeignAnswer(response, name, first) }),
  };
}
