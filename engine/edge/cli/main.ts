import { inspect } from 'node:util';
import { Command, CommanderError } from 'commander';
import { StageError } from '../../base/contract/errors.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { EXIT_CONFIGURATION, EXIT_UNAVAILABLE, StageNotCreated, StartError } from '../../base/contract/start-error.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { printableLine } from '../../base/kit/text/printable.ts';
import { ConfigurationError } from '../../base/source/configuration-error.ts';
import {
  addRows,
  type CommandContext,
  type Commands,
  chooseLocation,
  EXIT_FINDINGS,
  EXIT_OK,
  EXIT_USAGE,
  examples,
} from './commands.ts';
import { hint, processTerminal, programName, type Terminal } from './terminal.ts';

type Finish = (exit_code: number) => void;

export type LazyCommand = readonly [name: string, about: string, load: () => Promise<Commands>];

type ProgramOptions = CommandContext & { readonly finish: Finish; readonly arguments_?: readonly string[] };

/** A wrong command line rejects with CommanderError (printed); a failed command with its own error. */
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

function nameHelp(command: Command, name: string): void {
  command.configureOutput({
    outputError: (text, write) => {
      const message = printableLine(text.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')).trim();
      write(`appscli: ${message} (see ${name} --help)\n`);
    },
  });
  for (const each of command.commands) nameHelp(each, `${name} ${each.name()}`);
}

function oneLine(text: string): string {
  return printableLine(text.replace(/\s*\n\s*/g, ' ')).trim();
}

function describeFailure(error: unknown): { readonly line: string; readonly exit_code: number } {
  if (error instanceof StartError) return { line: oneLine(error.message), exit_code: error.exit_code };
  if (error instanceof StageNotCreated) return { line: oneLine(error.message), exit_code: EXIT_CONFIGURATION };
  if (error instanceof StageError && error.code === 'store_unavailable') {
    return { line: `${oneLine(error.message)} Try again when the database is available.`, exit_code: EXIT_UNAVAILABLE };
  }
  const message = error instanceof Error ? error.message : String(error);
  return {
    line: `unexpected error: ${oneLine(message)}; please report it with the stack trace of APPSCLI_DEBUG=1`,
    exit_code: EXIT_FINDINGS,
  };
}

/** Prints findings, then the error on one line; APPSCLI_DEBUG=1 adds the stack trace. Returns the exit code. */
export async function reportFailure(error: unknown, terminal: Terminal, env: NodeJS.ProcessEnv): Promise<number> {
  const { line, exit_code } = describeFailure(error);
  if (error instanceof ConfigurationError) {
    const { renderDiagnostics } = await import('../../base/source/diagnostics/render.ts');
    const { diagnostics, sources } = error.findings;
    terminal.info(`${renderDiagnostics(diagnostics, { format: 'text', color: terminal.info_color, sources })}\n`);
  }
  if (env.APPSCLI_DEBUG === '1') terminal.info(`${inspect(error)}\n`);
  terminal.info(`appscli: ${hint(terminal, line)}\n`);
  return exit_code;
}

interface CommandLineOptions {
  readonly create: CreateProgram;
  readonly terminal: Terminal;
  readonly env: NodeJS.ProcessEnv;
  readonly stages: () => Promise<readonly StageDefinition[]>;
}

/** Runs one command line; returns its exit code. Prints a failure as one line on standard error. */
export async function runCommandLine(arguments_: readonly string[], options: CommandLineOptions): Promise<number> {
  let exit_code = EXIT_OK;
  try {
    const program = await options.create({ ...options, arguments_, finish: (code) => (exit_code = code) });
    await program.parseAsync(arguments_, { from: 'user' });
    return exit_code;
  } catch (error) {
    // Commander has printed its error already; help and version are successes.
    if (!(error instanceof CommanderError)) return reportFailure(error, options.terminal, options.env);
    return error.exitCode === 0 ? EXIT_OK : EXIT_USAGE;
  }
}

/** Runs one command line and ends the process with its exit code. */
export async function main(
  arguments_: readonly string[],
  { env, gateway, ...rest }: Omit<CommandLineOptions, 'terminal'> & { readonly gateway?: string | undefined },
): Promise<void> {
  const terminal = { ...processTerminal(env), ...(gateway !== undefined && { gateway }) };
  process.exitCode = await runCommandLine(arguments_, { ...rest, env, terminal });
  // A custom stage may leave a timer or socket open, which would keep the process alive.
  const end = () => process.stderr.write('', () => process.exit());
  // A write error of standard output arrives after this callback, and may change the exit code.
  process.stdout.write('', () => setImmediate(end));
}
