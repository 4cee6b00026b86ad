import { WINDOWS } from '../../../base/contract/config.ts';
import { ATTEMPT_REASONS, CERTAINTIES, DROP_REASONS } from '../../../base/contract/forwarding.ts';
import type { OperationName } from '../../../base/contract/telemetry.ts';
import type { CounterMetric } from './metrics.ts';

export interface AttributeSpec {
  /** A double has fractions; the SDK sends one that is whole as an integer. */
  readonly kind: 'string' | 'number' | 'double' | 'boolean' | 'strings';
  readonly meaning: string;
  /** The closed set of values, where there is one. */
  readonly values?: readonly string[];
  /** Value of `telemetry.conventions` with which it has this name; absent: with any. */
  readonly conventions?: '1.41' | 'latest';
}

export interface EventSpec {
  readonly meaning: string;
  readonly attributes: readonly string[];
}

export interface SpanSpec {
  /** As it is called; what is in braces differs. */
  readonly name: string;
  readonly kind: 'server' | 'client' | 'internal';
  readonly meaning: string;
  readonly attributes: readonly string[];
  readonly events: readonly string[];
}

const attribute =
  (kind: AttributeSpec['kind']) =>
  (meaning: string, values?: readonly string[]): AttributeSpec => ({ kind, meaning, ...(values && { values }) });
const text = attribute('string');
const number = attribute('number');
const double = attribute('double');
const flag = attribute('boolean');
const list = attribute('strings');

const names = (all: string): readonly string[] => all.trim().split(/\s+/);

/** Attributes that the conventions have for operations of models, by name. */
export const MODEL_ATTRIBUTES = {
  'gen_ai.operation.name': text('What the model was asked for', ['chat', 'count_tokens']),
  'gen_ai.provider.name': text('Provider at the address of the upstream, else whose API it is asked in'),
  'gen_ai.request.model': text('Model that the upstream was asked for'),
  'gen_ai.request.max_tokens': number('Output bound that the client asked for'),
  'gen_ai.request.stream': flag('Whether the client asked for a stream'),
  'gen_ai.request.choice.count': number('How many answers were asked for, where not one'),
  'gen_ai.response.model': text('Model that answered, as the upstream calls it'),
  'gen_ai.response.time_to_first_chunk': double('Seconds until the first byte of a streamed answer'),
  'gen_ai.conversation.id': text(
    'Session of the client, where it sent a UUID; only with `telemetry.caller: pseudonym`',
  ),
  'gen_ai.usage.input_tokens': number('Input tokens, those read from and written to the cache included'),
  'gen_ai.usage.output_tokens': number('Output tokens'),
  'gen_ai.usage.cache_read.input_tokens': number('Input tokens read from the prompt cache, where there are any'),
  'gen_ai.usage.cache_creation.input_tokens': {
    ...number('Input tokens written to the prompt cache, where there are any'),
    conventions: '1.41',
  },
  'gen_ai.usage.cache_write.input_tokens': {
    ...number('Input tokens written to the prompt cache, where there are any'),
    conventions: 'latest',
  },
  'gen_ai.token.type': text('Whether tokens are input or output', ['input', 'output']),
} as const satisfies Readonly<Record<string, AttributeSpec>>;

const LIFETIMES = ['none', '5m', '1h'];

