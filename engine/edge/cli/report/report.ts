import type { CheckResult, Verdict } from '../../../base/contract/checks.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { jsonText, printableLine } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK } from '../exit-codes.ts';
import { hint } from '../program-name.ts';

/** Options of commands that report checks, as in `REPORT_OPTIONS`. */
export interface ReportOptions {
  readonly json?: true;
  readonly strict?: true;
  readonly verbose?: true;
}

/** Collects and prints results of checks as they arrive. */
export interface Report {
  /** Shows progress on a terminal until the next result. */
  begin(title: string): void;
  /** Clears the progress line before other output. */
  clear(): void;
  add(result: CheckResult): void;
  /** Prints the summary, with `facts` added to the JSON object. Returns the exit code: 0, or 1 for failed checks. */
  end(facts: Readonly<Record<string, unknown>>): number;
  readonly results: readonly CheckResult[];
  /** Whether the report is text, so that more text may accompany it. */
  readonly is_text: boolean;
}

/** Opens a report: text as results arrive, or JSON at the end. */
export function openReport(
  { terminal }: CommandContext,
  options: ReportOptions,
  { command }: { readonly command: 'selfcheck' | 'doctor' },
): Report {
  const { json, strict = false, verbose = false } = options;
  const results: CheckResult[] = [];
  const started = performance.now();
  /** First titles of reported faults, by their texts. */
  const reported = new Map<string, string>();
  const print = (result: CheckResult) => {
    const shown = verbose ? result : onlyOnce(result, reported);
    terminal.data(renderCheck(shown, { color: terminal.data_color, columns: terminal.columns, verbose }));
  };
  /** Consecutive checks skipped for the same reason, to be merged. */
  const alike: CheckResult[] = [];
  const flushSkipped = () => {
    const skipped = alike.splice(0);
    if (skipped.length > 0) print(inOne(skipped));
  };
  let shows_progress = false;
  const progress = (line: string) => {
    if (terminal.interactive && (line !== '' || shows_progress)) terminal.rewrite(line);
    shows_progress = line !== '';
  };
  return {
    results,
    is_text: !json,
    begin: (title) => progress(`         ${title} ...`.slice(0, terminal.columns - 1)),
    clear: () => progress(''),
    add(result) {
      const { remedy } = result;
      const bounded = boundedResult({ ...result, ...(remedy !== undefined && { remedy: hint(terminal, remedy) }) });
      results.push(bounded);
      progress('');
      if (json) return;
      const [first] = alike;
      if (first !== undefined && (verbose || !isAlike(first, bounded))) flushSkipped();
      if (bounded.verdict === 'skipped') alike.push(bounded);
      else print(bounded);
    },
    end(more) {
      progress('');
      flushSkipped();
      const duration_ms = Math.round(performance.now() - started);
      const summary = summarize(results);
      const whole = { command, version: programVersion(), ...more, summary, duration_ms, checks: results };
      if (json) terminal.data(`${jsonText(whole, 2)}\n`);
      else terminal.info(`\n${renderSummary(summary, duration_ms)}`);
      return summary.failed > 0 || (strict && summary.warning > 0) ? EXIT_FINDINGS : EXIT_OK;
    },
  };
}

function isAlike(a: CheckResult, b: CheckResult): boolean {
  return b.verdict === 'skipped' && a.found === b.found && a.remedy === b.remedy;
}

/** Merges checks that were skipped for the same reason. */
function inOne(skipped: readonly CheckResult[]): CheckResult {
  const [first] = skipped as readonly [CheckResult];
  if (skipped.length === 1) return first;
  return { ...first, title: `${skipped.length} checks, ${first.id} to ${skipped.at(-1)!.id}` };
}

/** Replaces a repeated fault by a reference to its first title: one proxy page fails nearly every check. */
function onlyOnce(result: CheckResult, reported: Map<string, string>): CheckResult {
  const { id, title, verdict, found, remedy, where, duration_ms } = result;
  if (verdict !== 'failed' && verdict !== 'warning') return result;
  const key = JSON.stringify([verdict, found, remedy, where]);
  const first = reported.get(key);
  if (first === undefined) reported.set(key, title);
  return first === undefined ? result : { id, title, verdict, found: `same as "${first}"`, duration_ms };
}

const TEXT_MAX = 800;
const DETAILS_MAX = 20;

/** Truncates the texts and details of a result, which may contain server output. */
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

/** Options of text output; `verbose` prints all details, also of successful checks. */
interface TextOptions {
  readonly color: boolean;
  readonly columns: number;
  readonly verbose: boolean;
}

const VERDICT_WIDTH = 9;
const LABEL_WIDTH = 10;
const INDENT = ' '.repeat(VERDICT_WIDTH);
const SHORTEST_LINE = 40;
/** Print longer durations. */
const NOTICED_MS = 1000;

const COLORS: Readonly<Record<Verdict, number>> = { ok: 32, warning: 33, failed: 31, skipped: 2 };

/**
 * One result as text: the finding, and for failures and warnings also request, response, expectation and remedy.
 */
function renderCheck(result: CheckResult, { color, columns, verbose }: TextOptions): string {
  const { verdict, title, found, duration_ms } = result;
  const width = Math.max(columns, SHORTEST_LINE);
  const took = duration_ms < NOTICED_MS ? '' : ` (${seconds(duration_ms)})`;
  const [first = '', ...rest] = wrapText(printableLine(`${title}: ${found}${took}`), width, INDENT);
  const word = verdict.padEnd(VERDICT_WIDTH);
  const head = `${color ? `\x1b[${COLORS[verdict]}m${word}\x1b[0m` : word}${first.slice(VERDICT_WIDTH)}`;
  const more = moreOf(result, verbose).flatMap(([label, text]) => {
    const start = `${INDENT}${label.padEnd(LABEL_WIDTH)}`;
    return wrapText(printableLine(text), width, start, ' '.repeat(start.length));
  });
  return [head, ...rest, ...more].map((line) => `${line}\n`).join('');
}

/** Labelled details of a result. */
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

/** Number of checks by verdict. */
function summarize(results: readonly CheckResult[]): Readonly<Record<Verdict, number>> {
  const ended = (verdict: Verdict) => results.filter((result) => result.verdict === verdict).length;
  return { ok: ended('ok'), warning: ended('warning'), failed: ended('failed'), skipped: ended('skipped') };
}

/** The summary line. */
function renderSummary({ ok, warning, failed, skipped }: ReturnType<typeof summarize>, duration_ms: number): string {
  const parts = [
    `${ok} ok`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(warning > 0 ? [counted(warning, 'warning')] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ];
  return `${parts.join(', ')} in ${seconds(duration_ms)}\n`;
}
