import { dirname } from 'node:path';
import type { GatewayConfig, ModelConfig, UpstreamConfig } from '../../base/contract/config.ts';
import { ERRORS, type ErrorCode } from '../../base/contract/errors.ts';
import type { FactPath } from '../../base/contract/facts.ts';
import { protocolOf } from '../../base/contract/protocol.ts';
import { matchesGlob } from '../../base/kit/glob.ts';
import { isPathPattern } from '../../base/kit/path-patterns.ts';
import { closest, didYouMean, listed } from '../../base/kit/text/suggest.ts';
import { routingRules } from '../../base/rules/config-rules.ts';
import { coverAll, implies } from '../../base/rules/guards.ts';
import { simplify } from '../../base/rules/simplify.ts';
import { createFindings, type Findings } from '../../base/source/findings.ts';
import {
  childOf,
  entriesOf,
  isWritten,
  itemsOf,
  keyName,
  type MapNode,
  type Mark,
  type Node,
  nodeAt,
  quote,
  type ScalarNode,
  textOf,
} from '../../base/source/node.ts';
import { filesIn } from '../../base/source/read-text.ts';
import { readSource } from '../../base/source/source.ts';
import type { PipelineSpec, StageEntry } from '../../base/source/spec.ts';
import { CATALOGUE_DATE, idsAt } from '../../domain/budget/prices/catalogue.ts';
import { modelById } from '../../domain/budget/prices/known-models.ts';
import { reaches } from '../../domain/upstreams/routes.ts';
import { type PipelineSource, splitPipelines } from './compose.ts';
import { ownBoundary } from './config-shape.ts';
import { isAudit, isEnforced, type LinkedPipeline } from './flow.ts';
import { markOfEntry, type WrittenRoute, writtenRoutes } from './link/link-gateway.ts';
import { itemsAt, textsAt, type Written } from './link/link-keys.ts';
import type { LinkedStage } from './link/link-stages.ts';

/** Codes the engine itself raises around any stage. */
const ENGINE_CODES: readonly ErrorCode[] = ['bad_http', 'draining', 'internal_error', 'stage_failed'];

/** Codes that streaming an upstream's response raises. */
const RELAY_CODES: readonly ErrorCode[] = ['upstream_failed', 'upstream_timeout'];

/** A check that requests should pass before or while they are sent out, known by the fact it writes. */
interface Safeguard {
  readonly code: 'W7010' | 'W7011' | 'W7012';
  readonly writes: FactPath;
  readonly stage: string;
  readonly missing: string;
  readonly why: string;
  /** Codes that only its stage raises; a clause for them is missing the stage, not wrong. */
  readonly raises: readonly ErrorCode[];
}

const SAFEGUARDS: readonly Safeguard[] = [
  {
    code: 'W7010',
    writes: 'principal.id',
    stage: 'authenticate',
    missing: 'anybody who reaches the gateway can spend your money:',
    why: 'nothing above asks who is calling',
    raises: ['credential_missing', 'credential_invalid', 'credential_expired', 'credential_revoked'],
  },
  {
    code: 'W7011',
    writes: 'spend.reserved_nano_usd',
    stage: 'check-budget',
    missing: 'no spend limit applies to what is sent:',
    why: 'nothing above reserves a budget',
    raises: ['spend_limit_exceeded'],
  },
  {
    code: 'W7012',
    writes: 'usage.cost_nano_usd',
    stage: 'meter-usage',
    missing: 'what requests use is not measured:',
    why: 'nothing above reads the response',
    raises: [],
  },
];

/**
 * Warns about a pipeline that runs, but probably leaves a way open that nobody meant to.
 * @param isShared whether what stands there serves pipelines that differ in what they match.
 */
