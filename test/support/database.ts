import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { startSuiteServer } from './postgres.ts';

let own: Promise<string> | undefined;

/**
 * A fresh, empty database on the suite's server (`test/run.ts`), or, when one file is run by hand, on a server that
 * lives until the process has nothing left to do. `drop` cuts whatever is still connected.
 */
export async function createTestDatabase(): Promise<{ url: string; drop(): Promise<void> }> {
  const suite = process.env.APPSCLI_TEST_POSTGRES_URL;
  if (suite === undefined) own ??= startOwnServer();
  const server = suite ?? (await own!);
  const name = `test_${randomBytes(8).toString('hex')}`;
  await runOn(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => dropDatabase(server, name) };
}

/** Error code of PostgreSQL. */
const INSUFFICIENT_PRIVILEGE = '42501';

async function dropDatabase(server: string, name: string): Promise<void> {
  try {
    await runOn(server, `drop database if exists ${name} with (force)`);
  } catch (error) {
    // The server's own vacuum is in there, which nobody but a superuser may cut; the database goes with the server.
    if ((error as { code?: string }).code !== INSUFFICIENT_PRIVILEGE) throw error;
  }
}

async function startOwnServer(): Promise<string> {
  const { url, close } = await startSuiteServer();
  process.once('beforeExit', close);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => close().finally(() => process.exit(1)));
  }
  return url;
}

async function runOn(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
