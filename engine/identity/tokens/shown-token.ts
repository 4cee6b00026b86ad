import type { GatewayConfig } from '../../contract/config.ts';
import { type OwnerStatus, suspendsAt, verifiedDays } from '../deprovisioning/suspension.ts';
import { type KnownToken, type TokenState, type TokenSummary, tokenState } from './tokens.ts';

/** What becomes of requests with a token. `suspended`: refused until its owner, who made it, is let in again. */
export type ShownState = TokenState | 'suspended';

/** A token as it is shown, with its state at that moment. */
export type ShownToken = TokenSummary & {
  readonly state: ShownState;
  /** When it is suspended unless its owner, who made it, is verified before; `null`: never, or it is suspended already. */
  readonly suspends_at: Date | null;
};

/**
 * A token as it is shown.
 * @param now milliseconds since the epoch
 */
export function showToken<Known extends KnownToken>(
  { verified_at, put_off_until, is_blocked, ...token }: Known,
  now: number,
  config: Pick<GatewayConfig, 'auth'>,
): Omit<Known, keyof OwnerStatus> & Pick<ShownToken, 'state' | 'suspends_at'> {
  const state = tokenState(token, now);
  if (state !== 'active' && state !== 'replaced') return { ...token, state, suspends_at: null };
  const at = suspendsAt({ verified_at, put_off_until }, verifiedDays(config));
  if (is_blocked || (at !== undefined && now >= at.getTime()))
    return { ...token, state: 'suspended', suspends_at: null };
  const ends_before = at === undefined || (token.expires_at !== null && token.expires_at <= at);
  return { ...token, state, suspends_at: ends_before ? null : at };
}
