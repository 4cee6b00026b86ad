import assert from 'node:assert/strict';
import { chmod, rename, rm, writeFile } from 'node:fs/promises';
import { beforeEach, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { readRequestAttempts } from '../../../engine/domain/budget/reports/request-ledger.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { answerJson, EVENT_STREAM, message, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { readMetrics } from '../../support/telemetry/read-metrics.ts';
import { until } from '../../support/until.ts';
import { standIn, use } from '../../support/use.ts';
import { askWhileOneWaits, assertStoreError, startOutage } from '../lifecycle/outage.ts';
import { ask, bearer, messagesBody, open, type Response, readAll, send } from '../support/client.ts';
import { auditRecord, ledgerRow, ledgerRows, nothingReserved, spoolFiles } from '../support/state.ts';

const SPOOL = { gateway_waiting_place: 'spool' };

const scene = use(() =>
  startOutage({
    on_store_error: 'allow',
    rules: [
      {
        name: 'never unreserved',
        scope: 'user',
        window: 'day',
        limit_usd: 50,
        on_store_error: 'deny',
        when: { '===': [{ var: 'request.model' }, 'mapped-1'] },
      },
    ],
  }),
);
const gateway = standIn(() => scene.gateway);
const upstream = standIn(() => scene.upstream);
beforeEach(async () => {
  upstream.script = answerJson(message());
  await scene.servesAgain();
  await nothingReserved(gateway.database);
  upstream.requests.length = 0;
});

const askNow = () => ask(gateway.url, gateway.token);
const idOf = ({ headers }: Response) => String(headers['x-gateway-request-id']);

/** Every one of these requests was served and has one row, and all sums are right. */
async function assertWritten(responses: readonly Response[]): Promise<void> {
  for (const response of responses) {
    assert.equal(response.status, 200, response.text);
    const row = await ledgerRow(gateway.database, idOf(response));
    assert.deepEqual([row.input_tokens, row.output_tokens, row.aborted], [100, 40, false]);
  }
  await nothingReserved(gateway.database);
  await until('the spool is empty', () => spoolFiles(scene.spool_dir).length === 0);
  const { differences, repeated, uncounted } = await verifyLedger({ database: gateway.database, clock: systemClock });
  for (const found of [differences, repeated, uncounted]) assert.deepEqual(found, { total: 0, first: [] });
}

test('while the database is stopped requests are served, and each has its row afterwards', async () => {
  const unknown = await gateway.newToken({ user: 'unknown@example.com' });
  await scene.stop();
  const served = [];
  for (let i = 0; i < 20; i++) served.push(await askNow());
  // A new caller is unidentifiable without the database.
  assertStoreError(await ask(gateway.url, unknown));
  assert.equal(upstream.requests.length, 20);
  const away = await until('the metrics show it', async () => {
    const valueIn = await readMetrics(gateway);
    return valueIn('gateway_database_up') === 0 && (valueIn('gateway_ledger_lag_seconds', SPOOL) ?? 0) > 1 && valueIn;
  });
  // Leftovers of earlier requests may wait, too.
  assert.ok(away('gateway_ledger_waiting', SPOOL)! >= 20);
  assert.ok(away('gateway_audit_waiting', SPOOL)! >= 21);
  assert.ok(away('gateway_spool_size_bytes')! > 1000);
  await scene.start();
  await scene.servesAgain();
  await assertWritten(served);
  await until('the metrics show that it is back', async () => {
    const valueIn = await readMetrics(gateway);
    return valueIn('gateway_database_up') === 1 && valueIn('gateway_ledger_waiting', SPOOL) === 0;
  });
  const [attempt] = await readRequestAttempts(gateway.database, idOf(served[0]!));
  assert.deepEqual([attempt?.reason, attempt?.upstream_request_id], ['served', 'req_scripted']);
  assert.ok(attempt!.ms! > 0, `answered in ${attempt!.ms} ms`);
  const record = await auditRecord(gateway.database, idOf(served[0]!));
  assert.equal((record.record as { unreserved?: boolean }).unreserved, true, JSON.stringify(record));
});

test('a request under a limit that forbids it is rejected, despite the others', async () => {
  const mapped = { headers: bearer(gateway.token), body: messagesBody({ model: 'mapped-1' }) };
  assert.equal((await send(gateway.url, mapped)).status, 200);
  await scene.stop();
  assertStoreError(await send(gateway.url, mapped));
  const other = await askNow();
  await scene.start();
  await scene.servesAgain();
  await assertWritten([other]);
});

test('while the database is silent requests wait for it one at a time, and all are served', async () => {
  await scene.allow(1);
  scene.relay.fallSilent();
  const served = await askWhileOneWaits(scene).finally(async () => {
    scene.relay.speakAgain();
    await scene.allow();
  });
  await scene.servesAgain();
  await assertWritten(served);
});

test('a reservation that a slow database places after all is settled like any other', async () => {
  await scene.allow(1);
  scene.relay.delay_ms = 700;
  const served = await Promise.all([askNow(), askNow()]).finally(async () => {
    scene.relay.delay_ms = 0;
    await scene.allow();
  });
  await scene.servesAgain();
  await assertWritten(served);
});

test('a database without a free connection is like none', async () => {
  const feed = await scene.starve();
  const served = [];
  try {
    for (let i = 0; i < 5; i++) served.push(await askNow());
  } finally {
    await feed();
  }
  await scene.servesAgain();
  await assertWritten(served);
});

test('a stream that began before, one that began during, and one that outlasts the outage are each whole and written', async () => {
  const events = messageEvents(['one ', 'two ', 'three']);
  const finish: (() => void)[] = [];
  upstream.script = async ({ res }) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    res.write(events.slice(0, 3).join(''));
    await new Promise<void>((resolve) => finish.push(resolve));
    res.end(events.slice(3).join(''));
  };
  const begin = () => open(gateway.url, { headers: bearer(gateway.token), body: messagesBody({ stream: true }) }).head;
  const heads = [await begin()];
  await scene.stop();
  heads.push(await begin(), await begin());
  finish[0]!();
  finish[1]!();
  const whole = [await readAll(heads[0]!), await readAll(heads[1]!)];
  await scene.start();
  upstream.script = answerJson(message());
  await scene.servesAgain();
  finish[2]!();
  whole.push(await readAll(heads[2]!));
  for (const { text } of whole) assert.equal(text, events.join(''));
  await assertWritten(whole);
});

