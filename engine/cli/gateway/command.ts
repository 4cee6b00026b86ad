import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { config, examples, listenAddress } from '../options.ts';

const RELOADING = `
A reload puts the configuration in force as its files now are: SIGHUP asks for
one, and with --watch every change does. Requests under way end as they began.
A configuration with errors is logged, and the one before stays in force; GET
/readyz says so. What needs a restart instead: server.listen, TLS switched on or
off, server.limits.header_bytes, database.

A gateway that was started in a terminal stops when that terminal is closed.
`;

/** `appscli gateway`. */
export function addGateway(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('gateway')
    .description('run the gateway until SIGTERM or Ctrl-C; SIGHUP reloads its configuration')
    .addOption(config())
    .option('-w, --watch', 'reload when a file of the configuration changes')
    .option(
      '--listen <host:port>',
      'listen here, whatever server.listen says: for several on one machine',
      listenAddress,
    )
    .addHelpText(
      'after',
      RELOADING +
        examples(
          'appscli gateway --config gateway.yaml',
          'appscli gateway --watch                   while writing pipelines',
          'appscli gateway --listen 127.0.0.1:8081   a second replica of the same file',
          'kill -HUP PID                             reload, where nothing watches',
        ),
    )
    .action(async (given) => finish(await (await import('./gateway.ts')).runGateway(context, given)));
}
