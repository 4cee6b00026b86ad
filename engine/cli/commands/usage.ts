import { type Command, InvalidArgumentError, Option } from 'commander';
import type { UsageDimension } from '../../services/usage.ts';
import type { CommandContext } from '../program.ts';
import { config, examples, json, moment } from './options.ts';

/** The dimensions of the ledger by their names here, in the order in which help lists them. */
const DIMENSIONS: readonly UsageDimension[] = ['user', 'team', 'project', 'model', 'upstream', 'token', 'day', 'month'];

/** One or two different dimensions. */
function dimensions(text: string): readonly UsageDimension[] {
  const found = text.split(',').map((name) => DIMENSIONS.find((dimension) => dimension === name.trim()));
  const known = found.filter((dimension) => dimension !== undefined);
  if (known.length < found.length || known.length > 2 || new Set(known).size < known.length) {
    throw new InvalidArgumentError(`Write one or two of ${DIMENSIONS.join(', ')}: month,team.`);
  }
  return known;
}

/** `appscli usage`. */
export function addUsage(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('usage')
    .description('requests, tokens and cost per user, team, project, model and upstream')
    .addOption(config())
    .option('--since <when>', 'from here: 7d, 12h or a date', moment)
    .option('--until <when>', 'up to here: 1d, 12h or a date', moment)
    .option('--user <email>', 'only this user')
    .option('--team <name>', 'only this team')
    .option('--project <name>', 'only this project')
    .option('--model <id>', 'only this model')
    .option('--upstream <name>', 'only this upstream')
    .option('--by <what>', `one or two of ${DIMENSIONS.join(', ')}, as in month,team`, dimensions)
    .addOption(json('print a JSON array of rows'))
    .addOption(new Option('--csv', 'print CSV for spreadsheets, every number exact').conflicts('json'))
    .addHelpText(
      'after',
      examples(
        'appscli usage --since 7d',
        'appscli usage --since 2027-01-01 --team search --json',
        'appscli usage --since 2027-01-01 --until 2027-02-01 --by team,model --csv',
      ),
    )
    .action(async (given) => finish(await (await import('../usage.ts')).usage(context, given)));
}
