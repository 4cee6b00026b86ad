import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { nameCounted } from '../../../engine/domain/budget/limits/limit-names.ts';
import { overshootBound } from '../../../engine/domain/budget/limits/overshoot.ts';
import { findPriceProblems, type UsedPrice } from '../../../engine/domain/budget/prices/used-prices.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { spendLimitsSection } from '../../support/spend-limits.ts';

function config(base_url: string, more: Partial<GatewayConfig> = {}): GatewayConfig {
  const base = stageConfig({});
  const upstreams = [{ ...base.upstreams[0]!, base_url }];
  return { ...base, upstreams, models: [], from_model_lists: true, ...more };
}

const ELSEWHERE = 'https://models.example.com';
const AT_HOME = 'https://api.anthropic.com';

describe('without a section `models`', () => {
  test("the maximum cost of a request is the catalogue's, and unknown for an unknown provider", () => {
    const spend_limits = spendLimitsSection({ reserve: 'typical', defaults: { user_daily_usd: 50 } });
    const home = overshootBound(config(AT_HOME, { spend_limits }), []);
    assert.match(home.most_expensive?.model ?? '', /^claude-/);
    assert.ok((home.most_expensive?.cost_nano_usd ?? 0) > 0);
    assert.ok(!home.not_bounded.some((text) => text.includes('on the list of')));
    const elsewhere = overshootBound(config(ELSEWHERE, { spend_limits }), []);
    assert.equal(elsewhere.most_expensive, undefined);
    assert.ok(elsewhere.not_bounded.includes('what one request to a model on the list of main can cost'));
  });

  test('limits apply to models in the catalogue', () => {
    const rules = [{ name: 'dear', scope: ['user', 'model'], window: 'day', limit_usd: 5 }];
    const limited = config(ELSEWHERE, { spend_limits: spendLimitsSection({ rules } as never) });
    const of = (model: string) =>
      ({ of: { user: 'ana@example.com', model }, window: 'day', unit: 'nano_usd' }) as const;
    assert.equal(nameCounted(limited, of('claude-opus-4-5')).scope, 'user+model');
    assert.throws(
      () => nameCounted(limited, of('coder-1')),
      /there is no model "coder-1": the catalogue of prices does not know it/,
    );
  });

  test('what was used has a price where the catalogue has one', () => {
    const used = (model: string): UsedPrice => ({
      model,
      upstream: 'main',
      tool: null,
      requests: 1,
      uses: 0,
      cost_nano_usd: 1n,
      last_at: new Date('2026-11-20'),
    });
    const found = findPriceProblems(config(ELSEWHERE), [used('claude-sonnet-4-5'), used('coder-1')]);
    assert.deepEqual(
      found.used.map(({ model, problem }) => [model, problem]),
      [['coder-1', 'gone']],
    );
  });
});
