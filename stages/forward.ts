import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import {
  type DrainLimits,
  defineStage,
  isEventStream,
  type Relay,
  type Services,
  type StageContext,
  StageError,
  type UpstreamConfig,
} from '../engine/api.ts';
import { askedIn, definitionOf, type Protocol, protocolOf, spellBound } from '../engine/protocols/index.ts';
import {
  createUpstreamClient,
  describeTranslated,
  dropDigests,
  forwardedHeaders,
  type MessagesHeaders,
  messagesHeaders,
  type OutgoingRequest,
  refuseForeignAnswer,
  type Sending,
  type UpstreamClient,
  upstreamCredential,
  upstreamPaths,
} from '../engine/upstreams/index.ts';

/** An upstream with everything a request to it needs, prepared once. */
interface Target {
  readonly name: string;
  readonly protocols: readonly Protocol[];
  /** Puts a path behind that of the base URL. */
  readonly pathOf: (path: string) => string;
  readonly client: UpstreamClient;
  readonly credential: Readonly<Record<string, string>>;
  readonly messages_headers: MessagesHeaders;
  readonly max_tokens_field: UpstreamConfig['max_tokens_field'];
  /** Headers that reach it though they choose who serves or pays. */
  readonly allowed_headers: ReadonlySet<string>;
  /** Absent where an answer is cancelled when its client has gone. */
  readonly drain: DrainLimits | undefined;
}

