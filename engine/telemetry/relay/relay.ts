import type { GatewayConfig } from '../../contract/config.ts';
import type { Clock, Log, Principal } from '../../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { readCertificates } from '../../kit/net/certificates.ts';
import { type Way, wayTo } from '../../kit/net/way.ts';
import { secretHolder, secretIn } from '../../kit/secret-names.ts';
import { createTurns } from '../../kit/turns.ts';
import { parseHeaderList } from '../header-list.ts';
import type { Metrics } from '../metrics.ts';
import { openPost } from '../post.ts';
import { createDeliver } from './delivery.ts';
import { Destination } from './destination.ts';
import { callerAttributes } from './identity.ts';
import type { Encoding, Signal } from './otlp/messages.ts';
import { Permitted } from './permitted.ts';

/** An entry of `telemetry.forward_to`. */
type DestinationConfig = GatewayConfig['telemetry']['forward_to'][number];

/** Telemetry that a client sent, as it came after decompression. */
export interface ClientExport {
  readonly signal: Signal;
  readonly encoding: Encoding;
  readonly bytes: Buffer;
  readonly principal: Principal;
}

/** What became of an export request. */
export interface TakenExport {
  /** Spans, points of metrics, or log records in it. */
  readonly items: number;
  /** Destinations that take its signal. */
  readonly destinations: number;
}

/** Passes telemetry of clients on to the destinations of `telemetry.forward_to`. */
export interface TelemetryRelay {
  /**
   * Takes an export request for every destination that may have it; resolves as soon as it waits for them. Raises
   * invalid_request for what is none.
   */
  receive(sent: ClientExport): Promise<TakenExport>;
  /** Counts a request that was not taken. */
  refused(signal: Signal, code: string): void;
  /** Takes over `telemetry.forward_to`; what waits for a destination that stays as it is goes on waiting. Never throws. */
  use(config: GatewayConfig): void;
  /** Sends what waits, once, for as long as `patience_ms`. */
  close(patience_ms: number): Promise<void>;
}

