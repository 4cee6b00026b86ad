import type { Command } from 'commander';
import type { CommandContext } from '../program.ts';
import { config, count, examples, json } from './options.ts';

/** `appscli audit tail`. */
export function addAudit(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const audit = program.command('audit').description('read the audit log').helpCommand(false);
  audit
    .command('tail')
    .description('the latest audit records, oldest first')
    .addOption(config())
    .option('-n, --lines <count>', 'how many', count, 20)
    .option('-f, --follow', 'go on with new records as they come')
    .addOption(json('print each record as one line of JSON'))
    .addHelpText('after', examples('appscli audit tail -n 5', 'appscli audit tail --follow --json | jq .outcome'))
    .action(async (given) => finish(await (await import('../audit.ts')).tailAudit(context, given)));
}