export function lintPipeline(
  pipeline: LinkedPipeline,
  match: PipelineSpec['match'],
  isShared: (mark: Mark) => boolean,
  config: GatewayConfig | undefined,
  findings: Findings,
): void {
  const at = pipeline.stages.findIndex(
    (stage) => isEnforced(stage) && stage.entry.definition.terminal && stage.entry.definition.needs.includes('network'),
  );
  if (at >= 0) {
    const sender = pipeline.stages[at]!;
    for (const safeguard of SAFEGUARDS) lintSafeguard(sender, pipeline.stages.slice(0, at), safeguard, findings);
    lintAudit(sender, pipeline, findings);
  }
  lintErrorCodes(pipeline, at >= 0, findings);
  for (const { entry, mark } of pipeline.stages) {
    const { unknown_cost } = (entry.options ?? {}) as { unknown_cost?: string };
    const id = quote(entry.id);
    if (config?.spend_limits !== undefined && entry.definition.name === 'route-to' && unknown_cost === 'allow') {
      const message = `no limit in money counts what ${id} sends without knowing what it costs`;
      findings.report('W7240', mark, message, {
        help: 'say what one request costs, such as `per_request_usd: 0.05`, in the place of `unknown_cost: allow`',
      });
    }
    if (!entry.definition.needs.includes('rewrite-response')) continue;
    if (at < 0) {
      const message = `${id} replaces texts in answers of upstreams, and this pipeline asks none`;
      findings.report('W7160', mark, message, { help: 'remove it, or move it to a pipeline with `forward`' });
    } else if (!entry.fail_closed && entry.mode === 'enforce') {
      reportOpen(mark, `an answer goes out as it is when ${id} fails`, 'such an answer is', findings);
    }
  }
  for (const { entry, guard_mark } of [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally]) {
    if (guard_mark === undefined || isShared(guard_mark) || typeof simplify(entry.when, new Map()) === 'boolean')
      continue;
    const outcome = constantGuard(entry.when, match);
    if (outcome === undefined) continue;
    const message = outcome
      ? 'the guard holds for every request the pipeline serves'
      : 'the entry never runs: its guard holds for no request the pipeline serves';
    const served = `${match.methods.join(', ')} on ${match.paths.join(', ')}`;
    findings.report('W7018', guard_mark, message, {
      help: `the pipeline serves ${served}, protocol ${match.protocol}`,
    });
  }
}

function lintSafeguard(
  sender: LinkedStage,
  above: readonly LinkedStage[],
  { code, writes, stage, missing, why }: Safeguard,
  findings: Findings,
): void {
  const all = above.filter(({ entry }) => entry.definition.writes.includes(writes));
  const [first, ...more] = all.filter(isEnforced);
  const sends = quote(sender.entry.id);
  if (first === undefined) {
    const [shadow] = all;
    const reason = shadow === undefined ? why : `${quote(shadow.entry.id)} is in shadow mode and never runs`;
    const help = shadow === undefined ? `add \`- stage: ${stage}\` above ${sends}` : 'remove `mode: shadow`';
    findings.report(code, (shadow ?? sender).mark, `${missing} ${reason}`, { help });
    return;
  }
  const candidates = [first, ...more];
  const ways = [
    ...candidates.filter(({ entry }) => implies(sender.entry.when, entry.when)).map((stage) => [stage]),
    ...candidates.flatMap((one) =>
      more.filter((other) => coverAll(one.entry.when, other.entry.when)).map((other) => [one, other]),
    ),
  ];
  if (ways.some((way) => way.every(({ entry }) => entry.fail_closed))) return;
  const open = ways[0]?.find(({ entry }) => !entry.fail_closed);
  if (open !== undefined) {
    const id = quote(open.entry.id);
    reportOpen(open.mark, `requests that ${id} fails on reach ${sends} without it`, 'such requests are', findings);
    return;
  }
  const message = `requests that its guard leaves out reach ${sends} without ${quote(first.entry.id)}`;
  findings.report('W7015', first.mark, message, {
    help: `remove the guard of ${quote(first.entry.id)}, or put the same one on ${sends}`,
  });
}

function reportOpen(mark: Mark, message: string, what: string, findings: Findings): void {
  findings.report('W7024', mark, message, { help: `remove \`fail_closed: false\`: ${what} then refused` });
}

function lintAudit(sender: LinkedStage, pipeline: LinkedPipeline, findings: Findings): void {
  if (pipeline.finally.some((stage) => isAudit(stage) && isEnforced(stage) && stage.entry.when === undefined)) return;
  // What may rewrite bodies unrecorded is an error already.
  if (pipeline.stages.some((stage) => isEnforced(stage) && stage.entry.definition.needs.includes('rewrite-body')))
    return;
  const audit = pipeline.finally.find(isAudit);
  const message =
    audit === undefined
      ? `nothing records who sends what through ${quote(sender.entry.id)}`
      : `${quote(audit.entry.id)} does not record every request that goes through ${quote(sender.entry.id)}`;
  findings.report('W7013', (audit ?? sender).mark, message, {
    help: audit === undefined ? 'add to the pipeline: finally: [{ stage: audit }]' : 'remove its guard and its `mode`',
  });
}

