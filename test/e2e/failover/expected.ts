/**
 * What must come of every failure of an upstream, written by hand from what was promised and not from the table in the engine:
 * each attempt, in order, and what the client gets.
 *
 * An attempt is `upstream outcome reason`. The outcome is a status (`overloaded` the one by which the protocol says so), `not_sent`,
 * or `unknown` where no answer came; with `?` behind it where the upstream may bill it. Behind `=>`: `theirs`, the answer of the upstream byte for byte; `ours`, an error of the
 * gateway's; `whole` and `broken`, a stream or document to its end or up to one error; `error`, a stream that is an error alone.
 * @module
 */
import {
  answers,
  beginsWithError,
  cutsOff,
  endsWithoutEvent,
  failsLate,
  hangs,
  inTurn,
  type Play,
  page,
  redirects,
  resets,
  saysNothing,
  serves,
  stalls,
} from '../../support/model-provider/fault-server.ts';

/** What comes of a failure, by how many upstreams the route has. */
export interface Row {
  readonly what: string;
  /** `refuses`: no connection can be made. */
  readonly play: Play | 'refuses';
  /** Only for streams, only for whole answers; both where absent. */
  readonly only?: 'stream' | 'document';
  /** Whether it is held against the upstream for all its models. */
  readonly is_alone?: boolean;
  /** Whether it ends by a timeout. */
  readonly takes_time?: boolean;
  /** The route has this upstream alone. */
  readonly one: string;
  /** The second one serves. */
  readonly two: string;
  /** The third one serves, the second one fails as the first. */
  readonly three: string;
  /** All three fail. */
  readonly all: string;
}

/** Rows whose second and third upstream change nothing. */
const ended = (what: string, play: Play, one: string, only?: Row['only']): Row => ({
  what,
  play,
  one,
  two: one,
  three: one,
  all: one,
  ...(only !== undefined && { only }),
});

