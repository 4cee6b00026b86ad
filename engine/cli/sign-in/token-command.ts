import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { baseUrl, examples, json } from '../options.ts';

/** `appscli token`. */
export function addToken(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('token')
    .description('print a token that is valid now; a key helper for clients')
    .addOption(baseUrl())
    .addOption(json('print a JSON object with the token and the end of its life'))
    .addHelpText(
      'after',
      `
Renews the token when it has not long to live; any number of calls at once
renew it once. Exits 1 when you have to sign in again, 69 when it has expired
and the gateway can't be reached.
${examples(
  'appscli token --base-url https://gateway.example.com',
  'curl -H "Authorization: Bearer $(appscli token)" $APPSCLI_BASE_URL/v1/models',
)}`,
    )
    .action(async (given) => finish(await (await import('./token.ts')).token(context, given)));
}
