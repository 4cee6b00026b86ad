import type { Command } from 'commander';
import type { CommandContext } from '../program.ts';
import { config, email, examples, expiry, json, notEmpty } from './options.ts';

/** `appscli tokens create|list|revoke`. */
export function addTokens(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const tokens = program
    .command('tokens')
    .description('access tokens: one per person and client, each revocable alone')
    .helpCommand(false);
  tokens
    .command('create')
    .description('make an access token and print it; it is shown only this once')
    .addOption(config())
    .requiredOption('--user <email>', 'whose requests it makes', email)
    .requiredOption('--group <name>', 'token group of gateway.yaml: which models it may use', notEmpty)
    .requiredOption('--name <name>', 'what it is for, such as the device it lives on', notEmpty)
    .option('--team <name>', 'team whose budget its requests share', notEmpty)
    .option('--project <name>', 'project its requests are counted under', notEmpty)
    .option('--expires <when>', 'end of its life: 30d, 12h or a date; without it, none', expiry)
    .addOption(json('print a JSON object with the token and what is known about it'))
    .addHelpText(
      'after',
      examples(
        'appscli tokens create --user alice@example.com --group all --name laptop',
        'TOKEN=$(appscli tokens create --user ci@example.com --group all --name ci)',
      ),
    )
    .action(async (given) => finish(await (await import('../tokens.ts')).create(context, given)));
  tokens
    .command('list')
    .description('all access tokens, without the tokens themselves')
    .addOption(config())
    .option('--user <email>', 'only those of this user')
    .addOption(json('print a JSON array'))
    .addHelpText('after', examples('appscli tokens list --user alice@example.com'))
    .action(async (given) => finish(await (await import('../tokens.ts')).list(context, given)));
  tokens
    .command('revoke')
    .description('end the life of an access token; running gateways refuse it within a second')
    .argument('[id]', 'its id, as tokens list shows it')
    .addOption(config())
    .option('--user <email>', 'instead of the id: whose it is, together with --name', email)
    .option('--name <name>', 'instead of the id: what it is called, together with --user', notEmpty)
    .addOption(json('print a JSON object'))
    .addHelpText(
      'after',
      examples('appscli tokens revoke tok_1a2b3c4d', 'appscli tokens revoke --user alice@example.com --name laptop'),
    )
    .action(async (id, given) => finish(await (await import('../tokens.ts')).revoke(context, id, given)));
}
