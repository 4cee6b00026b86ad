import { createParser } from 'eventsource-parser';
import { tryParseBounded } from '../../base/kit/json/bounded.ts';
import { isObject, jsonIn, objectsIn, own, present } from './read-json.ts';
import type { Json } from './translation/conversation.ts';

/**
 * The meaning of upstream errors: one table for all decisions that read error texts. A new server is a row.
 */

export type Meaning = keyof typeof MEANINGS;

interface MeaningRow {
  /** The status of an error without one. */
  readonly status: number;
  /** Error type in the Messages protocol. */
  readonly messages: string;
  /** The row of the failover table; absent: the status decides. */
  readonly outcome?: 'caller' | 'payment' | 'model_missing' | 'overloaded' | 'limited' | 'credential';
  /** Statuses that a name overrides; absent: every status. */
  readonly by_name?: (status: number) => boolean;
  /** Statuses that a phrase overrides, as a text may quote the caller; absent: those below 500. */
  readonly by_phrase?: (status: number) => boolean;
}

const below500 = (status: number) => status < 500;

/** The meanings and their consequences. If two match an error, the first wins. */
export const MEANINGS = {
  /** The conversation exceeds the context window. Every upstream would reject it; clients compact it and continue. */
  context_full: {
    status: 400,
    messages: 'invalid_request_error',
    outcome: 'caller',
    // Errors about credit may mention the length of the prompt.
    by_phrase: (status) => status !== 402,
  },
  payment: { status: 402, messages: 'billing_error', outcome: 'payment' },
  model_missing: { status: 404, messages: 'not_found_error', outcome: 'model_missing' },
  overloaded: {
    ...({ status: 503, messages: 'overloaded_error', outcome: 'overloaded' } as const),
    by_phrase: (status) => status >= 500,
  },
  limited: { status: 429, messages: 'rate_limit_error', outcome: 'limited' },
  credential: { status: 401, messages: 'authentication_error', outcome: 'credential', by_name: below500 },
  permission: { status: 403, messages: 'permission_error' },
  not_found: { status: 404, messages: 'not_found_error' },
  caller: { status: 400, messages: 'invalid_request_error' },
  conflict: { status: 409, messages: 'conflict_error' },
  too_large: { status: 413, messages: 'request_too_large' },
  unsupported: { status: 501, messages: 'not_supported' },
  unavailable: { status: 503, messages: 'api_error' },
  late: { status: 504, messages: 'timeout_error' },
  failed: { status: 500, messages: 'api_error' },
} as const satisfies Record<string, MeaningRow>;

