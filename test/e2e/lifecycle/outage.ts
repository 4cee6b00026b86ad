/** A gateway on a database that a test stops, starves, slows or lets fall silent. */
import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type EmbeddedPostgres, openEmbeddedPostgres } from '../../../engine/store/embedded/embedded-postgres.ts';
import { bootGateway, serverSection, type TestGateway } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { quiet } from '../../support/postgres.ts';
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
  /** Takes every connection that the database has, and keeps them until the returned function is called. */
  starve(): Promise<() => Promise<void>>;
  /** Waits until the gateway serves like before. */
  servesAgain(): Promise<void>;
  close(): Promise<void>;
}

const MAX_CONNECTIONS = '25';

/** Boots a gateway whose limits say what becomes of requests while the database is away. */
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
      settings: { fsync: 'off', max_connections: MAX_CONNECTIONS },
    });
  let postgres = await open();
  const { user, password, port, database } = postgres.settings();
  const urlAt = (port: number | undefined) => `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;
  const relay = await startRelay(port!);
  const upstream = await startUpstream();
  const letGo = async () => {
    await upstream.close();
    await relay.stop();
    await postgres.close();
    await rm(directory, { recursive: true, force: true });
  };
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    database_url: urlAt(relay.port),
    config: {
      server: serverSection({}),
      telemetry: READABLE_METRICS,
      spend_limits: { defaults: { user_daily_usd: 100 }, on_exceeded: 'deny', spool_dir, ...spend_limits },
    },
  }).catch(async (error) => {
    await letGo();
    throw error;
  });
  let is_listening = true;
  // Comes after all that the gateway itself does when its connection for notifications is back, such as to forget tokens.
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
    stop() {
      is_listening = false;
      return postgres.close();
    },
    async start() {
      postgres = await open();
      relay.target_port = postgres.settings().port!;
    },
    async starve() {
      is_listening = false;
      const url = urlAt(postgres.settings().port);
      const first = await connect(url);
      const taken = [first];
      // The gateway wants the places back as soon as they are free; whoever is faster gets them.
      for (let calm = 0; calm < 5; calm++) {
        for (let client = await connect(url).catch(nobody); client; client = await connect(url).catch(nobody)) {
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

function nobody(): undefined {}

/** What the gateway says of itself. */
export function readiness(url: string): Promise<Response> {
  return send(url, { method: 'GET', path: '/readyz' });
}

/** Asserts that a response says that the database is away, and nothing about where it is. */
export function assertStoreError(response: Response): void {
  assert.equal(response.status, 503, response.text);
  const { type, error } = response.json();
  assert.deepEqual([type, error.type, error.code], ['error', 'api_error', 'store_unavailable']);
  assert.equal(response.headers['x-should-retry'], 'true');
  assert.doesNotMatch(response.text, /postgres:|ECONN|127\.0\.0\.1|password|\/tmp/i);
}

/** What something gives, and how long it takes. */
export async function timed<T>(run: () => Promise<T>): Promise<{ readonly result: T; readonly seconds: number }> {
  const started = performance.now();
  const result = await run();
  return { result, seconds: (performance.now() - started) / 1000 };
}
