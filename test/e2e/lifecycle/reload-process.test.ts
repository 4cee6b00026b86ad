/** Reloading as operators do: SIGHUP, and `--watch`. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, test } from 'node:test';
import { until } from '../../support/until.ts';
import { send } from '../support/client.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { useProcessScene } from '../support/process-scene.ts';

const pipeline = (message: string) => `pipeline: teapot
version: 1
summary: Always says no.
match: { methods: [GET], paths: [/teapot], protocol: none }
stages:
  - { stage: reject, options: { error: path_not_found, message: ${message} } }
`;

let gateway: GatewayProcess;
let teapot: string;

const config = useProcessScene({
  sections: () => ({ pipelines: 'pipelines' }),
  files: { 'pipelines/teapot.yaml': '' },
});
before(() => {
  teapot = join(config.directory, 'pipelines/teapot.yaml');
});
afterEach(() => gateway?.end('SIGKILL'));

async function start(...more_arguments: string[]): Promise<GatewayProcess> {
  writeFileSync(teapot, pipeline('Short and stout.'));
  gateway = await config.start(...more_arguments);
  return gateway;
}

async function responseText(): Promise<string> {
  return (await send(gateway.url, { method: 'GET', path: '/teapot' })).json().error.message;
}

const says = (message: string) => until(`it says "${message}"`, async () => (await responseText()) === message);

const reloadState = async () =>
  (await send(gateway.url, { method: 'GET', path: '/readyz' })).json().configuration.state;

/** A stage module that leaves a failure behind when it is imported. */
const CARELESS = `import { defineStage } from 'appscli';
Promise.reject(new Error('left behind'));
export default defineStage({
  name: 'careless', version: 1, summary: 'Leaves things behind.', place: 'finally', needs: [], examples: [],
  options: { type: 'object', additionalProperties: false, properties: {} },
  create: () => ({}),
});`;

test('SIGHUP reloads, however often and whatever it imports, and SIGTERM still ends the gateway', async () => {
  const { child, end, output } = await start();
  writeFileSync(teapot, pipeline('Here is my handle.'));
  assert.equal(await responseText(), 'Short and stout.', 'no watcher runs');
  for (let i = 0; i < 20; i++) child.kill('SIGHUP');
  await says('Here is my handle.');
  writeFileSync(teapot, pipeline('Here is my spout.'));
  writeFileSync(join(config.directory, 'careless.ts'), CARELESS);
  const plain = readFileSync(config.config_file, 'utf8');
  writeFileSync(config.config_file, JSON.stringify({ ...JSON.parse(plain), stages: ['careless.ts'] }));
  child.kill('SIGHUP');
  await says('Here is my spout.');
  await until('the failure is reported', () =>
    /"stage":"careless\.ts".*left behind|left behind.*"stage":"careless\.ts"/.test(output()),
  );
  writeFileSync(config.config_file, plain);
  writeFileSync(teapot, 'pipeline: teapot\n');
  child.kill('SIGHUP');
  await until('the failure is reported', async () => (await reloadState()) === 'reload_failed');
  assert.equal(await responseText(), 'Here is my spout.');
  assert.equal(child.exitCode, null);
  assert.deepEqual(await end('SIGTERM'), { code: 0, signal: null }, output());
  const records = output()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const findings = records.filter(({ code }) => code?.startsWith('C'));
  assert.ok(findings.length > 0);
  for (const { file, code } of findings) assert.deepEqual([file, code], [teapot, 'C3002']);
});
