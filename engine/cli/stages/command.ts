import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { config, examples, json } from '../options.ts';

/** `appscli stages`. */
export function addStages(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('stages')
    .description('the stages a pipeline can name, your own included')
    .addOption(config())
    .addOption(json('print a JSON array'))
    .addHelpText('after', examples('appscli stages', 'appscli stages --config gateway.yaml --json'))
    .action(async (given, command) => {
      const config_named = command.getOptionValueSource('config') === 'cli';
      finish(await (await import('./stages.ts')).stages(context, { ...given, config_named }));
    });
}
