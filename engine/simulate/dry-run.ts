import { createHash } from 'node:crypto';
import type { GatewayConfig } from '../contract/config.ts';
import type { FactView } from '../contract/services.ts';
import { describeLimit, type SpendLimit, spendLimits } from '../money/limits/spend-limits.ts';
import type { RequestAttempt } from '../money/reports/request-attempts.ts';
import { formatRoute, routingRules } from '../rules/config-rules.ts';
import { flatFacts } from '../rules/fact-view.ts';
import { formatCondition } from '../rules/format-condition.ts';
import { type Reason, reasonsOf } from '../rules/reasons.ts';
import { traceCondition } from '../rules/trace.ts';
import type { Loaded, StageEntry } from '../source/spec.ts';
import { type LimitStep, limitSteps } from './dry-run-limits.ts';
import { type UpstreamStep, upstreamSteps } from './dry-run-upstreams.ts';
import type { Call, Played } from './suite/played.ts';
import type { StageTrace } from './suite/watch.ts';

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

/** Facts that a dry run makes up: the token is new, and nobody answers. */
const MADE_UP =
  /^(?:principal\.(?:id|token\.(?:id|name))|request\.id|upstream\..*|usage\..*|outcome\.(?!error|status).*)$/;

const isReal = (path: string): boolean => !MADE_UP.test(path);

function stageStep(trace: StageTrace, shadow: readonly string[]): StageStep {
  const { entry, list, guard, ran, wrote, raised } = trace;
  const skipped = guard?.held === false || shadow.includes(entry.id);
  return {
    ...entryStep(entry, list),
    ...(guard === undefined || entry.when === undefined ? {} : { guard: decisionOf(entry.when, guard.facts) }),
    fate: ran ? 'runs' : skipped ? 'skipped' : 'unreached',
    wrote: Object.fromEntries([...wrote].filter(([path]) => isReal(path))),
    ...(raised === undefined ? {} : { raised }),
  };
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
  const effect = limits.map(describeLimit).join(' and ');
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

function headerPairs(call: Call, config: GatewayConfig, host: string): [string, string][] {
  const { api_key_env, auth_token_env } = config.upstreams.find(({ name }) => name === call.upstream)!;
  const bearer_env = auth_token_env ?? api_key_env;
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < call.raw_headers.length; i += 2) {
    const [name, value] = [call.raw_headers[i]!, call.raw_headers[i + 1]!];
    const lower = name.toLowerCase();
    if (lower === 'host') pairs.push([name, host]);
    else if (lower === 'x-api-key' && api_key_env !== undefined) pairs.push([name, `the value of ${api_key_env}`]);
    else if (lower === 'authorization' && bearer_env !== undefined)
      pairs.push([name, `Bearer, the value of ${bearer_env}`]);
    else pairs.push([name, value]);
  }
  return pairs;
}

function sentStep({ calls, sent_body, facts }: Played, config: GatewayConfig): SentStep | undefined {
  const [call] = calls;
  if (call === undefined) return undefined;
  const { origin, host } = new URL(config.upstreams.find(({ name }) => name === call.upstream)!.base_url);
  return {
    upstream: call.upstream,
    method: call.method,
    url: `${origin}${call.url}`,
    headers: headerPairs(call, config, host),
    body_bytes: call.body.length,
    sha256: createHash('sha256').update(call.body).digest('hex'),
    unchanged: call.body.equals(sent_body),
    rewrites: (Object.fromEntries(flatFacts(facts))['outcome.rewrites'] as readonly string[] | undefined) ?? [],
  };
}

function messageOf(body: Buffer): string {
  try {
    const { error } = JSON.parse(body.toString()) as { error?: { message?: string } };
    return error?.message ?? '';
  } catch {
    return '';
  }
}

/** What the request was charged: counting tokens, for one, costs nothing. `undefined` where no budget was asked. */
function chargeOf({ reservations }: Played): 'full' | 'nothing' | undefined {
  if (reservations.length === 0) return undefined;
  return reservations.some(({ request }) => request.most_nano_usd > 0) ? 'full' : 'nothing';
}

/** The error a client would be told: that of the clause which answers in its place, or the one that was raised. */
function errorTold(stages: readonly StageStep[], raised: unknown): string | undefined {
  const told = stages.find(({ list, raised: by_clause }) => list === 'on_error' && by_clause?.code !== undefined);
  return told?.raised?.code ?? (raised as string | undefined);
}

/** What was played, as an account of every decision. `undefined` when no pipeline serves the request. */
export function describePlayed(loaded: Loaded, config: GatewayConfig, played: Played): DryRun | undefined {
  const { trace, facts, response } = played;
  if (trace === undefined) return undefined;
  const known = Object.fromEntries(flatFacts(facts));
  const shadow = (known['outcome.shadow'] as readonly string[] | undefined) ?? [];
  const stages = trace.stages.map((stage) => stageStep(stage, shadow));
  const sent = sentStep(played, config);
  const own_answer = sent === undefined && response !== undefined;
  const charge = chargeOf(played);
  return {
    pipeline: trace.pipeline.name,
    // What came after sending is made up, its outcome included.
    facts: Object.fromEntries(
      Object.entries(known).filter(
        ([path]) => isReal(path) && (sent === undefined || !/^(?:outcome|error)\./.test(path)),
      ),
    ),
    stages,
    routing: known['route.rule'] === undefined ? [] : routingSteps(loaded, config, facts),
    upstreams: upstreamSteps(config, known),
    spending: charge === undefined ? [] : spendingSteps(loaded, config, facts, charge),
    limits: played.reservations.flatMap(({ statuses }) => limitSteps(statuses)),
    shadow,
    ...(sent === undefined ? {} : { sent }),
    ...(own_answer
      ? {
          answer: {
            status: response.status,
            error: errorTold(stages, known['outcome.error']),
            message: messageOf(response.body),
          },
        }
      : {}),
  };
}
