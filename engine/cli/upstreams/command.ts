import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { atGateway, config, examples, json, notEmpty } from '../options.ts';

/** `appscli upstreams list|drain|resume`. */
export function addUpstreams(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const upstreams = program
    .command('upstreams')
    .description('upstreams: how they are, and which get no new requests')
    .helpCommand(false);
  const backend = () => import('./upstreams.ts');
  upstreams
    .command('list')
    .description('all upstreams: state, until when, last failure, requests in flight, by whom drained')
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object'))
    .addHelpText(
      'after',
      `
The database knows which upstreams are drained. Each running gateway knows the
rest, for itself: ask one with --base-url or APPSCLI_BASE_URL.
${examples('appscli upstreams list', 'appscli upstreams list --base-url https://gateway.example.com')}`,
    )
    .action(async (given) => finish(await (await backend()).list(context, given)));
  upstreams
    .command('drain')
    .description('send an upstream no new requests, at every gateway; those under way end as they would')
    .argument('<name>', 'its name in gateway.yaml', notEmpty)
    .option('--reason <text>', 'for the list of changes', notEmpty)
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object: the upstream, and routes that have none left'))
    .addHelpText('after', examples('appscli upstreams drain main --reason "moving to another account"'))
    .action(async (name, given) => finish(await (await backend()).drain(context, name, given)));
  upstreams
    .command('resume')
    .description('let an upstream that is drained have requests again, at every gateway')
    .argument('<name>', 'its name, as upstreams list shows it', notEmpty)
    .option('--reason <text>', 'for the list of changes', notEmpty)
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object: the upstream, and who had drained it'))
    .addHelpText('after', examples('appscli upstreams resume main'))
    .action(async (name, given) => finish(await (await backend()).resume(context, name, given)));
}
