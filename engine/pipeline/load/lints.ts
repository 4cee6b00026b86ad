import { dirname } from 'node:path';
import type { GatewayConfig, UpstreamConfig } from '../../base/contract/config.ts';
import { ERRORS, type ErrorCode } from '../../base/contract/errors.ts';
import { type Protocol, protocolOf } from '../../base/contract/protocol.ts';
import { matchesGlob } from '../../base/kit/glob.ts';
import { isPathPattern } from '../../base/kit/path-patterns.ts';
import { didYouMean, listed } from '../../base/kit/text/suggest.ts';
import { coverAll, implies } from '../../base/rules/guards.ts';
import { simplify } from '../../base/rules/simplify.ts';
import type { Findings } from '../../base/source/findings.ts';
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
  textOf,
} from '../../base/source/node.ts';
import type { PipelineSpec, StageEntry } from '../../base/source/spec.ts';
import { CATALOGUE_DATE, idsAt } from '../../domain/budget/prices/catalogue.ts';
import { modelById } from '../../domain/budget/prices/known-models.ts';
import { definitionOf } from '../../domain/protocols/index.ts';
import { reaches } from '../../domain/upstreams/routes.ts';
import type { PipelineSource } from './compose.ts';
import { ownBoundary } from './config-shape.ts';
import { isEnforced, isSender, type LinkedPipeline } from './flow.ts';
import { markOfEntry, type WrittenRoute, writtenRoutes } from './link/link-gateway.ts';
import { itemsAt, textsAt } from './link/link-keys.ts';
import type { LinkedStage } from './link/link-stages.ts';

/** Codes that the engine raises whatever the stages. */
const ENGINE_CODES: readonly ErrorCode[] = ['bad_http', 'draining', 'internal_error', 'stage_failed'];

/** Codes that streaming an upstream's response raises. */
const RELAY_CODES: readonly ErrorCode[] = ['upstream_failed', 'upstream_timeout'];

/** Stages that every request to an upstream should pass, each identified by a fact that it writes. */
const SAFEGUARDS = [
  {
    code: 'W7010',
    writes: 'principal.id',
    stage: 'authenticate',
    missing: 'anyone who reaches the gateway can spend your money:',
    why: 'no stage above authenticates callers',
  },
  {
    code: 'W7011',
    writes: 'spend.reserved_nano_usd',
    stage: 'check-budget',
    missing: 'no spend limit applies to these requests:',
    why: 'no stage above reserves a budget',
  },
  {
    code: 'W7012',
    writes: 'usage.cost_nano_usd',
    stage: 'meter-usage',
    missing: 'usage is not metered:',
    why: 'no stage above reads the response',
  },
] as const;

