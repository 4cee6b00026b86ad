import type { WantedTexts } from '../../contract/request-body.ts';
import { createFairQueue } from '../fair-queue.ts';
import { type ByteRange, type ElementPath, rangesOfElements, startsOfValues } from './elements.ts';
import { outline } from './outline.ts';
import type { JsonScan } from './scan.ts';
import { type FoundText, textsIn } from './texts.ts';

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

/** Reads short texts at once, and large ones through the queue. */
function reading<T>(bytes: Buffer, owner: string, begin: () => Generator<undefined, T>): Promise<T> {
  const read = () => inSteps(begin());
  return bytes.length <= STEP_BYTES ? read() : queue(owner, read);
}

/**
 * Scans a text to its end or first fault: synchronously if short, otherwise in steps.
 * @param owner key of the fair queue, such as the caller
 */
export function scanAll(scan: JsonScan, owner: string): Promise<void> | undefined {
  if (scan.step(STEP_BYTES)) return undefined;
  return queue(owner, async () => {
    do await yieldToEventLoop();
    while (!scan.step(STEP_BYTES));
  });
}

/** The outline of a text, computed in steps; `undefined` if it is too large. */
export function outlineInSteps(bytes: Buffer, owner: string): Promise<string | undefined> {
  return queue(owner, () => inSteps(outline(bytes)));
}

/** Byte ranges of array elements, with their commas; see `rangesOfElements`. */
export function findElements(bytes: Buffer, paths: readonly ElementPath[], owner: string): Promise<ByteRange[]> {
  return reading(bytes, owner, () => rangesOfElements(bytes, paths));
}

/** Start offsets of values; see `startsOfValues`. */
export function findValues(
  bytes: Buffer,
  paths: readonly ElementPath[],
  owner: string,
): Promise<(number | undefined)[]> {
  return reading(bytes, owner, () => startsOfValues(bytes, paths));
}

/** Strings by their keys; see `textsIn`. */
export function findTexts<T>(bytes: Buffer, wanted: WantedTexts<T>, owner: string): Promise<FoundText<T>[]> {
  return reading(bytes, owner, () => textsIn(bytes, wanted));
}

/**
 * Parses a text that was scanned without a fault. Short texts are parsed synchronously, within the bounds of the scan. Large ones go
 * through the queue, and the result is a promise. Raises SyntaxError.
 */
export function parseScanned({ bytes }: Pick<JsonScan, 'bytes'>, owner: string, text?: string): unknown {
  if (bytes.length <= STEP_BYTES) return JSON.parse(text ?? bytes.toString('utf8'));
  return queue(owner, async () => {
    const whole = text ?? bytes.toString('utf8');
    await yieldToEventLoop();
    return JSON.parse(whole) as unknown;
  });
}
