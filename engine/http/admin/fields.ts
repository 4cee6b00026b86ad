import { StageError } from '../../contract/errors.ts';
import type { Clock } from '../../contract/services.ts';
import { isPrintableLine } from '../../kit/text/printable.ts';
import { didYouMean, listed } from '../../kit/text/suggest.ts';
import { parseDate } from '../../kit/times.ts';

const MAX_CHARS = 254;
const EMAIL = /^[^\s@]+@[^\s@]+$/;

/** The named values of a JSON body or of a query, each read as what it must be. Raises invalid_request for all that is wrong. */
export class Fields {
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #what: 'field' | 'parameter';

  /** @param known every name there may be. */
  constructor(values: Readonly<Record<string, unknown>>, known: readonly string[], what: 'field' | 'parameter') {
    this.#values = values;
    this.#what = what;
    for (const name of Object.keys(values)) {
      if (known.includes(name)) continue;
      const there_are = known.length === 0 ? 'there is none here.' : `expected ${listed(known)}.`;
      throw invalid(`Unknown ${what} ${shown(name)}: ${didYouMean(name, known, there_are)}`);
    }
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#values, name) && this.#values[name] !== undefined;
  }

  /** Whether a value is there and `null`. */
  isNull(name: string): boolean {
    return this.has(name) && this.#values[name] === null;
  }

  /** A text without control characters and of at most 254 characters, trimmed; `undefined` when absent or `null`. */
  text(name: string): string | undefined {
    const value = this.#given(name);
    if (value === undefined) return undefined;
    if (typeof value !== 'string') throw this.#expected(name, 'a text');
    const text = value.trim();
    if (text === '') throw this.#expected(name, 'a text that is not empty');
    if (text.length > MAX_CHARS) throw this.#expected(name, `a text of at most ${MAX_CHARS} characters`);
    if (!isPrintableLine(text)) {
      throw this.#expected(name, 'a text that can be printed');
    }
    return text;
  }

  /** A list of texts; empty when absent. */
  texts(name: string): readonly string[] {
    const value = this.#given(name) ?? [];
    if (!Array.isArray(value) || !value.every((text) => typeof text === 'string')) {
      throw this.#expected(name, 'a list of texts');
    }
    return value;
  }

  /** A text that must be there. */
  needText(name: string): string {
    const text = this.text(name);
    if (text === undefined) throw invalid(`The ${this.#what} "${name}" is missing.`);
    return text;
  }

  /** An e-mail address in lower case. */
  email(name: string): string | undefined {
    const text = this.text(name);
    if (text !== undefined && !EMAIL.test(text)) throw this.#expected(name, 'an e-mail address');
    return text?.toLowerCase();
  }

  choice<Choice extends string>(name: string, choices: readonly Choice[]): Choice | undefined {
    const value = this.#given(name);
    if (value !== undefined && !choices.includes(value as Choice)) throw this.#expected(name, listed(choices));
    return value as Choice | undefined;
  }

  integer(name: string, { min, max }: { readonly min: number; readonly max: number }): number | undefined {
    const value = this.#given(name);
    if (value === undefined) return undefined;
    // In a query everything is text.
    const number = this.#what === 'parameter' && /^\d{1,15}$/.test(String(value)) ? Number(value) : value;
    if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < min || number > max) {
      throw this.#expected(name, `a whole number from ${min} to ${max}`);
    }
    return number;
  }

  /** A number that must be there. */
  needNumber(name: string): number {
    const value = this.#given(name);
    if (typeof value !== 'number' || !Number.isFinite(value)) throw this.#expected(name, 'a number below 1e308');
    return value;
  }

  /** A date (midnight UTC) or a time with its zone. */
  time(name: string): Date | undefined {
    const value = this.#given(name);
    if (value === undefined) return undefined;
    const date = typeof value === 'string' ? parseDate(value) : undefined;
    if (date === undefined) throw this.#expected(name, 'a time such as 2027-01-31T18:00:00Z');
    return date;
  }

  #given(name: string): unknown {
    return this.has(name) ? (this.#values[name] ?? undefined) : undefined;
  }

  #expected(name: string, expected: string): StageError {
    return invalid(`The ${this.#what} "${name}" is wrong: expected ${expected}.`);
  }
}

/** The parameters of a request target's query. */
export function queryFields(url: string, known: readonly string[]): Fields {
  const at = url.indexOf('?');
  const values: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(at < 0 ? '' : url.slice(at + 1))) {
    if (Object.hasOwn(values, name))
      throw invalid(`The parameter ${shown(name)} is there more than once; send it once.`);
    values[name] = value;
  }
  return new Fields(values, known, 'parameter');
}

/** The fields of a JSON body. */
export function bodyFields(body: unknown, known: readonly string[]): Fields {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalid('The body must be a JSON object.');
  return new Fields(body as Record<string, unknown>, known, 'field');
}

/**
 * The end in `expires_at` or `expires_in_seconds`; `null` for none, `undefined` when nothing was said. Raises
 * invalid_request for both at once, a time that has passed, and one further away than `max_seconds`.
 */
export function endOfLife(given: Fields, clock: Pick<Clock, 'now'>, max_seconds: number): Date | null | undefined {
  const now = clock.now();
  const at = given.time('expires_at');
  const seconds = given.integer('expires_in_seconds', { min: 1, max: max_seconds });
  if (seconds !== undefined) {
    if (given.has('expires_at')) throw invalid('Send "expires_at" or "expires_in_seconds", not both.');
    return new Date(now + seconds * 1000);
  }
  if (at !== undefined && at.getTime() <= now) throw invalid('The time in "expires_at" has passed.');
  if (at !== undefined && at.getTime() > now + max_seconds * 1000) {
    const last = new Date(now + max_seconds * 1000).toISOString();
    throw invalid(`The time in "expires_at" is too far away: expected ${last} at the latest.`);
  }
  return at ?? (given.isNull('expires_at') ? null : undefined);
}

/** An e-mail address in a path, in lower case; `undefined` for what is none. */
export function emailInPath(text: string): string | undefined {
  const fits = text.length <= MAX_CHARS && EMAIL.test(text) && isPrintableLine(text);
  return fits ? text.toLowerCase() : undefined;
}

/** The error for a request whose values are wrong. */
export function invalid(message: string): StageError {
  return new StageError('invalid_request', message);
}

/** A name somebody sent, safe to repeat: names are short words, or they are not repeated. */
function shown(name: string): string {
  return /^[\w.-]{1,40}$/.test(name) ? `"${name}"` : 'with a name that is no word';
}
