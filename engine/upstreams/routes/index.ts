/** Where requests can go. */
export { type Choice, type Choosing, chooseCandidates, type Needs } from './choose.ts';
export { createRoute, type Place, type Route, sharesSessions } from './route.ts';
export { createSessionKeeper } from './sessions.ts';
