import type { UpstreamConfig } from '../../contract/config.ts';
import { secretIn, secretPlace } from '../../kit/secret-names.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type ClockReading, clockIn } from './clock.ts';
import { type Host, placeOf } from './host.ts';
import { diagnosisOf } from './live/as-diagnosis.ts';
import { checkUpstream } from './live/check-live.ts';
import { withListedModels } from './live/listed-models.ts';
import type { ProbeAnswer } from './live/probe.ts';
import { checkProvider } from './live/provider.ts';
import { telemetryTrials } from './live/telemetry.ts';

/** What was found of something that the gateway calls. */
export interface FoundService {
  readonly diagnoses: readonly Diagnosis[];
  readonly clock?: ClockReading;
}

/** Everything that the gateway calls over HTTP, asked at once: identity provider, upstreams, collectors. Costs nothing. */
export function examineServices(host: Host): Promise<FoundService>[] {
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

async function examineProvider(host: Host): Promise<FoundService> {
  const { config, env, timeout_seconds, machine } = host;
  const { auth } = config;
  const oidc = auth?.oidc;
  if (auth === undefined || oidc === undefined) return { diagnoses: [] };
  const base = { id: 'provider.reach', title: 'identity provider', where: placeOf(host, '/auth/oidc') };
  const ahead: number[] = [];
  const seen = ({ headers }: ProbeAnswer) =>
    ahead.push(...[clockIn(headers, machine.now())].filter((ms) => ms !== undefined));
  const outcome = await checkProvider(config, { ...auth, oidc }, env, timeout_seconds, seen);
  const [first] = ahead;
  return {
    diagnoses: [diagnosisOf(base, outcome)],
    ...(first !== undefined && { clock: { of: 'the identity provider', ahead_ms: first } }),
  };
}

async function examineUpstream(host: Host, upstream: UpstreamConfig, index: number): Promise<FoundService> {
  const { config, env, timeout_seconds, machine } = host;
  const { name, api_key_env, auth_token_env } = upstream;
  const where = placeOf(host, `/upstreams/${index}`);
  const base = { id: 'upstream.reach', title: `upstream ${name}`, where };
  const ahead: number[] = [];
  const seen = ({ headers }: ProbeAnswer) =>
    ahead.push(...[clockIn(headers, machine.now())].filter((ms) => ms !== undefined));
  const missing = [api_key_env, auth_token_env].find(
    (variable) => variable !== undefined && (secretIn(variable, env) ?? '') === '',
  );
  const reached = await checkUpstream(upstream, env, timeout_seconds, seen);
  const outcome = await withListedModels(reached, { config, upstream, env, timeout_seconds });
  const reach: Diagnosis =
    missing !== undefined && /credential/.test(outcome.what)
      ? {
          ...base,
          verdict: 'skipped',
          found: `it answers; whether it takes the credential can't be told, for ${secretPlace(missing)} is not set here`,
        }
      : diagnosisOf(base, outcome);
  const [first] = ahead;
  return {
    diagnoses: [reach],
    ...(first !== undefined && { clock: { of: `the upstream ${name}`, ahead_ms: first } }),
  };
}
