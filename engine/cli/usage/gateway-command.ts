import { type Command, InvalidArgumentError, Option } from 'commander';
import { USAGE_DIMENSIONS, type UsageDimension } from '../../money/reports/usage-dimensions.ts';
import type { CommandContext } from '../context.ts';
import { baseUrl, dayOrMoment, email, examples, json, timeZone } from '../options.ts';

const MOST = 4;

/** Some different dimensions. */
function dimensions(text: string): readonly UsageDimension[] {
  const found = text.split(',').map((name) => USAGE_DIMENSIONS.find((dimension) => dimension === name.trim()));
  const known = found.filter((dimension) => dimension !== undefined);
  if (known.length < found.length || known.length > MOST || new Set(known).size < known.length) {
    throw new InvalidArgumentError(`Write one to four of ${USAGE_DIMENSIONS.join(', ')}: month,team.`);
  }
  return known;
}

/** The options that say which usage is meant. */
export function addUsageOptions(command: Command): Command {
  return command
    .option('--since <when>', 'from here: 7d, 12h or a date', dayOrMoment)
    .option('--until <when>', 'up to here, that day not included: 1d, 12h or a date', dayOrMoment)
    .option('--user <email>', 'only this user', email)
    .option('--team <name>', 'only this team')
    .option('--project <name>', 'only this project')
    .option('--model <id>', 'only this model')
    .option('--upstream <name>', 'only this upstream')
    .option('--upstream-model <id>', 'only what the upstream calls so')
    .option('--protocol <name>', 'only these requests: messages, chat, responses or count_tokens')
    .option('--token <id>', 'only this access token')
    .option('--token-group <name>', 'only access tokens of this group')
    .option('--answered-model <name>', 'only what another model than the one asked for answered, by its name')
    .option('--service-tier <name>', 'only what was served in this tier, such as priority')
    .option('--speed <name>', 'only what was served at this speed, such as fast')
    .option('--by <what>', `up to four of ${USAGE_DIMENSIONS.join(', ')}; a table has room for two`, dimensions)
    .addOption(
      new Option(
        '--time-zone <name>',
        'where a day begins, as in Europe/Berlin; else spend_limits.time_zone',
      ).argParser(timeZone),
    );
}

/** `appscli usage` of somebody who has no gateway.yaml: at a gateway. */
export function addGatewayUsage(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  addUsageOptions(
    program
      .command('usage')
      .description('your requests, tokens and cost, and what your limits leave')
      .addOption(baseUrl()),
  )
    .addOption(json('print what the gateway says as JSON'))
    .addHelpText(
      'after',
      examples('appscli usage', 'appscli usage --since 7d --by day', 'appscli usage --since 30d --by model,day --json'),
    )
    .action(async (given) => finish(await (await import('./gateway-usage.ts')).gatewayUsage(context, given)));
}
