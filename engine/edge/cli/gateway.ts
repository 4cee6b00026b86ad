import { createLog } from '../../base/kit/log.ts';
import { runUntilSignal } from '../gateway/signals.ts';
import { startGateway } from '../gateway/start-gateway.ts';
import { type CommandContext, type CommandRow, listenAddress, option } from './commands.ts';

async function runGateway(
  context: CommandContext,
  options: { readonly config: string; readonly watch?: true; readonly listen?: string },
): Promise<number> {
  const { terminal, env } = context;
  // Audit lines may go to standard output; a reader that goes away must not stop the gateway.
  terminal.outliveReader();
  const log = createLog({
    write: (line) => terminal.info(line),
    format: terminal.interactive ? 'readable' : 'json',
    debug: env.APPSCLI_DEBUG === '1',
  });
  const stages = await context.stages();
  const { config: config_file, watch = false, listen } = options;
  return runUntilSignal(() => startGateway({ config_file, stages, env, log, watch, listen }), log);
}

export const commands: readonly CommandRow[] = [
  {
    options: [
      option('-w, --watch', 'reload when a configuration file changes'),
      option('--listen <host:port>', 'override server.listen, for several gateways on one machine', listenAddress),
    ],
    place: 'configuration',
    notes: `SIGHUP reloads the configuration files; --watch does so on every change.
Requests in flight finish with the old configuration. If the new one has errors,
they are logged, the old one stays in force, and GET /readyz reports it. These
need a restart: server.listen, enabling or disabling TLS,
server.limits.header_bytes, database.

A gateway started in a terminal stops when the terminal closes.`,
    examples: [
      'appscli gateway --config gateway.yaml',
      'appscli gateway --watch                   while writing pipelines',
      'appscli gateway --listen 127.0.0.1:8081   a second replica of the same file',
      'kill -HUP PID                             reload without --watch',
    ],
    run: runGateway,
  },
];