/** Warns about a probable gap of a pipeline, such as no authentication. @param isShared whether other `match`es use the entry */
export function lintPipeline(
  pipeline: LinkedPipeline,
  match: PipelineSpec['match'],
  isShared: (mark: Mark) => boolean,
  config: GatewayConfig | undefined,
  findings: Findings,
): void {
  const at = pipeline.stages.findIndex(isSender);
  if (at >= 0) {
    const sender = pipeline.stages[at]!;
    for (const safeguard of SAFEGUARDS) lintSafeguard(sender, pipeline.stages.slice(0, at), safeguard, findings);
  }
  lintErrorCodes(pipeline, at >= 0, findings);
  for (const { entry, mark } of pipeline.stages) {
    const { unknown_cost } = (entry.options ?? {}) as { unknown_cost?: string };
    const id = quote(entry.id);
    if (config?.spend_limits !== undefined && entry.definition.name === 'route-to' && unknown_cost === 'allow') {
      const message = `${id} sends requests of unknown cost, which no spend limit counts`;
      findings.report('W7240', mark, message, {
        help: 'replace `unknown_cost: allow` by the cost of a request, such as `per_request_usd: 0.05`',
      });
    }
    if (!entry.definition.needs.includes('rewrite-response')) continue;
    if (at < 0) {
      const message = `${id} rewrites responses of upstreams, and this pipeline has none`;
      findings.report('W7160', mark, message, { help: 'remove it, or move it to a pipeline with `forward`' });
    } else if (!entry.fail_closed && entry.mode === 'enforce') {
      reportOpen(mark, `if ${id} fails, responses are sent unchanged`, 'responses', findings);
    }
  }
  for (const { entry, guard_mark } of [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally]) {
    if (guard_mark === undefined || isShared(guard_mark) || typeof simplify(entry.when, new Map()) === 'boolean')
      continue;
    const outcome = constantGuard(entry.when, match);
    if (outcome === undefined) continue;
    const message = outcome
      ? '`when` is true for every request of the pipeline'
      : 'the entry never runs: its `when` is false for every request of the pipeline';
    // Without its condition, an entry that never runs would always run.
    const remedy = outcome ? 'correct or remove `when`' : 'correct `when`, or remove the entry';
    const served = `${match.methods.join(', ')} on ${match.paths.join(', ')}`;
    findings.report('W7018', guard_mark, message, {
      help: `${remedy}: the pipeline serves ${served}, protocol ${match.protocol}`,
    });
  }
}

function lintSafeguard(
  sender: LinkedStage,
  above: readonly LinkedStage[],
  { code, writes, stage, missing, why }: (typeof SAFEGUARDS)[number],
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
    reportOpen(open.mark, `if ${id} fails, requests reach ${sends} without it`, 'requests', findings);
    return;
  }
  const checking = quote(first.entry.id);
  const message = `requests that skip ${checking} because of \`when\` reach ${sends}`;
  findings.report('W7015', first.mark, message, {
    help: `remove \`when\` from ${checking}, or put the same \`when\` on ${sends}`,
  });
}

function reportOpen(mark: Mark, message: string, what: string, findings: Findings): void {
  findings.report('W7024', mark, message, { help: `remove \`fail_closed: false\` to reject such ${what}` });
}

/** The codes that an entry can raise. A stage that can raise any, such as reject, names one in its options. */
function codesOf({ entry }: LinkedStage): readonly ErrorCode[] {
  const { raises } = entry.definition;
  const { error } = entry.options as { error?: ErrorCode };
  const any = raises.length === Object.keys(ERRORS).length;
  return any && error !== undefined ? [error] : raises;
}

function lintErrorCodes({ stages, on_error }: LinkedPipeline, relays: boolean, findings: Findings): void {
  const raised = new Set<ErrorCode>([...ENGINE_CODES, ...(relays ? RELAY_CODES : [])]);
  for (const stage of stages.filter(isEnforced)) for (const code of codesOf(stage)) raised.add(code);
  for (const { error_marks } of on_error) {
    for (const [code, mark] of error_marks) {
      if (raised.has(code)) continue;
      findings.report('W7014', mark, `no stage of this pipeline raises ${code}`, {
        // Without codes, the clause would handle every error.
        help: error_marks.size > 1 ? 'correct the code, or remove it' : 'correct the code, or remove the clause',
      });
    }
  }
}

/** Keys of a routing rule beside `models` and `when`, whose values must be equal. */
const PLAIN_CONDITIONS = ['user', 'team', 'group', 'project', 'region'] as const;

/** Of more rules, only the parts of `and` are compared: to prove for each pair that one implies the other takes too long. */
const PROVEN_RULES_MAX = 100;

function partsOf(logic: unknown): readonly string[] {
  if (logic === undefined) return [];
  const both = (logic as { and?: readonly unknown[] }).and;
  return both === undefined ? [JSON.stringify(logic)] : both.flatMap(partsOf);
}

