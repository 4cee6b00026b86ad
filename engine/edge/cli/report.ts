import type { CheckResult, Verdict } from '../../base/contract/checks.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { jsonText, printableLine } from '../../base/kit/text/printable.ts';
import { type CommandContext, EXIT_FINDINGS, EXIT_OK, type Flags, json, option } from './commands.ts';
import { counted, paragraph } from './output.ts';
import { hint } from './terminal.ts';

export type ReportOptions = Flags<'json' | 'strict' | 'verbose'>;

export function openReport(
  { terminal }: CommandContext,
  options: ReportOptions,
  { command }: { readonly command: 'selfcheck' | 'doctor' },
) {
  const { json, strict = false, verbose = false } = options;
  const results: CheckResult[] = [];
  const started = performance.now();
  let shows_progress = false;
  const progress = (line: string) => {
    if (terminal.interactive && (line !== '' || shows_progress)) terminal.rewrite(line);
    shows_progress = line !== '';
  };
  return {
    results: results as readonly CheckResult[],
    is_text: !json,
    begin: (title: string) => progress(`         ${title} ...`.slice(0, terminal.columns - 1)),
    clear: () => progress(''),
    add(result: CheckResult) {
      const { remedy } = result;
      const bounded = boundedResult({ ...result, ...(remedy !== undefined && { remedy: hint(terminal, remedy) }) });
      results.push(bounded);
      progress('');
      if (json) return;
      terminal.data(renderCheck(bounded, terminal.data_color, verbose));
    },
    /** Prints the summary, with `more` added to the JSON object. Returns the exit code: 0, or 1 for failed checks. */
    end(more: Readonly<Record<string, unknown>>) {
      progress('');
      const duration_ms = Math.round(performance.now() - started);
      const summary = summarize(results);
      const whole = { command, version: programVersion(), ...more, summary, duration_ms, checks: results };
      if (json) terminal.data(`${jsonText(whole, 2)}\n`);
      else terminal.info(`\n${renderSummary(summary, duration_ms)}`);
      return summary.failed > 0 || (strict && summary.warning > 0) ? EXIT_FINDINGS : EXIT_OK;
    },
  };
}

export type Report = ReturnType<typeof openReport>;

const TEXT_MAX = 800;
const DETAILS_MAX = 20;

function boundedResult(result: CheckResult): CheckResult {
  const { details, ...texts } = result;
  const short = Object.fromEntries(
    Object.entries(texts).map(([key, value]) => [key, typeof value === 'string' ? shorten(value) : value]),
  ) as unknown as CheckResult;
  return details === undefined ? short : { ...short, details: details.slice(0, DETAILS_MAX).map(shorten) };
}

function shorten(text: string): string {
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX - 1).trimEnd()}…`;
}

const VERDICT_WIDTH = 9;
const LABEL_WIDTH = 10;
const INDENT = ' '.repeat(VERDICT_WIDTH);
const NOTICED_MS = 1000;

const COLORS: Readonly<Record<Verdict, number>> = { ok: 32, warning: 33, failed: 31, skipped: 2 };

/** A result as lines: verdict, title and finding, then details of a problem, or all of them. */
export function renderCheck(result: CheckResult, color: boolean, verbose: boolean): string {
  const { verdict, title, found, duration_ms } = result;
  const took = duration_ms < NOTICED_MS ? '' : ` (${seconds(duration_ms)})`;
  const [first = '', ...rest] = paragraph(printableLine(`${title}: ${found}${took}`), INDENT);
  const word = verdict.padEnd(VERDICT_WIDTH);
  const head = `${color ? `\x1b[${COLORS[verdict]}m${word}\x1b[0m` : word}${first.slice(VERDICT_WIDTH)}`;
  const more = moreOf(result, verbose).flatMap(([label, text]) => {
    const start = `${INDENT}${label.padEnd(LABEL_WIDTH)}`;
    return paragraph(printableLine(text), start, ' '.repeat(start.length));
  });
  return [head, ...rest, ...more].map((line) => `${line}\n`).join('');
}

function moreOf(result: CheckResult, verbose: boolean): (readonly [string, string])[] {
  const { id, verdict, where, sent, came, expected, remedy, details = [] } = result;
  const is_full = verbose || verdict === 'failed' || verdict === 'warning';
  const all: (readonly [string, string | undefined])[] = [
    ['where', where],
    ['sent', sent],
    ['came', came],
    ['expected', verdict === 'skipped' ? undefined : expected],
    ...details.map((detail) => ['note', detail] as const),
    ['help', remedy],
    ['check', id],
  ];
  return all.filter(
    (line): line is readonly [string, string] => (is_full || line[0] === 'help') && (line[1] ?? '') !== '',
  );
}

function seconds(duration_ms: number): string {
  return `${(duration_ms / 1000).toFixed(1)} s`;
}

function summarize(results: readonly CheckResult[]): Readonly<Record<Verdict, number>> {
  const ended = (verdict: Verdict) => results.filter((result) => result.verdict === verdict).length;
  return { ok: ended('ok'), warning: ended('warning'), failed: ended('failed'), skipped: ended('skipped') };
}

function renderSummary({ ok, warning, failed, skipped }: ReturnType<typeof summarize>, duration_ms: number): string {
  const parts = [
    `${ok} ok`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(warning > 0 ? [counted(warning, 'warning')] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ];
  return `${parts.join(', ')} in ${seconds(duration_ms)}\n`;
}

export const REPORT_OPTIONS = [
  json('print a JSON object'),
  option('--strict', 'exit with 1 for warnings'),
  option('--verbose', 'print all details, also of successful checks'),
];
