import type { GatewayConfig, UpstreamConfig } from '../../../../base/contract/config.ts';
import { formatNetworkError } from '../../../../base/kit/net/format-network-error.ts';
import { configuredWay, describeWay, UnusableProxy, type Way, wayTo } from '../../../../base/kit/net/way.ts';
import { secretIn, secretPlace } from '../../../../base/kit/secret-names.ts';
import { CATALOGUE_DATE, hasPrice } from '../../../../domain/budget/prices/catalogue.ts';
import { fixedHeaders, upstreamPaths } from '../../../../domain/upstreams/headers.ts';
import { askForList } from '../../../../domain/upstreams/lists/ask-list.ts';
import { type LiveCheck, type LiveOutcome, type ProbeAnswer, probe, wrong } from './probe.ts';
import { checkProvider } from './provider.ts';

/** How long one thing may take to answer where nothing else is said, in seconds. */
const LIVE_TIMEOUT_SECONDS = 5;

type Reach = (config: GatewayConfig, env: NodeJS.ProcessEnv, timeout_seconds: number) => Promise<LiveOutcome>;

/**
 * Asks everything a configuration names whether it is there, all at once, each with a time limit. Sends no prompt, costs
 * nothing, follows no redirect and changes nothing; collectors get a span that is called as the command is.
 */
export async function checkLive(
  config: GatewayConfig,
  env: NodeJS.ProcessEnv,
  timeout_seconds = LIVE_TIMEOUT_SECONDS,
): Promise<LiveCheck[]> {
  const { checkDatabase } = await import('../database.ts');
  const { telemetryTrials } = await import('./telemetry.ts');
  const upstreams = config.upstreams.map((upstream): [string, Reach] => [
    `upstream ${upstream.name}`,
    async () => {
      const outcome = await checkUpstream(upstream, env, timeout_seconds);
      return withListedModels(outcome, { config, upstream, env, timeout_seconds });
    },
  ]);
  const { auth } = config;
  const reaches: (readonly [string, Reach])[] = [
    ['database', checkDatabase],
    ...upstreams,
    ...(auth?.oidc === undefined ? [] : [['identity provider', checkProvider] as const]),
    ...telemetryTrials(config, env, timeout_seconds),
  ];
  return Promise.all(reaches.map(([name, reach]) => timed(name, () => reach(config, env, timeout_seconds))));
}

async function timed(name: string, reach: () => Promise<LiveOutcome>): Promise<LiveCheck> {
  const started = performance.now();
  const outcome = await reach();
  return { name, ...outcome, duration_ms: Math.round(performance.now() - started) };
}

