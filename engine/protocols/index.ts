/** What shipped stages use of this room. */
export { askedIn, type Protocol, protocolOf } from '../contract/protocol.ts';
export { type BodyFacts, byPath, readBodyFacts, shortenCache } from './body/body-facts.ts';
export { spellBound } from './body/fields.ts';
export { isForm, type OtherBody, readOtherBody } from './body/other-body.ts';
export type { DecisiveChoice } from './body/read-decisive.ts';
export { sessionKey } from './body/session.ts';
export { type AnswerWatch, CALL_MEMORY, returnState } from './chat/call-memory.ts';
export { definitionOf } from './definitions.ts';
export { takesTurns } from './translation/features.ts';
export { removeMadeReasoning } from './translation/made-reasoning.ts';
export { createTranslator, type Translation, translateRequest } from './translation/translate.ts';
export { withoutUsageChunk } from './translation/usage.ts';
export { newUsageReading, readOtherUsage, type UsageReader, type UsageReading } from './usage.ts';
