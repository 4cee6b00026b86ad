import { FACTS } from '../../../base/contract/facts.ts';
import { ATTEMPT_REASONS, CERTAINTIES, DROP_REASONS } from '../../../base/contract/forwarding.ts';
import { SERVED } from '../../../base/contract/protocol.ts';
import type { OperationName } from '../../../base/contract/telemetry.ts';
import { LIMIT_WINDOWS, SPEND_WINDOWS } from '../../../base/contract/windows.ts';
import { isNanoUsd } from '../../../base/kit/money.ts';
import type { CounterMetric } from './metrics.ts';

interface AttributeSpec {
  /** A double has fractions; the SDK sends a whole one as an integer. */
  readonly kind: 'string' | 'number' | 'double' | 'boolean' | 'strings';
  readonly meaning: string;
  readonly values?: readonly string[];
  /** Only with this value of `telemetry.conventions`; absent: with any. */
  readonly conventions?: '1.41' | 'latest';
}

interface EventSpec {
  readonly meaning: string;
  readonly attributes: readonly string[];
}

interface SpanSpec {
  /** Span name; parts in braces vary. */
  readonly name: string;
  readonly kind: 'server' | 'client' | 'internal';
  readonly meaning: string;
  readonly attributes: readonly string[];
  readonly events: readonly string[];
}

const names = (all: string): readonly string[] => all.trim().split(/\s+/);

const attribute =
  (kind: AttributeSpec['kind']) =>
  (meaning: string, values?: string | readonly string[]): AttributeSpec => {
    return { kind, meaning, ...(values && { values: typeof values === 'string' ? names(values) : values }) };
  };
const text = attribute('string');
const number = attribute('number');
const double = attribute('double');
const flag = attribute('boolean');
const list = attribute('strings');

const LIFETIMES = ['none', '5m', '1h'];
const CACHE_WRITE = number('Input tokens written to the prompt cache, if any');

const FACT_ATTRIBUTES: Readonly<Record<string, AttributeSpec>> = Object.fromEntries(
  Object.entries(FACTS).flatMap(([path, fact]) => {
    if (!('attribute' in fact)) return [];
    const spec = isNanoUsd(path)
      ? double(fact.meaning.replace('nano-USD', 'US dollars'))
      : attribute(fact.kind as AttributeSpec['kind'])(fact.meaning, 'values' in fact ? fact.values : undefined);
    return [[fact.attribute, spec]];
  }),
);

export interface OperationSpanSpec {
  readonly meaning: string;
  /** Counter of the operation; absent for the start. */
  readonly counter?: CounterMetric;
  /** Allowed attributes; others are dropped. */
  readonly attributes: Readonly<Record<string, AttributeSpec>>;
}

const REQUEST = { 'gateway.request_id': text('Identifier of the request, as in its response and in the log') };
const ERROR = { 'error.type': text('Kind of error, in one word; absent on success') };
const HASH = { 'gateway.config.hash': text('Hash of the current configuration') };

/**
 * Spans of operations outside of pipelines. Each is the root of a trace, unless its caller sent a `traceparent`. They do not identify
 * the person; the log and `admin_changes` do.
 */
export const OPERATION_SPANS = {
  'gateway.sign_in': {
    counter: 'gateway.sign_ins',
    meaning: 'A step of a sign-in: its start, or the return from the identity provider',
    attributes: {
      'gateway.sign_in.outcome': text(
        'begun, approved, declined (by the person), refused (by provider or gateway), failed',
      ),
      ...REQUEST,
      ...ERROR,
    },
  },
  'gateway.session': {
    counter: 'gateway.sessions',
    meaning: 'A session began, was renewed or signed out',
    attributes: {
      'gateway.session.outcome': text('began, repeated (after a lost response), renewed, refused, ended, failed'),
      ...REQUEST,
      ...ERROR,
    },
  },
  'gateway.account_check': {
    counter: 'gateway.account_checks',
    meaning: 'The gateway checked at the identity provider whether an account is still active',
    attributes: {
      'gateway.account_check.outcome': text('verified, not_admitted, refused, unaskable, busy, unavailable'),
    },
  },
  'gateway.admin_change': {
    counter: 'gateway.admin_changes',
    meaning:
      'A change or attempted change through the admin API, or by the gateway after an account check; changes by commands are only in `admin_changes`',
    attributes: {
      'gateway.admin.action': text('Action, as in `admin_changes`'),
      'gateway.admin.actor_kind': text('person, service, gateway, or none for an unknown caller'),
      'gateway.admin.subject': text('Identifier of the created or changed token, session or grant'),
      ...REQUEST,
      ...ERROR,
    },
  },
  'gateway.reload': {
    counter: 'gateway.reloads',
    meaning: 'A reload of the configuration',
    attributes: {
      'gateway.reload.result': text('in_force or failed'),
      'gateway.reload.changed_files': number('Number of changed files'),
      'gateway.reload.needs_restart': list('Keys that keep their old value until a restart'),
      'gateway.reload.findings': list('Codes of the findings that made the reload fail'),
      ...HASH,
      ...ERROR,
    },
  },
  'gateway.start': {
    meaning: 'The start of a gateway, from the start of its process until it listens',
    attributes: { 'gateway.start.pipelines': number('Number of pipelines'), ...HASH },
  },
} as const satisfies Readonly<Record<OperationName, OperationSpanSpec>>;

