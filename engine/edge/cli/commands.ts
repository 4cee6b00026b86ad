import { Argument, type Command, type Option } from 'commander';
import type { CommandContext } from './context.ts';
import { atGateway, baseUrl, config, examples, json, type Parse } from './options.ts';

/** Options by the target of a command: a configuration, its database or a remote gateway, a remote gateway only. */
const PLACES = { configuration: [config], either: [config, atGateway], gateway: [baseUrl] } as const;

/** A command: its help, its options, and its function. */
export interface CommandRow {
  /** Absent for a command that is its own group. */
  readonly name?: string;
  /** Description; by default that of the group. */
  readonly about?: string;
  /** Short description for lists, if `about` is too long. */
  readonly summary?: string;
  /** Arguments such as `[id]`, `<file>` or `[paths...]`, with a parser or a choice of values; passed to `run` among the options. */
  readonly arguments?: readonly (readonly [name: string, about: string, value?: Parse | readonly string[]])[];
  readonly options?: readonly Option[];
  readonly place?: keyof typeof PLACES;
  /** Description of `--json`; absent without this option. */
  readonly json?: string;
  /** Text after the options. */
  readonly notes?: string;
  readonly examples: readonly string[];
  /** Whether `run` needs `config_named`: that the command line contains `--config`. */
  readonly asks_config_named?: true;
  /** Runs the command; returns the exit code. */
  run(context: CommandContext, options: never): Promise<number>;
}

/** A command or group of commands, with the help of the group. */
export interface Commands {
  readonly commands: readonly CommandRow[];
  readonly notes?: string;
  readonly group_examples?: readonly string[];
}

/** Adds a command, or a group of commands. */
export function addRows(
  program: Command,
  name: string,
  about: string,
  { commands: rows, notes, group_examples }: Commands,
  run: (row: CommandRow, options: never) => Promise<void>,
): void {
  const group = program.command(name).description(about).helpCommand(false);
  if (group_examples !== undefined) group.addHelpText('after', `\n${notes}\n${examples(...group_examples)}`);
  for (const row of rows) {
    const command = row.name === undefined ? group.summary(about) : group.command(row.name).summary(row.summary ?? '');
    addRow(command.description(row.about ?? about), row, run);
  }
}

function addRow(command: Command, row: CommandRow, run: (row: CommandRow, values: never) => Promise<void>): void {
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
    const values = { ...command.opts(), ...Object.fromEntries(named) };
    if (row.asks_config_named) values.config_named = command.getOptionValueSource('config') === 'cli';
    await run(row, values as never);
  });
}
