/** A gateway that starts while its database is away. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startGateway } from '../../../engine/edge/gateway/start-gateway.ts';
import { stages } from '../../../stages/index.ts';
import { createTestDatabase } from '../../support/database.ts';
import { lastFirst } from '../../support/file-end.ts';
import { gatewayConfig, makeToken, UPSTREAM_KEY } from '../../support/gateway.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { createLog, open } from '../../support/open-database.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { startRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { ask, send } from '../support/client.ts';
import { ledgerRow } from '../support/state.ts';
import { assertStoreError } from './outage.ts';

for (const [on_store_error, reason] of [
  ['allow', /no caller is known/],
  ['deny', /on_store_error: deny/],
] as const) {
  test(`rejects requests under ${on_store_error} until it is there, reports it, and then serves`, async (t) => {
    const atEnd = lastFirst(t);
    const database = await createTestDatabase();
    atEnd(() => database.drop());
    const upstream = await startUpstream();
    atEnd(() => upstream.close());
    const directory = ownDirectory();
    const own = await open(database.url);
    const token = await makeToken(own);
    await own.close();
    const relay = await startRelay(Number(new URL(database.url).port));
    atEnd(() => relay.stop());
    await relay.stop();

    const config_file = join(directory, 'gateway.yaml');
    const defaults = { user_daily_usd: 100 };
    const spend_limits = { defaults, on_exceeded: 'deny', on_store_error, spool_dir: join(directory, 'spool') };
    await writeFile(config_file, JSON.stringify(gatewayConfig(upstream.url, { spend_limits })));
    const url = new URL(database.url);
    url.port = String(relay.port);
    const { log, lines } = createLog();
    const env = { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: url.href };
    const gateway = await startGateway({ config_file, stages, env, log });
    atEnd(() => gateway.close());
    const ready = () => send(gateway.url, { method: 'GET', path: '/readyz' });

    assertStoreError(await ask(gateway.url, token));
    await until('it is logged', () =>
      lines.some((line) => /the database is unavailable; requests are rejected until it is available/.test(line)),
    );
    const state = await ready();
    assert.deepEqual([state.status, state.json().status], [503, 'unavailable']);
    assert.match(state.json().reason, reason);

    await relay.start();
    await until('the database is used', async () => (await ready()).json().status === 'ok');
    const served = await ask(gateway.url, token);
    assert.equal(served.status, 200, served.text);
    const row = await ledgerRow(gateway.database, String(served.headers['x-gateway-request-id']));
    assert.deepEqual([row.user_email, row.input_tokens], ['dev@example.com', 100]);
  });
}
