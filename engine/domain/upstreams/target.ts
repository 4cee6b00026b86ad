import type { UpstreamConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import { negotiatedProtocol, type Protocol, protocolOf } from '../../base/contract/protocol.ts';
import type { CompressedBody } from '../../base/contract/request-body.ts';
import type { Services } from '../../base/contract/services.ts';
import type { ReadToEndLimits, StageContext } from '../../base/contract/stage.ts';
import { configuredProxyRoute } from '../../base/kit/net/proxy-route.ts';
import { secretPlace } from '../../base/kit/secret-names.ts';
import { definitionOf, spellBound } from '../protocols/index.ts';
import {
  describeTranslated,
  dropDigests,
  fixedHeaders,
  fixHeaders,
  forwardedHeaders,
  type HeaderPrefixes,
  headerPrefixes,
  type Propagation,
  upstreamCredential,
  upstreamPaths,
} from './headers.ts';
import { DirectTransport } from './transports/direct-transport.ts';
import { createProxyTransport } from './transports/proxy-transport.ts';
import type { OutgoingRequest, Transport, TransportOptions } from './transports/transport.ts';

/** Facts required for sending a request upstream. */
export const FORWARD_READS = [
  'route.upstream',
  'route.upstream_model',
  'request.id',
  'request.model',
  'request.protocol',
  'request.client.address',
] as const;

/** Optional facts that sending reads. */
export const FORWARD_READS_IF_SET = [
  'route.protocol',
  'cache.downgraded',
  'cache.effective_ttl',
  'request.alias',
  'request.stream',
  'spend.most_nano_usd',
  'error.code',
  'error.status',
  'principal.id',
  'outcome.unread',
] as const;

/** Facts that sending writes. */
export const FORWARD_WRITES = [
  'request.dropped_headers',
  'upstream.status',
  'upstream.attempts',
  'upstream.retry',
  'upstream.certainty',
  'upstream.ttfb_ms',
  'upstream.request_id',
  'upstream.error_rewritten',
] as const;

export type ForwardContext = StageContext<
  (typeof FORWARD_READS)[number],
  (typeof FORWARD_READS_IF_SET)[number],
  (typeof FORWARD_WRITES)[number]
>;

/** An upstream with its prepared settings. */
export interface Target {
  readonly config: UpstreamConfig;
  /** Appends a request path to the base URL's path. */
  readonly pathOf: (path: string) => string;
  readonly transport: Transport;
  readonly credential: Readonly<Record<string, string>>;
  /** Headers of gateway.yaml, added to every request. */
  readonly fixed_headers: Readonly<Record<string, string>>;
  readonly credential_name: string | undefined;
  readonly header_prefixes: HeaderPrefixes;
  readonly allowed_headers: ReadonlySet<string>;
  readonly propagate: Propagation;
  /** Absent if responses are cancelled when the client disconnects. */
  readonly drain: ReadToEndLimits | undefined;
}

export function createTarget(upstream: UpstreamConfig, { config, clock, secret }: Services): Target {
  const { connect_seconds } = config.server.timeouts;
  const { proxy } = configuredProxyRoute(upstream.proxy, secret);
  const credential = upstream.api_key_env ?? upstream.auth_token_env;
  return {
    config: upstream,
    pathOf: upstreamPaths(upstream),
    transport: openTransport(upstream, { connect_seconds, clock, proxy }),
    credential: upstreamCredential(upstream, secret),
    fixed_headers: fixedHeaders(upstream, secret),
    credential_name: credential === undefined ? undefined : secretPlace(credential),
    header_prefixes: headerPrefixes(upstream.profile, config.server.profile),
    allowed_headers: new Set(upstream.allow_headers),
    propagate: config.telemetry.propagate,
    drain:
      upstream.on_client_abort === 'drain'
        ? { ...upstream.drain_limits, running: 0, running_of: new Map() }
        : undefined,
  };
}

/** The protocol of a request at a target. */
export function protocolAt(ctx: ForwardContext, { config }: Target): Protocol {
  return (
    (ctx.get('route.protocol') as Protocol | undefined) ??
    negotiatedProtocol(ctx.get('request.protocol'), config.protocols)
  );
}

/** The request for a target, and the dropped headers of the client. */
export interface PreparedRequest extends OutgoingRequest {
  readonly dropped_headers: readonly string[] | undefined;
}

/** Methods that send no `content-length` without a body. */
const BODILESS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE']);

/** Makes the request for a target. Raises not_supported where the target does not speak the protocol of the body. */
export function requestFor(ctx: ForwardContext, target: Target): PreparedRequest {
  const own = ctx.get('request.protocol');
  const spoken = protocolOf(own);
  const protocol = protocolAt(ctx, target);
  const foreign = spoken !== undefined && protocol !== spoken;
  const body = ctx.body!;
  if (foreign && !body.replaced) throw notTranslated(target.config, own, spoken);
  const model = ctx.get('route.upstream_model');
  if (!body.replaced && model !== (ctx.get('request.alias') ?? ctx.get('request.model'))) body.rewrite('model', model);
  const { max_tokens_field } = target.config;
  if (!body.replaced && max_tokens_field !== undefined && definitionOf(protocol).output.fields.length > 1)
    spellBound(body, max_tokens_field);
  const compressed = takenBy(target.config, body.compressed);
  const { headers, dropped } = forwardedHeaders(ctx.call.req.headers, target.allowed_headers, target.propagate);
  if (compressed === undefined && body.decompress()) delete headers['content-encoding'];
  if (body.rewritten) dropDigests(headers);
  if (ctx.converts_response) headers['accept-encoding'] = 'identity';
  if (foreign) {
    const stream = ctx.get('request.stream') ?? false;
    describeTranslated(headers, { protocol, stream, prefixes: target.header_prefixes });
  }
  const { bytes } = compressed ?? body;
  if (bytes.length > 0 || !BODILESS.has(ctx.call.req.method!)) headers['content-length'] = String(bytes.length);
  const replaced = fixHeaders(headers, target.fixed_headers);
  Object.assign(headers, target.credential);
  const dropped_headers = replaced.length === 0 ? dropped : [...(dropped ?? []), ...replaced];
  const path = target.pathOf(foreign ? definitionOf(protocol).path : ctx.url);
  return { method: ctx.call.req.method!, path, headers, body: bytes, dropped_headers };
}

/** The compressed body, where the upstream accepts its encoding. */
function takenBy({ supports }: UpstreamConfig, compressed: CompressedBody | undefined): CompressedBody | undefined {
  const taken: readonly string[] = supports.request_encodings;
  return compressed?.encodings.every((encoding) => taken.includes(encoding)) ? compressed : undefined;
}

/** The error for a request that is not translated; only the log names the upstream. */
function notTranslated({ name, protocols }: UpstreamConfig, protocol: string, spoken: Protocol): StageError {
  const speaks = `the upstream "${name}" speaks ${protocols.join(' and ')} and not ${spoken}`;
  const reason =
    protocol === 'count_tokens'
      ? `${speaks}, so it cannot count tokens`
      : `${speaks}, and this pipeline does not translate: add the stage \`translate\` above \`forward\``;
  const apis = protocols
    .map((each) => `${definitionOf(each).name} API: POST ${definitionOf(each).path}`)
    .join(' or the ');
  const message =
    protocol === 'count_tokens'
      ? 'The upstream of this model cannot count tokens. Use the token counts of a response.'
      : `The upstream of this model does not speak the protocol of this request. Use the ${apis}.`;
  return new StageError('not_supported', message, { cause: new Error(reason) });
}

/** Creates the transport to an upstream, as gateway.yaml selects it. */
export function openTransport(
  { base_url, transport }: Pick<UpstreamConfig, 'base_url' | 'transport'>,
  more: Omit<TransportOptions, 'url'>,
): Transport {
  const options = { ...more, url: new URL(base_url) };
  return transport === 'proxy' ? createProxyTransport(options) : new DirectTransport(options);
}
