import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { setImmediate } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { ISerializer } from '@opentelemetry/otlp-transformer';
import type { Signal } from '../../../base/contract/client-telemetry.ts';
import type { Log } from '../../../base/contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../../base/contract/start-error.ts';
import { authoritiesWith } from '../../../base/kit/net/certificates.ts';
import { type Exchange, exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import { openTlsTunnelInTime, placeOf, TunnelAgent } from '../../../base/kit/net/tunnel.ts';
import { retryAfterSeconds } from '../../../base/kit/retry-after.ts';
import type { Metrics } from '../metric-registry.ts';
import type { LossReason, QueueEvents } from './export-queue.ts';
import type { Target } from './settings.ts';

/** Response of a collector; the body is empty if it was too long or broke off. */
type Answered = Pick<Exchange, 'status' | 'headers' | 'body'>;

/** Whether the response is a web page, which no collector sends. */
export function isPage({ headers }: Pick<Answered, 'headers'>): boolean {
  return /^\s*(?:text\/html|application\/xhtml\+xml)\b/i.test(headers['content-type'] ?? '');
}

/** Most bytes of a response; it is read for rejected items, and to reuse the connection. */
const ANSWER_BYTES_MAX = 65_536;
const CONNECTIONS = 4;

/** Outcome of a batch sent to a collector or destination. */
export type Sent =
  /** `rejected`: number of rejected items, by the response. */
  | { readonly outcome: 'taken'; readonly rejected: number }
  /** Permanently rejected. */
  | { readonly outcome: 'refused'; readonly why: string }
  /** Retryable. */
  | { readonly outcome: 'failed'; readonly why: string; readonly retry_after_ms?: number | undefined };

type NotTaken = Exclude<Sent, { outcome: 'taken' }>;

export type Collector = ReturnType<typeof openCollector>;

const GZIP_BYTES_MIN = 512;

const compress = promisify(gzip);

/** Opens connections to a target. Follows no redirects. Raises StartError for an unusable file of the target. */
export function openCollector(target: Target) {
  const { url, protocol, compression, timeout_seconds, way } = target;
  const is_tls = new URL(url).protocol === 'https:';
  const agent = startable(() => agentFor(target));
  const type = protocol === 'http/json' ? 'application/json' : 'application/x-protobuf';
  return {
    /** @param more additional headers. Raises Error with a short reason if there is no response. */
    async send(bytes: Uint8Array, more: Readonly<Record<string, string>> = {}): Promise<Answered> {
      const zip = compression === 'gzip' && bytes.length >= GZIP_BYTES_MIN;
      const body = zip ? await compress(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const encoding = zip ? { 'content-encoding': 'gzip' } : {};
      const headers = { ...target.headers, 'content-type': type, ...more, ...encoding };
      try {
        const answer = await exchange(url, {
          method: 'POST',
          headers,
          body,
          agent,
          bytes_max: ANSWER_BYTES_MAX,
          // One timeout for the whole response, against bodies that never end.
          seconds: timeout_seconds,
          proxy: is_tls ? undefined : way?.proxy,
        });
        // The status decides the outcome of the batch, whatever the body is.
        return answer.ending === 'whole' ? answer : { ...answer, body: Buffer.alloc(0) };
      } catch (error) {
        throw new Error(formatNetworkError(error, timeout_seconds), { cause: error });
      }
    },
    close: () => agent.destroy(),
  };
}

/** A connection pool, direct or through an HTTP proxy. Raises Error for an invalid certificate. */
function agentFor(target: Target): http.Agent {
  const { proxy } = target.way ?? {};
  const pool = { keepAlive: true, maxSockets: CONNECTIONS };
  const place = new URL(target.url);
  const tls = tlsOf(target);
  if (place.protocol !== 'https:') return proxy?.protocol === 'https:' ? new https.Agent(pool) : new http.Agent(pool);
  createSecureContext(tls);
  if (proxy === undefined) return new https.Agent({ ...pool, ...tls });
  return new TunnelAgent(pool, () => openTlsTunnelInTime(placeOf(place), proxy, tls));
}

const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** Outcome by status and headers; `undefined` if accepted. @param now in milliseconds since the epoch */
function whyNotTaken({ status, headers }: Pick<Answered, 'status' | 'headers'>, now: number): NotTaken | undefined {
  const why = `it returns HTTP ${status}`;
  if (status >= 200 && status <= 299) {
    return isPage({ headers }) ? { outcome: 'refused', why: `${why} with a web page` } : undefined;
  }
  if (RETRYABLE.has(status)) {
    const seconds = retryAfterSeconds(headers, now);
    return { outcome: 'failed', why, retry_after_ms: seconds && seconds * 1000 };
  }
  if (status < 300 || status > 399) return { outcome: 'refused', why };
  return { outcome: 'refused', why: `${why} and leads elsewhere, which is not followed` };
}

/** Sends one body and evaluates the response; `rejectedIn` reads the number of rejected items. Never rejects. */
export async function deliver(
  collector: Collector,
  bytes: Uint8Array,
  headers: Readonly<Record<string, string>> = {},
  rejectedIn: (body: Buffer) => number = () => 0,
): Promise<Sent> {
  try {
    const answer = await collector.send(bytes, headers);
    return whyNotTaken(answer, Date.now()) ?? { outcome: 'taken', rejected: rejectedIn(answer.body) };
  } catch (error) {
    return { outcome: 'failed', why: (error as Error).message };
  }
}

interface ExportResponse {
  readonly partialSuccess?: {
    readonly rejectedSpans?: number | undefined;
    readonly rejectedDataPoints?: number | undefined;
    readonly rejectedLogRecords?: number | undefined;
    readonly errorMessage?: string | undefined;
  };
}

export type Serializer<T> = ISerializer<T, ExportResponse>;

/** Encodes a batch, sends it and evaluates the response. Never rejects. @param createInput creates the input of the encoder */
export async function sendOtlp<T>(
  collector: Collector,
  serializer: Serializer<T>,
  createInput: () => T,
): Promise<Sent> {
  // Yield to requests between two batches.
  await setImmediate();
  let bytes: Uint8Array | undefined;
  try {
    bytes = serializer.serializeRequest(createInput());
  } catch {
    // A retry would block the queue.
  }
  if (bytes === undefined) return { outcome: 'refused', why: 'it cannot be encoded' };
  return deliver(collector, bytes, {}, (body) => partOf(serializer, body).rejected);
}

/** Number of rejected items by the response; 0 if it cannot be read. */
export function partOf(serializer: Pick<Serializer<never>, 'deserializeResponse'>, body: Buffer) {
  const whole = { rejected: 0, why: undefined };
  if (body.length === 0) return whole;
  let part: ExportResponse['partialSuccess'];
  try {
    part = serializer.deserializeResponse(body).partialSuccess;
  } catch {
    // The status means accepted; the page of a proxy changes nothing.
    return whole;
  }
  const { rejectedSpans, rejectedDataPoints, rejectedLogRecords, errorMessage } = part ?? {};
  // In JSON, 64-bit integers are strings.
  const rejected = Number(rejectedSpans ?? rejectedDataPoints ?? rejectedLogRecords ?? 0);
  return {
    rejected: Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0,
    why: typeof errorMessage === 'string' && errorMessage !== '' ? errorMessage : undefined,
  };
}

function startable<T>(open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (error instanceof StartError) throw error;
    throw new StartError((error as Error).message, { exit_code: EXIT_CONFIGURATION, cause: error });
  }
}

function tlsOf({ ca_file, certificate_file, key_file }: Target) {
  return {
    ...(ca_file !== undefined && { ca: authoritiesWith(ca_file, 'certificates for the collector') }),
    ...(certificate_file !== undefined && { cert: read(certificate_file, 'client certificate') }),
    ...(key_file !== undefined && { key: read(key_file, 'client key') }),
  };
}

function read(file: string, what: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new Error(`the file with the ${what} for the collector cannot be read: ${file}`, { cause });
  }
}

