import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LimitDemand } from '../../../engine/api.ts';
import { SPEND_SCOPES } from '../../../engine/contract/config.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import {
  assertGranted,
  balanceOf,
  countersOf,
  quietLog,
  reservation,
  settlement,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

let database: Database;
const open = useTestStore((opened) => {
  database = opened.database;
});

function newLedger(): DatabaseLedger {
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
  open.push(ledger);
  return ledger;
}

describe('several limits of a request', () => {
  const demand = (key: string, limit: number | null, more: Partial<LimitDemand> = {}): LimitDemand => ({
    ...userDemand(key, limit),
    rule: `at-most-${limit}`,
    ...more,
  });

  it('may be of any scope, and each is counted by itself', async () => {
    const ledger = newLedger();
    const scopes = [...SPEND_SCOPES, 'user+model'];
    for (const scope of scopes) {
      const refusing = scopes.map((each) => demand('of-any-scope', each === scope ? 99 : 100, { scope: each }));
      const [refusal] = (await ledger.reserve(reservation({ user: 'any', demands: refusing }))).exceeded;
      assert.deepEqual([refusal?.scope, refusal?.limit], [scope, 99]);
    }
    const demands = scopes.map((scope) => demand('of-any-scope', 100, { scope }));
    const request = reservation({ user: 'any', demands });
    assertGranted(await ledger.reserve(request));
    await ledger.settle(settlement(request));
    const counters = await countersOf(database, 'of-any-scope');
    assert.deepEqual(
      counters.map(({ spent, reserved }) => ({ spent, reserved })),
      scopes.map(() => ({ spent: 60, reserved: 0 })),
    );
  });

  it('on one counter hold the amount once, and the smallest refuses', async () => {
    const ledger = newLedger();
    const demands = [demand('shared', 300), demand('shared', null), demand('shared', 200), demand('shared', 250)];
    const first = reservation({ user: 'shared', demands });
    assertGranted(await ledger.reserve(first));
    assert.equal((await balanceOf(database, 'shared')).reserved, 100);
    assertGranted(await ledger.reserve(reservation({ user: 'shared', demands })));
    const [refusal] = (await ledger.reserve(reservation({ user: 'shared', demands }))).exceeded;
    assert.deepEqual([refusal?.rule, refusal?.reserved], ['at-most-200', 200]);
    await ledger.settle(settlement(first));
    assert.deepEqual(await balanceOf(database, 'shared'), { spent: 60, reserved: 100 });
  });
});

describe('a granted reservation', () => {
  it('tells every limit in money with its own hold in it, and no other', async () => {
    const ledger = newLedger();
    const demands: LimitDemand[] = [
      userDemand('told', null),
      { ...userDemand('told', 500), window: 'week', rule: 'weekly' },
      { ...userDemand('told', 900), window: 'month', rule: 'monthly' },
      { ...userDemand('told', 700), window: 'month', rule: 'monthly too' },
      { ...userDemand('told', 5), window: 'month', rule: 'trial', shadow: true },
      { ...userDemand('told', 5), window: 'open', unit: 'requests', rule: 'at once' },
    ];
    const before = reservation({ user: 'told', demands });
    await ledger.reserve(before);
    await ledger.settle(settlement(before));
    const { statuses } = await ledger.reserve(reservation({ user: 'told', demands }));
    const week = { window: 'week', rule: 'weekly', limit: 500, resets_at: Date.parse('2026-03-16T00:00:00Z') };
    const month = { window: 'month', rule: 'monthly', limit: 900, resets_at: Date.parse('2026-04-01T00:00:00Z') };
    const counted = { scope: 'user', key: 'told', unit: 'nano_usd', spent: 60, reserved: 100, in_flight: 1, most: 100 };
    assert.deepEqual(statuses, [
      { ...counted, ...week },
      { ...counted, ...month },
      { ...counted, ...month, rule: 'monthly too', limit: 700 },
    ]);
  });
});

