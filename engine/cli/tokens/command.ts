import { type Command, InvalidArgumentError } from 'commander';
import { parseDuration } from '../../kit/times.ts';
import type { CommandContext } from '../context.ts';
import { atGateway, config, email, examples, expiry, json, notEmpty } from '../options.ts';

const MAX_OVERLAP_SECONDS = 30 * 86_400;

/** How long two tokens live side by side, in seconds. */
export function overlap(text: string): number {
  const seconds = text === '0' ? 0 : (parseDuration(text) ?? Number.NaN) / 1000;
  if (seconds >= 0 && seconds <= MAX_OVERLAP_SECONDS) return seconds;
  throw new InvalidArgumentError('Write 24h, 90m or 7d, up to 30d, or 0 to end the old one at once.');
}

type Finish = (exit_code: number) => void;

/** `appscli tokens create|list|rotate|revoke`. */
export function addTokens(program: Command, context: CommandContext, finish: Finish): void {
  const tokens = program
    .command('tokens')
    .description('access tokens: one per person and client, each revocable alone')
    .helpCommand(false);
  addCreate(tokens, context, finish);
  addList(tokens, context, finish);
  addRotate(tokens, context, finish);
  addRevoke(tokens, context, finish);
}

function addCreate(tokens: Command, context: CommandContext, finish: Finish): void {
  tokens
    .command('create')
    .description('make an access token and print it; it is shown only this once')
    .addOption(config())
    .addOption(atGateway())
    .option('--user <email>', 'whose requests it makes; you, with --base-url', email)
    .option('--group <name>', 'token group: which models it may use; yours, with --base-url', notEmpty)
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
        'appscli tokens create --base-url https://gateway.example.com --name editor',
      ),
    )
    .action(async (given) => finish(await (await import('./tokens.ts')).create(context, given)));
}

function addList(tokens: Command, context: CommandContext, finish: Finish): void {
  tokens
    .command('list')
    .description('all access tokens, without the tokens themselves')
    .addOption(config())
    .addOption(atGateway())
    .option('--user <email>', 'only those of this user')
    .addOption(json('print a JSON array'))
    .addHelpText('after', examples('appscli tokens list --user alice@example.com'))
    .action(async (given) => finish(await (await import('./tokens.ts')).list(context, given)));
}

function addRotate(tokens: Command, context: CommandContext, finish: Finish): void {
  tokens
    .command('rotate')
    .description("put a new access token in another's place and print it; the old one works on for a while")
    .argument('[id]', 'id of the old one, as tokens list shows it')
    .addOption(config())
    .addOption(atGateway())
    .option('--user <email>', 'instead of the id: whose it is, together with --name', email)
    .option('--name <name>', 'instead of the id: what it is called, together with --user', notEmpty)
    .option('--overlap <time>', 'how long the old one works on: 24h unless given, 0 for not at all', overlap)
    .option('--expires <when>', 'end of the new one: 30d, 12h or a date; else that of the old one', expiry)
    .addOption(json('print a JSON object with the token and what is known about both'))
    .addHelpText(
      'after',
      examples(
        'appscli tokens rotate tok_1a2b3c4d --expires 90d',
        'appscli tokens rotate --user ci@example.com --name ci --overlap 0',
      ),
    )
    .action(async (id, given) => finish(await (await import('./tokens.ts')).rotate(context, id, given)));
}

function addRevoke(tokens: Command, context: CommandContext, finish: Finish): void {
  tokens
    .command('revoke')
    .description('end the life of an access token and of those it replaced; gateways refuse them within a second')
    .argument('[id]', 'its id, as tokens list shows it')
    .addOption(config())
    .addOption(atGateway())
    .option('--user <email>', 'instead of the id: whose it is, together with --name', email)
    .option('--name <name>', 'instead of the id: what it is called, together with --user', notEmpty)
    .addOption(json('print a JSON object'))
    .addHelpText(
      'after',
      examples('appscli tokens revoke tok_1a2b3c4d', 'appscli tokens revoke --user alice@example.com --name laptop'),
    )
    .action(async (id, given) => finish(await (await import('./tokens.ts')).revoke(context, id, given)));
}
