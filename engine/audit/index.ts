/** What shipped stages use of this room. */
export { RECORDED_FACTS } from './recorded-facts.ts';
