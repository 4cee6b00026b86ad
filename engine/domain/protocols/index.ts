/** What stages, and other packages of the domain, import. @module */
export { askedIn, type Protocol, protocolOf } from '../../base/contract/protocol.ts';
export { type BodyFacts, byPath, readBodyFacts, shortenCache } from './body/body-facts.ts';
export { DECISIVE_NAMES, fieldRule } from './body/decisive-fields.ts';
export { otherBound, spellBound } from './body/fields.ts';
export { isForm, type OtherBody, readOtherBody } from './body/other-body.ts';
export type { DecisiveChoice } from './body/read-decisive.ts';
export { type DecisiveValue, parameterRule, ruleNamed } from './body/read-decisive.ts';
export { sessionInHeaders, sessionKey } from './body/session.ts';
export { type AnswerWatch, CALL_MEMORY, returnState } from './chat/call-memory.ts';
export { definitionOf } from './definitions.ts';
export { type FailedRequest, overflowAnswer, RETRY_HEADERS, readProblem, statusOf } from './errors.ts';
export {
  BEGINS_AS_ERROR,
  errorIn,
  errorOfEvent,
  MEANINGS,
  mayBeError,
  meaningOf,
  type ReadError,
  readError,
} from './read-error.ts';
export { isObject } from './read-json.ts';
export { endSaidIn } from './stop-reasons.ts';
export { takesTurns } from './translation/features.ts';
export { removeMadeReasoning } from './translation/made-reasoning.ts';
export { createTranslator, DESCRIBING, type Translation, translateRequest } from './translation/translate.ts';
export { withoutUsageChunk } from './translation/usage.ts';
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
} from './usage.ts';
