/** The public API of this package, for stages and other domain packages. @module */
export { negotiatedProtocol, type Protocol, protocolOf } from '../../base/contract/protocol.ts';
export { type BodyFacts, byPath, readBodyFacts, shortenCache } from './body/body-facts.ts';
export { otherBound, spellBound } from './body/fields.ts';
export { isForm, type OtherBody, readOtherBody } from './body/other-body.ts';
export { fieldRule, PRIVILEGED_NAMES } from './body/privileged-fields.ts';
export type { PrivilegedChoice } from './body/read-privileged.ts';
export { type PrivilegedValue, parameterRule, ruleNamed } from './body/read-privileged.ts';
export { sessionInHeaders, sessionKey } from './body/session.ts';
export { type AnswerWatch, CALL_MEMORY, returnState } from './chat/call-memory.ts';
export type { OutputRules } from './definition.ts';
export { definitionNamed, definitionOf, isPreamble, wantsCallState } from './definitions.ts';
export { type FailedRequest, overflowAnswer, RETRY_HEADERS, readProblem } from './errors.ts';
export {
  BEGINS_AS_ERROR,
  errorIn,
  errorOfEvent,
  MEANINGS,
  mayBeError,
  meaningOf,
  type ReadError,
  readError,
  statusOf,
} from './read-error.ts';
export { isObject } from './read-json.ts';
export { responseEndIn } from './stop-reasons.ts';
export { takesTurns } from './translation/features.ts';
export {
  createTranslator,
  DESCRIBING,
  removeMadeReasoning,
  type Translation,
  translateRequest,
} from './translation/translate.ts';
export {
  cacheTokens,
  newUsageReading,
  partsOf,
  readOtherUsage,
  relayedOutput,
  sumOf,
  type UsageReader,
  type UsageReading,
  type UsedPart,
  withoutUsageChunk,
} from './usage.ts';