/** Error names in `type`, `code`, `status` and the like, by the servers that use them. */
const NAMES: readonly (readonly [meaning: Meaning, server: string, names: string])[] = [
  ['context_full', 'OpenAI, Azure, Groq, Cerebras, OpenRouter', 'context_length_exceeded'],
  ['context_full', 'llama.cpp', 'exceed_context_size_error'],
  ['context_full', 'GitHub Copilot', 'model_max_prompt_tokens_exceeded max_prompt_tokens_exceeded'],
  ['context_full', 'GitHub Models', 'tokens_limit_reached'],
  ['context_full', 'Z.ai', 'model_context_window_exceeded'],
  ['context_full', 'Volcengine', 'outofcontexterror'],
  ['context_full', 'LMDeploy', 'input_length_error'],
  ['context_full', 'LiteLLM', 'contextwindowexceedederror context_window_exceeded'],
  ['context_full', 'others', 'context_window_exceeded_error context_size_exceeded prompt_too_long input_too_long'],

  ['payment', 'Messages API', 'billing_error'],
  ['payment', 'OpenAI', 'insufficient_quota billing_hard_limit_reached billing_not_active credit_balance_exhausted'],
  ['payment', 'OpenAI', 'organization_spend_limit_exceeded project_spend_limit_exceeded'],
  ['payment', 'OpenAI', 'organization_usage_limit_exceeded usage_limit_reached usage_not_included'],
  ['payment', 'Moonshot', 'exceeded_current_quota_error'],
  ['payment', 'DashScope', 'arrearage'],
  ['payment', 'Volcengine', 'accountoverdueerror'],
  ['payment', 'others', 'insufficient_balance insufficient_credits payment_required'],

  ['model_missing', 'OpenAI, Groq, DashScope', 'model_not_found'],
  ['model_missing', 'Azure', 'deploymentnotfound'],
  ['model_missing', 'Mistral', 'invalid_model'],
  ['model_missing', 'Volcengine', 'modelnotopen invalidendpointormodel.notfound'],

  ['overloaded', 'Messages API', 'overloaded_error'],
  ['overloaded', 'OpenAI', 'server_is_overloaded slow_down'],
  ['overloaded', 'Moonshot', 'engine_overloaded_error'],
  ['overloaded', 'Bedrock', 'serviceunavailableexception modelnotreadyexception'],
  ['overloaded', 'Mistral', 'service_tier_capacity_exceeded'],

  ['limited', 'Messages API', 'rate_limit_error'],
  ['limited', 'OpenAI, Groq', 'rate_limit_exceeded'],
  ['limited', 'Moonshot', 'rate_limit_reached_error'],
  ['limited', 'Mistral', 'rate_limited'],
  ['limited', 'GitHub Models', 'ratelimitreached'],
  ['limited', 'Gemini', 'resource_exhausted ratelimitexceeded'],
  ['limited', 'Bedrock', 'throttlingexception toomanyrequestsexception'],
  ['limited', 'DashScope', 'throttling throttling.ratequota throttling.allocationquota'],
  ['limited', 'LiteLLM', 'throttling_error ratelimiterror'],
  ['limited', 'others', 'too_many_requests'],

  ['credential', 'Messages API', 'authentication_error'],
  ['credential', 'OpenAI', 'invalid_api_key'],
  ['credential', 'Gemini', 'api_key_invalid unauthenticated'],
  ['credential', 'Moonshot', 'invalid_authentication_error incorrect_api_key_error'],
  ['credential', 'DashScope', 'invalidapikey'],
  ['credential', 'Bedrock', 'unrecognizedclientexception expiredtokenexception'],
  ['credential', 'LiteLLM', 'auth_error'],

  ['permission', 'Messages API', 'permission_error'],
  ['permission', 'Gemini', 'permission_denied'],
  ['permission', 'Bedrock', 'accessdeniedexception'],
  ['not_found', 'Messages API', 'not_found_error'],
  ['not_found', 'Gemini', 'not_found'],
  ['conflict', 'Messages API', 'conflict_error'],
  ['too_large', 'Messages API', 'request_too_large'],
  ['caller', 'Messages API, OpenAI', 'invalid_request_error'],
  ['caller', 'OpenAI', 'invalid_prompt string_above_max_length data_residency_mismatch'],
  ['caller', 'OpenAI', 'bio_policy cyber_policy misalignment_policy_violation'],
  ['caller', 'OpenAI', 'invalid_image invalid_image_format invalid_base64_image invalid_image_url'],
  ['caller', 'OpenAI', 'invalid_image_mode image_too_large image_too_small image_parse_error'],
  ['caller', 'OpenAI', 'image_content_policy_violation image_file_too_large image_file_not_found'],
  ['caller', 'OpenAI', 'empty_image_file unsupported_image_media_type failed_to_download_image'],
  ['caller', 'Gemini', 'invalid_argument failed_precondition'],
  ['caller', 'Bedrock', 'validationexception'],
  ['caller', 'vLLM, SGLang', 'badrequesterror'],
  ['unsupported', 'this gateway', 'not_supported'],
  ['unsupported', 'Gemini', 'unimplemented'],
  ['limited', 'OpenAI', 'requests tokens'],
  ['unavailable', 'others', 'service_unavailable unavailable'],
  ['late', 'Messages API', 'timeout_error'],
  ['late', 'Gemini, Bedrock', 'deadline_exceeded modeltimeoutexception'],
  ['failed', 'Messages API', 'api_error'],
  ['failed', 'OpenAI', 'server_error internal_server_error'],
  ['failed', 'Gemini, Bedrock', 'internal internalserverexception'],
];

