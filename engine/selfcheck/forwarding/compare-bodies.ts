import { parseBounded } from '../../kit/json/bounded.ts';
import { printableLine } from '../../kit/text/printable.ts';

/** The first place at which two JSON texts do not say the same. */
export interface Difference {
  /** From the top, such as `system[1].cache_control.ttl`; empty for the whole. */
  readonly path: string;
  /** What is different there, as the end of a sentence that begins with the path: `is missing`. */
  readonly is: string;
  /** It is a number that lost digits because something on the way took it for one of 64 bits. */
  readonly lost_digits?: true;
  /** It is a field of the whole body that was put in: it changes no prompt. */
  readonly put_in_on_top?: true;
}

/** What became of a body on its way. `unreadable`: what arrived is no JSON object. */
export interface BodyComparison {
  readonly same_bytes: boolean;
  /** Where the content is not the same, in the order of the body that was sent. */
  readonly differences: readonly Difference[];
  /** How the same content was written otherwise, such as `the order of keys in tools[0].input_schema`. */
  readonly rewritten: readonly string[];
  readonly unreadable: boolean;
}

const DIFFERENCES_MAX = 20;
const SHOWN_MAX = 24;

/** A number as it is written: its value may be more exact than a number of this language is. */
class Written {
  readonly source: string;

  constructor(source: string) {
    this.source = source;
  }
}

type Fields = Readonly<Record<string, unknown>>;

/** Compares a body as it was sent with what arrived. Values that were put in or changed are not repeated, but for short words. */
export function compareBodies(sent: string, came: Buffer): BodyComparison {
  const text = came.toString();
  if (text === sent) return { same_bytes: true, differences: [], rewritten: [], unreadable: false };
  const before = parseExactly(sent);
  const after = parseExactly(text);
  if (!isFields(after)) return { same_bytes: false, differences: [], rewritten: [], unreadable: true };
  const found = new Comparison();
  found.compare(before, after, '');
  const differences = found.differences.slice(0, DIFFERENCES_MAX);
  return { same_bytes: false, differences, rewritten: rewritingOf(found, sent, text), unreadable: false };
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

class Comparison {
  readonly differences: Difference[] = [];
  readonly reordered: string[] = [];
  is_number_rewritten = false;

  compare(before: unknown, after: unknown, path: string): void {
    if (Array.isArray(before) && Array.isArray(after)) this.#items(before, after, path);
    else if (isFields(before) && isFields(after)) this.#fields(before, after, path);
    else if (before instanceof Written && after instanceof Written) this.#numbers(before, after, path);
    else if (before !== after) this.#add(path, `is ${shown(after)} in place of ${shown(before)}`);
  }

  #items(before: readonly unknown[], after: readonly unknown[], path: string): void {
    if (before.length !== after.length) {
      this.#add(path, `has ${after.length} entries in place of ${before.length}`);
      return;
    }
    for (const [index, item] of before.entries()) this.compare(item, after[index], `${path}[${index}]`);
  }

  #fields(before: Fields, after: Fields, path: string): void {
    const below = (key: string) => (path === '' ? key : `${path}.${key}`);
    const kept = Object.keys(before).filter((key) => Object.hasOwn(after, key));
    for (const key of Object.keys(before)) {
      if (Object.hasOwn(after, key)) this.compare(before[key], after[key], below(key));
      else this.#add(below(key), 'is missing');
    }
    const added = Object.keys(after).filter((key) => !Object.hasOwn(before, key));
    for (const key of added) {
      const difference = { path: below(shortName(key)), is: 'was put in' };
      this.differences.push(path === '' ? { ...difference, put_in_on_top: true } : difference);
    }
    const order = Object.keys(after).filter((key) => Object.hasOwn(before, key));
    if (kept.some((key, index) => key !== order[index])) this.reordered.push(path === '' ? 'the body' : path);
  }

  #numbers(before: Written, after: Written, path: string): void {
    if (before.source === after.source) return;
    if (exactValue(before.source) === exactValue(after.source)) this.is_number_rewritten = true;
    else {
      const is = `is ${after.source.slice(0, SHOWN_MAX)} in place of ${before.source}`;
      const lost = Number(before.source) === Number(after.source);
      this.differences.push({ path, is, ...(lost && { lost_digits: true }) });
    }
  }

  #add(path: string, is: string): void {
    this.differences.push({ path, is });
  }
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

function rewritingOf(found: Comparison, sent: string, came: string): string[] {
  const ways: string[] = found.reordered.map((path) => `the order of the keys of ${path}`);
  if (found.is_number_rewritten) ways.push('how numbers are written');
  if (found.differences.length > 0) return ways;
  const is_spaced = sent.length !== withoutSpace(sent).length || came.length !== withoutSpace(came).length;
  if (ways.length > 0) return ways;
  return withoutSpace(sent) === withoutSpace(came) && is_spaced ? ['white space'] : ['white space or escapes in texts'];
}

function withoutSpace(json: string): string {
  return json.replace(/("(?:[^"\\]|\\.)*")|[ \t\r\n]+/g, (_, text: string | undefined) => text ?? '');
}

/** A value that is safe to repeat: short words and numbers; of all else the kind. */
function shown(value: unknown): string {
  if (value instanceof Written) return value.source.slice(0, SHOWN_MAX);
  if (typeof value === 'string') {
    return value.length <= SHOWN_MAX && /^[a-z0-9]+(?:[._-][a-z0-9]+)*$/i.test(value) && !looksSecret(value)
      ? `"${value}"`
      : `a text of ${value.length} characters`;
  }
  if (Array.isArray(value)) return `a list of ${value.length}`;
  return isFields(value) ? 'an object' : String(value);
}

/** Keys have digits and letters in turns, which words and versions have not. */
const looksSecret = (value: string) => value.length > 12 && /[a-z]\d+[a-z]/i.test(value);

const shortName = (key: string) => printableLine(key.length > SHOWN_MAX ? `${key.slice(0, SHOWN_MAX)}...` : key);
