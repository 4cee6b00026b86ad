import type { AttemptEffect, AttemptReason, Certainty } from '../../base/contract/forwarding.ts';

export interface FailoverRow {
  readonly when: string;
  /** Whether the upstream received the request; absent where that depends on the bytes sent. */
  readonly certainty?: Certainty | undefined;
  /** Retry at the same upstream, within its retry budget; `lone`: only where there is no other upstream. */
  readonly again: 'no' | 'fresh_connection' | 'after_wait' | 'after_wait_lone';
  /** Failover to the next upstream; `if_unconfirmed`: where `routing.attempts.unconfirmed` is true. */
  readonly next: 'yes' | 'no' | 'if_unconfirmed';
  readonly reason: AttemptReason;
  readonly effect: AttemptEffect;
  /** `possibly`: the upstream may bill it, and the amount is unknown. */
  readonly billed: 'no' | 'possibly' | 'as_reported';
}

/** A row for a response that did not serve, after which the next upstream gets the request unless `more` overrides that. */
const answered = (
  when: string,
  reason: AttemptReason,
  effect: AttemptEffect,
  more: Partial<FailoverRow> = {},
): FailoverRow => ({ when, certainty: 'answered', again: 'no', next: 'yes', reason, effect, billed: 'no', ...more });

/** The semantics of failover: what follows a failed attempt, by its outcome. `appscli explain failover` prints it. */
export const FAILOVER_TABLE = {
  unreachable: answered(
    'No connection: name not resolved, refused, no route, timeout, TLS error',
    'next_unreachable',
    'unreachable',
    { certainty: 'not_sent' },
  ),
  stale_socket: answered(
    'The upstream closed a kept-alive connection just as the request was sent',
    'stale_socket',
    'neutral',
    { certainty: 'possibly_accepted', again: 'fresh_connection', next: 'no' },
  ),
  limited: answered('Status 429', 'next_limited', 'limited', { again: 'after_wait_lone' }),
  overloaded: answered('Status 503 or 529, or the code server_is_overloaded', 'next_overloaded', 'failure', {
    again: 'after_wait',
  }),
  failed: answered('Status 500, or another 5xx without a row of its own', 'next_failed', 'failure', {
    billed: 'possibly',
  }),
  bad_gateway: answered(
    'Status 502 or 504: a proxy in front of the upstream responded instead',
    'next_unconfirmed',
    'failure',
    { next: 'if_unconfirmed', billed: 'possibly' },
  ),
  unanswered: answered(
    'The connection broke after the request was sent, or no response began in time',
    'next_unconfirmed',
    'failure',
    { certainty: 'possibly_accepted', next: 'if_unconfirmed', billed: 'possibly' },
  ),
  credential: answered("Status 401: the upstream rejected the gateway's credential", 'next_credential', 'credential'),
  permission: answered("Status 403: the gateway's account lacks the permission", 'next_credential', 'permission'),
  payment: answered(
    'Status 402, or an error that reports an exhausted quota or credit',
    'next_credential',
    'credential',
  ),
  model_missing: answered('Status 404 or 501: model or operation not available', 'next_model_missing', 'model_missing'),
  caller: answered(
    'Any other 4xx: the upstream rejected the request; its response passes through',
    'fail_caller',
    'success',
    { next: 'no' },
  ),
  foreign: answered('Not an API response: a redirect or an HTML page', 'next_failed', 'failure'),
  empty: answered('Status 200, but the response ended or broke off without usable content', 'next_failed', 'failure', {
    billed: 'possibly',
  }),
  gone: answered(
    'The client disconnected, the gateway stops, or the gateway itself rejected the request',
    'gone',
    'neutral',
    { certainty: undefined, next: 'no', billed: 'possibly' },
  ),
  answered: answered('A usable response began; no further attempt follows', 'served', 'success', {
    next: 'no',
    billed: 'as_reported',
  }),
} satisfies Record<string, FailoverRow>;

/** Outcome of an attempt: a row of the table. */
export type AttemptOutcome = keyof typeof FAILOVER_TABLE;

/** Notes below the table. */
export const FAILOVER_NOTES: readonly string[] = [
  'A context overflow is an error of the request, whatever its status: there is no failover, and breakers ignore it. The client gets an error that it recognises as an overflow.',
  'The code and some phrases of an error take precedence over its status: credit used up, model missing, server overloaded, account limited, key wrong.',
  'Status 200 with a stream whose first event is an error (in Responses, or with commit_after: first_content, the first behind the preamble) counts as the status that the error stands for: overloaded_error as 529, api_error as 500, rate_limit_error as 429. A stream whose first event reports that the server broke off (finish_reason network_error, insufficient_system_resource, abort) counts as 502.',
  'A request has at most routing.attempts.max attempts, and at most the number of its upstreams plus one. No attempt begins later than routing.attempts.seconds after the first.',
  'An upstream without a response fails after server.timeouts.first_byte_seconds. A request without a stream waits for non_streaming_first_byte_seconds, as its response comes as a whole. That is longer than routing.attempts.seconds by default, so that no failover follows.',
  'A retry at the same upstream waits for its retry-after. There is no retry if that is more than 2 seconds (429) or 5 seconds (503, 529). Without retry-after the wait is 0.5 to 1.5 seconds after 503 and 529, and there is no retry after 429.',
  'There is no retry at the same upstream for a request that is a retry of the client, nor while the breaker is open.',
  'A response that breaks off after its beginning counts as a failure, as does one that reports a failure, or in Messages and Responses ends without its end event: several in a row open the breaker. Refusals, responses cut at their bound, and errors about the request or the account do not count.',
  'A breaker opens for all callers when at least two of them saw failures. A retried request counts once. If only one request, or one caller, fails so often, the breaker opens for it alone, until any request succeeds.',
];