/** Asks for the list of models: it needs the credential and costs nothing. `seen` is told the answer. */
export async function checkUpstream(
  upstream: UpstreamConfig,
  env: NodeJS.ProcessEnv,
  timeout_seconds: number,
  seen: (answer: ProbeAnswer) => void = () => {},
): Promise<LiveOutcome> {
  const { type, base_url, api_key_env, auth_token_env } = upstream;
  const url = new URL(upstreamPaths(upstream)('/v1/models'), base_url).href;
  const way = upstreamWay(upstream, env);
  if (way instanceof Error) return wrong(way.message, 'correct the address of the proxy');
  const credential = api_key_env ?? auth_token_env;
  const key = api_key_env === undefined ? undefined : secretIn(api_key_env, env);
  const token = auth_token_env === undefined ? undefined : secretIn(auth_token_env, env);
  const headers = {
    ...fixedHeaders(upstream, (variable) => secretIn(variable, env) ?? ''),
    ...(key === undefined ? {} : { 'x-api-key': key }),
    // Nearly all compat upstreams read a key here.
    ...(key !== undefined && type === 'compat' ? { authorization: `Bearer ${key}` } : {}),
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  try {
    const answer = await probe(url, { headers, timeout_seconds, read_body: false, proxy: way.proxy });
    seen(answer);
    return {
      ...judgeUpstream(answer, credential === undefined ? undefined : secretPlace(credential), upstream),
      way: describeWay(way),
    };
  } catch (error) {
    const what = formatNetworkError(error, timeout_seconds);
    const help = /proxy/.test(what)
      ? `is the proxy of ${way.by} right?`
      : /credential/.test(what)
        ? `set ${secretPlace(credential ?? '')} again`
        : `is ${base_url} right?`;
    return { ...wrong(what, help), way: describeWay(way) };
  }
}

/** The way to an upstream, with what decided it; why there is none where it names no proxy that can be used. */
function upstreamWay({ base_url, proxy }: UpstreamConfig, env: NodeJS.ProcessEnv): Way | UnusableProxy {
  try {
    return proxy === undefined
      ? wayTo(new URL(base_url), env)
      : configuredWay(proxy, (name) => secretIn(name, env) ?? '');
  } catch (error) {
    if (error instanceof UnusableProxy) return error;
    throw error;
  }
}

function judgeUpstream(
  { status, headers }: ProbeAnswer,
  variable: string | undefined,
  upstream: UpstreamConfig,
): LiveOutcome {
  if (status === 401 || status === 403) {
    if (variable === undefined)
      return wrong(`it wants a credential (status ${status})`, 'name one with api_key_env or auth_token_env');
    return wrong(`credential refused (status ${status})`, `is the key in ${variable} valid, and is it the right kind?`);
  }
  if (status >= 300 && status < 400) {
    return wrong(
      `it redirects (status ${status}), and redirects are not followed`,
      'write the final address as base_url',
    );
  }
  if (status >= 500) return wrong(`it answers with status ${status}`, 'it is in trouble itself: try again later');
  if (/html/i.test(headers['content-type'] ?? '')) {
    return wrong(`it answers with a web page (status ${status})`, 'is base_url the address of the API?');
  }
  const what = `answers with status ${status}`;
  return status === 404 ? { ok: true, what, notes: [notFound(upstream)] } : { ok: true, what };
}

/** Not every API lists its models, and some have no version in their paths. */
function notFound(upstream: UpstreamConfig): string {
  const asked = `there is no list of models at ${upstreamPaths(upstream)('/v1/models').replace(/\?.*/, '')}`;
  const advice =
    upstream.append_v1 === false
      ? 'if requests get this status too, is base_url right, and does /v1 belong to its paths after all (append_v1)?'
      : 'if requests get this status too, base_url may be complete as it is: write append_v1: false';
  return `${asked}; ${advice}`;
}

/** How many ids are told. */
const TOLD_MAX = 10;

/**
 * What the list of an upstream that is there means for a gateway.yaml without `models`: which models are served, and which are
 * not. Adds nothing for any other.
 */
export async function withListedModels(
  outcome: LiveOutcome,
  given: {
    readonly config: GatewayConfig;
    readonly upstream: UpstreamConfig;
    readonly env: NodeJS.ProcessEnv;
    readonly timeout_seconds: number;
  },
): Promise<LiveOutcome> {
  const { config, upstream, env, timeout_seconds: seconds } = given;
  if (!config.from_model_lists || !outcome.ok) return outcome;
  const asked = await askForList(upstream, {
    server: config.server,
    secret: (name) => secretIn(name, env) ?? '',
    seconds,
  });
  const { warnings = [], notes = [] } = outcome;
  if ('why' in asked) {
    const why = `it tells no list of its models: ${asked.why}; any model that the catalogue of prices (${CATALOGUE_DATE}) knows is served`;
    return { ...outcome, warnings: [...warnings, why] };
  }
  const isPriced = (id: string) => hasPrice(id, upstream.base_url);
  const served = asked.ids.filter(isPriced);
  const others = asked.ids.filter((id) => !isPriced(id));
  const told = `${served.length} of the ${asked.ids.length} models on its list are served: ${some(served)}`;
  const refused = `not served, as the catalogue of prices (${CATALOGUE_DATE}) does not know what they cost: ${some(others)}; to serve them, write a section \`models\` with every model, these with their price: models: [{ id: ..., pricing: { input: ..., output: ... } }]`;
  return {
    ...outcome,
    warnings: [...warnings, ...(served.length === 0 ? ['no model on its list is served'] : [])],
    notes: [...notes, told, ...(others.length > 0 ? [refused] : [])],
  };
}

function some(ids: readonly string[]): string {
  const more = ids.length - TOLD_MAX;
  return ids.length === 0 ? 'none' : `${ids.slice(0, TOLD_MAX).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
