import { Argument, type Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { examples } from '../options.ts';
import { addReportOptions } from '../report/report-options.ts';
import type { DeskOptions } from './desk.ts';

const CLIENTS = ['messages', 'coding-cli', 'build-cli'] as const;

const HELP = `
Reads files and variables of coding clients, runs their key helpers as they do,
and asks their gateways what costs nothing. Changes nothing without --fix, and
never shows a credential. Exits 1 when something is to be put right.
`;

/** `appscli doctor` on a person's machine. Returns the command, so that the whole program can add what it knows of gateways. */
export function addClientDoctor(
  program: Command,
  context: CommandContext,
  finish: (exit_code: number) => void,
  more_examples: readonly string[] = [],
): Command {
  const command = program
    .command('doctor')
    .description('why does it not work? Looks at the coding clients here')
    .addArgument(new Argument('[client]', 'look at this client only').choices([...CLIENTS]))
    .option('--profile <file>', "names of a vendor's files, keys and variables; else neutral and shipped ones")
    .option('--base-url <url>', 'address of the gateway that clients are meant to use; else $APPSCLI_BASE_URL')
    .option('--fix', 'show how files can be mended, ask, keep a backup, write and look again')
    .option('--write', 'with --fix: write without asking')
    .option('--offline', 'ask no gateway, and run no key helper');
  return addReportOptions(command)
    .addHelpText(
      'after',
      `${HELP}${examples(
        'appscli doctor',
        'appscli doctor build-cli --fix',
        'appscli doctor --base-url https://gateway.example.com',
        ...more_examples,
      )}`,
    )
    .action(async (client, given) => finish(await lookAtClients(context, client, given)));
}

/** Looks at the coding clients of this machine. Raises StartError. */
export async function lookAtClients(
  context: CommandContext,
  client: (typeof CLIENTS)[number] | undefined,
  given: DeskOptions,
): Promise<number> {
  if (given.write !== undefined && given.fix === undefined) throw usageError('--write needs --fix');
  return (await import('./desk.ts')).doctorDesk(context, client, given);
}
