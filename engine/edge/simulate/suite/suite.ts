import { dirname, resolve, sep } from 'node:path';
import type { StageDefinition } from '../../../base/contract/stage.ts';
import type { Diagnostic } from '../../../base/source/diagnostics/diagnostic.ts';
import { createFindings, type Findings } from '../../../base/source/findings.ts';
import type { SourcePosition } from '../../../base/source/node.ts';
import { filesAt } from '../../../base/source/read-text.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import { SHIPPED_PIPELINES } from '../../../pipeline/load/pipelines.ts';
import { type PipelineCase, stepPointer } from '../../../pipeline/load/tests/test-case.ts';
import {
  checkAgainstPipeline,
  checkCase,
  gatewayFileFor,
  isTestFile,
  readTestFile,
  type TestFile,
} from '../../../pipeline/load/tests/test-file.ts';
import { changesConfiguration, loadUnderTest } from '../configuration.ts';
import type { ScriptedUpstream } from '../upstream.ts';
import { type Coverage, createCoverage } from './coverage.ts';
import { type Mismatch, mismatches } from './expectations.ts';
import { openPlayground, openSilentUpstream, type Played } from './play.ts';

/** A mismatch with the position of its expectation. */
export interface Problem extends Mismatch {
  readonly position: SourcePosition;
  /** Index of the request in the case. */
  readonly step: number;
}

/** The result of one case. */
export interface CaseResult {
  readonly name: string;
  readonly position: SourcePosition;
  readonly problems: readonly Problem[];
  readonly played: readonly Played[];
}

/** Test files, ready to run one after another. */
export type Suite = Awaited<ReturnType<typeof openSuite>>;

/** Collects errors without duplicates, and the texts of their files. */
function createMistakes() {
  const sources = new Map<string, string>();
  const errors = new Map<string, Diagnostic>();
  return {
    sources,
    all: () => [...errors.values()],
    /** @returns whether there were no errors. */
    take(found: Pick<Loaded, 'diagnostics' | 'sources'>): boolean {
      const wrong = found.diagnostics.filter(({ severity }) => severity === 'error');
      for (const error of wrong) {
        errors.set([error.code, error.file, error.line, error.column, error.message].join('\n'), error);
      }
      for (const [file, text] of found.sources) sources.set(file, text);
      return wrong.length === 0;
    },
    takeFrom(findings: Findings): boolean {
      return this.take({ diagnostics: findings.diagnostics(), sources: findings.sources() });
    },
  };
}

/** Loads the configuration of every case; cases that change nothing share one. `undefined` after an error. */
async function loadSubject(
  test: TestFile,
  gateway_file: string | undefined,
  stages: readonly StageDefinition[],
  mistakes: ReturnType<typeof createMistakes>,
) {
  const shared = await loadUnderTest(test, gateway_file, 'file', stages);
  if (!mistakes.take(shared)) return undefined;
  const findings = createFindings();
  findings.read(test.file, shared.sources.get(test.file) ?? '');
  checkAgainstPipeline(test, shared.pipelines, findings);
  const loaded: Loaded[] = [];
  let ok = true;
  for (const index of test.cases.keys()) {
    const its = changesConfiguration(test, index) ? await loadUnderTest(test, gateway_file, index, stages) : shared;
    ok = mistakes.take(its) && ok;
    if (its.config !== undefined) checkCase(test, index, its.config, findings);
    loaded.push(its);
  }
  const fits = mistakes.takeFrom(findings);
  const changes = changesConfiguration(test);
  const unchanged = changes ? await loadUnderTest(test, gateway_file, 'nobody', stages) : shared;
  return ok && fits ? { test, unchanged, loaded } : undefined;
}

type Subject = NonNullable<Awaited<ReturnType<typeof loadSubject>>>;

