import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LimitStatus } from '../../engine/api.ts';
import { StageError } from '../../engine/api.ts';
import { enter, limit_status, MIDNIGHT, NOON, type Situation, spendLimits, USD } from './budget-bench.ts';

/** The error of a request, which may cost 0.0105 USD, that these limits have no room for. */
async function refused(exceeded: readonly Partial<LimitStatus>[], situation: Situation = {}): Promise<StageError> {
  const statuses = exceeded.map(limit_status);
  const { stage, ctx } = enter({ ...situation, reserve: () => ({ exceeded: statuses }) });
  try {
    await stage.hooks.request!(ctx);
  } catch (error) {
    assert.deepEqual(ctx.written, { 'spend.rule': statuses[0]!.rule });
    assert.ok(error instanceof StageError);
    await stage.hooks.finish!(ctx);
    assert.deepEqual([stage.released, stage.settlements], [[], []]);
    return error;
  }
  throw new Error('the request was not refused');
}

const message = async (...asked: Parameters<typeof refused>) => (await refused(...asked)).message;

describe('a refusal for money', () => {
  it('says what ran out, when it resets and what to do, to people and to programs', async () => {
    const error = await refused([{}]);
    assert.equal(error.code, 'spend_limit_exceeded');
    assert.equal(error.status, 429);
    assert.equal(
      error.message,
      'The daily limit of 50 USD for user alice@example.com has no room for this request; it resets 2026-03-11 00:00 UTC. ' +
        'Until then ask your administrator for a higher limit. ' +
        'Spend rule defaults.user_daily_usd: 49.995 USD is spent, and this request may cost 0.0105 USD.',
    );
    assert.deepEqual(error.details, {
      limit_usd: 50,
      spent_usd: 49.995,
      reserved_usd: 0,
      reserved_by_requests: 0,
      needed_usd: 0.0105,
      window: 'day',
      scope: 'user',
      key: 'alice@example.com',
      resets_at: '2026-03-11T00:00:00.000Z',
      rule: 'defaults.user_daily_usd',
      exceeded: [
        {
          scope: 'user',
          key: 'alice@example.com',
          window: 'day',
          limit_usd: 50,
          resets_at: '2026-03-11T00:00:00.000Z',
          rule: 'defaults.user_daily_usd',
        },
      ],
    });
  });

  it('tells money reserved by requests in flight from money spent', async () => {
    const reserved = { spent: 10 * USD, reserved: 40 * USD, in_flight: 3 };
    const { message: text, details } = await refused([reserved]);
    assert.match(
      text,
      / has no room while 3 requests run; it resets \S+ 00:00 UTC\. Try again when they have finished\. Spend rule \S+: 10 USD is spent, 40 USD is reserved by 3 requests in flight, and this request may cost 0.0105 USD\.$/,
    );
    assert.deepEqual([details.reserved_usd, details.reserved_by_requests], [40, 3]);
    assert.match(
      await message([{ ...reserved, in_flight: 1 }]),
      /while 1 request runs; .* Try again when it has finished\. .* reserved by 1 request in flight/,
    );
  });

  it('says when the request alone is larger than the limit', async () => {
    const team = { scope: 'team', key: 'search', window: 'month', limit: 1_000_000 } as const;
    assert.match(
      await message([team]),
      /^Waiting does not help: this request alone is larger than the monthly limit of 0.001 USD for team search\. Ask for fewer output tokens.* this request may cost 0.0105 USD\.$/,
    );
  });

  it('that no waiting helps says so also beside a limit that only needs time, and is final', async () => {
    for (const limit of [{ limit: 0 }, { limit: 1_000_000 }]) {
      const {
        status,
        message: text,
        headers,
      } = await refused([{ scope: 'team', key: 'search', window: 'month' }, { ...limit }]);
      assert.match(text, /^Waiting does not help: /);
      assert.deepEqual([status, headers['x-should-retry']], [429, 'false']);
    }
  });

  it('does not send anybody to make a request smaller where nothing is allowed', async () => {
    assert.match(
      await message([{ limit: 0 }]),
      /^Waiting does not help: the daily limit of 0 USD for \S+ \S+ allows nothing\. Ask your administrator for a higher limit\. Spend rule \S+\.$/,
    );
  });

  it('under a typical reservation says what is likely, and when it is the worst case there is no room for', async () => {
    const typical = { spend_limits: spendLimits({ reserve: 'typical' }), typicalCost: () => 6_000_000 };
    assert.match(await message([{}], typical), /49.995 USD is spent, and this request is likely to cost 0.006 USD\.$/);
    const crowded = { spent: 49 * USD, reserved: USD / 10, in_flight: 4, most: 6 * USD };
    const { message: text, details } = await refused([crowded], typical);
    assert.match(
      text,
      /has no room while 4 requests run; it resets .*: 49 USD is spent, 4 requests in flight may cost up to 6 USD, and this request up to 0.0105 USD\.$/,
    );
    assert.equal(details.needed_usd, 0.0105);
  });

  it('is about the limit that resets last, and lists all that had no room', async () => {
    const week = { scope: 'team', key: 'search', window: 'week', rule: 'weekly', resets_at: MIDNIGHT + 1 } as const;
    const busy = {
      scope: 'user+model',
      key: '["alice@example.com","coder-1"]',
      rule: 'parallel',
      unit: 'requests',
      window: 'open',
      limit: 8,
      resets_at: null,
    } as const;
    const { message: text, details } = await refused([week, {}, busy]);
    assert.match(text, /^The weekly limit of 50 USD for team search has no room .* Spend rule weekly: /);
    assert.deepEqual(details.exceeded, [
      {
        scope: 'team',
        key: 'search',
        window: 'week',
        limit_usd: 50,
        resets_at: '2026-03-11T00:00:00.001Z',
        rule: 'weekly',
      },
      {
        scope: 'user',
        key: 'alice@example.com',
        window: 'day',
        limit_usd: 50,
        resets_at: '2026-03-11T00:00:00.000Z',
        rule: 'defaults.user_daily_usd',
      },
      {
        scope: 'user+model',
        key: '["alice@example.com","coder-1"]',
        window: 'open',
        limit: 8,
        unit: 'requests',
        resets_at: null,
        rule: 'parallel',
      },
    ]);
  });

  it('names every part of a combination', async () => {
    const both = { scope: 'user+model', key: '["alice@example.com","coder-1"]', rule: 'expensive' };
    assert.match(await message([both]), /for user alice@example.com and model coder-1 has .* Spend rule expensive: /);
  });

  it('has the status the operator chose, and asks for at least a second of patience', async () => {
    const error = await refused([{ resets_at: NOON - 5000 }], { spend_limits: spendLimits({ status: 402 }) });
    assert.equal(error.status, 402);
    assert.equal(error.headers['retry-after'], '1');
  });

  it('ends with the advice of the operator where there is one, instead of our own', async () => {
    const advice = 'Ask in #ai-platform for a higher limit.';
    const texts = await Promise.all(
      [{}, { spent: 0, reserved: 50 * USD, in_flight: 2 }, { limit: 1 }].map((each) =>
        message([each], { spend_limits: spendLimits({ advice }) }),
      ),
    );
    for (const text of texts) {
      assert.ok(text.includes(`. ${advice} Spend rule `), text);
      assert.match(text, /resets 2026-03-11 00:00 UTC|^Waiting does not help: /);
      assert.doesNotMatch(text, /administrator|fewer/);
    }
    assert.match(texts[1]!, / while 2 requests run; it resets \S+ 00:00 UTC\. Ask/);
  });
});

