import type { GatewayConfig, ModelConfig, RouteUpstream, RoutingRuleConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { Candidate } from '../../base/contract/forwarding.ts';
import { containingFact } from '../../base/contract/own-facts.ts';
import type {
  AuditRecord,
  CacheLifetime,
  FactView,
  ModelCaller,
  ModelCatalog,
  ModelRefusal,
} from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { pathFinder } from '../../base/kit/path-patterns.ts';
import { factView } from '../../base/rules/fact-view.ts';
import type { Loaded, PipelineSpec, StageEntry } from '../../base/source/spec.ts';
import type { Database } from '../../base/store/database.ts';
import { RECORDED_FACTS, recordedFacts, seenFacts } from '../../domain/audit/recorded-facts.ts';
import type { Counted } from '../../domain/budget/limits/headroom.ts';
import { type RequestAttempt, readRequestAttempts } from '../../domain/budget/reports/request-ledger.ts';
import { readCounted } from '../../domain/budget/reports/spending.ts';
import { findAuditRecord } from '../../domain/budget/reports/usage.ts';
import { createManagedPolicies } from '../../domain/policies/managed-policies.ts';
import { createModelCatalog } from '../../domain/upstreams/models.ts';
import { type Choosing, chooseCandidates, createRoute, modelFacts, type Route } from '../../domain/upstreams/routes.ts';
import {
  accessSteps,
  type DryRun,
  decisionOf,
  entryStep,
  limitsOfPast,
  routingSteps,
  type StageStep,
  spendingSteps,
  upstreamSteps,
} from './dry-run.ts';
import { attemptsOf, traceOf } from './trace.ts';

type Facts = Readonly<Record<string, unknown>>;

/** States of upstreams that all work. */
const NOTHING_KNOWN: Choosing = {
  states: {
    unavailable: () => undefined,
    begin: () => ({ report() {}, leave() {} }),
    takeRetry: () => undefined,
    active: () => 0,
    share: () => 1,
    affinity: () => undefined,
    remember() {},
    list: () => [],
  },
  now: () => 0,
  random: () => 0,
};

/** The caller of a past request. */
export function callerOf(facts: Facts): ModelCaller {
  const group = facts['principal.token.group'] as string | undefined;
  return {
    token_group: group,
    groups: (facts['principal.groups'] as readonly string[] | undefined) ?? [],
    email: (facts['principal.email'] as string | undefined) ?? '',
  };
}

/** Why a caller may not use a model. */
export function formatRefusal(refusal: ModelRefusal, id: string): string {
  if (refusal.by === 'policy') return `the policy ${refusal.policy} does not list ${id}`;
  if (refusal.by === 'list') return `no upstream lists ${id}`;
  if (refusal.token_group === undefined) return 'the caller is not in any token group';
  return `the token group ${refusal.token_group} may not use ${id}`;
}

type Routed = { readonly wrote: Facts } | { readonly refusal: { readonly code: string; readonly message: string } };

/** The facts that `resolve-route` would write now for a past request, or its error. */
function pastRoute(loaded: Loaded, config: GatewayConfig, pipeline: PipelineSpec, facts: Facts): Routed {
  const id = String(facts['request.model']);
  const catalog = createModelCatalog(config, createManagedPolicies(config, loaded.policies));
  const model = catalog.find(id);
  if (model === undefined) return { refusal: { code: 'model_not_found', message: `there is no model ${id}` } };
  const refused = catalog.refusal(callerOf(facts), model);
  if (refused !== undefined) {
    return { refusal: { code: 'model_not_found', message: formatRefusal(refused, id) } };
  }
  const matched = routingSteps(loaded, config, viewOf({ ...facts, ...modelFacts(model) })).find(
    ({ held, mode }) => held && mode === 'enforce',
  );
  const rule = config.routing.rules.find(({ name }) => name === matched?.name);
  return createPastRoutes(config, catalog, pipeline)(model, rule, facts);
}

/** Creates a function that routes past requests by a rule, or by the default; it caches routes. */
export function createPastRoutes(
  config: GatewayConfig,
  catalog: ModelCatalog,
  pipeline: PipelineSpec,
): (model: ModelConfig, rule: RoutingRuleConfig | undefined, facts: Facts) => Routed {
  const surroundings = { upstream: (name: string) => catalog.upstream(name), translates: translates(pipeline) };
  const routes = new Map<RoutingRuleConfig | undefined, Route>();
  return (model, rule, facts) => {
    const entries = rule?.upstreams ?? config.routing.default_upstreams;
    const route = routes.get(rule) ?? createRoute(entries, surroundings, rule);
    routes.set(rule, route);
    try {
      return { wrote: routeFacts(choose(route, model, facts), entries, { model, rule }) };
    } catch (error) {
      if (!(error instanceof StageError)) throw error;
      return { refusal: { code: error.code, message: error.message } };
    }
  };
}

function routeFacts(
  chosen: ReturnType<typeof choose>,
  entries: readonly RouteUpstream[],
  { model, rule }: { readonly model: ModelConfig; readonly rule: RoutingRuleConfig | undefined },
): Facts {
  const placeOf = ({ upstream }: Candidate) => entries.findIndex((entry) => entry.upstream === upstream.name);
  // Session affinity is unknown: session keys are not recorded. Upstreams of one order keep their order in the file.
  const able = chosen.candidates.slice(0, chosen.candidates.length - chosen.spare);
  const inOrder = able.toSorted(
    (a, b) => entries[placeOf(a)]!.order - entries[placeOf(b)]!.order || placeOf(a) - placeOf(b),
  );
  return {
    ...modelFacts(model),
    ...set(inOrder[0]!.facts),
    'route.rule': rule?.name ?? 'default',
    ...(entries.length > 1 && { 'route.candidates': inOrder.map(({ upstream }) => upstream.name) }),
    ...(chosen.dropped && { 'route.dropped': chosen.dropped }),
  };
}

function choose(route: ReturnType<typeof createRoute>, model: ModelConfig, facts: Facts) {
  const count = (fact: string) => Number(facts[fact] ?? 0);
  const needs = {
    // As in resolve-route: the tokens of an image are unknown.
    tokens: count('request.image_count') > 0 ? 0 : count('request.input_tokens_estimate') + count('request.max_tokens'),
    cache_ttl: (facts['cache.requested_ttl'] ?? 'none') as CacheLifetime,
    session_key: undefined,
    model: model.id,
    continues: undefined,
    holds_state: false,
  };
  return chooseCandidates(route, route.entries(model, String(facts['request.protocol'])), needs, NOTHING_KNOWN);
}

function translates({ stages }: PipelineSpec): boolean {
  return stages.some(({ definition, mode }) => definition.name === 'translate' && mode === 'enforce');
}

const set = (facts: Facts): Facts =>
  Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));

