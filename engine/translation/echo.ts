import type { Json } from './adapter.ts';
import { isObject } from './read-json.ts';

/** The longest text that an answer repeats. */
const TEXT_MAX = 512;

/** The most metadata entries that the API allows. */
const METADATA_MAX = 16;

const isShort = (value: unknown): boolean => typeof value === 'string' && value.length <= TEXT_MAX;
const isNumber = (value: unknown): boolean => typeof value === 'number';
const isBoolean = (value: unknown): boolean => typeof value === 'boolean';

function isMetadata(value: unknown): boolean {
  const entries = isObject(value) ? Object.entries(value) : [];
  return entries.length > 0 && entries.length <= METADATA_MAX && entries.every((entry) => entry.every(isShort));
}

/** What an answer repeats, by the key of the request. */
const REPEATED: Readonly<Record<string, (value: unknown) => boolean>> = {
  temperature: isNumber,
  top_p: isNumber,
  max_output_tokens: isNumber,
  parallel_tool_calls: isBoolean,
  tool_choice: isShort,
  metadata: isMetadata,
  user: isShort,
  truncation: isShort,
};

function pick(source: unknown, keys: readonly string[]): Json {
  if (!isObject(source)) return {};
  const present = keys.filter((key) => Object.hasOwn(source, key) && isShort(source[key]));
  return Object.fromEntries(present.map((key) => [key, source[key]]));
}

const isEmpty = (value: Json): boolean => Object.keys(value).length === 0;

/** Values of a Responses request that its answer repeats. Never text of the prompt. */
export function echoOf(body: Json): Json {
  const plain = Object.keys(REPEATED).filter((key) => Object.hasOwn(body, key) && REPEATED[key]!(body[key]));
  const format = pick(isObject(body.text) ? body.text.format : undefined, ['type']);
  const reasoning = pick(body.reasoning, ['effort', 'summary']);
  const verbosity = pick(body.text, ['verbosity']);
  return {
    ...Object.fromEntries(plain.map((key) => [key, body[key]])),
    ...(!isEmpty(reasoning) && { reasoning }),
    ...(!(isEmpty(format) && isEmpty(verbosity)) && { text: { ...(!isEmpty(format) && { format }), ...verbosity } }),
  };
}
