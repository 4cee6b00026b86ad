import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { findProvider } from '@pydantic/genai-prices';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { feeToPico, priceToPico } from '../../../engine/base/kit/money.ts';
import { CATALOGUE_DATE, idsAt, lookUp } from '../../../engine/domain/budget/prices/catalogue.ts';
import {
  CATALOGUE_DAYS_MAX,
  catalogueDays,
  otherPrices,
  usesCatalogue,
} from '../../../engine/domain/budget/prices/used-prices.ts';
import { describeCatalogue } from '../../../engine/edge/cli/prices.ts';

const ELSEWHERE = 'https://models.example.com';
const AT_HOME = 'https://api.anthropic.com';
const KNOWN = 'claude-sonnet-4-5';

describe('the catalogue of prices', () => {
  test('has the date on which its version was published', () => {
    const lock = JSON.parse(readFileSync(resolve(import.meta.dirname, '../../../package-lock.json'), 'utf8'));
    const { version } = lock.packages['node_modules/@pydantic/genai-prices'];
    // A new version: take the date of `npm view @pydantic/genai-prices time`.
    assert.deepEqual({ version, date: CATALOGUE_DATE }, { version: '0.1.8', date: '2026-09-23' });
    assert.ok(createRequire(import.meta.url).resolve('@pydantic/genai-prices'));
  });

  test('finds a model by its id, a dated id, and with a provider before the id', () => {
    const home = lookUp(KNOWN, AT_HOME);
    assert.deepEqual(home, {
      context_window: 200_000,
      max_output_tokens: 64_000,
      prices: [
        {
          pricing: {
            input: 3,
            output: 15,
            cache_read: 0.3,
            cache_write_5m: 3.75,
            cache_write_1h: 6,
            long_context: {
              above_input_tokens: 200_000,
              input: 6,
              output: 22.5,
              cache_read: 0.6,
              cache_write_5m: 7.5,
              cache_write_1h: 12,
            },
            server_tools: { web_search: 10 },
          },
        },
      ],
    });
    for (const id of [KNOWN, `${KNOWN}-20250929`, `anthropic/${KNOWN}`]) assert.deepEqual(lookUp(id, ELSEWHERE), home);
  });

  test("knows the longest response of large vendors' models, by each of their names", () => {
    for (const id of idsAt(AT_HOME)) assert.ok((lookUp(id, AT_HOME)?.max_output_tokens ?? 0) >= 4096, id);
    const cases: readonly [id: string, tokens: number | undefined][] = [
      ['claude-opus-4-1-20250805', 32_000],
      ['claude-3-haiku-20240307', 4096],
      ['claude-sonnet-4-6', 128_000],
      ['anthropic/claude-sonnet-4-0', 64_000],
      ['gpt-4.1-mini', 32_768],
      ['gpt-4o', 16_384],
      ['gpt-5', 128_000],
      ['o3', 100_000],
      ['gemini-2.5-pro', 65_536],
      ['mistral-large-latest', undefined],
    ];
    for (const [id, tokens] of cases) assert.equal(lookUp(id, ELSEWHERE)?.max_output_tokens, tokens, id);
  });

  test('guesses nothing', () => {
    for (const id of ['coder-1', 'claude-sonnet-99', `nobody/${KNOWN}`, '', '/', '__proto__', 'constructor']) {
      assert.equal(lookUp(id, ELSEWHERE), undefined, id);
    }
    assert.equal(lookUp(KNOWN, 'https://api.openai.com/v1'), undefined);
  });

  test('lists the days of price changes, oldest first', () => {
    const { prices } = lookUp('o3', 'https://api.openai.com/v1')!;
    assert.deepEqual(
      prices.map(({ from, pricing }) => [from, pricing.input]),
      [
        [undefined, 10],
        ['2025-06-10', 2],
      ],
    );
  });

  test('has no price where charges are not per token, or depend on the hour', () => {
    for (const id of ['deepseek-chat', 'deepseek-reasoner']) {
      assert.deepEqual(lookUp(id, 'https://api.deepseek.com')?.prices, [], id);
    }
    const heard = findProvider({ providerId: 'openai' })!.models.filter(
      ({ prices }) => !Array.isArray(prices) && prices.input_audio_mtok !== undefined,
    );
    assert.ok(heard.length > 0);
    for (const { id } of heard) assert.deepEqual(lookUp(id, 'https://api.openai.com/v1')?.prices, [], id);
  });

  test('has no price without an exact representation', () => {
    let seen = 0;
    for (const providerId of ['anthropic', 'openai', 'google', 'aws', 'mistral', 'x-ai']) {
      for (const { id } of findProvider({ providerId })!.models) {
        for (const { pricing } of lookUp(`${providerId}/${id}`, ELSEWHERE)?.prices ?? []) {
          const { long_context, server_tools = {}, ...tokens } = pricing;
          const { above_input_tokens: _, ...tier } = long_context ?? { above_input_tokens: 0 };
          for (const usd of [...Object.values(tokens), ...Object.values(tier)]) priceToPico(usd as number);
          for (const usd of Object.values(server_tools)) feeToPico(usd);
          seen += 1;
        }
      }
    }
    assert.ok(seen > 100, String(seen));
  });
});

const DAY_MS = 86_400_000;
const AT_OPENAI = 'https://api.openai.com/v1';

function configOf(models: readonly object[], base_url = AT_OPENAI): GatewayConfig {
  return {
    models: models.map((model) => ({ upstream_ids: {}, ...model })),
    upstreams: [{ name: 'main', base_url }],
  } as unknown as GatewayConfig;
}

const NOW = Date.parse('2026-11-24');

test("compares a price of gateway.yaml with the catalogue's on that day", () => {
  const written = configOf([{ id: 'o3', pricing: { input: 10, output: 40, cache_write_5m: 1 } }]);
  assert.deepEqual(
    otherPrices(written, NOW).map(({ kind, written, catalogue }) => [kind, written, catalogue]),
    [
      ['input', 10, 2],
      ['output', 40, 8],
    ],
  );
  assert.deepEqual(otherPrices(written, Date.parse('2025-06-09')), []);
});

test('ignores models outside the catalogue, or with their own price', () => {
  assert.deepEqual(otherPrices(configOf([{ id: 'coder-1', pricing: { input: 1, output: 2 } }, { id: 'o3' }]), NOW), []);
  assert.deepEqual(
    otherPrices(configOf([{ id: 'o3', pricing: { input: 9, output: 9 } }], 'https://api.anthropic.com'), NOW),
    [],
  );
  const renamed = configOf([{ id: 'best', upstream_ids: { main: 'o3' }, pricing: { input: 2, output: 9 } }]);
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
  assert.equal(usesCatalogue(configOf([{ id: 'o3', pricing: { input: 1, output: 2 } }])), false);
  assert.equal(usesCatalogue(configOf([{ id: 'o3', catalogue: {} }])), true);
  assert.equal(usesCatalogue({ ...configOf([]), from_model_lists: true }), true);
  const ageOf = (days: number) =>
    describeCatalogue({ days, is_old: days > CATALOGUE_DAYS_MAX, is_used: true, other: [] }).join(' ');
  assert.equal(ageOf(62), `Price catalogue: ${CATALOGUE_DATE}, 62 days old.`);
  assert.match(ageOf(181), /181 days old\. It is older than 180 days: prices may have changed\. Upgrade this program/);
});
