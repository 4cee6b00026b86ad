/** What shipped stages use of this room. */
export { askedIn, type Protocol, protocolOf } from '../contract/protocol.ts';
export { type BodyFacts, byPath, readBodyFacts } from './body/body-facts.ts';
export { shortenCache } from './body/cache-lifetimes.ts';
export { isForm, type OtherBody, readOtherBody } from './body/other-body.ts';
export { spellBound } from './body/output-bound.ts';
export type { DecisiveChoice } from './body/read-decisive.ts';
export { sessionKey } from './body/session.ts';
export { type AnswerWatch, CALL_MEMORY, returnState } from './chat/call-memory.ts';
export { definitionOf } from './definitions.ts';
export { removeMadeReasoning } from './translation/features/made-reasoning.ts';
export { takesTurns } from './translation/features/turn-order.ts';
export { createTranslator, type Translation, translateRequest } from './translation/translate.ts';
export { withoutUsageChunk } from './translation/usage-chunk.ts';
export { readOtherUsage } from './usage/other-usage.ts';
export { newUsageReading, type UsageReader, type UsageReading } from './usage/reading.ts';