/** Codes one entry can raise. A stage that can raise them all, such as fail, names the one it does in its options. */
function codesOf({ entry }: LinkedStage): readonly ErrorCode[] {
  const { raises } = entry.definition;
  const { error } = entry.options as { error?: ErrorCode };
  const any = raises.length === Object.keys(ERRORS).length;
  return any && error !== undefined ? [error] : raises;
}

function lintErrorCodes({ stages, on_error }: LinkedPipeline, relays: boolean, findings: Findings): void {
  const raised = new Set<ErrorCode>([...ENGINE_CODES, ...(relays ? RELAY_CODES : [])]);
  for (const { writes, raises } of relays ? SAFEGUARDS : []) {
    if (!stages.some(({ entry }) => entry.definition.writes.includes(writes)))
      for (const code of raises) raised.add(code);
  }
  for (const stage of stages.filter(isEnforced)) for (const code of codesOf(stage)) raised.add(code);
  for (const { error_marks } of on_error) {
    for (const [code, mark] of error_marks) {
      if (raised.has(code)) continue;
      findings.report('W7014', mark, `no stage of this pipeline raises ${code}`, {
        help: 'remove the code, or name the one that is meant',
      });
    }
  }
}

/** What a routing rule asks for: the models it is for, and its other conditions, each as text. */
interface RouteDemand {
  readonly models: ReadonlySet<string>;
  readonly conditions: ReadonlySet<string>;
}

function conditionsOf(logic: unknown): readonly string[] {
  if (logic === true) return [];
  const both = (logic as { and?: readonly unknown[] }).and;
  return both === undefined ? [JSON.stringify(logic)] : both.flatMap(conditionsOf);
}

function isWithin(part: ReadonlySet<string>, whole: ReadonlySet<string>): boolean {
  for (const item of part) if (!whole.has(item)) return false;
  return true;
}

function demandsOf(config: GatewayConfig): readonly RouteDemand[] {
  const { rules } = config.routing;
  const ids = config.models.map(({ id }) => id);
  const others = rules.map(({ models: _models, ...rest }) => rest);
  return routingRules({ ...config, routing: { ...config.routing, rules: others } }).map(({ logic, index }) => {
    const globs = rules[index]!.models;
    return {
      models: new Set(ids.filter((id) => globs?.some((glob) => matchesGlob(glob, id)) ?? true)),
      conditions: new Set(conditionsOf(logic)),
    };
  });
}

/** Warns about routing rules of gateway.yaml that never match because an earlier one always does. */
export function lintRouting(config: GatewayConfig, root: MapNode, findings: Findings): void {
  const { rules } = config.routing;
  const demands = demandsOf(config);
  rules.forEach((rule, index) => {
    if (rule.mode === 'shadow') return;
    const { models, conditions } = demands[index]!;
    const earlier = rules.find((other, i) => {
      if (i >= index || other.mode === 'shadow') return false;
      return isWithin(demands[i]!.conditions, conditions) && isWithin(models, demands[i]!.models);
    });
    // A rule for models that do not exist is reported as that.
    if (earlier === undefined || models.size === 0) return;
    const rule_node = nodeAt(root, `/routing/rules/${index}`);
    const { mark } = childOf(rule_node, 'name') ?? rule_node;
    const message = `the rule never matches: ${quote(earlier.name)} above it matches whatever it would`;
    const help = `move it above ${quote(earlier.name)}, or remove one of the two`;
    findings.report('W7017', mark, message, { help });
  });
}

// Guards whose outcome follows from what a pipeline serves.

/** Most combinations of method and path that a guard is tried with. */
const COMBINATIONS_MAX = 64;

/** Whether a guard holds for every request of a pipeline, or for none; `undefined` when that depends on the request. */
export function constantGuard(when: unknown, match: PipelineSpec['match']): boolean | undefined {
  if (match.methods.length * match.paths.length > COMBINATIONS_MAX) return undefined;
  const known = match.methods.flatMap((method) =>
    match.paths.map(
      (path) =>
        new Map<string, unknown>([
          ['request.method', method],
          ...(isDecided(path, when) ? [['request.path', path] as const] : []),
          ['request.protocol', match.protocol],
        ]),
    ),
  );
  const [outcome, ...others] = new Set(known.map((facts) => simplify(when, facts)));
  return others.length === 0 && typeof outcome === 'boolean' ? outcome : undefined;
}

