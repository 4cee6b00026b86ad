import { SIGNALS, type Signal } from '../../../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../../../base/contract/config.ts';
import { StartError } from '../../../../base/contract/start-error.ts';
import { type NetworkFault, networkFault } from '../../../../base/kit/net/format-network-error.ts';
import { DIRECT, describeProxyRoute } from '../../../../base/kit/net/proxy-route.ts';
import { secretPlace } from '../../../../base/kit/secret-names.ts';
import { printableLine } from '../../../../base/kit/text/printable.ts';
import { type ProbeAnswer, probeCollector } from '../../../../domain/telemetry/export/probe.ts';
import { exportSettings, publicUrl, type Target } from '../../../../domain/telemetry/export/settings.ts';
import { destinationTarget } from '../../../../domain/telemetry/relay.ts';
import { type LiveOutcome, wrong } from './probe.ts';

type TelemetryTrial = readonly [string, () => Promise<LiveOutcome>];

const SENT: Readonly<Record<Signal, string>> = {
  traces: 'one span',
  metrics: 'metrics without a value',
  logs: 'one log record',
};
const WORDS_MAX = 200;

export function telemetryTrials(
  { telemetry }: GatewayConfig,
  env: NodeJS.ProcessEnv,
  timeout_seconds: number,
): readonly TelemetryTrial[] {
  const tryAt = (signal: Signal, target: Target, variable: string) => async () => {
    const way = describeProxyRoute(target.way ?? DIRECT);
    try {
      const bounded = { ...target, timeout_seconds };
      return {
        ...evaluate(signal, target, variable, await probeCollector(signal, bounded, telemetry.resource ?? {})),
        way,
      };
    } catch (error) {
      return { ...wrong((error as Error).message, helpWith(error as Error, target)), way };
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

function helpWith(error: Error, { url, ca_file }: Target): string {
  if (error instanceof StartError) return 'use a file with certificates in PEM';
  const help: Partial<Record<NetworkFault, string>> = {
    untrusted:
      ca_file === undefined
        ? 'set ca_file to a file with the certificate of its authority'
        : 'check that ca_file contains the certificate of its authority',
    proxy: 'check the proxy in HTTPS_PROXY or HTTP_PROXY',
    no_tls: 'try http://',
    cut: OTHER_PORT,
    no_http: OTHER_PORT,
  };
  return help[networkFault(error.cause)] ?? `check the address ${publicUrl(url)}`;
}

const OTHER_PORT = 'try https://, or the port for OTLP over HTTP, usually 4318 (gRPC is not supported)';

function evaluate(signal: Signal, { url, headers }: Target, variable: string, answer: ProbeAnswer): LiveOutcome {
  const { status, is_page, rejected, why } = answer;
  if (status === 401 || status === 403) {
    return Object.keys(headers).length === 0
      ? wrong(`it requires a credential (status ${status})`, 'set headers_env to a variable with its headers')
      : wrong(`credential rejected (status ${status})`, `check the headers in ${variable}`);
  }
  if (status >= 300 && status < 400) {
    return wrong(`it redirects (status ${status}), which the gateway does not follow`, 'use the final address');
  }
  if (status === 404 || status === 405) {
    return wrong(`it accepts no ${signal} there (status ${status})`, `check the address ${publicUrl(url)}`);
  }
  if (status === 429 || status >= 500) {
    return wrong(`it responds with status ${status}`, 'it is unavailable: try again later');
  }
  if (status > 299)
    return wrong(`it rejects ${SENT[signal]} (status ${status})`, 'check that it is a collector for OTLP over HTTP');
  if (is_page) return wrong(`it returns a web page (status ${status})`, `check the address ${publicUrl(url)}`);
  const words = why === undefined ? '' : `: ${printableLine(why).slice(0, WORDS_MAX)}`;
  const what = `accepts ${SENT[signal]} (status ${status})`;
  if (rejected > 0) return { ok: false, what: `discards it (status ${status})${words}` };
  return { ok: true, what, ...(why !== undefined && { warnings: [`it says${words}`] }) };
}
