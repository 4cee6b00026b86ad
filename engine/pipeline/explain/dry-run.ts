import type { GatewayConfig, RouteUpstream, RoutingRuleConfig } from '../../base/contract/config.ts';
import type { DropReason } from '../../base/contract/forwarding.ts';
import { type Protocol, protocolOf } from '../../base/contract/protocol.ts';
import type { FactView, LimitChanges } from '../../base/contract/services.ts';
import { nanoToUsd } from '../../base/kit/money.ts';
import { compileCondition } from '../../base/rules/compile.ts';
import { type AccessRule, accessRules, formatRoute, routingRules } from '../../base/rules/config-rules.ts';
import { flatFacts } from '../../base/rules/fact-view.ts';
import { formatCondition } from '../../base/rules/format-condition.ts';
import { type Reason, reasonsOf, traceCondition } from '../../base/rules/trace.ts';
import type { Loaded, StageEntry } from '../../base/source/spec.ts';
import {
  type Counted,
  type DemandStatus,
  demandStatuses,
  type Needs,
  withCounters,
} from '../../domain/budget/limits/headroom.ts';
import { compileLimits, describeLimit, type SpendLimit, spendLimits } from '../../domain/budget/limits/spend-limits.ts';
import { modelOf } from '../../domain/budget/prices/known-models.ts';
import type { RequestAttempt } from '../../domain/budget/reports/request-ledger.ts';
import { cacheFate } from '../../domain/upstreams/routes.ts';
import { ACCESS_EFFECT } from './rules.ts';

/** The result of a condition for a request. */
export interface Decision {
  readonly text: string;
  readonly held: boolean;
  readonly reasons: readonly Reason[];
}

/** One entry of the pipeline, as evaluated for a request. */
export interface StageStep {
  readonly list: 'stages' | 'on_error' | 'finally';
  readonly id: string;
  readonly stage: string;
  readonly line: number;
  readonly mode: 'enforce' | 'shadow';
  /** Absent for an entry without a guard, and for one that was not reached. */
  readonly guard?: Decision;
  /** `skipped` by its guard or its mode; `unknown` if its guard reads facts that the audit log does not record. */
  readonly fate: 'runs' | 'skipped' | 'unreached' | 'unknown';
  readonly missing?: readonly string[];
  readonly wrote: Readonly<Record<string, unknown>>;
  readonly raised?: { readonly code: string | undefined; readonly message: string };
}

/** The request that an upstream would get. */
export interface SentStep {
  readonly upstream: string;
  readonly method: string;
  readonly url: string;
  /** Names and values; in place of a credential, the name of its variable. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body_bytes: number;
  readonly sha256: string;
  readonly unchanged: boolean;
  /** Top-level keys of the body that a stage rewrote; `*` for the whole body. */
  readonly rewrites: readonly string[];
}

/** The decisions about a request, evaluated without sending it. */
export interface DryRun {
  readonly pipeline: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly stages: readonly StageStep[];
  readonly routing: readonly RuleStep[];
  /** Empty for a route with one upstream. */
  readonly upstreams: readonly UpstreamStep[];
  readonly access: readonly RuleStep[];
  readonly spending: readonly RuleStep[];
  readonly limits: readonly LimitStep[];
  readonly shadow: readonly string[];
  readonly sent?: SentStep;
  /** The gateway's own response; absent when the upstream's response would be relayed. */
  readonly answer?: { readonly status: number; readonly error: string | undefined; readonly message: string };
  readonly past?: {
    readonly request_id: string;
    readonly trace_id?: string;
    readonly received_at: string;
    readonly why: string;
    /** In order; empty if it was not sent, or no longer recorded. */
    readonly attempts: readonly RequestAttempt[];
    readonly dropped: readonly string[];
  };
}

/** Evaluates a condition for these facts. */
export function decisionOf(logic: unknown, facts: FactView): Decision {
  const trace = traceCondition(logic, facts);
  const held = Array.isArray(trace.value) ? trace.value.length > 0 : Boolean(trace.value);
  return { text: formatCondition(logic), held, reasons: reasonsOf(trace) };
}

/** The static part of a step. */
export function entryStep(entry: StageEntry, list: StageStep['list']) {
  return { list, id: entry.id, stage: entry.definition.name, line: entry.position.line, mode: entry.mode };
}

type Rule = Pick<AccessRule, 'pointer' | 'name' | 'mode' | 'logic'>;

