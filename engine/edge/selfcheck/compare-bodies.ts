import { isDeepStrictEqual } from 'node:util';
import type { Protocol } from '../../base/contract/protocol.ts';
import { parseBounded } from '../../base/kit/json/bounded.ts';
import { printableLine } from '../../base/kit/text/printable.ts';
import type { Fields } from './answer.ts';

/** A place at which two JSON texts do not say the same. */
export interface Difference {
  /** From the top, such as `system[1].cache_control.ttl`; empty for the whole. */
  readonly path: string;
  /** What is different there, as the end of a sentence that begins with the path: `is missing`. */
  readonly is: string;
  /** Clients and caches notice it at most: it changes no prompt, or may be done where the audit log says so. */
  readonly is_lesser?: boolean;
}

/** What became of a body on its way. */
export interface BodyComparison {
  readonly same_bytes: boolean;
  /** Whether nothing but the name of the model was put in the place of another. */
  readonly model_only: boolean;
  /** Where the content is not the same, in the order of the body that was sent; the name of the model is none. */
  readonly differences: readonly Difference[];
}

const SHOWN_MAX = 24;

/** A number as it is written: its value may be more exact than a number of this language is. */
class Written {
  readonly source: string;

  constructor(source: string) {
    this.source = source;
  }
}

/** Compares a body as it was sent with what arrived. Values that were put in or changed are not repeated, but for short words. */
export function compareBodies(sent: string, came: Buffer): BodyComparison {
  const text = came.toString();
  if (text === sent) return { same_bytes: true, model_only: false, differences: [] };
  const [before, after] = [parseExactly(sent), parseExactly(text)];
  const model_name = JSON.stringify((before as Fields).model);
  const [head = '', tail = ''] = sent.split(model_name, 2);
  const name = text.slice(head.length, text.length - tail.length);
  const model_only = text.startsWith(head) && text.endsWith(tail) && /^"[^"\\]*"$/.test(name);
  const differences = isFields(after)
    ? [...compare(before, after, '')]
    : [{ path: 'the body', is: 'is no JSON object' }];
  return { same_bytes: false, model_only, differences: differences.filter(({ path }) => path !== 'model') };
}

/** Numbers stay as they are written. */
function parseExactly(text: string): unknown {
  try {
    parseBounded(text);
    const exact = (_: string, value: unknown, context?: { readonly source?: string }) =>
      typeof value === 'number' ? new Written(context?.source ?? String(value)) : value;
    return JSON.parse(text, exact as (key: string, value: unknown) => unknown);
  } catch {
    return undefined;
  }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Written);

function* compare(before: unknown, after: unknown, path: string): Generator<Difference> {
  if (Array.isArray(before) && Array.isArray(after)) yield* compareItems(before, after, path);
  else if (isFields(before) && isFields(after)) yield* compareFields(before, after, path);
  else if (before instanceof Written && after instanceof Written) yield* compareNumbers(before, after, path);
  else if (before !== after)
    yield { path, is: `is ${shown(after)} in place of ${shown(before)}`, ...lesserPlace(path) };
}

/** It is about the caller and no part of a prompt, or a time that a gateway may shorten if it says so in telemetry. */
const lesserPlace = (path: string) => (/^metadata(?:\.|$)|\.cache_control\.ttl$/.test(path) ? { is_lesser: true } : {});

function* compareItems(before: readonly unknown[], after: readonly unknown[], path: string): Generator<Difference> {
  if (before.length !== after.length) {
    // A block behind the attribution block is allowed where the audit log says so.
    const is_lesser = path === 'system' && after.length > before.length && isDeepStrictEqual(before[0], after[0]);
    yield { path, is: `has ${after.length} entries in place of ${before.length}`, is_lesser };
    return;
  }
  for (const [index, item] of before.entries()) yield* compare(item, after[index], `${path}[${index}]`);
}

function* compareFields(before: Fields, after: Fields, path: string): Generator<Difference> {
  const below = (key: string) => (path === '' ? key : `${path}.${key}`);
  for (const key of Object.keys(before)) {
    if (Object.hasOwn(after, key)) yield* compare(before[key], after[key], below(key));
    else yield { path: below(key), is: 'is missing', ...lesserPlace(below(key)) };
  }
  for (const key of Object.keys(after).filter((each) => !Object.hasOwn(before, each))) {
    const name = printableLine(key.length > SHOWN_MAX ? `${key.slice(0, SHOWN_MAX)}...` : key);
    yield { path: below(name), is: 'was put in', is_lesser: path === '' };
  }
}

function* compareNumbers(before: Written, after: Written, path: string): Generator<Difference> {
  if (exactValue(before.source) === exactValue(after.source)) return;
  // Something on the way took it for one of 64 bits.
  const is_lesser = Number(before.source) === Number(after.source);
  yield { path, is: `is ${after.source.slice(0, SHOWN_MAX)} in place of ${before.source}`, is_lesser };
}

