/** The stage of examples/custom-audit-stage: what it sends, when, and what becomes of undelivered records. */
import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { StageDefinition } from '../../engine/api.ts';
import { createFindings } from '../../engine/base/source/findings.ts';
import { type Facts, openStage, type StageHarness } from '../../engine/edge/simulate/stage-harness.ts';
import { loadStages } from '../../engine/pipeline/load/stage-modules.ts';
import { openPort } from '../support/net/own-port.ts';
import { until } from '../support/until.ts';

const EXAMPLE = join(import.meta.dirname, '../../examples/custom-audit-stage');
const TOKEN = 'siem-token-7c1e90';

const { stages } = await loadStages([], [join(EXAMPLE, 'stages/siem.ts')], createFindings());
const siem = stages.get('siem') as StageDefinition;

interface Delivery {
  readonly headers: IncomingHttpHeaders;
  readonly records: readonly Record<string, unknown>[];
}

/** A SIEM with scripted responses that keeps what it got. */
async function openReceiver() {
  const deliveries: Delivery[] = [];
  let answer: (res: ServerResponse) => void = (res) => void res.writeHead(202).end();
  const server = createServer(async (req, res) => {
    const records = (await text(req)).trimEnd().split('\n');
    deliveries.push({ headers: req.headers, records: records.map((line) => JSON.parse(line)) });
    answer(res);
  });
  const { url, close } = await openPort(server);
  return {
    url: `${url}/ingest`,
    close,
    deliveries,
    answers(next: typeof answer) {
      answer = next;
    },
    says(status: number, headers: Record<string, string> = {}) {
      answer = (res) => void res.writeHead(status, headers).end();
    },
    get ids(): unknown[][] {
      return deliveries.map(({ records }) => records.map((record) => record['request.id']));
    },
    arrived: (count: number) => until(`delivery ${count} is there`, () => deliveries.length >= count),
  };
}

