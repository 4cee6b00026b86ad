import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ModelCapabilities } from '@anthropic-ai/sdk/resources/models';
import type { Answer, ModelConfig } from '../../engine/api.ts';
import { type Facts, openStage, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import listModels from '../../stages/list-models.ts';
import { raisedBy } from '../support/raised.ts';

interface Page {
  readonly data: readonly { readonly id: string }[];
  readonly has_more: boolean;
}

const CALLER: Facts = { 'principal.email': 'alice@example.com', 'principal.groups': ['all'] };

const [template] = stageConfig().models;

function manyModels(count: number): readonly ModelConfig[] {
  return Array.from({ length: count }, (_, i) => ({ ...template!, id: `model-${i}`, upstream_ids: {} }));
}

function get(path: string, { group = 'all', models = stageConfig().models } = {}) {
  const stage = openStage(listModels, { config: stageConfig({ models }) });
  const ctx = stage.request({ url: `/v1/models${path}`, facts: { ...CALLER, 'principal.token.group': group } });
  const { status, headers, body } = stage.hooks.request!(ctx) as Answer;
  assert.deepEqual([status, headers['content-type']], [200, 'application/json']);
  return JSON.parse(body);
}

const list = (query = '', more?: Parameters<typeof get>[1]): Page => get(query, more);
const one = (path: string, more?: Parameters<typeof get>[1]): { readonly id: string } => get(`/${path}`, more);

type Able = ModelCapabilities & Readonly<Record<'tools' | 'prompt_cache_1h', { readonly supported: boolean }>>;

const capabilities = (entry: unknown) => (entry as { capabilities: Able }).capabilities;

const refusal = (query: string) => raisedBy(() => list(query));

describe('list-models', () => {
  it('serves Messages and chat-completions clients with one body, also a group without models', () => {
    const page = list();
    const [first] = page.data;
    assert.deepEqual(first, {
      ...{ type: 'model', object: 'model', id: 'coder-1', display_name: 'Coder 1', owned_by: 'gateway' },
      ...{ created_at: '1970-01-01T00:00:00Z', created: 0, capabilities: capabilities(first) },
      ...{ max_input_tokens: 200_000, context_window: 200_000, max_tokens: 64_000 },
      ...{ lifecycle: 'active', line: null, deprecated_at: null, retires_at: null },
    } as object);
    const paging = { has_more: false, first_id: 'coder-1', last_id: 'writer-1' };
    assert.deepEqual(page, { object: 'list', data: page.data, ...paging, models: [] } as object);
    const none = { has_more: false, first_id: null, last_id: null };
    assert.deepEqual(list('', { group: 'gone' }), { object: 'list', data: [], ...none, models: [] } as object);
  });

  it('reports the capabilities in gateway.yaml, and nothing else', () => {
    const kinds = [
      { tools: true, images: true, thinking: 'adaptive', sampling: true, prompt_cache_1h: true },
      { tools: false, images: false, thinking: 'budget', sampling: false, prompt_cache_1h: false },
      { tools: true, images: false, thinking: 'none', sampling: false, prompt_cache_1h: false },
    ] as const;
    const models = kinds.map((supports, i) => ({ ...template!, id: `model-${i}`, supports }));
    const seen = list('', { models }).data.map((entry) => capabilities(entry));
    const listed = seen.map(({ tools, image_input, thinking, effort, prompt_cache_1h }) => {
      const { adaptive, enabled } = thinking.types;
      return [tools, image_input, thinking, adaptive, enabled, effort, prompt_cache_1h].map((one) => one.supported);
    });
    assert.deepEqual(listed, [
      [true, true, true, true, false, true, true],
      [false, false, true, false, true, false, false],
      [true, false, false, false, false, false, false],
    ]);
    assert.deepEqual([seen[0]!.batch, seen[0]!.citations], [{ supported: null }, { supported: null }]);
  });

  it('describes one model by its identifier or an alias, whatever characters they have', () => {
    const models = [
      { ...template!, id: 'made by/us: ü?#', aliases: ['latest', 'team/models/latest'] },
      { ...template!, id: 'latest-1', aliases: [] },
    ];
    const id = 'made by/us: ü?#';
    assert.equal(one(encodeURIComponent(id), { models }).id, id);
    assert.equal(one('made%20by/us%3A%20%C3%BC%3F%23', { models }).id, id);
    assert.equal(one('latest', { models }).id, id);
    assert.equal(one('team/models/latest?beta=true', { models }).id, id);
    assert.deepEqual(one('latest-1', { models }), list('', { models }).data[1]);
  });

  it('responds for a model of another group exactly as for an unknown one', () => {
    for (const id of ['coder-1', 'nothing', '__proto__', 'constructor', '', '%2e%2e/admin']) {
      assert.throws(() => one(id, { group: 'writers' }), { code: 'model_not_found', name: 'StageError' }, id);
    }
    assert.throws(() => one('x'.repeat(5000)), /"x{100}\.\.\."/);
    assert.throws(() => one('%E0%A4%A'), { code: 'invalid_request' });
  });

  it('serializes each model once', (t) => {
    const stage = openStage(listModels, { config: stageConfig({ models: manyModels(1000) }) });
    const facts = { ...CALLER, 'principal.token.group': 'all' };
    const ask = () => stage.hooks.request!(stage.request({ url: '/v1/models?limit=1000', facts }));
    ask();
    const stringify = t.mock.method(JSON, 'stringify');
    ask();
    assert.equal(stringify.mock.callCount(), 2, 'the first and the last identifier of the page');
  });

  it('returns everything to clients without paging, and 20 per page without a size', () => {
    const models = manyModels(50);
    assert.equal(list('', { models }).data.length, 50);
    assert.equal(list('', { models: manyModels(1001) }).data.length, 1001);
    assert.equal(list('?limit=1000', { models }).data.length, 50);
    assert.equal(list('?after_id=model-0', { models }).data.length, 20);
  });

  it('pages forwards and backwards', () => {
    const page = (query: string) => {
      const { data, has_more } = list(query, { models: manyModels(5) });
      return [...data.map(({ id }) => id), ...(has_more ? ['...'] : [])].join(' ');
    };
    assert.equal(page('?limit=2&after_id=model-1'), 'model-2 model-3 ...');
    assert.equal(page('?limit=2&before_id=model-3'), 'model-1 model-2 ...');
    assert.equal(page('?limit=3&before_id=model-3'), 'model-0 model-1 model-2');
  });

  it('names the parameter that is wrong', () => {
    for (const limit of ['0', '1001', '-1', '2.5', 'ten', '', '1e2']) {
      const { code, message, details } = refusal(`?limit=${limit}`);
      assert.deepEqual([code, details], ['invalid_request', { param: 'limit' }]);
      assert.match(message, /^limit: .*1 to 1000/);
    }
    assert.equal(refusal('?after_id=nothing').details.param, 'after_id');
    assert.equal(refusal('?before_id=nothing').details.param, 'before_id');
    assert.match(refusal('?after_id=coder-1&before_id=coder-2').message, /^before_id: /);
    assert.throws(() => list('?after_id=coder-1', { group: 'writers' }), /^StageError: after_id: /, 'as if unknown');
    assert.equal(list('?client_version=9&limit=1').data.length, 1, 'others are ignored');
  });
});
