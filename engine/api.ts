/**
 * What stages of operators import, as `appscli`. Nothing inside the engine imports this; shipped stages may also import the
 * `index.ts` of a room.
 * @module
 */

export type {
  GatewayConfig,
  ModelConfig,
  RoutingRuleConfig,
  RuleMode,
  SpendRuleConfig,
  SpendScope,
  TokenGroupConfig,
  UpstreamConfig,
  Window,
} from './contract/config.ts';
export { WINDOWS } from './contract/config.ts';
export { ERRORS, type ErrorCode, type ErrorDetails, StageError } from './contract/errors.ts';
export type { FactPath, FactValue } from './contract/facts.ts';
export type {
  AuditLog,
  AuditRecord,
  BearerTokens,
  Billed,
  CacheLifetime,
  Clock,
  CounterName,
  CounterStatus,
  EffectivePolicy,
  EffectivePrice,
  FactView,
  Health,
  HealthPart,
  Ledger,
  LedgerIdentity,
  LimitDemand,
  LimitStatus,
  LimitsInForce,
  LimitUnit,
  LimitWindow,
  Log,
  ManagedPolicies,
  ModelCaller,
  ModelCatalog,
  ModelRefusal,
  PricedRoute,
  PriceNote,
  Principal,
  Provenance,
  Reservation,
  ReservationRequest,
  Served,
  Services,
  Settlement,
  Timer,
  TokenCounts,
  Usage,
} from './contract/services.ts';
export {
  type Answer,
  answerJson,
  type Capability,
  type DrainLimits,
  defineStage,
  type JsonSchema,
  type JsonValue,
  type Relay,
  type RequestBody,
  type ResponseConverter,
  type ResponseEvent,
  type ResponseHead,
  type StageContext,
  type StageDefinition,
  type StageHooks,
  type ValueOf,
} from './contract/stage.ts';
export { matchesGlob } from './kit/glob.ts';
export { isEventStream } from './kit/media-type.ts';
export { formatUsd, nanoToUsd, usdToNano } from './kit/money.ts';
export { type Ending, endingOf, type Settled, settleUnknown } from './money/ledger/ending.ts';
export { ledgerIdentity } from './money/ledger/ledger-identity.ts';
export { moreToReserve, type ReservationWatch, watchReservation } from './money/ledger/reservation-watch.ts';
export { settleUnmetered } from './money/ledger/unmetered.ts';
export { type LimitsAtOnce, limitsAtOnce } from './money/limits/at-once.ts';
export { highestCost } from './money/limits/highest-cost.ts';
export { compileLimits } from './money/limits/limit-demands.ts';
export { limitHeaders } from './money/limits/limit-headers.ts';
export { type MostTokens, mostTokens } from './money/limits/most-tokens.ts';
export { refuseForLimits } from './money/limits/refusals.ts';
export { usageReport } from './money/limits/usage-report.ts';
export { type Bill, billFor, emptyBill } from './money/prices/bill.ts';
export { type Charged, chargeFor, clampedNumbers } from './money/prices/charge.ts';
export { type Possible, possibleFor } from './money/prices/possible.ts';
export { costOf, NO_TOKENS, unpricedTools } from './money/prices/prices.ts';
export { servedAsAsked } from './money/prices/served-prices.ts';
