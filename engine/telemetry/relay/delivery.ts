import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Clock } from '../../contract/services.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import type { Answered, Post } from '../post.ts';
import { type Sent, whyNotTaken } from '../sent.ts';
import type { Signal } from './otlp/messages.ts';

/** Sends one batch of a signal. Never rejects. */
export type Deliver = (signal: Signal, bytes: Buffer) => Promise<Sent>;

/** Where batches go, and how. */
export interface DeliveryOptions {
  /** Without `/v1/traces` and its siblings. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeout_seconds: number;
  readonly compression: 'gzip' | 'none';
  readonly post: Post;
  readonly clock: Clock;
}

const compress = promisify(gzip);

/** Makes the function that sends batches to one destination: by POST, without following redirects. */
export function createDeliver(options: DeliveryOptions): Deliver {
  const { headers, timeout_seconds, compression, post, clock } = options;
  const { pathname, search } = new URL(options.url);
  const base = pathname.replace(/\/+$/, '');
  const zipped = compression === 'gzip';
  const fixed = {
    ...headers,
    'content-type': 'application/x-protobuf',
    ...(zipped && { 'content-encoding': 'gzip' }),
  };
  return async (signal, bytes) => {
    const patience = new AbortController();
    const timer = clock.after(timeout_seconds * 1000, () => patience.abort());
    try {
      const body = zipped ? await compress(bytes) : bytes;
      return await judge(
        signal,
        await post(`${base}/v1/${signal}${search}`, fixed, body, patience.signal),
        clock.now(),
      );
    } catch (error) {
      return { outcome: 'failed', why: formatNetworkError(error, timeout_seconds) };
    } finally {
      timer.close();
    }
  };
}

async function judge(signal: Signal, answer: Answered, now: number): Promise<Sent> {
  const not_taken = whyNotTaken(answer, now);
  if (not_taken !== undefined) return not_taken;
  const { headers, body } = answer;
  if (body.length === 0 || !/protobuf/.test(String(headers['content-type']))) return { outcome: 'taken', rejected: 0 };
  const { rejectedItems } = await import('./otlp/codec.ts');
  return { outcome: 'taken', rejected: rejectedItems(signal, body) };
}