/** A pattern stands for paths about which a guard may well decide, unless it names other paths only. */
function isDecided(path: string, when: unknown): boolean {
  if (!isPathPattern(path)) return true;
  const text = JSON.stringify(when);
  return !text.includes('"glob"') && !text.includes(JSON.stringify(path.replace(/\*$/, '')).slice(0, -1));
}

interface Compiled {
  readonly source: PipelineSource;
  readonly spec: PipelineSpec;
}

/** What a guard goes by that is another in each API. */
const TELLS_APIS = /"request\.(?:protocol|path|method)"/;
/** The pipelines of one model through several APIs. */
const FAMILY = 'model-requests';

/**
 * Warns about copies of shipped pipelines that lack a stage of theirs, such as one by which an upstream says what was used.
 * @param shipped directory of the shipped pipelines.
 */
export function lintCopies(all: readonly Compiled[], shipped: string, findings: Findings): void {
  const copies = all.filter(({ source: { file, extended } }) => dirname(file) !== shipped && extended !== true);
  const ignored = createFindings();
  const theirs = (copies.length === 0 ? [] : filesIn(shipped)).flatMap((file) => {
    const root = readSource(file, ignored);
    return root === undefined ? [] : splitPipelines(file, root, ignored);
  });
  for (const { source, spec } of copies) {
    const own = new Set([...spec.stages, ...spec.finally].map(({ definition }) => definition.name));
    const root = theirs.find(({ name }) => name === spec.name)?.root;
    const items = ['stages', 'finally'].flatMap((list) => itemsOf(childOf(root, list)));
    const missing = items.flatMap((item) => textOf(childOf(item, 'stage')) ?? []).filter((stage) => !own.has(stage));
    const name = childOf(source.root, 'pipeline');
    if (missing.length === 0 || name === undefined) continue;
    const message = `this copy of ${quote(spec.name)} lacks what the shipped one has: ${missing.join(', ')}`;
    findings.report('W7100', name.mark, message, {
      help: `write what is different only: extends: ${spec.name}, with insert, replace and remove`,
    });
  }
}

/** Whether an entry refuses some requests. */
const refuses = ({ definition, when, mode }: StageEntry): boolean =>
  definition.terminal && when !== undefined && mode === 'enforce' && !definition.needs.includes('network');

/**
 * Warns about guards that only some clients of a model meet.
 * @param shipped directory of the shipped pipelines.
 */
export function lintGuards(all: readonly Compiled[], shipped: string, findings: Findings): void {
  const serving = all.filter(({ source }) => source.family === FAMILY).map(({ spec }) => spec);
  for (const spec of serving) {
    for (const entry of spec.stages) {
      const logic = JSON.stringify(entry.when);
      if (!refuses(entry) || dirname(entry.position.file) === shipped || TELLS_APIS.test(logic)) continue;
      const same = (other: StageEntry) =>
        other.definition === entry.definition &&
        JSON.stringify([other.when, other.options]) === JSON.stringify([entry.when, entry.options]);
      const open = serving.filter(({ stages }) => !stages.some(same)).map(({ name }) => name);
      if (open.length === 0) continue;
      const chain = entry.chain && { chain: entry.chain };
      const mark = { ...entry.position, ...chain, length: entry.definition.name.length, pointer: '' };
      findings.report('W7101', mark, `${quote(entry.id)} refuses requests in ${quote(spec.name)} only`, {
        found: `who asks through ${open.join(' or ')} passes`,
        help: 'put it under `all_pipelines: { insert: [...] }` in gateway.yaml, or into a file with `extends: model-requests`',
      });
    }
  }
}

const isThere =
  (name: string) =>
  ({ entry }: LinkedStage): boolean =>
    entry.mode === 'enforce' && entry.definition.name === name;

