import type { LazyCommand } from '../make-program.ts';

/** The commands of a person's sign-in. */
export const SIGN_IN: readonly LazyCommand[] = [
  ['login', 'sign in at a gateway with your browser', () => import('./login.ts')],
  ['token', 'print a token that is valid now; a key helper for clients', () => import('./token.ts')],
  ['whoami', 'who you are to a gateway: groups, team, roles, models', () => import('./whoami.ts')],
  ['logout', 'end your sign-in, at the gateway and on this machine', () => import('./logout.ts')],
];

/** What a person may use. */
export const MODELS: LazyCommand = [
  'models',
  'the models you may use at a gateway: context window, longest answer, prices',
  () => import('../models.ts'),
];

/** How a coding client is set up. */
export const CLIENT: LazyCommand = [
  'client',
  'set up a coding client for a gateway: its files and variables',
  () => import('../client/command.ts'),
];