/** What the relay needs of a gateway. */
export interface RelayOptions {
  readonly config: GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** A destination with what may go there. */
interface Outlet {
  readonly config: DestinationConfig;
  /** What makes another destination of it when it changes. */
  readonly key: string;
  readonly permitted: Permitted;
  readonly destination: Destination;
  close(patience: Promise<void>): Promise<void>;
}

/** How long a destination that is no longer one may take for what waits. */
const LEAVING_MS = 5000;

/** Opens the destinations of the configuration; none is asked for anything until there is something to send. Raises StartError. */
export function openRelay({ config: of_start, ...options }: RelayOptions): TelemetryRelay {
  const { clock, log, metrics } = options;
  let outlets: readonly Outlet[] = [];
  const leaving = new Set<Promise<void>>();
  // What one request is made of takes many times its bytes, and going through it takes milliseconds.
  const inTurn = createTurns();
  const put = (config: GatewayConfig) => {
    const before = new Map(outlets.map((outlet) => [outlet.key, outlet]));
    const names = new Set<string>();
    // All of them are made before one is let go of: a configuration that can't be used changes nothing.
    outlets = config.telemetry.forward_to.map((entry) => {
      const key = keyOf(entry, options.env);
      const name = uniqueName(new URL(entry.url).host, names);
      const same = before.get(key);
      return same?.destination.name === name ? same : openOutlet(entry, { ...options, key, name });
    });
    for (const outlet of before.values()) {
      if (outlets.includes(outlet)) continue;
      const gone = outlet.close(passed(clock, LEAVING_MS)).finally(() => leaving.delete(gone));
      leaving.add(gone);
    }
  };
  // Nothing below holds on to it: a reload lets go of the configuration of the start.
  put(of_start);
  metrics.observe('gateway.client_telemetry.queue', () =>
    outlets.map(({ destination }) => ({
      value: destination.queued_bytes,
      labels: { 'gateway.telemetry.destination': destination.name },
    })),
  );
  async function take({ signal, encoding, bytes, principal }: ClientExport): Promise<TakenExport> {
    const { decodeRequest } = await import('./otlp/codec.ts');
    const { itemsIn, outgoingPieces } = await import('./outgoing.ts');
    const request = decodeRequest(signal, encoding, bytes);
    const items = itemsIn(signal, request);
    metrics.add('gateway.client_telemetry.received', { 'gateway.telemetry.signal': signal }, items);
    const taking = outlets.filter(({ config }) => config[signal]);
    for (const { config, permitted, destination } of taking) {
      if (!destination.has_room) {
        destination.drop(signal, items, 'queue_full');
        continue;
      }
      const caller = callerAttributes(principal, config.caller);
      for (const piece of outgoingPieces(signal, request, permitted, caller)) {
        destination.take(signal, piece);
        // Requests of models are served in between.
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    return { items, destinations: taking.length };
  }

  return {
    receive: (sent) => inTurn(sent.principal.id, () => take(sent)),
    refused(signal, code) {
      metrics.add('gateway.client_telemetry.refused', {
        'gateway.telemetry.signal': signal,
        'gateway.error.code': code,
      });
    },
    use(config) {
      try {
        put(config);
      } catch (error) {
        log.error(
          { err: error },
          'telemetry of clients goes where it went before: telemetry.forward_to cannot be used',
        );
      }
    },
    async close(patience_ms) {
      const patience = passed(clock, patience_ms);
      await Promise.all([...outlets.map((outlet) => outlet.close(patience)), ...leaving]);
      outlets = [];
    },
  };
}

function openOutlet(
  config: DestinationConfig,
  given: Omit<RelayOptions, 'config'> & { readonly key: string; readonly name: string },
): Outlet {
  const { clock, log, metrics, env, key, name } = given;
  const { url, names, attributes, content_reason, timeout_seconds, compression, ca_file } = config;
  const ca = ca_file === undefined ? undefined : certificatesIn(ca_file);
  const headers = headersOf(config, env);
  const base = url.replace(/\/v1\/(?:traces|metrics|logs)\/?(?=$|\?)/, '');
  const { post, close } = openPost(new URL(base).origin, { ca }, wayOf(base, env));
  const deliver = createDeliver({ url: base, headers, timeout_seconds, compression, post, clock });
  const destination = new Destination({ name, deliver, clock, log, metrics });
  return {
    config,
    key,
    permitted: new Permitted({ names, attributes, content: content_reason !== undefined }),
    destination,
    async close(patience) {
      await destination.close(patience);
      close();
    },
  };
}

function keyOf(entry: DestinationConfig, env: NodeJS.ProcessEnv): string {
  return JSON.stringify([entry, entry.headers_env === undefined ? undefined : secretIn(entry.headers_env, env)]);
}

function uniqueName(host: string, taken: Set<string>): string {
  let name = host;
  for (let n = 2; taken.has(name); n++) name = `${host}#${n}`;
  taken.add(name);
  return name;
}

function headersOf({ headers_env }: DestinationConfig, env: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  if (headers_env === undefined) return {};
  try {
    return parseHeaderList(secretIn(headers_env, env) ?? '');
  } catch (error) {
    throw new StartError(
      `${secretHolder(headers_env)} (telemetry.forward_to) cannot be used: ${(error as Error).message}`,
      { exit_code: EXIT_CONFIGURATION, cause: error },
    );
  }
}

function wayOf(url: string, env: NodeJS.ProcessEnv): Way {
  try {
    return wayTo(new URL(url), env);
  } catch (error) {
    throw new StartError((error as Error).message, { exit_code: EXIT_CONFIGURATION });
  }
}

function certificatesIn(file: string): string[] {
  try {
    return readCertificates(file);
  } catch (error) {
    throw new StartError(`the file ${file} (telemetry.forward_to.ca_file) ${(error as Error).message}`, {
      exit_code: EXIT_CONFIGURATION,
      cause: error,
    });
  }
}

function passed(clock: Clock, milliseconds: number): Promise<void> {
  return new Promise((resolve) => clock.after(milliseconds, resolve).unref());
}
