/**
 * What stages that reserve, meter and report money import.
 * @module
 */
export { attemptPrices, chargeFailed, inputCost, withAttempts } from './ledger/attempts.ts';
export {
  type Ending,
  endingOf,
  type Settled,
  settleUnknown,
  settleUnmetered,
} from './ledger/ending.ts';
export { IDENTITY_FACTS, requestIdentity } from './ledger/reservation.ts';
export { moreToReserve, type ReservationWatch, watchReservation } from './ledger/reservation-watch.ts';
export { settleLater } from './ledger/settle-later.ts';
export {
  ASKED_FACTS,
  cacheLifetime,
  choicesOf,
  likelyTokens,
  mostTokensOf,
  refuseZeroBound,
  textsOf,
  windowOf,
} from './limits/asked-tokens.ts';
export { type LimitsAtOnce, limitsAtOnce } from './limits/at-once.ts';
export { highestCost } from './limits/highest-cost.ts';
export { compileLimits } from './limits/limit-demands.ts';
export { limitHeaders } from './limits/limit-headers.ts';
export { grantedIn, NO_CHANGES, withChanges } from './limits/limits-in-force.ts';
export { askWithin } from './limits/personal-room.ts';
export { hopelessFirst, refuseForLimits } from './limits/refusals.ts';
export { limitInForce, RUN_TIME_RULE } from './limits/room.ts';
export { usageReport } from './limits/usage-report.ts';
export { type Bill, billFor, emptyBill } from './prices/bill.ts';
export { type Charged, chargeFor, clampedNumbers } from './prices/charge.ts';
export { createOddities } from './prices/oddities.ts';
export { chargeUnknown, tellsUsage } from './prices/other-charge.ts';
export { type Possible, possibleFor } from './prices/possible.ts';
export { costOf, NO_TOKENS, unpricedTools } from './prices/prices.ts';
export { servedAsAsked } from './prices/served-prices.ts';
