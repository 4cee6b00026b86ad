/** Time limits on shipped stages: the money is right also when a stage is cut off in the middle. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ownDirectory } from '../../support/own-directory.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { idOf, recordOf } from '../support/odd.ts';
import { ledgerRow, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const clock = movableClock();

const shipped = readFileSync(join(import.meta.dirname, '../../../pipelines/model-requests.yaml'), 'utf8');
// Every shipped stage has a limit here, so that each of them is seen to need no more than it declares.
const limited = shipped
  .replaceAll(/- \{ stage: \S+/g, '$& timeout_seconds: 30,')
  .replaceAll(/- stage: \S+/g, '$&\n    timeout_seconds: 30');
assert.equal(limited.match(/timeout_seconds/g)?.length, shipped.match(/- (?:\{ )?stage:/g)?.length);
const pipelines = ownDirectory();
writeFileSync(join(pipelines, 'model-requests.yaml'), limited);

const { gateway, upstream } = useGateway({ pipelines }, clock);

test('shipped stages behave within a limit as without one', async () => {
  const response = await ask(gateway.url, gateway.token, { model: 'mapped-1' });
  assert.equal(response.status, 200, response.text);
  const { rewrites, cost_usd } = await recordOf(gateway, response);
  assert.deepEqual(rewrites, ['model']);
  assert.ok(cost_usd > 0);
  const failed = gateway.logs.filter((line) => line.includes(idOf(response)) && line.includes('a stage failed'));
  assert.deepEqual(failed, []);
});

test('a forwarded request that is cut off is possibly billed, and occupies nothing any more', async () => {
  upstream.script = () => {};
  const asking = ask(gateway.url, gateway.token);
  await until('the upstream got the request', () => upstream.requests.length === 1);
  clock.advance(30_000);
  const response = await asking;
  assert.equal(response.status, 500);
  assert.equal(response.json().error.stage, 'forward');
  assert.match(response.json().error.message, /did not finish within 30 seconds/);
  const row = await ledgerRow(gateway.database, idOf(response));
  assert.equal(row.cost_nano_usd, 0);
  assert.ok(Number(row.provenance.possibly_billed_nano_usd) > 0);
  await nothingReserved(gateway.database);
});
