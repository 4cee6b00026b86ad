import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LimitClaim, LimitStanding, SpendScope } from '../../engine/api.ts';
import { frozenClock } from '../../engine/services/clock.ts';
import type { Database } from '../../engine/services/database.ts';
import { type OpenLedger, openLedger } from '../../engine/services/ledger.ts';
import { balanceOf, countersOf, quietLog, reservation, settlement, userClaim, useTestStore } from '../support/store.ts';

let database: Database;
const open = useTestStore((opened) => {
  database = opened.database;
});

function newLedger(): OpenLedger {
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const ledger = openLedger({ database, clock, log: quietLog, every: () => () => {} });
  open.push(ledger);
  return ledger;
}

describe('several limits of a request', () => {
  const claim = (key: string, limit_nano_usd: number | null, more: Partial<LimitClaim> = {}): LimitClaim => ({
    ...userClaim(key, limit_nano_usd),
    rule: `at-most-${limit_nano_usd}`,
    ...more,
  });

  it('may be of any scope, and each is counted by itself', async () => {
    const ledger = newLedger();
    const scopes: SpendScope[] = ['user', 'team', 'project', 'model', 'upstream'];
    for (const scope of scopes) {
      const refusing = scopes.map((each) => claim('of-any-scope', each === scope ? 99 : 100, { scope: each }));
      const refusal = await ledger.reserve(reservation({ user: 'any', claims: refusing }));
      assert.deepEqual([refusal?.scope, refusal?.limit_nano_usd], [scope, 99]);
    }
    const claims = scopes.map((scope) => claim('of-any-scope', 100, { scope }));
    const request = reservation({ user: 'any', claims });
    assert.equal(await ledger.reserve(request), undefined);
    await ledger.settle(settlement(request));
    const counters = await countersOf(database, 'of-any-scope');
    assert.deepEqual(
      counters.map(({ spent, held }) => ({ spent, held })),
      scopes.map(() => ({ spent: 60, held: 0 })),
    );
  });

  it('on one counter hold the amount once, and the smallest refuses', async () => {
    const ledger = newLedger();
    const claims = [claim('shared', 300), claim('shared', null), claim('shared', 200), claim('shared', 250)];
    const first = reservation({ user: 'shared', claims });
    assert.equal(await ledger.reserve(first), undefined);
    assert.equal((await balanceOf(database, 'shared')).held, 100);
    assert.equal(await ledger.reserve(reservation({ user: 'shared', claims })), undefined);
    const refusal = await ledger.reserve(reservation({ user: 'shared', claims }));
    assert.deepEqual([refusal?.rule, refusal?.held_nano_usd], ['at-most-200', 200]);
    await ledger.settle(settlement(first));
    assert.deepEqual(await balanceOf(database, 'shared'), { spent: 60, held: 100 });
  });
});

describe('a limit in shadow mode', () => {
  const shadow = (key: string, limit_nano_usd: number, rule = `trial-${limit_nano_usd}`): LimitClaim => ({
    ...userClaim(key, limit_nano_usd),
    rule,
    shadow: true,
  });

  async function reserve(ledger: OpenLedger, claims: readonly LimitClaim[]) {
    const told: LimitStanding[] = [];
    const refusal = await ledger.reserve(reservation({ user: claims[0]!.key, claims }), (standing) =>
      told.push(standing),
    );
    return { refusal: refusal?.rule, told };
  }

  it('refuses nothing, and is reported each time it would have', async () => {
    const ledger = newLedger();
    const claims = [shadow('trial', 150)];
    assert.deepEqual(await reserve(ledger, claims), { refusal: undefined, told: [] });
    const { refusal, told } = await reserve(ledger, claims);
    assert.equal(refusal, undefined);
    assert.deepEqual(told, [
      {
        scope: 'user',
        key: 'trial',
        window: 'day',
        rule: 'trial-150',
        limit_nano_usd: 150,
        spent_nano_usd: 0,
        held_nano_usd: 100,
        resets_at: Date.parse('2026-03-11T00:00:00Z'),
      },
    ]);
    assert.equal((await balanceOf(database, 'trial')).held, 200);
  });

  it('is reported beside others on its counter only when it has no room itself', async () => {
    const ledger = newLedger();
    const claims = [userClaim('trials', 1000), shadow('trials', 50), shadow('trials', 99), shadow('trials', 100)];
    const { told } = await reserve(ledger, claims);
    assert.deepEqual(
      told.map(({ rule }) => rule),
      ['trial-50', 'trial-99'],
    );
  });

  it('is not reported when a limit in force refuses the request', async () => {
    const ledger = newLedger();
    const claims = [shadow('both', 50), userClaim('both', 60)];
    assert.deepEqual(await reserve(ledger, claims), { refusal: 'daily', told: [] });
    assert.deepEqual(await countersOf(database, 'both'), [
      { window_kind: 'day', window_start: '2026-03-10T00:00:00.000Z', spent: 0, held: 0 },
    ]);
  });

  it('sees every request of a batch in its turn, and holds nobody else up', async () => {
    const ledger = newLedger();
    const trial = [shadow('batch', 300)];
    const real = [userClaim('batch-2', 300)];
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => reserve(ledger, i % 2 === 0 ? trial : real)),
    );
    assert.equal(answers.filter(({ told }) => told.length > 0).length, 2);
    assert.equal(answers.filter(({ refusal }) => refusal !== undefined).length, 2);
    assert.equal((await balanceOf(database, 'batch')).held, 500);
    assert.equal((await balanceOf(database, 'batch-2')).held, 300);
  });
});
