import { isDeepStrictEqual } from 'node:util';
import type { Protocol } from '../../base/contract/protocol.ts';
import { parseBounded } from '../../base/kit/json/bounded.ts';
import type { Fields } from '../../base/kit/json/fields.ts';
import { printableLine } from '../../base/kit/text/printable.ts';

/** A place where two JSON texts differ. */
export interface Difference {
  readonly path: string;
  readonly is: string;
  /** Whether the difference is minor: it changes no prompt, or is a documented change of gateways. */
  readonly is_lesser?: boolean;
}

const SHOWN_MAX = 24;

/** The source text of a number, which may exceed the precision of a JavaScript number. */
class Written {
  readonly source: string;

  constructor(source: string) {
    this.source = source;
  }
}

export function compareBodies(sent: string, came: Buffer) {
  const text = came.toString();
  if (text === sent) return { same_bytes: true, model_only: false, differences: [] };
  const [before, after] = [parseExactly(sent), parseExactly(text)];
  const model_name = JSON.stringify((before as Fields).model);
  const [head = '', tail = ''] = sent.split(model_name, 2);
  const name = text.slice(head.length, text.length - tail.length);
  const model_only = text.startsWith(head) && text.endsWith(tail) && /^"[^"\\]*"$/.test(name);
  const differences: Difference[] = isFields(after)
    ? [...compare(before, after, '')]
    : [{ path: 'the body', is: 'is not a JSON object' }];
  return { same_bytes: false, model_only, differences: differences.filter(({ path }) => path !== 'model') };
}

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
  else if (before !== after) yield { path, is: `is ${shown(after)} instead of ${shown(before)}`, ...lesserPlace(path) };
}

/** Minor places: metadata is not part of a prompt, and a gateway may shorten a cache lifetime. */
const lesserPlace = (path: string) => (/^metadata(?:\.|$)|\.cache_control\.ttl$/.test(path) ? { is_lesser: true } : {});

function* compareItems(before: readonly unknown[], after: readonly unknown[], path: string): Generator<Difference> {
  if (before.length !== after.length) {
    // A gateway may add a block after the attribution block.
    const is_lesser = path === 'system' && after.length > before.length && isDeepStrictEqual(before[0], after[0]);
    yield { path, is: `has ${after.length} entries instead of ${before.length}`, is_lesser };
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
    yield { path: below(name), is: 'was added', is_lesser: path === '' };
  }
}

function* compareNumbers(before: Written, after: Written, path: string): Generator<Difference> {
  // Equal floats are equal numbers, unless one of more than 15 digits lost some of them.
  const is_lesser = Number(before.source) === Number(after.source);
  if (before.source === after.source || (is_lesser && before.source.length <= 15)) return;
  yield { path, is: `is ${after.source.slice(0, SHOWN_MAX)} instead of ${before.source}`, is_lesser };
}

/** A value that is safe to show: short words and numbers, else its type. Alternating digits and letters may be a key. */
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

interface ProbeInput {
  readonly model: string;
  readonly text: string;
  readonly prefix: string;
}

/** A Messages request with everything that gateways tend to change: unknown fields, equal blocks, order, notations. */
function messagesBody({ model, text, prefix }: ProbeInput): string {
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

function chatBody({ model, text }: ProbeInput): string {
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

function responsesBody({ model, text }: ProbeInput): string {
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

export const PROBES: Readonly<Record<Protocol, (input: ProbeInput) => string>> = {
  messages: messagesBody,
  chat: chatBody,
  responses: responsesBody,
};
