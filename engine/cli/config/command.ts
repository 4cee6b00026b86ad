import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { atGateway, config, count, examples, json, notEmpty } from '../options.ts';

const LINES = 20;

/** `appscli config loads|diff`. */
export function addConfig(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const group = program
    .command('config')
    .description('what gateways loaded and run, and what differs')
    .helpCommand(false);
  const code = () => import('./config.ts');
  group
    .command('loads')
    .description('starts and reloads, the newest first: what was put in force where and why, and what failed')
    .option('-n, --lines <count>', 'how many', count, LINES)
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object: replicas, the version in force, loads'))
    .addHelpText('after', examples('appscli config loads', 'appscli config loads -n 5 --json'))
    .action(async (given) => finish(await (await code()).loads(context, given)));
  group
    .command('diff')
    .description('what differs between two versions that were loaded, in rules and in lines')
    .argument('<from>', 'a version, as config loads shows it', notEmpty)
    .argument('[to]', 'another one; the one in force unless it is said', notEmpty)
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object: files with their lines, rules before and after'))
    .addHelpText(
      'after',
      `
To compare two files, one of which need not be loaded: appscli diff.
${examples('appscli config diff 0a1b2c3d4e5f')}`,
    )
    .action(async (from, to, given) => finish(await (await code()).diff(context, { from, to }, given)));
}