export const EVENTS: Readonly<Record<string, EventSpec>> = {
  'gateway.decision': {
    meaning: 'A rule or policy decided, or matched in shadow mode',
    attributes: names('gateway.decision.kind gateway.rule gateway.rule.mode gateway.decision.outcome gateway.upstream'),
  },
  'gateway.refused': {
    meaning: 'The gateway responded with its own error; one event for each exceeded limit',
    attributes: names(`
      gateway.error.code gateway.error.stage gateway.rule gateway.limit.scope gateway.limit.window
      gateway.limit.unit gateway.limit.limit gateway.limit.spent gateway.limit.held gateway.limit.needed
      gateway.limit.resets_at
    `),
  },
  'gateway.fallback': {
    meaning: 'The request left or skipped an upstream',
    attributes: ['gateway.upstream', 'gateway.fallback.reason', 'gateway.attempt'],
  },
  'gateway.cache.downgraded': {
    meaning: 'One hour of prompt cache was requested, and five minutes were requested from the upstream',
    attributes: names(
      'gateway.cache.requested gateway.cache.effective gateway.cache.downgrade.reason gateway.upstream',
    ),
  },
};

const OPERATIONS = Object.entries<OperationSpanSpec>(OPERATION_SPANS);

/** Every attribute of spans, events and metrics, by name. The dollars are those of gateway.yaml's prices. */
export const ATTRIBUTES: Readonly<Record<string, AttributeSpec>> = {
  ...Object.assign({}, ...OPERATIONS.map(([, { attributes }]) => attributes)),
  ...FACT_ATTRIBUTES,
  'http.request.method': text('HTTP method'),
  'http.route': text('Path of the pipeline that served the request, such as `/v1/models/*`'),
  'http.response.status_code': number('HTTP status; 499 if the client disconnected before any'),
  'url.scheme': text('Scheme of the public URL', 'http https'),
  'server.address': text('Host of the public URL; for an attempt, host of the upstream'),
  'server.port': number('Port of that host'),
  'user_agent.name': text('Product name in the user-agent header, if it looks like one'),
  'user_agent.version': text('Product version in the user-agent header, if it looks like one'),
  'error.type': text(
    'Kind of error: an error code of the gateway, a row of the failover table, an HTTP status, or the reason of a rejected sign-in',
  ),
  'enduser.id': text('Pseudonym of the caller, a keyed hash; only with `telemetry.caller: pseudonym`'),
  'gateway.config.hash': text('Hash of the current configuration'),
  'gateway.pipeline': text('Pipeline that served the request'),
  'gateway.protocol': text('Protocol of the pipeline', SERVED.join(' ')),
  'gateway.outcome': text(
    'Outcome: answered; refused (by the gateway); upstream_refused (the upstream found the request wrong); failed; aborted (by the client)',
    'answered refused upstream_refused failed aborted',
  ),
  'gateway.status_class': text('Class of the HTTP status', '2xx 3xx 4xx 5xx'),
  'gateway.model': text('Requested model of gateway.yaml, with aliases resolved'),
  'gateway.model.unknown': text(
    'Name of a requested model that does not exist, shortened, and only if it looks like a name',
  ),
  'gateway.upstream': text('Upstream of the request, attempt or fallback'),
  'gateway.upstream.protocol': text('Protocol of the request to the upstream, if not that of the client'),
  'gateway.upstream.region': text('Region of the upstream'),
  'gateway.upstream.request_id': text("The upstream's request identifier"),
  'gateway.fallback': flag('True if the request skipped or left an upstream for another one'),
  'gateway.fallback.reason': text('Reason: of a failed attempt, or why an upstream was skipped', [
    ...Object.keys(ATTEMPT_REASONS).filter((reason) => reason.startsWith('next_')),
    ...Object.keys(DROP_REASONS),
  ]),
  'gateway.attempts': number('Number of attempts, if several'),
  'gateway.attempt': number('Number of the attempt, from 1'),
  'gateway.attempt.reason': text('What happened after the attempt', Object.keys(ATTEMPT_REASONS)),
  'gateway.attempt.outcome': text('Row of the failover table; on spans only for a failed attempt'),
  'gateway.attempt.certainty': text(
    'How far a failed attempt got: not sent, possibly accepted by the upstream, or with a response (answered)',
    CERTAINTIES,
  ),
  'gateway.attempt.sends': number('How often it was sent, if not once'),
  'gateway.unconfirmed_attempts': number('Unanswered attempts that an upstream may have accepted, if any'),
  'gateway.replaced': list(
    'Stages that replaced something in the texts of the response, or matched in shadow mode, by id',
  ),
  'gateway.cache.requested': text('Longest requested lifetime of the prompt cache', LIFETIMES),
  'gateway.cache.effective': text('Longest lifetime in the request to the upstream', LIFETIMES),
  'gateway.cache.downgraded': flag('True if five minutes were requested instead of one hour'),
  'gateway.cache.downgrade.reason': text('Reason of the downgrade', 'upstream_unsupported'),
  'gateway.cost_usd': double('Cost in US dollars'),
  'gateway.cost.source': text('Source of the cost, if the upstream did not report usage'),
  'gateway.budget.rule': text('Rule of the money limit with the least headroom'),
  'gateway.budget.window': text('Window of that limit', SPEND_WINDOWS),
  'gateway.budget.used_ratio': double('Spent and reserved share of that limit, including this request'),
  'gateway.budget.remaining_usd': double('Remaining amount of that limit, in US dollars'),
  'gateway.time_to_first_byte': double('Seconds from forwarding to the first byte of a non-streaming response'),
  'gateway.aborted': flag('True if the client disconnected before the end'),
  'gateway.shadow': list('Matches in shadow mode, by name'),
  'gateway.sampled.reason': text(
    'Why the request is sampled regardless of the ratio; absent if sampled by the ratio',
    'refused upstream_refused failed fallback downgraded slow',
  ),
  'gateway.rule': text('Name of the rule or policy that decided'),
  'gateway.rule.mode': text('Mode of the rule', 'enforce shadow'),
  'gateway.decision.kind': text(
    'Kind of rule: routing rule, access rule, spend rule, managed policy, token group or stage of the pipeline',
    'route access spend policy token_group stage',
  ),
  'gateway.decision.outcome': text(
    'Decision; `matched` for a rule in shadow mode, which has no effect',
    'routed refused served matched',
  ),
  'gateway.limit.scope': text('Scope of the limit, such as `team` or `user+model`'),
  'gateway.limit.window': text('Window of the limit; `open` for concurrent requests', LIMIT_WINDOWS),
  'gateway.limit.unit': text('Unit of the limit', 'usd requests tokens'),
  'gateway.limit.limit': double('The limit, in its unit'),
  'gateway.limit.spent': double('Spent or used amount'),
  'gateway.limit.held': double('Amount reserved for other requests'),
  'gateway.limit.needed': double('Amount that the request needed'),
  'gateway.limit.resets_at': text('End of its window (RFC 3339)'),
  'gateway.token.type': text(
    'Price category of the tokens',
    'uncached_input cache_read cache_write_5m cache_write_1h output',
  ),
  'gen_ai.operation.name': text('Operation of the model', 'chat count_tokens'),
  'gen_ai.provider.name': text('Provider by the address of the upstream, otherwise by its API'),
  'gen_ai.request.model': text('Model in the request to the upstream'),
  'gen_ai.request.max_tokens': number('Output limit in the request of the client'),
  'gen_ai.request.stream': flag('Whether the client requested a stream'),
  'gen_ai.request.choice.count': number('Requested number of responses, if not one'),
  'gen_ai.response.model': text('Model that responded, by its name at the upstream'),
  'gen_ai.response.time_to_first_chunk': double('Seconds until the first byte of a streamed response'),
  'gen_ai.conversation.id': text('Session of the client, if it is a UUID; only with `telemetry.caller: pseudonym`'),
  'gen_ai.usage.input_tokens': number('Input tokens, including those read from and written to the cache'),
  'gen_ai.usage.output_tokens': number('Output tokens'),
  'gen_ai.usage.cache_read.input_tokens': number('Input tokens read from the prompt cache, if any'),
  'gen_ai.usage.cache_creation.input_tokens': { ...CACHE_WRITE, conventions: '1.41' },
  'gen_ai.usage.cache_write.input_tokens': { ...CACHE_WRITE, conventions: 'latest' },
  'gen_ai.token.type': text('Whether tokens are input or output', 'input output'),
  'service.version': text('Version of the gateway'),
  'process.runtime.version': text('Version of Node.js'),
  'gateway.breaker.state': text(
    'State of an upstream',
    'closed open half_open limited credential model_missing drained',
  ),
  'gateway.breaker.mode': text('Mode of the circuit breaker', 'enforce shadow'),
  'gateway.waiting.place': text('Place of rows and records that wait for the database', 'memory spool'),
  'gateway.reservation.path': text(
    'Whether a reservation came from a budget lease, or waited for the database',
    'leased waited',
  ),
  'gateway.lease.event': text(
    'Event of a budget lease: taken, refused (too little budget is left), or recalled (before a rejection)',
    'taken refused recalled',
  ),
  'nodejs.eventloop.state': text('State of the event loop', 'active idle'),
  'cpu.mode': text('CPU mode', 'user system'),
  'v8js.heap.space.name': text('Space of the heap, such as `old_space`'),
  'gateway.telemetry.metric': text('Metric that has reached its limit on series'),
  'gateway.telemetry.signal': text('OpenTelemetry signal', 'traces metrics logs'),
  'gateway.telemetry.destination': text(
    "`collector` for the gateway's own telemetry; the host of the destination for telemetry of clients",
  ),
  'gateway.telemetry.reason': text(
    'Reason of the drop: full queue; rejected permanently; all attempts failed; shutdown of the gateway; too many spans of one name in a second',
    'queue_full refused failed closing flood',
  ),
  'gateway.telemetry.outcome': text(
    'Outcome of an export request: taken; refused permanently; failed, and retried',
    'taken refused failed',
  ),
};

