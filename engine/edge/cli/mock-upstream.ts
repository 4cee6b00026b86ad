import { InvalidArgumentError } from 'commander';
import { createLog } from '../../base/kit/log.ts';
import { parseListenAddress } from '../../base/kit/net/addresses.ts';
import { printableLines } from '../../base/kit/text/printable.ts';
import { idsAt } from '../../domain/budget/prices/catalogue.ts';
import { runUntilSignal } from '../gateway/signals.ts';
import { type EchoPlace, openEcho } from '../selfcheck/echo.ts';
import { type CommandContext, type CommandRow, option } from './commands.ts';

const PROVIDERS = ['https://api.anthropic.com', 'https://api.openai.com'];
const SAYS = 'This is a mock model. It says nothing else.';

async function runMockUpstream(
  { terminal, env }: CommandContext,
  { listen }: { readonly listen: EchoPlace },
): Promise<number> {
  const log = createLog({
    write: (line) => terminal.info(line),
    format: terminal.interactive ? 'readable' : 'json',
    debug: env.APPSCLI_DEBUG === '1',
  });
  const start = async () => {
    const models = PROVIDERS.flatMap(idsAt);
    const upstream = await openEcho({ ...listen, says: SAYS, models, option: '--listen' });
    terminal.data(printableLines([`mock upstream: ${upstream.url}`]));
    return upstream;
  };
  return runUntilSignal(start, log);
}

const LISTEN = '127.0.0.1:8090';

function place(text: string) {
  const found = parseListenAddress(text);
  if (found === undefined)
    throw new InvalidArgumentError(`Expected a host and port of this machine, such as ${LISTEN}.`);
  return found;
}

export const commands: readonly CommandRow[] = [
  {
    options: [option('--listen <host:port>', 'listen address', place).default(parseListenAddress(LISTEN), LISTEN)],
    notes: `Supports all three APIs, and always returns the same text. The configuration of
appscli init uses it as its upstream.`,
    examples: ['appscli mock-upstream', 'appscli mock-upstream --listen 127.0.0.1:9000'],
    run: runMockUpstream,
  },
];
