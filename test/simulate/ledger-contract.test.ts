/** The ledger in memory matches the one in the database: rows, handles, moves and calendars; a property has the rest. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChargedAttempt, LimitDemand } from '../../engine/base/contract/services.ts';
import { SPEND_WINDOWS } from '../../engine/base/contract/windows.ts';
import { served as answered, failed } from '../stages/attempts.ts';
import { reservation, settlement } from '../support/store.ts';
import {
  type Bench,
  columns,
  demand,
  freshKey,
  type Scenarios,
  testScenarios,
  useLedgerKinds,
} from './ledger-benches.ts';

const kinds = useLedgerKinds();

const scenarios: Scenarios = {
  async 'charges what was reserved when the cost is no amount'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, demands: [demand(key, 100)] });
    await ledger.reserve(request);
    await ledger.settle({ ...settlement(request), cost_nano_usd: Number.NaN });
    return [await balance(demand(key, null)), (await rows(key)).map(columns)];
  },

  async 'charges user and team for what was never reserved'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, user: key, team: `${key}-team` });
    await ledger.settle({ ...settlement(request), reserved: false });
    await ledger.settle({ ...settlement(request), reserved: false });
    const team = demand(`${key}-team`, null, { scope: 'team', window: 'month' });
    return [await balance(demand(key, null)), await balance(team), (await rows(key)).map(columns)];
  },

  async 'settles a reservation by its handle only for its owner'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, user: 'u', demands: [demand(key, 100)] });
    const { reservation: reserved } = await ledger.reserve(request);
    await reserved!.settle(settlement(reservation({ user: 'somebody else', request_id: `${key}-2` })));
    const written = (await rows(key)).map(columns);
    assert.equal(written.length, 1);
    return [await balance(demand(key, null)), written];
  },

  async 'writes the row of a request that nothing was reserved for, and has nothing to give back'(
    { ledger, balance, rows },
    key,
  ) {
    const handle = ledger.unreserved(reservation({ request_id: key, user: key }));
    handle.topUp(50);
    await handle.release();
    await handle.settle(settlement(reservation()));
    return [await balance(demand(key, null)), (await rows(key)).map(columns)];
  },

  async 'gives no reservation to a request without room, and what is released by its handle back'(
    { ledger, balance },
    key,
  ) {
    const request = (amount_nano_usd: number) => reservation({ amount_nano_usd, demands: [demand(key, 100)] });
    const granted = await ledger.reserve(request(100));
    const refused = await ledger.reserve(request(1));
    await granted.reservation!.release();
    return [refused.reservation === undefined, await balance(demand(key, null))];
  },
};

/** Like a request under limits of its user and of its upstream. */
function at(
  key: string,
  upstream: string,
  amount: number,
  limits: { user?: number | null; upstream?: number | null } = {},
) {
  const { user = 1000, upstream: of_upstream = 1000 } = limits;
  const demands = [
    demand(key, user),
    demand(`${key}-${upstream}`, of_upstream, { scope: 'upstream', rule: 'upstream' }),
    demand(`${key}-${upstream}`, 5, { scope: 'upstream', window: 'minute', unit: 'requests', rule: 'rate' }),
    demand(`${key}-${upstream}`, 5, { scope: 'upstream', window: 'open', unit: 'requests', rule: 'at once' }),
    demand(`${key}-${upstream}`, 5000, { scope: 'upstream', window: 'minute', unit: 'tokens', rule: 'tokens' }),
  ];
  return reservation({ request_id: key, user: key, upstream, amount_nano_usd: amount, tokens: 40, demands });
}

/** An attempt that its upstream may bill. */
function mayBeBilled(n: number, upstream: string, cost_nano_usd: number): ChargedAttempt {
  const attempt = failed({ n, upstream });
  return { ...attempt, cost_nano_usd, provenance: 'possible', possibly_billed_nano_usd: cost_nano_usd };
}

function served(n: number, upstream: string, cost_nano_usd: number): ChargedAttempt {
  return { ...answered(n, { upstream, upstream_model: 'coder-1' }), cost_nano_usd, provenance: 'upstream' };
}

async function balances(bench: Bench, key: string, ...upstreams: string[]) {
  const names: LimitDemand[] = [demand(key, null)];
  for (const upstream of upstreams) names.push(...at(key, upstream, 0).demands.slice(1));
  return Promise.all(names.map((name) => bench.balance(name)));
}

/** Which counters an attempt counts on is written as ids in the database only. */
async function rowsOf({ rows }: Bench, key: string) {
  const columns = ['upstream', 'upstream_model', 'cost_nano_usd', 'attempts', 'provenance', 'status'];
  columns.push('upstream_ms', 'upstream_request_id');
  return (await rows(key)).map((row) => {
    const picked = Object.fromEntries(columns.map((name) => [name, (row as Record<string, unknown>)[name]]));
    const attempts = picked.attempts as Record<string, unknown>[] | null;
    return { ...picked, attempts: attempts?.map(({ counter_ids: _, ...attempt }) => attempt) ?? null };
  });
}