export const SPANS: Readonly<Record<string, SpanSpec>> = {
  request: {
    name: '{http.request.method} {http.route}',
    kind: 'server',
    meaning: 'A request that a pipeline served, from its head to the end of its response',
    attributes: [
      ...names(`
      http.request.method http.route http.response.status_code url.scheme server.address server.port
      user_agent.name user_agent.version error.type enduser.id gen_ai.conversation.id gateway.config.hash
      gateway.pipeline gateway.protocol gateway.outcome gateway.model gateway.model.unknown gateway.fallback
      gateway.attempts gateway.unconfirmed_attempts gateway.replaced gateway.cache.requested
      gateway.cache.effective gateway.cache.downgraded gateway.cost.source gateway.budget.rule
      gateway.budget.window gateway.budget.used_ratio gateway.budget.remaining_usd gateway.aborted
      gateway.shadow gateway.sampled.reason
    `),
      ...Object.keys(FACT_ATTRIBUTES),
    ],
    events: ['gateway.decision', 'gateway.refused', 'gateway.fallback', 'gateway.cache.downgraded'],
  },
  attempt: {
    name: '{gen_ai.operation.name} {gen_ai.request.model}',
    kind: 'client',
    meaning: 'An attempt at an upstream; the last one has usage and cost of the response',
    attributes: names(`
      gen_ai.operation.name gen_ai.provider.name gen_ai.request.model gen_ai.request.max_tokens
      gen_ai.request.stream gen_ai.request.choice.count gen_ai.response.model
      gen_ai.response.time_to_first_chunk gen_ai.usage.input_tokens gen_ai.usage.output_tokens
      gen_ai.usage.cache_read.input_tokens gen_ai.usage.cache_creation.input_tokens
      gen_ai.usage.cache_write.input_tokens server.address server.port http.response.status_code error.type
      gateway.upstream gateway.upstream.protocol gateway.upstream.region gateway.upstream.request_id
      gateway.attempt gateway.attempt.reason gateway.attempt.outcome gateway.attempt.certainty
      gateway.attempt.sends gateway.time_to_first_byte gateway.cost_usd
    `),
    events: [],
  },
  ...Object.fromEntries(
    OPERATIONS.map(([name, { meaning, attributes }]): [string, SpanSpec] => [
      name,
      { name, kind: 'internal', meaning, attributes: Object.keys(attributes), events: [] },
    ]),
  ),
};
