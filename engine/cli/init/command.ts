import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { examples } from '../options.ts';

/** `appscli init`. */
export function addInit(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('init')
    .description('begin a configuration: gateway.yaml with comments, a pipeline with a rule, its tests')
    .argument('[directory]', 'where to write them; made when it is not there', '.')
    .option(
      '--upstream-url <url>',
      'address of your provider; asked for in a terminal, else that of `appscli stand-in`',
    )
    .addOption(
      new Option('--upstream-type <type>', 'what it speaks: vendor is Messages, compat chat completions').choices([
        'vendor',
        'compat',
      ]),
    )
    .option('--key-env <name>', 'name of the variable with its key (default: UPSTREAM_KEY)')
    .option(
      '--profile <name>',
      'names of coding clients: shipped (claude, codex, grok) or neutral; asked for in a terminal, else by what is installed',
    )
    .addHelpText(
      'after',
      `\nA file that exists is never touched: then nothing is written.\n${examples(
        'appscli init',
        'appscli init my-gateway',
        'appscli init --upstream-url https://api.example.com --key-env API_KEY',
      )}`,
    )
    .action(async (directory, given) => finish(await (await import('./init.ts')).init(context, directory, given)));
}
