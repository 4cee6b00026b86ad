import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { startRelay } from '../../support/tcp-relay.ts';
import { IS_DEEP } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { closing, use } from '../../support/use.ts';
import { ask } from '../support/client.ts';

/** After how many pieces from the database server all connections are cut: from the greeting to the first request. */
const NEW_DATABASE = [5, 30];
const OLD_DATABASE = IS_DEEP ? [1, 3, 4, 5, 6, 7, 9, 12, 16, 22] : [1, 4, 7, 16];

const upstream = use(startUpstream);
const database = use(createTestDatabase, ({ drop }) => drop());
const proxy = use(
  () => startRelay(Number(new URL(database.url).port)),
  (proxy) => proxy.stop(),
);

async function serveDespiteCut(url: string, pieces: number): Promise<void> {
  const proxied = new URL(url);
  proxied.port = String(proxy.port);
  proxy.cutAfter(pieces);
  await using gateway = closing(await bootGateway({ upstream_url: upstream.url, database_url: proxied.href }));
  const name = `a request is served after a cut behind ${pieces} pieces`;
  await until(name, async () => {
    const { status } = await ask(gateway.url, gateway.token);
    assert.ok(status === 200 || status === 503, `${status}`);
    return status === 200;
  });
}

test('a gateway whose connections are cut while it creates its tables retries and serves', async () => {
  for (const pieces of NEW_DATABASE) {
    const fresh = await createTestDatabase();
    await serveDespiteCut(fresh.url, pieces).finally(() => fresh.drop());
  }
});

test('a gateway whose connections are cut at any moment of its start tries again and serves', async () => {
  for (const pieces of OLD_DATABASE) await serveDespiteCut(database.url, pieces);
});
