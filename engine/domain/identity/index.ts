/** What other packages of the domain, and stages, import. @module */
export { IN_FORCE, rolesOf, tokenGroupOf } from './deprovisioning/deprovision.ts';
export { generateGrantId } from './tokens/token-format.ts';
export { nameOf, sessionEnded } from './tokens/tokens.ts';
