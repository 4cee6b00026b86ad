import type { ISerializer } from '@opentelemetry/otlp-transformer';
import type { Sent } from '../sent.ts';
import { type Collector, deliver } from './collector.ts';

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

/** Sends one export request and judges its answer. Never rejects. */
export async function sendOtlp<T>(
  collector: Collector,
  serializer: Serializer<T>,
  /** Makes what is to be encoded. */
  given: () => T,
): Promise<Sent> {
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
