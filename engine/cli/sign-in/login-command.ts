import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { baseUrl, examples, json } from '../options.ts';

/** `appscli login`. */
export function addLogin(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('login')
    .description('sign in at a gateway with your browser')
    .addOption(baseUrl())
    .option('--no-browser', 'only show the page to open')
    .addOption(json('print a JSON object with who signed in where'))
    .addHelpText(
      'after',
      `
Shows a code and opens a page of the gateway, where you sign in as your company
does. What comes back is kept in $APPSCLI_CREDENTIALS, or in
appscli/credentials.json below $XDG_CONFIG_HOME (~/.config), readable by you
alone. Exits 1 when the sign-in is refused, takes too long or is stopped, 69
when the gateway can't be reached.
${examples('appscli login --base-url https://gateway.example.com', 'appscli login --no-browser          on a machine without one')}`,
    )
    .action(async (given) => finish(await (await import('./login.ts')).login(context, given)));
}
