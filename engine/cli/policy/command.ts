import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { collected, config, email, examples, json } from '../options.ts';

/** `appscli policy show|list`. */
export function addPolicy(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const policy = program
    .command('policy')
    .description('managed policies: settings that the gateway hands to clients, by group and e-mail domain')
    .helpCommand(false);
  policy
    .command('show')
    .description('what somebody gets, and which file each part of it comes from; exits with 1 when it is nothing')
    .requiredOption('--user <email>', 'whose settings', email)
    .option(
      '--group <name>',
      'group of the identity provider, or token group of their access token; may be repeated; those of their last sign-in where absent',
      collected,
    )
    .addOption(config())
    .addOption(json('print a JSON object'))
    .addHelpText(
      'after',
      examples(
        'appscli policy show --user alice@example.com',
        'appscli policy show --user pat@partner.example --group contractors',
      ),
    )
    .action(async (given) => finish(await (await import('./policy.ts')).show(context, given)));
  policy
    .command('list')
    .description('all policies, in the order in which they are laid over each other')
    .addOption(config())
    .addOption(json('print a JSON array'))
    .addHelpText('after', examples('appscli policy list --config gateway.yaml'))
    .action(async (given) => finish(await (await import('./policy.ts')).list(context, given)));
}