const viewOf = (facts: Facts): FactView => factView(Object.entries(facts));

/** The step of an entry, as far as the recorded facts determine it. */
function stageStep(entry: StageEntry, list: StageStep['list'], facts: Facts): StageStep {
  const step = { ...entryStep(entry, list), wrote: {} };
  const fate = entry.mode === 'shadow' ? 'skipped' : 'runs';
  if (entry.when === undefined) return { ...step, fate };
  const guard = decisionOf(entry.when, viewOf(facts));
  const seen = guard.reasons.flatMap(({ saw }) => Object.keys(saw));
  const missing = [...new Set(seen)].filter((path) => !RECORDED_FACTS.has(path) && !(containingFact(path) in facts));
  if (missing.length > 0) return { ...step, fate: 'unknown', missing };
  return { ...step, guard, fate: guard.held ? fate : 'skipped' };
}

/** Replays the stages up to the one that responds; the recorded facts get those of the new route. */
function replayStages(pipeline: PipelineSpec, loaded: Loaded, config: GatewayConfig, recorded: Facts) {
  const { stages, finally: last } = pipeline;
  let facts = recorded;
  let answered = false;
  const steps = stages.map((entry): StageStep => {
    if (answered) return { ...entryStep(entry, 'stages'), fate: 'unreached', wrote: {} };
    const step = stageStep(entry, 'stages', facts);
    if (step.fate !== 'runs') return step;
    answered = entry.definition.terminal;
    if (step.stage === 'route-to') {
      const { upstream } = entry.options as { upstream: string };
      facts = { ...facts, 'route.upstream': upstream };
      return { ...step, wrote: { 'route.upstream': upstream } };
    }
    if (step.stage !== 'resolve-route' || facts['request.model'] === undefined) return step;
    const route = pastRoute(loaded, config, pipeline, facts);
    if ('refusal' in route) {
      answered = true;
      return { ...step, raised: route.refusal };
    }
    facts = { ...facts, ...route.wrote };
    const rule = accessSteps(loaded, config, viewOf(facts)).find(({ held, mode }) => held && mode === 'enforce');
    answered = rule !== undefined;
    const raised = rule && { code: 'forbidden', message: `the access rule ${rule.name} rejects it` };
    return { ...step, wrote: route.wrote, ...(raised && { raised }) };
  });
  return { stages: [...steps, ...last.map((entry) => stageStep(entry, 'finally', facts))], facts };
}

