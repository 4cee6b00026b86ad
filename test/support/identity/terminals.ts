/**
 * Terminals of people, as programs renew their sign-in: several that share what one of them stored.
 *
 * `adopting`: reads once, at its start, renews by what it read then, without a lock; whatever the answer, what another process
 * stored meanwhile counts more than it (so the Messages client 2.1.330). `reading`: reads before each renewal and after a
 * refusal, without a lock, and overwrites. `locking`: the same under a lock (so `appscli token`).
 */

/** What a sign-in leaves on a disk. */
export interface Stored {
  readonly access_token: string;
  readonly refresh_token: string | undefined;
  /** Milliseconds since the epoch. */
  readonly expires_at: number;
}

/** A file that terminals share. */
export interface Keychain {
  stored: Stored;
  locked: boolean;
}

export type TerminalKind = 'adopting' | 'reading' | 'locking';

/** What comes of asking for a renewal; `later`: 503, or no answer. */
export type RenewalAnswer = Stored | 'invalid_grant' | 'later';

/** One running program. */
export interface Terminal {
  readonly kind: TerminalKind;
  /** Signed out: it has nothing to renew with, and asks for a sign-in. */
  readonly out: boolean;
  readonly held: Stored;
  /** The refresh token it sends now; `undefined` when it need not, or cannot renew at the moment. */
  send(now: number): string | undefined;
  /** Takes the answer to what it sent. */
  take(answer: RenewalAnswer): void;
}

/** So long before a token ends it is renewed: five minutes. */
export const RENEWED_BEFORE_MS = 300_000;

/** Starts a terminal of a kind on a keychain. */
export function startTerminal(kind: TerminalKind, keychain: Keychain): Terminal {
  let held = keychain.stored;
  let sent: string | undefined;
  const adoptStored = () => {
    if (keychain.stored.refresh_token !== sent) held = keychain.stored;
    else keychain.stored = held = { ...held, refresh_token: undefined };
  };
  return {
    kind,
    get held() {
      return held;
    },
    get out() {
      return held.refresh_token === undefined;
    },
    send(now) {
      if (kind === 'locking' && keychain.locked) return undefined;
      if (kind !== 'adopting') held = keychain.stored;
      if (held.expires_at - now >= RENEWED_BEFORE_MS || held.refresh_token === undefined) return undefined;
      if (kind === 'locking') keychain.locked = true;
      sent = held.refresh_token;
      return sent;
    },
    take(answer) {
      if (kind === 'locking') keychain.locked = false;
      if (answer === 'later') return;
      if (answer === 'invalid_grant') adoptStored();
      else if (kind === 'adopting' && keychain.stored.refresh_token !== sent) held = keychain.stored;
      else keychain.stored = held = answer;
    },
  };
}
