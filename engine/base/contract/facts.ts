import { PROTOCOLS } from './protocol.ts';

/** The kinds of value a fact can hold; rules are type-checked against them. */
export type FactKind = 'string' | 'number' | 'boolean' | 'strings' | 'object';

interface FactSpec {
  readonly kind: FactKind;
  /** One sentence for reference pages. */
  readonly meaning: string;
  /** The closed set of values, where there is one. */
  readonly values?: readonly string[];
  /** The audit field that keeps it: there money is in USD, durations are whole milliseconds. */
  readonly record?: string;
  /** The attribute of the request's span that holds it, money in USD. Attributes made of several facts are not listed here. */
  readonly attribute?: string;
}

const fact =
  <K extends FactKind>(kind: K) =>
  (meaning: string, more?: Omit<FactSpec, 'kind' | 'meaning'>): Omit<FactSpec, 'kind'> & { readonly kind: K } => ({
    kind,
    meaning,
    ...more,
  });
const text = fact('string');
const number = fact('number');
const flag = fact('boolean');
const list = fact('strings');
const object = fact('object');

/**
 * The vocabulary: every fact a stage or a rule can see, by dotted path. Message text never becomes a fact.
 * A fact is written once per request, by the engine or by the one stage that declares it in `writes`; facts about the upstream
 * again when the request goes to another one.
 */
