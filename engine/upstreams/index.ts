/** What shipped stages use of this room. */
export { NO_MODEL } from '../contract/no-model.ts';
export { CALLER_FACTS, createAccessCheck, createIsListed, factsFor } from './access.ts';
export { Attempts } from './attempts/attempts.ts';
export { FORWARD_READS, FORWARD_READS_IF_SET, FORWARD_WRITES } from './attempts/forward-context.ts';
export { mayBeBilled } from './attempts/judge.ts';
export { windowAsked } from './decisive-headers.ts';
export { createDecisiveCheck, modelNames, refuseDecisiveQuery, servedNames } from './decisive-values.ts';
export { callerOf, createModelRefuser, modelNotFound, pricedAt } from './models.ts';
export * from './routes/index.ts';
export { CACHE_FACTS, MODEL_FACTS, modelFacts, UPSTREAM_FACTS, upstreamFacts } from './routes/route.ts';
export { createTarget } from './target.ts';
