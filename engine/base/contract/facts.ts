import { PROTOCOLS, SERVED } from './protocol.ts';

/** Types of fact values; rules are type-checked against them. */
export type FactKind = 'string' | 'number' | 'boolean' | 'strings' | 'object';

interface FactSpec {
  readonly kind: FactKind;
  /** `start`: the engine, before the first stage, always. `engine`: the engine, at any time. Absent: the stage that declares it. */
  readonly writer?: 'start' | 'engine';
  readonly meaning: string;
  readonly values?: readonly string[];
  /** The audit field with its value; money in USD, durations in whole milliseconds. */
  readonly record?: string;
  /** The attribute of the request's span with its value; money in USD. Attributes made of several facts are not listed here. */
  readonly attribute?: string;
}

type More = Omit<FactSpec, 'kind' | 'meaning' | 'writer'>;

const fact =
  <K extends FactKind>(kind: K, writer?: FactSpec['writer']) =>
  <const M extends More = Record<never, never>>(meaning: string, more?: M) =>
    ({ kind, meaning, ...(writer && { writer }), ...more }) as Omit<FactSpec, 'kind'> & { readonly kind: K } & M;
const factsBy = (writer?: FactSpec['writer']) => ({
  text: fact('string', writer),
  number: fact('number', writer),
  flag: fact('boolean', writer),
  list: fact('strings', writer),
  object: fact('object', writer),
});
const { text, number, flag, list, object } = factsBy();
const engine = factsBy('engine');
const start = factsBy('start');

/**
 * The vocabulary: every fact that stages and rules can read, by dotted path. Message text never becomes a fact.
 * A fact is written once per request, by the engine or by the stage that declares it in `writes`. Facts about the upstream are
 * written again for each upstream.
 */
