/** Facts and audit fields of operators' stages. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import type { Relay } from '../../engine/base/contract/stage.ts';
import type { CompiledStage } from '../../engine/pipeline/run/compiled.ts';
import { checkResult } from '../../engine/pipeline/run/contained/result.ts';
import { ask } from '../e2e/support/client.ts';
import { bootGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/model-provider/scripted-upstream.ts';
import { ownDirectory } from '../support/own-directory.ts';
import { until } from '../support/until.ts';
import { use } from '../support/use.ts';

const STAGE = `
import { defineStage, openPrompt, StageError } from 'appscli';
export default defineStage({
  name: 'rude', version: 1, summary: 'Has no manners.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'Run', yaml: '- stage: rude' }],
  raises: ['forbidden'],
  facts: { seconds: { type: 'integer', description: 'How long it took.', recorded: true } },
  needs: ['raw-body', 'database'],
  create: (_options, { audit }) => ({
    async request(ctx) {
      for (const { text } of await openPrompt(ctx)) {
        if (text.startsWith('write ')) audit.write(JSON.parse(text.slice(6)));
        if (text.endsWith('"refuse"}')) throw new StageError('forbidden', 'No.');
        if (text.endsWith('"fail"}')) throw new Error('broken');
        if (text === 'lie') ctx.setFact('seconds', 'many');
      }
      ctx.setFact('seconds', 1);
      return undefined;
    },
  }),
});`;

const LAST = `
import { defineStage } from 'appscli';
export default defineStage({
  name: 'last-word', version: 1, summary: 'Has the last word.', place: 'finally',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'Run', yaml: 'finally: [{ stage: last-word }]' }],
  readsIfSet: ['outcome.status'],
  needs: ['database'],
  create: (_options, { audit }) => ({
    finally(ctx) {
      audit.write({ status: ctx.get('outcome.status') });
    },
  }),
});`;

const directory = ownDirectory();

before(() => writeFile(join(directory, 'rude.ts'), STAGE));
const upstream = use(startUpstream);
before(() => writeFile(join(directory, 'last-word.ts'), LAST));
const gateway = use(() => {
  const insert = [
    { after: 'read-body', stages: [{ stage: 'rude' }] },
    { before: 'audit', stages: [{ stage: 'last-word' }] },
  ];
  const all_pipelines = { insert, finally: [{ stage: 'last-word', id: 'too-late' }] };
  const config = { stages: [join(directory, 'rude.ts'), join(directory, 'last-word.ts')], all_pipelines };
  return bootGateway({ upstream_url: upstream.url, config });
});

const say = (content: string) => ask(gateway.url, gateway.token, { messages: [{ role: 'user', content }] });
const logged = () => gateway.logs.join('\n');

async function recordOf(response: { headers: Readonly<Record<string, unknown>> }) {
  const id = response.headers['x-gateway-request-id'];
  const rows = await until('the record is stored', async () => {
    const found = await gateway.database.knex('audit_log').where({ request_id: id });
    return found.length > 0 && found;
  });
  assert.equal(rows.length, 1);
  return rows[0].record;
}

test('audit fields of a stage are in the record of a served, rejected or failed request, and change no other field', async () => {
  for (const [end, status] of Object.entries({ serve: 200, refuse: 403, fail: 500 })) {
    const own = { ticket: 'T-1', risk: 0.5, checked: true, lists: ['a', 'b'] };
    const fields = { ...own, user: 'mallory', request_id: 'x', end };
    const response = await say(`write ${JSON.stringify(fields)}`);
    assert.equal(response.status, status, response.text);
    const record = await recordOf(response);
    const { seconds, ...written } = record.found.rude;
    assert.deepEqual(written, fields);
    assert.equal(seconds, end === 'serve' ? 1 : undefined);
    assert.equal(record.status, status);
    assert.notEqual(record.user, 'mallory');
  }
});

test('an invalid audit field fails the stage, is named, and is not recorded', async () => {
  for (const fields of [
    { text: 'x'.repeat(201) },
    { deep: { a: 1 } },
    { long: Array.from({ length: 21 }, () => 1) },
    { 'Not a name': 1 },
    Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`f${index}`, 1])),
  ]) {
    const response = await say(`write ${JSON.stringify(fields)}`);
    assert.equal(response.status, 500, JSON.stringify(fields));
    assert.equal((await recordOf(response)).found.rude, undefined);
  }
  assert.match(logged(), /the audit field \\?"deep\\?" must be/);
});

test('a fact has its declared type, and wins over an audit field of the same name', async () => {
  assert.equal((await say('lie')).status, 500);
  assert.match(logged(), /the fact \\?"seconds\\?" must be integer, as/);
  for (const said of ['Hello', 'write {"seconds":99}'])
    assert.deepEqual((await recordOf(await say(said))).found.rude, { seconds: 1 });
});

test('under `finally:` a stage can add audit fields above `audit`; below it, the log has an error', async () => {
  const response = await say('Hello');
  const record = await recordOf(response);
  assert.deepEqual(record.found['last-word'], { status: 200 });
  await until('it is logged', () => logged().includes('list the stage above'));
});

test('a relay has positive timeouts, and an `inspect` that returns an error or nothing', () => {
  const stage = { id: 'relays', definition: { needs: ['respond', 'network'], raises: [] } };
  const check = (more: object) => {
    const response = Object.assign(new IncomingMessage(new Socket()), { statusCode: 200 });
    const relay = { kind: 'relay', response, idle_seconds: 1, ...more };
    return checkResult({ stage: undefined }, stage as unknown as CompiledStage, relay) as Relay;
  };
  for (const seconds of [0, NaN, Infinity, 'soon'])
    for (const which of ['idle_seconds', 'first_chunk_seconds'])
      assert.throws(() => check({ [which]: seconds }), new RegExp(which));
  assert.equal(check({ first_chunk_seconds: 2 }).first_chunk_seconds, 2);
  for (const refusal of ['No.', null, new Error('No.')])
    assert.throws(() => check({ inspect: () => refusal }).inspect!(undefined), /must return a StageError or nothing/);
  assert.equal(check({ inspect: () => undefined }).inspect!(undefined), undefined);
});