describe('in the first 157 characters, all that the build CLI shows, every refusal', () => {
  const advice = 'Ask in the channel ai-platform for more';
  const who = { key: 'dev@example.com', limit: 20 * USD };
  const per_minute = { window: 'minute', resets_at: NOON + 22_500, rule: 'tpm' } as const;
  const cases: Readonly<Record<string, Partial<LimitStatus>>> = {
    'of what is spent': { ...who, spent: 20 * USD },
    'of a shared pool': { ...who, scope: 'team', key: 'search', window: 'month', spent: 20 * USD },
    'that nothing gets through': { ...who, limit: 0 },
    'of a request larger than the limit': { ...who, limit: USD / 1000 },
    'of what is reserved': { ...who, spent: 0, reserved: 20 * USD, in_flight: 3 },
    'of what may become of others': { ...who, spent: 0, reserved: 0, in_flight: 3, most: 20 * USD },
    'of a minute': { ...who, ...per_minute, unit: 'tokens', limit: 2000, spent: 100, reserved: 1500, in_flight: 3 },
    'of a minute, for good': { ...who, ...per_minute, unit: 'tokens', limit: 3 },
    'of requests at once': {
      ...who,
      window: 'open',
      resets_at: null,
      unit: 'requests',
      limit: 2,
      reserved: 2,
      in_flight: 2,
    },
  };
  for (const [name, counter] of Object.entries(cases)) {
    it(`${name} says what ran out, when it resets and what to do`, async () => {
      const shown = async (more: Situation) => (await message([counter], more)).slice(0, 157);
      const [fact, help] = /^((?:The|Waiting) .*? limit of .*?|The limit of .*?)\. (?=[A-Z])(.*)/
        .exec(await shown({}))!
        .slice(1);
      const when = /^Waiting does not help: |resets 2026-03-11 00:00 UTC|finished$|in 23 seconds$/;
      assert.match(fact!, when);
      assert.match(help!, /^Spend rule|sk (?:for|your)|Try again when they have finished\./);
      const text = await shown({ spend_limits: spendLimits({ advice }) });
      assert.ok(text.startsWith(`${fact}. ${advice}.`), text);
    });
  }
});