describe('several limits without room', () => {
  it('are all told, the one that resets last first, of one window the smallest', async () => {
    const on = (window: LimitDemand['window'], limit: number, unit: LimitDemand['unit'] = 'nano_usd'): LimitDemand => ({
      ...userDemand('many', limit),
      window,
      unit,
      rule: `${window} ${limit}`,
    });
    const demands = [
      on('open', 0, 'requests'),
      on('day', 9),
      on('month', 9),
      on('minute', 0, 'tokens'),
      on('month', 8),
    ];
    const { exceeded } = await newLedger().reserve(reservation({ user: 'many', tokens: 1, demands }));
    assert.deepEqual(
      exceeded.map(({ rule }) => rule),
      ['month 8', 'month 9', 'day 9', 'minute 0', 'open 0'],
    );
  });
});

describe('a limit in shadow mode', () => {
  const shadow = (key: string, limit: number, rule = `trial-${limit}`): LimitDemand => ({
    ...userDemand(key, limit),
    rule,
    shadow: true,
  });

  async function reserve(ledger: DatabaseLedger, demands: readonly LimitDemand[]) {
    const { exceeded, shadows } = await ledger.reserve(reservation({ user: demands[0]!.key, demands }));
    return { refusal: exceeded[0]?.rule, told: shadows };
  }

  it('refuses nothing, and is reported each time it would have', async () => {
    const ledger = newLedger();
    const demands = [shadow('trial', 150)];
    assert.deepEqual(await reserve(ledger, demands), { refusal: undefined, told: [] });
    const { refusal, told } = await reserve(ledger, demands);
    assert.equal(refusal, undefined);
    assert.deepEqual(told, [
      {
        scope: 'user',
        key: 'trial',
        window: 'day',
        unit: 'nano_usd',
        rule: 'trial-150',
        limit: 150,
        spent: 0,
        reserved: 100,
        in_flight: 1,
        most: 100,
        resets_at: Date.parse('2026-03-11T00:00:00Z'),
      },
    ]);
    assert.equal((await balanceOf(database, 'trial')).reserved, 200);
  });

  it('is reported beside others on its counter only when it has no room itself', async () => {
    const ledger = newLedger();
    const demands = [userDemand('trials', 1000), shadow('trials', 50), shadow('trials', 99), shadow('trials', 100)];
    const { told } = await reserve(ledger, demands);
    assert.deepEqual(
      told.map(({ rule }) => rule),
      ['trial-50', 'trial-99'],
    );
  });

  it('is not reported when a limit in force refuses the request', async () => {
    const ledger = newLedger();
    const demands = [shadow('both', 50), userDemand('both', 60)];
    assert.deepEqual(await reserve(ledger, demands), { refusal: 'daily', told: [] });
    assert.deepEqual(await countersOf(database, 'both'), [
      { window_kind: 'day', window_start: '2026-03-10T00:00:00.000Z', spent: 0, reserved: 0 },
    ]);
  });

  it('sees every request of a batch in its turn, and holds nobody else up', async () => {
    const ledger = newLedger();
    const trial = [shadow('batch', 300)];
    const real = [userDemand('batch-2', 300)];
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => reserve(ledger, i % 2 === 0 ? trial : real)),
    );
    assert.equal(answers.filter(({ told }) => told.length > 0).length, 2);
    assert.equal(answers.filter(({ refusal }) => refusal !== undefined).length, 2);
    assert.equal((await balanceOf(database, 'batch')).reserved, 500);
    assert.equal((await balanceOf(database, 'batch-2')).reserved, 300);
  });
});

describe('a full batch', () => {
  it('in which one has no room grants all others', async () => {
    const ledger = newLedger();
    const asked = Array.from({ length: 500 }, (_, i) =>
      ledger.reserve(reservation({ user: `u${i}`, demands: [userDemand(`full-${i}`, i === 0 ? 0 : 1000)] })),
    );
    const refused = (await Promise.all(asked)).flatMap(({ exceeded }, i) => (exceeded.length === 0 ? [] : [i]));
    assert.deepEqual(refused, [0]);
  });
});
