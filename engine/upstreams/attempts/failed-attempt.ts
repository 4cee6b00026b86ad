import { StageError } from '../../contract/errors.ts';
import type { AttemptEffect, Certainty } from '../../contract/forwarding.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import { decompressed } from '../../kit/decompressor.ts';
import { isPlain } from '../../kit/media-type.ts';
import { NoTunnel, ProxyUnreachable } from '../../kit/net/tunnel.ts';
import { type AttemptOutcome, FAILOVER_TABLE } from '../failover-table.ts';

/** An attempt that was not served, with what the client gets if nothing better follows. */
export interface FailedAttempt {
  readonly upstream: string;
  readonly outcome: AttemptOutcome;
  readonly certainty: Certainty;
  /** What the upstream answered, or what the error that began its stream stands for. */
  readonly status: number | undefined;
  readonly sends: number;
  readonly resent: 'stale_socket' | undefined;
  /** Whether nothing of the body is still to be sent. */
  readonly is_through: boolean;
  /** When it was sent, on the monotonic clock. */
  readonly began_at: number;
  readonly ms: number;
  readonly request_id: string | undefined;
  readonly retry_after_seconds: number | undefined;
  /** Whether the error says itself that it is about the model. */
  readonly names_model: boolean;
  /** Whether only the words of its text say what it means. */
  readonly by_phrase?: boolean;
  /** What the upstream said, where that is that the conversation is too long for its model. */
  readonly full_context?: string;
  /** The upstream's own answer, where there is one to pass on. */
  readonly response?: UpstreamResponse;
  readonly chunks?: readonly Buffer[];
  /** How much of an answer came that is not passed on. */
  readonly received_bytes?: number;
  /** Whether that is all of it, so that it can be passed on later. */
  readonly is_whole?: boolean;
  /** Whether the upstream was asked in another protocol than the client's. */
  readonly is_translated: boolean;
  /** What happened, where there is no answer to pass on. */
  readonly error?: StageError;
  /** What the system calls it, such as `ECONNREFUSED`. */
  readonly code?: string | undefined;
}

/** The most bytes of a decompressed error. */
const ERROR_BYTES_MAX = 262_144;

/** The text of an error's body; empty for one that cannot be read. */
export function errorText(response: UpstreamResponse, chunks: readonly Buffer[]): string {
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const encoding = response.headers['content-encoding'];
  if (isPlain(encoding)) return bytes.toString('utf8');
  try {
    return decompressed(encoding!, bytes, ERROR_BYTES_MAX).toString('utf8');
  } catch {
    return '';
  }
}

/** What a client is told of a request that got no answer. A certificate that is not accepted is no connection either. */
export function describeFailure(error: NodeJS.ErrnoException, name: string, is_sent: boolean): StageError {
  if (error instanceof StageError) return error;
  const details = { upstream: name };
  if (is_sent) {
    const message = `The upstream "${name}" dropped the connection before it answered.`;
    return new StageError('upstream_failed', message, { details });
  }
  const is_of_proxy = error instanceof NoTunnel || error instanceof ProxyUnreachable;
  const why = is_of_proxy ? `: ${error.message}` : error.code === undefined ? '' : ` (${error.code})`;
  return new StageError('upstream_unreachable', `No connection to the upstream "${name}"${why}.`, { details });
}

/**
 * What an attempt says about the upstream, where a caller can't make it up: an error about something else than the model is no reason to
 * remember that it is missing, and a refusal of the request may repeat what the caller wrote.
 */
export function effectOf({ outcome, status = 0, names_model, by_phrase, full_context }: FailedAttempt): AttemptEffect {
  const { effect } = FAILOVER_TABLE[outcome];
  // It answered, with a status that says nothing good of it.
  if (full_context !== undefined && status >= 500) return 'neutral';
  if (effect === 'model_missing' && !names_model) return 'neutral';
  if (outcome === 'limited' && status !== 429) return 'neutral';
  if (status !== 400 && status !== 422) return effect;
  if (outcome === 'payment') return 'permission';
  return by_phrase && outcome !== 'caller' ? 'neutral' : effect;
}

const BRIEFLY: Readonly<Partial<Record<AttemptOutcome, string>>> = {
  unreachable: 'no connection',
  unanswered: 'no answer',
  foreign: 'an answer that is not of its protocol',
  empty: 'an answer that ended before it began',
};

/** In a few words, for lists and for those who wait for it. */
export function describeFailed({ outcome, status, code }: FailedAttempt): string {
  if (status !== undefined && status >= 400) return `status ${status}`;
  const words = BRIEFLY[outcome] ?? outcome;
  return code === undefined ? words : `${words} (${code})`;
}

/** Another upstream is asked: what is still to come of this answer is not waited for. */
export function letGo({ response, is_whole }: FailedAttempt): void {
  if (!is_whole) response?.destroy();
}
