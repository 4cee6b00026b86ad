import { type CreateProgram, makeProgram } from './make-program.ts';
import { CLIENT, MODELS, SIGN_IN } from './sign-in/words.ts';

/** The command line in the package that a gateway serves: what a developer needs, and nothing of a gateway. */
export const createClientProgram: CreateProgram = (options) =>
  makeProgram(options, {
    description: 'Sign in at a model gateway, and set up your coding clients for it.',
    commands: [
      ...SIGN_IN,
      MODELS,
      ['usage', 'your requests, tokens and cost, and what your limits leave', () => import('./usage/gateway-usage.ts')],
      CLIENT,
      ['doctor', 'why does it not work? Looks at the coding clients here', () => import('./doctor/client-command.ts')],
    ],
    examples: [
      'appscli login                      sign in, in your browser',
      'appscli models                     the models you may use, with prices',
      'appscli client messages --help     set up a coding client',
      'appscli doctor                     why does it not work?',
    ],
  });

/** An environment in which commands without `--base-url` mean the gateway that the package is from. */
export function environmentOf(env: NodeJS.ProcessEnv, gateway: string | undefined): NodeJS.ProcessEnv {
  return gateway === undefined ? env : { ...env, APPSCLI_BASE_URL: gateway };
}
