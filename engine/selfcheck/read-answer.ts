import { parseBounded } from '../kit/json/bounded.ts';
import { type DecodedBody, decodeBody } from '../kit/net/decode-body.ts';
import type { Arrival, Exchange } from '../kit/net/exchange.ts';

/** An answer that can be read. */
export interface Answer {
  readonly status: number;
  readonly headers: Exchange['headers'];
  /** Without compression. */
  readonly body: Buffer;
  readonly text: string;
  readonly arrivals: readonly Arrival[];
  /** Its value, where it is JSON; `undefined` where it is none. */
  readonly json: unknown;
  readonly head_ms: number;
  readonly total_ms: number;
  /** Why there is no more of it; `undefined` where it is whole. */
  readonly fault: Exclude<Exchange['ending'], 'whole'> | DecodedBody['fault'] | undefined;
}

const BYTES_MAX = 8 * 1024 * 1024;

/** Takes the compression off an answer and reads its JSON, if it is any; whatever came, it does not raise. */
export async function readAnswer(exchange: Exchange): Promise<Answer> {
  const { status, headers, head_ms, total_ms, ending } = exchange;
  const { body, arrivals, fault } = await decodeBody(exchange, BYTES_MAX);
  const text = body.toString('utf8');
  return {
    ...{ status, headers, head_ms, total_ms, body, text, arrivals },
    json: jsonOf(text),
    fault: fault ?? (ending === 'whole' ? undefined : ending),
  };
}

function jsonOf(text: string): unknown {
  if (!/^\s*[{["\w-]/.test(text)) return undefined;
  try {
    return parseBounded(text);
  } catch {
    return undefined;
  }
}

/** A JSON object's own fields; none where the value is anything else. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