/** Reads test files and loads their configurations, running operators' modules. Without `config`, the nearest gateway.yaml. */
export async function openSuite(options: {
  readonly paths: readonly string[];
  readonly config?: string | undefined;
  readonly stages: readonly StageDefinition[];
}) {
  const { paths, config, stages } = options;
  const mistakes = createMistakes();
  const coverage = createCoverage();
  const search = createFindings();
  const found = [...new Set(paths.flatMap((path) => testFilesAt(resolve(path), search)))];
  mistakes.takeFrom(search);
  const subjects: Subject[] = [];
  for (const file of found) {
    const findings = createFindings();
    const test = readTestFile(file, findings);
    mistakes.takeFrom(findings);
    if (test === undefined) continue;
    const gateway_file = config === undefined ? gatewayFileFor(file) : resolve(config);
    const subject = await loadSubject(test, gateway_file, stages, mistakes);
    if (subject === undefined) continue;
    // Decisions of shipped pipelines are for their own tests to cover.
    const covers_shipped = dirname(file) === SHIPPED_PIPELINES;
    const isCovered = (at: SourcePosition) => covers_shipped || !at.file.startsWith(SHIPPED_PIPELINES + sep);
    coverage.expect(subject.unchanged, isCovered, gateway_file);
    subjects.push(subject);
  }
  const upstream = await openSilentUpstream();
  const files = subjects.map((subject) => {
    const { file, pipeline, cases } = subject.test;
    const run = (index: number) => runCase(subject, index, upstream, coverage);
    return { file, pipeline, cases: cases.map(({ name }, index) => ({ name, run: () => run(index) })) };
  });
  return {
    files,
    found: found.length,
    diagnostics: mistakes.all(),
    sources: mistakes.sources,
    coverage,
    close: () => upstream.close(),
  };
}

function testFilesAt(path: string, findings: Findings): string[] {
  const files = filesAt(path, findings);
  // A file that is named explicitly may have any name.
  return files.length === 1 && files[0] === path ? files : files.filter(isTestFile);
}

async function runCase(
  { test, loaded: all }: Subject,
  index: number,
  upstream: ScriptedUpstream,
  coverage: Coverage,
): Promise<CaseResult> {
  const [test_case, loaded] = [test.cases[index]!, all[index]!];
  const { name } = test_case;
  const position = test.position(`/cases/${index}/name`);
  let played: Played[];
  try {
    played = await playCase(test_case, loaded, test.pipeline, upstream);
  } catch (error) {
    // A custom stage may pass the checks and fail when it is created.
    const found = error instanceof Error ? error.message : String(error);
    const problem = { position, step: 0, pointer: '', expected: 'a gateway that can start', found };
    return { name, position, problems: [problem], played: [] };
  }
  for (const each of played) coverage.see(loaded, each);
  const problems = played.flatMap((each, step) => {
    const at = `/cases/${index}${stepPointer(step)}`;
    return mismatches(test_case.steps[step]!.expect, each).map((mismatch): Problem => {
      const pointer = mismatch.pointer === '' ? at : `${at}/expect${mismatch.pointer}`;
      return { ...mismatch, step, position: test.position(pointer) };
    });
  });
  return { name, position, problems, played };
}

async function playCase(
  test_case: PipelineCase,
  loaded: Loaded,
  pipeline_name: string,
  upstream: ScriptedUpstream,
): Promise<Played[]> {
  const { at, database, spent, grants, steps } = test_case;
  const behind_proxy = steps.some(({ caller }) => caller.address !== undefined || caller.region !== undefined);
  const path = loaded.pipelines.find(({ name }) => name === pipeline_name)!.match.paths[0]!;
  const playground = await openPlayground({ loaded, at, database, behind_proxy, upstream });
  try {
    for (const balance of spent) playground.spend(balance, steps[0]!.caller);
    for (const grant of grants) playground.grant(grant, steps[0]!.caller);
    const played: Played[] = [];
    for (const step of steps) {
      if (step.at !== undefined) playground.advance(Math.max(0, Date.parse(step.at) - playground.now()));
      playground.drain(step.drained);
      played.push(await playground.play({ ...step, path }));
      if (!played.at(-1)!.ended) break;
    }
    return played;
  } finally {
    await playground.close();
  }
}
