import { readFileSync } from 'node:fs';
import { getCACertificates } from 'node:tls';
import type { OidcConfig, UpstreamConfig } from '../../contract/config.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { openTunnel, placeOf } from '../../kit/net/tunnel.ts';
import { type Way, wayTo } from '../../kit/net/way.ts';
import { secretIn, secretPlace } from '../../kit/secret-names.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type ClockReading, clockIn } from './clock.ts';
import { type Host, placeOf as placeInFile } from './host.ts';
import { diagnosisOf } from './live/as-diagnosis.ts';
import { checkUpstream, upstreamWay } from './live/check-live.ts';
import { withListedModels } from './live/listed-models.ts';
import type { ProbeAnswer } from './live/probe.ts';
import { checkProvider } from './live/provider.ts';
import { telemetryTrials } from './live/telemetry.ts';
import { judgeValidity, lookAtCertificate } from './tls-look.ts';

/** What was found of something that the gateway calls. */
export interface FoundService {
  readonly diagnoses: readonly Diagnosis[];
  readonly clock?: ClockReading;
}

/** Everything that the gateway calls over HTTP, asked at once: identity provider, upstreams, collectors. Costs nothing. */
export function examineServices(host: Host): Promise<FoundService>[] {
  const { config, env, timeout_seconds } = host;
  const collectors = telemetryTrials(config, env, timeout_seconds).map(async ([title, attempt]) => {
    const base = { id: 'telemetry.reach', title, where: placeInFile(host, '/telemetry') };
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
  const base = { id: 'provider.reach', title: 'identity provider', where: placeInFile(host, '/auth/oidc') };
  const ahead: number[] = [];
  const seen = ({ headers }: ProbeAnswer) =>
    ahead.push(...[clockIn(headers, machine.now())].filter((ms) => ms !== undefined));
  const [outcome, certificate] = await Promise.all([
    checkProvider(config, { ...auth, oidc }, env, timeout_seconds, seen),
    examineCertificate(host, {
      id: 'provider.certificate',
      title: 'certificate of the identity provider',
      url: oidc.issuer_url,
      where: base.where,
      ca: authoritiesOf(oidc),
      wayThere: () => wayTo(new URL(oidc.issuer_url), env),
    }),
  ]);
  const [first] = ahead;
  return {
    diagnoses: [diagnosisOf(base, outcome), ...certificate],
    ...(first !== undefined && { clock: { of: 'the identity provider', ahead_ms: first } }),
  };
}

function authoritiesOf({ ca_file }: OidcConfig): readonly string[] | undefined {
  if (ca_file === undefined) return undefined;
  try {
    return [...getCACertificates('default'), readFileSync(ca_file, 'utf8')];
  } catch {
    // `provider.reach` says that it can't be read.
    return undefined;
  }
}

async function examineUpstream(host: Host, upstream: UpstreamConfig, index: number): Promise<FoundService> {
  const { config, env, timeout_seconds, machine } = host;
  const { name, base_url, api_key_env, auth_token_env } = upstream;
  const where = placeInFile(host, `/upstreams/${index}`);
  const base = { id: 'upstream.reach', title: `upstream ${name}`, where };
  const ahead: number[] = [];
  const seen = ({ headers }: ProbeAnswer) =>
    ahead.push(...[clockIn(headers, machine.now())].filter((ms) => ms !== undefined));
  const missing = [api_key_env, auth_token_env].find(
    (variable) => variable !== undefined && (secretIn(variable, env) ?? '') === '',
  );
  const [outcome, certificate] = await Promise.all([
    checkUpstream(upstream, env, timeout_seconds, seen).then((found) =>
      withListedModels(found, { config, upstream, env, timeout_seconds }),
    ),
    examineCertificate(host, {
      id: 'upstream.certificate',
      title: `certificate of the upstream ${name}`,
      url: base_url,
      where,
      ca: undefined,
      wayThere: () => upstreamWay(upstream, env),
    }),
  ]);
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
    diagnoses: [reach, ...certificate],
    ...(first !== undefined && { clock: { of: `the upstream ${name}`, ahead_ms: first } }),
  };
}

const timeout = (seconds: number) => AbortSignal.timeout(seconds * 1000);

async function examineCertificate(
  { timeout_seconds, machine }: Host,
  asked: Pick<Diagnosis, 'id' | 'title' | 'where'> & {
    readonly url: string;
    readonly ca: readonly string[] | undefined;
    readonly wayThere: () => Way | Error;
  },
): Promise<Diagnosis[]> {
  const { url, ca, wayThere, ...base } = asked;
  if (!url.startsWith('https:')) return [];
  try {
    const way = wayThere();
    if (way instanceof Error) return [];
    const through = way.proxy && (await openTunnel(placeOf(new URL(url)), way.proxy, timeout(timeout_seconds)));
    const shown = await lookAtCertificate(url, { seconds: timeout_seconds, ca, through });
    const judged = judgeValidity(
      shown,
      machine.now(),
      'its operator has to renew it; nothing to do where that happens by itself',
    );
    // What is wrong with it besides is told by the request, in the words of the connection.
    if (shown.problem !== undefined && judged.verdict === 'ok') {
      const reason = formatNetworkError({ code: shown.problem }, timeout_seconds);
      return [
        {
          ...base,
          verdict: 'failed',
          found: `${reason}; it is signed by ${shown.issuer}`,
          remedy:
            'if a proxy of yours opens TLS here, name its authority in NODE_EXTRA_CA_CERTS, or let this host pass unopened; else is the address right?',
        },
      ];
    }
    return [{ ...base, ...judged }];
  } catch {
    return [];
  }
}