describe('the stage siem', () => {
  let receiver: Awaited<ReturnType<typeof openReceiver>>;
  let stage: StageHarness;

  beforeEach(async () => {
    receiver = await openReceiver();
  });
  afterEach(async () => {
    receiver.says(202);
    await stage?.hooks.close?.();
    await receiver.close();
  });

  function open(options: object = {}): void {
    stage = openStage(siem, {
      options: { url: receiver.url, ...options },
      secrets: { SIEM_TOKEN: TOKEN },
      now: '2026-03-10T12:00Z',
    });
  }

  function happen(id: string, facts: Facts = {}, headers: Record<string, string> = {}): void {
    const request = { 'request.method': 'POST', 'request.path': '/v1/messages', 'request.protocol': 'messages' };
    stage.hooks.finally?.(stage.request({ facts: { 'request.id': id, ...request, ...facts }, headers }));
  }

  const logged = (part: string) => stage.log.filter(({ message }) => message.includes(part));
  /** What the stage waits for next, in seconds. */
  const nextSeconds = () => (stage.clock.next() ?? Number.NaN) / 1000;
  const untilLogged = (part: string) => until(part, async () => logged(part).length > 0);

  it('sends records together once they have waited long enough', async () => {
    open({ batch_seconds: 2 });
    happen('one');
    stage.clock.advance(1999);
    happen('two');
    assert.equal(receiver.deliveries.length, 0);
    stage.clock.advance(1);
    await receiver.arrived(1);
    assert.deepEqual(receiver.ids, [['one', 'two']]);
  });

  it('sends a full batch at once and never a larger one', async () => {
    open({ batch_records: 2 });
    for (const id of ['1', '2', '3', '4', '5']) happen(id);
    await receiver.arrived(3);
    assert.deepEqual(receiver.ids, [['1', '2'], ['3', '4'], ['5']]);
  });

  it('reports actor, action and result', async () => {
    open();
    happen('one', {
      'principal.email': 'ann@example.com',
      'outcome.status': 429,
      'outcome.error': 'spend_limit_exceeded',
    });
    await stage.hooks.close?.();
    const { headers, records } = receiver.deliveries[0]!;
    assert.equal(headers['content-type'], 'application/x-ndjson');
    assert.deepEqual(records, [
      {
        at: '2026-03-10T12:00:00.000Z',
        'request.id': 'one',
        'request.method': 'POST',
        'request.path': '/v1/messages',
        'request.protocol': 'messages',
        'principal.email': 'ann@example.com',
        'outcome.status': 429,
        'outcome.error': 'spend_limit_exceeded',
      },
    ]);
  });

  it("shows its token to the SIEM alone, and nothing of callers' headers", async () => {
    open({ token_env: 'SIEM_TOKEN' });
    receiver.says(503);
    happen('one', {}, { authorization: 'Bearer gw_caller-secret', 'x-note': 'planted-prompt' });
    await stage.hooks.close?.();
    assert.equal(receiver.deliveries[0]!.headers.authorization, `Bearer ${TOKEN}`);
    const output = JSON.stringify([receiver.deliveries[0]!.records, stage.log]);
    assert.doesNotMatch(output, /caller-secret|planted-prompt|siem-token/);
  });

  it('sends the token to no other address', async () => {
    const elsewhere = await openReceiver();
    open({ token_env: 'SIEM_TOKEN' });
    receiver.says(307, { location: elsewhere.url });
    happen('one');
    await stage.hooks.close?.();
    await elsewhere.close();
    assert.equal(elsewhere.deliveries.length, 0);
    assert.deepEqual(logged('not take them in time')[0]?.fields, { records: 1 });
  });

  it('cuts a text of the caller that would fill the queue by itself', async () => {
    open();
    happen('one', { 'request.model': 'm'.repeat(1_000_000) });
    await stage.hooks.close?.();
    assert.ok(JSON.stringify(receiver.deliveries[0]!.records).length < 1000);
  });

  it('waits longer after every failure, then sends everything in order', async () => {
    open({ batch_records: 2 });
    receiver.says(503);
    happen('1');
    happen('2');
    for (const [attempt, seconds] of [1, 2, 4, 8, 16, 32, 60, 60].entries()) {
      await receiver.arrived(attempt + 1);
      await until('the next attempt is planned', async () => nextSeconds() === seconds);
      if (attempt === 2) happen('3');
      if (attempt === 7) receiver.says(202);
      stage.clock.advance(seconds * 1000);
    }
    await receiver.arrived(10);
    assert.deepEqual(receiver.ids.slice(-2), [['1', '2'], ['3']]);
    await untilLogged('takes records again');
    assert.equal(logged('they wait in memory').length, 1);
  });

  it('retries after a timeout', async () => {
    open({ timeout_seconds: 3 });
    receiver.answers(() => {});
    happen('one');
    stage.clock.advance(2000);
    await receiver.arrived(1);
    receiver.says(202);
    stage.clock.advance(3000);
    await until('the next attempt is planned', async () => nextSeconds() === 1);
    stage.clock.advance(1000);
    await receiver.arrived(2);
    assert.deepEqual(receiver.ids, [['one'], ['one']]);
    assert.deepEqual(logged('they wait in memory')[0]?.fields, { reason: 'timeout', queued: 1 });
  });

  it("keeps no more than the queue's limit, and reports how many records were lost", async () => {
    open({ batch_records: 1, queue_records: 3 });
    receiver.says(500);
    for (let id = 1; id <= 10; id++) happen(String(id));
    await until('the first attempt has failed', async () => nextSeconds() === 1);
    assert.equal(logged('the queue for the SIEM is full').length, 1);
    receiver.says(202);
    stage.clock.advance(1000);
    await receiver.arrived(4);
    assert.deepEqual(receiver.ids.slice(1), [['1'], ['2'], ['3']]);
    await untilLogged('were lost while');
    assert.deepEqual(logged('were lost while')[0]?.fields, { records: 7 });
  });

  it('does not retry what the SIEM rejects, and continues with the rest', async () => {
    open({ batch_records: 1 });
    receiver.answers((res) => void res.writeHead(receiver.deliveries.length === 1 ? 400 : 202).end());
    happen('bad');
    happen('good');
    await receiver.arrived(2);
    assert.deepEqual(receiver.ids, [['bad'], ['good']]);
    await untilLogged('rejected audit records');
    assert.deepEqual(logged('rejected audit records')[0]?.fields, { status: 400, records: 1 });
  });

  it('never delays or fails a request without a listener', async () => {
    receiver.close();
    open({ batch_records: 1 });
    assert.equal(happen('one'), undefined);
    await untilLogged('they wait in memory');
    assert.deepEqual(logged('they wait in memory')[0]?.fields, { reason: 'ECONNREFUSED', queued: 1 });
  });

  it('gives up on a SIEM that hangs five seconds after the gateway began to close', async () => {
    open({ timeout_seconds: 60 });
    receiver.answers(() => {});
    happen('one');
    const closing = stage.hooks.close?.();
    await receiver.arrived(1);
    stage.clock.advance(5000);
    await closing;
    assert.deepEqual(logged('not take them in time')[0]?.fields, { records: 1 });
  });
});
