/** Reads `*.test.yaml` files: requests to a pipeline with their expectations. @module */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { FACTS } from '../../../base/contract/facts.ts';
import { mayBeStageFact } from '../../../base/contract/own-facts.ts';
import { isSpendWindow, LIMIT_WINDOWS, WINDOWS } from '../../../base/contract/windows.ts';
import { didYouMean, oneOf } from '../../../base/kit/text/suggest.ts';
import { createConditionChecker } from '../../../base/rules/check.ts';
import { isFact } from '../../../base/rules/fact-paths.ts';
import type { Findings } from '../../../base/source/findings.ts';
import {
  childOf,
  entriesOf,
  entryOf,
  itemsOf,
  type MapNode,
  type Node,
  nodeAt,
  quote,
  type SourcePosition,
  scalarsAt,
  textOf,
} from '../../../base/source/node.ts';
import { PIPELINE_TEST_SCHEMA } from '../../../base/source/schemas.ts';
import { readSource } from '../../../base/source/source.ts';
import { type PipelineSpec, positionOf } from '../../../base/source/spec.ts';
import { validate } from '../../../base/source/validate.ts';
import { midnightOf } from '../../../domain/budget/prices/prices.ts';
import { checkAnnotations } from '../annotations.ts';
import { reportExclusive, reportRepeated, reportUnknown, textsAt } from '../link/link-keys.ts';
import { DEFAULT_START, type PipelineCase, type Step } from './test-case.ts';

/** Names at a path. A value of another type counts as the empty name, which is always unknown. */
const writtenNamesAt = (root: Node, path: string) =>
  scalarsAt(root, path.split('.')).map((node) => ({ text: textOf(node) ?? '', mark: node.mark }));

function checkCaller(step: Node, config: GatewayConfig, findings: Findings): void {
  const token_groups = config.token_groups.map(({ name }) => name);
  if (token_groups.length > 0)
    for (const group of writtenNamesAt(step, 'caller.group'))
      reportUnknown(group, 'token group', token_groups, findings);
  const region = entryOf(childOf(step, 'caller'), 'region');
  if (region !== undefined && config.server.region_header === undefined) {
    findings.report('C8004', region.key_mark, 'this configuration does not know the region of a caller', {
      help: 'name its header in gateway.yaml: server: { region_header: x-region }',
    });
  }
}

/** The amounts of a window, by key. */
const AMOUNTS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  LIMIT_WINDOWS.map((window) => [window, isSpendWindow(window) ? ['usd', 'reserved_usd'] : WINDOWS[window].units]),
);
const ALL_AMOUNTS = ['usd', 'reserved_usd', 'requests', 'tokens'];

function checkAmount(item: Node, findings: Findings): void {
  const window = textOf(childOf(item, 'window')) ?? '';
  const fitting = AMOUNTS[window] ?? [];
  const wrong = entriesOf(item).find(({ key }) => ALL_AMOUNTS.includes(key) && !fitting.includes(key));
  if (wrong !== undefined) {
    findings.report('C4009', wrong.key_mark, `\`${wrong.key}\` does not apply to the window ${quote(window)}`, {
      help: `use \`${fitting.join('` or `')}\``,
    });
    return;
  }
  reportExclusive(item, ['requests', 'tokens'], findings);
  // `reserved_usd` is additional to `usd`.
  const needed = fitting.filter((key) => key !== 'reserved_usd');
  if (needed.some((key) => entryOf(item, key) !== undefined)) return;
  const names = needed.map((key) => `\`${key}\``).join(' or ');
  findings.report('C3002', item.mark, `${names} is missing`, {
    help: `add the usage of the ${quote(window)}: ${names}`,
  });
}

const textsOf = (node: Node | undefined) =>
  (node?.kind === 'list' ? node.items : node === undefined ? [] : [node]).map((each) => textOf(each) ?? '');

function checkKey(item: Node, caller: Node | undefined, findings: Findings): void {
  const key = childOf(item, 'key');
  const scopes = textsOf(childOf(item, 'scope'));
  // The key of a scope that is not written is that of the caller.
  const missing = scopes.filter((scope) => !['user', 'token'].includes(scope) && childOf(caller, scope) === undefined);
  const is_complete = key === undefined ? missing.length === 0 : textsOf(key).length === scopes.length;
  if (is_complete) return;
  const names = scopes.map((scope) => `<${scope}>`).join(', ');
  const what = key === undefined ? `the ${missing[0]} is missing` : 'each scope needs a key';
  findings.report('C8004', (key ?? childOf(item, 'scope') ?? item).mark, what, {
    help: `write \`key: ${scopes.length === 1 ? names : `[${names}]`}\``,
  });
}

