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
import { addToolsOfInput, readInput } from './read-items.ts';
import { readToolChoice, ToolBook } from './read-tools.ts';

const FIELDS: ReadonlySet<string> = new Set([
  ...['access_programs', 'background', 'client_metadata', 'context_management', 'conversation', 'image', 'include'],
  ...['input', 'instructions', 'max_output_tokens', 'max_tool_calls', 'metadata', 'model', 'moderation'],
  ...['parallel_tool_calls', 'previous_response_id', 'prompt', 'prompt_cache_key', 'prompt_cache_options'],
  ...['prompt_cache_retention', 'reasoning', 'safety_identifier', 'service_tier', 'store', 'stream', 'stream_options'],
  ...['temperature', 'text', 'tool_choice', 'tools', 'top_logprobs', 'top_p', 'truncation', 'user'],
]);

/** Fields that cannot be left out without changing what is asked. */
const REFUSED: readonly (readonly [string, RuleName])[] = [
  ['previous_response_id', 'kept_conversation'],
  ['conversation', 'kept_conversation'],
  ['prompt', 'prompt_template'],
  ['background', 'background'],
];

/** Fields that are left out; a value that is the default asks nothing. */
const DROPPED: readonly (readonly [string, RuleName, unknown?])[] = [
  ['access_programs', 'provider_options'],
  ['client_metadata', 'client_metadata'],
  ['context_management', 'provider_options'],
  ['image', 'provider_options'],
  ['max_tool_calls', 'provider_tool_calls'],
  ['moderation', 'provider_options'],
  ['prompt_cache_options', 'prompt_cache_options'],
  ['top_logprobs', 'token_probabilities', 0],
  ['truncation', 'truncation', 'disabled'],
];

/** Reads a request. Raises invalid_request where it breaks the protocol, not_translatable by a rule. */
export function readRequest(body: Json, notes: Notes): Conversation {
  for (const [key, rule] of REFUSED) if (!isAbsent(body[key]) && body[key] !== false) notes.refuse(rule, key);
  if (optional(body, 'prompt_cache_options', objectAt)?.prewarm === true)
    notes.refuse('cache_prewarm', 'prompt_cache_options.prewarm');
  if (body.generate === false) notes.refuse('cache_prewarm', 'generate');
  noteOthers(body, FIELDS, notes);
  for (const [key, rule, ordinary] of DROPPED) if (!isAbsent(body[key]) && body[key] !== ordinary) notes.note(rule);
  noteIncluded(body, notes);
  if (optional(body, 'stream_options', objectAt)?.include_obfuscation === true) notes.note('stream_obfuscation');

  const book = new ToolBook(notes);
  if (!isAbsent(body.tools)) book.addAll(body.tools, 'tools');
  addToolsOfInput(body.input, book);
  const { instructions, turns } = readInput(body.input, book, notes);
  const first = optional(body, 'instructions', textAt);
  if (turns.length === 0 && instructions.length === 0 && !first)
    throw invalid('input', 'must say something: it is a text, or an array of items');
  return {
    model: nameAt(body.model, 'model'),
    instructions: first === undefined || first === '' ? instructions : [{ kind: 'text', text: first }, ...instructions],
    turns,
    ...readToolChoice(body.tool_choice, book.tools(), book, notes),
    ...readSettings(body, notes),
    stream: optional(body, 'stream', flagAt) ?? false,
  };
}

function noteIncluded(body: Json, notes: Notes): void {
  for (const [index, value] of (optional(body, 'include', listAt) ?? []).entries()) {
    const name = textAt(value, `include.${index}`);
    if (name === 'message.output_text.logprobs') notes.note('token_probabilities');
    else if (name !== 'reasoning.encrypted_content') notes.note('include');
  }
}

function readSettings(body: Json, notes: Notes) {
  const text = optional(body, 'text', objectAt);
  return present({
    parallel_tool_calls: optional(body, 'parallel_tool_calls', flagAt),
    max_output_tokens: optional(body, 'max_output_tokens', countAt),
    temperature: optional(body, 'temperature', numberAt),
    top_p: optional(body, 'top_p', numberAt),
    reasoning: readReasoningWish(optional(body, 'reasoning', objectAt), notes),
    output_format: text && readFormat(optional(text, 'format', objectAt, 'text.')),
    verbosity: text && optional(text, 'verbosity', textAt, 'text.'),
    user: readUser(body, notes),
    metadata: readMetadata(body),
    service_tier: optional(body, 'service_tier', textAt),
    store: optional(body, 'store', flagAt),
    cache: readPromptCache(body),
  });
}

function readReasoningWish(wish: Json | undefined, notes: Notes): ReasoningWish | undefined {
  if (wish === undefined) return undefined;
  const said = optional(wish, 'effort', textAt, 'reasoning.');
  const effort = EFFORTS.find((name) => name === said);
  const summary =
    optional(wish, 'summary', textAt, 'reasoning.') ?? optional(wish, 'generate_summary', textAt, 'reasoning.');
  const has_style = summary === 'concise' || summary === 'detailed';
  if (has_style || !isAbsent(wish.context) || !isAbsent(wish.mode)) notes.note('reasoning_options');
  if (said !== undefined && effort === undefined) notes.note('unknown_effort');
  const show = summary === undefined ? undefined : summary !== 'none';
  return effort === undefined && show === undefined ? undefined : present({ effort, show });
}

function readFormat(format: Json | undefined): OutputFormat | undefined {
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') return { kind: 'json_object' };
  if (format.type !== 'json_schema') throw invalid('text.format.type', 'must be text, json_object or json_schema');
  return {
    kind: 'json_schema',
    schema: objectAt(format.schema, 'text.format.schema'),
    ...present({
      name: optional(format, 'name', textAt, 'text.format.'),
      description: optional(format, 'description', textAt, 'text.format.'),
      strict: optional(format, 'strict', flagAt, 'text.format.'),
    }),
  } as OutputFormat;
}
