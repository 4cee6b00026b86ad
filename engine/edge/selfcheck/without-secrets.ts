import type { CheckOutcome, CheckResult } from '../../base/contract/checks.ts';

/** Shortest part of a secret to mask; shorter parts occur in texts by chance. */
const PART_LENGTH = 12;
const MARK = '***';
const TEXT_FIELDS = ['found', 'remedy', 'where', 'sent', 'came'] as const;

type Texts = CheckOutcome & Partial<Pick<CheckResult, 'sent' | 'came' | 'where'>>;

/** A result with its texts replaced. */
export function withTexts<Result extends Texts>(result: Result, replace: (text: string) => string): Result {
  const texts = TEXT_FIELDS.flatMap((key) => (result[key] === undefined ? [] : [[key, replace(result[key])]]));
  const details = result.details === undefined ? {} : { details: result.details.map(replace) };
  return { ...result, ...Object.fromEntries(texts), ...details };
}

/** A result with secrets masked that a gateway may have put into its responses, also truncated ones. */
export function withoutSecrets<Result extends Texts>(result: Result, secrets: readonly string[]): Result {
  return withTexts(result, secretHider(secrets));
}

/** Makes a function that masks every long part of the secrets in a text, regardless of case. */
export function secretHider(secrets: readonly string[]): (text: string) => string {
  const parts = new Set(secrets.flatMap(partsOf).map(inSmallLetters));
  return (text) => hideParts(text, parts);
}

/** Lower-cases ASCII only, which keeps offsets. */
function inSmallLetters(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function partsOf(secret: string): string[] {
  return [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1)].flatMap((written) => {
    if (written.length <= PART_LENGTH) return written === '' ? [] : [written];
    return Array.from({ length: written.length - PART_LENGTH + 1 }, (_, at) => written.slice(at, at + PART_LENGTH));
  });
}

function hideParts(text: string, parts: ReadonlySet<string>): string {
  const small = inSmallLetters(text);
  const places = [...parts].flatMap((part) => placesOf(small, part)).sort((a, b) => a.from - b.from);
  let clean = '';
  let done = 0;
  for (const { from, to } of places) {
    if (from >= done) clean += text.slice(done, from) + MARK;
    done = Math.max(done, to);
  }
  return clean + text.slice(done);
}

function placesOf(text: string, part: string): { from: number; to: number }[] {
  const places = [];
  for (let from = text.indexOf(part); from !== -1; from = text.indexOf(part, from + 1)) {
    places.push({ from, to: from + part.length });
  }
  return places;
}