function scriptNodes(step: Node, first: Node): readonly Node[] {
  const owner = (childOf(step, 'upstream') ?? childOf(step, 'upstreams')) ? step : first;
  const one = childOf(owner, 'upstream');
  const named = entriesOf(childOf(owner, 'upstreams')).flatMap(({ value }) =>
    value.kind === 'list' ? itemsOf(value) : [value],
  );
  return one === undefined ? named : [one, ...named];
}

function checkUpstreamNames(step: Node, known: readonly string[], findings: Findings): void {
  const owners = [childOf(step, 'upstreams'), childOf(step, 'expect', 'upstreams'), childOf(step, 'expect', 'dropped')];
  const keys = owners.flatMap((owner) => entriesOf(owner).map(({ key, key_mark }) => ({ text: key, mark: key_mark })));
  const texts = ['drained.*', 'expect.upstream.name', 'expect.candidates.*', 'expect.attempts.*.upstream'];
  for (const name of [...keys, ...texts.flatMap((path) => writtenNamesAt(step, path))])
    reportUnknown(name, 'upstream', known, findings);
}

/** A test file that can be run. */
export interface TestFile {
  readonly file: string;
  readonly root: MapNode;
  readonly pipeline: string;
  readonly cases: readonly PipelineCase[];
  /** The position of a JSON pointer, or of its nearest existing parent. */
  position(pointer: string): SourcePosition;
}

/** The gateway.yaml in a test file's directory or its parent, if any. */
export function gatewayFileFor(test_file: string): string | undefined {
  const directory = dirname(test_file);
  return [directory, dirname(directory)].map((place) => join(place, 'gateway.yaml')).find((file) => existsSync(file));
}

export function isTestFile(name: string): boolean {
  return /\.test\.ya?ml$/.test(name);
}

/** The steps of a case: the case itself first. */
function stepNodes(node: Node): readonly Node[] {
  return [node, ...itemsOf(childOf(node, 'then'))];
}

function checkFacts(step: Node, findings: Findings): void {
  for (const { key, key_mark } of entriesOf(childOf(step, 'expect', 'facts'))) {
    if (isFact(key) || mayBeStageFact(key)) continue;
    const help = didYouMean(key, Object.keys(FACTS), 'write the full path of the fact, such as request.model');
    findings.report('C3001', key_mark, `there is no fact ${quote(key)}`, { help });
  }
}

function checkLeaving(step: Node, first: Node, findings: Findings): void {
  const leaves = entryOf(childOf(step, 'request') ?? childOf(first, 'request'), 'leaves');
  if (leaves === undefined) return;
  const during = textOf(leaves.value) === 'during_answer';
  const hanging = scriptNodes(step, first).filter((script) => textOf(childOf(script, 'fails')) === 'hang');
  if (hanging.some((script) => (childOf(script, 'events') !== undefined) === during)) return;
  findings.report('C8004', leaves.key_mark, 'the client cannot disconnect at this moment', {
    help: during
      ? 'let the upstream send events and then hang: upstream: { events: [...], fails: hang }'
      : 'let the upstream hang without a response: upstream: { fails: hang }',
  });
}

function checkTimes(root: MapNode, node: Node, findings: Findings): void {
  let now = Date.parse(textOf(childOf(root, 'at')) ?? DEFAULT_START);
  for (const step of stepNodes(node)) {
    for (const { text, mark } of textsAt(step, 'at')) {
      const day = text.slice(0, 'YYYY-MM-DD'.length);
      const moment = Date.parse(text);
      if (midnightOf(day) === undefined) {
        findings.report('C8004', mark, `there is no day ${quote(day)}`);
      } else if (step !== node && moment < now) {
        findings.report('C8004', mark, 'this time is before the step above it', {
          found: text,
          expected: `${new Date(now).toISOString()} or later`,
        });
      } else {
        now = moment;
      }
    }
  }
}

