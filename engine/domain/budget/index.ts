/** What stages, and other packages of the domain, import. @module */
export { attemptPrices, chargeFailed, inputCost, withAttempts } from './ledger/attempts.ts';
export { type Ending, endingOf, type Settled, settleUnknown, settleUnmetered } from './ledger/ending.ts';
export { databaseTime } from './ledger/ledger-statements.ts';
export { IDENTITY_FACTS, requestIdentity, settleLater } from './ledger/reservation.ts';
export { moreToReserve, type ReservationWatch, watchReservation } from './ledger/reservation-watch.ts';
export { askWithin, NO_CHANGES, withChanges } from './limits/limits-in-force.ts';
export {
  ASKED_FACTS,
  cacheLifetime,
  choicesOf,
  highestCost,
  likelyTokens,
  mostTokensOf,
  refuseZeroBound,
  textsOf,
  windowOf,
} from './limits/most-tokens.ts';
export { hopelessFirst, limitHeaders, refuseForLimits, usageReport } from './limits/refusals.ts';
export { grantedIn, limitInForce, RUN_TIME_RULE } from './limits/room.ts';
export { compileLimits, type LimitsAtOnce, limitsAtOnce } from './limits/spend-limits.ts';
export { CATALOGUE_DATE, hasPrice, idsAt, nameOf } from './prices/catalogue.ts';
export {
  type Bill,
  billFor,
  type Charged,
  chargeFor,
  chargeUnknown,
  createOddities,
  emptyBill,
  type Possible,
  possibleFor,
  tellsUsage,
} from './prices/charge.ts';
export { answeringModels, modelFinder, namesMeant, plainName } from './prices/known-models.ts';
export { costOf, createPriceBook, NO_TOKENS, servedAsAsked, unpricedTools } from './prices/prices.ts';
