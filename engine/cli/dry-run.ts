import { createHash } from 'node:crypto';
import type { FactView } from '../api.ts';
import type { GatewayConfig } from '../config.ts';
import type { Loaded, StageEntry } from '../load/spec.ts';
import { describeLimit, routingRules, type SpendRule, spendRules } from '../rules/config-rules.ts';
import { flatFacts } from '../rules/fact-view.ts';
import { type Reason, reasonsOf } from '../rules/reasons.ts';
import { traceCondition } from '../rules/trace.ts';
import { describeCondition } from '../rules/words.ts';
import { nanoToUsd } from '../services/money.ts';
import type { Call, Played } from '../testing/played.ts';
import type { StageTrace } from '../testing/watch.ts';

/** A condition as it turned out for a request. */
export interface Verdict {
  readonly in_words: string;
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
  readonly guard?: Verdict;
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
export interface RuleStep extends Verdict {
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  readonly line: number | undefined;
  /** Whether an earlier rule had decided already. */
  readonly after_decision: boolean;
  /** What it leads to. */
  readonly effect: string;
}

/** A limit as the request would find it; amounts in USD. */
export interface LimitStep {
  readonly rule: string;
  readonly scope: string;
  readonly key: string;
  readonly window: string;
  readonly limit_usd: number;
  readonly spent_usd: number;
  readonly held_usd: number;
  readonly needed_usd: number;
  readonly room: boolean;
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
}

/** All that can be told about a request without sending it. */
export interface DryRun {
  readonly pipeline: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly stages: readonly StageStep[];
  readonly routing: readonly RuleStep[];
  readonly spending: readonly RuleStep[];
  readonly limits: readonly LimitStep[];
  readonly shadow: readonly string[];
  /** Absent when the request would not leave the gateway. */
  readonly sent?: SentStep;
  /** What the gateway itself would answer; absent when the upstream's answer would be passed on. */
  readonly answer?: { readonly status: number; readonly error: string | undefined; readonly message: string };
  /** The request of the past that this is about, of which only the rules were looked at again. */
  readonly past?: { readonly request_id: string; readonly received_at: string };
}

/** How a condition turns out for these facts. */
export function verdictOf(logic: unknown, facts: FactView): Verdict {
  const trace = traceCondition(logic, facts);
  const held = Array.isArray(trace.value) ? trace.value.length > 0 : Boolean(trace.value);
  return { in_words: describeCondition(logic), held, reasons: reasonsOf(trace) };
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
    ...(guard === undefined || entry.when === undefined ? {} : { guard: verdictOf(entry.when, guard.facts) }),
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
  return { list, id: entry.id, stage: entry.definition.name, line: entry.place.line, mode: entry.mode };
}

/** Every routing rule in order, with what it said about these facts. */
export function routingSteps(loaded: Loaded, config: GatewayConfig, facts: FactView): RuleStep[] {
  let decided = false;
  return routingRules(config).map(({ index, name, mode, logic, upstream }) => {
    const step: RuleStep = {
      ...verdictOf(logic, facts),
      name,
      mode,
      line: loaded.placeOf(`/routing/rules/${index}`)?.line,
      after_decision: decided,
      effect: `goes to ${upstream}`,
    };
    decided ||= step.held && mode === 'enforce';
    return step;
  });
}

function isSet(facts: FactView, path: string): boolean {
  return flatFacts(facts).some(([known]) => known === path);
}

/** What a spend rule limits, for whom. */
function spendingEffect(rule: SpendRule, facts: FactView): string {
  const { scope } = rule;
  const concerns = (scope !== 'team' && scope !== 'project') || isSet(facts, `principal.${scope}`);
  return concerns ? describeLimit(rule) : `${describeLimit(rule)}, and the caller has no ${scope}`;
}

/** Every spend rule, with whether it applies to these facts. */
export function spendingSteps(loaded: Loaded, config: GatewayConfig, facts: FactView): RuleStep[] {
  return spendRules(config).map((rule) => ({
    ...verdictOf(rule.logic, facts),
    name: rule.name,
    mode: rule.mode,
    line: loaded.placeOf(`/spend_limits/rules/${rule.index}`)?.line,
    after_decision: false,
    effect: spendingEffect(rule, facts),
  }));
}

function limitSteps({ attempts }: Played): LimitStep[] {
  return attempts.flatMap(({ request, standings }) =>
    standings.flatMap(({ rule, scope, key, window, limit_nano_usd: limit, spent_nano_usd, held_nano_usd }) => {
      // Counted, not limited.
      if (limit === null) return [];
      return {
        rule,
        scope,
        key,
        window,
        limit_usd: nanoToUsd(limit),
        spent_usd: nanoToUsd(spent_nano_usd),
        held_usd: nanoToUsd(held_nano_usd),
        needed_usd: nanoToUsd(request.amount_nano_usd),
        room: spent_nano_usd + held_nano_usd + request.amount_nano_usd <= limit,
      };
    }),
  );
}

function headerPairs(call: Call, config: GatewayConfig, host: string): [string, string][] {
  const { api_key_env, auth_token_env } = config.upstreams.find(({ name }) => name === call.upstream)!;
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < call.raw_headers.length; i += 2) {
    const [name, value] = [call.raw_headers[i]!, call.raw_headers[i + 1]!];
    const lower = name.toLowerCase();
    if (lower === 'host') pairs.push([name, host]);
    else if (lower === 'x-api-key' && api_key_env !== undefined) pairs.push([name, `the value of ${api_key_env}`]);
    else if (lower === 'authorization' && auth_token_env !== undefined)
      pairs.push([name, `Bearer, the value of ${auth_token_env}`]);
    else pairs.push([name, value]);
  }
  return pairs;
}

function sentStep({ calls, sent_body }: Played, config: GatewayConfig): SentStep | undefined {
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

/** Whether limits could have refused the request: counting tokens, for one, is charged nothing. */
function isCharged({ attempts }: Played): boolean {
  return attempts.some(
    ({ request, standings }) =>
      request.amount_nano_usd > 0 || standings.some(({ limit_nano_usd }) => limit_nano_usd !== null),
  );
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
    spending: isCharged(played) ? spendingSteps(loaded, config, facts) : [],
    limits: limitSteps(played),
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
