/**
 * The expected outcome of every failure of an upstream, written by hand from the promises and not from the table in the engine:
 * each attempt, in order, and what the client gets.
 *
 * An attempt is `upstream outcome reason`. The outcome is a status (`overloaded` the one by which the protocol says so), `not_sent`,
 * or `unknown` where no answer came; with `?` behind it where the upstream may bill it. Behind `=>`: `theirs`, the answer of the upstream byte for byte; `ours`, an error of the
 * gateway's; `whole` and `broken`, a stream or document to its end or up to one error; `error`, a stream that is an error alone.
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

/** The outcome of a failure, by the number of upstreams of the route. */
export interface Row {
  readonly what: string;
  /** `refuses`: rejects connections. */
  readonly play: Play | 'refuses';
  /** Only for streams, only for whole responses; both where absent. */
  readonly only?: 'stream' | 'document';
  /** Whether it counts against the upstream for all its models. */
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

/** The rest of a row whose next upstream gets the request. */
interface Goes extends Pick<Row, 'only' | 'is_alone' | 'takes_time'> {
  /** Every attempt ends so. */
  readonly ends: string;
  readonly next: string;
  /** What the client gets with one, and with three. */
  readonly alone: string;
  readonly all: string;
  /** Whether the first one gets a retry after a wait: `alone`, where there is no other. */
  readonly waits?: 'first' | 'alone';
}

/** A row whose next upstream gets the request, as long as there is one. */
function goesOn(what: string, play: Row['play'], { ends, next, alone, all, waits, ...more }: Goes): Row {
  const again = `a ${ends} same_after_wait, `;
  const first = `${waits === 'first' ? again : ''}a ${ends} ${next}`;
  return {
    ...{ what, play, ...more },
    one: `${waits === undefined ? '' : again}a ${ends} exhausted => ${alone}`,
    two: `${first}, b 200 served => 200 whole`,
    three: `${first}, b ${ends} ${next}, c 200 served => 200 whole`,
    all: `${first}, b ${ends} ${next}, c ${ends} exhausted => ${all}`,
  };
}

const LIMITED = { ends: '429', next: 'next_limited', alone: '429 theirs', all: '429 theirs' };
const UNKNOWN = { ends: 'unknown?', next: 'next_unconfirmed', alone: '502 ours', all: '502 ours' };
const UNUSABLE = { next: 'next_failed', alone: '502 ours', all: '502 ours' };
const overloaded = (ends: string, alone: string): Goes => ({
  ...{ ends, next: 'next_overloaded', alone, all: '502 ours', waits: 'first' },
});
const NO_QUOTA = {
  message: 'You exceeded your current quota.',
  type: 'insufficient_quota',
  code: 'insufficient_quota',
};

/** Everything an upstream can do before the first byte of a response has gone to the client, and after. */
export const ROWS: readonly Row[] = [
  ended('serves', serves, 'a 200 served => 200 whole'),
  goesOn('refuses the connection', 'refuses', {
    ...{ ends: 'not_sent', next: 'next_unreachable', alone: '502 ours', all: '502 ours', is_alone: true },
  }),
  goesOn('answers 429 and says 1 second', answers(429, { retry_after: '1' }), { ...LIMITED, waits: 'alone' }),
  goesOn('answers 429 and says 30 seconds', answers(429, { retry_after: '30' }), LIMITED),
  goesOn('answers 429 and says nothing of when', answers(429), LIMITED),
  goesOn('is overloaded (529)', answers(529), overloaded('529', '529 theirs')),
  goesOn('is unavailable (503)', answers(503), overloaded('503', '503 theirs')),
  goesOn('fails with 500', answers(500), {
    ...{ ends: '500?', next: 'next_failed', alone: '500 theirs', all: '502 ours' },
  }),
  ...[502, 504].map((status) =>
    goesOn(`answers ${status}, which a proxy may say`, answers(status), {
      ...{ ends: `${status}?`, next: 'next_unconfirmed', alone: `${status} theirs`, all: '502 ours' },
    }),
  ),
  // On a connection that was used before it could be a stale one.
  goesOn('resets the connection when it has the request', resets, { ...UNKNOWN, is_alone: true }),
  goesOn('never answers', hangs, { ...UNKNOWN, alone: '504 ours', takes_time: true }),
  ...[401, 402, 403].map((status) =>
    goesOn(`refuses the credential of the gateway with ${status}`, answers(status), {
      ...{ ends: `${status}`, next: 'next_credential', is_alone: true },
      ...{ alone: `${status} theirs`, all: `${status} theirs` },
    }),
  ),
  goesOn('has no quota left for the account of the gateway', answers(429, NO_QUOTA), {
    ...{ ends: '429', next: 'next_credential', alone: '429 theirs', all: '429 theirs', is_alone: true },
  }),
  ...[404, 501].map((status) =>
    goesOn(`does not have the model (${status})`, answers(status), {
      ...{ ends: `${status}`, next: 'next_model_missing', alone: `${status} theirs`, all: `${status} theirs` },
    }),
  ),
  ...[400, 409, 413, 418, 422].map((status) =>
    ended(`refuses the request itself with ${status}`, answers(status), `a ${status} fail_caller => ${status} theirs`),
  ),
  goesOn(
    'begins its stream with an error: overloaded',
    beginsWithError(529, { type: 'overloaded_error', code: 'server_is_overloaded' }),
    { ...overloaded('overloaded', '200 error'), only: 'stream' },
  ),
  goesOn('begins its stream with an error: failed', beginsWithError(500, { code: 'server_error' }), {
    ...{ ends: '500?', next: 'next_failed', alone: '200 error', all: '502 ours', only: 'stream' },
  }),
  goesOn('begins its stream with an error: limited', beginsWithError(429), {
    ...{ ...LIMITED, alone: '200 error', all: '200 error', only: 'stream' },
  }),
  ended(
    'begins its stream with an error: the request is wrong',
    beginsWithError(400, { code: 'invalid_prompt' }),
    'a 400 fail_caller => 200 error',
    'stream',
  ),
  goesOn('ends its stream without an event', endsWithoutEvent, { ...UNUSABLE, ends: '200?', only: 'stream' }),
  goesOn('answers 200 without a body', saysNothing, { ...UNUSABLE, ends: '200?', only: 'document' }),
  goesOn('answers with a page and 200', page(200), { ...UNUSABLE, ends: '200' }),
  goesOn('answers with a redirect', redirects, { ...UNUSABLE, ends: '302' }),
  goesOn('answers with a page and 503', page(503), overloaded('503', '503 ours')),
  ended('cuts its stream', cutsOff, 'a 200 served => 200 broken', 'stream'),
  { ...ended('falls silent in its stream', stalls, 'a 200 served => 200 broken', 'stream'), takes_time: true },
  ended('fails in the middle of its stream', failsLate, 'a 200 served => 200 broken', 'stream'),
];

/** Upstreams that fail in different ways: what the client gets, and where it ends. */
export interface Mixture {
  readonly what: string;
  readonly plays: readonly Play[];
  readonly headers?: readonly string[];
  readonly expected: string;
}

/** One upstream fails, the next one fails otherwise. */
const after = (status: number, then: number): Play[] => [answers(status), answers(then)];

/** When all fail: the last 429, else 401 or 403, else 404, else 501, else 502. */
export const MIXTURES: readonly Mixture[] = Object.entries<
  readonly [plays: readonly Play[], expected: string, headers?: readonly string[]]
>({
  '429 before 500': [after(429, 500), 'a 429 next_limited, b 500? exhausted => 429 theirs'],
  '429 after 500': [after(500, 429), 'a 500? next_failed, b 429 exhausted => 429 theirs'],
  '429 rather than 401': [after(429, 401), 'a 429 next_limited, b 401 exhausted => 429 theirs'],
  '403 rather than 404': [after(403, 404), 'a 403 next_credential, b 404 exhausted => 403 theirs'],
  '401 after 500': [after(500, 401), 'a 500? next_failed, b 401 exhausted => 401 theirs'],
  '404 rather than 501': [after(404, 501), 'a 404 next_model_missing, b 501 exhausted => 404 theirs'],
  '404 after 500': [after(500, 404), 'a 500? next_failed, b 404 exhausted => 404 theirs'],
  '501 rather than 500': [after(501, 500), 'a 501 next_model_missing, b 500? exhausted => 501 theirs'],
  '502 where nothing else is left': [[answers(500), resets], 'a 500? next_failed, b unknown? exhausted => 502 ours'],
  'a refusal of the request itself after a failure': [
    after(500, 400),
    'a 500? next_failed, b 400 fail_caller => 400 theirs',
  ],
  'a refusal of the request itself after a limit': [
    after(429, 413),
    'a 429 next_limited, b 413 fail_caller => 413 theirs',
  ],
  'four attempts and no fifth': [
    [answers(500), answers(500), answers(500), answers(500), serves],
    'a 500? next_failed, b 500? next_failed, c 500? next_failed, d 500? exhausted => 502 ours',
  ],
  'an upstream that is overloaded for a moment': [
    [inTurn(answers(529), serves), serves],
    'a 529 same_after_wait, a 200 served => 200 whole',
  ],
  'an upstream that is limited for a moment, and no other': [
    [inTurn(answers(429, { retry_after: '1' }), serves)],
    'a 429 same_after_wait, a 200 served => 200 whole',
  ],
  'an upstream that is overloaded, and says for longer than one waits': [
    [answers(529, { retry_after: '30' }), serves],
    'a 529 next_overloaded, b 200 served => 200 whole',
  ],
  'a client that tries again itself': [
    [answers(529), serves],
    'a 529 next_overloaded, b 200 served => 200 whole',
    ['x-stainless-retry-count', '1'],
  ],
  'a client that tries again itself, at one upstream': [
    [answers(529)],
    'a 529 exhausted => 529 theirs',
    ['x-stainless-retry-count', '2'],
  ],
  'a client that tries for the first time': [
    [answers(529), serves],
    'a 529 same_after_wait, a 529 next_overloaded, b 200 served => 200 whole',
    ['x-stainless-retry-count', '0'],
  ],
  'an error of overload that says it has no capacity with 500': [
    [answers(500, { type: 'overloaded_error', code: 'server_is_overloaded' }), serves],
    'a 500 same_after_wait, a 500 next_overloaded, b 200 served => 200 whole',
  ],
}).map(([what, [plays, expected, headers = []]]) => ({ what, plays, expected, headers }));
