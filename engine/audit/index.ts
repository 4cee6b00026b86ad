/** What shipped stages use of this room. */
export { FACTS_OF_RECORDS } from './recorded-facts.ts';
