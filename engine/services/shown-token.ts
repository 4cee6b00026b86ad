import type { GatewayConfig } from '../config.ts';
import { isUnseen, type OwnerStanding, vouchedDays } from './resting.ts';
import { type KnownToken, type TokenState, type TokenSummary, tokenState } from './tokens.ts';

/** What becomes of requests with a token. `resting`: refused until its owner, who made it, is let in again. */
export type ShownState = TokenState | 'resting';

/** A token as it is shown, with its state at that moment. */
export type ShownToken = TokenSummary & { readonly state: ShownState };

/**
 * A token as it is shown.
 * @param now milliseconds since the epoch
 */
export function showToken<Known extends KnownToken>(
  { vouched_at, is_barred, ...token }: Known,
  now: number,
  config: Pick<GatewayConfig, 'auth'>,
): Omit<Known, keyof OwnerStanding> & { readonly state: ShownState } {
  const state = tokenState(token, now);
  const rests = is_barred || isUnseen({ vouched_at }, now, vouchedDays(config));
  return { ...token, state: rests && (state === 'active' || state === 'replaced') ? 'resting' : state };
}
