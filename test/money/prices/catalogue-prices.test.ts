import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeCatalogue } from '../../../engine/cli/prices/compare-catalogue.ts';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { CATALOGUE_DATE } from '../../../engine/money/prices/catalogue.ts';
import {
  CATALOGUE_DAYS_MAX,
  catalogueDays,
  otherPrices,
  usesCatalogue,
} from '../../../engine/money/prices/catalogue-prices.ts';

const DAY_MS = 86_400_000;
const AT_HOME = 'https://api.openai.com/v1';

function config(models: readonly object[], base_url = AT_HOME): GatewayConfig {
  return {
    models: models.map((model) => ({ upstream_ids: {}, ...model })),
    upstreams: [{ name: 'main', base_url }],
  } as unknown as GatewayConfig;
}

const NOW = Date.parse('2026-11-24');

test('a price of gateway.yaml is compared with that of the catalogue on that day', () => {
  const written = config([{ id: 'o3', pricing: { input: 10, output: 40, cache_write_5m: 1 } }]);
  assert.deepEqual(
    otherPrices(written, NOW).map(({ kind, written, catalogue }) => [kind, written, catalogue]),
    [
      ['input', 10, 2],
      ['output', 40, 8],
    ],
  );
  assert.deepEqual(otherPrices(written, Date.parse('2025-06-09')), []);
});

test('models that the catalogue does not know, or whose price is its own, are not compared', () => {
  assert.deepEqual(otherPrices(config([{ id: 'coder-1', pricing: { input: 1, output: 2 } }, { id: 'o3' }]), NOW), []);
  assert.deepEqual(
    otherPrices(config([{ id: 'o3', pricing: { input: 9, output: 9 } }], 'https://api.anthropic.com'), NOW),
    [],
  );
  const renamed = config([{ id: 'best', upstream_ids: { main: 'o3' }, pricing: { input: 2, output: 9 } }]);
  assert.deepEqual(
    otherPrices(renamed, NOW).map(({ model, pointer }) => [model, pointer]),
    [['best', '/models/0/pricing/output']],
  );
});

test('the catalogue is old after half a year, where its prices are in force', () => {
  const published = Date.parse(CATALOGUE_DATE);
  assert.equal(catalogueDays(published), 0);
  assert.equal(catalogueDays(published - DAY_MS), 0);
  assert.equal(catalogueDays(published + 200 * DAY_MS - 1), 199);
  assert.equal(usesCatalogue(config([{ id: 'o3', pricing: { input: 1, output: 2 } }])), false);
  assert.equal(usesCatalogue(config([{ id: 'o3', catalogue: {} }])), true);
  assert.equal(usesCatalogue({ ...config([]), from_model_lists: true }), true);
  const told = (days: number) =>
    describeCatalogue({ days, is_old: days > CATALOGUE_DAYS_MAX, is_used: true, other: [] }).join(' ');
  assert.equal(told(62), `Catalogue of prices: ${CATALOGUE_DATE}, 62 days old.`);
  assert.match(told(181), /181 days old\. That is more than 180 days: prices may have changed\. A newer version/);
});
