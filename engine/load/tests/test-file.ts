/** Reads `*.test.yaml` files: requests to a pipeline and what must become of them. */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { GatewayConfig } from '../../contract/config.ts';
import { FACTS } from '../../contract/facts.ts';
import { mayBeStageFact } from '../../contract/own-facts.ts';
import { didYouMean, oneOf } from '../../kit/text/suggest.ts';
import { midnightOf } from '../../money/prices/prices.ts';
import { createConditionChecker } from '../../rules/check.ts';
import { isFact } from '../../rules/fact-paths.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import {
  childOf,
  entriesOf,
  entryOf,
  itemsOf,
  type MapNode,
  type Node,
  nodeAt,
  type SourcePosition,
  textOf,
} from '../../source/node.ts';
import { readSource } from '../../source/read-source.ts';
import { PIPELINE_TEST_SCHEMA } from '../../source/schemas.ts';
import { type PipelineSpec, positionOf } from '../../source/spec.ts';
import { validate } from '../../source/validate.ts';
import { checkAnnotations } from '../annotations.ts';
import { reportExclusive } from '../link/link-keys.ts';
import { checkCaller, checkCounters } from './test-caller.ts';
import {
  type Caller,
  type CaseRequest,
  type CaseUpstream,
  type CaseUpstreams,
  DEFAULT_START,
  type Expectations,
  type Granted,
  type PipelineCase,
  type Spent,
  type Step,
} from './test-case.ts';
import { checkSpent } from './test-spent.ts';
import { checkScripts, checkUpstreamNames, scriptNodes } from './test-upstreams.ts';

/** A test file that can be run. */
export interface TestFile {
  readonly file: string;
  readonly root: MapNode;
  /** Name of the pipeline under test, and where it is written. */
  readonly pipeline: string;
  readonly cases: readonly PipelineCase[];
  /** Where something stands, by JSON pointer; its nearest parent when it is not there. */
  position(pointer: string): SourcePosition;
}

/** Whether a file is a test file, by its name. */
export function isTestFile(name: string): boolean {
  return /\.test\.ya?ml$/.test(name);
}

/** The steps of a case as they stand in the file: the case itself first. */
function stepNodes(node: Node): readonly Node[] {
  return [node, ...itemsOf(childOf(node, 'then'))];
}

function checkFacts(step: Node, findings: Findings): void {
  for (const { key, key_mark } of entriesOf(childOf(step, 'expect', 'facts'))) {
    if (isFact(key) || mayBeStageFact(key)) continue;
    const help = didYouMean(key, Object.keys(FACTS), 'facts are named by their whole path, such as request.model');
    findings.report('C3001', key_mark, `there is no fact ${quote(key)}`, { help });
  }
}

function checkLeaving(step: Node, first: Node, findings: Findings): void {
  const leaves = entryOf(childOf(step, 'request') ?? childOf(first, 'request'), 'leaves');
  if (leaves === undefined) return;
  const during = textOf(leaves.value) === 'during_answer';
  const hanging = scriptNodes(step, first).filter((script) => textOf(childOf(script, 'fails')) === 'hang');
  if (hanging.some((script) => (childOf(script, 'events') !== undefined) === during)) return;
  findings.report('C8004', leaves.key_mark, 'the client cannot leave at this moment', {
    help: during
      ? 'let the upstream send events and then hang: upstream: { events: [...], fails: hang }'
      : 'let the upstream hang without an answer: upstream: { fails: hang }',
  });
}

/** A moment in milliseconds since the epoch; `undefined` for a date that is in no calendar. */
function momentOf(text: string): number | undefined {
  return midnightOf(text.slice(0, 'YYYY-MM-DD'.length)) === undefined ? undefined : Date.parse(text);
}

function checkTimes(root: MapNode, node: Node, findings: Findings): void {
  const start = textOf(childOf(node, 'at')) === undefined ? textOf(childOf(root, 'at')) : undefined;
  let now = (start === undefined ? undefined : momentOf(start)) ?? Date.parse(DEFAULT_START);
  for (const [index, step] of stepNodes(node).entries()) {
    const at = childOf(step, 'at');
    const text = textOf(at);
    if (at === undefined || text === undefined) continue;
    const moment = momentOf(text);
    if (moment === undefined) {
      findings.report('C8005', at.mark, `${quote(text)} is no moment in any calendar`);
    } else if (index > 0 && moment < now) {
      findings.report('C8005', at.mark, 'this moment lies before the step above it', {
        found: text,
        expected: `${new Date(now).toISOString()} or later`,
      });
    } else {
      now = moment;
    }
  }
}

function checkCases(root: MapNode, findings: Findings): void {
  const names = new Set<string>();
  for (const node of itemsOf(childOf(root, 'cases'))) {
    checkTimes(root, node, findings);
    checkSpent(node, findings);
    for (const step of stepNodes(node)) {
      reportExclusive(childOf(step, 'request'), ['json', 'text'], findings);
      checkScripts(step, findings);
      checkFacts(step, findings);
      checkLeaving(step, node, findings);
    }
    const name = childOf(node, 'name')!;
    const text = textOf(name) ?? '';
    if (names.has(text)) findings.report('C4005', name.mark, `two cases are called ${quote(text)}`);
    names.add(text);
  }
}