function createTarget(upstream: UpstreamConfig, { config, clock, secret }: Services): Target {
  const { profile, timeouts } = config.server;
  const { connect_seconds } = timeouts;
  return {
    name: upstream.name,
    protocols: upstream.protocols,
    pathOf: upstreamPaths(upstream),
    client: createUpstreamClient({ url: new URL(upstream.base_url), connect_seconds, clock }),
    credential: upstreamCredential(upstream, secret),
    messages_headers: messagesHeaders(upstream.profile, profile),
    max_tokens_field: upstream.max_tokens_field,
    allowed_headers: new Set(upstream.allow_headers),
    drain:
      upstream.on_client_abort === 'drain'
        ? { ...upstream.drain_limits, running: 0, running_of: new Map() }
        : undefined,
  };
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

const READS = ['route.upstream', 'route.upstream_model', 'request.model', 'request.protocol'] as const;
const READS_IF_SET = ['route.protocol', 'request.alias', 'request.stream', 'spend.most_nano_usd'] as const;
const WRITES = [
  'request.dropped_headers',
  'upstream.status',
  'upstream.attempts',
  'upstream.retry',
  'upstream.certainty',
  'upstream.ttfb_ms',
  'upstream.request_id',
] as const;

type ForwardContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

export default defineStage({
  name: 'forward',
  version: 1,
  summary: "Sends the received bytes to the route's upstream and streams its response back.",
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: forward' }],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: WRITES,
  raises: ['not_supported', 'upstream_unreachable', 'upstream_failed', 'upstream_invalid', 'upstream_timeout'],
  needs: ['raw-body', 'rewrite-body', 'respond', 'network'],
  terminal: true,
  create(_options, services) {
    const { config, clock } = services;
    const { timeouts } = config.server;
    const targets = new Map(config.upstreams.map((upstream) => [upstream.name, createTarget(upstream, services)]));

    /** The client's headers that go upstream; notes those that do not because of what they decide. */
    function forwardHeaders(ctx: ForwardContext, { allowed_headers }: Target): IncomingHttpHeaders {
      const { headers, dropped } = forwardedHeaders(ctx.call.req.headers, allowed_headers);
      if (dropped !== undefined) ctx.set('request.dropped_headers', dropped);
      return headers;
    }

    /** Raises not_supported when the upstream would not understand the body. */
    function prepare(ctx: ForwardContext, target: Target): OutgoingRequest {
      const own = ctx.get('request.protocol');
      const spoken = protocolOf(own);
      const protocol = (ctx.get('route.protocol') as Protocol | undefined) ?? askedIn(own, target.protocols);
      const foreign = spoken !== undefined && protocol !== spoken;
      const body = ctx.body!;
      if (foreign && !body.replaced) throw notTranslated(target, own, spoken);
      const model = ctx.get('route.upstream_model');
      if (!body.replaced && model !== (ctx.get('request.alias') ?? ctx.get('request.model')))
        body.rewrite('model', model);
      if (!body.replaced && protocol === 'chat' && target.max_tokens_field !== undefined)
        spellBound(body, target.max_tokens_field);
      const headers = forwardHeaders(ctx, target);
      if (body.rewritten) dropDigests(headers);
      if (ctx.converts_response) headers['accept-encoding'] = 'identity';
      if (foreign) {
        const stream = ctx.get('request.stream') ?? false;
        describeTranslated(headers, { protocol, stream, messages: target.messages_headers });
      }
      headers['content-length'] = String(body.bytes.length);
      Object.assign(headers, target.credential);
      const path = target.pathOf(foreign ? definitionOf(protocol).path : ctx.url);
      return { method: ctx.call.req.method!, path, headers, body: body.bytes };
    }

    /** Longest wait for an answer: without a stream, nothing of it comes before it is complete. */
    function firstByteSeconds(ctx: ForwardContext): number {
      const soon = ctx.get('request.stream') === true || ctx.get('request.protocol') === 'count_tokens';
      return soon ? timeouts.first_byte_seconds : timeouts.unstreamed_first_byte_seconds;
    }

    function relayTo(ctx: ForwardContext, response: IncomingMessage, name: string): Relay {
      const relay = relayOf(response, name, timeouts.idle_seconds);
      const first_chunk_seconds = Math.max(timeouts.idle_seconds, firstByteSeconds(ctx));
      return ctx.get('request.stream') === true ? relay : { ...relay, first_chunk_seconds };
    }

    /** Waits for the head of the answer; when it comes too late for the client, it is read for its bill all the same. */
    function awaitHead(ctx: ForwardContext, { name, drain }: Target, sending: Sending): Promise<IncomingMessage> {
      return new Promise((resolve, reject) => {
        const giveUp = (reason: StageError) => sending.abandon(reason);
        ctx.onCancel(giveUp);
        ctx.drainWithin(hasBill(ctx) ? drain : undefined);
        const seconds = firstByteSeconds(ctx);
        const timer = clock.after(seconds * 1000, () => {
          // How long an answer is read on that nobody waits for is decided elsewhere.
          if (ctx.aborted) return;
          const late = sending.answer.then((response) => relayTo(ctx, response, name));
          late.catch(() => {});
          const is_sent = sending.attempts > 0;
          const goes_on = is_sent && ctx.drainLater(late, seconds, giveUp);
          const reason = tooLate(name, seconds, { is_sent, goes_on });
          if (goes_on) reject(reason);
          else giveUp(reason);
          sending.forgetBody();
        });
        sending.answer.then(resolve, reject).finally(() => timer.close());
      });
    }

    return {
      async request(ctx): Promise<Relay> {
        const target = targets.get(ctx.get('route.upstream'))!;
        const sending = target.client.send(prepare(ctx, target));
        const started = clock.monotonic();
        let response: IncomingMessage | undefined;
        try {
          response = await awaitHead(ctx, target, sending);
          if (sending.body_is_sent) ctx.body?.free();
          ctx.set('upstream.status', response.statusCode!);
          ctx.set('upstream.ttfb_ms', clock.monotonic() - started);
          const request_id = response.headers['request-id'] ?? response.headers['x-request-id'];
          if (typeof request_id === 'string') ctx.set('upstream.request_id', request_id);
          return relayTo(ctx, response, target.name);
        } catch (error) {
          throw describeFailure(error as NodeJS.ErrnoException, target.name);
        } finally {
          const { attempts, resent } = sending;
          const sent = attempts > 0 ? 'possibly_accepted' : 'not_sent';
          ctx.set('upstream.certainty', response === undefined ? sent : 'answered');
          if (attempts > 0) ctx.set('upstream.attempts', attempts);
          if (resent !== undefined) ctx.set('upstream.retry', resent);
        }
      },
      close() {
        for (const { client } of targets.values()) client.close();
      },
    };
  },
});

/** A request that left is not said to be one to send again: the upstream may be at work on it, and bill it. */
function tooLate(
  name: string,
  seconds: number,
  { is_sent, goes_on }: { is_sent: boolean; goes_on: boolean },
): StageError {
  const fact = `The upstream "${name}" did not begin to answer within ${seconds} seconds.`;
  const details = { upstream: name };
  if (!is_sent) return new StageError('upstream_timeout', fact, { details });
  const money = goes_on
    ? 'Its answer is waited for and charged if it comes'
    : 'It was given up, and the upstream may bill it all the same';
  const message = `${fact} ${money}; the same request sent again is paid again.`;
  return new StageError('upstream_timeout', message, { details, headers: { 'x-should-retry': 'false' } });
}

/** Whether there is a bill to be known: counting tokens and what is not charged cost nothing. */
function hasBill(ctx: ForwardContext): boolean {
  return ctx.get('request.protocol') !== 'count_tokens' && ctx.get('spend.most_nano_usd') !== 0;
}

function notTranslated({ name, protocols }: Target, protocol: string, spoken: Protocol): StageError {
  const speaks = `The upstream "${name}" speaks ${protocols.join(' and ')} and not ${spoken}`;
  const message =
    protocol === 'count_tokens'
      ? `${speaks}, so it cannot count tokens.`
      : `${speaks}, and nothing in this pipeline translates: the stage \`translate\` belongs above \`forward\`.`;
  return new StageError('not_supported', message, { details: { upstream: name } });
}

function relayOf(response: IncomingMessage, name: string, idle_seconds: number): Relay {
  const stream = response.statusCode === 200 && isEventStream(response.headers['content-type']);
  return {
    kind: 'relay',
    response,
    idle_seconds,
    ...(!stream && { inspect: (first) => refuseForeignAnswer(response, name, first) }),
  };
}
