import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { config, examples, json } from '../options.ts';

/** `appscli console`. */
export function addConsole(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('console')
    .description('the address of the console in a browser, or a link that opens it')
    .addOption(config())
    .option('--end', 'instead: end all sessions that links have opened, and links that were not used')
    .addOption(json('print a JSON object: url, and until when it is good; with --end how many sessions ended'))
    .addHelpText(
      'after',
      `
Where people sign in with an identity provider, this is the same address for
everybody. Otherwise it is a link that opens the console for an administrator:
once, within a minute, in a browser on the machine of the gateway.
${examples('appscli console', 'appscli console --config gateway.yaml --json', 'appscli console --end')}`,
    )
    .action(async (given) => finish(await (await import('./console.ts')).openConsole(context, given)));
}
