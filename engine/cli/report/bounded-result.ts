import type { CheckResult } from '../../contract/checks.ts';

const TEXT_MAX = 800;
const DETAILS_MAX = 20;

/** A result that stays readable whatever a server put into it: each text cut where it gets long, and no more than so many notes. */
export function boundedResult(result: CheckResult): CheckResult {
  const { details, ...texts } = result;
  const short = Object.fromEntries(
    Object.entries(texts).map(([key, value]) => [key, typeof value === 'string' ? shorten(value) : value]),
  ) as unknown as CheckResult;
  return details === undefined ? short : { ...short, details: details.slice(0, DETAILS_MAX).map(shorten) };
}

function shorten(text: string): string {
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX - 1).trimEnd()}…`;
}
