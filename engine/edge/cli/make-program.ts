import { Command } from 'commander';
import { programVersion } from '../../base/kit/package-root.ts';
import { printableLine } from '../../base/kit/text/printable.ts';
import { addRows, type Commands } from './commands.ts';
import type { CommandContext } from './context.ts';
import { chooseLocation, examples } from './options.ts';
import { hint, programName } from './program-name.ts';

type Finish = (exit_code: number) => void;

/** A command, or a group of some, with its code, which is loaded for the one that is meant. */
export type LazyCommand = readonly [name: string, about: string, load: () => Promise<Commands>];

/** What a program is made with; all of its commands are loaded where no arguments are given. */
export type ProgramOptions = CommandContext & { readonly finish: Finish; readonly arguments_?: readonly string[] };

/**
 * Makes a command line. `finish` receives the exit code of a command that ran; a wrong command line rejects with CommanderError
 * after saying why, everything else with the command's error.
 */
export type CreateProgram = (options: ProgramOptions) => Promise<Command>;

/** Makes a command line of some commands, in the order in which help lists them. */
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
  // Before any command is added: they inherit both.
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
  const meant = arguments_?.find((word) => !word.startsWith('-'));
  for (const [name, about, load] of what.commands) {
    const commands = arguments_ === undefined || name === meant ? await load() : { commands: [] };
    addRows(program, name, about, commands, async (row, given) => finish(await row.run(context, given)));
  }
  nameHelp(program, programName(terminal));
  program.hook('preAction', (_program, command) => chooseLocation(command, context));
  return program;
}

/** Lets a wrong command line end with the help of the command that it is about. */
function nameHelp(command: Command, name: string): void {
  command.configureOutput({
    outputError: (text, write) => {
      const said = printableLine(text.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')).trim();
      write(`appscli: ${said} (${name} --help shows how)\n`);
    },
  });
  for (const each of command.commands) nameHelp(each, `${name} ${each.name()}`);
}
