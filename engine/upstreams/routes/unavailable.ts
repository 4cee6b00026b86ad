import { StageError } from '../../contract/errors.ts';
import type { Candidate, Closed } from '../../contract/forwarding.ts';

/** Above it one of the clients gives up at once. */
const RETRY_SECONDS_MAX = 60;
/** Nobody knows for how long an upstream is drained. */
const RETRY_SECONDS_DRAINED = 10;

const ALONE = { caller: 'your requests', request: 'this request' } as const;

/**
 * Whether not even the last upstream is asked. One that is only limited answers at once, and so does one that refuses a credential:
 * with more than is known here.
 */
export function mayNotBeAsked({ because }: Closed, is_alone: boolean): boolean {
  return because === 'drained' || (because === 'open' && is_alone);
}

/**
 * The error where nothing of a route takes requests; its `retry-after` is when the upstream is asked again.
 * @param holds_state whether the request holds what only this upstream can read
 */
export function unavailable(
  { upstream: { name } }: Pick<Candidate, 'upstream'>,
  closed: Closed,
  now: number,
  holds_state = false,
): StageError {
  const { because, until, last, alone } = closed;
  const seconds = Math.min(RETRY_SECONDS_MAX, Math.max(1, Math.ceil(((until ?? Infinity) - now) / 1000)));
  const wait = because === 'drained' && until === undefined ? RETRY_SECONDS_DRAINED : seconds;
  const whose = alone === undefined ? 'it failed too often' : `it failed too often on ${ALONE[alone]}`;
  const failed = last === undefined ? whose : `${whose} (${last})`;
  const why = because === 'drained' ? 'an administrator has drained it' : failed;
  const no_other = holds_state
    ? 'only it can read the encrypted or stored state in this request'
    : 'the route has no other that could serve this request';
  return new StageError(
    'upstream_unavailable',
    `The upstream "${name}" is not asked: ${why}, and ${no_other}. Try again in ${wait} s.`,
    {
      details: { upstream: name, because, ...(last !== undefined && { last }) },
      headers: { 'retry-after': String(wait) },
    },
  );
}
