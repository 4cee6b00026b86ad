/**
 * The one public surface of the engine for stages: everything a stage may import from this project.
 * @module
 */

export { type BodyFacts, readBodyFacts } from './bodies/index.ts';
export type { DecisiveChoice } from './bodies/read-decisive.ts';
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
} from './config.ts';
export { WINDOWS } from './config.ts';
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
} from './contract/stage.ts';
export { ERRORS, type ErrorCode, type ErrorDetails, StageError } from './errors.ts';
export type { FactPath, FactValue } from './facts.ts';
export { windowAsked } from './forwarding/decisive-headers.ts';
export { refuseForeignAnswer } from './forwarding/foreign-answer.ts';
export { isEventStream, isPlain, jsonTypeProblem } from './forwarding/media-type.ts';
export { spellBound } from './forwarding/output-bound.ts';
export {
  createUpstreamClient,
  type OutgoingRequest,
  type Sending,
  type UpstreamClient,
} from './forwarding/upstream-client.ts';
export {
  describeTranslated,
  dropDigests,
  forwardedHeaders,
  type MessagesHeaders,
  messagesHeaders,
  upstreamCredential,
} from './forwarding/upstream-headers.ts';
export { API_PATHS, upstreamPaths } from './forwarding/upstream-path.ts';
export { type LimitsAtOnce, limitsAtOnce } from './limits/at-once.ts';
export { highestCost } from './limits/highest-cost.ts';
export { limitHeaders } from './limits/limit-headers.ts';
export { type MostTokens, mostTokens } from './limits/most-tokens.ts';
export { refuseForLimits } from './limits/refusals.ts';
export { usageReport } from './limits/usage-report.ts';
export { type Bill, billFor, type CacheLifetime, emptyBill } from './metering/bill.ts';
export { type Charged, chargeFor, clampedNumbers } from './metering/charge.ts';
export { type Ending, endingOf, type Settled, settleUnknown } from './metering/ending.ts';
export { type HoldWatch, moreToHold, watchHold } from './metering/hold-watch.ts';
export { createOnceLog } from './metering/once-log.ts';
export { type Possible, possibleFor } from './metering/possible.ts';
export { newUsageReading, type UsageReading } from './metering/reading.ts';
export { settleUnmetered } from './metering/unmetered.ts';
export { type UsageReader, usageReader } from './metering/usage-reader.ts';
export { type RoutingRule, routingRules } from './rules/config-rules.ts';
export { matchesGlob } from './rules/glob.ts';
export { compileLimits } from './rules/limit-claims.ts';
export { createDecisiveCheck, modelNames, refuseDecisiveQuery, servedWords } from './services/decisive-values.ts';
export { ledgerIdentity } from './services/ledger-identity.ts';
export { modelNotFound } from './services/model-refusals.ts';
export { formatUsd, nanoToUsd, usdToNano } from './services/money.ts';
export { costOf, NO_TOKENS, unpricedTools } from './services/prices.ts';
export { MODEL_FACTS, modelFacts, UPSTREAM_FACTS, upstreamFacts } from './services/route-facts.ts';
export { servedAsAsked } from './services/served-prices.ts';
export type {
  AuditLog,
  AuditRecord,
  BearerTokens,
  Billed,
  Clock,
  CounterName,
  EffectivePolicy,
  EffectivePrice,
  FactView,
  Health,
  HealthPart,
  Ledger,
  LedgerIdentity,
  LimitClaim,
  LimitStanding,
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
  Standing,
  Timer,
  TokenCounts,
  Usage,
} from './stage-services.ts';
export { removeMadeReasoning } from './translation/made-reasoning.ts';
export { askedIn, type Protocol, protocolOf } from './translation/protocol.ts';
export { createTranslator, type Translation, translateRequest } from './translation/translate.ts';
export { withoutUsageChunk } from './translation/usage-chunk.ts';
