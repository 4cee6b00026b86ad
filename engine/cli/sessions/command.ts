import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { atGateway, config, email, examples, json } from '../options.ts';

/** `appscli sessions list|explain|end`. */
export function addSessions(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const sessions = program
    .command('sessions')
    .description('who is signed in where, or was refused and why; ending that')
    .helpCommand(false);
  sessions
    .command('list')
    .description('sessions of people who signed in, the newest first')
    .addOption(config())
    .addOption(atGateway())
    .option('--user <email>', 'only those of this person', email)
    .option('--ended', 'ended ones as well')
    .addOption(json('print a JSON array'))
    .addHelpText('after', examples('appscli sessions list --user alice@example.com --ended'))
    .action(async (given) => finish(await (await import('./sessions.ts')).list(context, given)));
  sessions
    .command('explain')
    .description('why a person was refused, or signed out')
    .argument('<email>', 'address of the person', email)
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object'))
    .addHelpText(
      'after',
      `
Names the groups that came and those that are expected, close misses first.
Refused sign-ins are kept for 14 days, at most ten of one address.
${examples('appscli sessions explain dana@example.com')}`,
    )
    .action(async (user, given) =>
      finish(await (await import('../explain/explain-sign-ins.ts')).explain(context, user, given)),
    );
  sessions
    .command('end')
    .description('end a session, or all of a person; gateways refuse them within a second')
    .argument('[id]', 'its id, as sessions list shows it')
    .addOption(config())
    .addOption(atGateway())
    .option('--user <email>', 'instead of the id: all of this person', email)
    .option('--with-tokens', 'with --user: revoke all access tokens as well')
    .addOption(json('print a JSON object with how many were ended'))
    .addHelpText(
      'after',
      `
Somebody whose sessions are ended can sign in again, unless the identity
provider or auth.oidc.allowed_groups says otherwise.
${examples('appscli sessions end ses_1a2b3c4d', 'appscli sessions end --user alice@example.com --with-tokens')}`,
    )
    .action(async (id, given) => finish(await (await import('./sessions.ts')).end(context, id, given)));
}
