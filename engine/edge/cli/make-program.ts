import { Command } from 'commander';
import { programVersion } from '../../base/kit/package-root.ts';
import { printableLine } from '../../base/kit/text/printable.ts';
import { addRows, type Commands } from './commands.ts';
import type { CommandContext } from './context.ts';
import { chooseLocation, examples } from './options.ts';
import { hint, programName } from './program-name.ts';

type Finish = (exit_code: number) => void;

/** A command or group, whose code is loaded only when it runs. */
export type LazyCommand = readonly [name: string, about: string, load: () => Promise<Commands>];

/** Options of a program. Without `arguments_` all commands are loaded. */
export type ProgramOptions = CommandContext & { readonly finish: Finish; readonly arguments_?: readonly string[] };

/**
 * Makes a command line. `finish` receives the exit code of the command. A wrong command line prints an error and rejects with
 * CommanderError; a failed command rejects with its own error.
 */
export type CreateProgram = (options: ProgramOptions) => Promise<Command>;

/** Makes a command line; help lists the commands in this order. */
export async function makeProgram(
  { finish, arguments_, ...context }: ProgramOptions,
  what: {
    readonly description: string;
    readonly commands: readonly LazyCommand[];
    readonly examples: readonly string[];
  },
): Promise<Command> {
  const { terminal } = context;
  const program = new Command(programName(terminal));
  // Before any command is added: commands inherit both.
  program.exitOverride().configureOutput({
    writeOut: (text) => terminal.data(hint(terminal, text)),
    writeErr: (text) => terminal.info(hint(terminal, text)),
  });
  program
    .description(what.description)
    .version(programVersion(), '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .addHelpText('after', examples(...what.examples));
  const named = arguments_?.find((word) => !word.startsWith('-'));
  for (const [name, about, load] of what.commands) {
    const commands = arguments_ === undefined || name === named ? await load() : { commands: [] };
    addRows(program, name, about, commands, async (row, options) => finish(await row.run(context, options)));
  }
  nameHelp(program, programName(terminal));
  program.hook('preAction', (_program, command) => chooseLocation(command, context));
  return program;
}

/** Makes errors of a wrong command line refer to the help of its command. */
function nameHelp(command: Command, name: string): void {
  command.configureOutput({
    outputError: (text, write) => {
      const message = printableLine(text.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')).trim();
      write(`appscli: ${message} (see ${name} --help)\n`);
    },
  });
  for (const each of command.commands) nameHelp(each, `${name} ${each.name()}`);
}
