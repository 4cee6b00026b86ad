import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway, serverSection, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { bearer, messagesBody, send } from '../support/client.ts';

const WORKERS = 8;
const REQUESTS = 1000;
const PROBE_MS = 150;
/** Many times as long as it takes a balancer to notice, also on a busy machine. */
const ACCEPT_SECONDS = 1.5;

let upstream: ScriptedUpstream;
let database: Awaited<ReturnType<typeof createTestDatabase>>;

before(async () => {
  upstream = await startUpstream();
  upstream.script = answerJson(message());
  database = await createTestDatabase();
});
after(async () => {
  await database?.drop();
  await upstream?.close();
});

const boot = () =>
  bootGateway({
    upstream_url: upstream.url,
    database_url: database.url,
    config: { server: serverSection({ drain: { accept_seconds: ACCEPT_SECONDS } }) },
  });

/** Sends requests to those that said that they are ready when they were last asked. */
function createBalancer() {
  const ready = new Set<TestGateway>();
  const members = new Set<TestGateway>();
  let turn = 0;
  const isReady = async ({ url }: TestGateway) => {
    const answer = await send(url, { method: 'GET', path: '/readyz' }).catch(() => undefined);
    return answer?.status === 200;
  };
  const probe = async () => {
    await Promise.all(
      [...members].map(async (member) => {
        if (await isReady(member)) ready.add(member);
        else ready.delete(member);
      }),
    );
  };
  return {
    members,
    ready,
    probe,
    next: () => [...ready][turn++ % ready.size]!,
  };
}

test('behind a balancer that looks at /readyz no request fails while every gateway is restarted', async () => {
  const balancer = createBalancer();
  const agent = new Agent({ keepAlive: true });
  const first = await boot();
  const token = first.token;
  for (const gateway of [first, await boot()]) balancer.members.add(gateway);
  await balancer.probe();
  assert.equal(balancer.ready.size, 2);

  let over = false;
  let served = 0;
  const failed: unknown[] = [];
  const probing = (async () => {
    for (; !over; await delay(PROBE_MS)) await balancer.probe();
  })();
  const asking = Array.from({ length: WORKERS }, async () => {
    while (!over) {
      const { url } = balancer.next();
      const asked = { headers: bearer(token), body: messagesBody(), agent };
      const answer = await send(url, asked).catch((error: Error) => error);
      if (answer instanceof Error) failed.push(answer);
      else if (answer.status !== 200) failed.push(answer.text);
      else served++;
    }
  });
  // Each is replaced by a fresh one, as long as it takes for enough requests.
  for (let round = 0; round < 2 || (served < REQUESTS && failed.length === 0); round++) {
    const [old] = balancer.members as Iterable<TestGateway>;
    balancer.members.add(await boot());
    await balancer.probe();
    await old!.close('SIGTERM');
    balancer.members.delete(old!);
    balancer.ready.delete(old!);
  }
  over = true;
  await Promise.all([probing, ...asking]);
  agent.destroy();
  for (const gateway of balancer.members) await gateway.close();
  assert.deepEqual(failed, []);
  assert.ok(served >= REQUESTS);
});

test('from SIGTERM on /readyz says 503, requests are served, and each answer ends its connection', async () => {
  const gateway = await boot();
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const asked = { headers: bearer(gateway.token), body: messagesBody(), agent };
  assert.equal((await send(gateway.url, asked)).headers.connection, 'keep-alive');
  const closed = gateway.close('SIGTERM');
  const told = await send(gateway.url, { method: 'GET', path: '/readyz' });
  assert.deepEqual([told.status, told.json().status], [503, 'stopping']);
  assert.equal((await send(gateway.url, { method: 'GET', path: '/healthz' })).status, 200);
  const last = await send(gateway.url, asked);
  assert.deepEqual([last.status, last.headers.connection], [200, 'close']);
  await closed;
  agent.destroy();
});
