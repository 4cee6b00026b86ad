/** The part of this package that shipped stages use. */
export { jsonTypeProblem } from './media-type.ts';
export { createOnceLog } from './once-log.ts';
