import type { IncomingHttpHeaders } from 'node:http';

/** What a refusal has to say so that a client can act upon it. */
export const REFUSAL_FACTS = ['limit', 'window', 'reset time'] as const;
export type RefusalFact = (typeof REFUSAL_FACTS)[number];

/** Where a refusal says something: `field error.limit_usd`, `header retry-after`; `sentence` where only a person can read it. */
export type Place = string;

/** Where each fact of a refusal is; left out where it is nowhere. */
export type FactPlaces = Readonly<Partial<Record<RefusalFact, Place>>>;

export const SENTENCE = 'sentence';

interface Entry {
  readonly name: string;
  /** The words of the name, in lower case. */
  readonly words: readonly string[];
  readonly place: Place;
  readonly value: unknown;
}

const DEPTH_MAX = 8;
const ENTRIES_MAX = 2000;
const DAY_MS = 86_400_000;

const LIMIT_WORDS = new Set(['limit', 'limits', 'budget', 'cap', 'quota', 'max', 'allowance']);
/** With these words a name means an amount that is not the limit itself, or a count of something else. */
const NO_LIMIT_WORDS = new Set([
  'remaining',
  'reset',
  'resets',
  'used',
  'spent',
  'status',
  'retry',
  'type',
  'id',
  'in',
  'threshold',
  'utilization',
]);
const WINDOW_WORDS = new Set(['window', 'period', 'duration', 'interval', 'cycle', 'granularity']);
const WINDOW_NAMES = new Set([
  'minute',
  'hour',
  'hourly',
  'day',
  'daily',
  'week',
  'weekly',
  'month',
  'monthly',
  'year',
  'yearly',
  'lifetime',
]);
const RESET_WORDS = new Set(['reset', 'resets', 'renews', 'until', 'retry']);

const AMOUNT =
  /[$€£]\s?\d|\d(?:[\d,]*\.?\d*)\s?(?:usd|eur|dollars?|cents?|credits?|tokens|requests)\b|\b(?:limit|budget|cap|quota)\b[^.]{0,40}\d/i;
const WINDOW_IN_TEXT =
  /\b(?:per |this |a )?(?:minute|hour|day|week|month|year)\b|\b(?:hourly|daily|weekly|monthly|yearly)\b|\b\d+\s?(?:[smhd]|min|hours?|days?)\b/i;
const RESET_IN_TEXT = /\b(?:resets?|renews?|until|again (?:in|at|on|after)|retry (?:in|at|after))\b[^.]{0,60}\d/i;

/** Finds out where a refusal says its limit, the window of that, and when it resets. */
export function findRefusalFacts(json: unknown, headers: IncomingHttpHeaders): FactPlaces {
  const entries = [...fieldsOf(json), ...headersOf(headers)];
  const sentences = entries
    .filter(({ value }) => typeof value === 'string' && value.includes(' '))
    .map(({ value }) => String(value).slice(0, 2000));
  const told: readonly (readonly [RefusalFact, (entry: Entry) => boolean, RegExp])[] = [
    ['limit', isLimit, AMOUNT],
    ['window', isWindow, WINDOW_IN_TEXT],
    ['reset time', isReset, RESET_IN_TEXT],
  ];
  return Object.fromEntries(
    told.flatMap(([fact, is, pattern]) => {
      const place = entries.find(is)?.place ?? (sentences.some((text) => pattern.test(text)) ? SENTENCE : undefined);
      return place === undefined ? [] : [[fact, place]];
    }),
  );
}

function* fieldsOf(json: unknown): Generator<Entry> {
  let count = 0;
  const open: { value: unknown; path: string; depth: number }[] = [{ value: json, path: '', depth: 0 }];
  for (let item = open.shift(); item !== undefined && count < ENTRIES_MAX; item = open.shift()) {
    const { value, path, depth } = item;
    if (typeof value !== 'object' || value === null || depth > DEPTH_MAX) continue;
    for (const [name, below] of Object.entries(value)) {
      if (++count > ENTRIES_MAX) return;
      const at = path === '' ? name : `${path}.${name}`;
      if (typeof below === 'object') open.push({ value: below, path: at, depth: depth + 1 });
      else yield { name, words: wordsOf(name), place: `field ${at.slice(0, 100)}`, value: below };
    }
  }
}

function headersOf(headers: IncomingHttpHeaders): Entry[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (typeof value !== 'string') return [];
    const words = wordsOf(name).filter((word) => word !== 'ratelimit');
    // Limits of rates, which many answers tell and no refusal for money is about.
    if (words.includes('requests') || words.includes('tokens')) return [];
    return [{ name, words, place: `header ${name.slice(0, 100)}`, value }];
  });
}

function wordsOf(name: string): string[] {
  return name
    .slice(0, 200)
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
}

/** A price or a count. */
const isNumber = (value: unknown) =>
  (typeof value === 'number' && Number.isFinite(value)) ||
  (typeof value === 'string' && /^[$€£]?\d+(?:\.\d+)?$/.test(value));

const has = ({ words }: Entry, set: ReadonlySet<string>) => words.some((word) => set.has(word));

function isLimit(entry: Entry): boolean {
  return isNumber(entry.value) && has(entry, LIMIT_WORDS) && !has(entry, NO_LIMIT_WORDS);
}

function isWindow(entry: Entry): boolean {
  const { value } = entry;
  if (typeof value === 'string' && WINDOW_NAMES.has(value.toLowerCase())) return true;
  if (has(entry, WINDOW_WORDS) && !has(entry, RESET_WORDS)) return isNumber(value) || isShortText(value);
  return isNumber(value) && has(entry, WINDOW_NAMES) && has(entry, LIMIT_WORDS);
}

const isShortText = (value: unknown) => typeof value === 'string' && value !== '' && value.length <= 40;

function isReset(entry: Entry): boolean {
  if (!has(entry, RESET_WORDS) || entry.words.includes('should')) return false;
  return timeOf(entry.value) !== undefined;
}

/** Milliseconds since the epoch, or from now, of the ways to tell a time; `undefined` for what tells none. */
function timeOf(value: unknown): number | undefined {
  if (isNumber(value)) return Number(value);
  if (typeof value !== 'string') return undefined;
  if (/^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/.test(value)) return 0;
  const time = /^\d{4}-\d\d-\d\d|^[A-Z][a-z]{2}, \d/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** The reset times that are more than a day over, as the places where they are told. */
export function pastResets(json: unknown, headers: IncomingHttpHeaders, now_ms: number): Place[] {
  return [...fieldsOf(json), ...headersOf(headers)]
    .filter((entry) => isReset(entry) && isOver(timeOf(entry.value)!, now_ms))
    .map(({ place }) => place);
}

/** Small numbers are seconds from now, those about as large as today are seconds or milliseconds since the epoch. */
function isOver(time: number, now_ms: number): boolean {
  if (time < 1e9) return false;
  const at_ms = time < 1e11 ? time * 1000 : time;
  return at_ms < now_ms - DAY_MS;
}

/**
 * What of a refusal has to stay the same from one to the next: the names and kinds of its fields, and what its error is called.
 * Numbers, times, and the wording that holds them may change.
 */
export function formOf(status: number, json: unknown): string {
  const names = [...fieldsOf(json)].map(({ name, place: numbered, value }) => {
    const place = numbered.replace(/\.\d+(?=\.|$)/g, '[]');
    return name === 'type' || name === 'code' ? `${place}=${String(value)}` : `${place}:${typeof value}`;
  });
  return [status, ...new Set(names)].join('\n');
}
