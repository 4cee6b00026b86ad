import type { GatewayConfig, UpstreamConfig } from '../../../../base/contract/config.ts';
import { type Exchange, exchange } from '../../../../base/kit/net/exchange.ts';
import { formatNetworkError, networkFault } from '../../../../base/kit/net/format-network-error.ts';
import {
  configuredProxyRoute,
  describeProxyRoute,
  proxyRouteTo,
  UnusableProxy,
  type Way,
} from '../../../../base/kit/net/proxy-route.ts';
import { secretIn, secretPlace } from '../../../../base/kit/secret-names.ts';
import { CATALOGUE_DATE, hasPrice } from '../../../../domain/budget/prices/catalogue.ts';
import { upstreamPaths } from '../../../../domain/upstreams/headers.ts';
import { fetchModelList, listHeaders } from '../../../../domain/upstreams/lists/ask-list.ts';
import { UPSTREAM_TYPES } from '../../../../domain/upstreams/types/index.ts';
import { type LiveCheck, type LiveOptions, type LiveOutcome, wrong } from './probe.ts';
import { checkProvider } from './provider.ts';

const LIVE_TIMEOUT_SECONDS = 5;

/** Checks all services concurrently. Costs nothing: no prompts, no redirects. Collectors get one span. */
export async function checkLive(
  config: GatewayConfig,
  env: NodeJS.ProcessEnv,
  timeout_seconds = LIVE_TIMEOUT_SECONDS,
): Promise<LiveCheck[]> {
  const { checkDatabase } = await import('../database.ts');
  const { telemetryTrials } = await import('./telemetry.ts');
  const options = { config, env, timeout_seconds };
  const checks: (readonly [name: string, check: () => Promise<LiveOutcome>])[] = [
    ['database', () => checkDatabase(options)],
    ...config.upstreams.map((each) => [`upstream ${each.name}`, () => checkUpstream(each, options)] as const),
    ...(config.auth?.oidc === undefined ? [] : [['identity provider', () => checkProvider(options)] as const]),
    ...telemetryTrials(config, env, timeout_seconds),
  ];
  return Promise.all(
    checks.map(async ([name, check]) => {
      const started = performance.now();
      const outcome = await check();
      return { name, ...outcome, duration_ms: Math.round(performance.now() - started) };
    }),
  );
}

/** Requests the list of models, which needs the credential and costs nothing. `seen` receives the response. */
export async function checkUpstream(
  upstream: UpstreamConfig,
  options: LiveOptions,
  seen: (answer: Exchange) => void = () => {},
): Promise<LiveOutcome> {
  const reached = await reachUpstream(upstream, options, seen);
  return options.config.from_model_lists && reached.ok ? withListedModels(reached, upstream, options) : reached;
}

async function reachUpstream(
  upstream: UpstreamConfig,
  { config, env, timeout_seconds }: LiveOptions,
  seen: (answer: Exchange) => void,
): Promise<LiveOutcome> {
  const { base_url, api_key_env, auth_token_env } = upstream;
  const url = new URL(modelsPath(upstream), base_url).href;
  const way = upstreamWay(upstream, env);
  if (way instanceof Error) return wrong(way.message, 'correct the address of the proxy');
  const credential = api_key_env ?? auth_token_env;
  const headers = listHeaders(upstream, { server: config.server, secret: (variable) => secretIn(variable, env) });
  try {
    const answer = await exchange(url, {
      headers: { accept: 'application/json', ...headers },
      seconds: timeout_seconds,
      read_body: false,
      proxy: way.proxy,
    });
    seen(answer);
    return {
      ...classifyUpstream(answer, credential === undefined ? undefined : secretPlace(credential), upstream),
      way: describeProxyRoute(way),
    };
  } catch (error) {
    const fault = networkFault(error);
    const help =
      fault === 'proxy'
        ? `check the proxy in ${way.by}`
        : fault === 'credential'
          ? `replace ${secretPlace(credential ?? '')}`
          : `check base_url: ${base_url}`;
    return { ...wrong(formatNetworkError(error, timeout_seconds), help), way: describeProxyRoute(way) };
  }
}

