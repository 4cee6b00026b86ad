import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { atGateway, config, email, examples, json, notEmpty } from '../options.ts';

/** `appscli people list|rebind`. */
export function addPeople(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const people = program
    .command('people')
    .description('which account of the identity provider an e-mail address belongs to')
    .helpCommand(false);
  people
    .command('list')
    .description('everybody the gateway knows, and the account they sign in with')
    .addOption(config())
    .addOption(atGateway())
    .option('--user <email>', 'only this person', email)
    .addOption(json('print a JSON array'))
    .addHelpText('after', examples('appscli people list', 'appscli people list --user ana@example.com --json'))
    .action(async (given) => finish(await (await import('./people.ts')).list(context, given)));
  people
    .command('rebind')
    .description('let addresses go to another account; their sessions end')
    .argument('[emails...]', 'the addresses')
    .addOption(config())
    .addOption(atGateway())
    .option('--subject <sub>', 'to the account with this identifier; else the next that signs in', notEmpty)
    .option('--former-issuer <url>', 'instead of addresses: all people of this former provider', notEmpty)
    .addOption(new Option('--tokens <what>', 'what becomes of their access tokens').choices(['keep', 'revoke']))
    .addOption(json('print a JSON array with what was ended'))
    .addHelpText(
      'after',
      `
An address belongs to the account that signed in with it first. Signing in
with another account is refused, and so is signing in with an address that
administrators made access tokens for; the gateway's log names such accounts.

Access tokens are revoked where another account of the same provider had the
address, since it may be somebody else's, and kept otherwise. After a change
of the provider, --former-issuer lets everybody in again.
${examples(
  'appscli people rebind ana@example.com',
  'appscli people rebind ana@example.com --subject 00u1a2b3c4 --tokens keep',
  'appscli people rebind --former-issuer https://old.example.com',
)}`,
    )
    .action(async (emails, given) => finish(await (await import('./people.ts')).rebind(context, emails, given)));
}