/** Warns about routing rules of gateway.yaml that never match because an earlier one always does. */
function lintRouting(config: GatewayConfig, root: MapNode, findings: Findings): void {
  const { rules } = config.routing;
  const ids = config.models.map(({ id }) => id);
  const covered = rules.map(
    ({ models = ['*'] }) => new Set(ids.filter((id) => models.some((glob) => matchesGlob(glob, id)))),
  );
  const parts = rules.map(({ when }) => new Set(partsOf(when)));
  const isImplied = (index: number, other: number) =>
    [...parts[other]!].every((part) => parts[index]!.has(part)) ||
    (rules.length <= PROVEN_RULES_MAX && implies(rules[index]!.when, rules[other]!.when));
  rules.forEach((rule, index) => {
    const models = covered[index]!;
    // Rules for unknown models are reported as such.
    if (rule.mode === 'shadow' || models.size === 0) return;
    // The cheap checks first, because there may be hundreds of rules.
    const earlier = rules
      .slice(0, index)
      .find(
        (other, i) =>
          other.mode === 'enforce' &&
          PLAIN_CONDITIONS.every((key) => other[key] === undefined || other[key] === rule[key]) &&
          [...models].every((id) => covered[i]!.has(id)) &&
          isImplied(index, i),
      );
    if (earlier === undefined) return;
    const rule_node = nodeAt(root, `/routing/rules/${index}`);
    const { mark } = childOf(rule_node, 'name') ?? rule_node;
    const message = `the rule never matches: ${quote(earlier.name)} above it matches first`;
    const help = `move it above ${quote(earlier.name)}, or remove one of the two`;
    findings.report('W7017', mark, message, { help });
  });
}

/** Most combinations of method and path to evaluate a guard for. */
const COMBINATIONS_MAX = 64;

/** Whether a guard is true for every request of a pipeline (true) or for none (false); otherwise `undefined`. */
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

/** Whether the path is constant for the guard. A path pattern is not, unless the guard names only unrelated paths. */
function isDecided(path: string, when: unknown): boolean {
  if (!isPathPattern(path)) return true;
  const text = JSON.stringify(when);
  return !text.includes('"glob"') && !text.includes(JSON.stringify(path.replace(/\*$/, '')).slice(0, -1));
}

interface Compiled {
  readonly source: PipelineSource;
  readonly spec: PipelineSpec;
}

/** Facts that differ between the APIs of one model. */
const API_FACTS = /"request\.(?:protocol|path|method)"/;
const FAMILY = 'model-requests';

