import { hostname, userInfo } from 'node:os';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { Log } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { createLog } from '../../base/kit/log.ts';
import { printable } from '../../base/kit/text/printable.ts';
import { startOfDate } from '../../base/kit/zoned-time.ts';
import { type Database, openDatabase } from '../../base/store/database.ts';
import { describeOutage, isOutage } from '../../base/store/postgres-client.ts';
import type { Actor } from '../../domain/audit/admin-changes.ts';
import { loadToRead, loadToRun } from '../gateway/reload.ts';
import type { CommandContext } from './commands.ts';

/** The log of a short-lived command: only warnings and errors, unless APPSCLI_DEBUG=1. */
export function commandLog({ terminal, env }: CommandContext): Log {
  const debug = env.APPSCLI_DEBUG === '1';
  const log = createLog({ write: (line) => terminal.info(line), format: 'readable', debug });
  return debug ? log : { ...log, info() {} };
}

/** The configuration for its database, without its secrets, also with errors in pipelines. Raises ConfigurationError. */
export const readConfig = async ({ env, stages }: CommandContext, file: string) =>
  loadToRead(file, { stages: await stages(), env, environment: 'ignored' });

/** A whole configuration without errors, without its secrets. Raises ConfigurationError. */
export const loadConfig = async ({ env, stages }: CommandContext, file: string) =>
  loadToRun(file, { stages: await stages(), env, environment: 'ignored' });

/** Runs `use` with the database of a configuration file. */
export async function withDatabase<T>(
  context: CommandContext,
  config_file: string,
  use: (opened: { config: GatewayConfig; database: Database }) => Promise<T>,
): Promise<T> {
  const config = await readConfig(context, config_file);
  return useDatabase(context, config, (database) => use({ config, database }));
}

/** Runs `use` with the database, also while gateways run. Raises StartError if the database is unavailable. */
export async function useDatabase<T>(
  context: CommandContext,
  config: GatewayConfig,
  use: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase({ config, env: context.env, log: commandLog(context), wait: 'until-ready' });
  try {
    return await use(database);
  } catch (error) {
    if (error instanceof StartError || error instanceof StageError || !isOutage(error)) throw error;
    throw new StartError(
      `lost the database connection: ${describeOutage(error)}; try again when the database is available`,
      { cause: error },
    );
  } finally {
    await database.close();
  }
}

/** The moment that `dayOrMoment` parsed; a date is midnight in the gateway's time zone. */
export function momentIn<At extends Date | string | undefined>(
  at: At,
  { spend_limits }: Pick<GatewayConfig, 'spend_limits'>,
) {
  const moment = typeof at === 'string' ? startOfDate(at, spend_limits?.time_zone ?? 'UTC') : at;
  return moment as Date | Extract<At, undefined>;
}

const MAX_CHARS = 200;

/** The actor of this command in the audit log: account and host. */
export function operator(): Actor {
  return { kind: 'command', name: printable(`${account()}@${hostname()}`).slice(0, MAX_CHARS) };
}

function account(): string {
  try {
    return userInfo().username;
  } catch {
    // Containers often run under an account without a name.
    return `uid-${process.getuid?.() ?? 'unknown'}`;
  }
}