export const FACTS = {
  'request.id': text('Identifier of this request, also in the x-gateway-request-id response header', {
    record: 'request_id',
    attribute: 'gateway.request_id',
  }),
  'request.method': text('HTTP method, upper case', { record: 'method' }),
  'request.path': text('URL path without the query string', { record: 'path' }),
  'request.protocol': text('Protocol the pipeline serves', {
    values: ['messages', 'count_tokens', 'models', 'chat', 'responses', 'none'],
    record: 'protocol',
  }),
  'request.received_at': number(
    'When the request arrived, in milliseconds since the epoch; for the operator time_window',
    { record: 'received_at' },
  ),
  'request.client.address': text(
    'IP address of the client; behind a trusted proxy the one the proxy names; for the operator cidr',
    { record: 'address' },
  ),
  'request.region': text(
    'Region of the client in lower case, from the header server.region_header, sent by a trusted proxy',
    { record: 'region' },
  ),
  'request.client.name': text('Product name in the user-agent header', { record: 'client' }),
  'request.client.version': text('Product version in the user-agent header', { record: 'client_version' }),
  'request.session_id': text('Session identifier the client sent in a header', { record: 'session_id' }),
  'request.session_key': text(
    'Hash of what the turns of a session have in common: what the client calls it, else how its prompts begin, else the caller; only where a route has several upstreams or an upstream speaks chat completions',
  ),
  'request.names_session': flag('Whether the client says which session the request belongs to'),
  'request.agent': text(
    'What asks, where a coding client tells it by its headers: the agent that somebody talks to, one that it started (x-claude-code-agent-id, x-openai-subagent), or one that works in the background (x-app: cli-bg); not set where nothing tells it',
    { values: ['main', 'subagent', 'background'], record: 'agent' },
  ),
  'request.continues': text(
    'Hash of the stored response or conversation that the request continues; only where a route has several upstreams or an upstream speaks chat completions',
  ),
  'request.holds_state': flag(
    'Whether the request holds what only the upstream can read that it came from: encrypted content, stored responses, files',
  ),
  'request.body_bytes': number('Size of the request body in bytes, without its compression', { record: 'body_bytes' }),
  'request.model': text(
    'Identifier of the model the client asked for; an alias is resolved. `(none)` for a request to an API beside those for models that names none',
    { record: 'model' },
  ),
  'request.alias': text('What the client called the model, where it did not use its identifier', { record: 'alias' }),
  'request.choices': number('How many answers to the same prompt the client asked for', { record: 'choices' }),
  'request.image_count': number('Number of images in the conversation', { record: 'image_count' }),
  'request.unproven_reasoning': text(
    '`made` where the conversation has reasoning that a translation made, `unsigned` where only the signature of some is empty; absent elsewhere',
  ),
  'request.max_tokens': number('Output bound the client asked for, in tokens', { record: 'max_tokens' }),
  'request.stream': flag('Whether the client asked for a stream', { record: 'stream' }),
  'request.tool_count': number('Number of tool definitions', { record: 'tool_count' }),
  'request.tools': list(
    'Names of the tools that the request defines, and types of those that are not plain functions; only where a rule looks at it',
  ),
  'request.server_tool_uses': object(
    'The most uses asked for of tools that the upstream runs, by name, where the request bounds them',
  ),
  'request.service_tier': text(
    'Service tier the client asked for, where gateway.yaml prices it or it never costs more',
    { record: 'service_tier' },
  ),
  'request.speed': text('Speed the client asked for, where gateway.yaml prices it', { record: 'speed' }),
  'request.inference_geo': text('Where the client asked the model to run, where gateway.yaml prices that', {
    record: 'inference_geo',
  }),
  'request.decisive_fields': object(
    'Fields beside `model` that decide over models, prices or accounts, by their position in the body',
  ),
  'request.other_models': list(
    'Identifiers of the models that the request may use beside the one it asks for: of tools, fallbacks and the like',
    { record: 'other_models' },
  ),
  'request.dropped_headers': list(
    'Headers of the client that were not forwarded: they choose who serves or pays, say where the request came from, carry baggage, `telemetry.propagate` keeps them back, or the upstream has fixed ones of the same name',
    { record: 'dropped_headers' },
  ),
  'request.output_bounds': object(
    'Output bounds the client asked for, in tokens, by the names of their fields; `other` for those of other protocols',
  ),
  'request.iterations': number(
    'How often the model may be run for one answer: once more for each use of a tool that the upstream runs, and 0 where the request does not bound them',
  ),
  'request.compacts': flag('Whether the upstream may summarize the conversation by further runs of the model'),
  'request.message_count': number('Number of conversation messages', { record: 'message_count' }),
  'request.input_tokens_estimate': number('Likely input size in tokens', { record: 'input_tokens_estimate' }),
  'request.context_window': number('Context window that a beta header asks for, in tokens'),
  'request.input_tokens_max': number('Upper bound of the input size in tokens', { record: 'input_tokens_max' }),
  'request.cache.ttl': text(
    'Longest prompt cache lifetime that could be read in the request, wherever it stands; money is held for it',
    { values: ['none', '5m', '1h'], record: 'cache_ttl' },
  ),
  'request.limit_rule': text('Spend rule on requests at once that refused the request before its body was read'),

  'principal.id': text('Stable identifier of the caller', { record: 'principal' }),
  'principal.email': text('E-mail address of the caller', { record: 'user' }),
  'principal.kind': text('How the caller proved who it is', {
    values: ['access_token', 'session'],
    attribute: 'gateway.caller.kind',
  }),
  'principal.groups': list('Groups of the caller at the identity provider; for an access token also its token group', {
    record: 'groups',
  }),
  'principal.team': text('Team whose budget the caller shares', { record: 'team', attribute: 'gateway.team' }),
  'principal.project': text('Project the caller works on', { record: 'project', attribute: 'gateway.project' }),
  'principal.roles': list('Roles of the caller: admin for members of auth.admin_groups who signed in'),
  'principal.token.id': text('Public identifier of the access token or session', { record: 'token_id' }),
  'principal.token.name': text('Name the access token was created with; sign-in for a session', {
    record: 'token_name',
  }),
  'principal.token.group': text(
    'Token group of the access token, or of the signed-in person where one has them as members',
    { record: 'token_group', attribute: 'gateway.token_group' },
  ),

  'model.family': text('Family of the model'),
  'model.context_window': number('Context window of the model, in tokens'),
  'model.max_output_tokens': number('Most tokens of one answer of the model'),
  'model.supports.tools': flag('Whether the model calls tools'),
  'model.supports.images': flag('Whether the model sees images'),
  'model.supports.thinking': flag('Whether the model can think before it answers'),
  'model.supports.prompt_cache_1h': flag('Whether prompts of the model can be kept for an hour'),

  'route.upstream': text('Upstream the request goes to', { record: 'upstream', attribute: 'gateway.upstream' }),
  'route.protocol': text('Protocol in which the upstream is asked', { values: PROTOCOLS, record: 'upstream_protocol' }),
  'route.upstream_model': text('Model identifier the upstream knows', { record: 'upstream_model' }),
  'route.region': text('Region of the upstream'),
  'route.estimate_nano_usd': number(
    'What such a request usually costs, in nano-USD: what 95 of 100 of the caller to this model cost, or the worst case while too little is known; 0 for counting tokens',
    { record: 'estimate_usd' },
  ),
  'route.worst_case_nano_usd': number(
    'Cost in nano-USD of a request with as many tokens as this one seems to have and as long an answer as it may get, known before the routing rules are evaluated; 0 for counting tokens',
    { record: 'worst_case_usd' },
  ),
  'route.per_request_nano_usd': number(
    'What the request costs, in nano-USD, where its answer does not tell its usage: what the operator says (`per_request_usd` of the stage route-to)',
  ),
  'route.rule': text('Routing rule that matched, or "default"', {
    record: 'route_rule',
    attribute: 'gateway.route.rule',
  }),
  'route.supports.count_tokens': flag('Whether the upstream counts tokens'),
  'route.supports.prompt_cache_1h': flag('Whether the upstream keeps prompts for an hour'),

  'route.candidates': list('Upstreams that can serve the request, the first to be tried first', {
    record: 'candidates',
    attribute: 'gateway.route.candidates',
  }),
  'route.dropped': list('Upstreams of the route that cannot serve it, each as `name: reason`', {
    record: 'dropped',
    attribute: 'gateway.route.dropped',
  }),

  'cache.requested_ttl': text('Longest prompt cache lifetime asked for where the API of the request reads one', {
    values: ['none', '5m', '1h'],
    record: 'cache_requested_ttl',
  }),
  'cache.effective_ttl': text('Longest prompt cache lifetime that the upstream is asked for', {
    values: ['none', '5m', '1h'],
  }),
  'cache.downgraded': flag(
    'Whether the request asks for five minutes in the place of an hour, which its upstream does not support',
  ),

  'spend.reserved_nano_usd': number(
    'Amount reserved for this request before it left, in nano-USD; 0 when it went out without a reservation',
    { record: 'reserved_usd', attribute: 'gateway.reserved_usd' },
  ),
  'spend.most_nano_usd': number('Most this request can cost, in nano-USD'),
  'spend.most_tokens': object(
    'Most tokens this request can use, every run of the model counted: input, output, and input_limit, which no answer passes; and other_runs, how often each other model may be run',
  ),
  'spend.unreserved': flag(
    'Whether the request went out without a reservation, because the database was away and its limits allow it then',
    { record: 'unreserved', attribute: 'gateway.unreserved' },
  ),
  'spend.rule': text(
    'Spend rule whose limit refused the request; `set at run time` for a limit that an administrator set',
    { record: 'spend_rule' },
  ),

  'translation.losses': list('Rules of translation between protocols that changed or dropped something, by name', {
    record: 'losses',
    attribute: 'gateway.translation.losses',
  }),

  'policy.names': list('Managed policies that the settings of the caller come from'),

  'upstream.status': number('HTTP status the upstream answered', { record: 'upstream_status' }),
  'upstream.attempts': number('How often the request was sent to an upstream', { record: 'sends' }),
  'upstream.retry': text(
    'Why it was sent again: stale_socket, the kept connection was closed by the upstream in that moment',
    { values: ['stale_socket'], record: 'retry' },
  ),
  'upstream.certainty': text(
    'What is known of a request that was to be sent: whether it left, and whether the upstream answered it',
    { values: ['not_sent', 'possibly_accepted', 'answered'], record: 'certainty' },
  ),
  'upstream.ttfb_ms': number('Milliseconds from forwarding to the first response byte', { record: 'ttfb_ms' }),
  'upstream.request_id': text("The upstream's own request identifier", { record: 'upstream_request_id' }),
  'upstream.error_rewritten': flag(
    'Whether the client got an error that says in its own words that the conversation is too long, in place of words of the upstream that it does not know; only set then',
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
  'usage.server_tools': object('Uses of tools that the upstream ran, by name; empty without any'),
  'usage.cost_nano_usd': number('Cost of the request in nano-USD', {
    record: 'cost_usd',
    attribute: 'gateway.cost_usd',
  }),
  'usage.answered_model': text('Model that answered, as the upstream calls it, where it is not the one asked for'),
  'usage.billed': object(
    'As what the request was billed where that is out of the ordinary: service tier, speed, region, several models',
    { record: 'billed' },
  ),
  'usage.provenance': object(
    'Where each number came from: upstream, estimate, abort, learned, most, possible, clamped where more was reported than is possible, unknown where nobody told, or per_request where the operator says what one costs',
  ),
  'usage.possibly_billed_nano_usd': number(
    'What upstreams may bill for the attempts that failed, in nano-USD; set only where it is not known',
    { record: 'possibly_billed_usd', attribute: 'gateway.possibly_billed_usd' },
  ),

  'outcome.status': number('HTTP status the client was sent', { record: 'status' }),
  'outcome.error': text("Error code of the gateway's own refusal or failure", {
    record: 'error',
    attribute: 'gateway.error.code',
  }),
  'outcome.aborted': flag('Whether the client left before the end', { record: 'aborted' }),
  'outcome.drained': flag(
    'Whether the answer was read to its end for its bill, after nobody waited for it any more; only set then',
    { record: 'drained', attribute: 'gateway.drained' },
  ),
  'outcome.unread': flag(
    'Whether the gateway could not read the answer, compressed in an unknown way or wrongly, or too large; only set then',
  ),
  'outcome.duration_ms': number('Milliseconds from the request head to the end of the response', {
    record: 'duration_ms',
  }),
  'outcome.shadow': list('Rules in shadow mode that matched, by name: what they would have done did not happen', {
    record: 'shadow',
  }),
  'outcome.rewrites': list(
    'Body fields the gateway changed on the way up; `content-encoding`: the body was decompressed',
    { record: 'rewrites', attribute: 'gateway.rewrites' },
  ),
  'outcome.replaced': object(
    'How often each stage replaced something in the texts of the answer, by its id; in shadow mode how often it would have',
    { record: 'replaced' },
  ),

  'error.code': text('Error code being handled; set only in on_error and afterwards'),
  'error.status': number('HTTP status of the error being handled'),
  'error.stage': text('Stage that raised the error being handled', {
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
