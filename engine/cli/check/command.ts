import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { config, examples, seconds } from '../options.ts';

/** `appscli check`. */
export function addCheck(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('check')
    .description('check a configuration and its tests without running them; exits 1 when there is something to fix')
    .argument('[paths...]', 'files or directories to check instead of gateway.yaml, its pipelines and their tests')
    .addOption(config())
    .addOption(
      new Option('--format <format>', 'how to print findings').choices(['text', 'json', 'github']).default('text'),
    )
    .addOption(new Option('--deny-warnings', 'count warnings as errors'))
    .addOption(
      new Option(
        '--live',
        'also ask database, upstreams and identity provider whether they are there, and send a span to the collector',
      ),
    )
    .addOption(new Option('--timeout <seconds>', 'how long --live waits for each (default: 5)').argParser(seconds))
    .addOption(
      new Option('--verbose', 'also print how far limits can be passed, how much memory is used, and what is kept'),
    )
    .addHelpText(
      'after',
      examples(
        'appscli check --config gateway.yaml',
        'appscli check examples/ pipelines/messages.yaml',
        'appscli check --live',
        'appscli check --format github --deny-warnings',
      ),
    )
    .action(async (paths, given, command) => {
      const config_named = command.getOptionValueSource('config') === 'cli';
      finish(await (await import('./check.ts')).check(context, { ...given, paths, config_named }));
    });
}
