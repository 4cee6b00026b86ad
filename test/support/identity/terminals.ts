/**
 * Terminals of users, as programs renew their sign-in: several that share one stored sign-in.
 *
 * `adopting`: reads once, at its start, renews by what it read then, without a lock; whatever the answer, what another process
 * stored meanwhile counts more than it (so the Messages client 2.1.330). `reading`: reads before each renewal and after a
 * refusal, without a lock, and overwrites. `locking`: the same under a lock (so `appscli token`).
 */

export interface Stored {
  readonly access_token: string;
  readonly refresh_token: string | undefined;
  readonly expires_at: number;
}

export interface Keychain {
  stored: Stored;
  locked: boolean;
}

export type TerminalKind = 'adopting' | 'reading' | 'locking';

/** The outcome of a renewal; `later`: 503, or no response. */
export type RenewalAnswer = Stored | 'invalid_grant' | 'later';

export type Terminal = ReturnType<typeof startTerminal>;

export const RENEWED_BEFORE_MS = 300_000;

export function startTerminal(kind: TerminalKind, keychain: Keychain) {
  let tokens = keychain.stored;
  let sent: string | undefined;
  const adoptStored = () => {
    if (keychain.stored.refresh_token !== sent) tokens = keychain.stored;
    else keychain.stored = tokens = { ...tokens, refresh_token: undefined };
  };
  return {
    kind,
    get tokens() {
      return tokens;
    },
    /** Signed out: it has no token to renew with, and requires a sign-in. */
    get out() {
      return tokens.refresh_token === undefined;
    },
    /** The refresh token it sends now; `undefined` when it need not, or cannot renew at the moment. */
    send(now: number): string | undefined {
      if (kind === 'locking' && keychain.locked) return undefined;
      if (kind !== 'adopting') tokens = keychain.stored;
      if (tokens.expires_at - now >= RENEWED_BEFORE_MS || tokens.refresh_token === undefined) return undefined;
      if (kind === 'locking') keychain.locked = true;
      sent = tokens.refresh_token;
      return sent;
    },
    take(response: RenewalAnswer): void {
      if (kind === 'locking') keychain.locked = false;
      if (response === 'later') return;
      if (response === 'invalid_grant') adoptStored();
      else if (kind === 'adopting' && keychain.stored.refresh_token !== sent) tokens = keychain.stored;
      else keychain.stored = tokens = response;
    },
  };
}
