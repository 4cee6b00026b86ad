import { keyText } from './key-names.ts';
import { CLOSE_BRACE, CLOSE_BRACKET, COMMA, isSpace, OPEN_BRACE, OPEN_BRACKET, QUOTE, stringEnd } from './tokens.ts';

/** Where something stands in a text: the bytes from `start` up to, not including, `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Keys and indexes from the outermost value to an element of an array. */
export type ElementPath = readonly (string | number)[];

/** Paths that begin alike share their beginning; `true` is the end of one. */
interface Wanted extends Map<string | number, Wanted | true> {}

function wantedBy(paths: readonly ElementPath[]): Wanted {
  const root: Wanted = new Map();
  for (const path of paths) {
    let at: Wanted | true = root;
    for (const step of path.slice(0, -1)) {
      if (at === true) break;
      const next: Wanted | true = at.get(step) ?? new Map();
      at.set(step, next);
      at = next;
    }
    // Within something that goes as a whole there is nothing more to take.
    if (at !== true) at.set(path.at(-1)!, true);
  }
  return root;
}

/** Bytes that are read without looking after anybody else. */
const STEP_BYTES = 1024 * 1024;

/** What the steps of one search share: the bytes, and where the next step begins. */
interface Walk {
  readonly bytes: Buffer;
  next_step: number;
}

type Steps<T> = Generator<undefined, T>;

/**
 * What has to go from the bytes of a JSON text that is without fault, so that these elements of arrays are gone and the rest
 * is JSON still: each element with one of the commas beside it. In order, none within or next to another; a path that leads
 * nowhere is left out. Every byte is read at most once for each step of the longest path; yields between parts of 1 MiB.
 */
export function* rangesOfElements(bytes: Buffer, paths: readonly ElementPath[]): Steps<ByteRange[]> {
  const ranges: ByteRange[] = [];
  const walk = { bytes, next_step: STEP_BYTES };
  if (paths.length > 0) yield* collect(walk, skipSpace(bytes, 0), wantedBy(paths), ranges);
  return ranges;
}

function* collect(walk: Walk, at: number, wanted: Wanted, ranges: ByteRange[]): Steps<void> {
  const { bytes } = walk;
  walk.next_step = at + STEP_BYTES;
  if (bytes[at] === OPEN_BRACKET) yield* collectElements(walk, at, wanted, ranges);
  if (bytes[at] !== OPEN_BRACE) return;
  // Of a key that is there twice the last one counts, as for parsers.
  const found = new Map<Wanted, number>();
  for (let i = skipSpace(bytes, at + 1); bytes[i] === QUOTE; ) {
    const key_end = stringEnd(bytes, i);
    const below = wanted.get(keyText(bytes, i + 1, key_end) ?? '');
    const value = skipSpace(bytes, skipSpace(bytes, key_end + 1) + 1);
    if (below instanceof Map) found.set(below, value);
    i = afterComma(bytes, yield* valueEnd(walk, value));
  }
  for (const [below, value] of [...found].sort(([, one], [, other]) => one - other))
    yield* collect(walk, value, below, ranges);
}

function* collectElements(walk: Walk, at: number, wanted: Wanted, ranges: ByteRange[]): Steps<void> {
  const { bytes } = walk;
  /** Where the last element ends that stays. */
  let kept: number | undefined;
  /** What goes since, with the comma before it, or behind it where none before it stays. */
  let gone: ByteRange | undefined;
  let index = 0;
  for (let i = skipSpace(bytes, at + 1); i < bytes.length && bytes[i] !== CLOSE_BRACKET; index++) {
    const end = yield* valueEnd(walk, i);
    const below = wanted.get(index);
    if (below === true) gone = { start: gone?.start ?? kept ?? i, end };
    else {
      if (gone !== undefined) ranges.push(kept === undefined ? { start: gone.start, end: i } : gone);
      gone = undefined;
      kept = end;
      if (below !== undefined) yield* collect(walk, i, below, ranges);
    }
    i = afterComma(bytes, end);
  }
  if (gone !== undefined) ranges.push(gone);
}

/**
 * Where the values begin to which these paths lead, in a JSON text that is without fault; `undefined` for one that leads nowhere.
 * Reads and yields like `rangesOfElements`.
 */
export function* startsOfValues(bytes: Buffer, paths: readonly ElementPath[]): Steps<(number | undefined)[]> {
  const wanted = new Set(paths.flatMap((path) => path.map((_, index) => nameOf(path.slice(0, index + 1)))));
  const starts = new Map<string, number>();
  const walk = { bytes, next_step: STEP_BYTES };
  if (paths.length > 0) yield* locate(walk, skipSpace(bytes, 0), [], wanted, starts);
  return paths.map((path) => starts.get(nameOf(path)));
}

const nameOf = (path: ElementPath): string => JSON.stringify(path);

function* locate(
  walk: Walk,
  at: number,
  path: ElementPath,
  wanted: ReadonlySet<string>,
  starts: Map<string, number>,
): Steps<void> {
  const { bytes } = walk;
  walk.next_step = at + STEP_BYTES;
  const is_object = bytes[at] === OPEN_BRACE;
  if (!is_object && bytes[at] !== OPEN_BRACKET) return;
  const close = is_object ? CLOSE_BRACE : CLOSE_BRACKET;
  // Of a key that is there twice the last one counts, as for parsers.
  const found = new Map<string | number, number>();
  let i = skipSpace(bytes, at + 1);
  for (let index = 0; i < bytes.length && bytes[i] !== close; index++) {
    let step: string | number | undefined = index;
    if (is_object) {
      const key_end = stringEnd(bytes, i);
      step = keyText(bytes, i + 1, key_end);
      i = skipSpace(bytes, skipSpace(bytes, key_end + 1) + 1);
    }
    if (step !== undefined && wanted.has(nameOf([...path, step]))) found.set(step, i);
    i = afterComma(bytes, yield* valueEnd(walk, i));
  }
  for (const [step, start] of found) {
    const place = [...path, step];
    starts.set(nameOf(place), start);
    yield* locate(walk, start, place, wanted, starts);
  }
}

/** The first byte from here on that is no white space. */
export function skipSpace(bytes: Buffer, at: number): number {
  let i = at;
  while (isSpace(bytes[i])) i++;
  return i;
}

/** The beginning of what follows the comma, or the bracket that stands there instead. */
function afterComma(bytes: Buffer, at: number): number {
  const i = skipSpace(bytes, at);
  return bytes[i] === COMMA ? skipSpace(bytes, i + 1) : i;
}

function* valueEnd(walk: Walk, at: number): Steps<number> {
  const { bytes } = walk;
  let depth = 0;
  for (let i = at; i < bytes.length; i++) {
    if (i >= walk.next_step) {
      walk.next_step = i + STEP_BYTES;
      yield;
    }
    const byte = bytes[i];
    if (byte === QUOTE) {
      i = stringEnd(bytes, i);
      if (depth === 0) return i + 1;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth--;
      if (depth === 0) return i + 1;
      if (depth < 0) return i;
    } else if (depth === 0 && (byte === COMMA || isSpace(byte))) return i;
  }
  return bytes.length;
}
