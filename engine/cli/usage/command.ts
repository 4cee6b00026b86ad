import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { atGateway, config, examples, json } from '../options.ts';
import { addUsageOptions } from './gateway-command.ts';

/** `appscli usage`. */
export function addUsage(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  addUsageOptions(
    program
      .command('usage')
      .description('requests, tokens and cost per user, team, project, model and upstream')
      .addOption(config())
      .addOption(atGateway()),
  )
    .addOption(json('print a JSON array of rows; with --base-url what the gateway says'))
    .addOption(new Option('--csv', 'print CSV for spreadsheets, every number exact').conflicts(['json', 'baseUrl']))
    .addHelpText(
      'after',
      examples(
        'appscli usage --since 7d',
        'appscli usage --since 2027-01-01 --team search --json',
        'appscli usage --since 2027-01-01 --until 2027-02-01 --by team,model,day --csv',
        'appscli usage --since 30d --by week,user --time-zone Europe/Berlin',
        'appscli usage --base-url https://gateway.example.com    with your limits',
      ),
    )
    .action(async (given) => {
      if (given.baseUrl === undefined) return finish(await (await import('./usage.ts')).usage(context, given));
      finish(await (await import('./gateway-usage.ts')).gatewayUsage(context, given));
    });
}
