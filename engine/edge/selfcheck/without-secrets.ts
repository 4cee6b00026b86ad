import type { CheckOutcome, CheckResult } from '../../base/contract/checks.ts';

/** So many characters of a secret in a row are taken for a part of it; fewer are in many texts by chance. */
const PART_LENGTH = 12;
const MARK = '***';
const SAID_BY_OTHERS = ['found', 'remedy', 'where', 'sent', 'came'] as const;

/**
 * A result without the secrets that a gateway may have put into its answers, also where they were cut off at an end: every
 * longer part of one is replaced.
 */
export function withoutSecrets<Result extends CheckOutcome & Partial<Pick<CheckResult, 'sent' | 'came' | 'where'>>>(
  result: Result,
  secrets: readonly string[],
): Result {
  const clean = secretHider(secrets);
  const texts = SAID_BY_OTHERS.flatMap((key) => (result[key] === undefined ? [] : [[key, clean(result[key])]]));
  const details = result.details === undefined ? {} : { details: result.details.map(clean) };
  return { ...result, ...Object.fromEntries(texts), ...details };
}

/** What replaces every longer part of a secret in a text, also where somebody changed its letters to small or large ones. */
export function secretHider(secrets: readonly string[]): (text: string) => string {
  const parts = new Set(secrets.flatMap(partsOf).map(inSmallLetters));
  return (text) => hideParts(text, parts);
}

/** Those of ASCII alone, so that every letter stays at its place. */
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