/** Warns about upstreams that clients of a pipeline cannot reach, because nothing in it translates to their protocol. */
export function lintProtocols(
  { stages }: LinkedPipeline,
  protocol: string,
  config: GatewayConfig | undefined,
  findings: Findings,
): void {
  const spoken = protocol === 'count_tokens' ? undefined : protocolOf(protocol);
  const at = stages.findIndex(isThere('forward'));
  if (config === undefined || spoken === undefined || at < 0 || stages.slice(0, at).some(isThere('translate'))) return;
  const routes = routesOf(config);
  const speaks = ({ protocols }: UpstreamConfig) => protocols.includes(spoken);
  const refused = routes.find((upstreams) => !upstreams.some(speaks));
  const foreign = (refused ?? routes.flat()).find((upstream) => !speaks(upstream));
  if (foreign === undefined) return;
  const sender = stages[at]!;
  const message =
    refused === undefined
      ? 'requests never go to an upstream of another protocol, even if others fail'
      : 'requests routed to an upstream of another protocol are refused';
  const why = `${quote(foreign.name)} speaks ${foreign.protocols.join(' and ')}, not ${spoken}`;
  findings.report('W7025', sender.mark, `${message}: ${why}`, {
    help: `add \`- stage: translate\` above ${quote(sender.entry.id)}`,
  });
}

/** The upstreams of each route in force. */
function routesOf({ upstreams, routing }: GatewayConfig): readonly (readonly UpstreamConfig[])[] {
  const in_force = routing.rules.filter(({ mode }) => mode === 'enforce');
  return [...in_force.map((rule) => rule.upstreams), routing.default_upstreams].map((entries) =>
    entries.map((entry) => upstreams.find(({ name }) => name === entry.upstream)!),
  );
}

// Warns about routes of several upstreams that would not help when one of them fails, and settings that decide nothing.

interface Linted {
  readonly config: GatewayConfig;
  readonly root: MapNode;
  readonly findings: Findings;
}

/** Looks at all routes of a configuration without errors, and at what its upstreams say for the case that one fails. */
export function lintRoutes(config: GatewayConfig, root: MapNode, findings: Findings): void {
  const linted = { config, root, findings };
  const routes = writtenRoutes(config, root);
  for (const route of routes) {
    lintPlaces(route, linted);
    lintTwins(route, linted);
  }
  if (routes.some(({ upstreams }) => upstreams.length > 1)) lintAttempts(linted);
  config.upstreams.forEach((upstream, index) => {
    lintShared(upstream, index, linted);
    lintBreaker(upstream, index, linted);
  });
  lintCachePolicies(linted);
  lintWindows(linted);
}

/** Weights without anybody to share with, and places that are the same by accident. */
function lintPlaces(route: WrittenRoute, { root, findings }: Linted): void {
  const { upstreams, pointer } = route;
  if (pointer === undefined) return;
  const written = (index: number, key: string) => isWritten(root, `${pointer}/${index}/${key}`);
  const is_shared = upstreams.some((_, index) => written(index, 'weight'));
  upstreams.forEach(({ upstream, order }, index) => {
    const others = upstreams.filter((other, i) => i !== index && other.order === order);
    if (written(index, 'weight') && others.length === 0) {
      const message = `\`weight\` has no effect: no other upstream has the order ${order}`;
      findings.report('W7050', markOfEntry(root, route, index, 'weight'), message, {
        help: `leave it out, or give another upstream the same order, to share the sessions of ${quote(upstream)}`,
      });
    }
    const same = upstreams.findIndex((other, i) => other.order === order && written(i, 'order'));
    if (is_shared || written(index, 'order') || same < 0) return;
    const [one, other] = [quote(upstream), quote(upstreams[same]!.upstream)];
    findings.report('W7081', markOfEntry(root, route, index), `${one} shares the sessions of ${other} by accident`, {
      found: `order ${order} by its place in the list, which ${other} has by \`order\``,
      help: 'write `order` for every entry of the list, or for none',
    });
  });
}

/** What an upstream calls the models that can be routed to it. */
function namesAt({ name }: UpstreamConfig, { models }: GatewayConfig): string {
  return JSON.stringify(models.map(({ id, upstream_ids }) => upstream_ids?.[name] ?? id));
}

