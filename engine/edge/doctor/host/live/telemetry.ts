import { SIGNALS, type Signal } from '../../../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../../../base/contract/config.ts';
import { DIRECT, describeWay } from '../../../../base/kit/net/way.ts';
import { secretPlace } from '../../../../base/kit/secret-names.ts';
import { printableLine } from '../../../../base/kit/text/printable.ts';
import { type ProbeAnswer, probeCollector } from '../../../../domain/telemetry/export/probe.ts';
import { exportSettings, publicUrl, type Target } from '../../../../domain/telemetry/export/settings.ts';
import { destinationTarget } from '../../../../domain/telemetry/relay.ts';
import { type LiveOutcome, wrong } from './probe.ts';

/** One trial of a collector or a destination, by name. */
export type TelemetryTrial = readonly [string, () => Promise<LiveOutcome>];

const SENT: Readonly<Record<Signal, string>> = {
  traces: 'one span',
  metrics: 'metrics without a value',
  logs: 'one log record',
};
/** Most of a collector's own words that is shown. */
const WORDS_MAX = 200;

/** Trials of everything that telemetry goes to: each signal at the collector, and each destination of clients' telemetry. */
export function telemetryTrials(
  { telemetry }: GatewayConfig,
  env: NodeJS.ProcessEnv,
  timeout_seconds: number,
): readonly TelemetryTrial[] {
  const tryAt = (signal: Signal, target: Target, variable: string) => async () => {
    const way = describeWay(target.way ?? DIRECT);
    try {
      const given = { ...target, timeout_seconds };
      return { ...judge(signal, target, variable, await probeCollector(signal, given, telemetry.resource ?? {})), way };
    } catch (error) {
      const { message } = error as Error;
      return { ...wrong(message, helpWith(message, target)), way };
    }
  };
  const own = orError(() => exportSettings(telemetry, env));
  if (own instanceof Error) return [['telemetry', async () => ({ ok: false, what: own.message })]];
  const variable = secretPlace(telemetry.otlp?.headers_env ?? 'OTEL_EXPORTER_OTLP_HEADERS');
  const trials: TelemetryTrial[] = SIGNALS.flatMap((signal) => {
    const target = own[signal];
    return target !== undefined ? [[`telemetry ${signal}`, tryAt(signal, target, variable)] as const] : [];
  });
  for (const entry of telemetry.forward_to) {
    for (const signal of SIGNALS.filter((signal) => entry[signal])) {
      const name = `clients' ${signal} to ${new URL(entry.url).host}`;
      const target = orError(() => destinationTarget(signal, entry, env));
      const failed = async () => ({ ok: false, what: (target as Error).message });
      const named = secretPlace(entry.headers_env ?? 'headers_env');
      trials.push([name, target instanceof Error ? failed : tryAt(signal, target, named)]);
    }
  }
  return trials;
}

function orError<T>(make: () => T): T | Error {
  try {
    return make();
  } catch (error) {
    return error as Error;
  }
}

function helpWith(problem: string, { url, ca_file }: Target): string {
  if (/^the file/.test(problem)) return 'name a file with certificates in PEM';
  if (/not trusted/.test(problem)) {
    return ca_file === undefined
      ? 'name a file with the certificate of its authority in ca_file'
      : 'does the file of ca_file hold the certificate of its authority?';
  }
  if (/proxy/.test(problem)) return 'is the proxy right that HTTPS_PROXY or HTTP_PROXY names?';
  if (/does not speak TLS/.test(problem)) return 'does it want http://?';
  if (/was cut|does not speak HTTP/.test(problem)) {
    return 'does it want https://, or is it a port for gRPC? The usual one for HTTP is 4318';
  }
  return `is ${publicUrl(url)} right?`;
}

function judge(signal: Signal, { url, headers }: Target, variable: string, answer: ProbeAnswer): LiveOutcome {
  const { status, is_page, rejected, why } = answer;
  if (status === 401 || status === 403) {
    return Object.keys(headers).length === 0
      ? wrong(`it wants a credential (status ${status})`, 'name the variable with its headers in headers_env')
      : wrong(`credential refused (status ${status})`, `are the headers in ${variable} valid?`);
  }
  if (status >= 300 && status < 400) {
    return wrong(`it redirects (status ${status}), which is not followed`, 'write the final address');
  }
  if (status === 404 || status === 405) {
    return wrong(`it takes no ${signal} there (status ${status})`, `is ${publicUrl(url)} right?`);
  }
  if (status === 429 || status >= 500) {
    return wrong(`it answers with status ${status}`, 'it is in trouble itself: try again later');
  }
  if (status > 299)
    return wrong(`it refuses ${SENT[signal]} (status ${status})`, 'is it a collector of OTLP over HTTP?');
  if (is_page) return wrong(`a web page answers (status ${status})`, `is ${publicUrl(url)} right?`);
  const words = why === undefined ? '' : `: ${printableLine(why).slice(0, WORDS_MAX)}`;
  const what = `takes ${SENT[signal]} (status ${status})`;
  if (rejected > 0) return { ok: false, what: `does not keep it (status ${status})${words}` };
  return { ok: true, what, ...(why !== undefined && { warnings: [`it says${words}`] }) };
}
