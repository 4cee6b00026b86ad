import { Command } from 'commander';
import { programVersion } from '../kit/package-root.ts';
import { printableLine } from '../kit/text/printable.ts';
import type { CommandContext } from './context.ts';
import { chooseLocation, examples } from './options.ts';
import { hint, programName } from './program-name.ts';

type Finish = (exit_code: number) => void;

/** Adds one command, or several, to a program. */
type AddCommand = (program: Command, context: CommandContext, finish: Finish) => void;

/**
 * Makes a command line. `finish` receives the exit code of a command that ran; a wrong command line rejects with CommanderError
 * after saying why, everything else with the command's error.
 */
export type CreateProgram = (options: CommandContext & { finish: Finish }) => Command;

/** Makes a command line of some commands, in the order in which help lists them. */
export function makeProgram(
  options: CommandContext & { finish: Finish },
  what: {
    readonly description: string;
    readonly commands: readonly AddCommand[];
    readonly examples: readonly string[];
  },
): Command {
  const { terminal, finish } = options;
  const context: CommandContext = options;
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
  for (const add of what.commands) add(program, context, finish);
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
