import type { CheckResult } from '../../contract/checks.ts';
import { programVersion } from '../../kit/package-root.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK } from '../exit-codes.ts';
import { hint } from '../program-name.ts';
import { renderCheck, renderJson, renderSummary, summarize } from './render-checks.ts';

/** Options of commands that report checks; `addReportOptions` has the words for them. */
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
      const facts = { command, version: programVersion(), ...more };
      if (json) terminal.data(renderJson(results, { facts, duration_ms }));
      const summary = summarize(results);
      if (!json) terminal.info(`\n${renderSummary(summary, duration_ms)}`);
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
