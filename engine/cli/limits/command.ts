import { type Command, InvalidArgumentError, Option } from 'commander';
import { LIMIT_WINDOWS } from '../../money/limits/limit-names.ts';
import type { CommandContext } from '../context.ts';
import { atGateway, config, email, examples, expiryThere, json, notEmpty } from '../options.ts';

type Finish = (exit_code: number) => void;

/** `appscli limits list|set|clear|grant|revoke`. */
export function addLimits(program: Command, context: CommandContext, finish: Finish): void {
  const limits = program
    .command('limits')
    .description('limits at run time: what is in force, and changes of it')
    .helpCommand(false);
  addList(limits, context, finish);
  addSet(limits, context, finish);
  addClear(limits, context, finish);
  addGrant(limits, context, finish);
  addRevoke(limits, context, finish);
}

/** An amount in USD, exact to the nano-dollar. */
function usd(text: string): number {
  if (!/^\d{1,7}(?:\.\d{1,9})?$/.test(text))
    throw new InvalidArgumentError('Write an amount in USD below 10000000, in digits: 100 or 0.25.');
  return Number(text);
}

function whole(text: string): number {
  if (!/^\d{1,13}$/.test(text))
    throw new InvalidArgumentError('Write a whole number of at most 13 digits, such as 500.');
  return Number(text);
}

/** Whose limit it is; several together are a combination. */
function addWhose(command: Command): Command {
  return command
    .option('--user <email>', 'whose', email)
    .option('--team <name>', 'of which team', notEmpty)
    .option('--project <name>', 'of which project', notEmpty)
    .option('--token <id>', 'of which access token, as tokens list shows it', notEmpty)
    .option('--model <id>', 'of which model', notEmpty)
    .option('--upstream <name>', 'of which upstream', notEmpty)
    .option('--rule <name>', 'of which rule with `count: matching`', notEmpty);
}

function windowOption(): Option {
  return new Option('--window <window>', 'for how long; open is for requests at once')
    .choices([...LIMIT_WINDOWS])
    .makeOptionMandatory();
}

function addAmount(command: Command): Command {
  return addWhose(command)
    .addOption(windowOption())
    .option('--usd <amount>', 'how much money, with a day, week or month', usd)
    .option('--requests <number>', 'how many, with a minute or open', whole)
    .option('--tokens <number>', 'how many, with a minute', whole)
    .option('--reason <text>', 'for the list of changes', notEmpty);
}

function addList(limits: Command, context: CommandContext, finish: Finish): void {
  addWhose(limits.command('list'))
    .description('limits: in force, spent, reserved, left; without a name, what to look at first')
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object'))
    .addHelpText('after', examples('appscli limits list', 'appscli limits list --user ana@example.com --team search'))
    .action(async (given) => finish(await (await import('./limits.ts')).list(context, given)));
}

function addSet(limits: Command, context: CommandContext, finish: Finish): void {
  addAmount(limits.command('set'))
    .description('set a limit, in place of those of gateway.yaml; gateways go by it from the next request on')
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object: what was set before, and what holds now'))
    .addHelpText(
      'after',
      examples(
        'appscli limits set --user ana@example.com --window day --usd 100',
        'appscli limits set --team search --model coder-1 --window month --usd 500',
        'appscli limits set --user ana@example.com --window minute --tokens 90000',
      ),
    )
    .action(async (given) => finish(await (await import('./limits.ts')).set(context, given)));
}

function addClear(limits: Command, context: CommandContext, finish: Finish): void {
  addWhose(limits.command('clear'))
    .description('take back a limit that was set; those of gateway.yaml hold again')
    .addOption(windowOption())
    .addOption(new Option('--unit <unit>', 'which, of the two of a minute').choices(['usd', 'requests', 'tokens']))
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object: what was set, and what holds now'))
    .addHelpText('after', examples('appscli limits clear --user ana@example.com --window day'))
    .action(async (given) => finish(await (await import('./limits.ts')).clear(context, given)));
}

function addGrant(limits: Command, context: CommandContext, finish: Finish): void {
  addAmount(limits.command('grant'))
    .description('grant room on top of the limit in force, for a time')
    .requiredOption(
      '--expires <when>',
      'its end: 3d, 12h or a date, a year away at most; a date means its first moment, by spend_limits.time_zone of the gateway: to last until the end of a Friday, name the Saturday',
      expiryThere,
    )
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object: the grant, and what holds now'))
    .addHelpText(
      'after',
      examples(
        'appscli limits grant --user ana@example.com --window day --usd 20 --expires 3d',
        'appscli limits grant --team search --window month --usd 9 --expires 12h',
        'appscli limits grant --user ana@example.com --team search --window month \\\n    --usd 40 --expires 2027-01-30',
      ),
    )
    .action(async (given) => finish(await (await import('./limits.ts')).grant(context, given)));
}

function addRevoke(limits: Command, context: CommandContext, finish: Finish): void {
  limits
    .command('revoke')
    .description('end a grant before its time')
    .argument('<id>', 'its id, as limits list shows it')
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object: the grant, and what holds now'))
    .addHelpText('after', examples('appscli limits revoke grt_1a2b3c4d5e6f7'))
    .action(async (id, given) => finish(await (await import('./limits.ts')).revoke(context, id, given)));
}
