/** A user's file that cannot be changed: one sentence, and the line of the problem, counted from 1. */
export class BrokenFile extends Error {
  readonly line: number | undefined;
  readonly path: string | undefined;

  constructor(message: string, line?: number, path?: string) {
    super(message);
    this.name = 'BrokenFile';
    this.line = line;
    this.path = path;
  }
}

/** Runs `run` and adds the path to a BrokenFile that it raises. */
export function inFile<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof BrokenFile) throw new BrokenFile(error.message, error.line, path);
    throw error;
  }
}

/** A value for a user's file. A list replaces the existing list. */
export type Scalar = string | number | boolean | readonly string[];

/** Keys to set in a user's file; all other keys stay. */
export interface Values {
  readonly [key: string]: Scalar | Values;
}

/** Whether a value of a user's file is a table. */
export function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

/** The tables in a table, by name. */
export function tablesIn(value: unknown): [name: string, table: Record<string, unknown>][] {
  return Object.entries(isTable(value) ? value : {}).filter((entry): entry is [string, Record<string, unknown>] =>
    isTable(entry[1]),
  );
}

/** A value at a path; `undefined` where there is none. */
export function valueAt(values: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (found, key) => (isTable(found) && Object.hasOwn(found, key) ? found[key] : undefined),
    values,
  );
}

/** A copy of a file's content with these values set. Raises BrokenFile if another value stands in place of a table. */
export function overlay(found: Readonly<Record<string, unknown>>, values: Values): Record<string, unknown> {
  const result = { ...found };
  for (const [key, value] of Object.entries(values)) {
    if (!isTable(value)) {
      if (isTable(result[key])) throw new BrokenFile(`${key} is a table, expected a single value`);
      result[key] = value;
      continue;
    }
    const inner = Object.hasOwn(result, key) ? result[key] : {};
    if (!isTable(inner)) throw new BrokenFile(`${key} is a single value or a list, expected a table`);
    result[key] = overlay(inner, value);
  }
  return result;
}

/** Whether the contents of two files are equal, regardless of the prototypes of their objects. */
export function saysTheSame(a: unknown, b: unknown): boolean {
  if (a instanceof Date && b instanceof Date)
    return a.constructor === b.constructor && a.toISOString() === b.toISOString();
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => saysTheSame(item, b[index]));
  }
  if (!isTable(a) || !isTable(b)) return Object.is(a, b);
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && saysTheSame(a[key], b[key]))
  );
}
