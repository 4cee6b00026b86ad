import { readFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { ISerializer } from '@opentelemetry/otlp-transformer';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { readCertificates } from '../../kit/net/certificates.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { retryAfterSeconds } from '../../kit/retry-after.ts';
import { type Answered, isPage, openPost } from '../post.ts';
import type { Target } from './settings.ts';

/** What became of a batch that was sent to a collector or a destination. */
export type Sent =
  /** `rejected`: how many of its items were not kept, by the answer's own words. */
  | { readonly outcome: 'taken'; readonly rejected: number }
  /** It will never be taken. */
  | { readonly outcome: 'refused'; readonly why: string }
  /** It may be taken later. */
  | { readonly outcome: 'failed'; readonly why: string; readonly retry_after_ms?: number | undefined };

/** A batch that was not taken. */
export type NotTaken = Exclude<Sent, { outcome: 'taken' }>;

/** The way to one collector. */
export interface Collector {
  /** @param headers beside those of the target. Raises Error that says in a few words why there is no answer. */
  send(bytes: Uint8Array, headers?: Readonly<Record<string, string>>): Promise<Answered>;
  /** Breaks off what is on its way. */
  close(): void;
}

/** Smaller bodies hardly shrink. */
const GZIP_BYTES_MIN = 512;

const compress = promisify(gzip);

/** Makes the connections to a target. Redirects are not followed. Raises StartError where a file of the target cannot be used. */
export function openCollector(target: Target): Collector {
  const { url, protocol, compression, timeout_seconds } = target;
  const { origin, pathname, search } = new URL(url);
  const { post, close } = startable(() => openPost(origin, tlsOf(target), target.way));
  const type = protocol === 'http/json' ? 'application/json' : 'application/x-protobuf';
  return {
    async send(bytes, more = {}) {
      const zip = compression === 'gzip' && bytes.length >= GZIP_BYTES_MIN;
      const body = zip ? await compress(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const headers = {
        ...{ 'content-type': type, ...target.headers, ...more },
        ...(zip && { 'content-encoding': 'gzip' }),
      };
      // One time for all of it: a body that trickles in without end is a collector that does not answer.
      const patience = AbortSignal.timeout(timeout_seconds * 1000);
      try {
        return await post(`${pathname}${search}`, headers, body, patience);
      } catch (error) {
        throw new Error(formatNetworkError(error, timeout_seconds), { cause: error });
      }
    },
    close,
  };
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

/** The part of an answer that says what was not kept. */
interface ExportResponse {
  readonly partialSuccess?: {
    readonly rejectedSpans?: number | undefined;
    readonly rejectedDataPoints?: number | undefined;
    readonly rejectedLogRecords?: number | undefined;
    readonly errorMessage?: string | undefined;
  };
}

/** Encodes by OTLP. */
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
    ca: ca_file === undefined ? undefined : authoritiesIn(ca_file),
    certificate: certificate_file === undefined ? undefined : read(certificate_file, 'client certificate'),
    key: key_file === undefined ? undefined : read(key_file, 'client key'),
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
