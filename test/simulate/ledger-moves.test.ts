/** A reservation that moves to another upstream, in the database and in memory. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import type { ChargedAttempt, LimitDemand } from '../../engine/contract/services.ts';
import { reservation, settlement, type TestStore, useTestStore } from '../support/store.ts';
import { type Bench, demand, ledgerKinds, type Scenarios, testScenarios } from './ledger-benches.ts';

let store: TestStore;
const open = useTestStore((opened) => {
  store = opened;
});

/** Like a request that comes under limits of its user and of the upstream that it goes to. */
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
  return {
    ...{ n, upstream, upstream_model: 'coder-1', certainty: 'possibly_accepted', status: null, outcome: 'unanswered' },
    ...{ reason: 'next_unconfirmed', sends: 1, ms: 12, cost_nano_usd, provenance: 'possible' },
    possibly_billed_nano_usd: cost_nano_usd,
  };
}

function served(n: number, upstream: string, cost_nano_usd: number): ChargedAttempt {
  const served = {
    certainty: 'answered',
    status: 200,
    outcome: 'answered',
    reason: 'served',
    sends: 1,
    ms: 9,
  } as const;
  return { n, upstream, upstream_model: 'coder-1', ...served, cost_nano_usd, provenance: 'upstream' };
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
    const sorted = (attempt: Record<string, unknown>) =>
      Object.fromEntries(
        Object.entries(attempt)
          .filter(([name]) => name !== 'counter_ids')
          .toSorted(),
      );
    return { ...picked, attempts: attempts?.map(sorted) ?? null };
  });
}

const scenarios: Scenarios = {
  async 'takes the counters of the new upstream and gives back those of the old one'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const moved = await bench.ledger.move(at(key, 'spare', 70), []);
    return [moved.exceeded, moved.statuses, await balances(bench, key, 'main', 'spare')];
  },

  async 'leaves everything as it was where the new upstream has no room'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const { exceeded, shadows, statuses, decided_at } = await bench.ledger.move(
      at(key, 'spare', 70, { upstream: 69 }),
      [],
    );
    await bench.ledger.move(at(key, 'third', 70), []);
    await bench.ledger.settle(settlement(at(key, 'third', 70)));
    return [exceeded, shadows, statuses, decided_at, await balances(bench, key, 'main', 'spare', 'third')];
  },

  async 'asks a limit of both upstreams only for what is more than before'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const less = await bench.ledger.move(at(key, 'spare', 100, { user: 50 }), []);
    const more = await bench.ledger.move(at(key, 'third', 101, { user: 100 }), []);
    return [less, more, await balances(bench, key, 'main', 'spare', 'third')];
  },

  async 'keeps what earlier attempts may be billed where they were made, and books it there'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const held = [mayBeBilled(1, 'main', 30)];
    await bench.ledger.move(at(key, 'spare', 70), held);
    const after_one = await balances(bench, key, 'main', 'spare');
    const second = [...held, mayBeBilled(2, 'spare', 20)];
    await bench.ledger.move(at(key, 'third', 60), second);
    const after_two = await balances(bench, key, 'main', 'spare', 'third');
    const attempts = [...second, served(3, 'third', 11)];
    const outcome = { cost_nano_usd: 61, attempts, upstream: 'third', provenance: { cost: 'possible' as const } };
    const told = { upstream_ms: 12.5, upstream_request_id: 'req_third' };
    await bench.ledger.settle(settlement(at(key, 'third', 60), { ...outcome, ...told }));
    return [after_one, after_two, await balances(bench, key, 'main', 'spare', 'third'), await rowsOf(bench, key)];
  },

  async 'counts what is held against the limits of both upstreams'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100, { user: 129 }));
    const refused = await bench.ledger.move(at(key, 'spare', 100, { user: 129 }), [mayBeBilled(1, 'main', 30)]);
    const moved = await bench.ledger.move(at(key, 'spare', 99, { user: 129 }), [mayBeBilled(1, 'main', 30)]);
    return [refused, moved, await balances(bench, key, 'main', 'spare')];
  },

  async 'counts as a request of each upstream that it was sent to'(bench, key) {
    await bench.ledger.reserve(at(key, 'main', 100));
    const held: ChargedAttempt[] = [{ ...mayBeBilled(1, 'main', 0), certainty: 'not_sent', sends: 0 }];
    await bench.ledger.move(at(key, 'spare', 70), held);
    held.push({ ...mayBeBilled(2, 'spare', 0), certainty: 'answered', status: 529, outcome: 'overloaded' });
    await bench.ledger.move(at(key, 'third', 70), held);
    const under_way = await balances(bench, key, 'main', 'spare', 'third');
    await bench.ledger.settle(settlement(at(key, 'third', 70), { attempts: [...held, served(3, 'third', 60)] }));
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

  async 'tells of a limit in shadow mode that would have kept it from moving'(bench, key) {
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

describe('a reservation that moves to another upstream', () => {
  testScenarios(
    scenarios,
    ledgerKinds(() => store, open),
  );
});
