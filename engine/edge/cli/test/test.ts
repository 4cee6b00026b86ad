import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { currentStageId } from '../../../base/kit/unhandled-errors.ts';
import { renderDiagnostics, shownPath } from '../../../base/source/diagnostics/render.ts';
import { asError } from '../../../pipeline/run/contained/result.ts';
import { type CaseResult, openSuite, type Suite } from '../../simulate/suite/suite.ts';
import { counted } from '../amounts.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_CONFIGURATION, EXIT_FINDINGS, EXIT_OK, usageError } from '../exit-codes.ts';
import { choice, option } from '../options.ts';
import {
  describeCoverage,
  describeFailure,
  describeFile,
  describeRefused,
  painter,
  silenceOf,
  traceStages,
} from './test-report.ts';

interface TestOptions {
  readonly paths: readonly string[];
  readonly config?: string;
  readonly coverage?: true;
  /** In percent. */
  readonly minCoverage?: number;
  readonly filter?: string;
  readonly format: 'text' | 'json';
}

interface FileResult {
  readonly file: string;
  readonly cases: readonly CaseResult[];
}

/**
 * `appscli test`: runs test files and prints failures.
 * @returns the exit code: 0; 1 for a failure, insufficient coverage or no tests; 78 for an invalid file.
 * Raises StartError for a missing path.
 */
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

async function runFile(file: Suite['files'][number], filter: string): Promise<FileResult> {
  const cases: CaseResult[] = [];
  for (const one of file.cases) {
    if (one.name.toLowerCase().includes(filter)) cases.push(await one.run());
  }
  return { file: file.file, cases };
}

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
  const paint = painter(terminal.data_color);
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
    write(describeRefused(result.cases, paint));
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
      stages: traceStages(each),
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

/** `appscli test`. */
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
