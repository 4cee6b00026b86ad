import assert from 'node:assert/strict';
import pg from 'pg';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import { StageError } from '../../engine/base/contract/errors.ts';
import { type Database, openDatabase } from '../../engine/base/store/database.ts';
import { quiet } from './postgres.ts';

/** Small, so that a test reaches it. */
export const POOL_MAX = 5;
/** A configuration with so many connections; below six none sends statements on their own. */
export const poolOf = (pool_max: number) =>
  ({ database: { postgres: { url_env: 'TEST_DATABASE_URL', pool_max } } }) as unknown as GatewayConfig;
const config = poolOf(POOL_MAX);

/** Opens the database of a URL, which is given in TEST_DATABASE_URL; by default silently and 'until-ready'. */
export function open(
  url: string | undefined,
  more: Partial<Parameters<typeof openDatabase>[0]> = {},
): Promise<Database> {
  return openDatabase({ config, env: { TEST_DATABASE_URL: url }, log: quiet, wait: 'until-ready', ...more });
}

/** A log that remembers its messages. */
export function createLog() {
  const lines: string[] = [];
  const note = (fields: object, message: string) => lines.push(`${message} ${JSON.stringify(fields)}`);
  return { lines, log: { debug: note, info: note, warn: note, error: note } };
}

/** Runs statements on a connection that is not the gateway's. */
export async function outside<Row>(url: string, sql: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, application_name: 'outside' });
  await client.connect();
  const { rows } = await client.query(sql).finally(() => client.end());
  return rows as Row[];
}

/** Asserts that an error is store_unavailable. */
export const unavailable = (reason?: RegExp) => (error: unknown) => {
  assert.ok(error instanceof StageError);
  assert.equal(error.code, 'store_unavailable');
  if (reason !== undefined) assert.match(error.message, reason);
  return true;
};
