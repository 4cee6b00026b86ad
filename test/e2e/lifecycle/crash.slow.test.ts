import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { EVENT_STREAM, type Exchange, message, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { randomOf } from '../../support/random.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { type ProcessScene, useProcessScene } from '../support/process-scene.ts';
import { ledgerRows, nothingReserved, reserved } from '../support/state.ts';

const ROUNDS = times(3);
const CALLERS = 30;
const EVENTS = messageEvents();
/** The steps of a round of requests: half of them are streams. */
const STEPS = (CALLERS / 2) * (2 + EVENTS.length + 3);

let scene: ProcessScene;
let gateway: GatewayProcess;
/** Counts the steps of upstream and callers; at one of them the gateway is killed. */
let step = () => {};

useProcessScene(
  (opened) => {
    scene = opened;
  },
  {
    script: answerInSteps,
    sections: () => ({
      spend_limits: { defaults: { user_daily_usd: 100, team_monthly_usd: 10_000 }, on_exceeded: 'deny' },
    }),
  },
);

/** As JSON or as a stream in pieces: a step when a request arrives, and one with each piece. */
async function answerInSteps({ received, res }: Exchange): Promise<void> {
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const is_streamed = received.body.includes('"stream":true');
  const pieces = is_streamed ? EVENTS : [JSON.stringify(message())];
  step();
  await turn();
  res.writeHead(200, is_streamed ? (EVENT_STREAM as string[]) : { 'content-type': 'application/json' });
  for (const piece of pieces) {
    res.write(piece);
    step();
    await turn();
  }
  res.end();
}

test('whenever the gateway is killed, every request the upstream saw has exactly one ledger row, and nothing stays reserved', async () => {
  const { upstream, database, newToken } = scene;
  gateway = await scene.start();
  const random = randomOf('crash');
  /** One user per request, because ledger rows and requests share it. */
  let users = 0;
  const sent = new Set<string>();

  for (let round = 0; round < ROUNDS; round++) {
    const tokens = await Promise.all(
      Array.from({ length: CALLERS }, async () => {
        const user = `caller-${users++}@example.com`;
        return { user, token: await newToken({ user, team: 'crashers' }) };
      }),
    );
    const { url, child, ended } = gateway;
    const kill_at = 1 + Math.floor(random() * STEPS);
    let steps = 0;
    step = () => {
      if (++steps === kill_at) child.kill('SIGKILL');
    };
    const callers = tokens.map(async ({ user, token }, index) => {
      sent.add(user);
      const headers = bearer(token, ['x-caller', user]);
      await send(url, { headers, body: messagesBody({ stream: index % 2 === 0 }) }).catch(() => undefined);
      step();
    });
    await Promise.all(callers);
    child.kill('SIGKILL');
    await ended;
    gateway = await scene.start();

    await until("the dead process's reservations are settled", async () => {
      const { nano_usd, reservations } = await reserved(database);
      return nano_usd === 0 && reservations === 0;
    }).catch((error) => {
      throw new Error(`killed at step ${kill_at}: ${error.message}`);
    });
    const rows = await ledgerRows(database);
    const rows_of = (user: string) => rows.filter(({ user_email }) => user_email === user);
    for (const { headers } of upstream.requests) {
      const user = String(headers['x-caller']);
      assert.equal(rows_of(user).length, 1, `${user} was forwarded (killed at step ${kill_at})`);
    }
    for (const user of sent) assert.ok(rows_of(user).length <= 1, `${user} has two rows`);
    for (const row of rows) assert.ok(row.cost_nano_usd > 0, 'a request with an unknown end is not free');
  }

  const [counted] = await database.knex('spend_counters').where({ scope: 'team' }).sum({ spent: 'spent' });
  const total = (await ledgerRows(database)).reduce((sum, row) => sum + row.cost_nano_usd, 0);
  assert.equal(Number(counted?.spent), total, 'the counters equal the ledger');
  await nothingReserved(database);
  const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
  for (const found of [differences, repeated, uncounted, attempts, left])
    assert.deepEqual(found, { total: 0, first: [] });
});
