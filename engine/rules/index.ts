/** What shipped stages use of this room. */
export { type RoutingRule, routingRules } from './config-rules.ts';
