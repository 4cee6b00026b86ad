/** Time limits on shipped stages: the money is right also when a stage is cut off in the middle. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';

let directory: string;
let upstream: ScriptedUpstream;
let gateway: TestGateway;
const clock = movableClock();

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'time-limit-'));
  const shipped = await readFile(join(import.meta.dirname, '../../../pipelines/model-requests.yaml'), 'utf8');
  // Every shipped stage has a limit here, so that each of them is seen to need no more than it declares.
  const limited = shipped
    .replaceAll(/- \{ stage: \S+/g, '$& timeout_seconds: 30,')
    .replaceAll(/- stage: \S+/g, '$&\n    timeout_seconds: 30');
  assert.equal(limited.match(/timeout_seconds/g)?.length, shipped.match(/- (?:\{ )?stage:/g)?.length);
  await writeFile(join(directory, 'model-requests.yaml'), limited);
  upstream = await startUpstream();
  gateway = await bootGateway({ upstream_url: upstream.url, config: { pipelines: directory }, clock });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await rm(directory, { recursive: true });
});

test('shipped stages behave within a limit as without one', async () => {
  upstream.script = answerJson(message());
  const response = await ask(gateway.url, gateway.token, { model: 'mapped-1' });
  assert.equal(response.status, 200, response.text);
  const id = response.headers['x-gateway-request-id'];
  const { record } = await until('the audit record is stored', async () => {
    const rows = await gateway.database.knex('audit_log').where({ request_id: id });
    return rows[0];
  });
  assert.deepEqual(record.rewrites, ['model']);
  assert.ok(record.cost_usd > 0);
  assert.deepEqual(
    gateway.logs.filter((line) => line.includes(String(id)) && line.includes('a stage failed')),
    [],
  );
});

test('a forwarded request that is cut off is possibly billed, and occupies nothing any more', async () => {
  upstream.script = () => {};
  upstream.requests.length = 0;
  const asking = ask(gateway.url, gateway.token);
  await until('the upstream got the request', () => upstream.requests.length === 1);
  clock.advance(30_000);
  const response = await asking;
  assert.equal(response.status, 500);
  assert.equal(response.json().error.stage, 'forward');
  assert.match(response.json().error.message, /did not finish within 30 seconds/);
  const id = response.headers['x-gateway-request-id'];
  const row = await until('the ledger row is there', async () => {
    const rows = await gateway.database.knex('ledger').where({ request_id: id });
    return rows[0];
  });
  assert.equal(Number(row.cost_nano_usd), 0);
  assert.ok(row.provenance.possibly_billed_nano_usd > 0);
  await until('nothing is reserved', async () => (await gateway.database.knex('reservations')).length === 0);
});