const OF_GATEWAY = 'gateway.test.yaml';

function checkGatewayBeside(file: string, findings: Findings): void {
  if (basename(file) !== OF_GATEWAY || existsSync(join(dirname(file), 'gateway.yaml'))) return;
  findings.report('C8002', { file }, 'gateway.test.yaml stands beside no gateway.yaml');
}

/** Whether the file is called as the tests of this pipeline must be. */
function checkFileName({ file, root, pipeline }: TestFile, findings: Findings): void {
  const base = basename(file);
  if (base === OF_GATEWAY || base.startsWith(`${pipeline}.`)) return;
  const { mark } = childOf(root, 'pipeline')!;
  findings.report('C8002', mark, `the tests of the pipeline ${quote(pipeline)} are in another pipeline's file`, {
    found: base,
    expected: `${pipeline}.test.yaml, or gateway.test.yaml beside gateway.yaml`,
  });
}

interface RawStep {
  readonly at?: string;
  readonly caller?: Caller;
  readonly request?: CaseRequest;
  readonly drained?: readonly string[];
  readonly upstream?: CaseUpstream;
  readonly upstreams?: CaseUpstreams;
  readonly expect: Expectations;
}

type RawCase = RawStep &
  Pick<PipelineCase, 'name' | 'database'> & {
    readonly spent?: readonly Spent[];
    readonly grants?: readonly Granted[];
    readonly then?: readonly RawStep[];
  };

const SILENT = { upstream: undefined, upstreams: undefined };

/** Whether a step has upstreams of its own, so that those of its case are not meant. */
const says = ({ upstream, upstreams }: RawStep) => upstream !== undefined || upstreams !== undefined;

function shapeCase(raw: RawCase, start: string): PipelineCase {
  const { name, at = start, database, spent = [], grants = [], then: more = [] } = raw;
  const { caller = {}, request = {}, drained = [], upstream, upstreams, expect } = raw;
  const first: Step = { caller, request, drained, upstream, upstreams, expect };
  const later = more.map((step): Step => ({ ...first, ...(says(step) && SILENT), ...step }));
  return { name, at, database, spent, grants, steps: [first, ...later] };
}

/**
 * Checks a test file by itself and reads it. Stages are checked once the pipeline is known, by `checkAgainstPipeline`.
 * @returns `undefined` when something is wrong with it.
 */
export function readTestFile(file: string, findings: Findings): TestFile | undefined {
  const before = findings.errors();
  const root = readSource(file, findings);
  const validated = root && validate(PIPELINE_TEST_SCHEMA, root, dirname(file), findings);
  if (root === undefined || !validated?.ok) return undefined;
  const conditions = createConditionChecker(undefined, findings);
  checkAnnotations(root, validated, { findings, env: {}, environment: 'ignored', conditions });
  checkCases(root, findings);
  checkGatewayBeside(file, findings);
  if (findings.errors() > before) return undefined;
  const value = validated.value as { pipeline: string; at?: string; cases: readonly RawCase[] };
  return {
    file,
    root,
    pipeline: value.pipeline,
    cases: value.cases.map((raw) => shapeCase(raw, value.at ?? DEFAULT_START)),
    position: (pointer) => positionOf(nodeAt(root, pointer).mark),
  };
}

/** Checks what a test file says about its pipeline; `known` are those of the configuration under test. */
export function checkAgainstPipeline(test: TestFile, known: readonly PipelineSpec[], findings: Findings): void {
  const pipeline = known.find(({ name }) => name === test.pipeline);
  if (pipeline === undefined) {
    const names = known.map(({ name }) => name);
    findings.report('C8001', childOf(test.root, 'pipeline')!.mark, `there is no pipeline ${quote(test.pipeline)}`, {
      help: oneOf(test.pipeline, names, 'pipelines'),
    });
    return;
  }
  checkFileName(test, findings);
  const ids = [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally].map(({ id }) => id);
  for (const step of itemsOf(childOf(test.root, 'cases')).flatMap(stepNodes)) {
    for (const key of ['runs', 'skips']) {
      for (const item of itemsOf(childOf(step, 'expect', key))) {
        const id = textOf(item) ?? '';
        if (ids.includes(id)) continue;
        const problem = `the pipeline ${quote(pipeline.name)} has no stage ${quote(id)}`;
        findings.report('C8003', item.mark, problem, { help: oneOf(id, ids, 'entries') });
      }
    }
  }
}

/** Checks what a case says about its callers and upstreams against the configuration it runs with. */
export function checkCase(test: TestFile, index: number, config: GatewayConfig, findings: Findings): void {
  const upstreams = config.upstreams.map(({ name }) => name);
  const node = nodeAt(test.root, `/cases/${index}`);
  checkCounters(node, config, findings);
  for (const step of stepNodes(node)) {
    checkCaller(step, config, findings);
    checkUpstreamNames(step, upstreams, findings);
  }
}

/** Checks the cases that run with a configuration as it stands in its file. */
export function checkAgainstConfig(test: TestFile, config: GatewayConfig, findings: Findings): void {
  if (childOf(test.root, 'gateway') !== undefined) return;
  for (const [index, node] of itemsOf(childOf(test.root, 'cases')).entries()) {
    if (childOf(node, 'gateway') === undefined) checkCase(test, index, config, findings);
  }
}
