import { StageError } from '../../contract/errors.ts';
import type { DropReason } from '../../contract/forwarding.ts';
import type { FailedAttempt } from './failed-attempt.ts';

/** Longest wait that clients are told: the Messages client gives up at once for a longer one. */
const RETRY_AFTER_MAX = 60;

/** Statuses that are told before all others when no upstream could serve, in this order, the last of each. */
const TOLD_FIRST: readonly (readonly number[])[] = [[429], [401, 402, 403], [404], [501]];

/** What the client of a request that no upstream served is answered: the answer of one of them, or an error of our own. */
export type LastWord =
  | { readonly attempt: FailedAttempt; readonly retry_after: string | undefined }
  | { readonly error: StageError };

/**
 * Chooses the last word among attempts that failed, the last of them last. An upstream that was alone speaks for itself.
 * @param waits_seconds after how long an upstream may serve again, as far as it is known.
 */
export function lastWord(failed: readonly FailedAttempt[], waits_seconds: readonly number[]): LastWord {
  const last = failed.at(-1)!;
  const names = new Set(failed.map(({ upstream }) => upstream));
  if (names.size === 1 || last.outcome === 'caller' || last.outcome === 'gone') return own(last, undefined);
  const retry_after = shortest(waits_seconds);
  for (const statuses of TOLD_FIRST) {
    const chosen = failed.findLast(
      ({ status, outcome }) => status !== undefined && outcome !== 'foreign' && statuses.includes(status),
    );
    if (chosen === undefined) continue;
    if (chosen === last || (chosen.is_whole && !chosen.is_translated && !last.is_translated)) {
      return own(chosen, retry_after);
    }
    return { error: inItsPlace(chosen, retry_after) };
  }
  return { error: noneAnswered(failed, names.size, retry_after) };
}

function own(attempt: FailedAttempt, retry_after: string | undefined): LastWord {
  return attempt.error !== undefined ? { error: attempt.error } : { attempt, retry_after };
}

function shortest(waits_seconds: readonly number[]): string | undefined {
  if (waits_seconds.length === 0) return undefined;
  return String(Math.min(RETRY_AFTER_MAX, Math.max(1, Math.ceil(Math.min(...waits_seconds)))));
}

/** Of an answer in a protocol that cannot be translated any more only the status is told. */
function inItsPlace({ upstream, status }: FailedAttempt, retry_after: string | undefined): StageError {
  return new StageError('upstream_failed', `The upstream "${upstream}" refused the request with status ${status}.`, {
    status: status!,
    details: { upstream, upstream_status: status! },
    ...(retry_after !== undefined && { headers: { 'retry-after': retry_after } }),
  });
}

function noneAnswered(failed: readonly FailedAttempt[], tried: number, retry_after: string | undefined): StageError {
  const last_of_each = [...new Map(failed.map((attempt) => [attempt.upstream, attempt])).values()];
  const told = last_of_each.map(({ upstream, outcome, status }) => {
    return `${upstream} (${status === undefined ? (WITHOUT_STATUS[outcome] ?? outcome) : `status ${status}`})`;
  });
  const fact = `None of ${tried} upstreams served the request: ${told.join(', ')}.`;
  // As one that was alone would say: each of them may be at work on the request.
  const all_late = last_of_each.every(({ error }) => error?.headers['x-should-retry'] === 'false');
  const again = all_late ? ' They may bill it all the same; the same request sent again is paid again.' : '';
  const headers = {
    ...(retry_after !== undefined && { 'retry-after': retry_after }),
    ...(all_late && { 'x-should-retry': 'false' }),
  };
  return new StageError('upstream_failed', fact + again, { details: { tried }, headers });
}

const WITHOUT_STATUS: Readonly<Record<string, string>> = {
  unreachable: 'no connection',
  unanswered: 'no answer',
};

/** What the errors of our own stages say: that a limit has no room or nobody knows whether it has, that it cannot be translated. */
const REASON_OF_CODE: Readonly<Record<string, DropReason>> = {
  spend_limit_exceeded: 'limit',
  rate_limit_exceeded: 'limit',
  store_unavailable: 'limit',
  not_translatable: 'protocol',
  not_supported: 'protocol',
  invalid_request: 'protocol',
};

/** Why an upstream is not asked when a stage raises this error before the attempt. */
export function reasonOf({ code }: StageError): DropReason {
  return REASON_OF_CODE[code] ?? 'stage';
}
