/** Reads `*.test.yaml` files: requests to a pipeline with their expectations. @module */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { FACTS } from '../../../base/contract/facts.ts';
import { mayBeStageFact } from '../../../base/contract/own-facts.ts';
import { isSpendWindow, LIMIT_WINDOWS, WINDOWS } from '../../../base/contract/windows.ts';
import { almost, closest, didYouMean, oneOf } from '../../../base/kit/text/suggest.ts';
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
import { reportExclusive, reportUnknown, textsAt, type Written } from '../link/link-keys.ts';
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

/** Names at a path. A value of another type counts as the empty name, which is always unknown. */
const writtenNamesAt = (root: Node, path: string) =>
  scalarsAt(root, path.split('.')).map((node) => ({ text: textOf(node) ?? '', mark: node.mark }));

/** Tests may use unknown names on purpose; only a name that is almost a known one is probably a mistake. */
function reportAlmost(
  what: string,
  { text, mark }: Written,
  known: readonly string[],
  findings: Findings,
  near = almost,
): void {
  const meant = known.includes(text) ? undefined : near(text, known);
  if (meant === undefined) return;
  findings.report('W7201', mark, `the ${what} ${quote(text)} is almost ${quote(meant)}`, {
    help: `did you mean \`${meant}\`?`,
  });
}

/** Checks the groups, team, project and model of a step. The model of a rejected request need not exist. */
function checkNames(step: Node, { auth, models, token_groups }: GatewayConfig, findings: Findings): void {
  const assigned = [...(auth?.teams ?? []), ...(auth?.projects ?? [])].flatMap(({ groups }) => groups);
  const signing_in = [auth?.known_groups, auth?.oidc?.allowed_groups, auth?.admin_groups, assigned];
  const groups = [...signing_in.flatMap((list) => list ?? []), ...token_groups.map(({ name }) => name)];
  for (const group of textsAt(step, 'caller.groups.*')) reportAlmost('group', group, groups, findings);
  for (const what of ['team', 'project'] as const) {
    const known = (auth?.[`${what}s`] ?? []).map(({ name }) => name);
    for (const name of textsAt(step, `caller.${what}`)) reportAlmost(what, name, known, findings);
  }
  const status = childOf(step, 'expect', 'status');
  const is_refused = status?.kind === 'scalar' && Number(status.value) >= 400;
  if (is_refused || childOf(step, 'expect', 'error') !== undefined) return;
  const known = models.flatMap(({ id, aliases, group_aliases }) => [
    ...[id, ...aliases],
    ...group_aliases.map(({ name }) => name),
  ]);
  for (const model of textsAt(step, 'request.json.model')) reportAlmost('model', model, known, findings, closest);
}

/** Checks the caller of a step of a case. */
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

// Checks `spent` and `grants` of a case.

/** The amounts of a window, by key. */
const AMOUNTS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  LIMIT_WINDOWS.map((window) => [window, isSpendWindow(window) ? ['usd', 'reserved_usd'] : WINDOWS[window].units]),
);
const ALL_AMOUNTS = ['usd', 'reserved_usd', 'requests', 'tokens'];

/** Checks the entries under `spent:` and `grants:` of a case. */
function checkSpent(node: Node, findings: Findings): void {
  for (const item of ['spent', 'grants'].flatMap((key) => itemsOf(childOf(node, key)))) {
    checkAmount(item, findings);
    checkKey(item, childOf(node, 'caller'), findings);
  }
}

function checkAmount(item: Node, findings: Findings): void {
  const window = textOf(childOf(item, 'window')) ?? '';
  const fitting = AMOUNTS[window] ?? [];
  for (const key of ALL_AMOUNTS) {
    const entry = entryOf(item, key);
    if (entry === undefined || fitting.includes(key)) continue;
    findings.report('C4009', entry.key_mark, `\`${key}\` does not apply to the window ${quote(window)}`, {
      help: `use \`${fitting.join('` or `')}\``,
    });
    return;
  }
  const present = fitting.flatMap((key) => entryOf(item, key) ?? []);
  const [, second] = present;
  if (window === 'minute' && second !== undefined) {
    findings.report('C4009', second.key_mark, '`requests` and `tokens` are separate limits', {
      help: 'write an entry for each of them',
    });
    return;
  }
  // `reserved_usd` is additional to `usd`.
  if (present.some(({ key }) => key !== 'reserved_usd')) return;
  const needed = fitting.filter((key) => key !== 'reserved_usd').map((key) => `\`${key}\``);
  findings.report('C3002', item.mark, `${needed.join(' or ')} is missing`, {
    help: `add the usage of the ${quote(window)}: ${needed.join(' or ')}`,
  });
}

