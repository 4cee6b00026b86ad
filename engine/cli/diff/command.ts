import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { examples, json, moment } from '../options.ts';

/** `appscli diff`. */
export function addDiff(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('diff')
    .description('what a new configuration changes for whom: models, policies, routes, limits, prices, pipelines')
    .argument('<old>', 'the gateway.yaml in force')
    .argument('<new>', 'the gateway.yaml to compare it with')
    .option('--ledger', 'look up who is already over a changed limit, in the database of the new one')
    .option(
      '--audit <since>',
      'tell what requests since then would have met, by person, from the audit log in that database: 7d, 12h or a date',
      moment,
    )
    .option('--exit-code', 'exit with 1 when something changes')
    .addOption(json('print a JSON array of changes'))
    .addHelpText(
      'after',
      examples(
        'appscli diff gateway.yaml gateway.new.yaml',
        'appscli diff --ledger old/gateway.yaml gateway.yaml',
        'appscli diff --audit 7d gateway.yaml gateway.new.yaml',
      ),
    )
    .action(async (old_file, new_file, given) =>
      finish(await (await import('./diff.ts')).diff(context, old_file, new_file, given)),
    );
}