describe('the headers of a refusal for money', () => {
  it('stop the client until the reset and name the reason, and leave off what would make it hide our sentence', async () => {
    const { headers } = await refused([{}]);
    assert.deepEqual(headers, {
      'retry-after': '43200',
      'x-should-retry': 'false',
      'vendor-ratelimit-unified-status': 'rejected',
      'vendor-ratelimit-unified-reset': String(MIDNIGHT / 1000),
      'vendor-ratelimit-unified-overage-reset': String(MIDNIGHT / 1000),
      'vendor-ratelimit-unified-overage-utilization': '1',
      'vendor-ratelimit-unified-overage-surpassed-threshold': '1',
      'vendor-ratelimit-unified-overage-period': 'daily',
      'vendor-ratelimit-unified-overage-disabled-reason': 'org_spend_cap_reached',
    });
  });

  it('say which period, and whether the limit is shared with others', async () => {
    const said = async (scope: string, window: LimitStatus['window']) => {
      const key = scope.includes('+') ? '["a","b"]' : 'a';
      const { headers } = await refused([{ scope, key, window }]);
      const unified = 'vendor-ratelimit-unified-overage';
      return [headers[`${unified}-period`], headers[`${unified}-scope`]];
    };
    assert.deepEqual(await said('user', 'week'), ['weekly', undefined]);
    assert.deepEqual(await said('token', 'month'), ['monthly', undefined]);
    assert.deepEqual(await said('user+model', 'day'), ['daily', undefined]);
    for (const shared of ['team', 'project', 'model', 'upstream', 'team+model']) {
      assert.deepEqual(await said(shared, 'month'), ['monthly', 'group_pool'], shared);
    }
  });
});

