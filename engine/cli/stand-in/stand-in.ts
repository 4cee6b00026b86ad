import { runUntilSignal } from '../../gateway/signals.ts';
import { createLog } from '../../kit/log.ts';
import { printableLines } from '../../kit/text/printable.ts';
import { idsAt } from '../../money/prices/catalogue.ts';
import type { EchoPlace } from '../../selfcheck/echo/echo.ts';
import { openEcho } from '../../selfcheck/echo/open-echo.ts';
import type { CommandContext } from '../context.ts';

/** Whose models it lists, so that a gateway.yaml that names none serves them. */
const PROVIDERS = ['https://api.anthropic.com', 'https://api.openai.com'];
const SAYS = 'This is a stand-in for a model. It says nothing else.';

/** `appscli stand-in`: an upstream that answers whatever it is asked, until a signal ends it. Raises StartError. */
export async function runStandIn(
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
    terminal.data(printableLines([`stand-in for a provider: ${upstream.url}`]));
    return upstream;
  };
  return runUntilSignal(start, log);
}
