import { createLog } from '../../base/kit/log.ts';
import { runUntilSignal } from '../gateway/signals.ts';
import { startGateway } from '../gateway/start-gateway.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { listenAddress, option } from './options.ts';

/** `appscli gateway`: runs the gateway until a signal ends it; SIGHUP reloads its configuration. The log goes to standard error, as JSON lines unless a person watches. */
async function runGateway(
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

/** `appscli gateway`. */
export const commands: readonly CommandRow[] = [
  {
    options: [
      option('-w, --watch', 'reload when a file of the configuration changes'),
      option(
        '--listen <host:port>',
        'listen here, whatever server.listen says: for several on one machine',
        listenAddress,
      ),
    ],
    place: 'configuration',
    notes: `A reload puts the configuration in force as its files now are: SIGHUP asks for
one, and with --watch every change does. Requests under way end as they began.
A configuration with errors is logged, and the one before stays in force; GET
/readyz says so. What needs a restart instead: server.listen, TLS switched on or
off, server.limits.header_bytes, database.

A gateway that was started in a terminal stops when that terminal is closed.`,
    examples: [
      'appscli gateway --config gateway.yaml',
      'appscli gateway --watch                   while writing pipelines',
      'appscli gateway --listen 127.0.0.1:8081   a second replica of the same file',
      'kill -HUP PID                             reload, where nothing watches',
    ],
    run: runGateway,
  },
];
