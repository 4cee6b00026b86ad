import type { WantedTexts } from '../../contract/request-body.ts';
import { createTurns } from '../turns.ts';
import { type ByteRange, type ElementPath, rangesOfElements, startsOfValues } from './elements.ts';
import { outline } from './outline.ts';
import type { JsonScan } from './scan.ts';
import { type FoundText, textsIn } from './texts.ts';

/** Bytes that are scanned, or parsed, without looking after anybody else. */
const STEP_BYTES = 1024 * 1024;

/** One large text at a time in this process: their trees take several times their size. */
const inTurn = createTurns();

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

/** Reads at once what is short, and what is large in its turn. */
function reading<T>(bytes: Buffer, owner: string, begin: () => Generator<undefined, T>): Promise<T> {
  const read = () => inSteps(begin());
  return bytes.length <= STEP_BYTES ? read() : inTurn(owner, read);
}

/**
 * Scans a text to its end, or to its fault: at once where it is not large, else letting others in between.
 * @param owner whose text it is
 */
export function scanAll(scan: JsonScan, owner: string): Promise<void> | undefined {
  if (scan.step(STEP_BYTES)) return undefined;
  return inTurn(owner, async () => {
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
  return reading(bytes, owner, () => rangesOfElements(bytes, paths));
}

/** Where values of somebody's text begin: see `startsOfValues`. */
export function findValues(
  bytes: Buffer,
  paths: readonly ElementPath[],
  owner: string,
): Promise<(number | undefined)[]> {
  return reading(bytes, owner, () => startsOfValues(bytes, paths));
}

/** Strings of somebody's text: see `textsIn`. */
export function findTexts<T>(bytes: Buffer, wanted: WantedTexts<T>, owner: string): Promise<FoundText<T>[]> {
  return reading(bytes, owner, () => textsIn(bytes, wanted));
}

/**
 * Parses somebody's text that was scanned without a fault: at once, since the scan's bounds keep that short, and where it is large
 * one at a time, and a promise. Raises SyntaxError.
 */
export function parseScanned({ bytes }: Pick<JsonScan, 'bytes'>, owner: string, text?: string): unknown {
  if (bytes.length <= STEP_BYTES) return JSON.parse(text ?? bytes.toString('utf8'));
  return inTurn(owner, async () => {
    const whole = text ?? bytes.toString('utf8');
    await others();
    return JSON.parse(whole) as unknown;
  });
}
