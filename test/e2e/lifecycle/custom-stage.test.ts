/** A stage of the operator's own, loaded from gateway.yaml, in a pipeline of the operator's own. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { bootGateway, type TestGateway, UPSTREAM_KEY } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';

const STAGE = `
import { appendFileSync } from 'node:fs';
import { defineStage } from 'appscli';
export default defineStage({
  name: 'witness', version: 1, place: 'finally', summary: 'Writes down the headers it sees.',
  options: { type: 'object', additionalProperties: false, properties: { file: { type: 'string', description: 'Where.' } } },
  examples: [], needs: [],
  create: ({ file }) => ({ finally: (ctx) => appendFileSync(file, JSON.stringify(ctx.headers) + '\\n') }),
});
`;

let directory: string;
let upstream: ScriptedUpstream;
let gateway: TestGateway;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'custom-stage-'));
  await mkdir(join(directory, 'pipelines'));
  await writeFile(join(directory, 'witness.ts'), STAGE);
  const seen = join(directory, 'seen.jsonl');
  await writeFile(
    join(directory, 'pipelines/seen.yaml'),
    `extends: messages\nfinally: [{ stage: witness, options: { file: ${seen} } }]\n`,
  );
  upstream = await startUpstream();
  const config = { pipelines: join(directory, 'pipelines'), stages: [join(directory, 'witness.ts')] };
  gateway = await bootGateway({ upstream_url: upstream.url, config });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await rm(directory, { recursive: true });
});

test('a custom stage sees the headers the client sent, never the credential of the upstream', async () => {
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  const seen = () => readFile(join(directory, 'seen.jsonl'), 'utf8').catch(() => '');
  await until('the stage has written', async () => (await seen()) !== '');
  const text = await seen();
  assert.ok(!text.includes(UPSTREAM_KEY));
  assert.equal(JSON.parse(text).host, new URL(gateway.url).host);
});
