import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { baseUrl, examples } from '../options.ts';

/** `appscli logout`. */
export function addLogout(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('logout')
    .description('end your sign-in, at the gateway and on this machine')
    .addOption(baseUrl())
    .addOption(new Option('--all', 'at every gateway you are signed in at').conflicts('baseUrl'))
    .addHelpText(
      'after',
      `
Exits 69 when a gateway can't be reached: the sign-in is then forgotten on this
machine only.
${examples('appscli logout --base-url https://gateway.example.com', 'appscli logout --all')}`,
    )
    .action(async (given) => finish(await (await import('./logout.ts')).logout(context, given)));
}
