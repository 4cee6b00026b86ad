/** A gateway on a database that a test stops, starves, slows or lets fall silent. */
import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type EmbeddedPostgres, openEmbeddedPostgres } from '../../../engine/base/store/embedded/embedded-postgres.ts';
import { bootGateway, gatewayConfig, serverSection, type TestGateway } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { outside } from '../../support/open-database.ts';
import { quiet } from '../../support/postgres.ts';
import { databaseClock, SEARCH_PATH } from '../../support/suite-clock.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { READABLE_METRICS } from '../../support/telemetry/read-metrics.ts';
import { until } from '../../support/until.ts';
import { ask, type Response, send } from '../support/client.ts';

/** The scene of an outage. */
export interface Outage {
  readonly gateway: TestGateway;
  readonly upstream: ScriptedUpstream;
  /** The gateway's way to the database. */
  readonly relay: TcpRelay;
  readonly spool_dir: string;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** How many reservations were sent to the database, grouped ones counting as one. */
  sent(): number;
  /** Has requests wait for the database no longer than so many seconds; by default as long as can be. */
  allow(store_timeout_seconds?: number): Promise<void>;
  /** Opens a connection to the database that is not the gateway's. */
  connect(): Promise<pg.Client>;
  /** Opens all connections of the database, and keeps them until the returned function is called. */
  starve(): Promise<() => Promise<void>>;
  /** Waits until the gateway serves like before. */
  servesAgain(): Promise<void>;
  close(): Promise<void>;
}

const MAX_CONNECTIONS = '25';
const SETTINGS = { fsync: 'off', max_connections: MAX_CONNECTIONS, search_path: SEARCH_PATH };
/** The most that can be configured. */
const LONGEST_SECONDS = 5;

/** Boots a gateway whose limits decide requests while the database is away. */
export async function startOutage(spend_limits: object): Promise<Outage> {
  const directory = await mkdtemp(join(tmpdir(), 'appscli-outage-'));
  // As root, PostgreSQL runs under another account, which has to get in.
  await chmod(directory, 0o711);
  const spool_dir = join(directory, 'spool');
  const open = (): Promise<EmbeddedPostgres> =>
    openEmbeddedPostgres({
      data_dir: join(directory, 'postgres'),
      log: quiet,
      supervise: false,
      settings: SETTINGS,
    });
  let postgres = await open();
  const { user, password, port, database } = postgres.settings();
  const urlAt = (port: number | undefined) => `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;
  await outside(urlAt(port), databaseClock());
  const relay = await startRelay(port!);
  const upstream = await startUpstream();
  const sections = (store_timeout_seconds: number) => ({
    server: serverSection({}),
    telemetry: READABLE_METRICS,
    spend_limits: {
      ...{ defaults: { user_daily_usd: 100 }, on_exceeded: 'deny', spool_dir, store_timeout_seconds },
      ...spend_limits,
    },
  });
  const letGo = async () => {
    await upstream.close();
    await relay.stop();
    await postgres.close();
    await rm(directory, { recursive: true, force: true });
  };
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    database_url: urlAt(relay.port),
    config: sections(LONGEST_SECONDS),
  }).catch(async (error) => {
    await letGo();
    throw error;
  });
  const { database: opened } = gateway;
  const query = opened.query.bind(opened);
  let sent = 0;
  opened.query = ((name: string, text: string, values: unknown[]) => {
    if (name === 'ledger_batch' && values.at(-1) !== '{}') sent++;
    return query(name, text, values);
  }) as typeof opened.query;
  let is_listening = true;
  // After all work of the gateway when its connection for notifications is back, such as to forget tokens.
  await gateway.database.listen(
    'test_outage',
    () => {},
    () => {
      is_listening = true;
    },
  );
  return {
    gateway,
    upstream,
    relay,
    spool_dir,
    sent: () => sent,
    async allow(store_timeout_seconds = LONGEST_SECONDS) {
      await writeFile(
        gateway.config_file,
        JSON.stringify(gatewayConfig(upstream.url, sections(store_timeout_seconds))),
      );
      await gateway.reload();
    },
    stop() {
      is_listening = false;
      return postgres.close();
    },
    async start() {
      postgres = await open();
      relay.target_port = postgres.settings().port!;
    },
    connect: () => connect(urlAt(postgres.settings().port)),
    async starve() {
      is_listening = false;
      const url = urlAt(postgres.settings().port);
      const first = await connect(url);
      const taken = [first];
      // The gateway takes the places back as soon as they are free; the faster one gets them.
      for (let calm = 0; calm < 5; calm++) {
        for (
          let client = await connect(url).catch(noCredential);
          client;
          client = await connect(url).catch(noCredential)
        ) {
          taken.push(client);
        }
        const { rows } = await first.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where application_name is distinct from 'test' and backend_type = 'client backend'`,
        );
        if (rows.length > 0) calm = 0;
      }
      return async () => {
        await Promise.all(taken.map((client) => client.end()));
      };
    },
    async servesAgain() {
      await until('the gateway is ready', async () => (await readiness(gateway.url)).status === 200);
      await until('the gateway hears of changes', () => is_listening);
      await until('the gateway serves', async () => (await ask(gateway.url, gateway.token)).status === 200);
    },
    async close() {
      await gateway.close();
      await letGo();
    },
  };
}

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString, application_name: 'test' });
  client.on('error', () => {});
  await client.connect();
  return client;
}

function noCredential(): undefined {}

/** The gateway's own report. */
export function readiness(url: string): Promise<Response> {
  return send(url, { method: 'GET', path: '/readyz' });
}

/** Asserts that a response reports the database as away, and nothing about where it is. */
export function assertStoreError(response: Response): void {
  assert.equal(response.status, 503, response.text);
  const { type, error } = response.json();
  assert.deepEqual([type, error.type, error.code], ['error', 'api_error', 'store_unavailable']);
  assert.equal(response.headers['x-should-retry'], 'true');
  assert.doesNotMatch(response.text, /postgres:|ECONN|127\.0\.0\.1|password|\/tmp/i);
}

/**
 * Sends requests while the database is silent until later ones have a response while one still waits for it. Returns
 * all responses.
 */
export async function askWhileOneWaits({ gateway, sent }: Outage): Promise<readonly Response[]> {
  const responses: Response[] = [];
  const askNow = () => ask(gateway.url, gateway.token);
  await until('others get responses while one waits', async () => {
    const before = sent();
    let is_waiting = true;
    const one = askNow().finally(() => {
      is_waiting = false;
    });
    await until('it waits or has a response', () => sent() > before || !is_waiting);
    const others = is_waiting ? await Promise.all(Array.from({ length: 5 }, askNow)) : [];
    const do_not_wait = is_waiting;
    responses.push(...others, await one);
    return do_not_wait;
  });
  return responses;
}