function upstreamWay({ base_url, proxy }: UpstreamConfig, env: NodeJS.ProcessEnv): Way | UnusableProxy {
  try {
    return proxy === undefined
      ? proxyRouteTo(new URL(base_url), env)
      : configuredProxyRoute(proxy, (name) => secretIn(name, env) ?? '');
  } catch (error) {
    if (error instanceof UnusableProxy) return error;
    throw error;
  }
}

function classifyUpstream(
  { status, headers }: Exchange,
  variable: string | undefined,
  upstream: UpstreamConfig,
): LiveOutcome {
  if (status === 401 || status === 403) {
    if (variable === undefined)
      return wrong(`it requires a credential (status ${status})`, 'set api_key_env or auth_token_env');
    return wrong(
      `credential rejected (status ${status})`,
      `check the key in ${variable}: is it valid, and of the right kind?`,
    );
  }
  if (status >= 300 && status < 400) {
    return wrong(
      `it redirects (status ${status}), which the gateway does not follow`,
      'set base_url to the final address',
    );
  }
  if (status >= 500) return wrong(`it responds with status ${status}`, 'it is unavailable: try again later');
  if (/html/i.test(headers['content-type'] ?? '')) {
    return wrong(`it returns a web page (status ${status})`, 'set base_url to the address of the API');
  }
  const what = `responds with status ${status}`;
  return status === 404 ? { ok: true, what, notes: [notFound(upstream)] } : { ok: true, what };
}

function modelsPath(upstream: UpstreamConfig): string {
  return upstreamPaths(upstream)(UPSTREAM_TYPES[upstream.type].models.path);
}

/** Not every API lists its models, and some have no version in their paths. */
function notFound(upstream: UpstreamConfig): string {
  const found = `no model list at ${modelsPath(upstream).replace(/\?.*/, '')}`;
  const advice =
    upstream.append_v1 === false
      ? 'if requests fail with this status too, check base_url and append_v1'
      : 'if requests fail with this status too, base_url may already contain the version: set append_v1: false';
  return `${found}; ${advice}`;
}

const SHOWN_MAX = 10;

async function withListedModels(
  outcome: LiveOutcome,
  upstream: UpstreamConfig,
  { config, env, timeout_seconds: seconds }: LiveOptions,
): Promise<LiveOutcome> {
  const list = await fetchModelList(upstream, {
    server: config.server,
    secret: (name) => secretIn(name, env) ?? '',
    seconds,
  });
  const { warnings = [], notes = [] } = outcome;
  if ('why' in list) {
    const why = `it provides no model list: ${list.why}; the gateway serves all models of the price catalogue (${CATALOGUE_DATE})`;
    return { ...outcome, warnings: [...warnings, why] };
  }
  const isPriced = (id: string) => hasPrice(id, upstream.base_url);
  const served = list.ids.filter(isPriced);
  const others = list.ids.filter((id) => !isPriced(id));
  const summary = `the gateway serves ${served.length} of its ${list.ids.length} listed models: ${some(served)}`;
  const refused = `not served, because the price catalogue (${CATALOGUE_DATE}) has no price: ${some(others)}; to serve them, add a section \`models\` with every model, and prices for these: models: [{ id: ..., pricing: { input: ..., output: ... } }]`;
  return {
    ...outcome,
    warnings: [...warnings, ...(served.length === 0 ? ['the gateway serves no model on its list'] : [])],
    notes: [...notes, summary, ...(others.length > 0 ? [refused] : [])],
  };
}

function some(ids: readonly string[]): string {
  const more = ids.length - SHOWN_MAX;
  return ids.length === 0 ? 'none' : `${ids.slice(0, SHOWN_MAX).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