/** Attributes of what the gateway tells about requests, by name. The dollars are those of gateway.yaml's prices. */
export const REQUEST_ATTRIBUTES = {
  'http.request.method': text('HTTP method'),
  'http.route': text('Path of the pipeline that served the request, such as `/v1/models/*`'),
  'http.response.status_code': number('HTTP status; 499 where the client left before any'),
  'url.scheme': text('Scheme of the public URL', ['http', 'https']),
  'server.address': text('Host of the public URL; of an attempt that of the upstream'),
  'server.port': number('Port of it'),
  'user_agent.name': text('Product name in the user-agent header, where it looks like one'),
  'user_agent.version': text('Product version in the user-agent header, where it looks like one'),
  'error.type': text(
    "What went wrong: an error code of the gateway's, the name of a row of the failover table, an HTTP status, or for a sign-in why it was refused",
  ),
  'enduser.id': text('Pseudonym of the caller, a keyed hash; only with `telemetry.caller: pseudonym`'),
  'gateway.request_id': text('Identifier of the request, also in the x-gateway-request-id header and the audit record'),
  'gateway.config.hash': text('Hash of the configuration in force'),
  'gateway.pipeline': text('Pipeline that served the request'),
  'gateway.protocol': text('Protocol the pipeline serves', names('messages count_tokens models chat responses none')),
  'gateway.outcome': text(
    'How the request ended: answered; refused by the gateway; refused by the upstream, which found the request wrong; failed; aborted by the client',
    ['answered', 'refused', 'upstream_refused', 'failed', 'aborted'],
  ),
  'gateway.status_class': text('Class of the HTTP status', ['2xx', '3xx', '4xx', '5xx']),
  'gateway.error.code': text("Code of the gateway's own error, as in the reference of errors"),
  'gateway.error.stage': text('Stage of the pipeline that raised the error'),
  'gateway.team': text('Team whose budget the caller shares'),
  'gateway.project': text('Project of the caller'),
  'gateway.token_group': text('Token group of the caller'),
  'gateway.caller.kind': text('How the caller proved who it is', ['access_token', 'session']),
  'gateway.model': text('Model of gateway.yaml that was asked for, aliases resolved'),
  'gateway.model.unknown': text(
    'What was asked for as a model where there is no such model, cut, and only where it looks like a name',
  ),
  'gateway.upstream': text('Upstream that the request, attempt or fallback was with'),
  'gateway.upstream.protocol': text(
    'Protocol in which the upstream was asked, where that is not the one of the request',
  ),
  'gateway.upstream.region': text('Region of the upstream'),
  'gateway.upstream.request_id': text("The upstream's own identifier of the request"),
  'gateway.route.rule': text('Routing rule that decided, or `default`'),
  'gateway.route.candidates': list('Upstreams that could serve the request, in order'),
  'gateway.route.dropped': list('Upstreams that were not asked, each as `name: reason`'),
  'gateway.fallback': flag('True where the request went to another upstream than the one it would have gone to'),
  'gateway.fallback.reason': text('Why: the reason after a failed attempt, or why an upstream was not asked', [
    ...Object.keys(ATTEMPT_REASONS).filter((reason) => reason.startsWith('next_')),
    ...Object.keys(DROP_REASONS),
  ]),
  'gateway.attempts': number('Number of attempts to have the request served, where there were several'),
  'gateway.attempt': number('Number of the attempt, from 1'),
  'gateway.attempt.reason': text('What happened after the attempt', Object.keys(ATTEMPT_REASONS)),
  'gateway.attempt.outcome': text(
    'Row of the failover table that the attempt met; of spans only where it did not serve',
  ),
  'gateway.attempt.certainty': text(
    'What is known of an attempt that did not serve: whether it left, and whether the upstream answered it',
    CERTAINTIES,
  ),
  'gateway.attempt.sends': number('How often it was sent, where that is not once'),
  'gateway.unconfirmed_attempts': number(
    'Attempts that an upstream may have accepted and did not answer, where there are any',
  ),
  'gateway.translation.losses': list('Rules of translation that changed or dropped something, by name'),
  'gateway.rewrites': list('Body fields that the gateway changed on the way up, by name'),
  'gateway.replaced': list(
    'Stages that replaced something in the texts of the answer, or in shadow mode would have, by id',
  ),
  'gateway.cache.requested': text('Longest lifetime of the prompt cache that was asked for', LIFETIMES),
  'gateway.cache.effective': text('Longest lifetime that the upstream was asked for', LIFETIMES),
  'gateway.cache.downgraded': flag('True where five minutes were asked for in the place of an hour'),
  'gateway.cache.downgrade.reason': text('Why', ['upstream_unsupported']),
  'gateway.cost_usd': double('What it cost, in US dollars'),
  'gateway.cost.source': text('What the cost was taken from, where the upstream did not report what was used'),
  'gateway.possibly_billed_usd': double('What upstreams may bill for attempts that they did not answer, in US dollars'),
  'gateway.reserved_usd': double('What was reserved before the request left, in US dollars'),
  'gateway.unreserved': flag('True where it went out with nothing reserved, because the database was away'),
  'gateway.budget.rule': text('Rule of the limit in money with the least room for the request'),
  'gateway.budget.window': text('Window of that limit', WINDOWS),
  'gateway.budget.used_ratio': double('Part of that limit that was spent or reserved, this request included'),
  'gateway.budget.remaining_usd': double('What was left of that limit, in US dollars'),
  'gateway.time_to_first_byte': double('Seconds from forwarding to the first byte of an answer that is no stream'),
  'gateway.aborted': flag('True where the client left before the end'),
  'gateway.drained': flag('True where the answer was read on for its bill after that'),
  'gateway.shadow': list('What held in shadow mode, by name'),
  'gateway.sampled.reason': text(
    'Why the request has a trace whatever the ratio; absent where the ratio gave it one',
    names('refused upstream_refused failed fallback downgraded slow'),
  ),
  'gateway.rule': text('Rule or policy that decided, by its name'),
  'gateway.rule.mode': text('Whether it is in force', ['enforce', 'shadow']),
  'gateway.decision.kind': text(
    'What decided: a routing rule, an access rule, a spend rule, a managed policy, a token group or a stage of the pipeline',
    ['route', 'access', 'spend', 'policy', 'token_group', 'stage'],
  ),
  'gateway.decision.outcome': text(
    'What it decided; `matched` for what is in shadow mode and decided nothing',
    names('routed refused served matched'),
  ),
  'gateway.limit.scope': text('What the limit counts by, such as `team` or `user+model`'),
  'gateway.limit.window': text('Window of the limit; `open` for requests at once', names('day week month minute open')),
  'gateway.limit.unit': text('What it counts', ['usd', 'requests', 'tokens']),
  'gateway.limit.limit': double('The limit, in its unit'),
  'gateway.limit.spent': double('What was spent or used of it'),
  'gateway.limit.held': double('What was reserved in it for other requests'),
  'gateway.limit.needed': double('What the request needed'),
  'gateway.limit.resets_at': text('When its window ends (RFC 3339)'),
  'gateway.token.type': text(
    'As what tokens are priced',
    names('uncached_input cache_read cache_write_5m cache_write_1h output'),
  ),
} as const satisfies Readonly<Record<string, AttributeSpec>>;

