import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createFindings } from '../engine/load/findings.ts';
import { load } from '../engine/load/index.ts';
import { entryOf, itemsOf, textOf } from '../engine/load/node.ts';
import { readSource } from '../engine/load/source.ts';
import { stages } from '../stages/index.ts';
import { gatewayConfig } from './support/gateway.ts';
import { openPipelineRunner, type PipelineRunner } from './support/pipeline-runner.ts';
import { describeFinding, readPipelineTest } from './support/pipeline-test-file.ts';

const PIPELINES = join(import.meta.dirname, '..', 'pipelines');
const files = readdirSync(PIPELINES);
const test_files = files.filter((name) => name.endsWith('.test.yaml'));

/** The first path a pipeline serves. */
function pathOf(pipeline_file: string): string {
  const match = entryOf(readSource(pipeline_file, createFindings()), 'match');
  return textOf(itemsOf(entryOf(match?.value, 'paths')?.value)[0])!;
}

it('has a test file for every shipped pipeline', () => {
  const pipelines = files.filter((name) => name.endsWith('.yaml') && !name.endsWith('.test.yaml'));
  assert.deepEqual(
    test_files,
    pipelines.map((name) => name.replace(/\.yaml$/, '.test.yaml')),
  );
});

it('shows pipelines and tests in the README that are accepted', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'appscli-readme-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const readme = readFileSync(join(PIPELINES, 'README.md'), 'utf8');
  const blocks = [...readme.matchAll(/^```yaml\n(.*?)^```$/gms)].map((match) => match[1]!);
  assert.equal(blocks.length, 2);
  for (const block of blocks) {
    const name = /^pipeline: (.+)$/m.exec(block)![1]!;
    await writeFile(join(directory, `${name}${block.includes('\ncases:') ? '.test' : ''}.yaml`), block);
    if (block.includes('\ncases:')) readPipelineTest(join(directory, `${name}.test.yaml`));
  }
  const config_file = join(directory, 'gateway.yaml');
  await writeFile(config_file, JSON.stringify(gatewayConfig('http://127.0.0.1:9', { pipelines: '.' })));
  const { diagnostics } = await load(config_file, { stages, env: {}, environment: 'ignored' });
  assert.deepEqual(diagnostics.filter(({ file }) => file !== config_file).map(describeFinding), []);
});

for (const name of test_files) {
  const test = readPipelineTest(join(PIPELINES, name));
  describe(`the pipeline ${test.pipeline}`, () => {
    let runner: PipelineRunner;
    before(async () => {
      runner = await openPipelineRunner(test, pathOf(join(PIPELINES, `${test.pipeline}.yaml`)));
    });
    after(() => runner?.close());
    test.cases.forEach((test_case, index) => {
      it(test_case.name, () => runner.run(index));
    });
  });
}
