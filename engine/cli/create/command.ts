import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { examples } from '../options.ts';

/** `appscli create stage`. */
export function addCreate(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const create = program.command('create').description('write a stage of your own to begin with').helpCommand(false);
  create
    .command('stage')
    .description('write stages/NAME.ts and its test, and say how to use it')
    .argument('<name>', 'its name in pipelines: lower-case words joined by dashes')
    .option('--directory <directory>', 'where gateway.yaml is', '.')
    .addHelpText('after', examples('appscli create stage require-ticket'))
    .action(async (name, given) => finish(await (await import('./create-stage.ts')).createStage(context, name, given)));
}
