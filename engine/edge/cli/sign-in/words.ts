import type { LazyCommand } from '../make-program.ts';

/** Sign-in commands. */
export const SIGN_IN: readonly LazyCommand[] = [
  ['login', 'sign in at a gateway with your browser', () => import('./login.ts')],
  ['token', 'print a valid token; a key helper for clients', () => import('./token.ts')],
  ['whoami', 'show your account: groups, team, roles, models', () => import('./whoami.ts')],
  ['logout', 'end your sign-in', () => import('./logout.ts')],
];

/** The model list command. */
export const MODELS: LazyCommand = ['models', 'list the models you may use, with prices', () => import('../models.ts')];

/** The client set-up command. */
export const CLIENT: LazyCommand = [
  'client',
  'set up a coding client for a gateway',
  () => import('../client/command.ts'),
];
