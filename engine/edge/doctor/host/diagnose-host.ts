import { type CheckResult, skipped } from '../../../base/contract/checks.ts';
import type { UpstreamConfig } from '../../../base/contract/config.ts';
import type { Exchange } from '../../../base/kit/net/exchange.ts';
import { secretIn, secretPlace } from '../../../base/kit/secret-names.ts';
import type { Diagnosis } from '../workstation.ts';
import { checkConfiguration, checkVariables } from './configuration.ts';
import { diagnoseDatabase } from './database.ts';
import { type ClockReading, checkClock, clockIn, type Host, type HostOptions, placeOf } from './host.ts';
import { checkListener, checkReadiness } from './listening.ts';
import { checkUpstream } from './live/check-live.ts';
import { diagnosisOf } from './live/probe.ts';
import { checkProvider } from './live/provider.ts';
import { checkPublicUrl } from './public-url.ts';

/**
 * Diagnoses the host of a gateway. Yields each result as soon as it is known. Read-only: starts nothing, binds no port, and
 * sends no request that costs anything.
 */
export async function* diagnoseHost(options: HostOptions): AsyncGenerator<CheckResult> {
  const since = stopwatch();
  const { loaded, diagnosis } = await checkConfiguration(options);
  yield since(diagnosis);
  const { config } = loaded;
  if (config === undefined) return;
  const { diagnoses, running, direct } = await checkListener({ ...options, loaded, config });
  const host: Host = { ...options, loaded, config, running, direct };
  // Requests run concurrently; results are reported in the order of a manual search.
  const database = diagnoseDatabase(host);
  const services = diagnoseServices(host);
  // Not awaited yet: a rejection must not be unhandled in the meantime.
  for (const pending of [database, ...services]) pending.catch(() => {});
  for (const found of diagnoses) yield since(found);
  if (running !== undefined) yield since(checkReadiness(running));
  yield since(checkVariables(options, loaded, running !== undefined));
  const { diagnoses: of_database, ahead_ms } = await database;
  for (const found of of_database) yield since(found);
  const clocks = ahead_ms === undefined ? [] : [{ of: 'the database', ahead_ms }];
  for (const service of services) {
    const { diagnoses: of_service, clock } = await service;
    for (const found of of_service) yield since(found);
    if (clock !== undefined) clocks.push(clock);
  }
  yield since(checkClock(clocks, config.auth?.oidc?.clock_skew_seconds));
  for await (const found of checkPublicUrl(host)) yield since(found);
}

/** Adds to each result the time since the previous one. */
function stopwatch(): (found: Diagnosis) => CheckResult {
  let last = performance.now();
  return ({ fixes: _, ...found }) => {
    const now = performance.now();
    const duration_ms = Math.round(now - last);
    last = now;
    return { ...found, duration_ms };
  };
}

interface FoundService {
  readonly diagnoses: readonly Diagnosis[];
  readonly clock?: ClockReading;
}

/** Diagnoses the HTTP services of the gateway concurrently: identity provider and upstreams. Costs nothing. */
function diagnoseServices(host: Host): Promise<FoundService>[] {
  return [
    diagnoseProvider(host),
    ...host.config.upstreams.map((upstream, index) => diagnoseUpstream(host, upstream, index)),
  ];
}

/** A service's diagnosis, with the clock offset in its first response. */
async function found(
  host: Host,
  of: string,
  ask: (seen: (answer: Exchange) => void) => Promise<Diagnosis>,
): Promise<FoundService> {
  let ahead_ms: number | undefined;
  const diagnosis = await ask(({ headers }) => {
    ahead_ms ??= clockIn(headers, host.machine.now());
  });
  return { diagnoses: [diagnosis], ...(ahead_ms !== undefined && { clock: { of, ahead_ms } }) };
}

async function diagnoseProvider(host: Host): Promise<FoundService> {
  const { config, env, timeout_seconds } = host;
  if (config.auth?.oidc === undefined) return { diagnoses: [] };
  const base = { id: 'provider.reach', title: 'identity provider', where: placeOf(host, '/auth/oidc') };
  return found(host, 'the identity provider', async (seen) =>
    diagnosisOf(base, await checkProvider(config, env, timeout_seconds, seen)),
  );
}

async function diagnoseUpstream(host: Host, upstream: UpstreamConfig, index: number): Promise<FoundService> {
  const { config, env, timeout_seconds } = host;
  const { name, api_key_env, auth_token_env } = upstream;
  const base = { id: 'upstream.reach', title: `upstream ${name}`, where: placeOf(host, `/upstreams/${index}`) };
  const missing = [api_key_env, auth_token_env].find(
    (variable) => variable !== undefined && (secretIn(variable, env) ?? '') === '',
  );
  return found(host, `the upstream ${name}`, async (seen) => {
    let status = 0;
    const outcome = await checkUpstream(upstream, { config, env, timeout_seconds }, (answer) => {
      status = answer.status;
      seen(answer);
    });
    if (missing === undefined || (status !== 401 && status !== 403)) return diagnosisOf(base, outcome);
    const unknown = `reachable; the credential was not tested, because ${secretPlace(missing)} is not set here`;
    return skipped(unknown, base);
  });
}
