import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { baseUrl, examples } from '../options.ts';

/** `appscli selfcheck`. */
export function addSelfcheck(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('selfcheck')
    .description('does a gateway do what coding clients need? Asks it, whoever made it')
    .addOption(baseUrl())
    .option('--token-env <name>', 'name of the environment variable that holds an access token')
    .option('--model <id>', 'the model to ask; else the first one it lists')
    .addHelpText('after', examples('appscli selfcheck --base-url https://gw.example.com --token-env GATEWAY_TOKEN'))
    .action(async (given) => finish(await (await import('./selfcheck.ts')).selfcheck(context, given)));
}
