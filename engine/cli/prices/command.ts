import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { config, examples, json, moment, notEmpty, time } from '../options.ts';

/** `appscli prices check|show`. */
export function addPrices(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const prices = program.command('prices').description('what models cost, and what has no price').helpCommand(false);
  prices
    .command('check')
    .description(
      'models and tools in the ledger that have no price of their own, and entries of prices.rows that no request can meet; exit code 1 when there are any, or when the catalogue of prices is old; also tells which prices of gateway.yaml are others than those of the catalogue',
    )
    .addOption(config())
    .option('--since <when>', 'look at requests from then on: 7d, 12h or a date; 90d where absent', moment)
    .addOption(json('print what was looked at and found as JSON, amounts as exact decimals'))
    .addHelpText('after', examples('appscli prices check', 'appscli prices check --since 2027-01-01 --json'))
    .action(async (given) => finish(await (await import('./prices.ts')).checkPrices(context, given)));
  prices
    .command('show')
    .description('the prices in force, in USD per million tokens, and where in gateway.yaml each is from')
    .addOption(config())
    .option('--model <id>', 'only this model, which gateway.yaml need not have', notEmpty)
    .option('--upstream <name>', 'only at this upstream', notEmpty)
    .option('--at <when>', 'at that time, past or to come; now where absent', time)
    .addOption(json('print a JSON array of prices, every amount an exact decimal'))
    .addHelpText(
      'after',
      examples(
        'appscli prices show',
        'appscli prices show --model coder-1 --at 2027-01-01',
        'appscli prices show --upstream main --json',
      ),
    )
    .action(async (given) => finish(await (await import('./show-prices.ts')).showPrices(context, given)));
}
