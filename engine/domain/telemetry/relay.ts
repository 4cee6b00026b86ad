import { SIGNALS, type Signal } from '../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../base/contract/config.ts';
import type { Principal } from '../../base/contract/services.ts';
import { createCollectorLog, deliver, openCollector } from './export/collector.ts';
import { ExportQueue } from './export/export-queue.ts';
import { headersIn, publicUrl, type Target, wayOf } from './export/settings.ts';
import type { TelemetrySurroundings } from './metric-registry.ts';

type DestinationConfig = GatewayConfig['telemetry']['forward_to'][number];

export interface ClientExport {
  readonly signal: Signal;
  readonly content_type: string;
  readonly bytes: Buffer;
  readonly principal: Principal;
}

/** Forwards telemetry of clients unchanged to the destinations of `telemetry.forward_to`. */
export type TelemetryRelay = ReturnType<typeof openRelay>;

type Outlet = ReturnType<typeof openOutlet>;

/** Most queued bytes for one signal and destination, and the overhead of a request in them. */
const QUEUE_BYTES_MAX = 8 * 1024 * 1024;
const REQUEST_BYTES = 4096;
const LEAVING_MS = 5000;

/** Opens the destinations of the configuration, without connecting to them. Raises StartError. */
export function openRelay({
  config: of_start,
  ...options
}: TelemetrySurroundings & { readonly config: GatewayConfig }) {
  const { env, log, metrics } = options;
  let outlets: readonly Outlet[] = [];
  const leaving = new Set<Promise<void>>();
  const put = ({ telemetry }: GatewayConfig) => {
    const before = new Map(outlets.map((outlet) => [outlet.key, outlet]));
    // Open all new outlets before closing old ones, so that an unusable configuration changes nothing.
    outlets = telemetry.forward_to.flatMap((entry, at) =>
      SIGNALS.filter((signal) => entry[signal]).map((signal) => {
        const target = destinationTarget(signal, entry, env);
        const { host } = new URL(entry.url);
        const is_second = telemetry.forward_to.slice(0, at).some(({ url }) => new URL(url).host === host);
        const name = is_second ? `${host}#${at + 1}` : host;
        const key = JSON.stringify([name, signal, target, entry.caller]);
        return before.get(key) ?? openOutlet(options, target, signal, name, entry.caller, key);
      }),
    );
    for (const outlet of before.values()) {
      if (outlets.includes(outlet)) continue;
      const gone = outlet.queue.close(LEAVING_MS).finally(() => leaving.delete(gone));
      leaving.add(gone);
    }
  };
  // Nothing below keeps a reference, so that a reload frees the first configuration.
  put(of_start);
  metrics.observe('gateway.client_telemetry.queue', () =>
    [...new Set(outlets.map(({ name }) => name))].map((name) => ({
      value: outlets.reduce((sum, outlet) => (outlet.name === name ? sum + outlet.queue.taken : sum), 0),
      labels: { 'gateway.telemetry.destination': name },
    })),
  );
  return {
    /** Queues a request for every destination of its signal. Never throws, never waits. */
    take({ signal, content_type, bytes, principal }: ClientExport): void {
      metrics.add('gateway.client_telemetry.received', { 'gateway.telemetry.signal': signal });
      const taking = outlets.filter((outlet) => outlet.signal === signal);
      // Copy, because the received bytes are a slice of a larger buffer.
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
    /** Applies a new `telemetry.forward_to`; unchanged destinations keep their queue. Never throws. */
    use(config: GatewayConfig): void {
      try {
        put(config);
      } catch (error) {
        const message = 'the new telemetry.forward_to cannot be used; telemetry of clients keeps its destinations';
        log.error({ err: error }, message);
      }
    },
    async close(timeout_ms: number): Promise<void> {
      await Promise.all([...outlets.map(({ queue }) => queue.close(timeout_ms)), ...leaving]);
      outlets = [];
    },
  };
}

/** @param key identity of the outlet: a change replaces it. */
function openOutlet(
  { clock, log, metrics }: TelemetrySurroundings,
  target: Target,
  signal: Signal,
  name: string,
  caller: DestinationConfig['caller'],
  key: string,
) {
  const collector = openCollector(target);
  const queue = new ExportQueue<{ readonly bytes: Buffer; readonly headers: Readonly<Record<string, string>> }>({
    capacity: QUEUE_BYTES_MAX,
    weigh: ({ bytes }) => bytes.length + REQUEST_BYTES,
    // One request each, because the headers differ.
    batch_items: 1,
    delay_ms: 0,
    send: ([one]) => deliver(collector, one!.bytes, one!.headers),
    events: createCollectorLog({ signal, url: publicUrl(target.url), destination: name, metrics, log }),
    clock,
    closed: () => collector.close(),
  });
  return { signal, name, caller, key, queue };
}

/** The target of a signal of clients. Raises StartError for unusable settings, without secrets. */
export function destinationTarget(
  signal: Signal,
  { url, headers_env, compression, timeout_seconds, ca_file }: DestinationConfig,
  env: NodeJS.ProcessEnv,
): Target {
  const base = new URL(url);
  base.pathname = `${base.pathname.replace(/\/(?:v1\/(?:traces|metrics|logs))?\/*$/, '')}/v1/${signal}`;
  const { href: to } = base;
  const headers = headers_env === undefined ? {} : headersIn(env, headers_env);
  return { url: to, headers, protocol: 'http/protobuf', compression, timeout_seconds, ca_file, ...wayOf(to, env) };
}

/** Headers that identify the caller. Clients cannot forge them: of their own headers only the content type is forwarded. */
export function callerHeaders(principal: Principal, parts: DestinationConfig['caller']): Record<string, string> {
  const { id, email, groups, team, project, token, kind } = principal;
  const values: Record<DestinationConfig['caller'][number], string | undefined> = {
    // The id of an access token's owner contains the e-mail address.
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

/** A header value in UTF-8 (Node writes one byte per character), without control characters. */
function headerText(text: string): string {
  return Buffer.from(text.replace(/\p{Cc}/gu, ' ').trim()).toString('latin1');
}
