import { LRUCache } from 'lru-cache';
import { StageError } from '../../../contract/errors.ts';
import { noteVerified, takeSession } from '../../../identity/deprovisioning/ask-about.ts';
import { type AskingAbout, endAsRefused, recheckSession } from '../../../identity/deprovisioning/recheck-session.ts';
import type { Person } from '../../../identity/provider/admit.ts';
import type { ConsoleSession } from '../../../identity/sessions/console-sessions.ts';
import { atMost } from '../../../kit/memory.ts';
import { suspendUnlessVerified } from '../refresh.ts';

/** How old may be what is known of a person. */
const DUE_MS = 15 * 60_000;
/** How soon the provider is asked again after it gave no usable answer. */
const RETRY_MS = 60_000;
const MAX_TRIED = 10_000;

/** Who somebody is by now, and from where that is known. */
export interface Checked {
  readonly person: Person;
  /** Whether the identity provider was just asked. */
  readonly is_anew: boolean;
}

/**
 * Makes the function that asks the identity provider about the person of a session, every 15 minutes. While it gives no answer,
 * sessions go on for as long as a session token would. Raises credential_revoked, temporarily_unavailable, store_unavailable.
 */
export function createRecheck(asking: AskingAbout) {
  const { clock, config, identity, log } = asking;
  const tried = new LRUCache<string, number>(atMost(MAX_TRIED));
  const longest_ms = (config.auth?.session.ttl_minutes ?? 0) * 60_000;

  return async (about: NonNullable<ConsoleSession['person']>): Promise<Checked> => {
    const { session_id, person, groups, checked_at } = about;
    const known = {
      person: { ...person, groups: person.groups.filter((group) => groups.includes(group)) },
      is_anew: false,
    };
    const age_ms = clock.now() - checked_at.getTime();
    if (age_ms < DUE_MS) return known;
    const is_too_old = age_ms > Math.max(longest_ms, DUE_MS);
    const again_ms = (tried.get(session_id) ?? 0) - clock.monotonic();
    if (again_ms > 0) {
      if (is_too_old) throw unavailable(again_ms);
      return known;
    }
    const taken = await takeSession(asking, session_id);
    // Another request asks at this moment.
    if (taken === undefined) {
      if (is_too_old) throw unavailable(1000);
      return known;
    }
    const rechecked = await recheckSession(asking, taken, { when: 'when the console asked about them' });
    switch (rechecked.outcome) {
      case 'stays':
        if ((await noteVerified(asking, { id: session_id, ...rechecked })) !== 'verified') throw signInAgain();
        return { person: rechecked.person, is_anew: true };
      case 'unavailable': {
        tried.set(session_id, clock.monotonic() + RETRY_MS);
        const fields = { reason: rechecked.error.message, email: person.email, session: session_id };
        log.warn(fields, 'the identity provider gives no usable answer about somebody who uses the console');
        if (is_too_old) throw unavailable(RETRY_MS);
        return known;
      }
      case 'refused':
        await suspendUnlessVerified(asking, taken);
        throw signInAgain();
      case 'unaskable':
        await endAsRefused(asking, taken, rechecked.error);
        throw signInAgain();
      case 'not_admitted':
        throw new StageError('credential_revoked', rechecked.message);
      case 'unreadable':
      case 'other_provider':
      case 'other_identity':
        await identity.sessions.end(session_id, 'the identity provider could not be asked again');
        throw signInAgain();
    }
  };
}

function signInAgain(): StageError {
  return new StageError('credential_revoked', 'The identity provider did not renew your sign-in; sign in again.');
}

function unavailable(wait_ms: number): StageError {
  return new StageError(
    'temporarily_unavailable',
    'The identity provider gives no usable answer, so the gateway cannot tell whether you may still be here. Try again shortly.',
    { headers: { 'retry-after': String(Math.ceil(wait_ms / 1000)) } },
  );
}
