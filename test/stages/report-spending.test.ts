import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Answer, CounterStatus, LimitDemand } from '../../engine/api.ts';
import { openStage, type ServiceStubs, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import reportSpending from '../../stages/report-spending.ts';
import { MIDNIGHT, ruleLimits, type SpendLimits, spendLimits, USD } from './budget-bench.ts';

const ADA = {
  'principal.email': 'ada@example.com',
  'principal.groups': ['staff'],
  'principal.team': 'search',
  'principal.token.id': 'tok_1',
};

function stand(demand: LimitDemand, more: Partial<CounterStatus> = {}): CounterStatus {
  const { shadow: _, ...name } = demand;
  return { ...name, spent: 0, reserved: 0, in_flight: 0, most: 0, resets_at: MIDNIGHT, ...more };
}

async function report(spend_limits: SpendLimits, more: (demand: LimitDemand) => Partial<CounterStatus> = () => ({})) {
  const asked: LimitDemand[] = [];
  const statuses: ServiceStubs['statuses'] = (demands) => {
    asked.push(...demands);
    return demands.map((demand) => stand(demand, more(demand)));
  };
  const stage = openStage(reportSpending, { config: stageConfig({ spend_limits }), statuses });
  const response = (await stage.hooks.request!(stage.request({ facts: ADA }))) as Answer;
  return { asked, answer: response, body: JSON.parse(response.body) };
}

/** The status of the caller's own counters, by window. */
const byUser =
  (spent: Partial<Record<LimitDemand['window'], number>>, more: Partial<CounterStatus> = {}) =>
  ({ scope, window }: LimitDemand) =>
    scope === 'user' ? { spent: spent[window] ?? 0, ...more } : {};

const names = (demands: readonly LimitDemand[]) =>
  demands.map(({ scope, window, limit }) => `${scope} ${window} ${limit ?? '-'}`);

describe('report-spending', () => {
  it("reads the caller's counters in money, not those of requests, tokens, models and shadow rules", async () => {
    const rate = { concurrency: 1, requests_per_minute: 1, tokens_per_minute: 1 };
    const limits = ruleLimits(
      { scope: 'user', window: 'week', limit_usd: 1, ...rate },
      { scope: ['team', 'token'], window: 'day', limit_usd: 2 },
      { scope: 'model', window: 'day', limit_usd: 3 },
      { scope: 'team', window: 'day', limit_usd: 4, mode: 'shadow' },
    );
    const { asked } = await report(limits);
    assert.deepEqual(names(asked), [
      'user day -',
      'team month -',
      'user week 1000000000',
      'team+token day 2000000000',
      'team day -',
      'user day -',
      'user week -',
      'user month -',
    ]);
    assert.deepEqual([...new Set(asked.map(({ key }) => key))], ['ada@example.com', 'search', '["search","tok_1"]']);
  });

  it('reports whole percents exactly', async () => {
    for (const percent of [29, 57, 58, 99]) {
      const { body } = await report(spendLimits(), byUser({ day: percent * 0.5 * USD }));
      assert.equal(body.extra_usage.daily.utilization, percent);
    }
  });

  it('responds with amounts in cents, without caching', async () => {
    const spent = { day: 1_234_567_891, week: 2 * USD, month: 3 * USD };
    const { answer: response, body } = await report(spendLimits({ defaults: {} }), byUser(spent));
    assert.deepEqual([response.status, response.headers['cache-control']], [200, 'private, no-cache']);
    const free = { limit: null, utilization: null, resets_at: '2026-03-11T00:00:00.000Z' };
    assert.deepEqual(body, {
      extra_usage: {
        is_enabled: true,
        monthly_limit: null,
        used_credits: 300,
        utilization: null,
        currency: 'USD',
        daily: { ...free, used_credits: 123.4567891 },
        weekly: { ...free, used_credits: 200 },
      },
      limits: [],
    });
  });

  it('lists each limit once, with its usage and severity', async () => {
    const defaults = { user_daily_usd: 100, user_weekly_usd: 100, user_monthly_usd: 100, team_monthly_usd: 0 };
    const spent = { day: 74_900_000_000, week: 75 * USD, month: 95 * USD };
    const { body } = await report(spendLimits({ defaults }), byUser(spent, { reserved: 50 * USD }));
    const common = { kind: 'spend', resets_at: '2026-03-11T00:00:00.000Z', is_active: false };
    const user = { ...common, scope: 'user' };
    const team = { ...common, scope: 'team', group: 'monthly', is_active: true };
    assert.deepEqual(body.limits, [
      { ...user, group: 'daily', percent: 74, severity: 'normal', rule: 'defaults.user_daily_usd' },
      { ...team, percent: 100, severity: 'critical', rule: 'defaults.team_monthly_usd' },
      { ...user, group: 'weekly', percent: 75, severity: 'warning', rule: 'defaults.user_weekly_usd' },
      { ...user, group: 'monthly', percent: 95, severity: 'critical', rule: 'defaults.user_monthly_usd' },
    ]);
    assert.deepEqual([body.extra_usage.monthly_limit, body.extra_usage.utilization], [0, 100]);
  });

  // Clients show the amounts of extra_usage beside the window and the reset of the active limit, and no others.
  it('reports the limit with the highest usage, and names it', async () => {
    const reported = async (defaults: SpendLimits['defaults'], spent: Record<string, number>) => {
      const { extra_usage, limits } = (
        await report(spendLimits({ defaults }), ({ scope, window }) => ({
          spent: (spent[`${scope} ${window}`] ?? 0) * USD,
          resets_at: MIDNIGHT + (window === 'month' ? 1 : 0),
        }))
      ).body;
      const active = limits.filter(({ is_active }: { is_active: boolean }) => is_active);
      const { monthly_limit, used_credits, utilization } = extra_usage;
      return [active.map(({ rule }: { rule: string }) => rule).join(), monthly_limit, used_credits, utilization];
    };
    const both = { user_daily_usd: 30, user_monthly_usd: 500 };
    const day = 'defaults.user_daily_usd';
    const month = 'defaults.user_monthly_usd';
    assert.deepEqual(await reported(both, { 'user day': 24, 'user month': 24 }), [day, 3000, 2400, 80]);
    assert.deepEqual(await reported(both, { 'user day': 1, 'user month': 490 }), [month, 50_000, 49_000, 98]);
    assert.deepEqual(await reported({ user_daily_usd: 30 }, { 'user day': 3, 'user month': 99 }), [day, 3000, 300, 10]);
    assert.deepEqual(await reported(both, {}), [day, 3000, 0, 0], 'the smaller one when nothing is spent');
    const used_up = { 'user day': 60, 'user month': 500 };
    assert.deepEqual(await reported(both, used_up), [month, 50_000, 50_000, 100], 'the one that resets last');
    const pool = { ...both, team_monthly_usd: 1000 };
    const of_team = ['defaults.team_monthly_usd', 100_000, 90_000, 90];
    assert.deepEqual(await reported(pool, { 'user day': 3, 'team month': 900 }), of_team);
  });

  it("reports the lowest of several limits as the caller's own, and one set at run time", async () => {
    const month = { scope: 'user', window: 'month' } as const;
    const rules = ruleLimits({ ...month, limit_usd: 9 }, { ...month, limit_usd: 4 });
    assert.equal((await report(rules)).body.extra_usage.monthly_limit, 400);
    const set = await report(spendLimits({ defaults: {} }), ({ scope, window }) =>
      scope === 'user' && window === 'day' ? { limit: 2 * USD, spent: 5 * USD } : {},
    );
    const { limit, utilization } = set.body.extra_usage.daily;
    assert.deepEqual([limit, utilization], [200, 100]);
  });
});