function checkKey(item: Node, caller: Node | undefined, findings: Findings): void {
  const scope_node = childOf(item, 'scope');
  const key_node = childOf(item, 'key');
  const texts = (node: Node | undefined) =>
    node?.kind === 'list' ? itemsOf(node).map((each) => textOf(each) ?? '') : node ? [textOf(node) ?? ''] : [];
  const scopes = texts(scope_node);
  const keys = texts(key_node);
  if (key_node !== undefined) {
    if (keys.length === scopes.length) return;
    findings.report('C8004', key_node.mark, `there is a key for ${keys.length} of ${scopes.length} scopes`, {
      help: `name one for each, in this order: ${scopes.join(', ')}`,
    });
    return;
  }
  for (const scope of scopes) {
    if (scope === 'user' || scope === 'token' || childOf(caller, scope) !== undefined) continue;
    const own = scope === 'team' || scope === 'project';
    const problem = own ? `the caller has no ${scope}` : `the ${scope} is missing`;
    const names = scopes.map((each) => `<${each}>`).join(', ');
    const key = `key: ${scopes.length === 1 ? names : `[${names}]`}`;
    const help = own ? `give the caller one, or name it: ${key}` : `name it: ${key}`;
    findings.report('C8004', scope_node?.mark ?? item.mark, problem, { help });
  }
}

// Checks the upstreams of a case.

/** The behaviours of all upstreams in a step. */
function scriptNodes(step: Node, first: Node): readonly Node[] {
  const owner = (childOf(step, 'upstream') ?? childOf(step, 'upstreams')) ? step : first;
  const one = childOf(owner, 'upstream');
  const named = entriesOf(childOf(owner, 'upstreams')).flatMap(({ value }) =>
    value.kind === 'list' ? itemsOf(value) : [value],
  );
  return one === undefined ? named : [one, ...named];
}

function checkScripts(step: Node, findings: Findings): void {
  reportExclusive(step, ['upstream', 'upstreams'], findings);
  for (const script of scriptNodes(step, step)) reportExclusive(script, ['json', 'text', 'events'], findings);
}

/** Checks the upstream names of a step. @param known those of the configuration */
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
  /** Name of the pipeline under test, and where it is written. */
  readonly pipeline: string;
  readonly cases: readonly PipelineCase[];
  /** The position of a JSON pointer, or of its nearest existing parent. */
  position(pointer: string): SourcePosition;
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

/** Milliseconds since the epoch; `undefined` for an invalid date. */
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
      findings.report('C8004', at.mark, `there is no day ${quote(text.slice(0, 'YYYY-MM-DD'.length))}`);
    } else if (index > 0 && moment < now) {
      findings.report('C8004', at.mark, 'this time is before the step above it', {
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
  findings.report('C8002', { file }, 'there is no gateway.yaml beside gateway.test.yaml');
}

/** Checks that the file is named after the pipeline. */
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

/** Whether a step overrides the upstreams of its case. */
const says = ({ upstream, upstreams }: RawStep) => upstream !== undefined || upstreams !== undefined;

function shapeCase(raw: RawCase, start: string): PipelineCase {
  const { name, at = start, database, spent = [], grants = [], then: more = [] } = raw;
  const { caller = {}, request = {}, drained = [], upstream, upstreams, expect } = raw;
  const first: Step = { caller, request, drained, upstream, upstreams, expect };
  const later = more.map((step): Step => ({ ...first, ...(says(step) && SILENT), ...step }));
  return { name, at, database, spent, grants, steps: [first, ...later] };
}

/**
 * Reads and checks a test file. `checkAgainstPipeline` checks its stage names once the pipeline is known.
 * @returns `undefined` after an error
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
  checkFileName(test, findings);
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
    checkNames(step, config, findings);
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
