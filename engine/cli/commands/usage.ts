import type { Command } from 'commander';
import type { CommandContext } from '../program.ts';
import { config, examples, json, moment } from './options.ts';

/** `appscli usage`. */
export function addUsage(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('usage')
    .description('requests, tokens and cost per user, team, project, model and upstream')
    .addOption(config())
    .option('--since <when>', 'from here: 7d, 12h or a date', moment)
    .option('--until <when>', 'up to here: 1d, 12h or a date', moment)
    .option('--user <email>', 'only this user')
    .option('--team <name>', 'only this team')
    .option('--project <name>', 'only this project')
    .option('--model <id>', 'only this model')
    .option('--upstream <name>', 'only this upstream')
    .addOption(json('print a JSON array of rows'))
    .addHelpText('after', examples('appscli usage --since 7d', 'appscli usage --since 2027-01-01 --team search --json'))
    .action(async (given) => finish(await (await import('../usage.ts')).usage(context, given)));
}