/** Everything an upstream can do before the first byte of an answer has gone to the client, and after. */
export const ROWS: readonly Row[] = [
  ended('serves', serves, 'a 200 served => 200 whole'),
  {
    what: 'refuses the connection',
    play: 'refuses',
    is_alone: true,
    one: 'a not_sent exhausted => 502 ours',
    two: 'a not_sent next_unreachable, b 200 served => 200 whole',
    three: 'a not_sent next_unreachable, b not_sent next_unreachable, c 200 served => 200 whole',
    all: 'a not_sent next_unreachable, b not_sent next_unreachable, c not_sent exhausted => 502 ours',
  },
  {
    what: 'answers 429 and says 1 second',
    play: answers(429, { retry_after: '1' }),
    one: 'a 429 same_after_wait, a 429 exhausted => 429 theirs',
    two: 'a 429 next_limited, b 200 served => 200 whole',
    three: 'a 429 next_limited, b 429 next_limited, c 200 served => 200 whole',
    all: 'a 429 next_limited, b 429 next_limited, c 429 exhausted => 429 theirs',
  },
  {
    what: 'answers 429 and says 30 seconds',
    play: answers(429, { retry_after: '30' }),
    one: 'a 429 exhausted => 429 theirs',
    two: 'a 429 next_limited, b 200 served => 200 whole',
    three: 'a 429 next_limited, b 429 next_limited, c 200 served => 200 whole',
    all: 'a 429 next_limited, b 429 next_limited, c 429 exhausted => 429 theirs',
  },
  {
    what: 'answers 429 and says nothing of when',
    play: answers(429),
    one: 'a 429 exhausted => 429 theirs',
    two: 'a 429 next_limited, b 200 served => 200 whole',
    three: 'a 429 next_limited, b 429 next_limited, c 200 served => 200 whole',
    all: 'a 429 next_limited, b 429 next_limited, c 429 exhausted => 429 theirs',
  },
  {
    what: 'is overloaded (529)',
    play: answers(529),
    one: 'a 529 same_after_wait, a 529 exhausted => 529 theirs',
    two: 'a 529 same_after_wait, a 529 next_overloaded, b 200 served => 200 whole',
    three: 'a 529 same_after_wait, a 529 next_overloaded, b 529 next_overloaded, c 200 served => 200 whole',
    all: 'a 529 same_after_wait, a 529 next_overloaded, b 529 next_overloaded, c 529 exhausted => 502 ours',
  },
  {
    what: 'is unavailable (503)',
    play: answers(503),
    one: 'a 503 same_after_wait, a 503 exhausted => 503 theirs',
    two: 'a 503 same_after_wait, a 503 next_overloaded, b 200 served => 200 whole',
    three: 'a 503 same_after_wait, a 503 next_overloaded, b 503 next_overloaded, c 200 served => 200 whole',
    all: 'a 503 same_after_wait, a 503 next_overloaded, b 503 next_overloaded, c 503 exhausted => 502 ours',
  },
  {
    what: 'fails with 500',
    play: answers(500),
    one: 'a 500? exhausted => 500 theirs',
    two: 'a 500? next_failed, b 200 served => 200 whole',
    three: 'a 500? next_failed, b 500? next_failed, c 200 served => 200 whole',
    all: 'a 500? next_failed, b 500? next_failed, c 500? exhausted => 502 ours',
  },
  ...[502, 504].map((status) => ({
    what: `answers ${status}, which a proxy may say`,
    play: answers(status),
    one: `a ${status}? exhausted => ${status} theirs`,
    two: `a ${status}? next_unconfirmed, b 200 served => 200 whole`,
    three: `a ${status}? next_unconfirmed, b ${status}? next_unconfirmed, c 200 served => 200 whole`,
    all: `a ${status}? next_unconfirmed, b ${status}? next_unconfirmed, c ${status}? exhausted => 502 ours`,
  })),
  {
    what: 'resets the connection when it has the request',
    // On a connection that was used before it could be a stale one.
    is_alone: true,
    play: resets,
    one: 'a unknown? exhausted => 502 ours',
    two: 'a unknown? next_unconfirmed, b 200 served => 200 whole',
    three: 'a unknown? next_unconfirmed, b unknown? next_unconfirmed, c 200 served => 200 whole',
    all: 'a unknown? next_unconfirmed, b unknown? next_unconfirmed, c unknown? exhausted => 502 ours',
  },
  {
    what: 'never answers',
    takes_time: true,
    play: hangs,
    one: 'a unknown? exhausted => 504 ours',
    two: 'a unknown? next_unconfirmed, b 200 served => 200 whole',
    three: 'a unknown? next_unconfirmed, b unknown? next_unconfirmed, c 200 served => 200 whole',
    all: 'a unknown? next_unconfirmed, b unknown? next_unconfirmed, c unknown? exhausted => 502 ours',
  },
  ...[401, 402, 403].map((status) => ({
    what: `refuses the credential of the gateway with ${status}`,
    is_alone: true,
    play: answers(status),
    one: `a ${status} exhausted => ${status} theirs`,
    two: `a ${status} next_credential, b 200 served => 200 whole`,
    three: `a ${status} next_credential, b ${status} next_credential, c 200 served => 200 whole`,
    all: `a ${status} next_credential, b ${status} next_credential, c ${status} exhausted => ${status} theirs`,
  })),
  {
    what: 'has no quota left for the account of the gateway',
    is_alone: true,
    play: answers(429, {
      message: 'You exceeded your current quota.',
      type: 'insufficient_quota',
      code: 'insufficient_quota',
    }),
    one: 'a 429 exhausted => 429 theirs',
    two: 'a 429 next_credential, b 200 served => 200 whole',
    three: 'a 429 next_credential, b 429 next_credential, c 200 served => 200 whole',
    all: 'a 429 next_credential, b 429 next_credential, c 429 exhausted => 429 theirs',
  },
  ...[404, 501].map((status) => ({
    what: `does not have the model (${status})`,
    play: answers(status),
    one: `a ${status} exhausted => ${status} theirs`,
    two: `a ${status} next_model_missing, b 200 served => 200 whole`,
    three: `a ${status} next_model_missing, b ${status} next_model_missing, c 200 served => 200 whole`,
    all: `a ${status} next_model_missing, b ${status} next_model_missing, c ${status} exhausted => ${status} theirs`,
  })),
  ...[400, 409, 413, 418, 422].map((status) =>
    ended(`refuses the request itself with ${status}`, answers(status), `a ${status} fail_caller => ${status} theirs`),
  ),
  {
    what: 'begins its stream with an error: overloaded',
    only: 'stream',
    play: beginsWithError(529, { type: 'overloaded_error', code: 'server_is_overloaded' }),
    one: 'a overloaded same_after_wait, a overloaded exhausted => 200 error',
    two: 'a overloaded same_after_wait, a overloaded next_overloaded, b 200 served => 200 whole',
    three:
      'a overloaded same_after_wait, a overloaded next_overloaded, b overloaded next_overloaded, c 200 served => 200 whole',
    all: 'a overloaded same_after_wait, a overloaded next_overloaded, b overloaded next_overloaded, c overloaded exhausted => 502 ours',
  },
  {
    what: 'begins its stream with an error: failed',
    only: 'stream',
    play: beginsWithError(500, { code: 'server_error' }),
    one: 'a 500? exhausted => 200 error',
    two: 'a 500? next_failed, b 200 served => 200 whole',
    three: 'a 500? next_failed, b 500? next_failed, c 200 served => 200 whole',
    all: 'a 500? next_failed, b 500? next_failed, c 500? exhausted => 502 ours',
  },
  {
    what: 'begins its stream with an error: limited',
    only: 'stream',
    play: beginsWithError(429),
    one: 'a 429 exhausted => 200 error',
    two: 'a 429 next_limited, b 200 served => 200 whole',
    three: 'a 429 next_limited, b 429 next_limited, c 200 served => 200 whole',
    all: 'a 429 next_limited, b 429 next_limited, c 429 exhausted => 200 error',
  },
  ended(
    'begins its stream with an error: the request is wrong',
    beginsWithError(400, { code: 'invalid_prompt' }),
    'a 400 fail_caller => 200 error',
    'stream',
  ),
  {
    what: 'ends its stream without an event',
    only: 'stream',
    play: endsWithoutEvent,
    one: 'a 200? exhausted => 502 ours',
    two: 'a 200? next_failed, b 200 served => 200 whole',
    three: 'a 200? next_failed, b 200? next_failed, c 200 served => 200 whole',
    all: 'a 200? next_failed, b 200? next_failed, c 200? exhausted => 502 ours',
  },
  {
    what: 'answers 200 without a body',
    only: 'document',
    play: saysNothing,
    one: 'a 200? exhausted => 502 ours',
    two: 'a 200? next_failed, b 200 served => 200 whole',
    three: 'a 200? next_failed, b 200? next_failed, c 200 served => 200 whole',
    all: 'a 200? next_failed, b 200? next_failed, c 200? exhausted => 502 ours',
  },
  {
    what: 'answers with a page and 200',
    play: page(200),
    one: 'a 200 exhausted => 502 ours',
    two: 'a 200 next_failed, b 200 served => 200 whole',
    three: 'a 200 next_failed, b 200 next_failed, c 200 served => 200 whole',
    all: 'a 200 next_failed, b 200 next_failed, c 200 exhausted => 502 ours',
  },
  {
    what: 'answers with a redirect',
    play: redirects,
    one: 'a 302 exhausted => 502 ours',
    two: 'a 302 next_failed, b 200 served => 200 whole',
    three: 'a 302 next_failed, b 302 next_failed, c 200 served => 200 whole',
    all: 'a 302 next_failed, b 302 next_failed, c 302 exhausted => 502 ours',
  },
  {
    what: 'answers with a page and 503',
    play: page(503),
    one: 'a 503 same_after_wait, a 503 exhausted => 503 ours',
    two: 'a 503 same_after_wait, a 503 next_overloaded, b 200 served => 200 whole',
    three: 'a 503 same_after_wait, a 503 next_overloaded, b 503 next_overloaded, c 200 served => 200 whole',
    all: 'a 503 same_after_wait, a 503 next_overloaded, b 503 next_overloaded, c 503 exhausted => 502 ours',
  },
  ended('cuts its stream', cutsOff, 'a 200 served => 200 broken', 'stream'),
  { ...ended('falls silent in its stream', stalls, 'a 200 served => 200 broken', 'stream'), takes_time: true },
  ended('fails in the middle of its stream', failsLate, 'a 200 served => 200 broken', 'stream'),
];

