import {
  countAt,
  flagAt,
  invalid,
  isAbsent,
  listAt,
  nameAt,
  noteOthers,
  numberAt,
  objectAt,
  optional,
  present,
  textAt,
} from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { Conversation, OutputFormat, ReasoningWish } from '../translation/conversation.ts';
import { EFFORTS } from '../translation/features/efforts.ts';
import { readMetadata, readUser } from '../translation/features/end-user.ts';
import { readPromptCache } from '../translation/features/prompt-cache.ts';
import type { Notes } from '../translation/notes.ts';
import type { RuleName } from '../translation/rules.ts';
import { readMessages } from './read-messages.ts';
import { readTools } from './read-tools.ts';

/** Fields that are dropped by a rule when they say more than their default. */
const DROPPED: Readonly<Record<string, RuleName>> = {
  logprobs: 'token_probabilities',
  top_logprobs: 'token_probabilities',
  logit_bias: 'logit_bias',
  prediction: 'prediction',
  moderation: 'moderation',
  prompt_cache_options: 'prompt_cache_options',
};

const FIELDS = new Set([
  ...Object.keys(DROPPED),
  'messages',
  'model',
  'audio',
  'frequency_penalty',
  'function_call',
  'functions',
  'max_completion_tokens',
  'max_tokens',
  'metadata',
  'modalities',
  'n',
  'parallel_tool_calls',
  'presence_penalty',
  'prompt_cache_key',
  'prompt_cache_retention',
  'reasoning_effort',
  'response_format',
  'safety_identifier',
  'seed',
  'service_tier',
  'stop',
  'store',
  'stream',
  'stream_options',
  'temperature',
  'tool_choice',
  'tools',
  'top_k',
  'top_p',
  'user',
  'verbosity',
  'web_search_options',
]);

const SCHEMA_FIELDS = new Set(['name', 'description', 'schema', 'strict']);
const STREAM_FIELDS = new Set(['include_usage', 'include_obfuscation']);

/** Reads a client's request. Raises invalid_request, and not_translatable by a rule. */
export function readRequest(body: Json, notes: Notes): Conversation {
  noteOthers(body, FIELDS, notes);
  noteDropped(body, notes);
  refuseOthers(body, notes);
  return {
    model: nameAt(body.model, 'model'),
    ...readMessages(body.messages, notes),
    ...readTools(body, notes),
    ...readSampling(body),
    ...present({
      reasoning: readReasoning(body, notes),
      output_format: readFormat(body, notes),
      verbosity: optional(body, 'verbosity', textAt),
      user: readUser(body, notes),
      metadata: readMetadata(body),
      service_tier: optional(body, 'service_tier', textAt),
      store: optional(body, 'store', flagAt),
      cache: readPromptCache(body),
    }),
    stream: optional(body, 'stream', flagAt) ?? false,
  };
}

function noteDropped(body: Json, notes: Notes): void {
  for (const [field, rule] of Object.entries(DROPPED)) {
    const value = body[field];
    if (!isAbsent(value) && value !== false && value !== 0) notes.note(rule);
  }
  const options = optional(body, 'stream_options', objectAt) ?? {};
  noteOthers(options, STREAM_FIELDS, notes);
  if (options.include_obfuscation === true) notes.note('stream_obfuscation');
}

function refuseOthers(body: Json, notes: Notes): void {
  if ((optional(body, 'n', countAt) ?? 1) > 1) notes.refuse('several_choices', 'n');
  const modalities = optional(body, 'modalities', listAt) ?? [];
  if (modalities.some((modality) => modality !== 'text')) notes.refuse('audio', 'modalities');
}

function readSampling(body: Json): Partial<Conversation> {
  return present({
    max_output_tokens: optional(body, 'max_completion_tokens', countAt) ?? optional(body, 'max_tokens', countAt),
    temperature: optional(body, 'temperature', numberAt),
    // Values that are the default are not said: some upstreams refuse top_p beside temperature, others have no penalties.
    top_p: unless(1, optional(body, 'top_p', numberAt)),
    top_k: optional(body, 'top_k', numberAt),
    frequency_penalty: unless(0, optional(body, 'frequency_penalty', numberAt)),
    presence_penalty: unless(0, optional(body, 'presence_penalty', numberAt)),
    seed: optional(body, 'seed', numberAt),
    stop: optional(body, 'stop', stopAt),
  });
}

function unless(usual: number, value: number | undefined): number | undefined {
  return value === usual ? undefined : value;
}

function stopAt(value: unknown, param: string): readonly string[] | undefined {
  const stop =
    typeof value === 'string' ? [value] : listAt(value, param).map((text, i) => textAt(text, `${param}.${i}`));
  return stop.length > 0 ? stop : undefined;
}

function readReasoning(body: Json, notes: Notes): ReasoningWish | undefined {
  const said = optional(body, 'reasoning_effort', textAt);
  if (said === undefined) return undefined;
  const effort = EFFORTS.find((name) => name === said);
  if (effort === undefined) notes.note('unknown_effort');
  return effort && { effort };
}

function readFormat(body: Json, notes: Notes): OutputFormat | undefined {
  const format = optional(body, 'response_format', objectAt);
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') return { kind: 'json_object' };
  if (format.type !== 'json_schema') {
    throw invalid('response_format.type', 'must be text, json_object or json_schema');
  }
  const path = 'response_format.json_schema';
  const named = objectAt(format.json_schema, path);
  noteOthers(named, SCHEMA_FIELDS, notes);
  return {
    kind: 'json_schema',
    schema: optional(named, 'schema', objectAt, `${path}.`) ?? {},
    ...present({
      name: optional(named, 'name', textAt, `${path}.`),
      description: optional(named, 'description', textAt, `${path}.`),
      strict: optional(named, 'strict', flagAt, `${path}.`),
    }),
  };
}
