/**
 * Expensive JSON, 31 MiB of it, in requests and in responses, against a gateway with a heap of 512 MiB: the process
 * survives, and responds where possible. `test/measures/hostile-json.test.ts` measures how long others wait meanwhile.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { answerBytes, EVENT_STREAM } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { ask } from '../support/client.ts';
import { HOSTILE, HOSTILE_ANSWER, HOSTILE_REQUEST, SIZE, startHostileTarget } from './hostile-json.ts';

const target = use(startHostileTarget);

for (const [name, status] of [
  ['few lists, 100 levels each', 200],
  ['one string of backslashes', 400],
  ['empty objects', 400],
] as const) {
  test(`a request of ${name} gets ${status}`, async () => {
    const body = Buffer.from(`${HOSTILE_REQUEST},${HOSTILE[name]!(SIZE)}}`);
    for (const response of await target.twice('/v1/messages', body))
      assert.equal(response.status, status, response.text.slice(0, 300));
    target.upstream.requests.length = 0;
  });
}

test('a stream that begins with an event of empty objects ends with a response or an error', async () => {
  const event = `{"type":"message_start","message":${HOSTILE_ANSWER},${HOSTILE['empty objects']!(SIZE)}}}`;
  const { script } = target.upstream;
  target.upstream.script = answerBytes(200, EVENT_STREAM, `event: message_start\ndata: ${event}\n\n`);
  const responses = await target.twice('/v1/messages', `${HOSTILE_REQUEST},"stream":true}`);
  assert.ok(responses.every(({ status }) => status === 200 || status === 502));
  target.upstream.script = script;
});

test('a response of empty objects passes unchanged, and costs its reported usage', async () => {
  const body = `${HOSTILE_ANSWER},${HOSTILE['empty objects']!(SIZE)}}`;
  const { script } = target.upstream;
  target.upstream.script = answerBytes(200, { 'content-type': 'application/json' }, body);
  const translated = await target.twice(
    '/v1/chat/completions',
    `{"model":"coder-1","messages":[{"role":"user","content":"hi"}]}`,
  );
  assert.ok(translated.every(({ status }) => status === 200 || status === 502));
  const response = await ask(target.gateway.url, target.token);
  target.upstream.script = script;
  assert.equal(response.status, 200);
  assert.ok(response.body.equals(Buffer.from(body)));
  const client = new pg.Client(target.database_url);
  await client.connect();
  try {
    const request_id = response.headers['x-gateway-request-id'];
    const row = await until('there is a ledger row', async () => {
      const { rows } = await client.query('select * from ledger where request_id = $1', [request_id]);
      return rows[0];
    });
    assert.deepEqual([Number(row.input_tokens), Number(row.output_tokens)], [100, 40]);
    assert.equal(row.provenance.cost, 'upstream');
  } finally {
    await client.end();
  }
});
