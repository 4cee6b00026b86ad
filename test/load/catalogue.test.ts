import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import { modelById } from '../../engine/domain/budget/prices/known-models.ts';
import { createPriceBook } from '../../engine/domain/budget/prices/prices.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { projectOfTest, SHIPPED } from './support/project.ts';
import { stages } from './support/stages.ts';

const MILLION = 1_000_000;

async function loadModels(models: string, more = '') {
  const project = projectOfTest({
    'gateway.yaml': `
server: { listen: 127.0.0.1:8080, public_url: https://gateway.example.com }
upstreams:
  - { name: main, base_url: https://models.example.com, api_key_env: UPSTREAM_KEY }
  - { name: other, type: compat, base_url: https://api.openai.com/v1, api_key_env: UPSTREAM_KEY }
models: ${models}
routing: { default_upstream: main, rules: [${models.includes('{ id: o3 }') ? '{ models: [o3], upstream: other }' : ''}] }
${more}`,
  });
  const options = { stages, env: { UPSTREAM_KEY: 'k' }, environment: 'required', shipped_pipelines: SHIPPED } as const;
  const loaded = await load(project.path('gateway.yaml'), options);
  const errors = loaded.diagnostics.filter(({ severity }) => severity === 'error');
  const book = loaded.config && createPriceBook(loaded.config);
  const inputAt = (model: string, upstream: string, day: string) => {
    const price = book!.of(model, { upstream, at: Date.parse(day) });
    return price && [price.source, price.pico.input / MILLION];
  };
  return { models: loaded.config?.models ?? [], errors, inputAt };
}

describe('a model with only an id', () => {
  test('is the same as in a gateway.yaml without models', async () => {
    const { models } = await loadModels('[{ id: claude-sonnet-4-5 }]');
    const upstreams = [
      { name: 'main', base_url: 'https://models.example.com' },
      { name: 'other', base_url: 'https://api.openai.com/v1' },
    ] as unknown as GatewayConfig['upstreams'];
    assert.deepEqual(modelById('claude-sonnet-4-5', { upstreams }), models[0]);
  });

  test("has the catalogue's price and window, at the upstreams that it is routed to", async () => {
    const { models, errors, inputAt } = await loadModels('[{ id: claude-sonnet-4-5 }, { id: o3 }]');
    assert.deepEqual(errors, []);
    assert.deepEqual(inputAt('claude-sonnet-4-5', 'main', '2026-10-01'), ['catalogue', 3]);
    assert.equal(inputAt('claude-sonnet-4-5', 'other', '2026-10-01'), undefined);
    assert.equal(models[0]?.context_window, 200_000);
    assert.deepEqual([models[0]?.max_output_tokens, models[0]?.default_output_tokens], [64_000, 64_000]);
    for (const size of ['context_window', 'max_output_tokens'] as const) assert.ok(!models[0]?.assumed.includes(size));
  });

  test("is looked up by the upstream's own name", async () => {
    const { errors, inputAt } = await loadModels('[{ id: best, upstream_ids: { main: claude-sonnet-4-5 } }]');
    assert.deepEqual(errors, []);
    assert.deepEqual(inputAt('best', 'main', '2026-10-01'), ['catalogue', 3]);
  });

  test('uses each value that gateway.yaml sets', async () => {
    const { models, inputAt } = await loadModels(
      '[{ id: claude-sonnet-4-5, pricing: { input: 1, output: 2 } }, { id: claude-opus-4-5, context_window: 1000 }, { id: o3 }]',
      'prices: { rows: [{ models: [o3], pricing: { input: 7, output: 8 } }, { models: [claude-opus-4-5], multiplier: 0.5 }] }',
    );
    assert.deepEqual(inputAt('claude-sonnet-4-5', 'main', '2026-10-01'), ['models', 1]);
    assert.equal(models[0]?.catalogue, undefined);
    assert.ok(!models[0]?.assumed.includes('context_window'));
    assert.deepEqual(inputAt('claude-opus-4-5', 'main', '2026-10-01'), ['prices.rows[1]', 2.5]);
    assert.equal(models[1]?.context_window, 1000);
    assert.deepEqual(inputAt('o3', 'other', '2026-10-01'), ['prices.rows[0]', 7]);
  });

  test("has the catalogue's price rather than that of unknown models", async () => {
    const { inputAt } = await loadModels(
      '[{ id: claude-sonnet-4-5 }, { id: coder-1 }]',
      'prices: { unknown_model: { input: 9, output: 9 } }',
    );
    assert.deepEqual(inputAt('claude-sonnet-4-5', 'main', '2026-10-01'), ['catalogue', 3]);
    assert.deepEqual(inputAt('coder-1', 'main', '2026-10-01'), ['prices.unknown_model', 9]);
  });
});
