import { existsSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';

/** `--base-url` of a command that otherwise works on the database of `--config`. */
export const atGateway = () =>
  new Option('--base-url <url>', 'work at this running gateway as who you signed in as').conflicts('config');

/** Raises StartError for a command that was told neither place where there is no configuration, with both ways on. */
export function offerGateway(command: Command): void {
  const { config, baseUrl } = command.opts<{ config?: string; baseUrl?: string }>();
  const has_gateway = command.options.some(({ long }) => long === '--base-url');
  if (!has_gateway || baseUrl !== undefined || config === undefined || existsSync(config)) return;
  const remedy = 'name the configuration to use with --config, or the gateway you signed in at with --base-url';
  throw new StartError(`${config} does not exist; ${remedy}`, { exit_code: EXIT_CONFIGURATION });
}
