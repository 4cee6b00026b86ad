import { runUntilSignal } from '../../gateway/signals.ts';
import { startGateway } from '../../gateway/start-gateway.ts';
import { createLog } from '../../kit/log.ts';
import type { CommandContext } from '../context.ts';

/** `appscli gateway`: runs the gateway until a signal ends it; SIGHUP reloads its configuration. The log goes to standard error, as JSON lines unless a person watches. */
export async function runGateway(
  context: CommandContext,
  given: { readonly config: string; readonly watch?: true; readonly listen?: string },
): Promise<number> {
  const { terminal, env } = context;
  // Audit lines may go to standard output; who stops reading them must not stop the gateway.
  terminal.outliveReader();
  const log = createLog({
    write: (line) => terminal.info(line),
    format: terminal.interactive ? 'readable' : 'json',
    debug: env.APPSCLI_DEBUG === '1',
  });
  const stages = await context.stages();
  const { config: config_file, watch = false, listen } = given;
  return runUntilSignal(() => startGateway({ config_file, stages, env, log, watch, listen }), log);
}
