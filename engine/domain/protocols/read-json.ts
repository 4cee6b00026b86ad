import { StageError } from '../../base/contract/errors.ts';
import type { Json } from './translation/conversation.ts';
import type { Notes } from './translation/rules.ts';

/** The type of a value, for an error; never its content. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** The error for a request that violates its protocol; `param` is the path, such as `messages.3.content`. */
export function invalid(param: string, message: string): StageError {
  return new StageError('invalid_request', `${param}: ${message}`, { details: { param } });
}

/** Whether the value is a JSON object. */
export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The elements of a list; none for other values. */
export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function objectsIn(value: unknown): Json[] {
  return itemsOf(value).filter(isObject);
}

/** The text; an empty one for other values. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The value of a JSON text; `undefined` for any other text. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The own property of a table, or of JSON, that hostile text may name. */
export function own<T>(table: Readonly<Record<string, T>>, key: string | undefined): T | undefined {
  return key !== undefined && Object.hasOwn(table, key) ? table[key] : undefined;
}

/** Whether the value is absent; clients also send null. */
export function isAbsent(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

const typed =
  <T>(isRight: (value: unknown) => value is T, type: string) =>
  (value: unknown, param: string): T => {
    if (!isRight(value)) throw invalid(param, `must be ${type}, not ${kindOf(value)}`);
    return value;
  };

/** The value as an object, a list, a text that may be empty, a flag. Raise invalid_request. */
export const objectAt = typed(isObject, 'an object');
export const listAt = typed((value): value is readonly unknown[] => Array.isArray(value), 'an array');
export const textAt = typed((value): value is string => typeof value === 'string', 'a string');
export const flagAt = typed((value): value is boolean => typeof value === 'boolean', 'true or false');

/** Reads each object of a list. Raises invalid_request. */
export function eachAt<T>(value: unknown, param: string, read: (object: Json, param: string) => T): T[] {
  return listAt(value, param).map((one, index) => read(objectAt(one, `${param}.${index}`), `${param}.${index}`));
}

/** The value as a text that is not empty. Raises invalid_request. */
export function nameAt(value: unknown, param: string): string {
  const text = textAt(value, param);
  if (text === '') throw invalid(param, 'must not be empty');
  return text;
}

/** The value as a list of texts. Raises invalid_request. */
export function textsAt(value: unknown, param: string): readonly string[] {
  return listAt(value, param).map((text, index) => textAt(text, `${param}.${index}`));
}

/** The value as a finite number. Raises invalid_request. */
export function numberAt(value: unknown, param: string): number {
  if (typeof value !== 'number') throw invalid(param, `must be a number, not ${kindOf(value)}`);
  if (!Number.isFinite(value)) throw invalid(param, 'must be a number within bounds');
  return value;
}

/** The value as a whole number, 0 or more. Raises invalid_request. */
export function countAt(value: unknown, param: string): number {
  const most = Number.MAX_SAFE_INTEGER;
  if (typeof value === 'number' && value > most) throw invalid(param, `must be ${most} or less`);
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw invalid(param, 'must be a whole number, 0 or more');
  return value as number;
}

/** Reads a field of an object with a reader above; `undefined` if absent. Raises invalid_request. */
export function optional<T>(
  object: Json,
  key: string,
  read: (value: unknown, param: string) => T,
  prefix = '',
): T | undefined {
  const value = object[key];
  return isAbsent(value) ? undefined : read(value, prefix + key);
}

/** Notes all other fields that are not null. */
export function noteOthers(object: Json, known: ReadonlySet<string>, notes: Notes): void {
  for (const key of Object.keys(object)) {
    if (!known.has(key) && !isAbsent(object[key])) notes.unknownField(key);
  }
}

type Present<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** Removes `undefined` fields. */
export function present<const T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T>;
}

/** A value of a client's body as JSON text. Raises invalid_request if it is nested too deeply. */
export function jsonTextAt(value: unknown, param: string): string {
  try {
    return JSON.stringify(value);
  } catch {
    throw invalid(param, 'is nested too deeply; use at most a few hundred levels');
  }
}
