import { isDeepStrictEqual } from 'node:util';
import { parseBounded } from '../../base/kit/json/bounded.ts';
import { type Fields, isFields } from '../../base/kit/json/fields.ts';
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
  const differences: Difference[] = isObject(after)
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

const isObject = (value: unknown): value is Fields => isFields(value) && !(value instanceof Written);

function* compare(before: unknown, after: unknown, path: string): Generator<Difference> {
  if (Array.isArray(before) && Array.isArray(after)) yield* compareItems(before, after, path);
  else if (isObject(before) && isObject(after)) yield* compareFields(before, after, path);
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
  return isObject(value) ? 'an object' : String(value);
}
