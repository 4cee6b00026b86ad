import { SIGNALS, type Signal } from '../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../base/contract/config.ts';
import type { Clock, Log, Principal } from '../../base/contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../base/contract/start-error.ts';
import { UnusableProxy, wayTo } from '../../base/kit/net/way.ts';
import { secretHolder, secretIn } from '../../base/kit/secret-names.ts';
import { createCollectorLog, deliver, openCollector } from './export/collector.ts';
import { ExportQueue } from './export/export-queue.ts';
import { parseHeaderList, publicUrl, type Target } from './export/settings.ts';
import type { Metrics } from './metric-registry.ts';

type DestinationConfig = GatewayConfig['telemetry']['forward_to'][number];

export interface ClientExport {
  readonly signal: Signal;
  readonly content_type: string;
  readonly bytes: Buffer;
  readonly principal: Principal;
}

/** Passes telemetry of clients on to the destinations of `telemetry.forward_to`, byte for byte. */
export type TelemetryRelay = ReturnType<typeof openRelay>;

export interface RelayOptions {
  readonly config: GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

interface Waiting {
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

interface Outlet {
  readonly signal: Signal;
  readonly name: string;
  readonly caller: DestinationConfig['caller'];
  /** What makes another outlet of it when it changes. */
  readonly key: string;
  readonly queue: ExportQueue<Waiting>;
  close(patience_ms: number): Promise<void>;
}

/** Most that waits for one signal at a destination, and what a request counts there beside its bytes. */
const QUEUE_BYTES_MAX = 8 * 1024 * 1024;
const REQUEST_BYTES = 4096;
/** How long a destination that is no longer one may take for what waits. */
const LEAVING_MS = 5000;

/** Opens the destinations of the configuration; none is asked for anything until there is something to send. Raises StartError. */
export function openRelay({ config: of_start, ...options }: RelayOptions) {
  const { env, log, metrics } = options;
  let outlets: readonly Outlet[] = [];
  const leaving = new Set<Promise<void>>();
  const put = ({ telemetry }: GatewayConfig) => {
    const before = new Map(outlets.map((outlet) => [outlet.key, outlet]));
    // All of them are made before one is let go of: a configuration that can't be used changes nothing.
    outlets = telemetry.forward_to.flatMap((entry, at) =>
      SIGNALS.filter((signal) => entry[signal]).map((signal) => {
        const target = destinationTarget(signal, entry, env);
        const { host } = new URL(entry.url);
        const is_second = telemetry.forward_to.slice(0, at).some(({ url }) => new URL(url).host === host);
        const name = is_second ? `${host}#${at + 1}` : host;
        const key = JSON.stringify([name, signal, target, entry.caller]);
        return before.get(key) ?? openOutlet({ ...options, target, signal, name, key, caller: entry.caller });
      }),
    );
    for (const outlet of before.values()) {
      if (outlets.includes(outlet)) continue;
      const gone = outlet.close(LEAVING_MS).finally(() => leaving.delete(gone));
      leaving.add(gone);
    }
  };
  // Nothing below holds on to it: a reload lets go of the configuration of the start.
  put(of_start);
  metrics.observe('gateway.client_telemetry.queue', () =>
    [...new Set(outlets.map(({ name }) => name))].map((name) => ({
      value: outlets.reduce((sum, outlet) => (outlet.name === name ? sum + outlet.queue.taken : sum), 0),
      labels: { 'gateway.telemetry.destination': name },
    })),
  );
  return {
    /** Lets a request wait for every destination that takes its signal. Never throws, never waits. */
    take({ signal, content_type, bytes, principal }: ClientExport): void {
      metrics.add('gateway.client_telemetry.received', { 'gateway.telemetry.signal': signal });
      const taking = outlets.filter((outlet) => outlet.signal === signal);
      // What arrived lies in memory that is larger.
      const own = taking.length > 0 ? Buffer.from(bytes) : bytes;
      for (const { queue, caller } of taking) {
        queue.push({ bytes: own, headers: { 'content-type': content_type, ...callerHeaders(principal, caller) } });
      }
    },
    refused(signal: Signal, code: string): void {
      metrics.add('gateway.client_telemetry.refused', {
        'gateway.telemetry.signal': signal,
        'gateway.error.code': code,
      });
    },
    /** Takes over `telemetry.forward_to`; what waits for a destination that stays as it is goes on waiting. Never throws. */
    use(config: GatewayConfig): void {
      try {
        put(config);
      } catch (error) {
        const message = 'telemetry of clients goes where it went before: telemetry.forward_to cannot be used';
        log.error({ err: error }, message);
      }
    },
    async close(patience_ms: number): Promise<void> {
      await Promise.all([...outlets.map((outlet) => outlet.close(patience_ms)), ...leaving]);
      outlets = [];
    },
  };
}

function openOutlet(
  given: Omit<RelayOptions, 'config'> &
    Pick<Outlet, 'signal' | 'name' | 'key' | 'caller'> & { readonly target: Target },
): Outlet {
  const { target, signal, name, key, caller, clock, log, metrics } = given;
  const collector = openCollector(target);
  const queue = new ExportQueue<Waiting>({
    room: QUEUE_BYTES_MAX,
    weigh: ({ bytes }) => bytes.length + REQUEST_BYTES,
    // Each has headers of its own.
    batch_items: 1,
    delay_ms: 0,
    send: ([one]) => deliver(collector, one!.bytes, one!.headers),
    events: createCollectorLog({ signal, url: publicUrl(target.url), destination: name, metrics, log }),
    clock,
  });
  return {
    ...{ signal, name, caller, key, queue },
    async close(patience_ms) {
      await queue.close(patience_ms);
      collector.close();
    },
  };
}

/** Where a signal of clients goes. Raises StartError that names what cannot be used, and never repeats a secret. */
export function destinationTarget(
  signal: Signal,
  { url, headers_env, compression, timeout_seconds, ca_file }: DestinationConfig,
  env: NodeJS.ProcessEnv,
): Target {
  const base = new URL(url);
  base.pathname = `${base.pathname.replace(/\/(?:v1\/(?:traces|metrics|logs))?\/*$/, '')}/v1/${signal}`;
  try {
    const headers = parseHeaderList(headers_env === undefined ? '' : (secretIn(headers_env, env) ?? ''));
    const way = wayTo(base, env);
    return { url: base.href, headers, protocol: 'http/protobuf', compression, timeout_seconds, ca_file, way };
  } catch (error) {
    const variable = error instanceof UnusableProxy ? '' : `${secretHolder(headers_env ?? '')} cannot be read: `;
    throw new StartError(variable + (error as Error).message, { exit_code: EXIT_CONFIGURATION, cause: error });
  }
}

/** The headers that say who sent something. A client can send none of them: of its own headers only the type of the body goes on. */
export function callerHeaders(principal: Principal, parts: DestinationConfig['caller']): Record<string, string> {
  const { id, email, groups, team, project, token, kind } = principal;
  const values: Record<DestinationConfig['caller'][number], string | undefined> = {
    // That of an access token's owner has the address in it.
    id: parts.includes('email') || !id.includes(email) ? id : undefined,
    email,
    groups: groups.map((group) => group.replace(/[%,]/g, encodeURIComponent)).join(','),
    team,
    project,
    token_group: token.group,
  };
  const headers: Record<string, string> = {
    'x-gateway-caller-source': kind === 'session' ? 'gateway-oidc' : 'gateway-token',
  };
  for (const part of parts) {
    if (values[part]) headers[`x-gateway-caller-${part.replace('_', '-')}`] = headerText(values[part]);
  }
  return headers;
}

/** A text in UTF-8, which Node writes a character a byte, without what would end the header. */
function headerText(text: string): string {
  return Buffer.from(text.replace(/\p{Cc}/gu, ' ').trim()).toString('latin1');
}