/** Upstreams that fail in different ways: what the client gets of it, and where it ends. */
export interface Mixture {
  readonly what: string;
  readonly plays: readonly Play[];
  readonly headers?: readonly string[];
  readonly expected: string;
}

/** One upstream fails, the next one fails otherwise. */
const after = (status: number, then: number): Play[] => [answers(status), answers(then)];

/** When all fail: the last 429, else 401 or 403, else 404, else 501, else 502. */
export const MIXTURES: readonly Mixture[] = [
  {
    what: '429 before 500',
    plays: after(429, 500),
    expected: 'a 429 next_limited, b 500? exhausted => 429 theirs',
  },
  {
    what: '429 after 500',
    plays: after(500, 429),
    expected: 'a 500? next_failed, b 429 exhausted => 429 theirs',
  },
  {
    what: '429 rather than 401',
    plays: after(429, 401),
    expected: 'a 429 next_limited, b 401 exhausted => 429 theirs',
  },
  {
    what: '403 rather than 404',
    plays: after(403, 404),
    expected: 'a 403 next_credential, b 404 exhausted => 403 theirs',
  },
  {
    what: '401 after 500',
    plays: after(500, 401),
    expected: 'a 500? next_failed, b 401 exhausted => 401 theirs',
  },
  {
    what: '404 rather than 501',
    plays: after(404, 501),
    expected: 'a 404 next_model_missing, b 501 exhausted => 404 theirs',
  },
  {
    what: '404 after 500',
    plays: after(500, 404),
    expected: 'a 500? next_failed, b 404 exhausted => 404 theirs',
  },
  {
    what: '501 rather than 500',
    plays: after(501, 500),
    expected: 'a 501 next_model_missing, b 500? exhausted => 501 theirs',
  },
  {
    what: '502 where nothing else is left',
    plays: [answers(500), resets],
    expected: 'a 500? next_failed, b unknown? exhausted => 502 ours',
  },
  {
    what: 'a refusal of the request itself after a failure',
    plays: after(500, 400),
    expected: 'a 500? next_failed, b 400 fail_caller => 400 theirs',
  },
  {
    what: 'a refusal of the request itself after a limit',
    plays: after(429, 413),
    expected: 'a 429 next_limited, b 413 fail_caller => 413 theirs',
  },
  {
    what: 'four attempts and no fifth',
    plays: [answers(500), answers(500), answers(500), answers(500), serves],
    expected: 'a 500? next_failed, b 500? next_failed, c 500? next_failed, d 500? exhausted => 502 ours',
  },
  {
    what: 'an upstream that is overloaded for a moment',
    plays: [inTurn(answers(529), serves), serves],
    expected: 'a 529 same_after_wait, a 200 served => 200 whole',
  },
  {
    what: 'an upstream that is limited for a moment, and no other',
    plays: [inTurn(answers(429, { retry_after: '1' }), serves)],
    expected: 'a 429 same_after_wait, a 200 served => 200 whole',
  },
  {
    what: 'an upstream that is overloaded, and says for longer than one waits',
    plays: [answers(529, { retry_after: '30' }), serves],
    expected: 'a 529 next_overloaded, b 200 served => 200 whole',
  },
  {
    what: 'a client that tries again itself',
    headers: ['x-stainless-retry-count', '1'],
    plays: [answers(529), serves],
    expected: 'a 529 next_overloaded, b 200 served => 200 whole',
  },
  {
    what: 'a client that tries again itself, at one upstream',
    headers: ['x-stainless-retry-count', '2'],
    plays: [answers(529)],
    expected: 'a 529 exhausted => 529 theirs',
  },
  {
    what: 'a client that tries for the first time',
    headers: ['x-stainless-retry-count', '0'],
    plays: [answers(529), serves],
    expected: 'a 529 same_after_wait, a 529 next_overloaded, b 200 served => 200 whole',
  },
  {
    what: 'an error of overload that says it has no capacity with 500',
    plays: [answers(500, { type: 'overloaded_error', code: 'server_is_overloaded' }), serves],
    expected: 'a 500 same_after_wait, a 500 next_overloaded, b 200 served => 200 whole',
  },
];
