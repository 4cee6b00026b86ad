import { createHash } from 'node:crypto';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { secretPlace } from '../../base/kit/secret-names.ts';
import { flatFacts } from '../../base/rules/fact-view.ts';
import type { Loaded } from '../../base/source/spec.ts';
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
} from '../../pipeline/explain/dry-run.ts';
import { type ClientResponse, pairs } from './client.ts';
import { parsed } from './suite/expectations.ts';
import type { Call, Played } from './suite/play.ts';
import type { StageTrace } from './suite/watch.ts';

/** Facts that are fake in a dry run: token ids, and everything after sending. */
const MADE_UP =
  /^(?:principal\.(?:id|token\.(?:id|name))|request\.id|upstream\..*|usage\..*|outcome\.(?!error|status).*)$/;

const isReal = (path: string, supplied: ReadonlySet<string>): boolean => supplied.has(path) || !MADE_UP.test(path);

/** An entry as it was evaluated; `shadow` are the ids of entries that shadow mode skipped. */
export function stageStep(
  { entry, list, guard, ran, wrote, raised }: StageTrace,
  shadow: readonly string[],
  isShown: (path: string) => boolean = () => true,
): StageStep {
  const skipped = guard?.held === false || shadow.includes(entry.id);
  return {
    ...entryStep(entry, list),
    ...(guard === undefined || entry.when === undefined ? {} : { guard: decisionOf(entry.when, guard.facts) }),
    fate: ran ? 'runs' : skipped ? 'skipped' : 'unreached',
    wrote: Object.fromEntries([...wrote].filter(([path]) => isShown(path))),
    ...(raised === undefined ? {} : { raised }),
  };
}

function headerPairs({ upstream, raw_headers }: Call, config: GatewayConfig, host: string): [string, string][] {
  const { api_key_env, auth_token_env, headers = {} } = config.upstreams.find(({ name }) => name === upstream)!;
  const bearer_env = auth_token_env ?? api_key_env;
  const secretOf = (secret: string) => `the value of ${secretPlace(secret)}`;
  const fixed = Object.entries(headers).flatMap(([name, header]) =>
    typeof header === 'string' ? [] : [[name, secretOf(header.value_env)] as const],
  );
  const descriptions = new Map([
    ...fixed,
    ...(api_key_env === undefined ? [] : [['x-api-key', secretOf(api_key_env)] as const]),
    ...(bearer_env === undefined ? [] : [['authorization', `Bearer, ${secretOf(bearer_env)}`] as const]),
    ['host', host],
  ]);
  return pairs(raw_headers).map(([name, value]) => [name, descriptions.get(name.toLowerCase()) ?? value]);
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

/** Charge of the request; token counting, for example, is free. `undefined` without a budget check. */
function chargeOf({ reservations }: Played): 'full' | 'nothing' | undefined {
  if (reservations.length === 0) return undefined;
  return reservations.some(({ request }) => request.most_nano_usd > 0) ? 'full' : 'nothing';
}

/** The gateway's own response, with the error of the `on_error` clause that sent it, or the raised one. */
function answerOf({ status, body }: ClientResponse, stages: readonly StageStep[], raised: unknown) {
  const clause = stages.find(({ list, raised: by_clause }) => list === 'on_error' && by_clause?.code !== undefined);
  const { error } = (parsed(body) as { error?: { message?: string } } | null | undefined) ?? {};
  return { status, error: clause?.raised?.code ?? (raised as string | undefined), message: error?.message ?? '' };
}

/** The decisions about a simulated request; `undefined` if no pipeline serves it. @param supplied facts that are not made up */
export function describePlayed(
  loaded: Loaded,
  config: GatewayConfig,
  played: Played,
  supplied: ReadonlySet<string> = new Set(),
): DryRun | undefined {
  const { trace, facts, response } = played;
  if (trace === undefined) return undefined;
  const known = Object.fromEntries(flatFacts(facts));
  const shadow = (known['outcome.shadow'] as readonly string[] | undefined) ?? [];
  const stages = trace.stages.map((stage) => stageStep(stage, shadow, (path) => isReal(path, supplied)));
  const sent = sentStep(played, config);
  const charge = chargeOf(played);
  return {
    pipeline: trace.pipeline.name,
    // Facts after sending are fake, including the outcome.
    facts: Object.fromEntries(
      Object.entries(known).filter(
        ([path]) => isReal(path, supplied) && (sent === undefined || !/^(?:outcome|error)\./.test(path)),
      ),
    ),
    stages,
    routing: known['route.rule'] === undefined ? [] : routingSteps(loaded, config, facts),
    upstreams: upstreamSteps(config, known),
    access: known['route.upstream'] === undefined ? [] : accessSteps(loaded, config, facts),
    spending: charge === undefined ? [] : spendingSteps(loaded, config, facts, charge),
    limits: played.reservations.flatMap(({ statuses }) => limitSteps(statuses)),
    shadow,
    ...(sent !== undefined && { sent }),
    ...(sent === undefined && response !== undefined && { answer: answerOf(response, stages, known['outcome.error']) }),
  };
}