/** Warns about copies of shipped pipelines that lack one of their stages, such as include-usage. */
export function lintCopies(all: readonly Compiled[], shipped: readonly PipelineSource[], findings: Findings): void {
  const copies = all.filter(
    ({ source }) => source.extended !== true && !shipped.some(({ file }) => file === source.file),
  );
  for (const { source, spec } of copies) {
    const own = new Set([...spec.stages, ...spec.finally].map(({ definition }) => definition.name));
    const root = shipped.find(({ name }) => name === spec.name)?.root;
    const items = ['stages', 'finally'].flatMap((list) => itemsOf(childOf(root, list)));
    const missing = items.flatMap((item) => textOf(childOf(item, 'stage')) ?? []).filter((stage) => !own.has(stage));
    const name = childOf(source.root, 'pipeline');
    if (missing.length === 0 || name === undefined) continue;
    const message = `this copy of ${quote(spec.name)} lacks stages of the shipped one: ${missing.join(', ')}`;
    findings.report('W7100', name.mark, message, {
      help: `add ${missing.map((stage) => `\`- stage: ${stage}\``).join(', ')}, or write only the differences: extends: ${spec.name}, with insert, replace and remove`,
    });
  }
}

const rejects = ({ definition, when, mode }: StageEntry): boolean =>
  definition.terminal && when !== undefined && mode === 'enforce' && !definition.needs.includes('network');

/** Warns about stages that reject requests through only some APIs of a model. @param shipped directory of the shipped pipelines */
export function lintGuards(all: readonly Compiled[], shipped: string, findings: Findings): void {
  const serving = all.filter(({ source }) => source.family === FAMILY).map(({ spec }) => spec);
  for (const spec of serving) {
    for (const entry of spec.stages) {
      const logic = JSON.stringify(entry.when);
      if (!rejects(entry) || dirname(entry.position.file) === shipped || API_FACTS.test(logic)) continue;
      const same = (other: StageEntry) =>
        other.definition === entry.definition &&
        JSON.stringify([other.when, other.options]) === JSON.stringify([entry.when, entry.options]);
      const open = serving.filter(({ stages }) => !stages.some(same)).map(({ name }) => name);
      if (open.length === 0) continue;
      const chain = entry.chain && { chain: entry.chain };
      const mark = { ...entry.position, ...chain, length: entry.definition.name.length, pointer: '' };
      findings.report('W7101', mark, `${quote(entry.id)} rejects requests only in ${quote(spec.name)}`, {
        found: `the same request through ${open.join(' or ')} passes`,
        help: 'move it to `all_pipelines: { insert: [...] }` in gateway.yaml, or to a file with `extends: model-requests`',
      });
    }
  }
}

const isThere =
  (name: string) =>
  ({ entry }: LinkedStage): boolean =>
    entry.mode === 'enforce' && entry.definition.name === name;

/** Warns about upstreams that a pipeline cannot use, because no stage translates to their protocol. */
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
      ? 'requests never fail over to an upstream of another protocol'
      : 'requests routed to an upstream of another protocol are rejected';
  const why = `${quote(foreign.name)} speaks ${foreign.protocols.join(' and ')}, not ${spoken}`;
  findings.report('W7025', sender.mark, `${message}: ${why}`, {
    help: `add \`- stage: translate\` above ${quote(sender.entry.id)}`,
  });
}

function routesOf({ upstreams, routing }: GatewayConfig): readonly (readonly UpstreamConfig[])[] {
  const in_force = routing.rules.filter(({ mode }) => mode === 'enforce');
  return [...in_force.map((rule) => rule.upstreams), routing.default_upstreams].map((entries) =>
    entries.map((entry) => upstreams.find(({ name }) => name === entry.upstream)!),
  );
}

/** Warns about the routes, prices and models of a configuration without errors. */
export function lintGateway(config: GatewayConfig, root: MapNode, findings: Findings): void {
  lintRouting(config, root, findings);
  const routes = writtenRoutes(config, root);
  if (routes.some(({ upstreams }) => upstreams.length > 1)) lintAttempts(config, root, findings);
  for (const route of routes) {
    lintWeights(route, root, findings);
    lintDuplicates(route, config, root, findings);
  }
  for (const path of ['models', 'prices.rows', 'upstreams'])
    for (const node of itemsAt(root, path)) lintPrices(node, findings);
  if (config.from_model_lists) lintFoundModels(config, root, findings);
}

function lintWeights(route: WrittenRoute, root: MapNode, findings: Findings): void {
  const { upstreams, pointer } = route;
  upstreams.forEach(({ upstream, order }, index) => {
    const is_alone = upstreams.every((other, i) => i === index || other.order !== order);
    if (pointer === undefined || !is_alone || !isWritten(root, `${pointer}/${index}/weight`)) return;
    const message = `\`weight\` has no effect: no other upstream has the order ${order}`;
    findings.report('W7050', markOfEntry(root, route, index, 'weight'), message, {
      help: `remove it, or give another upstream the same order to share sessions with ${quote(upstream)}`,
    });
  });
}

