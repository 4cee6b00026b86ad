import { PROTOCOLS } from './protocol.ts';

/** The kinds of value a fact can hold; rules are type-checked against them. */
export type FactKind = 'string' | 'number' | 'boolean' | 'strings' | 'object';

interface FactSpec {
  readonly kind: FactKind;
  /** One sentence for reference pages. */
  readonly meaning: string;
  /** The closed set of values, where there is one. */
  readonly values?: readonly string[];
}

/**
 * The vocabulary: every fact a stage or a rule can see, by dotted path. Message text never becomes a fact.
 * A fact is written once per request, by the engine or by the one stage that declares it in `writes`; facts about the upstream
 * again when the request goes to another one.
 */
export const FACTS = {
  'request.id': {
    kind: 'string',
    meaning: 'Identifier of this request, also in the x-gateway-request-id response header',
  },
  'request.method': { kind: 'string', meaning: 'HTTP method, upper case' },
  'request.path': { kind: 'string', meaning: 'URL path without the query string' },
  'request.protocol': {
    kind: 'string',
    meaning: 'Protocol the pipeline serves',
    values: ['messages', 'count_tokens', 'models', 'chat', 'responses', 'none'],
  },
  'request.received_at': {
    kind: 'number',
    meaning: 'When the request arrived, in milliseconds since the epoch; for the operator time_window',
  },
  'request.client.address': {
    kind: 'string',
    meaning: 'IP address of the client; behind a trusted proxy the one the proxy names; for the operator cidr',
  },
  'request.region': {
    kind: 'string',
    meaning: 'Region of the client in lower case, from the header server.region_header, sent by a trusted proxy',
  },
  'request.client.name': { kind: 'string', meaning: 'Product name in the user-agent header' },
  'request.client.version': { kind: 'string', meaning: 'Product version in the user-agent header' },
  'request.session_id': { kind: 'string', meaning: 'Session identifier the client sent in a header' },
  'request.session_key': {
    kind: 'string',
    meaning:
      'Hash of what the turns of a session have in common: what the client calls it, else how its prompts begin, else the caller; only where a route has several upstreams or an upstream speaks chat completions',
  },
  'request.names_session': { kind: 'boolean', meaning: 'Whether the client says which session the request belongs to' },
  'request.agent': {
    kind: 'string',
    meaning:
      'What asks, where a coding client tells it by its headers: the agent that somebody talks to, one that it started (x-claude-code-agent-id, x-openai-subagent), or one that works in the background (x-app: cli-bg); not set where nothing tells it',
    values: ['main', 'subagent', 'background'],
  },
  'request.continues': {
    kind: 'string',
    meaning:
      'Hash of the stored response or conversation that the request continues; only where a route has several upstreams or an upstream speaks chat completions',
  },
  'request.holds_state': {
    kind: 'boolean',
    meaning:
      'Whether the request holds what only the upstream can read that it came from: encrypted content, stored responses, files',
  },
  'request.body_bytes': { kind: 'number', meaning: 'Size of the request body in bytes, without its compression' },
  'request.model': {
    kind: 'string',
    meaning:
      'Identifier of the model the client asked for; an alias is resolved. `(none)` for a request to an API beside those for models that names none',
  },
  'request.alias': { kind: 'string', meaning: 'What the client called the model, where it did not use its identifier' },
  'request.choices': { kind: 'number', meaning: 'How many answers to the same prompt the client asked for' },
  'request.image_count': { kind: 'number', meaning: 'Number of images in the conversation' },
  'request.unproven_reasoning': {
    kind: 'string',
    meaning:
      '`made` where the conversation has reasoning that a translation made, `unsigned` where only the signature of some is empty; absent elsewhere',
  },
  'request.max_tokens': { kind: 'number', meaning: 'Output bound the client asked for, in tokens' },
  'request.stream': { kind: 'boolean', meaning: 'Whether the client asked for a stream' },
  'request.tool_count': { kind: 'number', meaning: 'Number of tool definitions' },
  'request.tools': {
    kind: 'strings',
    meaning:
      'Names of the tools that the request defines, and types of those that are not plain functions; only where a rule looks at it',
  },
  'request.server_tool_uses': {
    kind: 'object',
    meaning: 'The most uses asked for of tools that the upstream runs, by name, where the request bounds them',
  },
  'request.service_tier': {
    kind: 'string',
    meaning: 'Service tier the client asked for, where gateway.yaml prices it or it never costs more',
  },
  'request.speed': { kind: 'string', meaning: 'Speed the client asked for, where gateway.yaml prices it' },
  'request.inference_geo': {
    kind: 'string',
    meaning: 'Where the client asked the model to run, where gateway.yaml prices that',
  },
  'request.decisive_fields': {
    kind: 'object',
    meaning: 'Fields beside `model` that decide over models, prices or accounts, by their position in the body',
  },
  'request.other_models': {
    kind: 'strings',
    meaning:
      'Identifiers of the models that the request may use beside the one it asks for: of tools, fallbacks and the like',
  },
  'request.dropped_headers': {
    kind: 'strings',
    meaning:
      'Headers of the client that were not forwarded: they choose who serves or pays, say where the request came from, carry baggage, `telemetry.propagate` keeps them back, or the upstream has fixed ones of the same name',
  },
  'request.output_bounds': {
    kind: 'object',
    meaning:
      'Output bounds the client asked for, in tokens, by the names of their fields; `other` for those of other protocols',
  },
  'request.iterations': {
    kind: 'number',
    meaning:
      'How often the model may be run for one answer: once more for each use of a tool that the upstream runs, and 0 where the request does not bound them',
  },
  'request.compacts': {
    kind: 'boolean',
    meaning: 'Whether the upstream may summarize the conversation by further runs of the model',
  },
  'request.message_count': { kind: 'number', meaning: 'Number of conversation messages' },
  'request.input_tokens_estimate': { kind: 'number', meaning: 'Likely input size in tokens' },
  'request.context_window': { kind: 'number', meaning: 'Context window that a beta header asks for, in tokens' },
  'request.input_tokens_max': { kind: 'number', meaning: 'Upper bound of the input size in tokens' },
  'request.cache.ttl': {
    kind: 'string',
    meaning:
      'Longest prompt cache lifetime that could be read in the request, wherever it stands; money is held for it',
    values: ['none', '5m', '1h'],
  },
  'request.limit_rule': {
    kind: 'string',
    meaning: 'Spend rule on requests at once that refused the request before its body was read',
  },

  'principal.id': { kind: 'string', meaning: 'Stable identifier of the caller' },
  'principal.email': { kind: 'string', meaning: 'E-mail address of the caller' },
  'principal.kind': { kind: 'string', meaning: 'How the caller proved who it is', values: ['access_token', 'session'] },
  'principal.groups': {
    kind: 'strings',
    meaning: 'Groups of the caller at the identity provider; for an access token also its token group',
  },
  'principal.team': { kind: 'string', meaning: 'Team whose budget the caller shares' },
  'principal.project': { kind: 'string', meaning: 'Project the caller works on' },
  'principal.roles': {
    kind: 'strings',
    meaning: 'Roles of the caller: admin for members of auth.admin_groups who signed in',
  },
  'principal.token.id': { kind: 'string', meaning: 'Public identifier of the access token or session' },
  'principal.token.name': { kind: 'string', meaning: 'Name the access token was created with; sign-in for a session' },
  'principal.token.group': {
    kind: 'string',
    meaning: 'Token group of the access token, or of the signed-in person where one has them as members',
  },

  'model.family': { kind: 'string', meaning: 'Family of the model' },
  'model.context_window': { kind: 'number', meaning: 'Context window of the model, in tokens' },
  'model.max_output_tokens': { kind: 'number', meaning: 'Most tokens of one answer of the model' },
  'model.supports.tools': { kind: 'boolean', meaning: 'Whether the model calls tools' },
  'model.supports.images': { kind: 'boolean', meaning: 'Whether the model sees images' },
  'model.supports.thinking': { kind: 'boolean', meaning: 'Whether the model can think before it answers' },
  'model.supports.prompt_cache_1h': {
    kind: 'boolean',
    meaning: 'Whether prompts of the model can be kept for an hour',
  },

  'route.upstream': { kind: 'string', meaning: 'Upstream the request goes to' },
  'route.protocol': {
    kind: 'string',
    meaning: 'Protocol in which the upstream is asked',
    values: PROTOCOLS,
  },
  'route.upstream_model': { kind: 'string', meaning: 'Model identifier the upstream knows' },
  'route.region': { kind: 'string', meaning: 'Region of the upstream' },
  'route.estimate_nano_usd': {
    kind: 'number',
    meaning:
      'What such a request usually costs, in nano-USD: what 95 of 100 of the caller to this model cost, or the worst case while too little is known; 0 for counting tokens',
  },
  'route.worst_case_nano_usd': {
    kind: 'number',
    meaning:
      'Cost in nano-USD of a request with as many tokens as this one seems to have and as long an answer as it may get, known before the routing rules are evaluated; 0 for counting tokens',
  },
  'route.per_request_nano_usd': {
    kind: 'number',
    meaning:
      'What the request costs, in nano-USD, where its answer does not tell its usage: what the operator says (`per_request_usd` of the stage route-to)',
  },
  'route.rule': { kind: 'string', meaning: 'Routing rule that matched, or "default"' },
  'route.supports.count_tokens': { kind: 'boolean', meaning: 'Whether the upstream counts tokens' },
  'route.supports.prompt_cache_1h': { kind: 'boolean', meaning: 'Whether the upstream keeps prompts for an hour' },

  'route.candidates': { kind: 'strings', meaning: 'Upstreams that can serve the request, the first to be tried first' },
  'route.dropped': {
    kind: 'strings',
    meaning: 'Upstreams of the route that cannot serve it, each as `name: reason`',
  },

  'cache.requested_ttl': {
    kind: 'string',
    meaning: 'Longest prompt cache lifetime asked for where the API of the request reads one',
    values: ['none', '5m', '1h'],
  },
  'cache.effective_ttl': {
    kind: 'string',
    meaning: 'Longest prompt cache lifetime that the upstream is asked for',
    values: ['none', '5m', '1h'],
  },
  'cache.downgraded': {
    kind: 'boolean',
    meaning: 'Whether the request asks for five minutes in the place of an hour, which its upstream does not support',
  },

  'spend.reserved_nano_usd': {
    kind: 'number',
    meaning: 'Amount reserved for this request before it left, in nano-USD; 0 when it went out without a reservation',
  },
  'spend.most_nano_usd': { kind: 'number', meaning: 'Most this request can cost, in nano-USD' },
  'spend.most_tokens': {
    kind: 'object',
    meaning:
      'Most tokens this request can use, every run of the model counted: input, output, and input_limit, which no answer passes; and other_runs, how often each other model may be run',
  },
  'spend.unreserved': {
    kind: 'boolean',
    meaning:
      'Whether the request went out without a reservation, because the database was away and its limits allow it then',
  },
  'spend.rule': {
    kind: 'string',
    meaning: 'Spend rule whose limit refused the request; `set at run time` for a limit that an administrator set',
  },

  'translation.losses': {
    kind: 'strings',
    meaning: 'Rules of translation between protocols that changed or dropped something, by name',
  },

  'policy.names': { kind: 'strings', meaning: 'Managed policies that the settings of the caller come from' },

  'upstream.status': { kind: 'number', meaning: 'HTTP status the upstream answered' },
  'upstream.attempts': { kind: 'number', meaning: 'How often the request was sent to an upstream' },
  'upstream.retry': {
    kind: 'string',
    meaning: 'Why it was sent again: stale_socket, the kept connection was closed by the upstream in that moment',
    values: ['stale_socket'],
  },
  'upstream.certainty': {
    kind: 'string',
    meaning: 'What is known of a request that was to be sent: whether it left, and whether the upstream answered it',
    values: ['not_sent', 'possibly_accepted', 'answered'],
  },
  'upstream.ttfb_ms': { kind: 'number', meaning: 'Milliseconds from forwarding to the first response byte' },
  'upstream.request_id': { kind: 'string', meaning: "The upstream's own request identifier" },
  'upstream.error_rewritten': {
    kind: 'boolean',
    meaning:
      'Whether the client got an error that says in its own words that the conversation is too long, in place of words of the upstream that it does not know; only set then',
  },

  'usage.input_tokens': {
    kind: 'number',
    meaning: 'Input tokens that were neither read from nor written to the cache',
  },
  'usage.output_tokens': { kind: 'number', meaning: 'Output tokens' },
  'usage.cache_read_input_tokens': { kind: 'number', meaning: 'Input tokens read from the prompt cache' },
  'usage.cache_write_5m_input_tokens': {
    kind: 'number',
    meaning: 'Input tokens written to the five-minute prompt cache',
  },
  'usage.cache_write_1h_input_tokens': { kind: 'number', meaning: 'Input tokens written to the one-hour prompt cache' },
  'usage.server_tools': {
    kind: 'object',
    meaning: 'Uses of tools that the upstream ran, by name; empty without any',
  },
  'usage.cost_nano_usd': { kind: 'number', meaning: 'Cost of the request in nano-USD' },
  'usage.answered_model': {
    kind: 'string',
    meaning: 'Model that answered, as the upstream calls it, where it is not the one asked for',
  },
  'usage.billed': {
    kind: 'object',
    meaning:
      'As what the request was billed where that is out of the ordinary: service tier, speed, region, several models',
  },
  'usage.provenance': {
    kind: 'object',
    meaning:
      'Where each number came from: upstream, estimate, abort, learned, most, possible, clamped where more was reported than is possible, unknown where nobody told, or per_request where the operator says what one costs',
  },
  'usage.possibly_billed_nano_usd': {
    kind: 'number',
    meaning: 'What upstreams may bill for the attempts that failed, in nano-USD; set only where it is not known',
  },

  'outcome.status': { kind: 'number', meaning: 'HTTP status the client was sent' },
  'outcome.error': { kind: 'string', meaning: "Error code of the gateway's own refusal or failure" },
  'outcome.aborted': { kind: 'boolean', meaning: 'Whether the client left before the end' },
  'outcome.drained': {
    kind: 'boolean',
    meaning: 'Whether the answer was read to its end for its bill, after nobody waited for it any more; only set then',
  },
  'outcome.unread': {
    kind: 'boolean',
    meaning:
      'Whether the gateway could not read the answer, compressed in an unknown way or wrongly, or too large; only set then',
  },
  'outcome.duration_ms': { kind: 'number', meaning: 'Milliseconds from the request head to the end of the response' },
  'outcome.shadow': {
    kind: 'strings',
    meaning: 'Rules in shadow mode that matched, by name: what they would have done did not happen',
  },
  'outcome.rewrites': {
    kind: 'strings',
    meaning: 'Body fields the gateway changed on the way up; `content-encoding`: the body was decompressed',
  },
  'outcome.replaced': {
    kind: 'object',
    meaning:
      'How often each stage replaced something in the texts of the answer, by its id; in shadow mode how often it would have',
  },

  'error.code': { kind: 'string', meaning: 'Error code being handled; set only in on_error and afterwards' },
  'error.status': { kind: 'number', meaning: 'HTTP status of the error being handled' },
  'error.stage': { kind: 'string', meaning: 'Stage that raised the error being handled' },
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
