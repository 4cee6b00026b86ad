import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseListenAddress } from '../../kit/net/addresses.ts';
import type { CommandContext } from '../context.ts';
import { examples } from '../options.ts';

/** Where it listens if nobody says otherwise: the address that `appscli init` writes. */
const LISTEN = '127.0.0.1:8090';

function place(text: string) {
  const found = parseListenAddress(text);
  if (found === undefined) throw new InvalidArgumentError(`Write a host and a port of this machine: ${LISTEN}.`);
  return found;
}

/** `appscli stand-in`. */
export function addStandIn(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('stand-in')
    .description('play a provider until SIGTERM or Ctrl-C: it knows every model and key, and costs nothing')
    .addOption(
      new Option('--listen <host:port>', 'where it takes requests')
        .argParser(place)
        .default(parseListenAddress(LISTEN), LISTEN),
    )
    .addHelpText(
      'after',
      `\nIt speaks all three APIs, and always says the same. It is the upstream of what\nappscli init writes.\n${examples('appscli stand-in', 'appscli stand-in --listen 127.0.0.1:9000')}`,
    )
    .action(async (given) => finish(await (await import('./stand-in.ts')).runStandIn(context, given)));
}
