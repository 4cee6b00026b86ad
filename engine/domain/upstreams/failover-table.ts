import type { AttemptEffect, AttemptReason, Certainty } from '../../base/contract/forwarding.ts';

export interface FailoverRow {
  readonly when: string;
  /** What is known of the request then; absent where it depends on what had been sent. */
  readonly certainty?: Certainty;
  /**
   * Whether it goes to the same upstream once more: at once on a fresh connection, or after a wait, at most once and within the
   * upstream's retry budget. `lone`: only where there is no other upstream to go to.
   */
  readonly again: 'no' | 'fresh_connection' | 'after_wait' | 'after_wait_lone';
  /** Whether it goes to the next upstream; `if_unconfirmed`: where `routing.attempts.unconfirmed` says so. */
  readonly next: 'yes' | 'no' | 'if_unconfirmed';
  readonly reason: AttemptReason;
  readonly effect: AttemptEffect;
  /** `possibly`: the upstream may bill it, and nobody knows how much. */
  readonly billed: 'no' | 'possibly' | 'as_reported';
}

const ANSWERED = { certainty: 'answered', again: 'no', next: 'yes', billed: 'no' } as const;

/**
 * What happens to a request that an upstream did not serve, by how the attempt ended: the semantics of failover. `appscli
 * explain failover` prints it.
 */
export const FAILOVER_TABLE = {
  unreachable: {
    when: 'No connection: name not resolved, refused, no route, not in time, TLS',
    certainty: 'not_sent',
    again: 'no',
    next: 'yes',
    reason: 'next_unreachable',
    effect: 'unreachable',
    billed: 'no',
  },
  stale_socket: {
    when: 'A kept connection was closed by the upstream in the moment it was used',
    certainty: 'possibly_accepted',
    again: 'fresh_connection',
    next: 'no',
    reason: 'stale_socket',
    effect: 'neutral',
    billed: 'no',
  },
  limited: {
    ...ANSWERED,
    when: 'Status 429',
    again: 'after_wait_lone',
    reason: 'next_limited',
    effect: 'limited',
  },
  overloaded: {
    ...ANSWERED,
    when: 'Status 503 or 529, or the code server_is_overloaded',
    again: 'after_wait',
    reason: 'next_overloaded',
    effect: 'failure',
  },
  failed: {
    ...ANSWERED,
    when: 'Status 500, or another 5xx without a row of its own',
    reason: 'next_failed',
    effect: 'failure',
    billed: 'possibly',
  },
  bad_gateway: {
    ...ANSWERED,
    when: 'Status 502 or 504: something before the upstream answered for it',
    next: 'if_unconfirmed',
    reason: 'next_unconfirmed',
    effect: 'failure',
    billed: 'possibly',
  },
  unanswered: {
    when: 'The connection broke after the request was sent, or no answer began in time',
    certainty: 'possibly_accepted',
    again: 'no',
    next: 'if_unconfirmed',
    reason: 'next_unconfirmed',
    effect: 'failure',
    billed: 'possibly',
  },
  credential: {
    ...ANSWERED,
    when: "Status 401: the gateway's own credential was refused",
    reason: 'next_credential',
    effect: 'credential',
  },
  permission: {
    ...ANSWERED,
    when: "Status 403: the gateway's account may not do this",
    reason: 'next_credential',
    effect: 'permission',
  },
  payment: {
    ...ANSWERED,
    when: 'Status 402, or an error that says that the quota or credit of the account is used up',
    reason: 'next_credential',
    effect: 'credential',
  },
  model_missing: {
    ...ANSWERED,
    when: 'Status 404 or 501: the model, or what is asked of it, is not there',
    reason: 'next_model_missing',
    effect: 'model_missing',
  },
  caller: {
    ...ANSWERED,
    when: 'Any other 4xx: the request itself is refused, and its bytes pass through',
    next: 'no',
    reason: 'fail_caller',
    effect: 'success',
  },
  foreign: {
    ...ANSWERED,
    when: 'Something that is not the protocol: a redirect, a page',
    reason: 'next_failed',
    effect: 'failure',
  },
  empty: {
    ...ANSWERED,
    when: 'Status 200, and the answer ended or broke before anything of it could be used',
    reason: 'next_failed',
    effect: 'failure',
    billed: 'possibly',
  },
  gone: {
    when: 'The client left, the gateway stops, or the gateway itself refused',
    again: 'no',
    next: 'no',
    reason: 'gone',
    effect: 'neutral',
    billed: 'possibly',
  },
  answered: {
    ...ANSWERED,
    when: 'An answer; once the client has its first byte nothing is sent again',
    next: 'no',
    reason: 'served',
    effect: 'success',
    billed: 'as_reported',
  },
} as const satisfies Record<string, FailoverRow>;

/** How an attempt ended: a row of the table. */
export type AttemptOutcome = keyof typeof FAILOVER_TABLE;

/** What counts as one of the rows although it looks like another. */
export const FAILOVER_NOTES: readonly string[] = [
  'An error that says that the conversation is too long is about the request, whatever its status: it goes to no other upstream and counts for no breaker. The client gets it in words that it knows.',
  'What an error calls itself, and some of what it says, counts more than its status: that credit is used up, that the model is not there, that the server is overloaded, that the account is limited, that the key is wrong.',
  'Status 200 with a stream whose first event is an error (in Responses, or with commit_after: first_content, the first that is no greeting) counts as the status that the error stands for: overloaded_error as 529, api_error as 500, rate_limit_error as 429. One whose first event says that the server broke off (finish_reason network_error, insufficient_system_resource, abort) counts as 502.',
  'A request is sent at most routing.attempts.max times, and never more often than the number of its upstreams plus one. Once routing.attempts.seconds have passed since the first attempt, no other begins.',
  'An upstream that never answers has failed after server.timeouts.first_byte_seconds. A request without a stream waits for non_streaming_first_byte_seconds, as its answer comes as a whole: by default that is longer than routing.attempts.seconds, and no other upstream is asked then.',
  'Before the same upstream is asked again, the gateway waits for as long as it asked for. If it asked for more than 2 seconds (429) or 5 seconds (503, 529), it is not asked again. If it did not say, the wait is 0.5 to 1.5 seconds after 503 and 529, and after 429 it is not asked again.',
  'The same upstream is not asked again where the client is retrying itself, nor while its breaker is open.',
  'An answer that breaks off, says that it failed or that its server broke off, or in Messages and Responses ends without an end, after it had begun counts as a failure of the upstream: where one after the other does, its breaker opens although each of them began. An answer that was refused, or cut at its longest, is none, nor is an error in it that is about the request or the account.',
  'A breaker opens for all when two callers at least saw the upstream fail. A request that is sent again counts once. One request that fails so often, or the requests of one caller, are refused alone, until anybody is served.',
];
