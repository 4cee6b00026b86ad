/** A gateway on a database that a test stops, starves, slows or lets fall silent. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { bootGateway, gatewayConfig, serverSection, type TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { READABLE_METRICS } from '../../support/telemetry/read-metrics.ts';
import { until } from '../../support/until.ts';
import { ask, type Response, send } from '../support/client.ts';
import { startMortalPostgres } from '../support/fleet.ts';

/** The scene of an outage. */
export type Outage = Awaited<ReturnType<typeof startOutage>>;

/** The most that can be configured. */
const LONGEST_SECONDS = 5;

/** Boots a gateway whose limits decide requests while the database is away. */
export async function startOutage(spend_limits: object) {
  const spool_dir = join(ownDirectory(), 'spool');
  const postgres = await startMortalPostgres({ max_connections: '25' });
  const database_url = await postgres.createDatabase();
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
    await postgres.close();
  };
  const config = sections(LONGEST_SECONDS);
  const gateway = await bootGateway({ upstream_url: upstream.url, database_url, config }).catch(async (error) => {
    await letGo();
    throw error;
  });
  const sent = countReservations(gateway);
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
    /** The gateway's way to the database. */
    relay: postgres.relay,
    spool_dir,
    sent,
    /** Has requests wait for the database no longer than so many seconds; by default as long as can be. */
    async allow(store_timeout_seconds = LONGEST_SECONDS) {
      await writeFile(
        gateway.config_file,
        JSON.stringify(gatewayConfig(upstream.url, sections(store_timeout_seconds))),
      );
      await gateway.reload();
    },
    stop() {
      is_listening = false;
      return postgres.stop('cleanly');
    },
    start: () => postgres.start(),
    /** Opens a connection to the database that is not the gateway's. */
    connect: () => connect(postgres.directly(database_url)),
    /** Opens all connections of the database, and keeps them until the returned function is called. */
    async starve() {
      is_listening = false;
      const url = postgres.directly(database_url);
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

/** Counts the batches of reservations that a gateway sends to the database. */
export function countReservations({ database }: TestGateway): () => number {
  const query = database.query.bind(database);
  let sent = 0;
  database.query = ((name: string, text: string, values: unknown[]) => {
    if (name === 'ledger_batch' && values.at(-1) !== '{}') sent++;
    return query(name, text, values);
  }) as typeof database.query;
  return () => sent;
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
