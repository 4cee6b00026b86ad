import { randomUUID } from 'node:crypto';
import type { Seam } from './scan.ts';

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

/**
 * Parses a JSON text that was scanned without a fault a piece at a time, yielding between two pieces, so that the largest
 * takes milliseconds at once. What it gives is what `JSON.parse` does, also for a key that is there twice. Raises SyntaxError.
 */
export function* parsePieces(bytes: Buffer, seams: readonly Seam[]): Generator<undefined, unknown> {
  let open: Seam['open'] = [];
  let containers: Container[] = [];
  let root: unknown;
  for (let i = 0; i <= seams.length; i++) {
    const start = i === 0 ? 0 : seams[i - 1]!.at + 1;
    const seam = seams[i];
    const text = opening(open) + bytes.toString('utf8', start, seam?.at) + closing(seam?.open ?? []);
    yield;
    let piece = JSON.parse(text) as Container;
    if (i === 0) root = piece;
    for (const [level, container] of containers.entries()) {
      const goes_on = level < containers.length - 1;
      const inner = goes_on ? continued(piece) : piece;
      move(piece, container, goes_on);
      piece = inner;
    }
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
