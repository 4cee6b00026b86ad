import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { GatewayConfig } from '../../engine/contract/config.ts';
import { stageConfig } from '../../engine/simulate/stage-harness.ts';
import { createFoundModels } from '../../engine/upstreams/found-models.ts';
import { type ModelLists, NO_LISTS } from '../../engine/upstreams/lists/model-lists.ts';
import type { ToldOfModel } from '../../engine/upstreams/lists/read-list.ts';

const LISTED = 'claude-sonnet-4-5-20250929';

function find(lists: ModelLists, base_url = 'https://models.example.com', sections: Partial<GatewayConfig> = {}) {
  const config = stageConfig(sections);
  const upstreams = [{ ...config.upstreams[0]!, base_url }];
  return createFoundModels({ ...config, upstreams, models: [], from_model_lists: true }, lists);
}

/** Lists that a test changes. */
function changing(ids: readonly string[] | undefined, told?: ToldOfModel) {
  let version = 1;
  let now = ids;
  const lists: ModelLists = {
    has: (_, id) => now?.includes(id),
    ids: () => now,
    told: (_, id) => (now?.includes(id) ? told : undefined),
    version: () => version,
  };
  const change = (ids: readonly string[] | undefined) => {
    now = ids;
    version += 1;
  };
  return { lists, change };
}

const idsOf = (models: readonly { readonly id: string }[]) => models.map(({ id }) => id);

describe('models that gateway.yaml does not name', () => {
  test('think and end as their list says, once there is one, and cost the same', () => {
    const { lists, change } = changing(undefined, { max_tokens: 32_000, thinking: 'budget' });
    const models = find(lists, 'https://api.anthropic.com');
    const before = models.find(LISTED)!;
    assert.equal(before.supports.thinking, 'adaptive');
    change([LISTED]);
    const { supports, default_output_tokens, assumed, ...rest } = models.find(LISTED)!;
    assert.equal(supports.thinking, 'budget');
    assert.equal(default_output_tokens, 32_000);
    assert.ok(!assumed.includes('supports.thinking') && assumed.includes('supports.images'));
    const { supports: _s, default_output_tokens: _d, assumed: _a, ...same } = before;
    assert.deepEqual(rest, same);
    assert.equal(models.find(LISTED), models.all()[0]);
    change(undefined);
    assert.equal(models.find(LISTED)?.supports.thinking, 'budget', 'a request ends as it began');
  });

  test('are those on the lists, the same objects for as long as they stay there', () => {
    const { lists, change } = changing([LISTED, 'claude-haiku-4-5']);
    const models = find(lists);
    assert.deepEqual(idsOf(models.all()), [LISTED, 'claude-haiku-4-5']);
    assert.equal(models.all(), models.all());
    const model = models.find(LISTED)!;
    assert.equal(models.all()[0], model);
    change([LISTED, 'claude-opus-4-5']);
    assert.deepEqual(idsOf(models.all()), [LISTED, 'claude-opus-4-5']);
    assert.equal(models.find(LISTED), model);
  });

  test('are found when they are served no longer, for the requests that are under way', () => {
    const { lists, change } = changing([LISTED]);
    const models = find(lists);
    const model = models.find(LISTED)!;
    assert.ok(models.isServed(model) && models.isServedAt(model, 'main'));
    change([]);
    assert.equal(models.find(LISTED)?.id, LISTED);
    assert.ok(!models.isServed(model) && !models.isServedAt(model, 'main'));
    change(undefined);
    assert.ok(models.isServed(model), 'without a list the catalogue decides');
  });

  test('are none that the catalogue has no price for, whatever is listed or asked for', () => {
    const odd = [
      'coder-1',
      'claude-sonnet-99',
      '',
      ' ',
      '__proto__',
      'constructor',
      'a\u0000b',
      'x'.repeat(10_000),
      '/',
      '*',
    ];
    const { lists } = changing(odd);
    const models = find(lists);
    assert.deepEqual(models.all(), []);
    for (const id of odd) assert.equal(models.find(id), undefined, id.slice(0, 20));
  });

  test('are told at the address of a provider that tells no list, and nowhere else', () => {
    assert.ok(idsOf(find(NO_LISTS, 'https://api.anthropic.com').all()).includes('claude-sonnet-4-5'));
    assert.deepEqual(find(NO_LISTS).all(), []);
    assert.equal(find(NO_LISTS, 'https://api.anthropic.com').find('gpt-4o'), undefined);
  });

  test('are told where rules and token groups name them, as long as there is no list', () => {
    const token_groups = [
      { name: 'all', models: ['claude-*', 'coder-1'] },
      { name: 'small', models: ['claude-haiku-4-5'] },
    ];
    const { lists, change } = changing(undefined);
    const models = find(lists, undefined, { token_groups });
    assert.deepEqual(idsOf(models.all()), ['claude-haiku-4-5']);
    change([LISTED]);
    assert.deepEqual(idsOf(models.all()), [LISTED]);
  });

  test('have the prices, the windows and the settings of an id alone under `models`', () => {
    const model = find(NO_LISTS).find('claude-sonnet-4-5')!;
    assert.equal(model.context_window, 200_000);
    assert.equal(model.catalogue?.main?.[0]?.pricing.input, 3);
    assert.equal(model.max_output_tokens, 64_000);
    assert.deepEqual(
      model.assumed.filter((key) => key === 'max_output_tokens' || key === 'context_window'),
      [],
    );
    assert.ok(Object.isFrozen(model));
  });

  test('are remembered up to a number, however many ids are asked for', () => {
    const models = find(NO_LISTS);
    const first = models.find('claude-sonnet-4-5-0');
    for (let i = 1; i <= 1000; i++) assert.ok(models.find(`claude-sonnet-4-5-${i}`));
    assert.notEqual(models.find('claude-sonnet-4-5-0'), first);
    assert.deepEqual(models.find('claude-sonnet-4-5-0'), first);
  });
});