/** Two upstreams that are the same server, account and models: what fails at one fails at the other. */
function lintTwins(route: WrittenRoute, { config, root, findings }: Linted): void {
  const upstreams = route.upstreams.map(({ upstream }) => config.upstreams.find(({ name }) => name === upstream)!);
  const identity = (upstream: UpstreamConfig) => `${ownBoundary(upstream, '/')} ${namesAt(upstream, config)}`;
  upstreams.forEach((upstream, index) => {
    const first = upstreams.slice(0, index).find((other) => identity(other) === identity(upstream));
    if (first === undefined) return;
    const [one, other] = [quote(upstream.name), quote(first.name)];
    findings.report('W7080', markOfEntry(root, route, index), `${one} fails whenever ${other} does`, {
      found: 'the same address, credential and names of models at both',
      help: 'name another server or account, or remove it from the route',
    });
  });
}

/** Settings for all attempts that leave no room for a second one. */
function lintAttempts({ config, root, findings }: Linted): void {
  const { max, seconds, unconfirmed } = config.routing.attempts;
  const attempts = nodeAt(root, '/routing/attempts');
  if (max === 1) {
    findings.report('W7080', childOf(attempts, 'max')!.mark, 'what an upstream fails goes to no other one', {
      found: '`max: 1`: a request is sent once, to an upstream that seems to work',
      help: 'write 2 or more, or leave it out: 4',
    });
    return;
  }
  const { first_byte_seconds } = config.server.timeouts;
  if (!unconfirmed || first_byte_seconds < seconds) return;
  const { mark } =
    childOf(attempts, 'seconds') ?? childOf(root, 'server', 'timeouts', 'first_byte_seconds') ?? attempts;
  findings.report('W7080', mark, 'what an upstream does not answer in time goes to no other one', {
    found: `routing.attempts.seconds: ${seconds}, server.timeouts.first_byte_seconds: ${first_byte_seconds}`,
    expected: 'more seconds for all attempts than the first byte of one may take',
  });
}

/** Pools and boundaries with one upstream in them. */
function lintShared(upstream: UpstreamConfig, index: number, { config, root, findings }: Linted): void {
  const others = config.upstreams.filter((other) => other !== upstream);
  for (const key of ['cache_pool', 'state_boundary'] as const) {
    const pointer = `/upstreams/${index}/${key}`;
    if (!isWritten(root, pointer) || others.some((other) => other[key] === upstream[key])) continue;
    if (key === 'state_boundary' && others.some((other) => ownBoundary(other, '/') === ownBoundary(upstream, '/')))
      continue;
    const named = config.upstreams.flatMap((other, i) =>
      other === upstream || !isWritten(root, `/upstreams/${i}/${key}`) ? [] : other[key],
    );
    const meant = closest(upstream[key], named);
    const message = `${keyName(key)} has no effect: no other upstream is in ${quote(upstream[key])}`;
    findings.report('W7050', nodeAt(root, pointer).mark, message, {
      help:
        meant === undefined ? 'name it at the upstreams that share it, or leave it out' : `did you mean \`${meant}\`?`,
    });
  }
}

/**
 * The largest share of failures, in percent, in a window of at least `requests_min` requests in which never `failures` in a
 * row failed: each run of `failures - 1` failures is followed by a success.
 */
function largestShare(failures: number, requests_min: number): number {
  const sizes = Array.from({ length: failures }, (_, i) => requests_min + i);
  return Math.max(...sizes.map((size) => (100 * (size - Math.floor(size / failures))) / size));
}

/** Settings of a breaker that others leave nothing to. */
function lintBreaker({ breaker }: UpstreamConfig, index: number, { root, findings }: Linted): void {
  const { mode, failures, failure_percent, requests_min } = breaker;
  const entries = entriesOf(childOf(nodeAt(root, `/upstreams/${index}`), 'breaker'));
  for (const { key, key_mark } of mode === 'off' ? entries : []) {
    if (key === 'mode') continue;
    findings.report('W7050', key_mark, `${keyName(key)} has no effect: \`mode: off\`, there is no breaker`, {
      help: 'leave it out, or leave `mode` out',
    });
  }
  const of_share = entries.find(({ key }) => ['failure_percent', 'requests_min', 'window_seconds'].includes(key));
  if (mode === 'off' || of_share === undefined || largestShare(failures, requests_min) >= failure_percent) return;
  const row = failures === 1 ? 'the first failure' : `${failures} failures in a row`;
  findings.report('W7050', of_share.key_mark, `${keyName(of_share.key)} has no effect: ${row} always come first`, {
    found: `of ${requests_min} requests or more ${failure_percent} % fail only if ${failures} in a row do`,
    help: 'write more `failures`, a lower `failure_percent`, or leave it out',
  });
}

