import { type Command, InvalidArgumentError, Option } from 'commander';
import { ADMIN_ACTION_NAMES, type AdminAction } from '../../audit/admin-changes.ts';
import { ERRORS } from '../../contract/errors.ts';
import { didYouMean, listed } from '../../kit/text/suggest.ts';
import type { CommandContext } from '../context.ts';
import { atGateway, collected, config, count, email, examples, json, moment, notEmpty } from '../options.ts';

/** What was done, by the name that a list of changes has for it. */
function action(text: string): AdminAction {
  const found = ADMIN_ACTION_NAMES.find((name) => name === text);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(`${didYouMean(text, ADMIN_ACTION_NAMES, `Write ${listed(ADMIN_ACTION_NAMES)}`)}.`);
}

/** An error code of the gateway. */
function errorCode(text: string, before: unknown): readonly string[] {
  const codes = Object.keys(ERRORS);
  if (!codes.includes(text)) {
    throw new InvalidArgumentError(
      didYouMean(text, codes, '"appscli explain error <code>" knows all; --error alone finds every one.'),
    );
  }
  return [...(Array.isArray(before) ? before : []), text];
}

function status(text: string): string {
  if (/^[1-5](?:\d\d|xx)$/.test(text)) return text;
  throw new InvalidArgumentError('Write a status such as 403, or a class of them: 4xx.');
}

const emails = (text: string, before: readonly string[] = []) => [...before, email(text).toLowerCase()];
/** Names of an option that may also stand alone, which is `true`. */
const names = (text: string, before: unknown) => collected(text, Array.isArray(before) ? before : []);

/** `appscli audit tail|changes`. */
export function addAudit(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const audit = program.command('audit').description('what was requested, and who changed what').helpCommand(false);
  audit
    .command('tail')
    .description('the latest audit records, oldest first; what is asked for must all hold')
    .addOption(config())
    .option('--since <when>', 'only from then on: 7d, 12h or a date', moment)
    .option('--until <when>', 'only before then: 1d, 12h or a date', moment)
    .option('--user <email>', 'only requests of this person; may be repeated: one of them', emails)
    .option('--model <id>', 'only requests for this model; may be repeated', collected)
    .option('--token <id>', 'only requests with this access token or in this session', notEmpty)
    .option('--status <status>', 'only those answered so: 403, or 4xx for all of a class', status)
    .option('--error [code]', 'only what was refused or failed; with a code only so; may be repeated', errorCode)
    .option('--shadow [name]', 'only where something in shadow mode held; with a name only where it did', names)
    .option(
      '--rule <name>',
      'only what this rule, limit or stage refused or routed, or would have in shadow mode; may be repeated',
      collected,
    )
    .option('--who', 'print who sent them instead: how many, how many were refused, and the last')
    .option('-n, --lines <count>', 'how many', count, 20)
    .addOption(new Option('-f, --follow', 'go on with new records as they come').conflicts(['until', 'who']))
    .addOption(json('print each record as one line of JSON'))
    .addHelpText(
      'after',
      examples(
        'appscli audit tail -n 5',
        'appscli audit tail --error --since 1d                  refused or failed',
        'appscli audit tail --rule no-preview --since 7d        what a rule hits',
        'appscli audit tail --rule no-preview --since 7d --who  and whom',
        'appscli audit tail --user ann@example.com --follow',
        'appscli audit tail --follow --json | jq .status',
      ),
    )
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
