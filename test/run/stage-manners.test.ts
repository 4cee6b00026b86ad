/** A stage that ends the process or keeps it from everything else is caught and named; the gateway goes on. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ask } from '../e2e/support/client.ts';
import { bootGateway, type TestGateway } from '../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../support/model-provider/scripted-upstream.ts';
import { until } from '../support/until.ts';

const STAGE = `
import { exit } from 'node:process';
import { defineStage, openPrompt } from 'appscli';
export default defineStage({
  name: 'rude', version: 1, summary: 'Has no manners.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'Run', yaml: '- stage: rude' }],
  facts: { seconds: { type: 'integer', description: 'How long it took.', recorded: true } },
  needs: ['raw-body'],
  create: () => ({
    async request(ctx) {
      for (const { text } of await openPrompt(ctx)) {
        if (text === 'exit') exit(3);
        if (text === 'kill') process.kill(process.pid, 'SIGKILL');
        if (text === 'block') for (const until = Date.now() + 500; Date.now() < until; );
        if (text === 'lie') ctx.noteFact('seconds', 'many');
      }
      ctx.noteFact('seconds', 1);
      return undefined;
    },
  }),
});`;

let directory: string;
let upstream: ScriptedUpstream;
let gateway: TestGateway;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'appscli-rude-'));
  await writeFile(join(directory, 'rude.ts'), STAGE);
  upstream = await startUpstream();
  upstream.script = answerJson(message());
  const everywhere = { insert: [{ after: 'read-body', stages: [{ stage: 'rude' }] }] };
  const config = { stages: [join(directory, 'rude.ts')], everywhere };
  gateway = await bootGateway({ upstream_url: upstream.url, config });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await rm(directory, { recursive: true });
});

const say = (content: string) => ask(gateway.url, gateway.token, { messages: [{ role: 'user', content }] });
const logged = () => gateway.logs.join('\n');

test('a stage that ends the process fails, named, and nobody else notices', async () => {
  for (const word of ['exit', 'kill']) {
    const { status, text } = await say(word);
    assert.equal(status, 500, text);
    assert.match(text, /rude/);
    await until('the log says so', () => logged().includes(`process.${word}`));
  }
  assert.equal((await say('Hello')).status, 200);
});

test('a stage that keeps everything waiting is named in the log', async () => {
  assert.equal((await say('block')).status, 200);
  const line = await until('the log says so', () =>
    gateway.logs.find((each) => each.includes('kept all requests waiting')),
  );
  assert.match(line, /rude/);
});

test('a fact is what the stage says it is, and its record tells it', async () => {
  assert.equal((await say('lie')).status, 500);
  assert.match(logged(), /the fact \\?"seconds\\?" is not given what it is declared to be, integer/);
  const answer = await say('Hello');
  const id = answer.headers['x-gateway-request-id'];
  const record = await until('the record is stored', async () => {
    const rows = await gateway.database.knex('audit_log').where({ request_id: id });
    return rows[0]?.record;
  });
  assert.deepEqual(record.found, { rude: { seconds: 1 } });
});
