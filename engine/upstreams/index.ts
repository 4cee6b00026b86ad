/** What shipped stages use of this room. */
export { NO_MODEL } from '../contract/no-model.ts';
export { CALLER_FACTS, createAccessCheck, createIsListed, factsFor } from './access.ts';
export { Attempts } from './attempts/attempts.ts';
export { mayBeBilled } from './attempts/error-meaning.ts';
export { FORWARD_READS, FORWARD_READS_IF_SET, FORWARD_WRITES } from './attempts/forward-context.ts';
export { CACHE_FACTS } from './cache-lifetime.ts';
export { windowAsked } from './decisive-headers.ts';
export { createDecisiveCheck, modelNames, refuseDecisiveQuery, servedNames } from './decisive-values.ts';
export { pricedAt } from './found-models.ts';
export { createModelRefuser, modelNotFound } from './model-refusals.ts';
export { callerOf } from './models.ts';
export { MODEL_FACTS, modelFacts, UPSTREAM_FACTS, upstreamFacts } from './route-facts.ts';
export * from './routes/index.ts';
export { createTarget } from './target.ts';