function lintAttempts(config: GatewayConfig, root: MapNode, findings: Findings): void {
  const { max, seconds, unconfirmed } = config.routing.attempts;
  const attempts = nodeAt(root, '/routing/attempts');
  if (max === 1) {
    findings.report('W7080', childOf(attempts, 'max')!.mark, 'failed requests are not sent to another upstream', {
      found: '`max: 1`: one attempt per request',
      help: 'write 2 or more, or remove it: the default is 4',
    });
    return;
  }
  const { first_byte_seconds } = config.server.timeouts;
  if (!unconfirmed || first_byte_seconds < seconds) return;
  const { mark } =
    childOf(attempts, 'seconds') ?? childOf(root, 'server', 'timeouts', 'first_byte_seconds') ?? attempts;
  findings.report('W7080', mark, 'requests that time out are not sent to another upstream', {
    found: `routing.attempts.seconds: ${seconds}, server.timeouts.first_byte_seconds: ${first_byte_seconds}`,
    expected: 'routing.attempts.seconds above server.timeouts.first_byte_seconds',
  });
}

/** Upstreams of one route with the same server, account and models: they fail together. */
function lintDuplicates(route: WrittenRoute, config: GatewayConfig, root: MapNode, findings: Findings): void {
  const upstreams = route.upstreams.map(({ upstream }) => config.upstreams.find(({ name }) => name === upstream)!);
  const namesAt = ({ name }: UpstreamConfig) => config.models.map(({ id, upstream_ids }) => upstream_ids?.[name] ?? id);
  const identity = (upstream: UpstreamConfig) => `${ownBoundary(upstream, '/')} ${JSON.stringify(namesAt(upstream))}`;
  upstreams.forEach((upstream, index) => {
    const first = upstreams.slice(0, index).find((other) => identity(other) === identity(upstream));
    if (first === undefined) return;
    const [one, other] = [quote(upstream.name), quote(first.name)];
    findings.report('W7080', markOfEntry(root, route, index), `${one} fails whenever ${other} does`, {
      found: 'both have the same address, credential and model names',
      help: 'use another server or account, or remove it from the route',
    });
  });
}

/** Below the price of a million tokens at any provider, and above the price of a single token. */
const LEAST_USD_PER_MILLION = 0.001;

const TOKEN_PRICES: ReadonlySet<string> = new Set([
  'input',
  'output',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'audio_input',
  'audio_output',
]);

const MAX_MULTIPLIER = 10;
const MULTIPLIERS: ReadonlySet<string> = new Set(['price_multiplier', 'multiplier']);

function lintPrices(node: Node, findings: Findings): void {
  for (const { key, value } of entriesOf(node)) {
    lintPrices(value, findings);
    const factor = value.kind === 'scalar' && MULTIPLIERS.has(key) ? value.value : undefined;
    if (typeof factor !== 'number' || factor <= MAX_MULTIPLIER) continue;
    findings.report('W7180', value.mark, `${keyName(key)} makes everything ${factor} times as expensive`, {
      help: `for ${factor} percent of the price, write ${Number(`${factor}e-2`)}`,
    });
  }
  for (const { key, value: node_of_price } of entriesOf(node).filter((entry) => TOKEN_PRICES.has(entry.key))) {
    const value = node_of_price.kind === 'scalar' ? node_of_price.value : undefined;
    if (typeof value !== 'number' || value === 0 || value >= LEAST_USD_PER_MILLION) continue;
    findings.report('W7180', node_of_price.mark, `${keyName(key)} looks like the price of one token`, {
      found: `${value} USD per million tokens`,
      help: `prices are per million tokens: write ${Number(`${value}e6`)}`,
    });
    return;
  }
}

const HELP =
  'without `models`, the gateway only serves models of the catalogue: list all models under `models`, this one with `pricing`';

