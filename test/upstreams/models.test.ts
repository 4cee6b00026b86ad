import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import type { GatewayConfig, ModelConfig, TokenGroupConfig } from '../../engine/base/contract/config.ts';
import type { ModelListEntry } from '../../engine/domain/upstreams/lists/ask-list.ts';
import { type ModelLists, NO_LISTS } from '../../engine/domain/upstreams/lists/model-lists.ts';
import {
  callerWithToken,
  createFoundModels,
  createModelCatalog,
  noModelsBecause,
} from '../../engine/domain/upstreams/models.ts';
import { stageConfig } from '../../engine/edge/simulate/stage-harness.ts';

function model(id: string, more: Partial<ModelConfig> = {}): ModelConfig {
  return {
    id,
    aliases: [],
    group_aliases: [],
    supports: { tools: true, images: true, thinking: 'adaptive', sampling: true, prompt_cache_1h: true },
    context_window: 200_000,
    max_output_tokens: 64_000,
    default_output_tokens: 64_000,
    assumed: [],
    upstream_ids: {},
    pricing: { input: 3, output: 15 },
    ...more,
  };
}

function catalog(models: readonly ModelConfig[], token_groups: readonly TokenGroupConfig[] = []) {
  const upstreams = [{ name: 'main', type: 'vendor', base_url: 'https://api.example.com', supports: {} }];
  return createModelCatalog({ models, token_groups, upstreams } as unknown as GatewayConfig);
}

describe('the model catalogue', () => {
  it('does not accept a model as the responding one without a price at that upstream', () => {
    const pricing = { input: 3, output: 15 };
    const { pricing: _, ...unpriced } = model('sonnet');
    const models = [model('coder-1'), { ...unpriced, catalogue: { main: [{ pricing }] } }];
    const upstreams = ['main', 'other'].map((name) => ({ name, type: 'vendor', base_url: 'https://api.example.com' }));
    const found = createModelCatalog({ models, token_groups: [], upstreams } as unknown as GatewayConfig);
    assert.equal(found.answering('sonnet', 'main', 'coder-1')?.id, 'sonnet');
    assert.equal(found.answering('sonnet', 'other', 'coder-1'), undefined);
    assert.equal(found.answering('coder-1-20260101', 'other', 'coder-1')?.id, 'coder-1');
  });

  it('lets a token group use the matches of its globs and families, and nothing else', () => {
    const models = catalog(
      [model('coder-1', { family: 'coder' }), model('writer-1', { family: 'writer' }), model('plain')],
      [
        { name: 'coders', models: ['coder-*'] },
        { name: 'writers', families: ['writer'] },
        { name: 'both', models: ['plain'], families: ['coder'] },
      ],
    );
    const ids = (group: string) =>
      models.all.filter((each) => models.refusal(callerWithToken(group), each) === undefined).map(({ id }) => id);
    assert.deepEqual(ids('coders'), ['coder-1']);
    assert.deepEqual(ids('writers'), ['writer-1']);
    assert.deepEqual(ids('both'), ['coder-1', 'plain']);
    assert.deepEqual(ids('unknown'), []);
    assert.deepEqual(ids('all'), []);
  });
});

describe('why there is no model at all', () => {
  it('names the group, the policy or the gateway, and who can change it', () => {
    const group = { by: 'token_group', token_group: 'idle' } as const;
    assert.match(noModelsBecause([group, group], ['eng']), /^your token group "idle" may use no model .* adds models/);
    const policy = { by: 'policy', policy: 'strict' } as const;
    assert.match(
      noModelsBecause([group, policy], ['eng']),
      /^the policy "strict" lists no model that your token group/,
    );
    assert.match(
      noModelsBecause([{ by: 'token_group', token_group: undefined }], []),
      /the gateway knows none of your groups/,
    );
    assert.match(noModelsBecause([], ['eng']), /^this gateway has no models/);
  });
});

const LISTED = 'claude-sonnet-4-5-20250929';

function find(lists: ModelLists, base_url = 'https://models.example.com', sections: Partial<GatewayConfig> = {}) {
  const config = stageConfig(sections);
  const upstreams = [{ ...config.upstreams[0]!, base_url }];
  return createFoundModels({ ...config, upstreams, models: [], from_model_lists: true }, lists);
}

/** Lists that a test changes. */
function changing(ids: readonly string[] | undefined, entry?: ModelListEntry) {
  let version = 1;
  let now = ids;
  const lists: ModelLists = {
    has: (_, id) => now?.includes(id),
    ids: () => now,
    entry: (_, id) => (now?.includes(id) ? entry : undefined),
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
  test('reason and end as in their list, once there is one, and cost the same', () => {
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

  test('exclude models without a catalogue price, listed or requested', () => {
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

  test('are reported at the address of a provider without a list, and nowhere else', () => {
    assert.ok(idsOf(find(NO_LISTS, 'https://api.anthropic.com').all()).includes('claude-sonnet-4-5'));
    assert.deepEqual(find(NO_LISTS).all(), []);
    assert.equal(find(NO_LISTS, 'https://api.anthropic.com').find('gpt-4o'), undefined);
  });

  test('are reported where rules and token groups name them, as long as there is no list', () => {
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

  test('are cached up to a number, for any number of requested ids', () => {
    const models = find(NO_LISTS);
    const first = models.find('claude-sonnet-4-5-0');
    for (let i = 1; i <= 1000; i++) assert.ok(models.find(`claude-sonnet-4-5-${i}`));
    assert.notEqual(models.find('claude-sonnet-4-5-0'), first);
    assert.deepEqual(models.find('claude-sonnet-4-5-0'), first);
  });
});
