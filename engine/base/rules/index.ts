/** What shipped stages use of this room. */
export { type AccessRule, accessRules, type RoutingRule, routingRules } from './config-rules.ts';
export { type KnownFacts, simplify } from './simplify.ts';
