import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigurationError } from '../../../engine/base/source/configuration-error.ts';
import { explain } from '../../../engine/edge/cli/explain/explain.ts';
import { stages as listStages } from '../../../engine/edge/cli/stages.ts';
import { stages } from '../../../stages/index.ts';
import { createProject, GATEWAY } from '../../load/support/project.ts';
import { failure } from '../at-gateway.ts';
import { collectingContext } from '../support.ts';

const NOWHERE = { config: 'no-such-gateway.yaml', config_named: false };

const SIEM = `import { defineStage } from 'appscli';
export default defineStage({
  name: 'siem',
  version: 3,
  summary: 'Sends records to where the security team looks.',
  place: 'finally',
  options: { type: 'object', additionalProperties: false, properties: {
    batch_size: { type: 'integer', minimum: 1, default: 100, description: 'Records per request.' } } },
  examples: [{ title: 'As it is', yaml: '- stage: siem' }],
  create: () => ({ finally() {} }),
});
`;

const projectWith = (files: Readonly<Record<string, string>>) => createProject(files).path('gateway.yaml');

const ownStage = (module: string) =>
  projectWith({ 'gateway.yaml': `${GATEWAY}stages: [siem.ts]\n`, 'siem.ts': module });

test('lists every shipped stage once, with its purpose, in eighty columns', async () => {
  const { context, data } = collectingContext();
  assert.equal(await listStages(context, NOWHERE), 0);
  for (const { name, version } of stages) {
    assert.equal(data().split(`  ${name}@${version} `).length, 2, name);
  }
  for (const line of data().split('\n')) assert.ok(line.length <= 80, line);
});

test("the operator's own stages are listed and explained with the shipped ones", async () => {
  const config = ownStage(SIEM);
  const list = collectingContext();
  await listStages(list.context, { config, config_named: true });
  assert.match(list.data(), /siem@3 \(yours\) +Sends records/);
  const explanation = collectingContext();
  await explain(explanation.context, { word: 'stage', name: 'siem', config, config_named: true });
  assert.match(explanation.data(), /batch_size: type "integer"; minimum 1; default 100; Records per request\./);
});

test('the list as JSON contains whole definitions', async () => {
  const { context, data } = collectingContext();
  await listStages(context, { config: ownStage(SIEM), config_named: true, json: true });
  const list = JSON.parse(data()) as { name: string; own: boolean; options: { properties: object } }[];
  const listed = list.map(({ name }) => name);
  assert.deepEqual(listed, [...stages.map(({ name }) => name), 'siem']);
  const siem = list.find(({ name }) => name === 'siem');
  assert.equal(siem?.own, true);
  assert.deepEqual(Object.keys(siem?.options.properties ?? {}), ['batch_size']);
});

test('a mistake elsewhere in the configuration does not matter', async () => {
  const { context, data } = collectingContext();
  const config = projectWith({ 'gateway.yaml': `${GATEWAY}spend_limit: {}\nstages: [siem.ts]\n`, 'siem.ts': SIEM });
  await listStages(context, { config, config_named: true });
  assert.match(data(), /siem@3/);
});

test('a configuration that was named must be there, and so must its stages', async () => {
  const { context } = collectingContext();
  await assert.rejects(
    listStages(context, { config: ownStage('throw new Error("broken");'), config_named: true }),
    ConfigurationError,
  );
  assert.equal((await failure(listStages(context, { ...NOWHERE, config_named: true }))).exit_code, 78);
});
