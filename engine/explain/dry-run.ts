import type { GatewayConfig } from '../contract/config.ts';
import type { FactView } from '../contract/services.ts';
import { describeLimit, type SpendLimit, spendLimits } from '../money/limits/spend-limits.ts';
import type { RequestAttempt } from '../money/reports/request-attempts.ts';
import { accessRules, formatRoute, routingRules } from '../rules/config-rules.ts';
import { flatFacts } from '../rules/fact-view.ts';
import { formatCondition } from '../rules/format-condition.ts';
import { type Reason, reasonsOf } from '../rules/reasons.ts';
import { traceCondition } from '../rules/trace.ts';
import type { Loaded, StageEntry } from '../source/spec.ts';
import type { LimitStep } from './limits.ts';
import { ACCESS_EFFECT } from './rules.ts';
import type { UpstreamStep } from './upstreams.ts';

/** A condition as it turned out for a request. */
export interface Decision {
  readonly text: string;
  readonly held: boolean;
  readonly reasons: readonly Reason[];
}

/** What became of one entry of the pipeline. */
export interface StageStep {
  readonly list: 'stages' | 'on_error' | 'finally';
  readonly id: string;
  readonly stage: string;
  readonly line: number;
  readonly mode: 'enforce' | 'shadow';
  /** Absent for an entry without a condition, and for one that was not reached. */
  readonly guard?: Decision;
  /** `skipped` by its guard or its mode; `unknown` where its guard depends on what the audit log does not keep. */
  readonly fate: 'runs' | 'skipped' | 'unreached' | 'unknown';
  /** Facts that the guard depends on and nobody knows any more. */
  readonly missing?: readonly string[];
  /** Facts it wrote. */
  readonly wrote: Readonly<Record<string, unknown>>;
  /** What it refused the request with, or how it failed. */
  readonly raised?: { readonly code: string | undefined; readonly message: string };
}

/** A rule of gateway.yaml as it turned out. */
export interface RuleStep extends Decision {
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  readonly line: number | undefined;
  /** Whether an earlier rule had decided already. */
  readonly after_decision: boolean;
  /** What it leads to. */
  readonly effect: string;
}

/** What an upstream would be sent. */
export interface SentStep {
  readonly upstream: string;
  readonly method: string;
  readonly url: string;
  /** Names and values; credentials by the name of their variable. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body_bytes: number;
  readonly sha256: string;
  /** Whether the body is the client's, byte for byte. */
  readonly unchanged: boolean;
  /** Top-level keys of the body that a stage rewrote; `*` for the whole body. */
  readonly rewrites: readonly string[];
}

/** A request of the past, with what became of it then. */
export interface PastRequest {
  readonly request_id: string;
  /** Absent where its record is of a time when none was kept. */
  readonly trace_id?: string;
  readonly received_at: string;
  /** Why it ended as it did. */
  readonly why: string;
  /** In order; none where it was not sent, or nobody knows any more. */
  readonly attempts: readonly RequestAttempt[];
  /** Upstreams that were not asked, each as `name: reason`. */
  readonly dropped: readonly string[];
}

/** All that can be told about a request without sending it. */
export interface DryRun {
  readonly pipeline: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly stages: readonly StageStep[];
  readonly routing: readonly RuleStep[];
  /** The upstreams of the route, where it has several. */
  readonly upstreams: readonly UpstreamStep[];
  readonly access: readonly RuleStep[];
  readonly spending: readonly RuleStep[];
  readonly limits: readonly LimitStep[];
  readonly shadow: readonly string[];
  /** Absent when the request would not leave the gateway. */
  readonly sent?: SentStep;
  /** What the gateway itself would answer; absent when the upstream's answer would be passed on. */
  readonly answer?: { readonly status: number; readonly error: string | undefined; readonly message: string };
  /** The request of the past that this is about, of which only the rules were looked at again. */
  readonly past?: PastRequest;
}

