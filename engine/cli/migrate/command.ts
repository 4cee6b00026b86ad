import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { config, examples, json } from '../options.ts';

/** `appscli migrate`. */
export function addMigrate(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('migrate')
    .summary('bring the tables of the database up to date')
    .description(
      'bring the tables of the database up to date, as the role that owns them; a gateway does that itself where its role may. Gateways of this version and of the one before may run',
    )
    .addOption(config())
    .option('--url-env <name>', 'variable with the database URL of the owner; else that of the configuration')
    .addOption(new Option('--url-file <path>', 'file with that URL').conflicts('urlEnv'))
    .addOption(json('print the migrations that were applied as JSON'))
    .addHelpText('after', examples('appscli migrate --config gateway.yaml --url-env OWNER_DATABASE_URL'))
    .action(async (given) => finish(await (await import('./migrate.ts')).migrateDatabase(context, given)));
}
