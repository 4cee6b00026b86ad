import { createFairQueue } from '../fair-queue.ts';
import type { JsonScan } from './scan.ts';

/** Bytes scanned or parsed without yielding to the event loop. */
const STEP_BYTES = 1024 * 1024;

/** One large text at a time in this process: a parsed tree takes several times the memory of its text. */
const queue = createFairQueue();

function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function inSteps<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await yieldToEventLoop();
  }
}

/** Runs a reader of `bytes` in steps: a short text at once, a large one through the queue. @param owner as in `scanAll` */
export function readInSteps<T>(bytes: Buffer, owner: string, reader: Generator<undefined, T>): Promise<T> {
  return bytes.length <= STEP_BYTES ? inSteps(reader) : queue(owner, () => inSteps(reader));
}

/** Scans a text to its end or first fault, in steps if it is long. @param owner key of the fair queue, such as the caller */
export function scanAll(scan: JsonScan, owner: string): Promise<void> | undefined {
  if (scan.step(STEP_BYTES)) return undefined;
  return queue(owner, async () => {
    do await yieldToEventLoop();
    while (!scan.step(STEP_BYTES));
  });
}

/** Parses a text that was scanned without a fault: at once if short, otherwise through the queue. Raises SyntaxError. */
export function parseScanned({ bytes }: Pick<JsonScan, 'bytes'>, owner: string, text?: string): unknown {
  if (bytes.length <= STEP_BYTES) return JSON.parse(text ?? bytes.toString('utf8'));
  return queue(owner, async () => {
    const whole = text ?? bytes.toString('utf8');
    await yieldToEventLoop();
    return JSON.parse(whole) as unknown;
  });
}
