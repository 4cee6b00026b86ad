import { randomUUID } from 'node:crypto';
import type { JsonScan, LongString, Seam } from './scan.ts';
import { BACKSLASH } from './tokens.ts';

const LOWER_U = 0x75;
/** A long string is parsed by parts of so many bytes: some milliseconds each. */
const STRING_PART_BYTES = 1024 * 1024;

type Scanned = Pick<JsonScan, 'bytes' | 'seams' | 'long_strings'>;
type Container = unknown[] | Record<string, unknown>;

/** Stands for the key of a member that goes on from the piece before; nobody can know it. */
const GOES_ON = randomUUID();

function opening(open: Seam['open']): string {
  const last = open.length - 1;
  return open
    .map((key, level) => (key === undefined ? '[' : level === last ? '{' : `{${JSON.stringify(GOES_ON)}:`))
    .join('');
}

function closing(open: Seam['open']): string {
  return open
    .map((key) => (key === undefined ? ']' : '}'))
    .reverse()
    .join('');
}

/** What goes on inside a container from the piece before. */
function continued(container: Container): Container {
  return (Array.isArray(container) ? container[0] : container[GOES_ON]) as Container;
}

function put(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== '__proto__') target[key] = value;
  else Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

/** Moves the members of a piece's container into the one it goes on from. */
function move(from: Container, to: Container, goes_on: boolean): void {
  if (Array.isArray(from)) {
    for (let i = goes_on ? 1 : 0; i < from.length; i++) (to as unknown[]).push(from[i]);
    return;
  }
  for (const key of Object.keys(from)) {
    if (key !== GOES_ON) put(to as Record<string, unknown>, key, from[key]);
  }
}

/** Where a part of a string ends that begins at `start`: never inside an escape or a character. */
export function partEnd(bytes: Buffer, start: number, end: number, length: number): number {
  let i = start;
  while (i < end && i - start < length) {
    if (bytes[i] !== BACKSLASH) i++;
    else i += bytes[i + 1] === LOWER_U ? 6 : 2;
  }
  while (i < end && (bytes[i]! & 0xc0) === 0x80) i++;
  return Math.min(i, end);
}

/** Parses a long string a part at a time. Raises SyntaxError. */
function* parseString(bytes: Buffer, { start, end }: LongString, part_bytes: number): Generator<undefined, string> {
  let text = '';
  for (let from = start; from < end; yield) {
    const to = partEnd(bytes, from, end, part_bytes);
    text += JSON.parse(`"${bytes.toString('utf8', from, to)}"`) as string;
    from = to;
  }
  return text;
}

/** The text between two seams as one of its own, without the long strings in it. */
function pieceText(bytes: Buffer, start: number, end: number, long: LongString | undefined): string {
  if (long === undefined) return bytes.toString('utf8', start, end);
  return bytes.toString('utf8', start, long.start) + bytes.toString('utf8', long.end, end);
}

/**
 * Parses a JSON text that was scanned without a fault a piece at a time, yielding between two pieces, so that each takes
 * milliseconds. What it gives is what `JSON.parse` does, also for a key that is there twice. Raises SyntaxError.
 */
export function* parsePieces(
  { bytes, seams, long_strings }: Scanned,
  part_bytes = STRING_PART_BYTES,
): Generator<undefined, unknown> {
  let open: Seam['open'] = [];
  let containers: Container[] = [];
  let root: unknown;
  let strings = 0;
  for (let i = 0; i <= seams.length; i++) {
    const start = i === 0 ? 0 : seams[i - 1]!.at + 1;
    const seam = seams[i];
    const end = seam?.at ?? bytes.length;
    // There is a seam behind each, before the next.
    const next = long_strings[strings];
    const long = next !== undefined && next.start < end ? next : undefined;
    if (long !== undefined) strings++;
    const text = opening(open) + pieceText(bytes, start, end, long) + closing(seam?.open ?? []);
    yield;
    let piece = JSON.parse(text) as Container;
    if (i === 0) root = piece;
    for (const [level, container] of containers.entries()) {
      const goes_on = level < containers.length - 1;
      const inner = goes_on ? continued(piece) : piece;
      move(piece, container, goes_on);
      piece = inner;
    }
    if (long !== undefined) replaceLast(root as Container, long.open, yield* parseString(bytes, long, part_bytes));
    if (seam === undefined) break;
    open = seam.open;
    containers = chain(root as Container, open);
    yield;
  }
  return root;
}

/** The containers that are open at a seam: in each of them the last member leads to the next. */
function chain(root: Container, open: Seam['open']): Container[] {
  const containers = [root];
  for (const key of open.slice(0, -1)) {
    const last = containers.at(-1)!;
    containers.push((Array.isArray(last) ? last.at(-1) : last[key!]) as Container);
  }
  return containers;
}

/** Puts a value in the place of the latest. */
function replaceLast(root: Container, open: Seam['open'], value: unknown): void {
  const innermost = chain(root, open).at(-1)!;
  if (Array.isArray(innermost)) innermost[innermost.length - 1] = value;
  else put(innermost, open.at(-1)!, value);
}
