/** What differs between something that was found and what a test expects of it. */
import type { HeaderWishes, Json } from '../../load/tests/test-case.ts';

/** Something that is not as expected. */
export interface Mismatch {
  /** JSON pointer of the expectation below its step; empty for what must hold always. */
  readonly pointer: string;
  readonly expected: string;
  readonly found: string;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** A value as it is shown to people. */
export function show(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What of `wanted` is not in `found`. Mappings may hold more than wanted, lists may not. */
export function missing(wanted: Json | undefined, found: unknown, pointer: string): Mismatch[] {
  if (Array.isArray(wanted) && Array.isArray(found) && wanted.length === found.length) {
    return wanted.flatMap((item, i) => missing(item, found[i], `${pointer}/${i}`));
  }
  if (isMapping(wanted) && isMapping(found)) {
    return Object.entries(wanted).flatMap(([key, value]) =>
      missing(
        value as Json,
        Object.hasOwn(found, key) ? found[key] : undefined,
        `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`,
      ),
    );
  }
  if (!Array.isArray(wanted) && !isMapping(wanted) && Object.is(wanted, found)) return [];
  return [{ pointer, expected: show(wanted), found: show(found) }];
}

/** Headers that are not as wished for. */
export function headerMismatches(wanted: HeaderWishes = {}, found: Headers, pointer: string): Mismatch[] {
  return Object.entries(wanted).flatMap(([name, value]) => missing(value, found[name] ?? null, `${pointer}/${name}`));
}

/** A body as JSON; `undefined` for anything else. */
export function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}
