/** What shipped stages use of this room. */
export { windowAsked } from './decisive-headers.ts';
export { createDecisiveCheck, modelNames, refuseDecisiveQuery, servedNames } from './decisive-values.ts';
export { refuseForeignAnswer } from './foreign-answer.ts';
export { modelNotFound } from './model-refusals.ts';
export { MODEL_FACTS, modelFacts, UPSTREAM_FACTS, upstreamFacts } from './route-facts.ts';
export { createUpstreamClient, type OutgoingRequest, type Sending, type UpstreamClient } from './upstream-client.ts';
export * from './upstream-headers.ts';
export { upstreamPaths } from './upstream-path.ts';