/** After this many rejected client requests in a row, the destination rejects the gateway, not the data of one client. */
const REJECTIONS_MAX = 5;

/** Counts the outcomes of a signal, and logs when a collector stops accepting it and when it recovers. */
export function createCollectorLog(options: {
  readonly signal: Signal;
  /** Without credentials. */
  readonly url: string;
  /** Destination of `telemetry.forward_to`, by its name in metrics; absent for the collector of the gateway's own telemetry. */
  readonly destination?: string;
  readonly metrics: Metrics;
  readonly log: Log;
}): QueueEvents {
  const { signal, url, destination, metrics, log } = options;
  const labels = { 'gateway.telemetry.signal': signal, 'gateway.telemetry.destination': destination ?? 'collector' };
  const [telemetry, collector] =
    destination === undefined ? ['telemetry', 'the collector'] : ['telemetry of clients', 'its destination'];
  let rejections = 0;
  let is_failing = false;
  let is_dropping = false;
  let dropped = 0;

  function logFailure({ outcome, why }: NotTaken): void {
    if (is_failing || (outcome === 'refused' && destination !== undefined && ++rejections < REJECTIONS_MAX)) return;
    is_failing = true;
    const what =
      outcome === 'refused' ? `rejects ${telemetry}; it is lost` : `does not accept ${telemetry}; it is queued`;
    log.warn({ signal, url, reason: why, code: 'collector_failing' }, `${collector} ${what}`);
  }

  return {
    dropped(items: number, reason: LossReason) {
      metrics.add('gateway.telemetry.dropped', { ...labels, 'gateway.telemetry.reason': reason }, items);
      dropped += items;
      if (is_dropping || reason === 'refused') return;
      is_dropping = true;
      const code = 'telemetry_dropped';
      if (reason === 'closing') log.warn({ signal, url, items, code }, `queued ${telemetry} for ${collector} is lost`);
      else log.warn({ signal, url, reason, code }, `${telemetry} is dropped: ${collector} has not accepted it`);
    },
    sent(_items, answer) {
      if (destination === undefined) {
        metrics.add('gateway.telemetry.sends', {
          'gateway.telemetry.signal': signal,
          'gateway.telemetry.outcome': answer.outcome,
        });
      } else if (answer.outcome === 'taken') metrics.add('gateway.client_telemetry.sent', labels);
      if (answer.outcome !== 'taken') return logFailure(answer);
      rejections = 0;
      if (answer.rejected > 0) {
        if (!is_failing) {
          // The message of the collector may repeat the data.
          log.warn(
            { signal, url, rejected: answer.rejected, code: 'collector_failing' },
            `${collector} accepts only a part of ${telemetry}`,
          );
        }
        is_failing = true;
      } else if (is_failing) {
        log.info({ signal, url, dropped }, `${collector} accepts ${telemetry} again`);
        is_failing = is_dropping = false;
        dropped = 0;
      }
    },
  };
}