/** What happens to a 1-hour cache that is not supported, said where it is. */
function lintCachePolicies({ config: { models, routing, upstreams }, root, findings }: Linted): void {
  const lint = (pointer: string, who: string, there: readonly (UpstreamConfig | ModelConfig)[]) => {
    if (!isWritten(root, pointer) || !there.every(({ supports }) => supports.prompt_cache_1h)) return;
    findings.report('W7050', nodeAt(root, pointer).mark, `\`on_unsupported_cache\` has no effect: ${who} for an hour`, {
      help: 'write `supports: { prompt_cache_1h: false }` at the upstream or model that does not, or leave it out',
    });
  };
  upstreams.forEach((upstream, index) => {
    lint(`/upstreams/${index}/on_unsupported_cache`, 'the upstream keeps prompts', [upstream, ...models]);
  });
  routing.rules.forEach(({ upstreams: listed_there, models: globs }, index) => {
    const there = upstreams.filter(({ name }) => listed_there.some(({ upstream }) => upstream === name));
    const asked = models.filter(({ id }) => globs?.some((glob) => matchesGlob(glob, id)) ?? true);
    const who = there.length === 1 ? 'its upstream keeps prompts' : 'its upstreams keep prompts';
    lint(`/routing/rules/${index}/on_unsupported_cache`, who, [...there, ...asked]);
  });
}

/** Windows of a model at an upstream that are no smaller than its own. */
function lintWindows({ config, root, findings }: Linted): void {
  config.models.forEach(({ context_window, context_windows = {} }, index) => {
    for (const [upstream, window] of Object.entries(context_windows)) {
      if (window < context_window) continue;
      const { mark } = childOf(nodeAt(root, `/models/${index}/context_windows`), upstream)!;
      const message = `the window at ${quote(upstream)} has no effect: \`context_window\` is ${context_window} tokens`;
      findings.report('W7050', mark, message, {
        help: 'leave it out, or set context_window to the longest that the model reads anywhere',
      });
    }
  });
}

// Warns about prices and multipliers that are off by the power of ten of another way to write them.

/** No provider asks less for a million tokens; what a single token costs is always below it. */
const LEAST_USD_PER_MILLION = 0.001;

/** Nothing that a contract, a tier or a region makes dearer is dearer than this. */
const MAX_MULTIPLIER = 10;

const TOKEN_PRICES: ReadonlySet<string> = new Set([
  'input',
  'output',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'audio_input',
  'audio_output',
]);
const MULTIPLIERS: ReadonlySet<string> = new Set(['price_multiplier', 'multiplier']);

/** A decimal number times a power of ten, without the digits that binary fractions add. */
const shifted = (value: number, digits: number): string => String(Number(`${value}e${digits}`));

function lintPrice(key: string, { value, mark }: ScalarNode, findings: Findings): boolean {
  if (typeof value !== 'number' || value === 0 || value >= LEAST_USD_PER_MILLION) return false;
  findings.report('W7180', mark, `${keyName(key)} looks like the price of one token`, {
    found: `${value} USD per million tokens`,
    help: `prices are for a million tokens: write ${shifted(value, 6)}`,
  });
  return true;
}

function lintMultiplier(key: string, { value, mark }: ScalarNode, findings: Findings): void {
  if (typeof value !== 'number' || value <= MAX_MULTIPLIER) return;
  findings.report('W7180', mark, `${keyName(key)} makes everything ${value} times as dear`, {
    help: `for ${value} percent of the price write ${shifted(value, -2)}`,
  });
}

/** Looks at all prices in a part of the configuration; of those that are written alike, one is reported. */
function lintWithin(node: Node, findings: Findings): void {
  let reported = false;
  for (const { key, value } of entriesOf(node)) {
    if (value.kind !== 'scalar') lintWithin(value, findings);
    else if (MULTIPLIERS.has(key)) lintMultiplier(key, value, findings);
    else if (!reported && TOKEN_PRICES.has(key)) reported = lintPrice(key, value, findings);
  }
}

