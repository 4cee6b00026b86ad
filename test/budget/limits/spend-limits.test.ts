import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SpendLimitsConfig, SpendRuleConfig } from '../../../engine/base/contract/config.ts';
import { describeAmount, describeLimit, spendLimits } from '../../../engine/domain/budget/limits/spend-limits.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { spendLimitsSection } from '../../support/spend-limits.ts';

function limitsOf(section: Partial<SpendLimitsConfig>) {
  return spendLimits(stageConfig({ spend_limits: spendLimitsSection(section) }));
}

const WHEN = { var: 'request.stream' };
const RULE: SpendRuleConfig = { name: 'rule', scope: 'user', mode: 'enforce' };

describe('the limits of a configuration', () => {
  it('are none without the section, and none without an amount', () => {
    assert.deepEqual(spendLimits(stageConfig()), []);
    assert.deepEqual(limitsOf({}), []);
  });

  it('lists general limits first, each with its place in the file', () => {
    const limits = limitsOf({
      defaults: { user_weekly_usd: 0.5, token_daily_usd: 0 },
      rules: [{ ...RULE, window: 'month', limit_usd: 7 }],
    });
    const shown = limits.map(({ pointer, name, scope, window, unit, limit }) => [
      pointer,
      name,
      scope,
      window,
      unit,
      limit,
    ]);
    assert.deepEqual(shown, [
      ['/spend_limits/defaults/user_weekly_usd', 'defaults.user_weekly_usd', 'user', 'week', 'nano_usd', 500_000_000],
      ['/spend_limits/defaults/token_daily_usd', 'defaults.token_daily_usd', 'token', 'day', 'nano_usd', 0],
      ['/spend_limits/rules/0', 'rule', 'user', 'month', 'nano_usd', 7_000_000_000],
    ]);
  });

  it('are one for each amount of a rule, in the unit of the amount', () => {
    const rule: SpendRuleConfig = {
      ...RULE,
      mode: 'shadow',
      when: WHEN,
      window: 'week',
      limit_usd: 1,
      concurrency: 8,
      requests_per_minute: 60,
      tokens_per_minute: 1000,
    };
    const limits = limitsOf({ rules: [rule] });
    assert.deepEqual(
      limits.map(({ window, unit, limit }) => [window, unit, limit]),
      [
        ['week', 'nano_usd', 1_000_000_000],
        ['open', 'requests', 8],
        ['minute', 'requests', 60],
        ['minute', 'tokens', 1000],
      ],
    );
    for (const { logic, mode, pointer } of limits) {
      assert.deepEqual([logic, mode, pointer], [WHEN, 'shadow', '/spend_limits/rules/0']);
    }
  });

  it('name the scopes of a combination in one order, however the file does', () => {
    const scopes = (scope: SpendRuleConfig['scope']) => limitsOf({ rules: [{ ...RULE, scope, concurrency: 1 }] })[0];
    assert.equal(scopes(['upstream', 'user', 'model'])?.scope, 'user+model+upstream');
    assert.equal(scopes(['team'])?.scope, 'team');
    assert.deepEqual(scopes(['model', 'token'])?.scopes, ['token', 'model']);
  });
});

describe('the description of a limit', () => {
  it('lists amount, scope and window', () => {
    const of = (rule: Partial<SpendRuleConfig>) =>
      limitsOf({ rules: [{ ...RULE, ...rule }] }).map((limit) => describeLimit(limit));
    assert.deepEqual(of({ window: 'day', limit_usd: 20 }), ['20 USD per user and day']);
    assert.deepEqual(of({ scope: ['model', 'team'], concurrency: 1 }), ['1 request at once per team and model']);
    assert.deepEqual(of({ requests_per_minute: 2, tokens_per_minute: 1 }), [
      '2 requests per user and minute',
      '1 token per user and minute',
    ]);
    assert.deepEqual(of({ window: 'week', limit_usd: 2, limit_usd_by_group: { staff: 5.5 } }), [
      '5.5 USD for staff, 2 USD for others per user and week',
    ]);
  });

  it('names the zone in which days begin, where there are any', () => {
    const [day, minute] = limitsOf({ rules: [{ ...RULE, window: 'day', limit_usd: 20, requests_per_minute: 2 }] });
    assert.equal(describeLimit(day!, 'Europe/Berlin'), '20 USD per user and day (Europe/Berlin)');
    assert.equal(describeLimit(minute!, 'Europe/Berlin'), '2 requests per user and minute');
  });

  it('lists amounts in their unit and windows as adjectives', () => {
    assert.deepEqual(
      [describeAmount(1, 'nano_usd'), describeAmount(1, 'requests'), describeAmount(2, 'tokens')],
      ['0.000000001 USD', '1 request', '2 tokens'],
    );
  });
});