describe('a refusal for too many requests or tokens', () => {
  const busy = { unit: 'requests', rule: 'parallel', limit: 2, spent: 0, reserved: 2, in_flight: 2 } as const;
  const concurrent = { ...busy, window: 'open', resets_at: null } as const;
  const minute = {
    ...busy,
    window: 'minute',
    limit: 60,
    spent: 57,
    reserved: 3,
    in_flight: 3,
    resets_at: NOON + 22_500,
  } as const;
  const tokens = { ...minute, unit: 'tokens', limit: 2000, spent: 100, reserved: 1500, rule: 'tpm' } as const;

  it('at once asks to try again soon, and is no matter of money', async () => {
    const error = await refused([concurrent], { spend_limits: spendLimits({ status: 402 }) });
    assert.deepEqual([error.code, error.status], ['rate_limit_exceeded', 429]);
    assert.equal(
      error.message,
      'The limit of 2 requests at once for user alice@example.com is reached; try again when one of them has finished. Spend rule parallel: 2 requests are under way.',
    );
    assert.deepEqual(error.headers, { 'retry-after': '3' });
    const { exceeded, ...details } = error.details;
    assert.deepEqual(details, {
      limit: 2,
      unit: 'requests',
      window: 'open',
      scope: 'user',
      key: 'alice@example.com',
      rule: 'parallel',
      used: 0,
      reserved: 2,
      in_flight: 2,
      needed: 1,
      resets_at: null,
    });
    assert.equal((exceeded as unknown[]).length, 1);
  });

  it('at once counts one request in words that fit', async () => {
    const text = await message([{ ...concurrent, limit: 1, reserved: 1, in_flight: 1 }]);
    assert.match(text, / is reached; try again when it has finished\. Spend rule parallel: 1 request is under way\.$/);
  });

  it('of which nothing is allowed promises nothing of another try', async () => {
    for (const [counter, limit] of [
      [concurrent, '0 requests at once'],
      [minute, '0 requests per minute'],
      [tokens, '0 tokens per minute'],
    ] as const) {
      const { message: text, headers } = await refused([{ ...counter, limit: 0, reserved: 0, in_flight: 0 }]);
      const who = 'user alice@example.com';
      const fact = `Waiting does not help: the limit of ${limit} for ${who} allows nothing`;
      assert.equal(text, `${fact}. Ask your administrator for a higher limit. Spend rule ${counter.rule}.`);
      assert.equal(headers['x-should-retry'], 'false');
    }
  });

  it('per minute says how long until the next one', async () => {
    const { message: text, headers, details } = await refused([minute]);
    assert.equal(details.resets_at, '2026-03-10T12:00:22.500Z');
    assert.match(
      text,
      /^The limit of 60 requests per minute for user \S+ has no room for this request; try again in 23 seconds\. Spend rule parallel: 57 used and 3 reserved by requests in flight in this minute\.$/,
    );
    assert.deepEqual(headers, { 'retry-after': '23' });
    assert.match(await message([{ ...minute, resets_at: NOON + 1 }]), /try again in 1 second\. /);
  });

  it('in tokens says how many the request counts as', async () => {
    const { message: text, details } = await refused([tokens]);
    assert.match(
      text,
      /^The limit of 2000 tokens per minute .* has no room for this request; .*: 100 used and 1500 reserved .*, and this request may need 1300 tokens\.$/,
    );
    assert.equal(details.needed, 1300);
  });

  it('says when no waiting helps, and stops the client from trying', async () => {
    const { message: text, headers } = await refused([{ ...tokens, limit: 1299 }]);
    assert.match(
      text,
      /^Waiting does not help: this request alone is larger than the limit of 1299 tokens per minute for .*\. Send less, .*: this request may need 1300 tokens\.$/,
    );
    assert.equal(headers['x-should-retry'], 'false');
  });

  it('ends with the advice of the operator, and still says when to try again', async () => {
    const limits = { spend_limits: spendLimits({ advice: 'Use the batch queue.' }) };
    const ending = async (counter: Parameters<typeof refused>[0][number]) =>
      /[^;]*(?= Spend rule )/.exec(await message([counter], limits))![0];
    assert.match(await ending(concurrent), /try again when one of them has finished\. Use the batch queue\.$/);
    assert.equal(await ending(minute), ' try again in 23 seconds. Use the batch queue.');
    assert.equal(await ending(tokens), ' try again in 23 seconds. Use the batch queue.');
    assert.match(await ending({ ...tokens, limit: 1 }), / 1 token per minute for user \S+ Use the batch queue\.$/);
  });
});
