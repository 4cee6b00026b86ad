/**
 * The API for custom stages, imported as `appscli`. The engine itself never imports it; shipped stages may also import the
 * `index.ts` of a package.
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
} from './base/contract/config.ts';
export { ERRORS, type ErrorCode, type ErrorDetails, StageError } from './base/contract/errors.ts';
export type { FactPath, FactValue } from './base/contract/facts.ts';
export type { AttemptRecord } from './base/contract/forwarding.ts';
export type { JsonSchema, ValueOf } from './base/contract/json-schema.ts';
export type { StageFact } from './base/contract/own-facts.ts';
export { type Replacement, type Rewriting, TEXT_KINDS, type TextKind } from './base/contract/rewriting.ts';
export type {
  AudioTokens,
  AuditLog,
  AuditRecord,
  BearerTokens,
  Billed,
  CacheLifetime,
  ChargedAttempt,
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
  LimitChanges,
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
  MoveDecision,
  Outcome,
  PricedRoute,
  PriceNote,
  Principal,
  Provenance,
  Reservation,
  ReservationDecision,
  ReservationRequest,
  Served,
  Services,
  Settlement,
  Timer,
  TokenCounts,
  Usage,
} from './base/contract/services.ts';
export {
  type Answer,
  answerJson,
  type Capability,
  defineStage,
  type JsonValue,
  type ReadToEndLimits,
  type Relay,
  type RequestBody,
  type ResponseConverter,
  type ResponseEvent,
  type ResponseHead,
  type StageContext,
  type StageDefinition,
  type StageHooks,
} from './base/contract/stage.ts';
export type { TraceIdentity } from './base/contract/telemetry.ts';
export type { UpstreamResponse } from './base/contract/upstream-response.ts';
export { SPEND_WINDOWS, type SpendWindow } from './base/contract/windows.ts';
export { matchesGlob } from './base/kit/glob.ts';
export { isEventStream } from './base/kit/media-type.ts';
export { formatUsd, nanoToUsd, usdToNano } from './base/kit/money.ts';
export { verifyCaller } from './base/kit/net/credentials.ts';
export { openPrompt, type PromptKind, type PromptRole, type PromptText } from './domain/protocols/prompt-texts.ts';
