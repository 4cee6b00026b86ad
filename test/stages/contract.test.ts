import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { JsonSchema, StageDefinition } from '../../engine/api.ts';
import type { Diagnostic } from '../../engine/base/source/diagnostics/diagnostic.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { definitionProblem } from '../../engine/pipeline/load/stage-definition.ts';
import { stages } from '../../stages/index.ts';
import { gatewayConfig } from '../support/gateway.ts';
import { ownDirectory } from '../support/own-directory.ts';

const STAGES = join(import.meta.dirname, '..', '..', 'stages');

/** Every schema of a value inside a schema, with its path. */
function* valueSchemas(schema: JsonSchema, path: string): Generator<readonly [path: string, schema: JsonSchema]> {
  for (const [key, child] of Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>)) {
    yield [`${path}.${key}`, child];
    yield* valueSchemas(child, `${path}.${key}`);
  }
  if (schema.items !== undefined) yield* valueSchemas(schema.items as JsonSchema, `${path}[]`);
}

/** Stages that write an example's facts, in the order of the shipped pipelines. */
const COMPANY = [
  ...['authenticate', 'read-body', 'resolve-route', 'check-budget', 'meter-usage', 'include-usage', 'translate'],
  ...['forward', 'reject'],
];

function entry(name: string): string {
  return name === 'reject' ? '- stage: reject\n  options: { error: forbidden }' : `- stage: ${name}`;
}

/** A pipeline around an example: the example is at its stage's usual place, the stages before it are there. */
function pipelineAround(stage: StageDefinition, example: string): string {
  const at = COMPANY.indexOf(stage.name);
  const company = stage.name === 'route-to' ? ['authenticate', 'read-body'] : ['authenticate'];
  const others = at < 0 ? company : COMPANY.slice(0, at);
  const before_it = stage.terminal ? others.filter((name) => name !== 'forward' && name !== 'reject') : others;
  const response = stage.terminal && !/^ {2}when:/m.test(example) ? [] : [entry('reject')];
  const middle = stage.place === 'finally' ? [] : [example];
  const indent = (text: string) => text.replace(/^/gm, '  ');
  return [
    'pipeline: example',
    'version: 1',
    'summary: Holds one example.',
    'match: { methods: [POST], paths: [/example], protocol: messages }',
    'stages:',
    ...[...before_it.map(entry), ...middle, ...response].map(indent),
    'finally:',
    indent(stage.place === 'finally' ? example : entry('audit')),
    '',
  ].join('\n');
}

describe('stages', () => {
  const directory = ownDirectory();

  async function diagnose(pipeline: string, name: string): Promise<readonly Diagnostic[]> {
    const own = await mkdtemp(join(directory, 'example-'));
    const config = join(own, 'gateway.yaml');
    await writeFile(join(own, `${name}.yaml`), pipeline);
    await writeFile(config, JSON.stringify(gatewayConfig('http://127.0.0.1:9', { pipelines: '.' })));
    const { diagnostics } = await load(config, { stages, env: {}, environment: 'ignored' });
    return diagnostics.filter(({ file }) => file.endsWith(`${name}.yaml`));
  }

  it('are all in the list, each under the name of its file', async () => {
    const files = readdirSync(STAGES).filter((file) => file.endsWith('.ts') && file !== 'index.ts');
    assert.deepEqual(stages.map((stage) => `${stage.name}.ts`).toSorted(), files.toSorted());
    for (const stage of stages) {
      const module = (await import(join(STAGES, `${stage.name}.ts`))) as { default: StageDefinition };
      assert.equal(module.default, stage);
    }
  });

  for (const stage of stages) {
    it(`${stage.name} has a summary of one sentence, closed options that are described, and names nothing twice`, () => {
      assert.equal(definitionProblem(stage), undefined);
      assert.match(stage.summary, /^[A-Z][^.!?\n]{10,160}\.$/);
      assert.equal(stage.options.additionalProperties, false);
      for (const [path, schema] of valueSchemas(stage.options, 'options')) {
        assert.match(String(schema.description), /^[A-Z].*\.$/, `${path} needs a sentence`);
        if (schema.type !== 'object') continue;
        assert.notEqual(schema.additionalProperties ?? true, true, `${path} takes any key`);
      }
      for (const list of [[...stage.reads, ...stage.readsIfSet], stage.writes, stage.raises, stage.needs]) {
        assert.equal(new Set<string>(list).size, list.length, list.join(', '));
      }
      if (stage.terminal && stage.name !== 'reject') assert.ok(stage.needs.includes('respond'));
    });

    it(`${stage.name} shows examples that compile, and rejects an unknown option`, async () => {
      assert.ok(stage.examples.length > 0);
      for (const { title, yaml } of stage.examples) {
        assert.match(title, /^[A-Z]/);
        assert.match(yaml, new RegExp(`^- (.*\\n {2})*stage: ${stage.name}\\b`));
        const diagnostics = await diagnose(pipelineAround(stage, yaml), 'example');
        const found = diagnostics.map(({ code, message, line }) => `${line}: ${code} ${message}`);
        assert.deepEqual(found, [], `${title}:\n${yaml}`);
      }
      const wrong = `- stage: ${stage.name}\n  options: { surely_not_an_option: 1 }`;
      const diagnostics = await diagnose(pipelineAround(stage, wrong), 'example');
      assert.ok(diagnostics.some(({ message }) => message.includes('surely_not_an_option')));
    });
  }
});
