import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { jsonText } from '../../base/kit/text/printable.ts';
import { currentStageId } from '../../base/kit/unhandled-errors.ts';
import { renderDiagnostics, shownPath } from '../../base/source/diagnostics/render.ts';
import { pointerTokens } from '../../base/source/node.ts';
import type { StageStep } from '../../pipeline/explain/dry-run.ts';
import { describeAttempt } from '../../pipeline/explain/trace.ts';
import { asError } from '../../pipeline/run/contained/result.ts';
import { stageStep } from '../simulate/dry-run.ts';
import type { Coverage } from '../simulate/suite/coverage.ts';
import type { Played } from '../simulate/suite/play.ts';
import { type CaseResult, openSuite, type Problem, type Suite } from '../simulate/suite/suite.ts';
import {
  type CommandContext,
  type CommandRow,
  choice,
  EXIT_CONFIGURATION,
  EXIT_FINDINGS,
  EXIT_OK,
  type Flags,
  option,
  type Texts,
  usageError,
} from './commands.ts';
import { stageLines } from './explain/describe.ts';
import { counted, paragraph, WIDTH } from './output.ts';

type Paint = (text: string, style: 'good' | 'bad' | 'faint' | 'strong') => string;

const STYLES = { good: 32, bad: 31, faint: 2, strong: 1 } as const;

function pathOf(pointer: string): string {
  return ['expect', ...pointerTokens(pointer)].join('.').replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]');
}

function labelled(label: string, text: string): string[] {
  const indent = ' '.repeat(6 + label.length + 2);
  return paragraph(text, `${' '.repeat(6)}${label}  `, indent);
}

function describeProblem(problem: Problem, several: boolean, cwd: string, paint: Paint): string[] {
  const { pointer, position, step, expected, found } = problem;
  const where = `${shownPath(position.file, cwd)}:${position.line}`;
  const what = pointer === '' ? 'every request' : pathOf(pointer);
  return [
    `    ${where}  ${what}${several ? ` (request ${step + 1})` : ''}`,
    ...labelled(paint('expected', 'good'), expected),
    ...labelled(paint('found   ', 'bad'), found),
  ];
}

function describePlayed({ trace, response, calls, attempts, log }: Played): string[] {
  const sent = calls.map(({ upstream, method, url }) => `${method} ${url} to ${upstream}`).join(', ');
  const got = response === undefined ? 'nothing' : `${response.status} ${shorten(response.body.toString())}`;
  return [
    ...stageLines(stepsOf(trace)),
    ...paragraph(`sent: ${sent || 'nothing'}`, '     '),
    ...(attempts.length > 1 || attempts[0]?.reason !== 'served' ? attempts : []).flatMap((attempt) =>
      paragraph(`attempt ${attempt.n}: ${describeAttempt(attempt)}`, '     ', '       '),
    ),
    ...paragraph(`client got: ${got}`, '     ', '       '),
    ...log.flatMap(({ message, reason }) =>
      paragraph(`log: ${message}${reason ? `: ${reason}` : ''}`, '     ', '       '),
    ),
  ];
}

function stepsOf(trace: Played['trace']): StageStep[] {
  const reached = (trace?.stages ?? []).filter(
    ({ list, ran, guard }) => list === 'stages' || ran || guard !== undefined,
  );
  const shadow = reached.flatMap(({ entry, guard }) => (entry.mode === 'shadow' && guard?.held ? [entry.id] : []));
  return reached.map((stage) => stageStep(stage, shadow));
}

function silenceOf({ calls: [call], is_unscripted }: Played): string | undefined {
  if (call === undefined || !is_unscripted) return undefined;
  return `this case has no \`upstream:\`, so ${call.upstream} returned 200 with an empty body`;
}

function describeFailure({ name, problems, played }: CaseResult, cwd: string, paint: Paint): string[] {
  const several = played.length > 1;
  const failed = [...new Set(problems.map(({ step }) => step))].filter((step) => played[step] !== undefined);
  return [
    '',
    ...paragraph(name, '  ').map((line) => paint(line, 'strong')),
    ...problems.flatMap((problem) => describeProblem(problem, several, cwd, paint)),
    ...failed.flatMap((step) => {
      const text = silenceOf(played[step]!);
      return text === undefined ? [] : paragraph(text, '    ', '      ');
    }),
    ...failed.flatMap((step) => [
      several ? `  What happened on request ${step + 1}:` : '  What happened:',
      ...describePlayed(played[step]!),
    ]),
  ];
}

function describeFile(file: string, cases: number, failed: number, paint: Paint): string {
  const mark = failed === 0 ? paint('ok  ', 'good') : paint('FAIL', 'bad');
  const result = failed === 0 ? counted(cases, 'case') : `${failed} of ${counted(cases, 'case')} failed`;
  return `${mark}  ${file}${' '.repeat(Math.max(2, WIDTH - 6 - file.length - result.length))}${result}`;
}

