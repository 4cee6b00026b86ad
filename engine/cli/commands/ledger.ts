import type { Command } from 'commander';
import type { CommandContext } from '../program.ts';
import { config, examples, json } from './options.ts';

/** `appscli ledger verify`. */
export function addLedger(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const ledger = program.command('ledger').description('whether the money adds up').helpCommand(false);
  ledger
    .command('verify')
    .description(
      'add the ledger up again and compare every counter of a limit with it; gateways may run; exit code 1 when something does not add up',
    )
    .addOption(config())
    .addOption(json('print what was looked at and found as JSON, amounts as exact decimals'))
    .addHelpText('after', examples('appscli ledger verify', 'appscli ledger verify --json | jq .differences'))
    .action(async (given) => finish(await (await import('../ledger.ts')).verify(context, given)));
}
