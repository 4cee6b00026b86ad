/** The cost of requests that tried several upstreams, under limits of each upstream, with the maximum reserved. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ONE_ATTEMPT } from '../../support/gateway.ts';
import { answers, type Play, resets } from '../../support/model-provider/fault-server.ts';
import type { Response } from '../support/client.ts';
import { PRICING } from '../support/nine.ts';
import { ledgerRow, nothingReserved } from '../support/state.ts';
import { faultsInBooks, useSeveral } from './several.ts';

const several = useSeveral({
  count: 3,
  upstreams: ONE_ATTEMPT,
  each: { b: { price_multiplier: 2 }, c: { price_multiplier: 3 } },
  config: {
    models: ['coder-1', 'narrow-1'].map((id) => {
      return { id, context_window: 200_000, max_output_tokens: 1000, pricing: PRICING };
    }),
    spend_limits: {
      reserve: 'worst_case',
      defaults: { user_daily_usd: 100 },
      rules: [
        { name: 'each', scope: 'upstream', window: 'day', limit_usd: 50 },
        { name: 'often', scope: 'upstream', requests_per_minute: 1000 },
        { name: 'by caller', scope: 'user', requests_per_minute: 1000 },
        {
          // `narrow-1` has no headroom at the second upstream.
          ...{ name: 'narrow', scope: 'upstream', window: 'month', limit_usd: 0.000001 },
          when: {
            and: [{ '===': [{ var: 'request.model' }, 'narrow-1'] }, { '===': [{ var: 'route.upstream' }, 'b'] }],
          },
        },
      ],
    },
  },
});

function play(...plays: readonly Play[]): void {
  for (const [i, each] of plays.entries()) several.faults[i]!.plays.set('abc'[i]!, each);
}

/** Counted of the upstreams and the caller, by a limit of this unit and window, since the last query of it. */
const counted_before = new Map<string, readonly number[]>();
async function counted(window_kind: string, unit: string): Promise<readonly number[]> {
  await nothingReserved(several.gateway.database);
  const rows = await several.gateway.database.knex('spend_counters').where({ window_kind, unit });
  const now = ['a', 'b', 'c', 'dev@example.com'].map((name) =>
    rows.filter(({ key }) => key === name).reduce((sum, { spent }) => sum + Number(spent), 0),
  );
  const before = counted_before.get(unit) ?? [0, 0, 0, 0];
  counted_before.set(unit, now);
  return now.map((amount, i) => amount - before[i]!);
}
const spent = () => counted('day', 'nano_usd');

/** In a session of its own, which is at home nowhere. */
const ask = (more: object = {}): Promise<Response> => several.ask(crypto.randomUUID(), more);

async function played(model = 'coder-1') {
  await spent();
  const response = await ask({ model });
  assert.equal(response.status, 200, response.text);
  const request_id = String(response.headers['x-gateway-request-id']);
  const sums = await spent();
  const row = await ledgerRow(several.gateway.database, request_id);
  const attempts = await several.gateway.database.knex('ledger_attempts').where({ request_id }).orderBy('n');
  assert.deepEqual(await faultsInBooks(several), {});
  return { row, sums, attempts };
}

describe('a request that tries several upstreams', () => {
  test("counts each upstream's possible bill, and the sum for its caller", async () => {
    const alone = await played();
    const cost = alone.row.cost_nano_usd;
    assert.deepEqual(alone.sums, [cost, 0, 0, cost]);

    play(resets, answers(500));
    const { row, sums, attempts } = await played();
    const [first, second, third] = attempts.map(({ cost_nano_usd }) => Number(cost_nano_usd));
    assert.ok(first! > 0);
    assert.deepEqual([second, third], [2 * first!, 3 * cost], 'each by the prices of its upstream');
    assert.deepEqual(sums, [first, second, third, first! + second! + third!]);
    assert.equal(row.cost_nano_usd, first! + second! + third!);
    assert.equal(row.upstream, 'c');
    assert.deepEqual([row.provenance.cost, Number(row.provenance.possibly_billed_nano_usd)], ['possible', 3 * first!]);
  });

  test('skips an upstream whose limit has no headroom', async () => {
    play(answers(529));
    const { row, sums, attempts } = await played('narrow-1');
    assert.equal(several.counts()[1], 0);
    const tried = attempts.map(({ upstream }) => upstream);
    assert.deepEqual(tried, ['a', 'c']);
    assert.deepEqual(sums, [0, 0, row.cost_nano_usd, row.cost_nano_usd]);
  });

  test('counts as one request of its caller, and as one of each upstream that it was sent to', async () => {
    await counted('minute', 'requests');
    play(answers(500), answers(500));
    await played();
    await played('narrow-1');
    assert.deepEqual(await counted('minute', 'requests'), [2, 1, 2, 2]);
  });

  test('leaves the money of many at once where it belongs', async () => {
    play(resets);
    await spent();
    const responses = await Promise.all(Array.from({ length: 30 }, () => ask()));
    assert.ok(responses.every(({ status }) => status === 200));
    const [first, second, third, all] = await spent();
    assert.ok(first! > 0 && second! > 0 && third === 0);
    assert.equal(all, first! + second!);
    assert.deepEqual(await faultsInBooks(several), {});
  });
});
