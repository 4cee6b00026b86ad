import type { CheckResult, Verdict } from '../../contract/checks.ts';
import { jsonText, printableLine } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { counted } from '../amounts.ts';

/** How results are printed for people. */
export interface TextOptions {
  readonly color: boolean;
  readonly columns: number;
  /** Whether everything is told of checks that went well, too. */
  readonly verbose?: boolean;
}

const VERDICT_WIDTH = 9;
const LABEL_WIDTH = 10;
const INDENT = ' '.repeat(VERDICT_WIDTH);
const SHORTEST_LINE = 40;
/** What takes longer is worth a word. */
const NOTICED_MS = 1000;

const COLORS: Readonly<Record<Verdict, number>> = { ok: 32, warning: 33, failed: 31, skipped: 2 };

/**
 * One result as lines for people: what was found, and of all but a good end also what travelled, what should have come and
 * what to do.
 */
export function renderCheck(
  result: Omit<CheckResult, 'duration_ms'> & { readonly duration_ms?: number },
  { color, columns, verbose = false }: TextOptions,
): string {
  const { verdict, title, found, duration_ms = 0 } = result;
  const width = Math.max(columns, SHORTEST_LINE);
  const took = duration_ms < NOTICED_MS ? '' : ` (${seconds(duration_ms)})`;
  const [first = '', ...rest] = wrapText(printableLine(`${title}: ${found}${took}`), width, INDENT);
  const head = `${paint(verdict, color)}${first.slice(VERDICT_WIDTH)}`;
  const more = moreOf(result, verbose).flatMap(([label, text]) =>
    wrapText(
      printableLine(text),
      width,
      `${INDENT}${label.padEnd(LABEL_WIDTH)}`,
      ' '.repeat(VERDICT_WIDTH + LABEL_WIDTH),
    ),
  );
  return [head, ...rest, ...more].map((line) => `${line}\n`).join('');
}

/** What there is to say besides, with a label each. */
function moreOf(result: Omit<CheckResult, 'duration_ms'>, verbose: boolean): (readonly [string, string])[] {
  const { id, verdict, where, sent, came, expected, remedy, details = [] } = result;
  const is_wrong = verdict === 'failed' || verdict === 'warning';
  const tells_all = verbose || is_wrong;
  const lines: (readonly [string, string | undefined])[] = [
    ['where', tells_all ? where : undefined],
    ['sent', tells_all ? sent : undefined],
    ['came', tells_all ? came : undefined],
    ['expected', tells_all && verdict !== 'skipped' ? expected : undefined],
    ...details.map((detail) => ['note', tells_all ? detail : undefined] as const),
    ['help', remedy],
    ['check', tells_all ? id : undefined],
  ];
  return lines.filter((line): line is readonly [string, string] => line[1] !== undefined && line[1] !== '');
}

function paint(verdict: Verdict, color: boolean): string {
  const word = verdict.padEnd(VERDICT_WIDTH);
  return color ? `\x1b[${COLORS[verdict]}m${word}\x1b[0m` : word;
}

function seconds(duration_ms: number): string {
  return `${(duration_ms / 1000).toFixed(1)} s`;
}

/** How many checks ended in which way. */
export type Summary = Readonly<Record<Verdict, number>>;

/** Counts how checks ended. */
export function summarize(results: readonly Pick<CheckResult, 'verdict'>[]): Summary {
  const ended = (verdict: Verdict) => results.filter((result) => result.verdict === verdict).length;
  return { ok: ended('ok'), warning: ended('warning'), failed: ended('failed'), skipped: ended('skipped') };
}

/** The last line for people. */
export function renderSummary({ ok, warning, failed, skipped }: Summary, duration_ms: number): string {
  const parts = [
    `${ok} ok`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(warning > 0 ? [counted(warning, 'warning')] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ];
  return `${parts.join(', ')} in ${seconds(duration_ms)}\n`;
}

/** All results for programs, with how many ended in which way. */
export function renderJson(
  results: readonly CheckResult[],
  options: { readonly facts: Readonly<Record<string, unknown>>; readonly duration_ms: number },
): string {
  const { facts, duration_ms } = options;
  const whole = { ...facts, summary: summarize(results), duration_ms, checks: results };
  return `${jsonText(whole, 2)}\n`;
}