export interface OperationSpanSpec {
  readonly meaning: string;
  /** Counts them; absent for the start, which every other metric sees. */
  readonly counter?: CounterMetric;
  /** Others are left out. */
  readonly attributes: Readonly<Record<string, AttributeSpec>>;
}

const REQUEST = { 'gateway.request_id': text('Identifier of the request, as in its answer and in the log') };
const ERROR = { 'error.type': text('What went wrong, in one word; absent when it went well') };
const HASH = { 'gateway.config.hash': text('Hash of the configuration in force') };

/**
 * Spans of what is no request of a pipeline. Each is the root of a trace, unless its caller sent a `traceparent`. None says who
 * it was: that is in the log and in `admin_changes`.
 */
export const OPERATION_SPANS = {
  'gateway.sign_in': {
    counter: 'gateway.sign_ins',
    meaning: 'A step of a sign-in: it was begun, or the person came back from the identity provider',
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
    meaning: 'A session began, was renewed or ended at the wish of its client',
    attributes: {
      'gateway.session.outcome': text('began, repeated (an answer that got lost), renewed, refused, ended, failed'),
      ...REQUEST,
      ...ERROR,
    },
  },
  'gateway.account_check': {
    counter: 'gateway.account_checks',
    meaning: 'The identity provider was asked whether somebody may stay',
    attributes: {
      'gateway.account_check.outcome': text('verified, not_admitted, refused, unaskable, busy, unavailable'),
    },
  },
  'gateway.admin_change': {
    counter: 'gateway.admin_changes',
    meaning:
      'Somebody changed something through the admin API or tried to, or the gateway did because of what the identity provider says; what commands change is in `admin_changes` alone',
    attributes: {
      'gateway.admin.action': text('What was to be done, as `admin_changes` names it'),
      'gateway.admin.actor_kind': text('person, service, gateway, or none where nobody was recognised'),
      'gateway.admin.subject': text('Identifier of the token, session or grant that was made or changed'),
      ...REQUEST,
      ...ERROR,
    },
  },
  'gateway.reload': {
    counter: 'gateway.reloads',
    meaning: 'The configuration was read again',
    attributes: {
      'gateway.reload.result': text('in_force or failed'),
      'gateway.reload.changed_files': number('How many files are different from those in force before'),
      'gateway.reload.needs_restart': list('Keys whose old value stays in force until a restart'),
      'gateway.reload.findings': list('Codes of the findings that kept it from being put in force'),
      ...HASH,
      ...ERROR,
    },
  },
  'gateway.start': {
    meaning: 'A gateway started, from the start of its process until it listened',
    attributes: { 'gateway.start.pipelines': number('How many pipelines it serves'), ...HASH },
  },
} as const satisfies Readonly<Record<OperationName, OperationSpanSpec>>;

export const REQUEST_EVENTS = {
  'gateway.decision': {
    meaning: 'A rule or policy of the configuration decided, or would have in shadow mode',
    attributes: names('gateway.decision.kind gateway.rule gateway.rule.mode gateway.decision.outcome gateway.upstream'),
  },
  'gateway.refused': {
    meaning: 'The gateway answered with an error of its own; of limits one event for each that had no room',
    attributes: names(`
      gateway.error.code gateway.error.stage gateway.rule gateway.limit.scope gateway.limit.window
      gateway.limit.unit gateway.limit.limit gateway.limit.spent gateway.limit.held gateway.limit.needed
      gateway.limit.resets_at
    `),
  },
  'gateway.fallback': {
    meaning: 'The request left an upstream for the next one, or passed it over',
    attributes: ['gateway.upstream', 'gateway.fallback.reason', 'gateway.attempt'],
  },
  'gateway.cache.downgraded': {
    meaning: 'An hour of prompt cache was asked for, and five minutes were asked of the upstream',
    attributes: names(
      'gateway.cache.requested gateway.cache.effective gateway.cache.downgrade.reason gateway.upstream',
    ),
  },
} as const satisfies Readonly<Record<string, EventSpec>>;