/** Digits and exponent of a JSON number, the same for all ways to write one value. */
function exactValue(source: string): string {
  const [, sign = '', whole = '', part = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? [];
  const digits = `${whole}${part}`.replace(/^0+/, '');
  const short = digits.replace(/0+$/, '');
  if (short === '') return '0';
  return `${sign}${short}e${Number(exponent) - part.length + digits.length - short.length}`;
}

/** A value that is safe to repeat: short words and numbers; of all else the kind. Keys have digits and letters in turns. */
function shown(value: unknown): string {
  if (value instanceof Written) return value.source.slice(0, SHOWN_MAX);
  if (typeof value === 'string') {
    const is_word = value.length <= SHOWN_MAX && /^[a-z0-9]+(?:[._-][a-z0-9]+)*$/i.test(value);
    const looks_secret = value.length > 12 && /[a-z]\d+[a-z]/i.test(value);
    return is_word && !looks_secret ? `"${value}"` : `a text of ${value.length} characters`;
  }
  if (Array.isArray(value)) return `a list of ${value.length}`;
  return isFields(value) ? 'an object' : String(value);
}

/** What is put into the body of a probe. */
interface Given {
  readonly model: string;
  readonly text: string;
  /** Of the names of headers, which the attribution block begins with. */
  readonly prefix: string;
}

/**
 * A request of the Messages API with what gateways like to change: unknown fields at every level, two blocks of `system` that are
 * the same, keys and tools out of order, numbers and texts that can be written in several ways, white space.
 */
function messagesBody({ model, text, prefix }: Given): string {
  const attribution = JSON.stringify(`x-${prefix}-billing-header: cc_version=2.1.0; cc_entrypoint=cli;`);
  return `{ "model": ${JSON.stringify(model)}, "stream":false,
  "max_tokens": 16, "temperature": 1.0,
  "system": [
    {"type":"text","text":${attribution}},
    {"type":"text","text":"You are part of a self-check.","cache_control":{"type":"ephemeral","ttl":"1h"},"selfcheck_unknown":{"b":[],"a":null}},
    {"text":"Z \\u00e9 \\/ \\u2028 é","type":"text"},
    {"type":"text","text":"the same"},{"type":"text","text":"the same"}
  ],
  "tools": [
    {"name":"zebra","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer","minimum":0}},"required":["z","a"]},"description":"","selfcheck_unknown":true},
    {"name":"apple","description":"d","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}
  ],
  "tool_choice": {"type":"auto","disable_parallel_tool_use":true},
  "messages": [
    {"role":"user","content":[
      {"type":"text","text":"${text}","selfcheck_unknown":{"deep":[{"er":[1.50,12345678901234567890,1e-7]}]}},
      {"cache_control":{"type":"ephemeral"},"type":"text","text":"And go on."}
    ]},
    {"role":"assistant","content":"yes"},
    {"role":"user","content":"go on "}
  ],
  "metadata": {"user_id":"{\\"session_id\\":\\"of-a-self-check\\"}"},
  "output_config": {"effort":"low","selfcheck_unknown":1},
  "selfcheck_unknown": {"list":["b","a",{}],"text":"\\ud83d\\ude00","zero":-0.0}
}`;
}

const UNKNOWN = { list: ['b', 'a'], deep: { z: null, a: 1 } };
const TOOL = {
  name: 'zebra',
  description: 'A tool.',
  parameters: { type: 'object', properties: { z: { type: 'string' }, a: { type: 'integer' } }, required: ['z'] },
};

function chatBody({ model, text }: Given): string {
  return JSON.stringify({
    model,
    max_tokens: 16,
    stream: false,
    messages: [
      { role: 'system', content: 'You are part of a self-check.' },
      { role: 'user', content: [{ type: 'text', text, selfcheck_unknown: true }], selfcheck_unknown: UNKNOWN },
    ],
    tools: [{ type: 'function', function: { ...TOOL, selfcheck_unknown: 1 } }],
    selfcheck_unknown: UNKNOWN,
  });
}

function responsesBody({ model, text }: Given): string {
  return JSON.stringify({
    model,
    input: [
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'You are part of a self-check.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text, selfcheck_unknown: true }] },
    ],
    tools: [{ type: 'function', ...TOOL, strict: false, selfcheck_unknown: 1 }],
    parallel_tool_calls: false,
    store: false,
    stream: false,
    max_output_tokens: 16,
    client_metadata: { selfcheck_unknown: 'yes' },
    selfcheck_unknown: UNKNOWN,
  });
}

/** A body of each protocol with fields nobody knows at every level. */
export const PROBES: Readonly<Record<Protocol, (given: Given) => string>> = {
  messages: messagesBody,
  chat: chatBody,
  responses: responsesBody,
};