/** A rule of gateway.yaml, as evaluated for a request. */
export type RuleStep = ReturnType<typeof ruleStep>;

function ruleStep({ pointer, name, mode, logic }: Rule, loaded: Loaded, facts: FactView, effect: string) {
  const line = loaded.positionOf(pointer)?.line;
  return { ...decisionOf(logic, facts), name, mode, line, after_decision: false, effect };
}

/** Marks the rules below the first match. */
function inOrder(steps: readonly RuleStep[]): RuleStep[] {
  const first = steps.findIndex(({ held, mode }) => held && mode === 'enforce');
  return steps.map((step, i) => ({ ...step, after_decision: first >= 0 && i > first }));
}

/** Every routing rule. */
export function routingSteps(loaded: Loaded, config: GatewayConfig, facts: FactView): RuleStep[] {
  return inOrder(routingRules(config).map((rule) => ruleStep(rule, loaded, facts, `goes to ${formatRoute(rule)}`)));
}

/** Every access rule. */
export function accessSteps(loaded: Loaded, config: GatewayConfig, facts: FactView): RuleStep[] {
  return inOrder(accessRules(config).map((rule) => ruleStep(rule, loaded, facts, ACCESS_EFFECT)));
}

/** Why limits do not apply to a caller although the condition of their rule is true. */
function exemptions({ scopes, limit, by_group }: SpendLimit, facts: FactView): string[] {
  const principal = facts.principal as { readonly groups?: readonly string[] } | undefined;
  const known = new Set(flatFacts(facts).map(([path]) => path));
  const lacking = scopes.filter(
    (scope) => (scope === 'team' || scope === 'project') && !known.has(`principal.${scope}`),
  );
  const in_no_group = limit === undefined && !principal?.groups?.some((group) => Object.hasOwn(by_group ?? {}, group));
  return [...lacking.map((scope) => `has no ${scope}`), ...(in_no_group ? ['is in none of these groups'] : [])];
}

function spendingEffect(limits: readonly SpendLimit[], facts: FactView): string {
  const effect = limits.map((each) => describeLimit(each)).join(' and ');
  const reasons = [...new Set(limits.flatMap((limit) => exemptions(limit, facts)))];
  return reasons.length === 0 ? effect : `${effect}, and the caller ${reasons.join(' and ')}`;
}

/** Evaluates every spend rule for these facts. With `charge: nothing`, only rules on requests count. */
export function spendingSteps(
  loaded: Loaded,
  config: GatewayConfig,
  facts: FactView,
  charge: 'full' | 'nothing' = 'full',
): RuleStep[] {
  const limits = spendLimits(config).filter(({ pointer }) => pointer.startsWith('/spend_limits/rules/'));
  const charging = limits.filter(({ unit }) => charge === 'full' || unit === 'requests');
  return [...Map.groupBy(charging, ({ pointer }) => pointer).values()].map((of_rule) =>
    ruleStep(of_rule[0]!, loaded, facts, spendingEffect(of_rule, facts)),
  );
}

/** A limit as the request would find it; amounts in its unit. `changed`: by whom and until when, at run time. */
export type LimitStep = ReturnType<typeof limitSteps>[number];

const isoTime = (at: number) => new Date(at).toISOString();

function changedStep({ set, grants }: LimitChanges, shown: (amount: number) => number) {
  return {
    set: set && { at: isoTime(set.at), by: set.by },
    grants: grants.map(({ amount, at, by, expires_at }) => ({
      ...{ amount: shown(amount), at: isoTime(at), by, expires_at: isoTime(expires_at) },
    })),
  };
}

/** The limits among the counters of a request; money in USD. */
export function limitSteps(statuses: readonly DemandStatus[]) {
  return statuses.flatMap((status) => {
    const { rule, scope, key, window, unit, room, in_force, spent, reserved, needed, shadow, changes } = status;
    // A counter without a limit.
    if (in_force === null) return [];
    const shown = (amount: number) => (unit === 'nano_usd' ? nanoToUsd(amount) : amount);
    return {
      ...{ rule, scope, key, window, unit: unit === 'nano_usd' ? ('usd' as const) : unit },
      ...{ limit: shown(in_force), spent: shown(spent), reserved: shown(reserved), needed: shown(needed), room },
      ...(changes !== undefined && shadow !== true && { changed: changedStep(changes, shown) }),
    };
  });
}

