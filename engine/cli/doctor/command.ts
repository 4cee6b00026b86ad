import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { examples } from '../options.ts';

/** `appscli doctor`. */
export function addDoctor(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('doctor')
    .description('why does it not work? Looks at the coding clients here, or at the machine of a gateway')
    .addOption(new Option('--config <file>', 'the gateway.yaml of a gateway that runs on this machine'))
    .addHelpText('after', examples('appscli doctor', 'appscli doctor --config gateway.yaml'))
    .action(async (given) => {
      if (given.config !== undefined) finish(await (await import('./host.ts')).doctorHost(context, given));
      else finish(await (await import('./desk.ts')).doctorDesk(context, given));
    });
}
