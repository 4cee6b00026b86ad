import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { examples } from '../options.ts';

/** `appscli init`. */
export function addInit(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('init')
    .description('begin a configuration: gateway.yaml with comments, a pipeline with a rule, its tests')
    .argument('[directory]', 'where to write them; made when it is not there', '.')
    .addHelpText(
      'after',
      `\nA file that exists is never touched: then nothing is written.\n${examples('appscli init', 'appscli init my-gateway')}`,
    )
    .action(async (directory) => finish(await (await import('./init.ts')).init(context, directory)));
}
