import { type CreateProgram, makeProgram } from './make-program.ts';
import { CLIENT, MODELS, SIGN_IN } from './sign-in/words.ts';

/** The command line in the package that a gateway serves: only the commands for developers. */
export const createClientProgram: CreateProgram = (options) =>
  makeProgram(options, {
    description: 'Sign in at a model gateway, and set up your coding clients for it.',
    commands: [
      ...SIGN_IN,
      MODELS,
      ['usage', 'show your usage, cost and limits', () => import('./usage/gateway-usage.ts')],
      CLIENT,
      ['doctor', 'diagnose problems of coding clients on this machine', () => import('./doctor/client-command.ts')],
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
