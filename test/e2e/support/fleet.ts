/** Several gateways, each a process of its own, on one database: an organisation's setup, and its failures. */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { type Database, openDatabase } from '../../../engine/base/store/database.ts';
import { openEmbeddedPostgres } from '../../../engine/base/store/embedded/embedded-postgres.ts';
import { findExistingHome } from '../../../engine/base/store/embedded/postgres-home.ts';
import { readServerState, stopServer } from '../../../engine/base/store/embedded/postgres-process.ts';
import { runOn } from '../../support/database.ts';
import { freePort } from '../../support/free-port.ts';
import { type ConfigSections, gatewayConfig, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import { quiet } from '../../support/postgres.ts';
import { databaseClock, SEARCH_PATH } from '../../support/suite-clock.ts';
import { startRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { type GatewayProcess, startGatewayProcess } from './gateway-process.ts';

/** Gateways of one configuration on one database. */
export interface Fleet {
  /** One per gateway; a killed gateway returns at the same. */
  readonly urls: readonly string[];
  /** The test's own connections. */
  readonly database: Database;
  readonly config_file: string;
  /** Kills a gateway (SIGKILL), whatever it is doing, and starts it again. */
  kill(index: number): Promise<void>;
  /** Everything that the gateways have written since they were started last. */
  output(): string;
  close(): Promise<void>;
}

/** Opens the database of a URL for a test; `close` it. */
export function openAt(database_url: string): Promise<Database> {
  const config = { database: { postgres: { url_env: 'TEST_DATABASE_URL', pool_max: 6 } } } as GatewayConfig;
  return openDatabase({ config, env: { TEST_DATABASE_URL: database_url }, log: quiet, wait: 'until-ready' });
}

/** Starts some gateways and waits until all are ready. */
export async function startFleet(options: {
  readonly gateways: number;
  readonly upstream_url: string;
  readonly database_url: string;
  readonly config: ConfigSections;
}): Promise<Fleet> {
  const { gateways, upstream_url, database_url, config } = options;
  // The first one would otherwise migrate while the others wait for it.
  const database = await openAt(database_url);
  const env = { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: database_url };
  const start = async (port: number) => {
    const server = { listen: `127.0.0.1:${port}`, public_url: 'http://127.0.0.1' };
    const { directory, config_file } = await writeConfig(gatewayConfig(upstream_url, { ...config, server }));
    const run = () => startGatewayProcess(config_file, env);
    return { directory, config_file, run, running: await run() };
  };
  const ports = await Promise.all(Array.from({ length: gateways }, freePort));
  const members = await Promise.all(ports.map(start));
  return {
    urls: members.map(({ running }) => running.url),
    database,
    config_file: members[0]!.config_file,
    async kill(index) {
      const member = members[index]!;
      await member.running.end('SIGKILL');
      member.running = await member.run();
    },
    output: () => members.map(({ running }) => running.output()).join('\n'),
    async close() {
      await Promise.all(members.map(({ running }) => end(running)));
      await database.close();
      for (const { directory } of members) await rm(directory, { recursive: true, force: true });
    },
  };
}

async function end(gateway: GatewayProcess): Promise<void> {
  gateway.child.kill('SIGKILL');
  await gateway.ended;
}

/** A PostgreSQL of a test's own that may be stopped; the URLs of its databases stay the same. */
export interface MortalPostgres {
  /** Makes an empty one, with the clock of the tests; gives its URL. */
  createDatabase(): Promise<string>;
  /** Stops it: `cleanly` as an operator would, or so that it has to recover from its log. */
  stop(how: 'cleanly' | 'crash'): Promise<void>;
  /** Does nothing when it runs. */
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Starts a PostgreSQL of its own, which writes commits before it confirms them. */
export async function startMortalPostgres(): Promise<MortalPostgres> {
  const directory = await mkdtemp(join(tmpdir(), 'appscli-mortal-'));
  // As root, PostgreSQL runs under another account, which has to get in.
  await chmod(directory, 0o711);
  const data_dir = join(directory, 'postgres');
  const settings = { fsync: 'off', search_path: SEARCH_PATH };
  const open = () => openEmbeddedPostgres({ data_dir, log: quiet, supervise: false, settings });
  const state = () => readServerState(findExistingHome(data_dir)!.cluster);
  let server = await open();
  const { user, password, port, database } = server.settings();
  const relay = await startRelay(port);
  const urlOf = (name: string) => `postgres://${user}:${password}@127.0.0.1:${relay.port}/${name}`;
  let databases = 0;
  return {
    async createDatabase() {
      const name = `mortal_${++databases}`;
      await runOn(urlOf(database), `create database ${name}`);
      await runOn(urlOf(name), databaseClock());
      return urlOf(name);
    },
    async stop(how) {
      const now = state();
      if (how === 'crash' && now.kind === 'running') {
        process.kill(now.pid, 'SIGQUIT');
        await until('the database has crashed', () => state().kind !== 'running');
      }
      await server.close();
    },
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