/** The `charge` of the pipeline's check-budget stages; `undefined` without one. */
function chargeOf({ stages }: PipelineSpec, steps: readonly StageStep[]): 'full' | 'nothing' | undefined {
  const charging = stages.filter(
    ({ id, definition }) =>
      definition.name === 'check-budget' && steps.some((step) => step.id === id && step.fate === 'runs'),
  );
  if (charging.length === 0) return undefined;
  return charging.some(({ options }) => (options as { charge?: string }).charge !== 'nothing') ? 'full' : 'nothing';
}

function pipelineFor({ pipelines }: Loaded, path: unknown, method: unknown): PipelineSpec {
  const served_path = pathFinder(pipelines.flatMap(({ match }) => match.paths))(String(path));
  const serves = ({ match }: PipelineSpec) =>
    match.paths.includes(served_path ?? '') && match.methods.includes(String(method));
  const pipeline = pipelines.find(serves);
  if (pipeline !== undefined) return pipeline;
  throw new StartError(`no pipeline serves ${String(method)} ${String(path)} any more`, { exit_code: 1 });
}

interface Remembered {
  readonly record: AuditRecord;
  readonly attempts?: readonly RequestAttempt[];
  readonly counted: Counted;
}

/** Reads a past request; `undefined` for an unknown id. Raises store_unavailable. */
export async function recallRequest(
  database: Pick<Database, 'query'>,
  config: GatewayConfig,
  request_id: string,
): Promise<Remembered | undefined> {
  const record = await findAuditRecord(database, request_id);
  if (record === undefined) return undefined;
  const counted = await readCounted(database, Date.now(), config.spend_limits?.time_zone ?? 'UTC');
  const attempts = await readRequestAttempts(database, request_id);
  return { record, attempts, counted };
}

/** Replays a request's audit record with another configuration: guards, routing, spend rules. Raises StartError. */
export function replayRecord(
  { loaded, config }: { readonly loaded: Loaded; readonly config: GatewayConfig },
  { record, attempts = [], counted }: Remembered,
): DryRun {
  const recorded = { ...seenFacts(record), ...recordedFacts(record) };
  const pipeline = pipelineFor(loaded, recorded['request.path'], recorded['request.method']);
  const { stages, facts } = replayStages(pipeline, loaded, config, recorded);
  const view = viewOf(facts);
  const routed = facts['route.upstream'] !== undefined;
  const charge = routed ? chargeOf(pipeline, stages) : undefined;
  return {
    pipeline: pipeline.name,
    past: {
      request_id: String(record.request_id),
      ...(typeof record.trace_id === 'string' && { trace_id: record.trace_id }),
      received_at: String(record.received_at ?? record.at),
      why: traceOf(record, { attempts }).why,
      // The attempts of the ledger also have what may be billed.
      attempts: attempts.length > 0 ? attempts : attemptsOf(record),
      dropped: Array.isArray(record.dropped) ? record.dropped.map(String) : [],
    },
    facts,
    stages,
    routing: routed ? routingSteps(loaded, config, view) : [],
    access: routed ? accessSteps(loaded, config, view) : [],
    upstreams: upstreamSteps(config, facts),
    spending: charge === undefined ? [] : spendingSteps(loaded, config, view, charge),
    limits: charge === undefined ? [] : limitsOfPast(config, facts, view, counted, charge),
    shadow: [],
  };
}
