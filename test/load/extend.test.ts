import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { describe, test } from 'node:test';
import type { StageEntry } from '../../engine/base/source/spec.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { stages } from '../../stages/index.ts';
import { GATEWAY, projectOfTest } from './support/project.ts';

const guarded = (id: string, condition = '{ var: request.stream }') =>
  `{ stage: reject, id: ${id}, when: ${condition}, options: { error: forbidden } }`;

const MODEL_REQUESTS = ['messages', 'chat-completions', 'responses'];

/** The pipelines of a project whose files have no mistake, by name. */
async function pipelinesOf(more: string, files: Readonly<Record<string, string>> = {}) {
  const project = projectOfTest({ 'gateway.yaml': `${GATEWAY}${more}`, ...files });
  const options = { stages, env: { UPSTREAM_KEY: 'a-key' }, environment: 'required' } as const;
  const loaded = await load(project.path('gateway.yaml'), options);
  const errors = loaded.diagnostics.filter(({ severity }) => severity === 'error');
  assert.deepEqual(errors, []);
  return new Map(loaded.pipelines.map((pipeline) => [pipeline.name, pipeline]));
}

/** The pipelines with one file of the operator's. */
const extended = (text: string, more = '') =>
  pipelinesOf(`pipelines: pipelines\n${more}`, { 'pipelines/more.yaml': text });

const idsOf = (entries: readonly StageEntry[] = []) => entries.map(({ id }) => id);

describe('a pipeline that extends', () => {
  test('several adds its stages to each of them, in the order of the file', async () => {
    const pipelines = await extended(`extends: model-requests
insert:
  - { after: read-body, stages: [${guarded('a')}, ${guarded('b')}] }
  - { after: read-body, stages: [${guarded('c')}] }
  - { before: resolve-route, stages: [${guarded('d')}] }
  - { before: forward, stages: [${guarded('e')}] }
`);
    for (const name of MODEL_REQUESTS) {
      const ids = idsOf(pipelines.get(name)?.stages);
      assert.deepEqual(ids.slice(0, 7), ['authenticate', 'read-body', 'a', 'b', 'c', 'd', 'resolve-route'], name);
      assert.deepEqual(ids.slice(-2), ['e', 'forward'], name);
    }
    assert.ok(!idsOf(pipelines.get('count-tokens')?.stages).includes('a'));
  });

  test('may remove and replace entries that only some of them have', async () => {
    const pipelines = await extended('extends: model-requests\nremove: [include-usage]\n');
    for (const name of MODEL_REQUESTS) assert.ok(!idsOf(pipelines.get(name)?.stages).includes('include-usage'), name);
    const entries = '[{ id: include-usage, stage: include-usage, timeout_seconds: 3 }]';
    const replaced = await extended(`extends: model-requests\nreplace: ${entries}\n`);
    const asking = MODEL_REQUESTS.filter((name) => idsOf(replaced.get(name)?.stages).includes('include-usage'));
    assert.deepEqual(asking, ['chat-completions']);
    const entry = replaced.get('chat-completions')?.stages.find(({ id }) => id === 'include-usage');
    assert.equal(entry?.timeout_seconds, 3);
  });

  test('keeps the position of each entry', async () => {
    const insert = `insert:\n  - after: read-body\n    stages: [${guarded('a')}]\n`;
    const pipelines = await extended(`extends: responses\n${insert}`);
    const places = pipelines.get('responses')?.stages.map(({ id, position }) => [id, basename(position.file)]);
    assert.deepEqual(places?.slice(1, 4), [
      ['read-body', 'model-requests.yaml'],
      ['a', 'more.yaml'],
      ['resolve-route', 'model-requests.yaml'],
    ]);
    assert.equal(pipelines.get('responses')?.stages[2]?.position.line, 4);
  });

  test('with its own name and requests leaves the other unchanged', async () => {
    const pipelines = await extended(`extends: messages
pipeline: mine
match: { methods: [POST], paths: [/mine], protocol: messages }
insert: [{ after: read-body, stages: [${guarded('a')}] }]
`);
    assert.deepEqual(pipelines.get('mine')?.match.paths, ['/mine']);
    assert.ok(idsOf(pipelines.get('mine')?.stages).includes('a'));
    assert.ok(!idsOf(pipelines.get('messages')?.stages).includes('a'));
  });
});

describe('stages for all pipelines', () => {
  const all_pipelines = `all_pipelines:
  insert: [{ after: read-body, stages: [${guarded('a')}] }]
  finally: [{ stage: audit, id: again }]
`;

  test('are in every one that sends requests upstream, and at the end of all', async () => {
    const pipelines = await pipelinesOf(all_pipelines);
    for (const [name, { stages, finally: last }] of pipelines) {
      const is_sending = stages.some(({ definition }) => definition.name === 'forward');
      assert.equal(idsOf(stages).includes('a'), is_sending, name);
      assert.equal(idsOf(last).at(-1), 'again', name);
    }
    const having = [...pipelines.keys()].filter((name) => idsOf(pipelines.get(name)!.stages).includes('a'));
    assert.deepEqual(having.sort(), ['chat-completions', 'count-tokens', 'messages', 'responses']);
  });

  test("are in the operator's pipelines, too, after their extensions", async () => {
    const own = `extends: messages
insert: [{ after: read-body, stages: [${guarded('b', '{ "!": { var: request.stream } }')}] }]
finally: [{ stage: audit, id: own }]
`;
    const pipelines = await extended(own, all_pipelines);
    const { stages, finally: last } = pipelines.get('messages')!;
    assert.deepEqual(idsOf(stages).slice(1, 5), ['read-body', 'a', 'b', 'resolve-route']);
    assert.deepEqual(idsOf(last), ['audit', 'own', 'again']);
  });

  test('can be limited to some of them', async () => {
    const pipelines = await pipelinesOf(
      `all_pipelines: { insert: [{ after: read-body, pipelines: [model-requests], stages: [${guarded('a')}] }] }\n`,
    );
    const having = [...pipelines.values()].filter(({ stages }) => idsOf(stages).includes('a'));
    assert.deepEqual(having.map(({ name }) => name).sort(), [...MODEL_REQUESTS].sort());
  });
});