function describeBlocked(cases: readonly CaseResult[], paint: Paint): string[] {
  const refused = cases.flatMap(({ played }) => played.flatMap((each) => each.refused));
  const notes = new Set(refused.map(({ stage, destination }) => `${stage} tried to reach ${destination}`));
  return [...notes].flatMap((note) =>
    paragraph(`note: ${note}; tests block the network`, '      ', '        ').map((line) => paint(line, 'faint')),
  );
}

function describeCoverage(files: ReturnType<Coverage['files']>, percent: number, cwd: string, paint: Paint): string[] {
  const lines = files.flatMap(({ file, seen, total, points }) => {
    const shown = shownPath(file, cwd);
    const share = `${seen} of ${total}`;
    const unseen = points.flatMap((point) => {
      const never = [...point.outcomes].flatMap(([outcome, seen]) => (seen ? [] : outcome));
      if (never.length === 0) return [];
      const what = point.kind === 'on_error' ? `on_error ${point.name}` : `${point.kind} ${point.name}`;
      return paragraph(`${what}: never ${never.join(' or ')}`, `  line ${point.position.line}  `, '    ');
    });
    const head = `${shown}${' '.repeat(Math.max(2, WIDTH - shown.length - share.length))}${share}`;
    return [paint(head, seen === total ? 'good' : 'bad'), ...unseen];
  });
  return ['', paint('Decision coverage', 'strong'), ...lines, `${percent} % in all`];
}

const TEXT_CHARACTERS = 300;

function shorten(text: string): string {
  const line = text.replaceAll(/\s*\n\s*/g, ' ');
  return line.length > TEXT_CHARACTERS ? `${line.slice(0, TEXT_CHARACTERS)}...` : line;
}

interface TestOptions extends Texts<'config' | 'filter'>, Flags<'coverage'> {
  readonly paths: readonly string[];
  readonly minCoverage?: number;
  readonly format: 'text' | 'json';
}

/** Exits 0; 1 for a failure, too little coverage or no tests; 78 for an invalid file. Raises StartError. */
async function test(context: CommandContext, options: TestOptions): Promise<number> {
  const { config, format } = options;
  const paths = options.paths.length > 0 ? options.paths : [config === undefined ? '.' : dirname(config)];
  const absent = [...paths, ...(config === undefined ? [] : [config])].find((path) => !existsSync(path));
  if (absent !== undefined) throw usageError(`${absent} does not exist`);
  const stopCatching = catchUnhandledErrors(context);
  const suite = await openSuite({ paths, config, stages: await context.stages() });
  try {
    return format === 'json' ? await reportJson(suite, options, context) : await reportText(suite, options, context);
  } finally {
    await suite.close();
    stopCatching();
  }
}

/** Reports late failures of stages, such as unhandled rejections, instead of ending the tests. */
function catchUnhandledErrors({ terminal }: CommandContext): () => void {
  const onUnhandledError = (error: unknown) => {
    const stage = currentStageId();
    if (stage === undefined) throw error;
    terminal.info(`note: stage ${stage} failed after its hook had returned: ${asError(error).message}\n`);
  };
  process.on('unhandledRejection', onUnhandledError).on('uncaughtException', onUnhandledError);
  return () => void process.off('unhandledRejection', onUnhandledError).off('uncaughtException', onUnhandledError);
}

async function runFile(file: Suite['files'][number], filter: string) {
  const cases: CaseResult[] = [];
  for (const one of file.cases) {
    if (one.name.toLowerCase().includes(filter)) cases.push(await one.run());
  }
  return { file: file.file, cases };
}

type FileResult = Awaited<ReturnType<typeof runFile>>;

const hasFailed = ({ problems }: CaseResult): boolean => problems.length > 0;

function exitCode(suite: Suite, results: readonly FileResult[], min_coverage: number): number {
  if (suite.diagnostics.length > 0) return EXIT_CONFIGURATION;
  const cases = results.flatMap((result) => result.cases);
  if (cases.length === 0 || cases.some(hasFailed) || suite.coverage.percent() < min_coverage) return EXIT_FINDINGS;
  return EXIT_OK;
}

