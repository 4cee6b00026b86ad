/** Several gateways, each a process of its own, on one database: an organisation's setup, and its failures. */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  findExistingHome,
  openEmbeddedPostgres,
  readServerState,
  stopServer,
} from '../../../engine/base/store/embedded-postgres.ts';
import { runOn } from '../../support/database.ts';
import { freePort } from '../../support/free-port.ts';
import { type ConfigSections, gatewayConfig, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import { open as openDatabase } from '../../support/open-database.ts';
import { quiet } from '../../support/postgres.ts';
import { databaseClock, SEARCH_PATH } from '../../support/suite-clock.ts';
import { startRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { startGatewayProcess } from './gateway-process.ts';

/** Gateways of one configuration on one database. */
export type Fleet = Awaited<ReturnType<typeof startFleet>>;

/** Starts some gateways and waits until all are ready. */
export async function startFleet(options: {
  readonly gateways: number;
  readonly upstream_url: string;
  readonly database_url: string;
  readonly config: ConfigSections;
}) {
  const { gateways, upstream_url, database_url, config } = options;
  // The first one would otherwise migrate while the others wait for it.
  const database = await openDatabase(database_url);
  const env = { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: database_url };
  const start = async (port: number) => {
    const server = { listen: `127.0.0.1:${port}`, public_url: 'http://127.0.0.1' };
    const { config_file } = await writeConfig(gatewayConfig(upstream_url, { ...config, server }));
    const run = () => startGatewayProcess(config_file, env);
    return { config_file, run, running: await run() };
  };
  const ports = await Promise.all(Array.from({ length: gateways }, freePort));
  const members = await Promise.all(ports.map(start));
  return {
    /** One per gateway; a killed gateway returns at the same. */
    urls: members.map(({ running }) => running.url),
    /** The test's own connections. */
    database,
    config_file: members[0]!.config_file,
    /** Kills a gateway (SIGKILL), whatever it is doing, and starts it again. */
    async kill(index: number) {
      const member = members[index]!;
      await member.running.end('SIGKILL');
      member.running = await member.run();
    },
    /** Everything that the gateways have written since they were started last. */
    output: () => members.map(({ running }) => running.output()).join('\n'),
    async close() {
      await Promise.all(members.map(({ running }) => running.end('SIGKILL')));
      await database.close();
    },
  };
}

/** Starts a PostgreSQL that may be stopped, which writes commits before it confirms them. The URLs of its databases stay the same. */
export async function startMortalPostgres(more: Readonly<Record<string, string>> = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'appscli-mortal-'));
  // As root, PostgreSQL runs under another account, which has to get in.
  await chmod(directory, 0o711);
  const data_dir = join(directory, 'postgres');
  const settings = { fsync: 'off', search_path: SEARCH_PATH, ...more };
  const open = () => openEmbeddedPostgres({ data_dir, log: quiet, supervise: false, settings });
  const state = () => readServerState(findExistingHome(data_dir)!.cluster);
  let server = await open();
  const { user, password, port, database } = server.settings();
  const relay = await startRelay(port);
  const urlOf = (name: string) => `postgres://${user}:${password}@127.0.0.1:${relay.port}/${name}`;
  let databases = 0;
  return {
    /** The way to its databases. */
    relay,
    /** The URL of a database past the relay. */
    directly: (url: string) => Object.assign(new URL(url), { port: server.settings().port }).href,
    /** Makes an empty database, with the clock of the tests; gives its URL. */
    async createDatabase() {
      const name = `mortal_${++databases}`;
      await runOn(urlOf(database), `create database ${name}`);
      await runOn(urlOf(name), databaseClock());
      return urlOf(name);
    },
    /** `cleanly` as an operator would, or so that it has to recover from its log. */
    async stop(how: 'cleanly' | 'crash') {
      const now = state();
      if (how === 'crash' && now.kind === 'running') {
        process.kill(now.pid, 'SIGQUIT');
        await until('the database has crashed', () => state().kind !== 'running');
      }
      await server.close();
    },
    /** Does nothing when it runs. */
    async start() {
      if (state().kind === 'running') return;
      server = await open();
      relay.target_port = server.settings().port;
    },
    async close() {
      const now = state();
      if (now.kind === 'running') await stopServer(now.pid);
      await server.close();
      await relay.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
