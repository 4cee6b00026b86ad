/** What stages, and other packages of the domain, import. @module */

export { type Actor, type AdminAction, actorLabel, type Changing } from './admin-changes.ts';
export { FACTS_OF_RECORDS } from './recorded-facts.ts';
