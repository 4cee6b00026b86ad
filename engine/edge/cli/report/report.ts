import type { CheckResult, Verdict } from '../../../base/contract/checks.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { jsonText, printableLine } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK } from '../exit-codes.ts';
import { hint } from '../program-name.ts';

/** Options of commands that report checks; `REPORT_OPTIONS` has the words for them. */
export interface ReportOptions {
  readonly json?: true;
  readonly strict?: true;
  readonly verbose?: true;
}

/** Where results of checks go, one by one as they are known. */
export interface Report {
  /** Lets a person who watches see what is being done; the next result takes it away. */
  begin(title: string): void;
  /** Takes away what `begin` showed, before something else is printed. */
  clear(): void;
  add(result: CheckResult): void;
  /** Prints what can only be told of all together, with facts beside what every report has; the exit code: 0, or 1 when there is something to put right. */
  end(facts: Readonly<Record<string, unknown>>): number;
  readonly results: readonly CheckResult[];
  /** Whether people read it, who may be told more beside it. */
  readonly is_text: boolean;
}

/** Opens a report in the form that was asked for: text for people as it comes, or JSON at the end. */
export function openReport(
  { terminal }: CommandContext,
  given: ReportOptions,
  { command }: { readonly command: 'selfcheck' | 'doctor' },
): Report {
  const { json, strict = false, verbose = false } = given;
  const results: CheckResult[] = [];
  const started = performance.now();
  /** Titles of what was told to be wrong, by what was said. */
  const told = new Map<string, string>();
  const tell = (result: CheckResult) => {
    const shown = verbose ? result : onlyOnce(result, told);
    terminal.data(renderCheck(shown, { color: terminal.data_color, columns: terminal.columns, verbose }));
  };
  /** Skipped for the same reason, one after the other; they wait to be told in one. */
  const alike: CheckResult[] = [];
  const tellAlike = () => {
    const skipped = alike.splice(0);
    if (skipped.length > 0) tell(inOne(skipped));
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
      if (first !== undefined && (verbose || !isAlike(first, bounded))) tellAlike();
      if (bounded.verdict === 'skipped') alike.push(bounded);
      else tell(bounded);
    },
    end(more) {
      progress('');
      tellAlike();
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

/** Several that were skipped for the same reason as one. */
function inOne(skipped: readonly CheckResult[]): CheckResult {
  const [first] = skipped as readonly [CheckResult];
  if (skipped.length === 1) return first;
  return { ...first, title: `${skipped.length} checks, ${first.id} to ${skipped.at(-1)!.id}` };
}

/** A fault that was told already is told by its first title: one page in front of everything fails nearly every check. */
function onlyOnce(result: CheckResult, told: Map<string, string>): CheckResult {
  const { id, title, verdict, found, remedy, where, duration_ms } = result;
  if (verdict !== 'failed' && verdict !== 'warning') return result;
  const said = JSON.stringify([verdict, found, remedy, where]);
  const first = told.get(said);
  if (first === undefined) told.set(said, title);
  return first === undefined ? result : { id, title, verdict, found: `the same as for "${first}"`, duration_ms };
}

const TEXT_MAX = 800;
const DETAILS_MAX = 20;

/** A result that stays readable whatever a server put into it: each text cut where it gets long, and no more than so many notes. */
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

/** How results are printed for people; `verbose`: everything is told of checks that went well, too. */
interface TextOptions {
  readonly color: boolean;
  readonly columns: number;
  readonly verbose: boolean;
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

/** What there is to say besides, with a label each. */
function moreOf(result: CheckResult, verbose: boolean): (readonly [string, string])[] {
  const { id, verdict, where, sent, came, expected, remedy, details = [] } = result;
  const tells_all = verbose || verdict === 'failed' || verdict === 'warning';
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
    (line): line is readonly [string, string] => (tells_all || line[0] === 'help') && (line[1] ?? '') !== '',
  );
}

function seconds(duration_ms: number): string {
  return `${(duration_ms / 1000).toFixed(1)} s`;
}

/** How many checks ended in which way. */
function summarize(results: readonly CheckResult[]): Readonly<Record<Verdict, number>> {
  const ended = (verdict: Verdict) => results.filter((result) => result.verdict === verdict).length;
  return { ok: ended('ok'), warning: ended('warning'), failed: ended('failed'), skipped: ended('skipped') };
}

/** The last line for people. */
function renderSummary({ ok, warning, failed, skipped }: ReturnType<typeof summarize>, duration_ms: number): string {
  const parts = [
    `${ok} ok`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(warning > 0 ? [counted(warning, 'warning')] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ];
  return `${parts.join(', ')} in ${seconds(duration_ms)}\n`;
}