/** How a condition turns out for these facts. */
export function decisionOf(logic: unknown, facts: FactView): Decision {
  const trace = traceCondition(logic, facts);
  const held = Array.isArray(trace.value) ? trace.value.length > 0 : Boolean(trace.value);
  return { text: formatCondition(logic), held, reasons: reasonsOf(trace) };
}

/** What is known about an entry before any request. */
export function entryStep(
  entry: StageEntry,
  list: StageStep['list'],
): Pick<StageStep, 'list' | 'id' | 'stage' | 'line' | 'mode'> {
  return { list, id: entry.id, stage: entry.definition.name, line: entry.position.line, mode: entry.mode };
}

/** Every routing rule in order, with what it said about these facts. */
export function routingSteps(loaded: Loaded, config: GatewayConfig, facts: FactView): RuleStep[] {
  let decided = false;
  return routingRules(config).map((rule) => {
    const { index, name, mode, logic } = rule;
    const step: RuleStep = {
      ...decisionOf(logic, facts),
      name,
      mode,
      line: loaded.positionOf(`/routing/rules/${index}`)?.line,
      after_decision: decided,
      effect: `goes to ${formatRoute(rule)}`,
    };
    decided ||= step.held && mode === 'enforce';
    return step;
  });
}

/** Every access rule, with what it said about these facts; those below the first that refuses are not asked. */
export function accessSteps(loaded: Loaded, config: GatewayConfig, facts: FactView): RuleStep[] {
  let decided = false;
  return accessRules(config).map(({ index, name, mode, logic }) => {
    const step: RuleStep = {
      ...decisionOf(logic, facts),
      name,
      mode,
      line: loaded.positionOf(`/access/rules/${index}`)?.line,
      after_decision: decided,
      effect: ACCESS_EFFECT,
    };
    decided ||= step.held && mode === 'enforce';
    return step;
  });
}

function isSet(facts: FactView, path: string): boolean {
  return flatFacts(facts).some(([known]) => known === path);
}

/** What keeps the limits of a rule from a caller, although its condition holds. */
function spared({ scopes, limit, by_group }: SpendLimit, facts: FactView): string[] {
  const principal = facts.principal as { readonly groups?: readonly string[] } | undefined;
  const lacking = scopes.filter((scope) => scope === 'team' || scope === 'project');
  const in_no_group = limit === undefined && !principal?.groups?.some((group) => Object.hasOwn(by_group ?? {}, group));
  return [
    ...lacking.filter((scope) => !isSet(facts, `principal.${scope}`)).map((scope) => `has no ${scope}`),
    ...(in_no_group ? ['is in none of these groups'] : []),
  ];
}

/** What the limits of one spend rule allow, for whom. */
function spendingEffect(limits: readonly SpendLimit[], facts: FactView): string {
  const effect = limits.map((each) => describeLimit(each)).join(' and ');
  const reasons = [...new Set(limits.flatMap((limit) => spared(limit, facts)))];
  return reasons.length === 0 ? effect : `${effect}, and the caller ${reasons.join(' and ')}`;
}

/**
 * Every spend rule, with whether it applies to these facts. Rules on what a request costs or uses are left out where it is
 * charged nothing.
 */
export function spendingSteps(
  loaded: Loaded,
  config: GatewayConfig,
  facts: FactView,
  charge: 'full' | 'nothing' = 'full',
): RuleStep[] {
  const limits = spendLimits(config).filter(({ pointer }) => pointer.startsWith('/spend_limits/rules/'));
  const asked = limits.filter(({ unit }) => charge === 'full' || unit === 'requests');
  return [...Map.groupBy(asked, ({ pointer }) => pointer)].map(([pointer, of_rule]) => ({
    ...decisionOf(of_rule[0]!.logic, facts),
    name: of_rule[0]!.name,
    mode: of_rule[0]!.mode,
    line: loaded.positionOf(pointer)?.line,
    after_decision: false,
    effect: spendingEffect(of_rule, facts),
  }));
}
