import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TokenCounts } from '../../engine/api.ts';
import type { GatewayConfig, ModelConfig, TokenGroupConfig } from '../../engine/contract/config.ts';
import { noModelsBecause } from '../../engine/upstreams/model-refusals.ts';
import { callerWithToken, createModelCatalog } from '../../engine/upstreams/models.ts';

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

const none: TokenCounts = { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

const route = { upstream: 'main', at: 0 };

describe('the model catalogue', () => {
  it('finds models by their exact id and keeps the order of the file', () => {
    const models = catalog([model('coder-2'), model('coder-1')]);
    assert.deepEqual(
      models.all.map(({ id }) => id),
      ['coder-2', 'coder-1'],
    );
    assert.equal(models.find('coder-1')?.id, 'coder-1');
    assert.equal(models.find('coder'), undefined);
    assert.equal(models.find('__proto__'), undefined);
  });

  it('takes no model for the one that answered that has no price at that upstream', () => {
    const pricing = { input: 3, output: 15 };
    const { pricing: _, ...unpriced } = model('sonnet');
    const models = [model('coder-1'), { ...unpriced, catalogue: { main: [{ pricing }] } }];
    const upstreams = ['main', 'other'].map((name) => ({ name, type: 'vendor', base_url: 'https://api.example.com' }));
    const found = createModelCatalog({ models, token_groups: [], upstreams } as unknown as GatewayConfig);
    assert.equal(found.answering('sonnet', 'main', 'coder-1')?.id, 'sonnet');
    assert.equal(found.answering('sonnet', 'other', 'coder-1'), undefined);
    assert.equal(found.answering('coder-1-20260101', 'other', 'coder-1')?.id, 'coder-1');
  });

  it('finds models by their aliases, which are no models of their own', () => {
    const models = catalog([model('coder-2', { aliases: ['coder-latest', '__proto__'] }), model('coder-1')]);
    assert.equal(models.find('coder-latest')?.id, 'coder-2');
    assert.equal(models.find('__proto__')?.id, 'coder-2');
    assert.equal(models.find('coder'), undefined);
    assert.equal(models.all.length, 2);
  });

  it('lets a token group use what its globs and families name, and nothing else', () => {
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

  it('has one group "all" with every model when gateway.yaml names no token groups', () => {
    const models = catalog([model('coder-1')]);
    assert.equal(models.refusal(callerWithToken('all'), models.all[0]!), undefined);
    assert.notEqual(models.refusal(callerWithToken('coders'), models.all[0]!), undefined);
  });

  it('prices the five kinds of token apart', () => {
    const pricing = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };
    const models = catalog([model('coder-1', { pricing })]);
    const cost = (tokens: Partial<TokenCounts>) => models.cost(models.all[0]!, { ...none, ...tokens }, route);
    assert.equal(cost({ input: 1000 }), 3_000_000);
    assert.equal(cost({ output: 1000 }), 15_000_000);
    assert.equal(cost({ cache_read: 1000 }), 300_000);
    assert.equal(cost({ cache_write_5m: 1000 }), 3_750_000);
    assert.equal(cost({ cache_write_1h: 1000 }), 6_000_000);
    assert.equal(cost({ input: 7, output: 11, cache_read: 13, cache_write_5m: 17, cache_write_1h: 19 }), 367_650);
  });

  it('derives cache prices that are left out from the input price', () => {
    const models = catalog([model('coder-1', { pricing: { input: 3, output: 15 } })]);
    const cost = (tokens: Partial<TokenCounts>) => models.cost(models.all[0]!, { ...none, ...tokens }, route);
    assert.equal(cost({ cache_read: 1000 }), 300_000);
    assert.equal(cost({ cache_write_5m: 1000 }), 3_750_000);
    assert.equal(cost({ cache_write_1h: 1000 }), 6_000_000);
  });

  it('takes a cache price of zero as given', () => {
    const models = catalog([model('coder-1', { pricing: { input: 3, output: 15, cache_read: 0 } })]);
    assert.equal(models.cost(models.all[0]!, { ...none, cache_read: 1000 }, route), 0);
  });

  it('names the model and the field of a price it cannot hold exactly', () => {
    const pricing = { input: 3, output: 0.0000001 };
    assert.throws(
      () => catalog([model('coder-1', { pricing })]),
      /the "output" price of the model "coder-1": .* at most 6 decimals/,
    );
  });

  it('refuses to price what gateway.yaml gives no price, instead of charging nothing', () => {
    const { pricing: _, ...unpriced } = model('coder-1');
    const models = catalog([unpriced]);
    assert.throws(() => models.cost(unpriced, none, route), /gives the model "coder-1" no price at "main"/);
    assert.throws(() => models.price(unpriced, route), /no price/);
  });

  it('knows its upstreams', () => {
    assert.equal(catalog([]).upstream('main').base_url, 'https://api.example.com');
    assert.throws(() => catalog([]).upstream('spare'), /no upstream "spare"/);
  });
});

describe('why there is no model at all', () => {
  it('names the group, the policy or the gateway, and who can do what about it', () => {
    const group = { by: 'token_group', token_group: 'idle' } as const;
    assert.match(noModelsBecause([group, group], ['eng']), /^your token group "idle" may use no model .* adds models/);
    const policy = { by: 'policy', policy: 'strict' } as const;
    assert.match(
      noModelsBecause([group, policy], ['eng']),
      /^the policy "strict" lists no model that your token group/,
    );
    assert.match(
      noModelsBecause([{ by: 'token_group', token_group: undefined }], []),
      /no group of yours is known here/,
    );
    assert.match(noModelsBecause([], ['eng']), /^this gateway has no models/);
  });
});
