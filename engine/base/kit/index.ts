/** What shipped stages use of this room. */
export { jsonTypeProblem } from './media-type.ts';
export { createOnceLog } from './once-log.ts';
