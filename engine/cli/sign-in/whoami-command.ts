import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { baseUrl, examples, json } from '../options.ts';

/** `appscli whoami`. */
export function addWhoami(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('whoami')
    .description('who you are to a gateway: groups, team, roles, models')
    .addOption(baseUrl())
    .addOption(json('print what the gateway says as JSON'))
    .addHelpText('after', examples('appscli whoami', 'appscli whoami --base-url https://gateway.example.com --json'))
    .action(async (given) => finish(await (await import('./whoami.ts')).whoami(context, given)));
}
