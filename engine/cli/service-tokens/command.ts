import type { Command } from 'commander';
import { SERVICE_SCOPES } from '../../identity/tokens/service-scopes.ts';
import type { CommandContext } from '../context.ts';
import { atGateway, collected, config, examples, expiry, json, notEmpty } from '../options.ts';
import { overlap } from '../tokens/command.ts';

/** `appscli service-tokens create|list|rotate|revoke`. */
export function addServiceTokens(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const tokens = program
    .command('service-tokens')
    .description('credentials of programs for the admin API, which need no person')
    .helpCommand(false);
  const backend = () => import('./service-tokens.ts');
  tokens
    .command('create')
    .description('make a service token and print it; it is shown only this once')
    .addOption(config())
    .addOption(atGateway())
    .requiredOption('--name <name>', 'the program it is for', notEmpty)
    .requiredOption('--scope <scope>', 'what it may do; may be repeated', collected)
    .option('--expires <when>', 'end of its life: 30d, 12h or a date; 90 days unless given, 366 at most', expiry)
    .addOption(json('print a JSON object with the token and what is known about it'))
    .addHelpText(
      'after',
      `
Scopes: ${SERVICE_SCOPES.slice(0, 4).join(', ')},
${SERVICE_SCOPES.slice(4, 8).join(', ')},
${SERVICE_SCOPES.slice(8).join(', ')}.

Who makes one at a gateway answers for it. When that person stops being an
administrator, it works on for 7 days and is then suspended, until another
administrator takes it over with "appscli service-tokens rotate".
${examples(
  'appscli service-tokens create --name onboarding \\\n    --scope tokens:read --scope tokens:write',
  'appscli service-tokens create --base-url https://gateway.example.com \\\n    --name report --scope changes:read --expires 30d',
)}`,
    )
    .action(async (given) => finish(await (await backend()).create(context, given)));
  tokens
    .command('list')
    .description('all service tokens, without the tokens themselves')
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON array'))
    .addHelpText('after', examples('appscli service-tokens list'))
    .action(async (given) => finish(await (await backend()).list(context, given)));
  tokens
    .command('rotate')
    .description("put a new service token in another's place and print it; you answer for it from then on")
    .argument('<id>', 'id of the old one, as service-tokens list shows it')
    .addOption(config())
    .addOption(atGateway())
    .option('--overlap <time>', 'how long the old one works on: 24h unless given, 0 for not at all', overlap)
    .option('--expires <when>', 'end of the new one: 30d, 12h or a date; 90 days unless given', expiry)
    .addOption(json('print a JSON object with the token and what is known about it'))
    .addHelpText('after', examples('appscli service-tokens rotate svc_1a2b3c4d --overlap 0'))
    .action(async (id, given) => finish(await (await backend()).rotate(context, id, given)));
  tokens
    .command('revoke')
    .description('end the life of a service token')
    .argument('<id>', 'its id, as service-tokens list shows it')
    .addOption(config())
    .addOption(atGateway())
    .addOption(json('print a JSON object'))
    .addHelpText('after', examples('appscli service-tokens revoke svc_1a2b3c4d'))
    .action(async (id, given) => finish(await (await backend()).revoke(context, id, given)));
}
