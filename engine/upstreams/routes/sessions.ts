import type { UpstreamStates } from '../../contract/forwarding.ts';
import { sessionKey } from '../../protocols/body/session.ts';

/** How long an upstream is known to have made what a session holds: far longer than it keeps prompts. */
const STATE_SECONDS = 24 * 60 * 60;
const HOUR_SECONDS = 60 * 60;
const SHORT_SECONDS = 5 * 60;

/** Where an answer of Responses says its identifier: at its head. */
const RESPONSE_ID = /"id"\s*:\s*"(resp[\w-]{1,200})"/;
const RESPONSE_HEAD_CHARS = 1000;

/** What tells where a request belongs. */
export interface Session {
  readonly session_key: string | undefined;
  /** Models have prompt caches of their own, and may have routes of their own. */
  readonly model: string;
  readonly continues: string | undefined;
}

interface Served extends Session {
  readonly upstream: string;
  readonly cache_ttl: string | undefined;
  /** Whether the upstreams of its route cannot read each other's state. */
  readonly has_boundaries: boolean;
}

/** Remembers where sessions were served: for as long as their prompts are kept there, and longer where their state is. */
export function createSessionKeeper(states: Pick<UpstreamStates, 'home' | 'settle'>) {
  return {
    keep({ upstream, session_key, model, continues, cache_ttl, has_boundaries }: Served): void {
      if (session_key !== undefined)
        states.settle(homeKey(session_key, model), upstream, cache_ttl === '1h' ? HOUR_SECONDS : SHORT_SECONDS);
      if (!has_boundaries) return;
      if (continues !== undefined) states.settle(continues, upstream, STATE_SECONDS);
      if (session_key === undefined) return;
      states.settle(stateKey(session_key, model), upstream, STATE_SECONDS);
      states.settle(stateKey(session_key), upstream, STATE_SECONDS);
    },
    /** Notes which upstream keeps the response of Responses that begins so. */
    keepStored(answer: string, upstream: string): void {
      const id = RESPONSE_ID.exec(answer.slice(0, RESPONSE_HEAD_CHARS))?.[1];
      if (id !== undefined) states.settle(sessionKey('stored', id), upstream, STATE_SECONDS);
    },
  };
}

/** The upstream that has the prompts of a session; `undefined` where none is known to. */
export function homeOf({ home }: Pick<UpstreamStates, 'home'>, { session_key, model }: Session): string | undefined {
  return session_key === undefined ? undefined : home(homeKey(session_key, model));
}

/** The upstream that made what a request holds, as far as that is known here. */
export function ownerOf(
  { home }: Pick<UpstreamStates, 'home'>,
  { session_key, model, continues }: Session,
): string | undefined {
  const kept = continues === undefined ? undefined : home(continues);
  if (kept !== undefined || session_key === undefined) return kept;
  return home(stateKey(session_key, model)) ?? home(stateKey(session_key));
}

function homeKey(session_key: string, model: string): string {
  return `${session_key} ${model}`;
}

function stateKey(session_key: string, model = ''): string {
  return `state ${session_key} ${model}`;
}
