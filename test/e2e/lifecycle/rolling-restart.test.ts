/** Behind a balancer that looks at /readyz, gateways are replaced one after the other. */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { test } from 'node:test';
import type { Clock } from '../../../engine/api.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway, serverSection, type TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { bearer, messagesBody, send } from '../support/client.ts';

const WORKERS = 8;
/** How long a gateway accepts requests after SIGTERM; it is over on a test's command. */
const ACCEPT_SECONDS = 333;

const upstream = use(startUpstream);
const database = use(createTestDatabase, ({ drop }) => drop());

interface Member extends TestGateway {
  /** Ends the time in which it accepts requests after SIGTERM. */
  stopAccepting(): void;
}

async function boot(): Promise<Member> {
  const { promise: over, resolve: stopAccepting } = Promise.withResolvers<void>();
  const clock: Clock = {
    ...systemClock,
    after(milliseconds, task) {
      if (milliseconds !== ACCEPT_SECONDS * 1000) return systemClock.after(milliseconds, task);
      void over.then(task);
      return { refresh() {}, close() {}, unref() {} };
    },
  };
  const drain = { accept_seconds: ACCEPT_SECONDS };
  const config = { server: serverSection({ drain, timeouts: { drain_seconds: 2 * ACCEPT_SECONDS } }) };
  const gateway = await bootGateway({ upstream_url: upstream.url, database_url: database.url, clock, config });
  return { ...gateway, stopAccepting };
}

test('behind a balancer that looks at /readyz no request fails while every gateway is restarted', async () => {
  const first = await boot();
  const { token } = first;
  const members = new Set([first, await boot()]);
  /** Those that were ready when the balancer last looked. */
  let ready: readonly Member[] = [...members];
  const look = async () => {
    const isReady = async ({ url }: Member) => (await send(url, { method: 'GET', path: '/readyz' })).status === 200;
    const looked = await Promise.all([...members].map(async (one) => ((await isReady(one)) ? one : undefined)));
    ready = looked.filter((one) => one !== undefined);
  };
  const agent = new Agent({ keepAlive: true });
  const answered = new Map<Member, number>();
  const under_way = new Map<Member, number>();
  const add = (to: Map<Member, number>, member: Member, count: number) => to.set(member, (to.get(member) ?? 0) + count);
  const failed: unknown[] = [];
  let turn = 0;
  let is_over = false;
  const asking = Array.from({ length: WORKERS }, async () => {
    while (!is_over) {
      const member = ready[turn++ % ready.length]!;
      add(under_way, member, 1);
      const response = await send(member.url, { headers: bearer(token), body: messagesBody(), agent }).catch(
        (error: Error) => error,
      );
      add(under_way, member, -1);
      if (response instanceof Error) failed.push(response);
      else if (response.status !== 200) failed.push(response.text);
      else add(answered, member, 1);
    }
  });
  const responses = (member: Member) => {
    const before = answered.get(member) ?? 0;
    return until('it answers', () => failed.length > 0 || (answered.get(member) ?? 0) > before + 2 * WORKERS);
  };
  try {
    for (const old of [...members]) {
      const fresh = await boot();
      members.add(fresh);
      await look();
      assert.ok(ready.includes(fresh));
      await responses(fresh);
      const closed = old.close('SIGTERM');
      // Until the balancer looks, it sends requests there.
      await responses(old);
      await look();
      assert.ok(!ready.includes(old));
      await until('none is under way there', () => under_way.get(old) === 0);
      old.stopAccepting();
      await closed;
      members.delete(old);
    }
  } finally {
    is_over = true;
    await Promise.all(asking);
    agent.destroy();
    for (const member of members) await member.close();
  }
  assert.deepEqual(failed, []);
});

test('from SIGTERM on /readyz returns 503, requests are served, and each response ends its connection', async () => {
  const gateway = await boot();
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const asked = { headers: bearer(gateway.token), body: messagesBody(), agent };
  assert.equal((await send(gateway.url, asked)).headers.connection, 'keep-alive');
  const closed = gateway.close('SIGTERM');
  const ready = await send(gateway.url, { method: 'GET', path: '/readyz' });
  assert.deepEqual([ready.status, ready.json().status], [503, 'stopping']);
  assert.equal((await send(gateway.url, { method: 'GET', path: '/healthz' })).status, 200);
  const last = await send(gateway.url, asked);
  assert.deepEqual([last.status, last.headers.connection], [200, 'close']);
  gateway.stopAccepting();
  await closed;
  agent.destroy();
});