/** Warns about references of a gateway.yaml without `models` to models that the price catalogue does not have. */
function lintFoundModels(config: GatewayConfig, root: MapNode, findings: Findings): void {
  const at_homes = config.upstreams.map(({ base_url }) => idsAt(base_url));
  const ids = [...new Set(at_homes.flat())];
  // The catalogue lists the models of some providers only; elsewhere a glob cannot be checked.
  const are_complete = at_homes.every(({ length }) => length > 0);
  for (const path of ['routing.rules.*', 'access.rules.*', 'token_groups.*']) {
    for (const { text, mark } of textsAt(root, `${path}.models.*`)) {
      const is_glob = text.includes('*');
      const matching = ids.some((id) => matchesGlob(text, id));
      if (is_glob ? matching || !are_complete : modelById(text, config) !== undefined) continue;
      const what = is_glob ? `no model that matches ${quote(text)}` : `no model ${quote(text)}`;
      findings.report('W7190', mark, `the price catalogue (${CATALOGUE_DATE}) has ${what}`, {
        help: didYouMean(text, are_complete ? ids : [], HELP),
      });
    }
    for (const { text, mark } of textsAt(root, `${path}.families.*`))
      findings.report('W7002', mark, `no model is of the family ${quote(text)}`, {
        help: 'families are set under `models`; without that section, use globs: models: [...]',
      });
  }
}

/** Reserved domains (RFC 2606, RFC 6761): placeholders in examples. */
const RESERVED = /(?:^|\.)(?:example(?:\.(?:com|net|org))?|test|invalid)\.?$/;

/** Warns about gaps for requests translated into Messages: unknown names of version headers, unknown output limits. */
export function lintTranslation(
  { upstreams, models, routing }: GatewayConfig,
  pipelines: readonly PipelineSpec[],
  root: MapNode,
  findings: Findings,
): void {
  const namesOf = ({ protocols: [to] }: UpstreamConfig) =>
    pipelines.filter((pipeline) => translatesInto(pipeline, to!)).map(({ name }) => name);
  const reached = models.map((model) => reaches(model, routing));
  for (const [index, upstream] of upstreams.entries()) {
    const { name, base_url, profile, protocols } = upstream;
    const names = namesOf(upstream);
    const { form_headers, name: protocol } = definitionOf(protocols[0]);
    if (names.length === 0 || Object.keys(form_headers).length === 0 || profile !== undefined) continue;
    if (RESERVED.test(new URL(base_url).hostname) || !reached.some((places) => places.has(name))) continue;
    const { mark } = nodeAt(root, `/upstreams/${index}/base_url`);
    findings.report('W7026', mark, `no profile names the version and feature headers of the upstream ${quote(name)}`, {
      expected: `\`profile\`, because requests are translated into ${protocol} in ${inPipelines(names)}`,
      help: 'write `profile: anthropic` beside `base_url`, or name a profile file',
    });
  }
  const bounded = upstreams.filter(({ protocols }) => definitionOf(protocols[0]).output.is_required);
  for (const [index, model] of models.entries()) {
    const reached_ones = bounded.filter(({ name }) => reached[index]!.has(name));
    const names = [...new Set(reached_ones.flatMap(namesOf))];
    if (!model.assumed.includes('max_output_tokens') || names.length === 0) continue;
    const { mark } = nodeAt(root, `/models/${index}/id`);
    const sent = `\`max_tokens: ${model.default_output_tokens}\``;
    findings.report('W7027', mark, `the output limit of the model ${quote(model.id)} is unknown`, {
      help: `set max_output_tokens; without it, the gateway sends ${sent} for requests without a limit in ${inPipelines(names)}`,
    });
  }
}

function inPipelines(names: readonly string[]): string {
  return `the pipeline${names.length > 1 ? 's' : ''} ${listed(names.map(quote)).replace(/ or (\S+)$/, ' and $1')}`;
}

/** Whether a pipeline serves clients of another protocol, and translates their requests. */
function translatesInto({ match, stages }: PipelineSpec, to: Protocol): boolean {
  const protocol = protocolOf(match.protocol);
  if (protocol === undefined || protocol === to) return false;
  return stages.some(({ definition, mode }) => definition.name === 'translate' && mode === 'enforce');
}
