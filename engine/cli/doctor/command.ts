import { Argument, type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { examples, seconds } from '../options.ts';
import { addReportOptions } from '../report/report-options.ts';

/** Options about clients, and those about the machine of a gateway: each have nothing to say about the other. */
const OF_CLIENTS = ['profile', 'baseUrl', 'fix', 'write', 'offline'];
const OF_HOST = ['timeout'];

/** `appscli doctor`. */
export function addDoctor(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const command = program
    .command('doctor')
    .description('why does it not work? Looks at the coding clients here, or at the machine of a gateway')
    .addArgument(new Argument('[client]', 'look at this client only').choices(['messages', 'coding-cli', 'build-cli']))
    .option('--profile <file>', "names of a vendor's files, keys and variables; else neutral and shipped ones")
    .option('--base-url <url>', 'address of the gateway that clients are meant to use')
    .option('--fix', 'show how files can be mended, ask, keep a backup, write and look again')
    .option('--write', 'with --fix: write without asking')
    .option('--offline', 'ask no gateway, and run no key helper')
    .addOption(new Option('--config <file>', 'the gateway.yaml of a gateway that runs on this machine'))
    .addOption(new Option('--timeout <seconds>', 'with --config: for each thing that is asked').argParser(seconds));
  addReportOptions(command)
    .addHelpText(
      'after',
      `
Reads files and variables of coding clients, runs their key helpers as they do,
and asks their gateways what costs nothing. Changes nothing without --fix, and
never shows a credential. Exits 1 when something is to be put right.
${examples('appscli doctor', 'appscli doctor build-cli --fix', 'appscli doctor --base-url https://gateway.example.com', 'appscli doctor --config gateway.yaml')}`,
    )
    .action(async (client, given) => {
      demandOneSubject(client, given);
      if (given.config !== undefined) finish(await (await import('./host.ts')).doctorHost(context, given));
      else finish(await (await import('./desk.ts')).doctorDesk(context, client, given));
    });
}

/** Raises StartError for options that say nothing about what is looked at. */
function demandOneSubject(client: string | undefined, given: Readonly<Record<string, unknown>>): void {
  const option = (key: string) => `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const is_host = given.config !== undefined;
  const wrong = (is_host ? OF_CLIENTS : OF_HOST).find((key) => given[key] !== undefined);
  if (is_host && client !== undefined) throw usageError(`--config is about a gateway: leave out ${client}`);
  if (wrong !== undefined)
    throw usageError(
      is_host ? `${option(wrong)} is about clients: leave out --config` : `${option(wrong)} needs --config`,
    );
  if (given.write !== undefined && given.fix === undefined) throw usageError('--write needs --fix');
}
