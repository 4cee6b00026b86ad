import { outline } from './outline.ts';
import { parsePieces } from './pieces.ts';
import type { JsonScan } from './scan.ts';

/** Bytes that are scanned, or parsed, without looking after anybody else. */
const STEP_BYTES = 1024 * 1024;

/** A large text that waits until others are done with: their trees take several times their size. */
interface Waiting {
  readonly size: number;
  go(): void;
}

const waiting: Waiting[] = [];
let busy = false;

/** Runs one piece of work on a large text at a time in this process, of those that wait the smallest first. */
async function inTurn<T>(size: number, work: () => Promise<T>): Promise<T> {
  if (busy) {
    await new Promise<void>((go) => {
      const behind = waiting.findIndex((other) => other.size > size);
      waiting.splice(behind < 0 ? waiting.length : behind, 0, { size, go });
    });
  }
  busy = true;
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    // Whoever is next goes on in a later turn of the event loop; until then nobody else may begin.
    if (next === undefined) busy = false;
    else setImmediate(next.go);
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

/** Scans a text to its end, or to its fault, letting others in between. */
export async function scanAll(scan: JsonScan): Promise<void> {
  if (scan.step(STEP_BYTES)) return;
  await inTurn(scan.bytes.length, async () => {
    do await others();
    while (!scan.step(STEP_BYTES));
  });
}

/** The outline of a text; `undefined` where too much is left of it. */
export function outlinePolitely(bytes: Buffer): Promise<string | undefined> {
  return inTurn(bytes.length, () => inSteps(outline(bytes)));
}

/** Parses a text that was scanned without a fault, letting others in between. Raises SyntaxError. */
export async function parseScanned(scan: JsonScan): Promise<unknown> {
  const { bytes, seams } = scan;
  if (seams.length === 0 && bytes.length <= STEP_BYTES) return JSON.parse(bytes.toString('utf8'));
  return inTurn(bytes.length, () => inSteps(parsePieces(scan)));
}
