import { retryAfterSeconds } from '../kit/retry-after.ts';
import { type Answered, isPage } from './post.ts';

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

/** Statuses after which OTLP/HTTP lets a client send again. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** What the head of an answer says of the batch; `undefined` where it was taken. @param now in milliseconds since the epoch */
export function whyNotTaken(
  { status, headers }: Pick<Answered, 'status' | 'headers'>,
  now: number,
): NotTaken | undefined {
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
