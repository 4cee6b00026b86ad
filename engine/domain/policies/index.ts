/** What other packages of the domain import. @module */
export { namesModel } from './managed-policies.ts';