export const REQUEST_SPANS = {
  request: {
    name: '{http.request.method} {http.route}',
    kind: 'server',
    meaning: 'A request that a pipeline served, from its head to the end of its answer',
    attributes: names(`
      http.request.method http.route http.response.status_code url.scheme server.address server.port
      user_agent.name user_agent.version error.type enduser.id gen_ai.conversation.id gateway.request_id
      gateway.config.hash gateway.pipeline gateway.protocol gateway.outcome gateway.error.code
      gateway.error.stage gateway.team gateway.project gateway.token_group gateway.caller.kind gateway.model
      gateway.model.unknown gateway.upstream gateway.route.rule gateway.route.candidates gateway.route.dropped
      gateway.fallback gateway.attempts gateway.unconfirmed_attempts gateway.translation.losses gateway.rewrites
      gateway.replaced gateway.cache.requested gateway.cache.effective gateway.cache.downgraded gateway.cost_usd
      gateway.cost.source gateway.possibly_billed_usd gateway.reserved_usd gateway.unreserved
      gateway.budget.rule gateway.budget.window gateway.budget.used_ratio gateway.budget.remaining_usd
      gateway.aborted gateway.drained gateway.shadow gateway.sampled.reason
    `),
    events: ['gateway.decision', 'gateway.refused', 'gateway.fallback', 'gateway.cache.downgraded'],
  },
  attempt: {
    name: '{gen_ai.operation.name} {gen_ai.request.model}',
    kind: 'client',
    meaning: 'An attempt to have a request served by an upstream; the last one has what the answer used and cost',
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
} as const satisfies Readonly<Record<string, SpanSpec>>;

const OPERATIONS = Object.entries<OperationSpanSpec>(OPERATION_SPANS);

export const ATTRIBUTES: Readonly<Record<string, AttributeSpec>> = {
  ...Object.assign({}, ...OPERATIONS.map(([, { attributes }]) => attributes)),
  ...REQUEST_ATTRIBUTES,
  ...MODEL_ATTRIBUTES,
};

export const EVENTS: Readonly<Record<string, EventSpec>> = REQUEST_EVENTS;

export const SPANS: Readonly<Record<string, SpanSpec>> = {
  ...REQUEST_SPANS,
  ...Object.fromEntries(
    OPERATIONS.map(([name, { meaning, attributes }]): [string, SpanSpec] => [
      name,
      { name, kind: 'internal', meaning, attributes: Object.keys(attributes), events: [] },
    ]),
  ),
};

export const LABEL_ATTRIBUTES = {
  'service.version': text('Version of the gateway'),
  'process.runtime.version': text('Version of Node.js'),
  'gateway.breaker.state': text(
    'State of an upstream',
    names('closed open half_open limited credential model_missing drained'),
  ),
  'gateway.breaker.mode': text('Whether requests stay away because of it', ['enforce', 'shadow']),
  'gateway.waiting.place': text('Where rows and records wait for the database', ['memory', 'spool']),
  'gateway.reservation.path': text('Whether a reservation was placed in leased room, or waited for the database', [
    'leased',
    'waited',
  ]),
  'gateway.lease.event': text(
    'What happened to leases: taken, refused because too little is left, or asked for before a refusal',
    ['taken', 'refused', 'recalled'],
  ),
  'nodejs.eventloop.state': text('What the event loop did', ['active', 'idle']),
  'cpu.mode': text('On whose behalf the processor worked', ['user', 'system']),
  'v8js.heap.space.name': text('Space of the heap, such as `old_space`'),
  'gateway.telemetry.metric': text('Metric that has as many series as it may'),
  'gateway.telemetry.signal': text('Signal of OpenTelemetry', ['traces', 'metrics', 'logs']),
  'gateway.telemetry.destination': text(
    "`collector` for the gateway's own telemetry; for that of clients the host of the destination",
  ),
  'gateway.telemetry.reason': text(
    'Why it was dropped: no room in the queue; not taken, for good or in all attempts; the gateway stopped; too many of the same in a second',
    ['queue_full', 'refused', 'failed', 'closing', 'flood'],
  ),
  'gateway.telemetry.outcome': text(
    'What became of a request to the collector: taken; refused for good; failed, and sent again',
    ['taken', 'refused', 'failed'],
  ),
} as const satisfies Readonly<Record<string, AttributeSpec>>;
