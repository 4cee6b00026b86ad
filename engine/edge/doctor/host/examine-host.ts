import { type CheckResult, skipped } from '../../../base/contract/checks.ts';
import type { UpstreamConfig } from '../../../base/contract/config.ts';
import { secretIn, secretPlace } from '../../../base/kit/secret-names.ts';
import type { Diagnosis } from '../desk.ts';
import { examineConfiguration, examineVariables } from './configuration.ts';
import { examineDatabase } from './database.ts';
import { type ClockReading, clockIn, examineClock, type Host, type HostOptions, placeOf } from './host.ts';
import { examineListening, examineRunning } from './listening.ts';
import { checkUpstream, withListedModels } from './live/check-live.ts';
import { diagnosisOf, type ProbeAnswer } from './live/probe.ts';
import { checkProvider } from './live/provider.ts';
import { telemetryTrials } from './live/telemetry.ts';
import { examinePublicUrl } from './public-url.ts';

/**
 * What is wrong on the machine where a gateway runs, one by one as it is known. Changes nothing, starts nothing and binds
 * nothing; what is asked costs nothing.
 */
export async function* examineHost(given: HostOptions): AsyncGenerator<CheckResult> {
  const since = stopwatch();
  const { loaded, diagnosis } = await examineConfiguration(given);
  yield since(diagnosis);
  const { config } = loaded;
  if (config === undefined) return;
  const { diagnoses, running, direct } = await examineListening({ ...given, loaded, config });
  const host: Host = { ...given, loaded, config, running, direct };
  // All that is asked is asked at once; it is told in the order in which one would look.
  const database = examineDatabase(host);
  const services = examineServices(host);
  // Nobody waits for these while others are told.
  for (const asked of [database, ...services]) asked.catch(() => {});
  for (const found of diagnoses) yield since(found);
  for (const found of examineRunning(host)) yield since(found);
  yield since(examineVariables(given, loaded, running !== undefined));
  const { diagnoses: of_database, ahead_ms } = await database;
  for (const found of of_database) yield since(found);
  const clocks = ahead_ms === undefined ? [] : [{ of: 'the database', ahead_ms }];
  for (const service of services) {
    const { diagnoses: of_service, clock } = await service;
    for (const found of of_service) yield since(found);
    if (clock !== undefined) clocks.push(clock);
  }
  yield since(examineClock(clocks, config.auth?.oidc?.clock_skew_seconds));
  for await (const found of examinePublicUrl(host)) yield since(found);
}

/** Each result takes what passed since the one before. */
function stopwatch(): (found: Diagnosis) => CheckResult {
  let last = performance.now();
  return ({ fixes: _, ...found }) => {
    const now = performance.now();
    const duration_ms = Math.round(now - last);
    last = now;
    return { ...found, duration_ms };
  };
}

/** What was found of something that the gateway calls. */
export interface FoundService {
  readonly diagnoses: readonly Diagnosis[];
  readonly clock?: ClockReading;
}

/** Everything that the gateway calls over HTTP, asked at once: identity provider, upstreams, collectors. Costs nothing. */
function examineServices(host: Host): Promise<FoundService>[] {
  const { config, env, timeout_seconds } = host;
  const collectors = telemetryTrials(config, env, timeout_seconds).map(async ([title, attempt]) => {
    const base = { id: 'telemetry.reach', title, where: placeOf(host, '/telemetry') };
    return { diagnoses: [diagnosisOf(base, await attempt())] };
  });
  return [
    examineProvider(host),
    ...config.upstreams.map((upstream, index) => examineUpstream(host, upstream, index)),
    ...collectors,
  ];
}

/** What a service was asked, with how far its clock is ahead by its first answer. */
async function found(
  host: Host,
  of: string,
  ask: (seen: (answer: ProbeAnswer) => void) => Promise<Diagnosis>,
): Promise<FoundService> {
  let ahead_ms: number | undefined;
  const diagnosis = await ask(({ headers }) => {
    ahead_ms ??= clockIn(headers, host.machine.now());
  });
  return { diagnoses: [diagnosis], ...(ahead_ms !== undefined && { clock: { of, ahead_ms } }) };
}

async function examineProvider(host: Host): Promise<FoundService> {
  const { config, env, timeout_seconds } = host;
  if (config.auth?.oidc === undefined) return { diagnoses: [] };
  const base = { id: 'provider.reach', title: 'identity provider', where: placeOf(host, '/auth/oidc') };
  return found(host, 'the identity provider', async (seen) =>
    diagnosisOf(base, await checkProvider(config, env, timeout_seconds, seen)),
  );
}

async function examineUpstream(host: Host, upstream: UpstreamConfig, index: number): Promise<FoundService> {
  const { config, env, timeout_seconds } = host;
  const { name, api_key_env, auth_token_env } = upstream;
  const base = { id: 'upstream.reach', title: `upstream ${name}`, where: placeOf(host, `/upstreams/${index}`) };
  const missing = [api_key_env, auth_token_env].find(
    (variable) => variable !== undefined && (secretIn(variable, env) ?? '') === '',
  );
  return found(host, `the upstream ${name}`, async (seen) => {
    const reached = await checkUpstream(upstream, env, timeout_seconds, seen);
    const outcome = await withListedModels(reached, { config, upstream, env, timeout_seconds });
    if (missing === undefined || !/credential/.test(outcome.what)) return diagnosisOf(base, outcome);
    const unknown = `it answers; whether it takes the credential can't be told, for ${secretPlace(missing)} is not set here`;
    return skipped(unknown, base);
  });
}
