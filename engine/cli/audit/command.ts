import { type Command, InvalidArgumentError } from 'commander';
import { ADMIN_ACTION_NAMES, type AdminAction } from '../../audit/admin-changes.ts';
import { didYouMean, listed } from '../../kit/text/suggest.ts';
import type { CommandContext } from '../context.ts';
import { atGateway, config, count, examples, json, moment } from '../options.ts';

/** What was done, by the name that a list of changes has for it. */
function action(text: string): AdminAction {
  const found = ADMIN_ACTION_NAMES.find((name) => name === text);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(`${didYouMean(text, ADMIN_ACTION_NAMES, `Write ${listed(ADMIN_ACTION_NAMES)}`)}.`);
}

/** `appscli audit tail|changes`. */
export function addAudit(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const audit = program.command('audit').description('what was requested, and who changed what').helpCommand(false);
  audit
    .command('tail')
    .description('the latest audit records, oldest first')
    .addOption(config())
    .option('-n, --lines <count>', 'how many', count, 20)
    .option('-f, --follow', 'go on with new records as they come')
    .addOption(json('print each record as one line of JSON'))
    .addHelpText('after', examples('appscli audit tail -n 5', 'appscli audit tail --follow --json | jq .outcome'))
    .action(async (given) => finish(await (await import('./audit.ts')).tailAudit(context, given)));
  audit
    .command('changes')
    .description('who changed access tokens, sessions, limits or the ledger, when and how; the oldest first')
    .addOption(config())
    .addOption(atGateway())
    .option('--since <when>', 'only from then on: 7d, 12h or a date', moment)
    .option('--until <when>', 'only before then: 1d, 12h or a date', moment)
    .option('--actor <name>', 'only what this person, account or service token changed')
    .option('--action <name>', 'only what was done so, such as token.create', action)
    .option('--subject <name>', 'only what was done to this or what belongs to it: an id, an e-mail address or a name')
    .option('-n, --lines <count>', 'how many of the latest', count, 100)
    .addOption(json('print each change as one line of JSON'))
    .addHelpText(
      'after',
      examples(
        'appscli audit changes --since 7d',
        'appscli audit changes --subject ana@example.com',
        'appscli audit changes --json | jq .actor',
      ),
    )
    .action(async (given) => finish(await (await import('./audit-changes.ts')).changes(context, given)));
}