const moves: Scenarios = {
  async 'takes the counters of the new upstream and gives back those of the old one'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const moved = await bench.ledger.move(at(key, 'spare', 70), []);
    return [moved.exceeded, moved.statuses, await balances(bench, key, 'main', 'spare')];
  },

  async 'leaves everything as it was where the new upstream has no room'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const moved = await bench.ledger.move(at(key, 'spare', 70, { upstream: 69 }), []);
    await bench.ledger.move(at(key, 'third', 70), []);
    await bench.ledger.settle(settlement(at(key, 'third', 70)));
    return [moved, await balances(bench, key, 'main', 'spare', 'third')];
  },

  async 'asks a limit of both upstreams only for what is more than before'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const less = await bench.ledger.move(at(key, 'spare', 100, { user: 50 }), []);
    const more = await bench.ledger.move(at(key, 'third', 101, { user: 100 }), []);
    return [less, more, await balances(bench, key, 'main', 'spare', 'third')];
  },

  async 'keeps what earlier attempts may be billed where they were made, and books it there'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const reserved = [mayBeBilled(1, 'main', 30)];
    await bench.ledger.move(at(key, 'spare', 70), reserved);
    const after_one = await balances(bench, key, 'main', 'spare');
    const second = [...reserved, mayBeBilled(2, 'spare', 20)];
    await bench.ledger.move(at(key, 'third', 60), second);
    const after_two = await balances(bench, key, 'main', 'spare', 'third');
    const attempts = [...second, served(3, 'third', 11)];
    const outcome = { cost_nano_usd: 61, attempts, upstream: 'third', provenance: { cost: 'possible' as const } };
    const upstream_facts = { upstream_ms: 12.5, upstream_request_id: 'req_third' };
    await bench.ledger.settle(settlement(at(key, 'third', 60), { ...outcome, ...upstream_facts }));
    return [after_one, after_two, await balances(bench, key, 'main', 'spare', 'third'), await rowsOf(bench, key)];
  },

  async 'counts reserved amounts against the limits of both upstreams'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100, { user: 129 }));
    const refused = await bench.ledger.move(at(key, 'spare', 100, { user: 129 }), [mayBeBilled(1, 'main', 30)]);
    const moved = await bench.ledger.move(at(key, 'spare', 99, { user: 129 }), [mayBeBilled(1, 'main', 30)]);
    return [refused, moved, await balances(bench, key, 'main', 'spare')];
  },

  async 'counts as a request of each upstream that it was sent to'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const reserved: ChargedAttempt[] = [{ ...mayBeBilled(1, 'main', 0), certainty: 'not_sent', sends: 0 }];
    await bench.ledger.move(at(key, 'spare', 70), reserved);
    reserved.push({ ...mayBeBilled(2, 'spare', 0), certainty: 'answered', status: 529, outcome: 'overloaded' });
    await bench.ledger.move(at(key, 'third', 70), reserved);
    const under_way = await balances(bench, key, 'main', 'spare', 'third');
    await bench.ledger.settle(settlement(at(key, 'third', 70), { attempts: [...reserved, served(3, 'third', 60)] }));
    const settled = await balances(bench, key, 'main', 'spare', 'third');
    const of_minute = [2, 6, 10].map((i) => settled[i]!.spent);
    assert.deepEqual(of_minute, [0, 1, 1], 'main, spare, third');
    return [under_way, settled];
  },

  async 'gives back all of it when it is released'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    await bench.ledger.move(at(key, 'spare', 70), [mayBeBilled(1, 'main', 30)]);
    await bench.ledger.release(key);
    return [await balances(bench, key, 'main', 'spare'), await bench.rows(key)];
  },

  async 'reports a limit in shadow mode that would have kept it from moving'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const request = at(key, 'spare', 70);
    const shadow = demand(`${key}-spare`, 60, { scope: 'upstream', rule: 'trial', shadow: true });
    const moved = await bench.ledger.move({ ...request, demands: [...request.demands, shadow] }, []);
    return [moved.exceeded, moved.shadows];
  },

  async 'has nothing to move where nothing is reserved'(bench, key) {
    const moved = await bench.ledger.move(at(key, 'spare', 70), []).catch((error) => error.code);
    const reserved = bench.ledger.unreserved(at(key, 'main', 70));
    await reserved.move(at(key, 'spare', 70));
    await reserved.settle({
      ...settlement(at(key, 'main', 70)),
      attempts: [mayBeBilled(1, 'main', 0), served(2, 'spare', 60)],
    });
    return [moved, await bench.balance(demand(key, null)), await rowsOf(bench, key)];
  },
};

describe('the ledger in memory is like the one in the database: it', () => {
  testScenarios(scenarios, kinds);

  const moments: readonly (readonly [time_zone: string, at: string])[] = [
    ['UTC', '2026-03-10T23:59:59Z'],
    // Summer time begins and ends.
    ['Europe/Berlin', '2026-03-28T23:30:00Z'],
    ['Europe/Berlin', '2026-10-25T00:30:00Z'],
    ['America/New_York', '2026-03-08T05:30:00Z'],
    // It begins at midnight: the day has no midnight.
    ['Asia/Beirut', '2026-03-29T10:00:00Z'],
    // It ends at one and there are two midnights.
    ['America/Havana', '2026-11-01T04:30:00Z'],
    ['Pacific/Apia', '2026-05-31T10:30:00Z'],
  ];
  for (const [time_zone, at] of moments) {
    it(`ends calendar windows in ${time_zone} at the same moment, seen from ${at}`, async () => {
      const ends = [];
      for (const kind of kinds) {
        const key = freshKey();
        const { ledger } = kind.open(at, time_zone);
        const demands = SPEND_WINDOWS.map((window) => demand(key, 1, { window, rule: window }));
        const { exceeded } = await ledger.reserve(reservation({ demands }));
        const by_rule = exceeded.map(({ rule, resets_at }) => [rule, new Date(resets_at!).toISOString()] as const);
        ends.push(by_rule.toSorted());
      }
      assert.equal(ends[0]!.length, SPEND_WINDOWS.length);
      assert.deepEqual(ends[1], ends[0]);
    });
  }
});

describe('a reservation that moves to another upstream', () => {
  testScenarios(moves, kinds);
});
