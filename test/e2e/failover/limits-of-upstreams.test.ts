/** The cost of requests that tried several upstreams, under limits of each upstream, with the maximum reserved. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { bootGateway, ONE_ATTEMPT, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  reset,
  type Script,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { ask, type Response } from '../support/client.ts';
import { ledgerRow, nothingReserved } from '../support/state.ts';
import { faultsInBooks } from './several.ts';

/** Tried in this order. `narrow-1` has no headroom at the second one. */
const NAMES = ['first', 'second', 'third'] as const;
const MODELS = ['coder-1', 'narrow-1'];

let upstreams: readonly ScriptedUpstream[];
let gateway: TestGateway;

before(async () => {
  upstreams = await Promise.all(NAMES.map(() => startUpstream()));
  const pricing = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };
  gateway = await bootGateway({
    upstream_url: upstreams[0]!.url,
    config: {
      upstreams: NAMES.map((name, i) => ({
        ...{ name, type: 'vendor', base_url: upstreams[i]!.url, api_key_env: 'TEST_UPSTREAM_KEY', ...ONE_ATTEMPT },
        // Twice as expensive, then three times.
        price_multiplier: i + 1,
      })),
      models: MODELS.map((id) => ({ id, context_window: 200_000, max_output_tokens: 1000, pricing })),
      routing: { default_upstreams: NAMES.map((upstream, i) => ({ upstream, order: i + 1 })) },
      spend_limits: {
        reserve: 'worst_case',
        defaults: { user_daily_usd: 100 },
        rules: [
          { name: 'each', scope: 'upstream', window: 'day', limit_usd: 50 },
          { name: 'often', scope: 'upstream', requests_per_minute: 1000 },
          { name: 'by caller', scope: 'user', requests_per_minute: 1000 },
          {
            ...{ name: 'narrow', scope: 'upstream', window: 'month', limit_usd: 0.000001 },
            when: {
              and: [
                { '===': [{ var: 'request.model' }, 'narrow-1'] },
                { '===': [{ var: 'route.upstream' }, 'second'] },
              ],
            },
          },
        ],
      },
    },
  });
});
after(async () => {
  await gateway?.close();
  await Promise.all((upstreams ?? []).map((upstream) => upstream.close()));
});
beforeEach(() => play(answer, answer, answer));

const answer = answerJson(message());
const fail500: Script = answerJson({ type: 'error', error: { type: 'api_error', message: 'boom' } }, 500);

function play(...scripts: readonly Script[]): void {
  scripts.forEach((script, i) => {
    upstreams[i]!.script = script;
  });
}

/** Spending of the limit of each upstream, and of the caller's day, since the last query. */
let spent_before: readonly number[] = [0, 0, 0, 0];
async function spent(): Promise<readonly number[]> {
  await nothingReserved(gateway.database);
  const rows = await gateway.database.knex('spend_counters').where({ window_kind: 'day', unit: 'nano_usd' });
  const of = (scope: string, key: string) =>
    Number(rows.find((row) => row.scope === scope && row.key === key)?.spent ?? 0);
  const now = [...NAMES.map((name) => of('upstream', name)), of('user', 'dev@example.com')];
  const since = now.map((amount, i) => amount - spent_before[i]!);
  spent_before = now;
  return since;
}

/** Of a session of its own, which is at home nowhere. */
function askAnew(more: object = {}): Promise<Response> {
  return ask(gateway.url, gateway.token, more, ['x-claude-code-session-id', crypto.randomUUID()]);
}

async function played(model = 'coder-1') {
  await spent();
  const response: Response = await askAnew({ model });
  const { 'x-gateway-request-id': request_id } = response.headers as Record<string, string>;
  const sums = await spent();
  const row = await ledgerRow(gateway.database, request_id!);
  const attempts = await gateway.database.knex('ledger_attempts').where({ request_id }).orderBy('n');
  assert.deepEqual(await faultsInBooks({ gateway }), {});
  return { response, row, sums, attempts };
}

describe('a request that tries several upstreams', () => {
  test("counts each upstream's possible bill, and the sum for its caller", async () => {
    const alone = await played();
    assert.equal(alone.response.status, 200, alone.response.text);
    const cost = alone.row.cost_nano_usd;
    assert.deepEqual(alone.sums, [cost, 0, 0, cost]);

    play(reset, fail500, answer);
    const { response, row, sums, attempts } = await played();
    assert.equal(response.status, 200, response.text);
    const [first, second, third] = attempts.map(({ cost_nano_usd }) => Number(cost_nano_usd));
    assert.ok(first! > 0);
    assert.deepEqual([second, third], [2 * first!, 3 * cost], 'each by the prices of its upstream');
    assert.deepEqual(sums, [first, second, third, first! + second! + third!]);
    assert.equal(row.cost_nano_usd, first! + second! + third!);
    assert.equal(row.upstream, 'third');
    assert.deepEqual([row.provenance.cost, Number(row.provenance.possibly_billed_nano_usd)], ['possible', 3 * first!]);
  });

  test('skips an upstream whose limit has no headroom', async () => {
    play(answerJson({ type: 'error', error: { type: 'overloaded_error', message: 'no' } }, 529), answer, answer);
    const before_second = upstreams[1]!.requests.length;
    const { response, row, sums, attempts } = await played('narrow-1');
    assert.equal(response.status, 200, response.text);
    assert.equal(upstreams[1]!.requests.length, before_second);
    assert.deepEqual(
      attempts.map(({ upstream }) => upstream),
      ['first', 'third'],
    );
    assert.deepEqual(sums, [0, 0, row.cost_nano_usd, row.cost_nano_usd]);
  });

  test('counts as one request of its caller, and as one of each upstream that it was sent to', async () => {
    const counted = async () => {
      const rows = await gateway.database.knex('spend_counters').where({ window_kind: 'minute', unit: 'requests' });
      return ['first', 'second', 'third', 'dev@example.com'].map((name) =>
        rows.filter(({ key }) => key === name).reduce((sum, { spent }) => sum + Number(spent), 0),
      );
    };
    await spent();
    const before_all = await counted();
    play(fail500, fail500, answer);
    await played();
    await played('narrow-1');
    const since = (await counted()).map((count, i) => count - before_all[i]!);
    assert.deepEqual(since, [2, 1, 2, 2]);
  });

  test('leaves the money of many at once where it belongs', async () => {
    play(reset, answer, answer);
    await spent();
    const responses = await Promise.all(Array.from({ length: 30 }, () => askAnew()));
    assert.ok(responses.every(({ status }) => status === 200));
    const [first, second, third, all] = await spent();
    assert.ok(first! > 0 && second! > 0 && third === 0);
    assert.equal(all, first! + second!);
    assert.deepEqual(await faultsInBooks({ gateway }), {});
  });
});
