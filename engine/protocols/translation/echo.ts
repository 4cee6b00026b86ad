import { isObject } from '../read-json.ts';
import type { Json } from './adapter.ts';

/** The longest text of a value that an answer repeats, such as a name or a setting. */
const TEXT_MAX = 512;

/** The most that an answer repeats of instructions, of tools and of a schema, in characters each: it says them three times. */
export const REPEATED_CHARS_MAX = 1_048_576;

/** The most metadata entries that the protocol allows. */
const METADATA_MAX = 16;

const isShort = (value: unknown): boolean => typeof value === 'string' && value.length <= TEXT_MAX;
const isNumber = (value: unknown): boolean => typeof value === 'number';
const isBoolean = (value: unknown): boolean => typeof value === 'boolean';
const isNamed = (value: unknown): boolean => isObject(value) && typeof value.type === 'string';

function isMetadata(value: unknown): boolean {
  const entries = isObject(value) ? Object.entries(value) : [];
  return entries.length > 0 && entries.length <= METADATA_MAX && entries.every((entry) => entry.every(isShort));
}

/** What an answer repeats, by the key of the request. */
const REPEATED: Readonly<Record<string, (value: unknown) => boolean>> = {
  temperature: isNumber,
  top_p: isNumber,
  top_logprobs: isNumber,
  max_output_tokens: isNumber,
  max_tool_calls: isNumber,
  parallel_tool_calls: isBoolean,
  instructions: (value) => typeof value === 'string',
  tools: (value) => Array.isArray(value) && value.every(isNamed),
  tool_choice: (value) => isShort(value) || isNamed(value),
  metadata: isMetadata,
  prompt_cache_key: isShort,
  safety_identifier: isShort,
  user: isShort,
  truncation: isShort,
};

function pick(source: unknown, keys: readonly string[]): Json {
  if (!isObject(source)) return {};
  const present = keys.filter((key) => Object.hasOwn(source, key) && isShort(source[key]));
  return Object.fromEntries(present.map((key) => [key, source[key]]));
}

const isEmpty = (value: Json): boolean => Object.keys(value).length === 0;

/** Values of a Responses request that its answer repeats: its settings, tools and instructions, never its input. */
export function echoOf(body: Json): Json {
  const plain = Object.keys(REPEATED).filter((key) => Object.hasOwn(body, key) && REPEATED[key]!(body[key]));
  const format = isObject(body.text) && isNamed(body.text.format) ? { format: body.text.format } : {};
  const reasoning = pick(body.reasoning, ['effort', 'summary']);
  const verbosity = pick(body.text, ['verbosity']);
  return {
    ...Object.fromEntries(plain.map((key) => [key, body[key]])),
    ...(!isEmpty(reasoning) && { reasoning }),
    ...(!(isEmpty(format) && isEmpty(verbosity)) && { text: { ...format, ...verbosity } }),
  };
}
