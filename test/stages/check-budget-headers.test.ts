import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { LimitStatus } from '../../engine/api.ts';
import { UpstreamHead } from '../../engine/run/upstream-head.ts';
import { enter, limit_status, MIDNIGHT, USD } from './budget-bench.ts';

const UNIFIED = 'vendor-ratelimit-unified-';

interface Answered {
  readonly statuses?: readonly LimitStatus[];
  readonly status?: number;
  readonly from_upstream?: readonly string[];
  readonly header_prefix?: string;
}

/** Headers of the answer a caller gets whose limits stand so, as a flat list. */
async function headersOf({ statuses = [], status = 200, from_upstream = [], ...more }: Answered): Promise<string[]> {
  const { stage, ctx } = enter({ reserve: () => ({ statuses }), ...more });
  await stage.hooks.request!(ctx);
  const head = new UpstreamHead(status, [...from_upstream]);
  stage.hooks.response!(ctx, head);
  return head.headers;
}

async function told(...statuses: LimitStatus[]): Promise<Record<string, string>> {
  const headers = await headersOf({ statuses });
  const pairs = Array.from({ length: headers.length / 2 }, (_, i) => headers.slice(2 * i, 2 * i + 2));
  return Object.fromEntries(pairs.map(([name, value]) => [name!.replace(UNIFIED, ''), value!]));
}

const used = (share: number, more: Partial<LimitStatus> = {}) =>
  limit_status({ limit: 100 * USD, spent: share * 100 * USD, ...more });

describe('an answer to a caller with a limit', () => {
  it('tells how much of it is used and when it resets', async () => {
    const reset = String(MIDNIGHT / 1000);
    assert.deepEqual(await told(used(0.5)), {
      status: 'allowed',
      'representative-claim': 'overage',
      'overage-status': 'allowed',
      'overage-utilization': '0.50',
      reset,
      'overage-reset': reset,
    });
  });

  it('warns from three quarters on, and says which threshold is passed', async () => {
    const said = async (share: number) => {
      const headers = await told(used(share));
      assert.equal(headers.status, headers['overage-status']);
      return [headers.status, headers['overage-utilization'], headers['overage-surpassed-threshold']];
    };
    assert.deepEqual(await said(0.7499), ['allowed', '0.74', undefined]);
    assert.deepEqual(await said(0.75), ['allowed_warning', '0.75', '0.75']);
    assert.deepEqual(await said(0.9499), ['allowed_warning', '0.94', '0.75']);
    assert.deepEqual(await said(0.95), ['allowed_warning', '0.95', '0.95']);
    assert.deepEqual(await said(1), ['allowed_warning', '0.99', '0.95'], 'only a refusal says 1');
    assert.deepEqual(await said(1.3), ['allowed_warning', '0.99', '0.95'], 'a limit was lowered meanwhile');
  });

  it('counts what is reserved as used', async () => {
    const headers = await told(used(0.5, { reserved: 30 * USD, in_flight: 2 }));
    assert.deepEqual([headers.status, headers['overage-utilization']], ['allowed_warning', '0.80']);
  });

  it('is about the limit that is used up the furthest', async () => {
    const month = used(0.6, { window: 'month', resets_at: MIDNIGHT + 86_400_000 });
    const headers = await told(used(0.2), month, used(0.59));
    assert.deepEqual([headers['overage-utilization'], headers.reset], ['0.60', String(MIDNIGHT / 1000 + 86_400)]);
  });

  it('can say something about a limit of nothing, and about spending that was corrected below zero', async () => {
    assert.equal((await told(used(0, { limit: 0 })))['overage-utilization'], '0.99');
    assert.equal((await told(used(-0.1)))['overage-utilization'], '0.00');
  });

  it('says every percent as it is, also where the share as a fraction is a little less', async () => {
    for (let percent = 0; percent < 100; percent++) {
      const headers = await told(limit_status({ limit: 100 * USD, spent: percent * USD }));
      assert.equal(headers['overage-utilization'], `0.${String(percent).padStart(2, '0')}`);
    }
  });

  it('always says two decimals below 1 and agrees with itself', async () => {
    const amount = fc.integer({ min: 0, max: 2 ** 52 });
    await fc.assert(
      fc.asyncProperty(amount, amount, amount, async (limit, spent, reserved) => {
        const headers = await told(limit_status({ limit, spent, reserved }));
        assert.match(headers['overage-utilization']!, /^0\.\d\d$/);
        assert.equal(headers.status === 'allowed_warning', headers['overage-surpassed-threshold'] !== undefined);
      }),
    );
  });
});

describe("the upstream's own figures about limits", () => {
  const from_upstream = [
    'Vendor-RateLimit-Requests-Limit',
    '50',
    'request-id',
    'req_1',
    'vendor-ratelimit-unified-status',
    'rejected',
    'vendor-ratelimit',
    'no prefix of it',
    'x-vendor-ratelimit-reset',
    '5',
    'VENDOR-RATELIMIT-unified-reset',
    '1',
  ];
  const others = ['request-id', 'req_1', 'vendor-ratelimit', 'no prefix of it', 'x-vendor-ratelimit-reset', '5'];

  it('are taken off, also for a caller without a limit, and nothing else is', async () => {
    assert.deepEqual(await headersOf({ from_upstream }), others);
  });

  it('give way to those of the caller', async () => {
    const headers = await headersOf({ from_upstream, statuses: [used(0.5)] });
    assert.deepEqual(headers.slice(0, others.length), others);
    assert.equal(headers.filter((name) => name.toLowerCase() === `${UNIFIED}status`).length, 1);
  });

  it('stay on its errors, which are passed on as they are, and ours are not added', async () => {
    for (const status of [400, 429, 529]) {
      assert.deepEqual(await headersOf({ status, from_upstream, statuses: [used(0.5)] }), from_upstream);
    }
  });
});

describe('the names of a profile', () => {
  it('are those of what is taken off and of what is put on', async () => {
    const from_upstream = ['acme-ratelimit-tokens', '5', 'vendor-ratelimit-tokens', '6'];
    const headers = await headersOf({ statuses: [used(0.5)], from_upstream, header_prefix: 'acme' });
    assert.deepEqual(headers.slice(0, 4), ['vendor-ratelimit-tokens', '6', 'acme-ratelimit-unified-status', 'allowed']);
  });
});