/** Looks at the prices of models, of rows of `prices` and of upstreams as they are written. */
export function lintPrices(root: MapNode, findings: Findings): void {
  for (const path of ['models', 'prices.rows', 'upstreams'])
    for (const node of itemsAt(root, path)) lintWithin(node, findings);
}

const HELP =
  'without a section `models` only models of the catalogue are served: write one with every model that is to be served, this one with `pricing`';

/** Warns of models that a gateway.yaml without a section `models` refers to, and that the catalogue of prices does not know. */
export function lintFoundModels(config: GatewayConfig, root: MapNode, findings: Findings): void {
  if (!config.from_model_lists) return;
  const at_homes = config.upstreams.map(({ base_url }) => idsAt(base_url));
  const ids = [...new Set(at_homes.flat())];
  // Elsewhere the catalogue has no list of what a glob could match.
  const are_complete = at_homes.every(({ length }) => length > 0);
  for (const path of ['routing.rules.*', 'access.rules.*', 'token_groups.*']) {
    for (const model of textsAt(root, `${path}.models.*`))
      checkModel(model, config, are_complete ? ids : undefined, findings);
    for (const { text, mark } of textsAt(root, `${path}.families.*`))
      findings.report('W7002', mark, `no model is of the family ${quote(text)}`, {
        help: 'a family is said of a model under `models`; without that section write globs: models: [...]',
      });
  }
}

function checkModel(
  { text, mark }: Written,
  config: GatewayConfig,
  ids: readonly string[] | undefined,
  findings: Findings,
): void {
  const is_glob = text.includes('*');
  if (is_glob ? (ids?.some((id) => matchesGlob(text, id)) ?? true) : modelById(text, config) !== undefined) return;
  const what = is_glob ? `has no model that matches ${quote(text)}` : `does not know the model ${quote(text)}`;
  findings.report('W7190', mark, `the catalogue of prices (${CATALOGUE_DATE}) ${what}`, {
    help: didYouMean(text, ids ?? [], HELP),
  });
}

/** Domains that are nobody's (RFC 2606, RFC 6761): an address there is one that is still to be replaced. */
const RESERVED = /(?:^|\.)(?:example(?:\.(?:com|net|org))?|test|invalid)\.?$/;

/** Warns about what requests need that a pipeline translates into Messages: names of headers, bounds of models. */
export function lintTranslation(
  { upstreams, models, routing }: GatewayConfig,
  pipelines: readonly PipelineSpec[],
  root: MapNode,
  findings: Findings,
): void {
  const names = pipelines.filter(translatesToMessages).map(({ name }) => name);
  if (names.length === 0) return;
  const reached = models.map((model) => reaches(model, routing));
  const speaking = upstreams.filter(({ protocols }) => protocols[0] === 'messages');
  for (const { name, base_url, profile } of speaking) {
    if (profile !== undefined || RESERVED.test(new URL(base_url).hostname)) continue;
    if (!reached.some((places) => places.has(name))) continue;
    const node = itemsAt(root, 'upstreams')[upstreams.findIndex((upstream) => upstream.name === name)];
    const { mark } = childOf(node, 'base_url') ?? node!;
    findings.report('W7026', mark, `whose header names the upstream ${quote(name)} takes is not known`, {
      expected: `\`profile\`: requests are translated into Messages by ${listed(names)}`,
      help: 'write `profile: anthropic` beside the `base_url`, or a file with other names',
    });
  }
  for (const [index, model] of models.entries()) {
    const is_sent = speaking.some(({ name }) => reached[index]!.has(name));
    if (!model.assumed.includes('max_output_tokens') || !is_sent) continue;
    const node = itemsAt(root, 'models')[index];
    const { mark } = childOf(node, 'id') ?? node!;
    const sent = `max_tokens: ${model.default_output_tokens}`;
    findings.report('W7027', mark, `how much the model ${quote(model.id)} can say in one answer is not known`, {
      help: `write max_output_tokens; without it requests that say no bound get ${sent} in ${listed(names)}`,
    });
  }
}

/** Whether clients of another protocol are served, and what they ask is translated before it is sent. */
function translatesToMessages({ match, stages }: PipelineSpec): boolean {
  const protocol = protocolOf(match.protocol);
  if (protocol === undefined || protocol === 'messages') return false;
  return stages.some(({ definition, mode }) => definition.name === 'translate' && mode === 'enforce');
}
