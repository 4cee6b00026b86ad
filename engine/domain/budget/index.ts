/** What stages, and other packages of the domain, import. @module */
export { isUnavailable } from '../../base/store/store-errors.ts';
export { createExpectations, EXPECTATION_FACTS, type Expected, textsOf } from './ledger/expectations.ts';
export { databaseTime } from './ledger/ledger-statements.ts';
export { createAttemptCharges, createMetering, METERING_FACTS, type Metering } from './ledger/metering.ts';
export { IDENTITY_FACTS, MOVED, requestIdentity, settleLater } from './ledger/reservation.ts';
export { grantedIn, limitInForce, NO_CHANGES, RUN_TIME_RULE } from './limits/headroom.ts';
export {
  createLimitCheck,
  type LimitCheckResult,
  limitHeaders,
  refuseForLimits,
  usageReport,
} from './limits/refusals.ts';
export { compileLimits, limitsAtOnce } from './limits/spend-limits.ts';
export { CATALOGUE_DATE, hasPrice, idsAt, nameOf } from './prices/catalogue.ts';
export { answeringModels, modelFinder, namesMeant, plainName } from './prices/known-models.ts';
export { costOf, createPriceBook, NO_TOKENS } from './prices/prices.ts';
