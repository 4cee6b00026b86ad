import { createHash } from 'node:crypto';
import type { GatewayConfig, UpstreamConfig } from '../contract/config.ts';
import {
  accessSteps,
  type DryRun,
  decisionOf,
  entryStep,
  limitSteps,
  routingSteps,
  type SentStep,
  type StageStep,
  spendingSteps,
  upstreamSteps,
} from '../explain/dry-run.ts';
import { secretPlace } from '../kit/secret-names.ts';
import { flatFacts } from '../rules/fact-view.ts';
import type { Loaded } from '../source/spec.ts';
import type { Call, Played } from './suite/played.ts';
import type { StageTrace } from './suite/watch.ts';

/** Facts that a dry run makes up: the token is new, and nobody answers. */
const MADE_UP =
  /^(?:principal\.(?:id|token\.(?:id|name))|request\.id|upstream\..*|usage\..*|outcome\.(?!error|status).*)$/;

const isReal = (path: string, told: ReadonlySet<string>): boolean => told.has(path) || !MADE_UP.test(path);

function stageStep(trace: StageTrace, shadow: readonly string[], told: ReadonlySet<string>): StageStep {
  const { entry, list, guard, ran, wrote, raised } = trace;
  const skipped = guard?.held === false || shadow.includes(entry.id);
  return {
    ...entryStep(entry, list),
    ...(guard === undefined || entry.when === undefined ? {} : { guard: decisionOf(entry.when, guard.facts) }),
    fate: ran ? 'runs' : skipped ? 'skipped' : 'unreached',
    wrote: Object.fromEntries([...wrote].filter(([path]) => isReal(path, told))),
    ...(raised === undefined ? {} : { raised }),
  };
}

/** What is told of a header whose value is a secret of the upstream. */
function fixedSecret(header: NonNullable<UpstreamConfig['headers']>[string] | undefined): string | undefined {
  return header === undefined || typeof header === 'string'
    ? undefined
    : `the value of ${secretPlace(header.value_env)}`;
}

function headerPairs(call: Call, config: GatewayConfig, host: string): [string, string][] {
  const { api_key_env, auth_token_env, headers = {} } = config.upstreams.find(({ name }) => name === call.upstream)!;
  const bearer_env = auth_token_env ?? api_key_env;
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < call.raw_headers.length; i += 2) {
    const [name, value] = [call.raw_headers[i]!, call.raw_headers[i + 1]!];
    const lower = name.toLowerCase();
    if (lower === 'host') pairs.push([name, host]);
    else if (lower === 'x-api-key' && api_key_env !== undefined)
      pairs.push([name, `the value of ${secretPlace(api_key_env)}`]);
    else if (lower === 'authorization' && bearer_env !== undefined)
      pairs.push([name, `Bearer, the value of ${secretPlace(bearer_env)}`]);
    else pairs.push([name, fixedSecret(headers[lower]) ?? value]);
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

/**
 * What was played, as an account of every decision. `undefined` when no pipeline serves the request.
 * @param told facts that are made up elsewhere, and were told here.
 */
export function describePlayed(
  loaded: Loaded,
  config: GatewayConfig,
  played: Played,
  told: ReadonlySet<string> = new Set(),
): DryRun | undefined {
  const { trace, facts, response } = played;
  if (trace === undefined) return undefined;
  const known = Object.fromEntries(flatFacts(facts));
  const shadow = (known['outcome.shadow'] as readonly string[] | undefined) ?? [];
  const stages = trace.stages.map((stage) => stageStep(stage, shadow, told));
  const sent = sentStep(played, config);
  const own_answer = sent === undefined && response !== undefined;
  const charge = chargeOf(played);
  return {
    pipeline: trace.pipeline.name,
    // What came after sending is made up, its outcome included.
    facts: Object.fromEntries(
      Object.entries(known).filter(
        ([path]) => isReal(path, told) && (sent === undefined || !/^(?:outcome|error)\./.test(path)),
      ),
    ),
    stages,
    routing: known['route.rule'] === undefined ? [] : routingSteps(loaded, config, facts),
    upstreams: upstreamSteps(config, known),
    access: known['route.upstream'] === undefined ? [] : accessSteps(loaded, config, facts),
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
