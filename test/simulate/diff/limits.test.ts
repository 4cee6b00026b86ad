/** The effects of a new configuration on limits and callers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SpendingRow } from '../../../engine/domain/budget/reports/spending.ts';
import { BASE, diffTo, replace } from './support.ts';

const USUAL = {
  team: null,
  project: null,
  token_id: null,
  token_group: 'engineers',
  model: 'coder-1',
  upstream: 'main',
};
const row = (user: string, usd: number, more: Partial<SpendingRow> = {}): SpendingRow => {
  return { user, ...USUAL, cost_nano_usd: usd * 1e9, ...more };
};
const rule = (more: string) => (text: string) => `${text}  rules:\n    - { name: few, ${more} }\n`;

describe('limits in which two configurations differ', () => {
  it('is reported for limits, with callers already over them if there is a ledger', async () => {
    const spending = [
      row('ann@example.com', 15),
      row('ann@example.com', 10, { model: 'mini-1' }),
      row('bob@example.com', 19),
    ];
    assert.deepEqual(await diffTo(replace('user_daily_usd: 50', 'user_daily_usd: 20'), { spending }), [
      'Limits',
      '  defaults.user_daily_usd: 50 USD per user and day -> 20 USD per user and day',
      '    1 user has already spent it today: ann@example.com (25 USD)',
    ]);
  });

  it('counts only the possible callers of a conditional limit', async () => {
    const spending = [row('ann@example.com', 30), row('ida@example.com', 30, { token_group: 'interns' })];
    const when = 'when: { in: [interns, { var: principal.groups }] }';
    const lines = await diffTo(rule(`${when}, scope: user, window: day, limit_usd: 20`), { spending });
    assert.equal(lines[0], 'Limits');
    assert.match(lines.slice(1, -1).join(' '), /few: is new: 20 USD per user and day\s+when .*interns/);
    assert.equal(lines.at(-1), '    1 user has already spent it today: ida@example.com (30 USD)');
  });

  it('is reported for every kind of limit', async () => {
    const with_amounts = (amounts: string) => rule(`scope: [model, user], window: week, ${amounts}`)(BASE);
    const all = 'limit_usd_by_group: { interns: 5, staff: 30 }, concurrency: 8, requests_per_minute: 60';
    assert.deepEqual(await diffTo(() => with_amounts(all), { base: with_amounts('limit_usd: 20') }), [
      'Limits',
      '  few: 20 USD per user and model and week -> 5 USD for interns, 30 USD for staff',
      '    per user and model and week and 8 requests at once per user and model and 60',
      '    requests per user and model and minute',
    ]);
  });

  it('reports who is over a limit of a combination, and what a limit by group allows each', async () => {
    const of = (user: string, token_group: string, usd: number) =>
      row(user, usd, { team: 'search', token_id: `tok_${user}`, token_group, model: 'mini-1' });
    const spending = [of('ann', 'engineers', 30), of('ida', 'interns', 6), of('bob', 'engineers', 5)];
    const over = async (more: string) => (await diffTo(rule(`window: week, ${more}`), { spending })).slice(2);
    assert.deepEqual(await over('scope: [token, model], limit_usd: 20'), [
      '    1 combination of token and model has already spent it this week: tok_ann +',
      '      mini-1 (30 USD); spending counts only from when the limit is first in',
      '      force',
    ]);
    const by_group = 'scope: user, limit_usd_by_group: { interns: 5, engineers: 40 }';
    assert.match((await over(by_group)).join(' '), /1 user has .*: ida \(6 USD\);/);
    // The owners of the other limits are unknown.
    assert.deepEqual(await over('scope: user, limit_usd_by_group: { staff: 1 }'), []);
    assert.deepEqual(await over('scope: project, limit_usd: 1'), []);
  });

  it('does not report a limit that only moved in its list', async () => {
    const limits = (more: string) => (text: string) => `${text}  rules:\n${more}${kept}`;
    const kept = '    - { name: kept, scope: model, window: month, limit_usd: 9 }\n';
    const first = '    - { name: first, scope: user, window: month, limit_usd: 7 }\n';
    assert.deepEqual(await diffTo(() => limits(first)(BASE), { base: limits('')(BASE) }), [
      'Limits',
      '  first: is new: 7 USD per user and month',
    ]);
  });

  it('reports that a limit begins to count when it is loaded, where it has no counter yet', async () => {
    const spending = [row('ann@example.com', 30, { token_group: null })];
    const over = async (scope: string, window: string) =>
      (await diffTo(rule(`scope: ${scope}, window: ${window}, limit_usd: 20`), { spending })).slice(2).join('\n');
    const of_model = '    1 model has already spent it this month: coder-1 (30 USD); spending counts\n';
    assert.equal(await over('model', 'month'), `${of_model}      only from when the limit is first in force`);
    assert.equal(await over('user', 'day'), '    1 user has already spent it today: ann@example.com (30 USD)');
  });
});