test('many requests during restarts are all served, and every one has one row', async () => {
  // The row of the test before may still be on its way.
  await nothingReserved(gateway.database);
  const before_all = (await ledgerRows(gateway.database)).length;
  const served: Response[] = [];
  let running = true;
  const callers = Array.from({ length: 8 }, async () => {
    while (running) served.push(await ask(gateway.url, gateway.token));
  });
  for (let round = 0; round < 2; round++) {
    const { length } = served;
    await until('requests flow', () => served.length > length + 20);
    await scene.stop();
    await until('requests flow nevertheless', () => served.length > length + 60);
    await scene.start();
  }
  running = false;
  await Promise.all(callers);
  assert.deepEqual([...new Set(served.map(({ status }) => status))], [200]);
  const seen = upstream.requests.length;
  assert.equal(seen, served.length);
  await scene.servesAgain();
  await assertWritten(served);
  const rows = (await ledgerRows(gateway.database)).slice(before_all);
  assert.equal(new Set(rows.map(({ request_id }) => request_id)).size, rows.length, 'no request has two rows');
});

test('a request that could not be noted does not go out', async () => {
  // Records are written in order, so none waits that could open a file, which can be written to wherever its directory is.
  await auditRecord(gateway.database, idOf(await ask(gateway.url, gateway.token)));
  await until('the spool is empty', () => spoolFiles(scene.spool_dir).length === 0);
  upstream.requests.length = 0;
  await scene.stop();
  const aside = `${scene.spool_dir}-aside`;
  await rename(scene.spool_dir, aside);
  await writeFile(scene.spool_dir, 'in its place');
  try {
    const refused = await ask(gateway.url, gateway.token);
    assertStoreError(refused);
    assert.match(
      refused.json().error.message,
      /nor its spool \(the disk buffer for outages\): its directory is a file/,
    );
    assert.equal(upstream.requests.length, 0);
    assert.ok(gateway.logs.some((line) => line.includes('the spool cannot be written to')));
  } finally {
    await rm(scene.spool_dir);
    await rename(aside, scene.spool_dir);
    await chmod(scene.spool_dir, 0o700);
  }
  const served = await askNow();
  await scene.start();
  await scene.servesAgain();
  await assertWritten([served]);
});
