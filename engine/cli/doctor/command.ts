import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { seconds } from '../options.ts';
import { addClientDoctor, lookAtClients } from './client-command.ts';

/** Options about clients, and those about the machine of a gateway: each have nothing to say about the other. */
const OF_CLIENTS = ['profile', 'baseUrl', 'fix', 'write', 'offline'];
const OF_HOST = ['timeout'];

/** `appscli doctor`. */
export function addDoctor(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  addClientDoctor(program, context, finish, ['appscli doctor --config gateway.yaml'])
    .description('why does it not work? Looks at the coding clients here, or at the machine of a gateway')
    .addOption(new Option('--config <file>', 'the gateway.yaml of a gateway that runs on this machine'))
    .addOption(new Option('--timeout <seconds>', 'with --config: for each thing that is asked').argParser(seconds))
    .action(async (client, given) => {
      demandOneSubject(client, given);
      if (given.config !== undefined) finish(await (await import('./host.ts')).doctorHost(context, given));
      else finish(await lookAtClients(context, client, given));
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
}