function checkCases(root: MapNode, findings: Findings): void {
  reportRepeated('cases', textsAt(root, 'cases.*.name'), findings);
  for (const node of itemsOf(childOf(root, 'cases'))) {
    checkTimes(root, node, findings);
    for (const item of ['spent', 'grants'].flatMap((key) => itemsOf(childOf(node, key)))) {
      checkAmount(item, findings);
      checkKey(item, childOf(node, 'caller'), findings);
    }
    for (const step of stepNodes(node)) {
      reportExclusive(childOf(step, 'request'), ['json', 'text'], findings);
      reportExclusive(step, ['upstream', 'upstreams'], findings);
      for (const script of scriptNodes(step, step)) reportExclusive(script, ['json', 'text', 'events'], findings);
      checkFacts(step, findings);
      checkLeaving(step, node, findings);
    }
  }
}

type RawStep = Partial<Step> & Pick<Step, 'expect'>;

type RawCase = RawStep &
  Pick<PipelineCase, 'name' | 'database'> &
  Partial<Pick<PipelineCase, 'spent' | 'grants'>> & { readonly then?: readonly RawStep[] };

const SILENT = { upstream: undefined, upstreams: undefined };

/** Whether a step overrides the upstreams of its case. */
const says = ({ upstream, upstreams }: RawStep) => upstream !== undefined || upstreams !== undefined;

function shapeCase(raw: RawCase, start: string): PipelineCase {
  const { name, at = start, database, spent = [], grants = [], then: more = [] } = raw;
  const { caller = {}, request = {}, drained = [], upstream, upstreams, expect } = raw;
  const first: Step = { caller, request, drained, upstream, upstreams, expect };
  const later = more.map((step): Step => ({ ...first, ...(says(step) && SILENT), ...step }));
  return { name, at, database, spent, grants, steps: [first, ...later] };
}

/** Reads and checks a test file, its stage names excepted (`checkAgainstPipeline`). `undefined` after an error. */
export function readTestFile(file: string, findings: Findings): TestFile | undefined {
  const before = findings.errors();
  const root = readSource(file, findings);
  const validated = root && validate(PIPELINE_TEST_SCHEMA, root, dirname(file), findings);
  if (root === undefined || !validated?.ok) return undefined;
  const conditions = createConditionChecker(undefined, findings);
  checkAnnotations(root, validated, { findings, env: {}, environment: 'ignored', conditions });
  checkCases(root, findings);
  if (basename(file) === 'gateway.test.yaml' && !existsSync(join(dirname(file), 'gateway.yaml')))
    findings.report('C8002', { file }, 'there is no gateway.yaml beside gateway.test.yaml', {
      help: 'move the file beside gateway.yaml, or name it like the pipeline it tests: x.test.yaml for x.yaml',
    });
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

/** Checks the pipeline and the stage names of a test file. @param known the pipelines of the configuration */
export function checkAgainstPipeline(test: TestFile, known: readonly PipelineSpec[], findings: Findings): void {
  const pipeline = known.find(({ name }) => name === test.pipeline);
  if (pipeline === undefined) {
    const names = known.map(({ name }) => name);
    findings.report('C8001', childOf(test.root, 'pipeline')!.mark, `there is no pipeline ${quote(test.pipeline)}`, {
      help: oneOf(test.pipeline, names, 'pipelines'),
    });
    return;
  }
  const ids = [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally].map(({ id }) => id);
  for (const step of itemsOf(childOf(test.root, 'cases')).flatMap(stepNodes)) {
    for (const { text, mark } of ['expect.runs.*', 'expect.skips.*'].flatMap((path) => writtenNamesAt(step, path))) {
      if (ids.includes(text)) continue;
      const problem = `the pipeline ${quote(pipeline.name)} has no stage ${quote(text)}`;
      findings.report('C8003', mark, problem, { help: oneOf(text, ids, 'entries') });
    }
  }
}

/** Checks the callers and upstreams of a case against the configuration it runs with. */
export function checkCase(test: TestFile, index: number, config: GatewayConfig, findings: Findings): void {
  const upstreams = config.upstreams.map(({ name }) => name);
  const node = nodeAt(test.root, `/cases/${index}`);
  for (const step of stepNodes(node)) {
    checkCaller(step, config, findings);
    checkUpstreamNames(step, upstreams, findings);
  }
}

/** Checks the cases that use the configuration without changes. */
export function checkAgainstConfig(test: TestFile, config: GatewayConfig, findings: Findings): void {
  if (childOf(test.root, 'gateway') !== undefined) return;
  for (const [index, node] of itemsOf(childOf(test.root, 'cases')).entries()) {
    if (childOf(node, 'gateway') === undefined) checkCase(test, index, config, findings);
  }
}
