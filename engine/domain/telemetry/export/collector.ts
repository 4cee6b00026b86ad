import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { setImmediate } from 'node:timers/promises';
import { createSecureContext, getCACertificates } from 'node:tls';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { ISerializer } from '@opentelemetry/otlp-transformer';
import type { Signal } from '../../../base/contract/client-telemetry.ts';
import type { Log } from '../../../base/contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../../base/contract/start-error.ts';
import { readCertificates } from '../../../base/kit/net/certificates.ts';
import { type Exchange, exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import { openTlsTunnelInTime, placeOf } from '../../../base/kit/net/tunnel.ts';
import { TunnelAgent } from '../../../base/kit/net/tunnel-agent.ts';
import { retryAfterSeconds } from '../../../base/kit/retry-after.ts';
import type { Metrics } from '../metric-registry.ts';
import type { LossReason, QueueEvents } from './export-queue.ts';
import type { Target } from './settings.ts';

/** What a collector answers; its body is empty where it was too long or broke off. */
type Answered = Pick<Exchange, 'status' | 'headers' | 'body'>;

/** Whether it is a page for people, as sites answer whatever they are asked; no collector does. */
export function isPage({ headers }: Pick<Answered, 'headers'>): boolean {
  return /^\s*(?:text\/html|application\/xhtml\+xml)\b/i.test(headers['content-type'] ?? '');
}

/** An answer is read for what it says was not taken, and so that its connection can be used again. */
const ANSWER_BYTES_MAX = 65_536;
const CONNECTIONS = 4;

/** What became of a batch that was sent to a collector or a destination. */
export type Sent =
  /** `rejected`: how many of its items were not kept, by the answer's own words. */
  | { readonly outcome: 'taken'; readonly rejected: number }
  /** It will never be taken. */
  | { readonly outcome: 'refused'; readonly why: string }
  /** It may be taken later. */
  | { readonly outcome: 'failed'; readonly why: string; readonly retry_after_ms?: number | undefined };

export type NotTaken = Exclude<Sent, { outcome: 'taken' }>;

export type Collector = ReturnType<typeof openCollector>;

/** Smaller bodies hardly shrink. */
const GZIP_BYTES_MIN = 512;

const compress = promisify(gzip);

/** Makes the connections to a target. Redirects are not followed. Raises StartError where a file of the target cannot be used. */
export function openCollector(target: Target) {
  const { url, protocol, compression, timeout_seconds, way } = target;
  const is_tls = new URL(url).protocol === 'https:';
  const agent = startable(() => agentFor(target));
  const type = protocol === 'http/json' ? 'application/json' : 'application/x-protobuf';
  return {
    /** @param more headers beside those of the target. Raises Error that says in a few words why there is no answer. */
    async send(bytes: Uint8Array, more: Readonly<Record<string, string>> = {}): Promise<Answered> {
      const zip = compression === 'gzip' && bytes.length >= GZIP_BYTES_MIN;
      const body = zip ? await compress(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const headers = {
        ...{ 'content-type': type, ...target.headers, ...more },
        ...(zip && { 'content-encoding': 'gzip' }),
      };
      try {
        const answer = await exchange(url, {
          method: 'POST',
          headers,
          body,
          agent,
          bytes_max: ANSWER_BYTES_MAX,
          // One time for all of it: a body that trickles in without end is a collector that does not answer.
          seconds: timeout_seconds,
          proxy: is_tls ? undefined : way?.proxy,
        });
        // The status has said what became of the batch, whatever came of the rest.
        return answer.ending === 'whole' ? answer : { ...answer, body: Buffer.alloc(0) };
      } catch (error) {
        throw new Error(formatNetworkError(error, timeout_seconds), { cause: error });
      }
    },
    close: () => agent.destroy(),
  };
}

/** Connections of its own, directly or through an HTTP proxy. Raises Error for a certificate that is none. */
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

/** Statuses after which OTLP/HTTP lets a client send again. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** What the head of an answer says of the batch; `undefined` where it was taken. @param now in milliseconds since the epoch */
function whyNotTaken({ status, headers }: Pick<Answered, 'status' | 'headers'>, now: number): NotTaken | undefined {
  const why = `it answers HTTP ${status}`;
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

/**
 * Sends one body and judges the answer. Never rejects.
 * @param rejectedIn how many items the body of an answer says were not kept
 */
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

/** Encodes a batch, sends it and judges the answer. Never rejects. @param given makes what is to be encoded */
export async function sendOtlp<T>(collector: Collector, serializer: Serializer<T>, given: () => T): Promise<Sent> {
  // Between two batches requests get their turn.
  await setImmediate();
  let bytes: Uint8Array | undefined;
  try {
    bytes = serializer.serializeRequest(given());
  } catch {
    // Sent again, it would keep the others waiting.
  }
  if (bytes === undefined) return { outcome: 'refused', why: 'it cannot be encoded' };
  return deliver(collector, bytes, {}, (body) => partOf(serializer, body).rejected);
}

/** What an answer says was not kept; nothing where it cannot be read. */
export function partOf(
  serializer: Pick<Serializer<never>, 'deserializeResponse'>,
  body: Buffer,
): { readonly rejected: number; readonly why: string | undefined } {
  const whole = { rejected: 0, why: undefined };
  if (body.length === 0) return whole;
  let part: ExportResponse['partialSuccess'];
  try {
    part = serializer.deserializeResponse(body).partialSuccess;
  } catch {
    // The status says that it was taken; a proxy's page after it changes nothing.
    return whole;
  }
  const { rejectedSpans, rejectedDataPoints, rejectedLogRecords, errorMessage } = part ?? {};
  // JSON has whole numbers of 64 bits as texts.
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
    throw new StartError((error as Error).message, { exit_code: EXIT_CONFIGURATION, cause: error });
  }
}

function tlsOf({ ca_file, certificate_file, key_file }: Target) {
  return {
    ...(ca_file !== undefined && { ca: [...getCACertificates('default'), ...authoritiesIn(ca_file)] }),
    ...(certificate_file !== undefined && { cert: read(certificate_file, 'client certificate') }),
    ...(key_file !== undefined && { key: read(key_file, 'client key') }),
  };
}

function authoritiesIn(file: string): string[] {
  try {
    return readCertificates(file);
  } catch (error) {
    // Without the cause, whose words the log would say again.
    throw new Error(`the file ${file} (certificates for the collector) ${(error as Error).message}`);
  }
}

function read(file: string, what: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new Error(`the file with the ${what} for the collector cannot be read: ${file}`, { cause });
  }
}

/** A destination that refuses so many requests of clients in a row refuses what the gateway does, and not what one client sent. */
const REFUSALS_MAX = 5;

/** Counts what becomes of a signal, and tells the log when a collector stops taking it and when it takes it again. */
export function createCollectorLog(options: {
  readonly signal: Signal;
  /** Without credentials. */
  readonly url: string;
  /** Of `telemetry.forward_to`, by its name in metrics; absent for the collector of the gateway's own telemetry. */
  readonly destination?: string;
  readonly metrics: Metrics;
  readonly log: Log;
}): QueueEvents {
  const { signal, url, destination, metrics, log } = options;
  const labels = { 'gateway.telemetry.signal': signal, 'gateway.telemetry.destination': destination ?? 'collector' };
  const [telemetry, collector] =
    destination === undefined ? ['telemetry', 'the collector'] : ['telemetry of clients', 'its destination'];
  let refusals = 0;
  let is_failing = false;
  let is_dropping = false;
  let dropped = 0;

  function wentWrong({ outcome, why }: NotTaken): void {
    if (is_failing || (outcome === 'refused' && destination !== undefined && ++refusals < REFUSALS_MAX)) return;
    is_failing = true;
    const what =
      outcome === 'refused' ? `refuses ${telemetry}, which is lost` : `does not take ${telemetry}, which waits for it`;
    log.warn({ signal, url, reason: why, code: 'collector_failing' }, `${collector} ${what}`);
  }

  return {
    dropped(items: number, reason: LossReason) {
      metrics.add('gateway.telemetry.dropped', { ...labels, 'gateway.telemetry.reason': reason }, items);
      dropped += items;
      if (is_dropping || reason === 'refused') return;
      is_dropping = true;
      const code = 'telemetry_dropped';
      if (reason === 'closing')
        log.warn({ signal, url, items, code }, `${telemetry} that waited for ${collector} is lost`);
      else log.warn({ signal, url, reason, code }, `${telemetry} is dropped: ${collector} has not taken it`);
    },
    sent(_items, answer) {
      if (destination === undefined) {
        metrics.add('gateway.telemetry.sends', {
          'gateway.telemetry.signal': signal,
          'gateway.telemetry.outcome': answer.outcome,
        });
      } else if (answer.outcome === 'taken') metrics.add('gateway.client_telemetry.sent', labels);
      if (answer.outcome !== 'taken') return wentWrong(answer);
      refusals = 0;
      if (answer.rejected > 0) {
        if (!is_failing) {
          // The collector's own words may repeat what it was sent.
          log.warn(
            { signal, url, rejected: answer.rejected, code: 'collector_failing' },
            `${collector} keeps a part of ${telemetry} only`,
          );
        }
        is_failing = true;
      } else if (is_failing) {
        log.info({ signal, url, dropped }, `${collector} takes ${telemetry} again`);
        is_failing = is_dropping = false;
        dropped = 0;
      }
    },
  };
}