export const FACTS = {
  'request.id': start.text('Identifier of this request, also in the x-gateway-request-id response header', {
    record: 'request_id',
    attribute: 'gateway.request_id',
  }),
  'request.method': start.text('HTTP method, upper case', { record: 'method' }),
  'request.path': start.text('URL path without the query string', { record: 'path' }),
  'request.protocol': start.text('Protocol of the pipeline', { values: SERVED, record: 'protocol' }),
  'request.received_at': start.number(
    'When the request arrived, in milliseconds since the epoch; for the operator time_window',
    { record: 'received_at' },
  ),
  'request.client.address': start.text(
    'IP address of the client, or the address that a trusted proxy reports; for the operator cidr',
    { record: 'address' },
  ),
  'request.region': engine.text(
    'Region of the client in lower case, from the header server.region_header of a trusted proxy',
    { record: 'region' },
  ),
  'request.client.name': engine.text('Product name in the user-agent header', { record: 'client' }),
  'request.client.version': engine.text('Product version in the user-agent header', { record: 'client_version' }),
  'request.session_id': engine.text('Session identifier from a header of the client', { record: 'session_id' }),
  'request.session_key': text(
    'Hash that identifies the session: of its identifier, otherwise of the beginning of its prompts, otherwise of the caller. Set only if a route has several upstreams or an upstream speaks chat completions',
  ),
  'request.names_session': flag('Whether the client identifies the session of the request'),
  'request.agent': engine.text(
    'Kind of agent that sends the request, from headers of coding clients: the main agent, a subagent (x-claude-code-agent-id, x-openai-subagent) or a background agent (x-app: cli-bg). Not set if unknown',
    { values: ['main', 'subagent', 'background'], record: 'agent' },
  ),
  'request.continues': text(
    'Hash of the stored response or conversation that the request continues. Set only if a route has several upstreams or an upstream speaks chat completions',
  ),
  'request.holds_state': flag(
    'Whether the request contains state that only its original upstream can read: encrypted content, stored responses, files',
  ),
  'request.body_bytes': number('Size of the decompressed request body in bytes', { record: 'body_bytes' }),
  'request.model': text(
    'Identifier of the requested model, with aliases resolved. `(none)` for a request to another API that names no model',
    { record: 'model' },
  ),
  'request.alias': text('Alias under which the client requested the model, if not its identifier', { record: 'alias' }),
  'request.choices': number('Requested number of responses to the same prompt', { record: 'choices' }),
  'request.image_count': number('Number of images in the conversation', { record: 'image_count' }),
  'request.unproven_reasoning': text(
    '`made`: the conversation contains reasoning from a translation. `unsigned`: only some signatures are empty. Otherwise not set',
  ),
  'request.max_tokens': number('Requested output limit, in tokens', { record: 'max_tokens' }),
  'request.stream': flag('Whether the client requested a stream', { record: 'stream' }),
  'request.tool_count': number('Number of tool definitions', { record: 'tool_count' }),
  'request.tools': list(
    'Names of the tools that the request defines, and types of those that are not plain functions. Set only if a rule reads it',
  ),
  'request.server_tool_uses': object('Requested limits on the uses of server tools, by name'),
  'request.service_tier': text('Requested service tier, if gateway.yaml has a price for it or it never costs more', {
    record: 'service_tier',
  }),
  'request.speed': text('Requested speed, if gateway.yaml has a price for it', { record: 'speed' }),
  'request.inference_geo': text('Requested place of inference, if gateway.yaml has a price for it', {
    record: 'inference_geo',
  }),
  'request.privileged_fields': object(
    'Privileged fields: fields beside `model` that decide models, prices or accounts, by their position in the body',
  ),
  'request.other_models': list(
    'Identifiers of further models that the request may use: for tools, as fallbacks and the like',
    { record: 'other_models' },
  ),
  'request.dropped_headers': list(
    'Headers of the client that were not forwarded: privileged headers, headers about the origin of the request, baggage, headers that `telemetry.propagate` blocks, and headers that the upstream sets itself',
    { record: 'dropped_headers' },
  ),
  'request.output_bounds': object(
    'Requested output limits, in tokens, by field; `other` for fields of other protocols',
  ),
  'request.iterations': number(
    'Maximum number of model runs for one response: one more for each use of a server tool; 0 if the request does not limit them',
  ),
  'request.compacts': flag('Whether the upstream may summarize the conversation with further model runs'),
  'request.message_count': number('Number of conversation messages', { record: 'message_count' }),
  'request.input_tokens_estimate': number('Likely input size in tokens', { record: 'input_tokens_estimate' }),
  'request.context_window': number('Context window that a beta header requests, in tokens'),
  'request.input_tokens_max': number('Upper bound of the input size in tokens', { record: 'input_tokens_max' }),
  'request.cache.ttl': text(
    'Longest prompt cache lifetime found anywhere in the request; the reservation includes its cost',
    { values: ['none', '5m', '1h'], record: 'cache_ttl' },
  ),
  'request.limit_rule': text('Spend rule on concurrent requests that rejected the request before its body was read'),

  'principal.id': text('Stable identifier of the caller', { record: 'principal' }),
  'principal.email': text('E-mail address of the caller', { record: 'user' }),
  'principal.kind': text('Kind of credential of the caller', {
    values: ['access_token', 'session'],
    attribute: 'gateway.caller.kind',
  }),
  'principal.groups': list('Groups of the caller at the identity provider; for an access token also its token group', {
    record: 'groups',
  }),
  'principal.team': text('Team whose budget the caller shares', { record: 'team', attribute: 'gateway.team' }),
  'principal.project': text('Project the caller works on', { record: 'project', attribute: 'gateway.project' }),
  'principal.roles': list('Roles of the caller: admin for signed-in members of auth.admin_groups'),
  'principal.token.id': text('Public identifier of the access token or session', { record: 'token_id' }),
  'principal.token.name': text('Name of the access token; sign-in for a session', { record: 'token_name' }),
  'principal.token.group': text('Token group of the access token, or of a signed-in person who is a member of one', {
    record: 'token_group',
    attribute: 'gateway.token_group',
  }),

  'model.family': text('Family of the model'),
  'model.context_window': number('Context window of the model, in tokens'),
  'model.max_output_tokens': number('Maximum output tokens of one response of the model'),
  'model.supports.tools': flag('Whether the model supports tools'),
  'model.supports.images': flag('Whether the model supports images'),
  'model.supports.thinking': flag('Whether the model supports thinking'),
  'model.supports.prompt_cache_1h': flag('Whether the model supports a prompt cache of one hour'),

  'route.upstream': text('Upstream of the request', { record: 'upstream', attribute: 'gateway.upstream' }),
  'route.protocol': text('Protocol of the request to the upstream', { values: PROTOCOLS, record: 'upstream_protocol' }),
  'route.upstream_model': text('Model identifier at the upstream', { record: 'upstream_model' }),
  'route.region': text('Region of the upstream'),
  'route.estimate_nano_usd': number(
    "Typical cost of such a request, in nano-USD: the 95th percentile of the caller's requests to this model, or the worst case with too few of them; 0 for counting tokens",
    { record: 'estimate_usd' },
  ),
  'route.worst_case_nano_usd': number(
    'Cost in nano-USD with the estimated input tokens and the longest allowed response, known before the routing rules are evaluated; 0 for counting tokens',
    { record: 'worst_case_usd' },
  ),
  'route.per_request_nano_usd': number(
    'Cost of the request in nano-USD if its response reports no usage, from `per_request_usd` of the stage route-to',
  ),
  'route.rule': text('Routing rule that matched, or "default"', {
    record: 'route_rule',
    attribute: 'gateway.route.rule',
  }),
  'route.supports.count_tokens': flag('Whether the upstream counts tokens'),
  'route.supports.prompt_cache_1h': flag('Whether the upstream supports a prompt cache of one hour'),

  'route.candidates': list('Upstreams that can serve the request, in the order of attempts', {
    record: 'candidates',
    attribute: 'gateway.route.candidates',
  }),
  'route.dropped': list('Upstreams of the route that cannot serve it, each as `name: reason`', {
    record: 'dropped',
    attribute: 'gateway.route.dropped',
  }),

  'cache.requested_ttl': text('Longest prompt cache lifetime in the fields that the API of the request reads', {
    values: ['none', '5m', '1h'],
    record: 'cache_requested_ttl',
  }),
  'cache.effective_ttl': text('Longest prompt cache lifetime in the request to the upstream', {
    values: ['none', '5m', '1h'],
  }),
  'cache.downgraded': flag(
    'Whether the gateway requested five minutes instead of one hour, because the upstream does not support an hour',
  ),

  'spend.reserved_nano_usd': number(
    'Amount reserved before the request was sent, in nano-USD; 0 without a reservation',
    { record: 'reserved_usd', attribute: 'gateway.reserved_usd' },
  ),
  'spend.most_nano_usd': number('Worst-case cost of the request, in nano-USD'),
  'spend.most_tokens': object(
    'Worst-case tokens of the request over all model runs: input, output, and input_limit (the limit of any response). other_runs: most runs of each other model',
  ),
  'spend.unreserved': flag(
    'Whether the request was sent without a reservation, because the database was unavailable and its limits allow that',
    { record: 'unreserved', attribute: 'gateway.unreserved' },
  ),
  'spend.rule': text(
    'Spend rule whose limit rejected the request; `set at run time` for a limit that an administrator set',
    { record: 'spend_rule' },
  ),

  'translation.losses': list('Translation rules that changed or dropped something, by name', {
    record: 'losses',
    attribute: 'gateway.translation.losses',
  }),

  'policy.names': list('Managed policies that apply to the caller'),

  'upstream.status': number('HTTP status of the upstream response', { record: 'upstream_status' }),
  'upstream.attempts': number('How often the request was sent to an upstream', { record: 'sends' }),
  'upstream.retry': text(
    'Why the request was sent again: stale_socket, the upstream closed the idle connection at that moment',
    { values: ['stale_socket'], record: 'retry' },
  ),
  'upstream.certainty': text(
    'How far the request got: not sent, possibly accepted by the upstream, or with a response (answered)',
    {
      values: ['not_sent', 'possibly_accepted', 'answered'],
      record: 'certainty',
    },
  ),
  'upstream.ttfb_ms': number('Milliseconds from forwarding to the first response byte', { record: 'ttfb_ms' }),
  'upstream.request_id': text("The upstream's own request identifier", { record: 'upstream_request_id' }),
  'upstream.error_rewritten': flag(
    "Whether the gateway replaced the upstream's error about a too long conversation by one that the client understands; set only if true",
    { record: 'error_rewritten' },
  ),

  'usage.input_tokens': number('Input tokens that were neither read from nor written to the cache', {
    record: 'input_tokens',
  }),
  'usage.output_tokens': number('Output tokens', { record: 'output_tokens' }),
  'usage.cache_read_input_tokens': number('Input tokens read from the prompt cache', { record: 'cache_read_tokens' }),
  'usage.cache_write_5m_input_tokens': number('Input tokens written to the five-minute prompt cache', {
    record: 'cache_write_5m_tokens',
  }),
  'usage.cache_write_1h_input_tokens': number('Input tokens written to the one-hour prompt cache', {
    record: 'cache_write_1h_tokens',
  }),
  'usage.server_tools': object('Uses of server tools, by name; empty without any'),
  'usage.cost_nano_usd': number('Cost of the request in nano-USD', {
    record: 'cost_usd',
    attribute: 'gateway.cost_usd',
  }),
  'usage.answered_model': text('Model that responded, by its name at the upstream, if not the requested one'),
  'usage.billed': object(
    'How the request was billed, if not the default way: service tier, speed, region, several models',
    { record: 'billed' },
  ),
  'usage.provenance': object(
    'Source of each number: upstream, estimate, abort, learned, most, possible, clamped (the upstream reported more than possible), unknown (not reported), or per_request (from the configuration)',
  ),
  'usage.possibly_billed_nano_usd': number(
    'What upstreams may bill for failed attempts, in nano-USD; set only if unknown',
    { record: 'possibly_billed_usd', attribute: 'gateway.possibly_billed_usd' },
  ),

  'outcome.status': engine.number('HTTP status of the response to the client', { record: 'status' }),
  'outcome.error': engine.text("Error code of the gateway's own error response", {
    record: 'error',
    attribute: 'gateway.error.code',
  }),
  'outcome.aborted': engine.flag('Whether the client disconnected before the end', { record: 'aborted' }),
  'outcome.drained': engine.flag(
    'Whether the gateway read the response to its end for its usage after the client had disconnected; set only if true',
    { record: 'drained', attribute: 'gateway.drained' },
  ),
  'outcome.unread': engine.flag(
    'Whether the gateway could not read the response: unknown or broken compression, or too large; set only if true',
  ),
  'outcome.duration_ms': engine.number('Milliseconds from the request head to the end of the response', {
    record: 'duration_ms',
  }),
  'outcome.shadow': engine.list('Rules in shadow mode that matched, by name; they had no effect', { record: 'shadow' }),
  'outcome.rewrites': engine.list(
    'Body fields of the request that the gateway changed; `content-encoding`: the body was decompressed',
    { record: 'rewrites', attribute: 'gateway.rewrites' },
  ),
  'outcome.replaced': engine.object(
    'Number of replacements in the texts of the response, by stage id; in shadow mode the number of matches',
    { record: 'replaced' },
  ),

  'error.code': engine.text('Error code being handled; set in on_error and afterwards'),
  'error.status': engine.number('HTTP status of the error being handled'),
  'error.stage': engine.text('Stage that raised the error being handled', {
    record: 'stage',
    attribute: 'gateway.error.stage',
  }),
} as const satisfies Record<string, FactSpec>;

/** Dotted path of a fact. */
export type FactPath = keyof typeof FACTS;

interface KindTypes {
  string: string;
  number: number;
  boolean: boolean;
  strings: readonly string[];
  object: Readonly<Record<string, unknown>>;
}

/** The TypeScript type of the value of fact `P`. */
export type FactValue<P extends FactPath> = KindTypes[(typeof FACTS)[P]['kind']];

const specs: Readonly<Record<string, FactSpec>> = FACTS;
const PATHS = Object.keys(FACTS) as FactPath[];

/** Facts that are there before the first stage runs. */
export const INITIAL_FACTS: readonly FactPath[] = PATHS.filter((path) => specs[path]!.writer === 'start');

/** Facts that the engine writes; no stage may declare them in `writes`. */
export const ENGINE_FACTS: readonly FactPath[] = PATHS.filter((path) => specs[path]!.writer !== undefined);
