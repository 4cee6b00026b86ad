/** What stages, and other packages of the domain, import. @module */
export { NO_MODEL } from '../../base/contract/no-model.ts';
export { CALLER_FACTS, createAccessCheck, createIsListed, factsFor } from './access.ts';
export { mayBeBilled } from './attempts/attempt.ts';
export { Attempts } from './attempts/walk.ts';
export { requestedWindow } from './headers.ts';
export { callerOf, createModelRefuser, modelNotFound, pricedAt } from './models.ts';
export { createPrivilegedCheck, modelNames, refusePrivilegedQuery, servedNames } from './privileged-values.ts';
export {
  CACHE_FACTS,
  type Choice,
  type Choosing,
  chooseCandidates,
  createRoute,
  createSessionKeeper,
  MODEL_FACTS,
  modelFacts,
  type Needs,
  type Route,
  type RouteEntry,
  sharesSessions,
  UPSTREAM_FACTS,
  upstreamFacts,
} from './routes.ts';
export { createTarget, FORWARD_READS, FORWARD_READS_IF_SET, FORWARD_WRITES } from './target.ts';
