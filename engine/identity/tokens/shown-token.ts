import type { GatewayConfig } from '../../contract/config.ts';
import { type OwnerStanding, restsAt, vouchedDays } from '../deprovisioning/resting.ts';
import { type KnownToken, type TokenState, type TokenSummary, tokenState } from './tokens.ts';

/** What becomes of requests with a token. `resting`: refused until its owner, who made it, is let in again. */
export type ShownState = TokenState | 'resting';

/** A token as it is shown, with its state at that moment. */
export type ShownToken = TokenSummary & {
  readonly state: ShownState;
  /** When it comes to rest unless its owner, who made it, is heard of before; `null`: never, or it rests already. */
  readonly rests_at: Date | null;
};

/**
 * A token as it is shown.
 * @param now milliseconds since the epoch
 */
export function showToken<Known extends KnownToken>(
  { vouched_at, put_off_until, is_barred, ...token }: Known,
  now: number,
  config: Pick<GatewayConfig, 'auth'>,
): Omit<Known, keyof OwnerStanding> & Pick<ShownToken, 'state' | 'rests_at'> {
  const state = tokenState(token, now);
  if (state !== 'active' && state !== 'replaced') return { ...token, state, rests_at: null };
  const at = restsAt({ vouched_at, put_off_until }, vouchedDays(config));
  if (is_barred || (at !== undefined && now >= at.getTime())) return { ...token, state: 'resting', rests_at: null };
  const ends_before = at === undefined || (token.expires_at !== null && token.expires_at <= at);
  return { ...token, state, rests_at: ends_before ? null : at };
}
