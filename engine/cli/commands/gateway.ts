import type { Command } from 'commander';
import type { CommandContext } from '../program.ts';
import { config, examples } from './options.ts';

/** `appscli gateway`. */
export function addGateway(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('gateway')
    .description('run the gateway until SIGTERM or Ctrl-C')
    .addOption(config())
    .addHelpText('after', examples('appscli gateway --config gateway.yaml'))
    .action(async (given) => finish(await (await import('../gateway.ts')).runGateway(context, given)));
}
