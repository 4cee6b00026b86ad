import { keyText } from './key-names.ts';
import { CLOSE_BRACE, CLOSE_BRACKET, COMMA, isSpace, OPEN_BRACE, OPEN_BRACKET, QUOTE, stringEnd } from './tokens.ts';

/** A byte range of a text; `end` is exclusive. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Keys and indexes from the outermost value to an element of an array. */
export type ElementPath = readonly (string | number)[];

interface Place {
  readonly below: Map<string | number, Place>;
  found?: Found;
}

interface Found extends ByteRange {
  readonly in_array: boolean;
  /** End of the previous value; `undefined` for the first. */
  readonly previous_end: number | undefined;
  /** Start of the next value; its own end for the last. */
  readonly next: number;
}

const STEP_BYTES = 1024 * 1024;

interface Walk {
  readonly bytes: Buffer;
  next_step: number;
}

type Steps<T> = Generator<undefined, T>;

/**
 * The byte ranges to cut from valid JSON to remove array elements, each with one comma beside it; sorted, neither overlapping nor
 * touching. Ignores paths without an element. Reads each byte once per step of the longest path; yields after each MiB.
 */
export function* rangesOfElements(bytes: Buffer, paths: readonly ElementPath[]): Steps<ByteRange[]> {
  const found = new Set((yield* find(bytes, paths)).flatMap((value) => (value?.in_array ? [value] : [])));
  const ranges: { start: number; end: number }[] = [];
  /** By the end of a removed element: whether an element before it stays. */
  const gone = new Map<number, boolean>();
  let covered = 0;
  for (const { start, end, previous_end, next } of [...found].toSorted((one, other) => one.start - other.start)) {
    // It lies within an element that is already removed.
    if (start < covered) continue;
    covered = end;
    const one_stays = previous_end !== undefined && (gone.get(previous_end) ?? true);
    gone.set(end, one_stays);
    const range = one_stays ? { start: previous_end, end } : { start, end: next };
    const last = ranges.at(-1);
    if (last !== undefined && last.end === range.start) last.end = range.end;
    else ranges.push(range);
  }
  return ranges;
}

/** Start offsets of values in valid JSON, by path; `undefined` for a missing value. Reads and yields like `rangesOfElements`. */
export function* startsOfValues(bytes: Buffer, paths: readonly ElementPath[]): Steps<(number | undefined)[]> {
  return (yield* find(bytes, paths)).map((value) => value?.start);
}

function* find(bytes: Buffer, paths: readonly ElementPath[]): Steps<(Found | undefined)[]> {
  const root: Place = { below: new Map() };
  const places = paths.map((path) => {
    let place = root;
    for (const step of path) {
      const next: Place = place.below.get(step) ?? { below: new Map() };
      place.below.set(step, next);
      place = next;
    }
    return place;
  });
  yield* locate({ bytes, next_step: STEP_BYTES }, skipSpace(bytes, 0), root);
  return places.map((place) => place.found);
}

function* locate(walk: Walk, at: number, { below }: Place): Steps<void> {
  const { bytes } = walk;
  walk.next_step = at + STEP_BYTES;
  const is_object = bytes[at] === OPEN_BRACE;
  if (below.size === 0 || (!is_object && bytes[at] !== OPEN_BRACKET)) return;
  const close = is_object ? CLOSE_BRACE : CLOSE_BRACKET;
  let previous_end: number | undefined;
  let i = skipSpace(bytes, at + 1);
  for (let index = 0; i < bytes.length && bytes[i] !== close; index++) {
    let step: string | number = index;
    if (is_object) {
      const key_end = stringEnd(bytes, i);
      step = keyText(bytes, i + 1, key_end) ?? -1;
      i = skipSpace(bytes, skipSpace(bytes, key_end + 1) + 1);
    }
    const start = i;
    const end = yield* valueEnd(walk, start);
    const behind = skipSpace(bytes, end);
    const has_next = bytes[behind] === COMMA;
    i = has_next ? skipSpace(bytes, behind + 1) : behind;
    const place = below.get(step);
    // The last of repeated keys counts, as for parsers.
    if (place !== undefined) place.found = { start, end, in_array: !is_object, previous_end, next: has_next ? i : end };
    previous_end = end;
  }
  for (const place of below.values()) if (place.found !== undefined) yield* locate(walk, place.found.start, place);
}

export function skipSpace(bytes: Buffer, at: number): number {
  let i = at;
  while (isSpace(bytes[i])) i++;
  return i;
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