async function reportText(suite: Suite, options: TestOptions, { terminal }: CommandContext): Promise<number> {
  const { filter = '', coverage, minCoverage = 0 } = options;
  const cwd = process.cwd();
  const paint: Paint = (text, style) => (terminal.data_color ? `\x1b[${STYLES[style]}m${text}\x1b[0m` : text);
  const write = (lines: readonly string[]) => terminal.data(lines.map((line) => `${line}\n`).join(''));
  const { diagnostics, sources } = suite;
  if (diagnostics.length > 0) {
    terminal.data(`${renderDiagnostics(diagnostics, { format: 'text', color: terminal.data_color, sources, cwd })}\n`);
  }
  const results: FileResult[] = [];
  for (const file of suite.files) {
    const result = await runFile(file, filter.toLowerCase());
    if (result.cases.length === 0) continue;
    results.push(result);
    const failed = result.cases.filter(hasFailed);
    write([describeFile(shownPath(result.file, cwd), result.cases.length, failed.length, paint)]);
    write(describeBlocked(result.cases, paint));
    for (const one of failed) write(describeFailure(one, cwd, paint));
  }
  if ((coverage || minCoverage > 0) && results.length > 0) {
    write(describeCoverage(suite.coverage.files(), suite.coverage.percent(), cwd, paint));
  }
  terminal.info(`\n${summary(suite, results, options)}\n`);
  return exitCode(suite, results, minCoverage);
}

function summary(suite: Suite, results: readonly FileResult[], { filter, minCoverage = 0 }: TestOptions): string {
  const cases = results.flatMap((result) => result.cases);
  const failed = cases.filter(hasFailed).length;
  const broken = suite.diagnostics.length;
  if (suite.found === 0) return 'no tests: there are no *.test.yaml files; name their directory';
  if (cases.length === 0 && broken === 0) return `no tests: no case name contains ${JSON.stringify(filter)}`;
  const percent = suite.coverage.percent();
  const problems = [
    ...(failed > 0 ? [`${failed} of ${counted(cases.length, 'case')} failed`] : []),
    ...(broken > 0 ? [`${counted(broken, 'error')} in files`] : []),
    ...(percent < minCoverage ? [`decision coverage of ${percent} % is below ${minCoverage} %`] : []),
  ];
  if (problems.length > 0) return problems.join('; ');
  return `ok: ${counted(cases.length, 'case')} in ${counted(results.length, 'file')}`;
}

async function reportJson(suite: Suite, options: TestOptions, { terminal }: CommandContext): Promise<number> {
  const { filter = '', minCoverage = 0 } = options;
  const cwd = process.cwd();
  const results: FileResult[] = [];
  for (const file of suite.files) results.push(await runFile(file, filter.toLowerCase()));
  const cases = results.flatMap((result) => result.cases);
  const report = {
    passed: cases.filter((one) => !hasFailed(one)).length,
    failed: cases.filter(hasFailed).length,
    cases: cases.map((one) => describeCase(one, cwd)),
    coverage: {
      percent: suite.coverage.percent(),
      files: suite.coverage.files().map(({ file, seen, total, points }) => ({
        file: shownPath(file, cwd),
        seen,
        total,
        decisions: points.map(({ position: { line, column }, kind, name, outcomes }) => {
          return { line, column, kind, name, seen: Object.fromEntries(outcomes) };
        }),
      })),
    },
    diagnostics: suite.diagnostics.map((diagnostic) => ({ ...diagnostic, file: shownPath(diagnostic.file, cwd) })),
  };
  terminal.data(`${jsonText(report, 2)}\n`);
  return exitCode(suite, results, minCoverage);
}

function describeCase({ name, position, problems, played }: CaseResult, cwd: string): object {
  return {
    file: shownPath(position.file, cwd),
    line: position.line,
    name,
    ok: problems.length === 0,
    problems: problems.map(({ position: { line, column }, step, pointer, expected, found }) => {
      return { line, column, request: step + 1, pointer, expected, found };
    }),
    requests: played.map((each) => ({
      status: each.response?.status ?? null,
      stages: stepsOf(each.trace),
      attempts: each.attempts,
      ...(problems.length > 0 && { note: silenceOf(each) }),
    })),
  };
}

function percent(text: string): number {
  const number = Number(text);
  if (text.trim() === '' || !(number >= 0 && number <= 100)) {
    throw new InvalidArgumentError('Expected a number from 0 to 100.');
  }
  return number;
}

export const commands: readonly CommandRow[] = [
  {
    arguments: [['[paths...]', 'test files, or directories of *.test.yaml (default: the current directory)']],
    options: [
      option('--config <file>', 'gateway.yaml under test (default: the one beside or above each test file)'),
      option('--coverage', 'print decision coverage of guards, rules and on_error clauses'),
      option('--min-coverage <percent>', 'fail below this coverage', percent),
      option('--filter <text>', 'run only cases whose name contains this text'),
      choice('--format <format>', 'output format', ['text', 'json']).default('text'),
    ],
    examples: ['appscli test', 'appscli test pipelines --coverage --min-coverage 90', 'appscli test --filter budget'],
    run: test,
  },
];
