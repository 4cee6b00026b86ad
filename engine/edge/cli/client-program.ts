import { type CreateProgram, type LazyCommand, makeProgram } from './main.ts';

const signIn = (name: 'login' | 'token' | 'logout', about: string): LazyCommand => [
  name,
  about,
  async () => ({ commands: [(await import('./sign-in.ts')).SIGN_IN_COMMANDS[name]] }),
];

const account = (name: 'whoami' | 'models', about: string): LazyCommand => [
  name,
  about,
  async () => ({ commands: [(await import('./account.ts')).ACCOUNT_COMMANDS[name]] }),
];

/** Commands of people who use a gateway, in both programs. */
export const SIGN_IN: readonly LazyCommand[] = [
  signIn('login', 'sign in at a gateway with your browser'),
  signIn('token', 'print a valid token; a key helper for clients'),
  account('whoami', 'show your account: groups, team, roles, models'),
  signIn('logout', 'end your sign-in'),
];
export const MODELS = account('models', 'list the models you may use, with prices');
export const CLIENT: LazyCommand = ['client', 'set up a coding client for a gateway', () => import('./client.ts')];

/** The command line in the package that a gateway serves: only the commands for developers. */
export const createClientProgram: CreateProgram = (options) =>
  makeProgram(options, {
    description: 'Sign in at a model gateway, and set up your coding clients for it.',
    commands: [
      ...SIGN_IN,
      MODELS,
      ['usage', 'show your usage, cost and limits', () => import('./usage/gateway-usage.ts')],
      CLIENT,
      ['doctor', 'diagnose problems of coding clients on this machine', () => import('./doctor/workstation.ts')],
    ],
    examples: [
      'appscli login                      sign in with your browser',
      'appscli models                     the models you may use, with prices',
      'appscli client messages --help     set up a coding client',
      'appscli doctor                     diagnose problems',
    ],
  });

/** Sets APPSCLI_BASE_URL to the gateway that served the package. */
export function environmentOf(env: NodeJS.ProcessEnv, gateway: string | undefined): NodeJS.ProcessEnv {
  return gateway === undefined ? env : { ...env, APPSCLI_BASE_URL: gateway };
}
