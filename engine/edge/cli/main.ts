import { CommanderError } from 'commander';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { EXIT_OK, EXIT_USAGE } from './exit-codes.ts';
import { reportFailure } from './failure.ts';
import type { CreateProgram } from './make-program.ts';
import { processTerminal, type Terminal } from './terminal.ts';

/** Dependencies of a command line. */
export interface CommandLineOptions {
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