/** The limits that apply to a request, with what is spent and reserved now. What it needs is estimated: its body is not recorded. */
export function limitsOfPast(
  config: GatewayConfig,
  facts: Readonly<Record<string, unknown>>,
  view: FactView,
  counted: Counted,
  charge: 'full' | 'nothing' = 'full',
): LimitStep[] {
  const text = (path: string) => facts[path] as string | undefined;
  const number = (path: string) => Number(facts[path] ?? 0);
  const keys = {
    user: text('principal.email'),
    team: text('principal.team'),
    project: text('principal.project'),
    token: text('principal.token.id'),
    model: text('request.model'),
    upstream: text('route.upstream'),
  };
  const { spend_limits } = config;
  const amount_nano_usd = number('route.worst_case_nano_usd') || number('route.estimate_nano_usd');
  const likely: Needs = {
    amount_nano_usd,
    most_nano_usd: amount_nano_usd,
    tokens: number('request.input_tokens_estimate') + number('request.max_tokens') * (number('request.choices') || 1),
    ...(spend_limits?.reserve === 'typical' && { overshoot_percent: spend_limits.overshoot_percent }),
  };
  const groups = (facts['principal.groups'] as readonly string[] | undefined) ?? [];
  const { demands } = compileLimits(config, compileCondition, { charge }).demandsOf(keys, groups, () => view);
  return limitSteps(demandStatuses(withCounters(demands, counted, Date.now()), likely));
}

/** An upstream of a request's route, and whether it can serve the request. */
export interface UpstreamStep {
  readonly upstream: string;
  readonly upstream_model: string;
  readonly order: number;
  readonly weight: number;
  /** Its position in the order of attempts, from 1; absent if it is skipped. */
  readonly turn?: number;
  readonly dropped?: DropReason;
  /** Whether it is tried after all others have failed. */
  readonly is_last_resort?: true;
  readonly translated_into?: Protocol;
  /** Whether a requested 1-hour prompt cache becomes one of five minutes. */
  readonly cache_downgraded?: true;
}

type Facts = Readonly<Record<string, unknown>>;

/** The upstreams of a request's route: the candidates in order of attempts, then the others. Empty for a single upstream. */
export function upstreamSteps(config: GatewayConfig, facts: Facts): UpstreamStep[] {
  const candidates = facts['route.candidates'] as readonly string[] | undefined;
  if (candidates === undefined) return [];
  const rule = config.routing.rules.find(({ name }) => name === facts['route.rule']);
  const entries = rule?.upstreams ?? config.routing.default_upstreams;
  const reasons = new Map(
    ((facts['route.dropped'] ?? []) as readonly string[]).map((text) => text.split(': ') as [string, DropReason]),
  );
  const about = (name: string) => stepOf(entries.find(({ upstream }) => upstream === name)!, config, facts, rule);
  return [
    ...candidates.map((name, index) => {
      const { step, changes } = about(name);
      return { ...step, ...changes, turn: index + 1 };
    }),
    ...entries.flatMap(({ upstream: name }): UpstreamStep[] => {
      const dropped = reasons.get(name);
      if (dropped === undefined || candidates.includes(name)) return [];
      const { step, changes, fate } = about(name);
      if (dropped === 'cache' && fate !== 'refuse') return [{ ...step, ...changes, dropped, is_last_resort: true }];
      // It is skipped, so translation and cache changes do not apply.
      return [{ ...step, dropped }];
    }),
  ];
}

function stepOf(
  { upstream: name, order, weight }: RouteUpstream,
  config: GatewayConfig,
  facts: Facts,
  rule: RoutingRuleConfig | undefined,
) {
  const upstream = config.upstreams.find((each) => each.name === name)!;
  const model = modelOf(config, String(facts['request.model']))!;
  const keeps_hour = upstream.supports.prompt_cache_1h && model.supports.prompt_cache_1h;
  const fate = cacheFate(facts['cache.requested_ttl'] as string | undefined, keeps_hour, upstream, rule);
  const spoken = protocolOf(String(facts['request.protocol']));
  const is_translated = spoken !== undefined && !upstream.protocols.includes(spoken);
  const step: UpstreamStep = { upstream: name, upstream_model: model.upstream_ids[name] ?? model.id, order, weight };
  const changes: Partial<UpstreamStep> = {
    ...(is_translated && { translated_into: upstream.protocols[0]! }),
    ...(fate === 'downgrade' && { cache_downgraded: true }),
  };
  return { step, changes, fate };
}
