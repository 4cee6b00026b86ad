/** Ledger rows and reservations after a gateway was stopped while its database was frozen. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { afterEach, beforeEach, test } from 'node:test';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway, gatewayConfig, serverSection, type TestGateway } from '../../support/gateway.ts';
import { answerJson, message, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { outside } from '../../support/open-database.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { countReservations } from './outage.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let gateway: TestGateway;
let frozen: number[] = [];
/** How many batches of reservations were sent to the database. */
let sent: () => number;

const upstream = use(startUpstream);

/** Has requests wait for the database for so long, and the gateway for requests when it is stopped. */
const sectionsOf = (store_timeout_seconds: number) => ({
  server: serverSection({ timeouts: { drain_seconds: 1 } }),
  spend_limits: { defaults: { user_daily_usd: 100 }, store_timeout_seconds },
});

beforeEach(async () => {
  upstream.script = answerJson(message());
  upstream.requests.length = 0;
  database = await createTestDatabase();
  const config = sectionsOf(5);
  gateway = await bootGateway({ upstream_url: upstream.url, database_url: database.url, config });
  sent = countReservations(gateway);
  // The second time the token is known, and its making has been announced.
  for (let n = 0; n < 2; n++) {
    assert.equal((await ask()).status, 200);
    await until('its row is written', async () => (await rows()) === upstream.requests.length);
  }
});
afterEach(async () => {
  thaw();
  await gateway.close();
  await database.drop();
});

const ask = () => send(gateway.url, { headers: bearer(gateway.token), body: messagesBody() });

const rows = async () =>
  Number((await outside<{ count: string }>(database.url, 'select count(*) from ledger'))[0]!.count);

/** Stops the processes of PostgreSQL that serve the gateway: their input waits in their sockets. */
async function freeze(): Promise<void> {
  const text = `select pid, state from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
    and backend_type = 'client backend'`;
  await until('the database has nothing to do', async () => {
    const found = await outside<{ pid: number; state: string }>(database.url, text);
    frozen = found.map(({ pid }) => pid);
    return found.every(({ state }) => state === 'idle');
  });
  assert.ok(frozen.length > 0);
  for (const pid of frozen) process.kill(pid, 'SIGSTOP');
}

function thaw(): void {
  for (const pid of frozen) {
    try {
      process.kill(pid, 'SIGCONT');
    } catch {
      // It has ended.
    }
  }
  frozen = [];
}

/** Resumes pending work, then compares the database with the upstream's requests. */
async function assertBooked(): Promise<void> {
  const pids = frozen;
  thaw();
  await until('the connections of the gateway are gone', async () => {
    const left = await outside<{ pid: number }>(database.url, 'select pid from pg_stat_activity');
    return !left.some(({ pid }) => pids.includes(pid));
  });
  await outside(
    database.url,
    `select recover_orphans(now() + interval '1 day', '{}', interval '1 second', '-infinity')`,
  );
  const [reserved] = await outside<{ reserved: string }>(
    database.url,
    'select coalesce(sum(reserved), 0) as reserved from spend_counters',
  );
  assert.deepEqual([await rows(), Number(reserved!.reserved)], [upstream.requests.length, 0]);
}

test('a reservation that timed out is not placed once the gateway is gone', async () => {
  await writeFile(gateway.config_file, JSON.stringify(gatewayConfig(upstream.url, sectionsOf(0.5))));
  await gateway.reload();
  await freeze();
  const response = await ask();
  assert.ok(response.status >= 429, `${response.status}`);
  await gateway.close();
  await assertBooked();
});

for (const thaws of [false, true]) {
  test(`a reservation in flight at shutdown ${thaws ? 'is released if the database places it before' : 'is not placed after'} exit`, async () => {
    await freeze();
    const before_it = sent();
    const asked = ask().catch(() => undefined);
    await until('the reservation is on its way', () => sent() > before_it);
    const closed = gateway.close();
    if (thaws) thaw();
    await Promise.all([asked, closed]);
    await assertBooked();
  });
}

test('a request whose response arrived while the database was frozen still has one row', async () => {
  const reserved = Promise.withResolvers<void>();
  const response = answerJson(message());
  upstream.script = async (exchange) => {
    await reserved.promise;
    return response(exchange);
  };
  const before_it = upstream.requests.length;
  const asked = ask();
  await upstream.arrived(before_it + 1);
  await freeze();
  reserved.resolve();
  assert.equal((await asked).status, 200);
  await gateway.close();
  await assertBooked();
});
