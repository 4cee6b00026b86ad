import { Argument, type Command, type Option } from 'commander';
import type { CommandContext } from './context.ts';
import { atGateway, baseUrl, config, examples, json, type Parse } from './options.ts';

/** Options by where a command works: with a configuration, on its database or at a running gateway, at a gateway alone. */
const PLACES = { configuration: [config], either: [config, atGateway], gateway: [baseUrl] } as const;

/** A command as a table has it: its words, and what it does. */
export interface CommandRow {
  /** Absent where it has the name of its group. */
  readonly name?: string;
  /** Absent where what the list of commands says is enough. */
  readonly about?: string;
  /** What a list says of it, where `about` is too long for one. */
  readonly summary?: string;
  /** What follows the name: `[id]`, `<file>`, `[paths...]`; handed over by that name beside the options, as parsed or one of a choice. */
  readonly arguments?: readonly (readonly [name: string, about: string, value?: Parse | readonly string[]])[];
  readonly options?: readonly Option[];
  readonly place?: keyof typeof PLACES;
  /** What `--json` prints; absent where there is no such option. */
  readonly json?: string;
  /** Told after the options. */
  readonly notes?: string;
  readonly examples: readonly string[];
  /** Whether it is told as `config_named` that `--config` was given. */
  readonly asks_config_named?: true;
  /** Does it; the exit code. */
  run(context: CommandContext, given: never): Promise<number>;
}

/** The commands of one name, and what help tells of a group of them. */
export interface Commands {
  readonly commands: readonly CommandRow[];
  readonly notes?: string;
  readonly group_examples?: readonly string[];
}

/** Adds the commands of one name: several below it, or one that has it. */
export function addRows(
  program: Command,
  name: string,
  about: string,
  { commands: rows, notes, group_examples }: Commands,
  run: (row: CommandRow, given: never) => Promise<void>,
): void {
  const group = program.command(name).description(about).helpCommand(false);
  if (group_examples !== undefined) group.addHelpText('after', `\n${notes}\n${examples(...group_examples)}`);
  for (const row of rows) {
    const command = row.name === undefined ? group.summary(about) : group.command(row.name).summary(row.summary ?? '');
    addRow(command.description(row.about ?? about), row, run);
  }
}

function addRow(command: Command, row: CommandRow, run: (row: CommandRow, given: never) => Promise<void>): void {
  const { place, notes } = row;
  for (const [name, about, value] of row.arguments ?? []) {
    const argument = new Argument(name, about);
    if (typeof value === 'function') argument.argParser(value as (text: string) => unknown);
    else if (value !== undefined) argument.choices(value);
    command.addArgument(argument);
  }
  const of_place = place === undefined ? [] : PLACES[place].map((make) => make());
  const options = [...(row.options ?? []), ...of_place, ...(row.json === undefined ? [] : [json(row.json)])];
  for (const option of options) command.addOption(option);
  command.addHelpText('after', `${notes === undefined ? '' : `\n${notes}\n`}${examples(...row.examples)}`);
  command.action(async () => {
    const named = command.registeredArguments.map((argument, i) => [argument.name(), command.processedArgs[i]]);
    const given = { ...command.opts(), ...Object.fromEntries(named) };
    if (row.asks_config_named) given.config_named = command.getOptionValueSource('config') === 'cli';
    await run(row, given as never);
  });
}
