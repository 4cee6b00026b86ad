import { type ByteRange, type ElementPath, rangesOfElements } from './elements.ts';
import { outline } from './outline.ts';
import { parsePieces } from './pieces.ts';
import type { JsonScan } from './scan.ts';

/** Bytes that are scanned, or parsed, without looking after anybody else. */
const STEP_BYTES = 1024 * 1024;

/**
 * Large texts that wait until others are done with, because their trees take several times their size: by whose they are, in
 * the order in which these have their turns.
 */
const waiting = new Map<string, (() => void)[]>();
let busy = false;

/** Lets whoever has waited longest for a turn have it; a caller with more to do waits again, behind all others. */
function callNext(): void {
  for (const [owner, turns] of waiting) {
    waiting.delete(owner);
    const go = turns.shift()!;
    if (turns.length > 0) waiting.set(owner, turns);
    // In a later turn of the event loop; until then nobody else may begin.
    setImmediate(go);
    return;
  }
  busy = false;
}

/** Runs one piece of work on a large text at a time in this process; those whose texts wait take turns. */
async function inTurn<T>(owner: string, work: () => Promise<T>): Promise<T> {
  if (busy) {
    await new Promise<void>((go) => {
      const turns = waiting.get(owner);
      if (turns === undefined) waiting.set(owner, [go]);
      else turns.push(go);
    });
  }
  busy = true;
  try {
    return await work();
  } finally {
    callNext();
  }
}

function others(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function inSteps<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await others();
  }
}

/**
 * Scans a text to its end, or to its fault, letting others in between.
 * @param owner whose text it is
 */
export async function scanAll(scan: JsonScan, owner: string): Promise<void> {
  if (scan.step(STEP_BYTES)) return;
  await inTurn(owner, async () => {
    do await others();
    while (!scan.step(STEP_BYTES));
  });
}

/** The outline of somebody's text; `undefined` where too much is left of it. */
export function outlinePolitely(bytes: Buffer, owner: string): Promise<string | undefined> {
  return inTurn(owner, () => inSteps(outline(bytes)));
}

/** Where elements of somebody's text are, and the commas that go with them: see `rangesOfElements`. */
export function findElements(bytes: Buffer, paths: readonly ElementPath[], owner: string): Promise<ByteRange[]> {
  const find = () => inSteps(rangesOfElements(bytes, paths));
  return bytes.length <= STEP_BYTES ? find() : inTurn(owner, find);
}

/** Parses somebody's text that was scanned without a fault, letting others in between. Raises SyntaxError. */
export async function parseScanned(scan: JsonScan, owner: string): Promise<unknown> {
  const { bytes, seams } = scan;
  if (seams.length === 0 && bytes.length <= STEP_BYTES) return JSON.parse(bytes.toString('utf8'));
  return inTurn(owner, () => inSteps(parsePieces(scan)));
}
