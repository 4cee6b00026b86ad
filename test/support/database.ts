import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { open } from './open-database.ts';
import { makeSuiteDirectory, startSuiteServer } from './postgres.ts';
import { databaseClock } from './suite-clock.ts';

const URL_NAME = 'APPSCLI_TEST_POSTGRES_URL';
const TEMPLATE_NAME = 'APPSCLI_TEST_POSTGRES_TEMPLATE';
/** The database with the clock of the tests and nothing else. */
const EMPTY = 'empty';

let own: Promise<TestServer> | undefined;
/** The one connection that makes and drops databases; the process may end meanwhile. */
let maker: pg.Pool | undefined;

/** Where databases of tests are made. */
interface TestServer {
  readonly url: string;
  /** Name of the migrated database that others are copied from. */
  readonly template: string;
}

/** Starts the server of a suite in the suite's directory; inside a suite there is that suite's own, which `close` leaves alone. */
export async function openSuiteServer(directory: string): Promise<{
  /** What the processes of the suite need to use it. */
  readonly environment: NodeJS.ProcessEnv;
  close(): Promise<void>;
}> {
  if (suiteServer() !== undefined) return { environment: {}, close: async () => {} };
  const { url, close } = await startSuiteServer(directory);
  const template = await createTemplates(url);
  return { environment: { [URL_NAME]: url, [TEMPLATE_NAME]: template }, close };
}

/**
 * A fresh database on the suite's server (`test/run.ts`), or, when one file is run by hand, on a server that lives until
 * the process has nothing left to do. It has the schema of this version, for copying one is ten times faster than
 * migrating, or nothing when `migrated` is false. Copying files costs half of what copying by the log does. `drop` cuts
 * whatever is still connected.
 */
export async function createTestDatabase({ migrated = true } = {}) {
  const suite = suiteServer();
  if (suite === undefined) own ??= startOwnServer();
  const server = suite ?? (await own!);
  const name = `test_${randomBytes(8).toString('hex')}`;
  maker ??= openMaker(server.url);
  const run = async (sql: string) => void (await maker!.query(sql));
  await run(`create database ${name} strategy file_copy template ${migrated ? server.template : EMPTY}`);
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  const drop = () => run(`drop database if exists ${name} with (force)`);
  return { url: url.href, drop, [Symbol.asyncDispose]: drop };
}

function openMaker(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString, max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true });
  // The next statement gets another connection.
  pool.on('error', () => {});
  return pool;
}

function suiteServer(): TestServer | undefined {
  const { [URL_NAME]: url, [TEMPLATE_NAME]: template } = process.env;
  return url === undefined || template === undefined ? undefined : { url, template };
}

async function startOwnServer(): Promise<TestServer> {
  const { url, close } = await startSuiteServer(await makeSuiteDirectory());
  process.once('beforeExit', close);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => close().finally(() => process.exit(1)));
  }
  return { url, template: await createTemplates(url) };
}

/** Makes the databases on a server that databases of tests are copied from; the name of the one with a schema. */
async function createTemplates(server: string): Promise<string> {
  const at = (database: string) => Object.assign(new URL(server), { pathname: `/${database}` }).href;
  // Keys of passwords are derived anew at each connection, which most of the tests open a few of.
  const { username, password } = new URL(server);
  await runOn(server, `set scram_iterations = 1; alter role ${username} password '${password}'`);
  await runOn(server, `create database ${EMPTY}`);
  await runOn(at(EMPTY), databaseClock());
  const migrated = 'migrated';
  await runOn(server, `create database ${migrated} template ${EMPTY}`);
  const database = await open(at(migrated));
  await database.close();
  return migrated;
}

/** Runs SQL on a connection of its own. */
export async function runOn(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
