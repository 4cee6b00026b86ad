import { type CheckResult, failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import type { UpstreamConfig } from '../../../base/contract/config.ts';
import type { Exchange } from '../../../base/kit/net/exchange.ts';
import { secretIn, secretPlace } from '../../../base/kit/secret-names.ts';
import { counted } from '../../../base/kit/text/suggest.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import { createSecrets, namedSecrets } from '../../../base/store/secrets.ts';
import { load } from '../../../pipeline/load/index.ts';
import type { Diagnosis } from '../workstation.ts';
import { diagnoseDatabase } from './database.ts';
import { checkClock, checkListener, checkReadiness, clockIn, type Host, type HostOptions, placeOf } from './host.ts';
import { checkUpstream } from './live/check-live.ts';
import { diagnosisOf } from './live/probe.ts';
import { checkProvider } from './live/provider.ts';
import { checkPublicUrl } from './public-url.ts';

/** Yields each result as soon as it is known. Read-only: starts nothing, binds no port, sends nothing that costs. */
export async function* diagnoseHost(options: HostOptions): AsyncGenerator<CheckResult> {
  const since = stopwatch();
  const { loaded, diagnosis } = await checkConfiguration(options);
  yield since(diagnosis);
  const { config } = loaded;
  if (config === undefined) return;
  const { diagnosis: listener, running } = await checkListener({ ...options, loaded, config });
  const host: Host = { ...options, loaded, config, running };
  // Requests run concurrently; results are reported in the order of a manual search.
  const database = diagnoseDatabase(host);
  const services = [
    ...(config.auth?.oidc === undefined ? [] : [diagnoseProvider(host)]),
    ...config.upstreams.map((upstream, index) => diagnoseUpstream(host, upstream, index)),
  ];
  // Not awaited yet: a rejection must not be unhandled in the meantime.
  for (const pending of [database, ...services]) pending.catch(() => {});
  yield since(listener);
  if (running !== undefined) yield since(checkReadiness(running));
  yield since(checkVariables(options, loaded, running !== undefined));
  const { diagnoses: of_database, ahead_ms } = await database;
  for (const found of of_database) yield since(found);
  const clocks = ahead_ms === undefined ? [] : [{ of: 'the database', ahead_ms }];
  for (const service of services) {
    const { diagnosis, clock } = await service;
    yield since(diagnosis);
    if (clock !== undefined) clocks.push(clock);
  }
  yield since(checkClock(clocks, config.auth?.oidc?.clock_skew_seconds));
  for await (const found of checkPublicUrl(host)) yield since(found);
}

function stopwatch(): (found: Diagnosis) => CheckResult {
  let last = performance.now();
  return ({ fixes: _, ...found }) => {
    const now = performance.now();
    const duration_ms = Math.round(now - last);
    last = now;
    return { ...found, duration_ms };
  };
}

/** A diagnosis of a service, and the offset of its clock where a response has one. */
async function withClock(host: Host, of: string, ask: (seen: (answer: Exchange) => void) => Promise<Diagnosis>) {
  let ahead_ms: number | undefined;
  const diagnosis = await ask(({ headers }) => {
    ahead_ms ??= clockIn(headers, host.machine.now());
  });
  return { diagnosis, clock: ahead_ms === undefined ? undefined : { of, ahead_ms } };
}

function diagnoseProvider(host: Host) {
  const base = { id: 'provider.reach', title: 'identity provider', where: placeOf(host, '/auth/oidc') };
  return withClock(host, 'the identity provider', async (seen) => diagnosisOf(base, await checkProvider(host, seen)));
}

function diagnoseUpstream(host: Host, upstream: UpstreamConfig, index: number) {
  const { name, api_key_env, auth_token_env } = upstream;
  const base = { id: 'upstream.reach', title: `upstream ${name}`, where: placeOf(host, `/upstreams/${index}`) };
  const missing = [api_key_env, auth_token_env].find(
    (variable) => variable !== undefined && (secretIn(variable, host.env) ?? '') === '',
  );
  return withClock(host, `the upstream ${name}`, async (seen) => {
    let status = 0;
    const outcome = await checkUpstream(upstream, host, (answer) => {
      status = answer.status;
      seen(answer);
    });
    if (missing === undefined || (status !== 401 && status !== 403)) return diagnosisOf(base, outcome);
    const unknown = `reachable; the credential was not tested, because ${secretPlace(missing)} is not set here`;
    return skipped(unknown, base);
  });
}

const FINDINGS_MAX = 10;
/** Findings that `host.variables` reports in more detail. */
const OF_VARIABLES: readonly string[] = ['W7004'];

/** Loads the configuration and reports its findings, except for missing variables (`checkVariables`). */
async function checkConfiguration({ config_file, stages, env }: HostOptions) {
  const loaded = await load(config_file, { stages, env, environment: 'ignored' });
  const findings = loaded.diagnostics.filter(({ code }) => !OF_VARIABLES.includes(code));
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  const base = { id: 'host.configuration', title: 'the configuration', where: config_file };
  if (findings.length === 0) {
    const { models = [], upstreams = [] } = loaded.config ?? {};
    const found = `loads without findings: ${counted(upstreams.length, 'upstream')}, ${counted(models.length, 'model')}, ${counted(loaded.pipelines.length, 'pipeline')}`;
    return { loaded, diagnosis: ok(found, base) };
  }
  const remedy = `appscli check --config ${config_file} shows each with its line and remedy`;
  const others = findings.length - FINDINGS_MAX;
  const lines = findings.slice(0, FINDINGS_MAX).map(({ code, severity, message, file, line }) => {
    return `${severity} ${code} ${file}${line === undefined ? '' : `:${line}`}: ${message}`;
  });
  const details = [...lines, ...(others > 0 ? [`and ${others} more`] : [])];
  const diagnosis =
    errors > 0
      ? failed(`invalid: ${counted(errors, 'error')}`, remedy, { ...base, details })
      : warning(`valid, with ${counted(findings.length, 'warning')}`, remedy, { ...base, details });
  return { loaded, diagnosis };
}

/** Whether the secrets that the configuration names are set and usable. Never shows them. */
function checkVariables({ env }: Pick<HostOptions, 'env'>, loaded: Loaded, is_running: boolean): Diagnosis {
  const base = { id: 'host.variables', title: 'environment variables' };
  const entries = loaded.pipelines.flatMap(({ stages, on_error, finally: last }) => [...stages, ...on_error, ...last]);
  const named = namedSecrets([loaded.config, entries.map(({ options }) => options)]);
  const names = [...new Set(named.map(({ name }) => name))];
  const missing = names.filter((name) => (secretIn(name, env) ?? '') === '');
  if (missing.length > 0) {
    const keysOf = (name: string) => new Set(named.filter((one) => one.name === name).map(({ key }) => key));
    const places = missing.map((name) => `${secretPlace(name)} (${[...keysOf(name)].join(', ')})`);
    const found = `not set here: ${places.join(', ')}`;
    if (!is_running) {
      const remedy =
        'set them for the gateway (EnvironmentFile= of a service, env_file of a container); if they are set there, run the doctor with the same environment';
      return failed(found, remedy, base);
    }
    return warning(
      `${found}; the running gateway has its own environment, so its services cannot be checked from here`,
      'run the doctor with the environment of the gateway: its env_file or EnvironmentFile=',
      base,
    );
  }
  try {
    createSecrets(loaded, env, () => {});
  } catch (error) {
    return failed((error as Error).message, 'copy the value again, without a line break', base);
  }
  if (names.length === 0) return ok('the configuration uses none', base);
  return ok(`all ${names.length} are set: ${names.map(secretPlace).join(', ')}`, base);
}
