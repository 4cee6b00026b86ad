import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import pg from 'pg';
import { open } from './open-database.ts';
import { startSuiteServer } from './postgres.ts';

const URL_NAME = 'APPSCLI_TEST_POSTGRES_URL';
const TEMPLATE_NAME = 'APPSCLI_TEST_POSTGRES_TEMPLATE';

let own: Promise<TestServer> | undefined;

/** Where databases of tests are made. */
interface TestServer {
  readonly url: string;
  /** Name of the migrated database that others are copied from. */
  readonly template: string;
}

/** The server of a suite: a new one, or inside a suite that suite's own, which `close` leaves alone. */
export async function openSuiteServer(): Promise<{
  /** What the processes of the suite have to be told to use it. */
  readonly environment: NodeJS.ProcessEnv;
  /** For temporary files, which are gone with the server. */
  readonly directory: string;
  close(): Promise<void>;
}> {
  if (suiteServer() !== undefined) return { environment: {}, directory: tmpdir(), close: async () => {} };
  const { url, directory, close } = await startSuiteServer();
  const template = await createTemplate(url);
  return { environment: { [URL_NAME]: url, [TEMPLATE_NAME]: template }, directory, close };
}

/**
 * A fresh database on the suite's server (`test/run.ts`), or, when one file is run by hand, on a server that lives until
 * the process has nothing left to do. It has the schema of this version, for copying one is ten times faster than
 * migrating, or nothing when `migrated` is false. Copying files costs half of what copying by the log does. `drop` cuts
 * whatever is still connected.
 */
export async function createTestDatabase({ migrated = true } = {}): Promise<{ url: string; drop(): Promise<void> }> {
  const suite = suiteServer();
  if (suite === undefined) own ??= startOwnServer();
  const server = suite ?? (await own!);
  const name = `test_${randomBytes(8).toString('hex')}`;
  await runOn(
    server.url,
    `create database ${name} strategy file_copy${migrated ? ` template ${server.template}` : ''}`,
  );
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => runOn(server.url, `drop database if exists ${name} with (force)`) };
}

function suiteServer(): TestServer | undefined {
  const { [URL_NAME]: url, [TEMPLATE_NAME]: template } = process.env;
  return url === undefined || template === undefined ? undefined : { url, template };
}

async function startOwnServer(): Promise<TestServer> {
  const { url, close } = await startSuiteServer();
  process.once('beforeExit', close);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => close().finally(() => process.exit(1)));
  }
  return { url, template: await createTemplate(url) };
}

/** Makes the database on a server that databases of tests are copied from; its name. */
async function createTemplate(server: string): Promise<string> {
  const template = 'migrated';
  await runOn(server, `create database ${template}`);
  const url = new URL(server);
  url.pathname = `/${template}`;
  const database = await open(url.href);
  await database.close();
  return template;
}

async function runOn(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
