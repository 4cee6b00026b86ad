import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Answer, ModelConfig } from '../../engine/api.ts';
import { StageError } from '../../engine/errors.ts';
import { type Facts, openStage, stageConfig } from '../../engine/testing/stage-harness.ts';
import listModels from '../../stages/list-models.ts';

interface Page {
  readonly object: string;
  readonly data: readonly { readonly id: string }[];
  readonly has_more: boolean;
  readonly first_id: string | null;
  readonly last_id: string | null;
}

const CALLER: Facts = {
  'principal.email': 'alice@example.com',
  'principal.groups': ['all'],
};

function manyModels(count: number): readonly ModelConfig[] {
  const [template] = stageConfig().models;
  return Array.from({ length: count }, (_, i) => ({ ...template!, id: `model-${i}`, upstream_ids: {} }));
}

function list(query = '', { group = 'all', models = stageConfig().models } = {}): Page {
  const stage = openStage(listModels, { config: stageConfig({ models }) });
  const ctx = stage.request({ url: `/v1/models${query}`, facts: { ...CALLER, 'principal.token.group': group } });
  const answer = stage.hooks.request!(ctx) as Answer;
  assert.equal(answer.status, 200);
  assert.equal(answer.headers['content-type'], 'application/json');
  return JSON.parse(answer.body);
}

function ids(page: Page): string[] {
  return page.data.map((entry) => entry.id);
}

function refusal(query: string): StageError {
  try {
    list(query);
  } catch (error) {
    assert.ok(error instanceof StageError);
    return error;
  }
  throw new assert.AssertionError({ message: `${query} was accepted` });
}

describe('list-models', () => {
  it('serves Messages and chat-completions clients with one body', () => {
    const page = list();
    assert.deepEqual(page.data[0], {
      type: 'model',
      object: 'model',
      id: 'coder-1',
      display_name: 'Coder 1',
      created_at: '1970-01-01T00:00:00Z',
      created: 0,
      owned_by: 'gateway',
    } as object);
    assert.deepEqual({ ...page, data: undefined }, {
      object: 'list',
      data: undefined,
      has_more: false,
      first_id: 'coder-1',
      last_id: 'writer-1',
    } as object);
  });

  it("lists only what the caller's token group may use", () => {
    assert.deepEqual(ids(list('', { group: 'writers' })), ['writer-1']);
  });

  it('answers a group without models with an empty list', () => {
    assert.deepEqual(list('', { group: 'gone' }), {
      object: 'list',
      data: [],
      has_more: false,
      first_id: null,
      last_id: null,
    });
  });

  it('gives everything to clients that know no pages, and 20 to those that page without a size', () => {
    const models = manyModels(50);
    assert.equal(list('', { models }).data.length, 50);
    assert.equal(list('?limit=1000', { models }).data.length, 50);
    assert.equal(list('?after_id=model-0', { models }).data.length, 20);
  });

  it('pages forwards and backwards', () => {
    const models = manyModels(5);
    const after = list('?limit=2&after_id=model-1', { models });
    assert.deepEqual(ids(after), ['model-2', 'model-3']);
    assert.equal(after.has_more, true);
    const before = list('?limit=2&before_id=model-3', { models });
    assert.deepEqual(ids(before), ['model-1', 'model-2']);
    assert.equal(before.has_more, true);
    assert.equal(list('?limit=3&before_id=model-3', { models }).has_more, false);
  });

  it('shows every model exactly once to a client that follows the pages', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 1, max: 10 }), (count, limit) => {
        const models = manyModels(count);
        const seen: string[] = [];
        let cursor = '';
        for (;;) {
          const page = list(`?limit=${limit}${cursor}`, { models });
          seen.push(...ids(page));
          if (!page.has_more) break;
          cursor = `&after_id=${page.last_id}`;
        }
        assert.deepEqual(
          seen,
          models.map((model) => model.id),
        );
      }),
      { numRuns: 50 },
    );
  });

  it('names the parameter that is wrong', () => {
    for (const limit of ['0', '1001', '-1', '2.5', 'ten', '', '1e2']) {
      const error = refusal(`?limit=${limit}`);
      assert.equal(error.code, 'invalid_request');
      assert.match(error.message, /^limit: .*1 to 1000/);
      assert.deepEqual(error.details, { param: 'limit' });
    }
    assert.equal(refusal('?after_id=nothing').details.param, 'after_id');
    assert.equal(refusal('?before_id=nothing').details.param, 'before_id');
    assert.match(refusal('?after_id=coder-1&before_id=coder-2').message, /^before_id: /);
  });

  it('treats the id of a model of another group as unknown', () => {
    assert.throws(() => list('?after_id=coder-1', { group: 'writers' }), /^StageError: after_id: /);
  });

  it('ignores parameters it does not know', () => {
    assert.equal(list('?client_version=9&limit=1').data.length, 1);
  });
});