const WEAK_NAMES: ReadonlySet<string> = new Set(['requests', 'tokens']);

/**
 * Error phrases by server. Every expression is linear, because upstreams control the texts, which may be long.
 * Sources are the servers' own code and the tables of clients that recover from them (pi, opencode, LiteLLM).
 */
export const PHRASES: Readonly<Partial<Record<Meaning, readonly (readonly [server: string, phrase: RegExp])[]>>> = {
  context_full: [
    ['Messages API, Vertex, Fireworks, Ollama, Baidu', /\bprompt (?:tokens? )?(?:is |are )?too (?:long|large)\b/i],
    ['Messages API', /input length and `?max_tokens`? exceed (?:the )?context limit/i],
    ['Bedrock, Databricks', /\binputs? (?:is|are) too (?:long|large)\b/i],
    ['Bedrock', /\btoo many input tokens\b/i],
    ['OpenAI', /\bcontext[ _-](?:length|window|size)[ _-](?:limit )?(?:(?:is|was|has been) )?exceeded\b/i],
    ['OpenAI', /\bexceed(?:s|ed|ing)? [^\n]{0,60}\bcontext[ _-](?:length|window|size|limit)/i],
    [
      'OpenAI, Azure, DeepSeek, vLLM, OpenRouter',
      /\bmaximum context\b|\bmax context (?:length )?(?:is |was )?(?:reached|exceeded)/i,
    ],
    ['vLLM', /\bmodel's context length is only \d/i],
    ['vLLM, Together, SGLang', /\b(?:longer|greater|larger) than the (?:model's )?(?:maximum )?context/i],
    [
      'Gemini, Azure, Copilot, Nova, SGLang, Triton, TabbyAPI, Volcengine',
      /\b(?:input|prompt) (?:tokens?|token count|length)\b[^\n]{0,50}\b(?:exceed(?:s|ed)?|(?<!(?:must|should) be )(?:greater|longer|larger) than)\b/i,
    ],
    [
      'Perplexity, DeepInfra, Mistral, Databricks',
      /\b(?:input|prompt)\b[^\n]{0,60}\bexceeds? (?:the )?(?:model(?:'s)?|max(?:imum)?) (?:\w+ ){0,3}(?:of )?\d+ tokens\b/i,
    ],
    ['Perplexity', /\btokens \(prompt \+ max_tokens\) \d+ exceeds/i],
    [
      'SiliconFlow, Aphrodite, LMDeploy, MLX',
      /\b(?:input|prompt)(?:_\w+)?\b[^\n]{0,80}\b(?:max_seq_len|max_model_len|max_input_len|session_len|n_ctx)\b/i,
    ],
    [
      'Yandex, FriendliAI',
      /\b(?:input|prompt) tokens\b[^\n]{0,40}\b(?:must|should) be (?:no more|less|fewer|at most)\b/i,
    ],
    ['SambaNova', /\bmaximum supported sequence length is\b/i],
    ['DeepInfra', /\bmax(?:imum)? sequence length exceeded/i],
    ['MLC', /\blarger than the model input length limit/i],
    ['LMDeploy', /\binput_length_error\b/i],
    ['Bedrock', /\bexpected maxLength: \d{5,}, actual:/i],
    ['Baidu', /\bthe max input characters is \d/i],
    ['Snowflake', /\bmax tokens of \d+ exceeded/i],
    ['Volcengine', /\btotal tokens of image and text exceed/i],
    ['GitHub Models', /\btoo large for [^\n]{1,80} model\. max size: \d+ tokens/i],
    ['vLLM', /\blonger than the maximum model length\b/i],
    ['Vertex', /\binput token count is \d+ but model only supports up to/i],
    ['xAI', /\bmaximum prompt length is \d/i],
    ['Groq, Cerebras', /\breduce the length of (?:the|your) (?:messages|prompt|input prompt|input)\b/i],
    ['Cerebras', /\bcurrent length is \d+ while limit is \d/i],
    ['TGI, Together', /`?inputs`? tokens \+ `?max_new_tokens`? must be/i],
    ['TGI', /`inputs` must have less than \d+ tokens/i],
    ['TensorRT-LLM', /\bsum of prompt length\b[^\n]{0,80}\bshould not exceed/i],
    ['LM Studio', /\bcontext the overflows\b|\bcontext overflow\b|\bcontext length of only \d/i],
    ['MiniMax', /\bcontext window exceeds limit/i],
    ['Moonshot', /\bexceeded model token limit/i],
    ['DashScope', /\brange of input length should be/i],
    [
      'Zhipu, Tencent',
      /\bprompt exceeds (?:the )?max(?:imum)? length\b|(?:prompt|输入|上下文|提示词|请求内容)[^\n]{0,12}(?:超长|超过|超出|过长)/i,
    ],
    ['Zhipu', /\btokens in request more than max tokens allowed/i],
    ['Cohere', /\btoo many tokens: (?:total )?(?:number of tokens in the prompt|size limit exceeded)/i],
    ['watsonx', /\bnumber of input tokens \d+ cannot exceed/i],
    ['DwarfStar', /\bprompt has [\d,]+ tokens?, but the configured context size is/i],
    ['LiteLLM', /\bContextWindowExceededError\b/],
    [
      'others',
      /\b(?:prompt|conversation|request|messages?) (?:(?:is|are) )?too (?:long|large) for (?:the|this) (?:model|context)/i,
    ],
  ],
  payment: [
    ['Messages API', /\bcredit balance is too low\b/i],
    ['DeepSeek, Zhipu, MiniMax, Moonshot', /\binsufficient balance\b|余额不足|欠费/i],
    ['OpenRouter', /\binsufficient credits\b/i],
    ['xAI', /\bused all available credits\b/i],
  ],
  model_missing: [
    ['OpenAI, vLLM, xAI', /\bmodel:? ['"`]?[^\s'"`]{1,200}['"`]? (?:does not exist|(?:is )?not found)/i],
    ['DeepSeek', /^model not exist$/i],
    ['OpenRouter', /\bis not a valid model id\b/i],
    ['Bedrock', /\bprovided model identifier is invalid\b/i],
  ],
  overloaded: [['Messages API, Gemini, Moonshot', /\b(?:is|are) (?:currently |temporarily )?overloaded\b/i]],
  limited: [['OpenAI, Groq', /\brate limit (?:reached|exceeded)\b/i]],
  credential: [
    ['Gemini', /\bapi key not valid\b/i],
    ['OpenAI, xAI', /\bincorrect api key provided\b/i],
  ],
};

/** Phrases of rate limits; an error with one is not a context overflow. */
const OVER_TIME =
  /\bper[ -](?:second|minute|min|hour|day)\b|\b(?:hourly|daily|weekly|monthly)\b|\b[TR]P[SMHD]\b|\brate[ _-]?limit|\bquota|\btoo many requests|\bthrottl/i;

/** Errors about an invalid output bound, not about the input. */
const OF_OUTPUT = /^\W*max_(?:\w+_)?tokens\b/i;
const OF_INPUT = /\b(?:inputs?|prompts?|messages?|conversation|request has)\b/i;

/** The output bound alone exceeds the window: the conversation is not too long. */
const LONG_OUTPUT: readonly RegExp[] = [
  /\bmax(?:_completion)?_tokens'? is too large: (?<output>\d+)\. This model's maximum context length is (?<window>\d+)/i,
  /\bmaximum context length is (?<window>\d+) tokens[^\n]{0,80}\(\d+ in (?:the messages|your prompt)[,;] (?<output>\d+) (?:in|for) the completion/i,
  /\bexceed (?:the )?context limit: \d+ \+ (?<output>\d+) > (?<window>\d+)/i,
  /\bmust be <= (?<window>\d+)\. Given: \d+ `?inputs`? tokens and (?<output>\d+) `?max_new_tokens/i,
];

const MEANING_OF_NAME: ReadonlyMap<string, Meaning> = new Map(
  NAMES.flatMap(([meaning, , names]) => names.split(' ').map((name) => [name, meaning] as const)),
);

/** `error.type` of the Messages protocol: the status of each, and its `type` and `code` in chat completions and Responses. */
export const MESSAGES_TYPES: Readonly<Record<string, readonly [status: number, type: string, code: string | null]>> = {
  invalid_request_error: [400, 'invalid_request_error', null],
  authentication_error: [401, 'invalid_request_error', 'invalid_api_key'],
  billing_error: [402, 'insufficient_quota', 'insufficient_quota'],
  permission_error: [403, 'invalid_request_error', 'forbidden'],
  not_found_error: [404, 'invalid_request_error', 'model_not_found'],
  conflict_error: [409, 'invalid_request_error', 'conflict'],
  request_too_large: [413, 'invalid_request_error', 'request_too_large'],
  rate_limit_error: [429, 'requests', 'rate_limit_exceeded'],
  api_error: [500, 'server_error', null],
  not_supported: [501, 'invalid_request_error', 'not_supported'],
  timeout_error: [504, 'server_error', null],
  overloaded_error: [529, 'server_error', 'server_is_overloaded'],
};

const ORDER = Object.keys(MEANINGS) as Meaning[];

interface ErrorWords {
  /** Names of the error, the most precise first. */
  readonly names: readonly string[];
  readonly texts: readonly string[];
}

const NAME_MAX = 100;

/** A name as in the table: in lower case, without the namespace prefix of some clouds. */
function plainName(name: string): string {
  return name.length > NAME_MAX ? '' : name.replace(/^.*#|:.*$/g, '').toLowerCase();
}

function meaningOfName(name: string): Meaning | undefined {
  return MEANING_OF_NAME.get(plainName(name));
}

function isOfOutput(text: string): boolean {
  if (OF_OUTPUT.test(text) && !OF_INPUT.test(text)) return true;
  return LONG_OUTPUT.some((form) => {
    const { output, window } = form.exec(text)?.groups ?? {};
    return output !== undefined && Number(output) >= Number(window);
  });
}

/** A reason is at the start of an error or, after a stack trace, at its end; a whole request may be in between. */
const HEAD_CHARS = 4000;
const TAIL_CHARS = 1000;

/** Matches the point where validators quote the input: pydantic, FastAPI, vLLM. */
const ECHO = /['"]input['"]\s*:|\binput_value=/;

function ownWords(text: string): string {
  const echo = text.search(ECHO);
  const own = echo === -1 ? text : text.slice(0, echo);
  return own.length <= HEAD_CHARS + TAIL_CHARS ? own : `${own.slice(0, HEAD_CHARS)}\n${own.slice(-TAIL_CHARS)}`;
}

function saysIt(meaning: Meaning, text: string): boolean {
  if (!PHRASES[meaning]?.some(([, phrase]) => phrase.test(text))) return false;
  return meaning !== 'context_full' || !(OVER_TIME.test(text) || isOfOutput(text));
}

/** The meaning of an error where it differs from its status; else `undefined`. */
export function meaningOf(words: ErrorWords, status: number) {
  const named = new Set(words.names.filter((name) => !WEAK_NAMES.has(plainName(name))).map(meaningOfName));
  const texts = words.texts.map(ownWords);
  for (const meaning of ORDER) {
    const { outcome, by_name, by_phrase = below500 }: MeaningRow = MEANINGS[meaning];
    if (outcome === undefined) continue;
    if (named.has(meaning) && (by_name?.(status) ?? true)) return { meaning, by: 'name' } as const;
    if (by_phrase(status) && texts.some((text) => saysIt(meaning, text))) return { meaning, by: 'phrase' } as const;
  }
  return undefined;
}

/** The status of an error that came without one; 500 where its words are unknown. */
export function statusOf(error: ReadError): number {
  const name = error.names.find((one) => meaningOfName(one) !== undefined);
  const named = name && (own(MESSAGES_TYPES, name)?.[0] ?? MEANINGS[meaningOfName(name)!].status);
  const status = error.status ?? (named || 500);
  return meaningOf(error, status)?.meaning === 'context_full' ? MEANINGS.context_full.status : status;
}

/** An upstream error, in any format. */
export interface ReadError extends ErrorWords {
  /** The upstream's reason; empty without one. A long reason ends with an ellipsis. */
  readonly message: string;
  readonly type?: string;
  readonly code?: string;
  readonly param?: string;
  readonly status?: number;
}

/** Longest reason in a protocol's message field, in UTF-16 units, and in other places. */
const MESSAGE_MAX = 8000;
const FOREIGN_TEXT_MAX = 1000;

/** Maximum depth and number of parts that are read of an error. */
const DEPTH_MAX = 8;
const ITEMS_MAX = 10;

/** Longer texts are not parsed: no error is so long. */
const PARSED_MAX = 262_144;

const REASONS = [
  ...['message', 'Message', 'msg', 'error_description', 'error_message', 'errorMessage', 'error_msg', 'status_msg'],
  ...['faultstring', 'detail', 'errors', 'details', 'error', 'title', 'description', 'reason', 'raw'],
];

/** Keys of a nested error: that of a provider behind a router. */
const INNER = ['metadata', 'innererror', 'inner_error', 'upstream_error', 'provider_error', 'cause'];

/** Keys of names, the most precise first. */
const NAME_KEYS = [
  ...['code', 'error_code', 'errorCode', 'Code', 'type', '__type', 'error_type', 'Type', 'status', 'reason', 'error'],
];

const STATUSES = ['status', 'code', 'status_code', 'statusCode', 'error_code'];

function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…`;
}

function nameIn(fields: Json, key: string): string | undefined {
  const value = fields[key];
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' && value.length <= NAME_MAX ? value : undefined;
}

function statusIn(fields: Json): number | undefined {
  const found = STATUSES.map((key) => nameIn(fields, key)).find((text) => /^[45]\d\d$/.test(text ?? ''));
  return found === undefined ? undefined : Number(found);
}

/** Parses a text as JSON, or the first event of a stream. */
function parse(text: string): unknown {
  const json = /^(?:data|event|id)?:/.test(text) ? (/^data:(.*)$/m.exec(text)?.[1] ?? '') : text;
  if (json.length > PARSED_MAX || !/^\s*[{["]/.test(json)) return undefined;
  return tryParseBounded(json);
}

const MARKUP = /^<(?:[!?]|[a-z][\w:-]{0,40}[\s/>])/i;

/** The message of a page or an XML document, else its title. */
function textOfMarkup(text: string): string {
  const found = /<(?:\w{1,20}:)?message>([^<]{1,8000})</i.exec(text) ?? /<title[^>]{0,200}>([^<]{1,1000})</i.exec(text);
  return found === null ? '' : found[1]!.replace(/\s+/g, ' ').trim();
}

/** The error below an envelope; `undefined` where the object itself is the error. */
function envelopedIn(fields: Json): unknown {
  const { response, Response } = fields;
  const found = [fields.error, isObject(response) ? response.error : undefined, fields.fault, fields.base_resp];
  if (isObject(Response)) found.push(Response.Error);
  return found.find((value) => typeof value === 'object' && value !== null);
}

/** Texts by key, such as a wrong field and the reason, for an error without the usual keys. */
function textsByKey(value: unknown, path: readonly string[] = []): string[] {
  if (path.length > DEPTH_MAX) return [];
  if (typeof value === 'string') return value.trim() === '' || path.length === 0 ? [] : [`${path.join('.')}: ${value}`];
  if (Array.isArray(value)) return value.slice(0, ITEMS_MAX).flatMap((item) => textsByKey(item, path));
  if (!isObject(value)) return [];
  const details = Object.entries(value).filter(
    ([key]) => !NAME_KEYS.includes(key) && !/^object$|^param$|id$/i.test(key),
  );
  return details.slice(0, ITEMS_MAX).flatMap(([key, item]) => textsByKey(item, [...path, cut(key, NAME_MAX)]));
}

class Reading {
  readonly names: string[] = [];
  readonly texts: string[] = [];
  status: number | undefined;
  source: Json | undefined;

  reason(value: unknown, depth = 0): string {
    if (depth > DEPTH_MAX) return '';
    if (typeof value === 'string') return this.#inText(value, depth);
    if (Array.isArray(value)) return this.#inList(value, depth);
    return isObject(value) ? this.#inObject(value, depth) : '';
  }

  #inText(text: string, depth: number): string {
    const trimmed = text.trim();
    const parsed = parse(trimmed);
    const inside = parsed === undefined ? '' : this.reason(parsed, depth + 1);
    if (inside !== '') return inside;
    const reason_text = MARKUP.test(trimmed) ? textOfMarkup(trimmed) : trimmed === '' ? '' : text;
    if (reason_text !== '') this.texts.push(reason_text);
    return reason_text;
  }

  #inList(list: readonly unknown[], depth: number): string {
    const reasons = list.slice(0, ITEMS_MAX).map((item) => this.reason(item, depth + 1));
    return [...new Set(reasons)].filter((reason) => reason !== '').join('; ');
  }

  #inObject(fields: Json, depth: number): string {
    for (const key of NAME_KEYS) {
      const name = fields[key];
      if (typeof name === 'string' && name !== '' && name !== 'error') this.names.push(name);
    }
    this.status ??= statusIn(fields);
    // Some clouds have a name here, in addition to the text.
    if (Array.isArray(fields.details))
      for (const item of fields.details.slice(0, ITEMS_MAX))
        if (isObject(item) && typeof item.reason === 'string') this.names.push(item.reason);
    const enveloped = envelopedIn(fields);
    if (enveloped !== undefined) {
      const details = this.reason(enveloped, depth + 1);
      if (details !== '') return details;
      if (isObject(enveloped)) this.source ??= enveloped;
    }
    const details = this.#details(fields, depth);
    const inner = INNER.map((key) => this.reason(fields[key], depth + 1)).find((reason) => reason !== '') ?? '';
    if (details === '' || inner === '') return details === '' ? inner : details;
    return details.includes(inner) ? details : `${details}: ${inner}`;
  }

  #details(fields: Json, depth: number): string {
    for (const key of REASONS) {
      if (key === 'error' && typeof fields.error !== 'string') continue;
      const reason_text = this.reason(fields[key], depth + 1);
      if (reason_text === '') continue;
      this.source ??= fields;
      // A list of problems with their places (FastAPI).
      const { loc } = fields;
      return Array.isArray(loc) && key === 'msg'
        ? `${cut(loc.slice(0, ITEMS_MAX).join('.'), NAME_MAX)}: ${reason_text}`
        : reason_text;
    }
    return '';
  }
}

function isInPlace(body: unknown, source: Json | undefined): boolean {
  if (!isObject(body) || source === undefined || typeof source.message !== 'string') return false;
  return source === body.error || (isObject(body.response) && source === body.response.error);
}

const DETAILS = ['error', 'errors', 'detail', 'details'];

const pick = (fields: Json, keys: readonly string[]): Json =>
  Object.fromEntries(Object.entries(fields).filter(([key]) => keys.includes(key)));

/** Reads an upstream error: the body of a response as JSON or text, or an event. Accepts any input. */
export function readError(received: unknown): ReadError {
  const body = typeof received === 'string' ? (parse(received.trim()) ?? received) : received;
  const reading = new Reading();
  const found = reading.reason(body);
  const reason = found !== '' || !isObject(body) ? found : textsByKey(pick(body, DETAILS)).join('; ');
  const { names, texts, status } = reading;
  const source = reading.source ?? (isObject(body) ? body : {});
  // Names of a problem of one field are not names of the error.
  const is_item = source.loc !== undefined;
  const type = source.type === 'error' || is_item ? undefined : nameIn(source, 'type');
  const code = is_item ? undefined : nameIn(source, 'code');
  const param = nameIn(source, 'param');
  return {
    message: cut(reason, isInPlace(body, reading.source) ? MESSAGE_MAX : FOREIGN_TEXT_MAX),
    names,
    texts,
    ...present({ type, code, param, status }),
  };
}

/** Keys that begin errors, and no response of any protocol. */
const ONLY_IN_ERRORS = ['detail', 'errors', 'message', 'Message', 'msg'];
const ONLY_IN_ANSWERS = ['choices', 'content', 'output', 'object', 'type', 'id', 'usage', 'model'];

const hasEntries = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length > 0;

/** Whether a JSON object in place of a response is an error. */
export function isError(value: Json): boolean {
  if (value.object === 'error' || value.type === 'error') return true;
  const { error, response } = value;
  if (typeof error === 'string' ? error !== '' : hasEntries(error)) return true;
  if (isObject(response) && isObject(response.error)) return true;
  // MiniMax sends a response without choices, and the error beside them.
  if (isObject(value.base_resp) && !Array.isArray(value.choices)) {
    const { status_code } = value.base_resp;
    if (typeof status_code === 'number' && status_code !== 0) return true;
  }
  if (ONLY_IN_ANSWERS.some((key) => value[key] !== undefined)) return false;
  return ONLY_IN_ERRORS.some((key) => (typeof value[key] === 'string' ? value[key] !== '' : hasEntries(value[key])));
}

/** The beginning of a JSON document that may be an error and nothing else. */
export const BEGINS_AS_ERROR =
  /^\s*\{\s*"(?:error"\s*:\s*[{"[]|(?:type|object)"\s*:\s*"(?:error|response\.failed)"|(?:detail|errors|[mM]essage|msg|code|error_code|status_code|success|base_resp)"\s*:)/;

/** The error of a choice, in its own envelope: beside the finish reason or in the message (OpenRouter). */
export function errorOfChoice({ error, message, delta }: Json): Json | undefined {
  const places = [error, isObject(message) ? message.error : undefined, isObject(delta) ? delta.error : undefined];
  return places.map((one) => ({ error: one })).find(isError);
}

/** The error in a JSON text; `undefined` where there is none. */
export function errorIn(json: string): ReadError | undefined {
  const value = jsonIn(json);
  if (!isObject(value)) return undefined;
  if (isError(value)) return readError(value);
  const choice = objectsIn(value.choices).find(({ index = 0 }) => index === 0);
  const inside = choice && errorOfChoice(choice);
  return inside && readError(inside);
}

/** Fast check whether an event can be an error, without parsing it. */
export function mayBeError(name: string | undefined, data: string): boolean {
  if (name !== undefined && name !== 'message') return name === 'error' || name === 'response.failed';
  return BEGINS_AS_ERROR.test(data.slice(0, 64));
}

/** The error in an event of a stream; `undefined` for an event of a response. */
export function errorOfEvent(name: string, data: string): ReadError | undefined {
  if (name === 'error') return readError(data);
  return data.includes('"error"') || BEGINS_AS_ERROR.test(data.slice(0, 64)) ? errorIn(data) : undefined;
}

/** Whether the last of these events is an error, which ends the stream for the client. */
export function endsWithError(events: string): boolean {
  let is_error = false;
  const parser = createParser({
    onEvent: ({ event = '', data }) => {
      is_error = errorOfEvent(event, data) !== undefined;
    },
  });
  parser.feed(events);
  return is_error;
}
