import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type AttemptRecord, type LimitStatus, StageError } from '../../engine/api.ts';
import type { Candidate } from '../../engine/base/contract/forwarding.ts';
import { type Facts, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import { UpstreamHead } from '../../engine/pipeline/run/headers.ts';
import { attemptNext, failed, served } from './attempts.ts';
import { enter, limit_status, MIDNIGHT, NOON, reserved, type Situation, spendLimits, USD } from './budget-bench.ts';

/** The prices of the harness's models, in nano-USD per token. */
const PRICE = { input: 3000, output: 15_000, cache_write_5m: 3750, cache_write_1h: 6000 };
const COST = 1000 * PRICE.input + 500 * PRICE.output;
const MOST = { 'spend.most_tokens': { input: 1000, output: 500, input_limit: 200_000, other_runs: 1 } };

/** What a request of these facts reserves, in nano-USD. */
const amountOf = async (facts: Facts) => (await reserved({ facts })).amount_nano_usd;

describe('the reservation of check-budget', () => {
  it('is the input bound and the output bound at full price', async () => {
    const { amount_nano_usd, most_nano_usd, overshoot_percent } = await reserved();
    assert.deepEqual([amount_nano_usd, most_nano_usd, overshoot_percent], [COST, COST, undefined]);
  });

  it('prices the input as the most expensive requested cache write', async () => {
    const amount = (ttl: string, more: Facts = {}) =>
      amountOf({ 'request.cache.ttl': ttl, 'request.max_tokens': 1, ...more });
    assert.equal(await amount('none'), 1000 * PRICE.input + PRICE.output);
    assert.equal(await amount('5m'), 1000 * PRICE.cache_write_5m + PRICE.output);
    assert.equal(await amount('1h'), 1000 * PRICE.cache_write_1h + PRICE.output);
    assert.equal(await amount('1h', { 'cache.downgraded': true }), 1000 * PRICE.cache_write_5m + PRICE.output);
  });

  it("never exceeds the model's context window", async () => {
    const facts = { 'request.input_tokens_max': 10 ** 9, 'request.max_tokens': Number.MAX_SAFE_INTEGER };
    assert.equal(await amountOf(facts), 200_000 * (PRICE.input + PRICE.output));
  });

  it('covers audio at its price, in input and output', async () => {
    const amount = (fields: readonly string[]) => {
      const decisive = Object.fromEntries(fields.map((field) => [`${field}[0]`, { field, value: 'audio' }]));
      return amountOf({ 'request.privileged_fields': decisive });
    };
    // Without a price of its own: 16 times that of text in, 8 times out.
    assert.equal(await amount(['input_audio']), 16 * 1000 * PRICE.input + 500 * PRICE.output);
    assert.equal(await amount(['modalities']), 1000 * PRICE.input + 8 * 500 * PRICE.output);
    assert.equal(await amount(['input_audio', 'modalities']), 16 * 1000 * PRICE.input + 8 * 500 * PRICE.output);
    assert.equal(await amount(['service_tier']), COST);
  });

  it('covers every requested response', async () => {
    const { amount_nano_usd, tokens } = await reserved({ facts: { 'request.choices': 3 } });
    assert.equal(amount_nano_usd, 3 * COST, 'some providers read the input for every response');
    assert.equal(tokens, 800 + 3 * 500);
    const longest = await amountOf({ 'request.choices': 2, 'request.max_tokens': 10 ** 9 });
    assert.equal(longest, 2 * (1000 * PRICE.input + 200_000 * PRICE.output));
  });

  it("covers unrequested cache writes, where the upstream's protocol allows them", async () => {
    const amount = (protocol: string, ttl = 'none') => {
      const protocols = { 'request.protocol': protocol, 'route.protocol': protocol };
      return amountOf({ ...protocols, 'request.cache.ttl': ttl, 'request.max_tokens': 1 });
    };
    assert.equal(await amount('messages'), 1000 * PRICE.input + PRICE.output);
    assert.equal(await amount('chat'), 1000 * PRICE.cache_write_5m + PRICE.output);
    assert.equal(await amount('responses'), 1000 * PRICE.cache_write_5m + PRICE.output);
    assert.equal(await amount('chat', '1h'), 1000 * PRICE.cache_write_1h + PRICE.output);
  });

  it("covers every model named beside the request's, to the end of its own output, duplicates too", async () => {
    const amount = (others: readonly string[]) => amountOf({ 'request.other_models': others });
    const other = 1000 * PRICE.input + 64_000 * PRICE.output;
    assert.equal(await amount(['coder-2']), COST + other);
    assert.equal(await amount(['coder-1']), COST + other);
    assert.equal(await amount(['coder-1', 'coder-2']), COST + 2 * other);
    const { stage, ctx } = enter({ facts: { 'request.other_models': ['coder-1'] } });
    await stage.hooks.request!(ctx);
    // Nor is its request cut below that.
    const most = { input: 2000, output: 64_500, input_limit: 400_000, other_runs: 1 };
    assert.deepEqual(ctx.written['spend.most_tokens'], most);
  });

  it('is made for the caller, its request and its upstream', async () => {
    const { demands: _, ...identity } = await reserved({
      facts: { 'principal.team': 'search', 'principal.project': 'apollo' },
      spend_limits: spendLimits(),
    });
    assert.deepEqual(identity, {
      request_id: 'req-1',
      protocol: 'messages',
      principal_id: 'user:alice@example.com',
      user: 'alice@example.com',
      team: 'search',
      project: 'apollo',
      token_id: 'tok_1',
      model: 'coder-1',
      upstream: 'main',
      upstream_model: 'coder-1',
      amount_nano_usd: COST,
      most_nano_usd: COST,
      tokens: 1300,
      on_store_error: 'deny',
    });
  });

  it("counts the likely and requested tokens, within the model's limits", async () => {
    const tokens = async (facts: Facts) => (await reserved({ facts })).tokens;
    assert.equal(await tokens({}), 800 + 500);
    assert.equal(await tokens({ 'request.max_tokens': undefined }), 800 + 64_000);
    assert.equal(await tokens({ 'request.max_tokens': 10 ** 12 }), 800 + 64_000);
    assert.equal(await tokens({ 'request.input_tokens_estimate': 10 ** 9 }), 200_000 + 500);
    assert.equal((await reserved({ charge: 'nothing' })).tokens, 0);
  });
});

describe('a typical reservation', () => {
  const typical = spendLimits({ reserve: 'typical', overshoot_percent: 7 });

  it("reserves the typical cost of this caller's requests to this model, and names the maximum", async () => {
    const asked: string[][] = [];
    const { stage, ctx } = enter({
      spend_limits: typical,
      typicalCost(...who) {
        asked.push(who);
        return 1234;
      },
    });
    await stage.hooks.request!(ctx);
    const { amount_nano_usd, most_nano_usd, overshoot_percent } = stage.reservations[0]!;
    assert.deepEqual([amount_nano_usd, most_nano_usd, overshoot_percent], [1234, COST, 7]);
    assert.deepEqual(asked, [['alice@example.com', 'coder-1']]);
    assert.deepEqual(ctx.written, { ...MOST, 'spend.reserved_nano_usd': 1234, 'spend.most_nano_usd': COST });
  });

  it('reserves the maximum while nothing is known, and never more than that', async () => {
    assert.equal((await reserved({ spend_limits: typical })).amount_nano_usd, COST);
    assert.equal((await reserved({ spend_limits: typical, typicalCost: () => COST + 1 })).amount_nano_usd, COST);
  });

  it('needs no typical cost under worst_case, for a free request, nor for several responses', async () => {
    const cases: readonly (readonly [Situation, cost: number])[] = [
      [{ spend_limits: spendLimits() }, COST],
      [{ charge: 'nothing' }, 0],
      // These cost more than usual.
      [{ facts: { 'request.choices': 2 } }, 2 * COST],
    ];
    for (const [situation, cost] of cases) {
      const { amount_nano_usd, most_nano_usd, overshoot_percent } = await reserved({
        ...{ spend_limits: typical, typicalCost: () => 1 },
        ...situation,
      });
      assert.deepEqual([amount_nano_usd, most_nano_usd, overshoot_percent], [cost, cost, undefined]);
    }
  });
});

describe('a limit in shadow mode', () => {
  it('without headroom lets the request continue, and is reported by name', async () => {
    const { stage, ctx } = enter({ reserve: () => ({ shadows: [limit_status({ rule: 'trial' })] }) });
    await stage.hooks.request!(ctx);
    assert.deepEqual(ctx.shadows, ['spend:trial']);
    assert.equal(ctx.written['spend.reserved_nano_usd'], COST);
  });
});

describe('while the database is away', () => {
  it('a request permitted during an outage is sent without a reservation, with a fact', async () => {
    const { stage, ctx } = enter({ reserve: () => ({ unreserved: true }) });
    await stage.hooks.request!(ctx);
    assert.deepEqual(ctx.written, {
      ...MOST,
      'spend.reserved_nano_usd': 0,
      'spend.most_nano_usd': COST,
      'spend.unreserved': true,
    });
    await stage.hooks.finish!(ctx);
    assert.deepEqual(stage.released, ['req-1'], 'it never left, which the ledger must learn');
  });

  it('any other is rejected with the error of the ledger, and reports that its limits cannot be read', async () => {
    const away = new StageError('store_unavailable', 'The gateway cannot use its database.', {
      details: { why: 'away' },
      headers: { 'retry-after': '2' },
    });
    const { stage, ctx } = enter({ reserve: () => Promise.reject(away) });
    const { code, message, details, headers } = away;
    const reason = { 'vendor-ratelimit-unified-overage-disabled-reason': 'fetch_error' };
    const expected = { code, status: 503, message, details, headers: { ...headers, ...reason } };
    await assert.rejects(async () => stage.hooks.request!(ctx), expected);
  });

  it('an error that is no outage is not treated as one', async () => {
    const fault = new RangeError('cannot hold -1 nano-USD');
    const { stage, ctx } = enter({ reserve: () => Promise.reject(fault) });
    await assert.rejects(async () => stage.hooks.request!(ctx), fault);
  });
});

describe('the end of a request that check-budget admitted', () => {
  async function ended(facts: Facts) {
    const { stage, ctx } = enter();
    await stage.hooks.request!(ctx);
    ctx.noteAll(facts);
    await stage.hooks.finish!(ctx);
    return stage;
  }

  it('releases the reservation when the request never left', async () => {
    const { released, settlements } = await ended({});
    assert.deepEqual([released, settlements], [['req-1'], []]);
  });

  it('leaves a metered request alone', async () => {
    const { released, settlements } = await ended({ 'upstream.attempts': 1, 'usage.provenance': {} });
    assert.deepEqual([released, settlements], [[], []]);
  });

  it('settles an unmetered request at the reserved amount', async () => {
    const { released, settlements } = await ended({ 'upstream.attempts': 1, 'upstream.status': 200 });
    const [{ cost_nano_usd, status, reserved, tokens, provenance } = assert.fail(), ...more] = settlements;
    assert.deepEqual([released, more, cost_nano_usd, status, reserved], [[], [], COST, 200, true]);
    assert.deepEqual(tokens, { input: 1000, output: 500, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 });
    assert.deepEqual([...new Set(Object.values(provenance))], ['estimate']);
  });

  it('charges nothing for a rejection by the upstream', async () => {
    const { settlements } = await ended({ 'upstream.attempts': 1, 'upstream.status': 529 });
    assert.equal(settlements[0]?.cost_nano_usd, 0);
    assert.equal(settlements[0]?.status, 529);
  });

  it('does nothing when nothing was reserved', async () => {
    const away = new StageError('store_unavailable', 'The gateway cannot use its database.');
    const { stage, ctx } = enter({ reserve: () => Promise.reject(away) });
    await assert.rejects(async () => stage.hooks.request!(ctx), /cannot use its database/);
    await stage.hooks.finish!(ctx);
    assert.deepEqual([stage.released, stage.settlements], [[], []]);
  });

  it('releases its reservation when it has run out of time meanwhile', async () => {
    const { stage, ctx } = enter();
    Object.defineProperty(ctx, 'state', { set: () => assert.fail('the hook is over') });
    await assert.rejects(async () => stage.hooks.request!(ctx), /the hook is over/);
    assert.deepEqual(stage.released, [stage.reservations[0]?.request_id]);
  });
});

const SPARE = { 'route.upstream': 'spare', 'route.upstream_model': 'coder-1@2026' };
const INPUT = 800 * 3000;
const worst_case = spendLimits({ reserve: 'worst_case' });

async function moved(attempts: readonly AttemptRecord[], situation: Situation = {}) {
  const { stage, ctx } = enter(situation);
  await stage.hooks.request!(ctx);
  const next = (facts = SPARE, all = attempts) =>
    attemptNext(ctx, (c) => stage.hooks.attempt!(c), { facts, attempts: all });
  return { stage, ctx, next };
}

describe('a request that check-budget admitted to another upstream', () => {
  it('has nothing moved for its first attempt, nor for another one where it is', async () => {
    const { stage, next } = await moved([]);
    await next({ 'route.upstream': 'main', 'route.upstream_model': 'coder-1' });
    assert.deepEqual(stage.moved, []);
  });

  it("has its reservation moved there, with that upstream's limits and its previous attempts", async () => {
    const { stage, ctx, next } = await moved([failed()], { spend_limits: spendLimits({ reserve: 'typical' }) });
    await next();
    const [{ request, held } = assert.fail()] = stage.moved;
    assert.deepEqual([request.upstream, request.upstream_model], ['spare', 'coder-1@2026']);
    const apart = { cost_nano_usd: 0, provenance: 'estimate', possibly_billed_nano_usd: INPUT } as const;
    assert.deepEqual(held, [{ ...failed(), ...apart }]);
    const scopesOf = ({ demands }: typeof request) => demands.map(({ scope }) => scope);
    assert.deepEqual(scopesOf(request), scopesOf(stage.reservations[0]!));
    assert.equal(ctx.written['spend.reserved_nano_usd'], request.amount_nano_usd);
  });

  it('keeps under worst_case the input of possibly billed attempts, one by one', async () => {
    const answered = failed({ n: 2, upstream: 'spare', outcome: 'overloaded', certainty: 'answered', status: 529 });
    const { stage, next } = await moved([failed(), answered], { spend_limits: worst_case });
    await next(SPARE, [failed()]);
    await next({ 'route.upstream': 'main', 'route.upstream_model': 'coder-1' });
    const costs = stage.moved.map(({ held }) => held.map(({ n, cost_nano_usd }) => `${n}: ${cost_nano_usd}`));
    assert.deepEqual(costs, [[`1: ${INPUT}`], [`1: ${INPUT}`, '2: 0']]);
  });

  it('keeps no money of an attempt that never left, was rejected, or belongs to a free request', async () => {
    const unbilled = [
      { certainty: 'not_sent', outcome: 'unreachable' },
      { certainty: 'answered', status: 429, outcome: 'limited' },
      { certainty: 'answered', status: 400, outcome: 'caller' },
    ] as const;
    for (const attempt of unbilled.map(failed)) {
      const { stage, next } = await moved([attempt], { spend_limits: worst_case });
      await next();
      assert.deepEqual(stage.moved[0]!.held, [{ ...attempt, cost_nano_usd: 0, provenance: 'refused' }]);
    }
    const { stage, next } = await moved([failed()], { spend_limits: worst_case, charge: 'nothing' });
    await next();
    assert.equal(stage.moved[0]!.held[0]!.cost_nano_usd, 0);
  });

  it('is rejected there by a limit without headroom, and the rule is named if that ends the request', async () => {
    const exceeded = [limit_status({ scope: 'upstream', key: 'spare', rule: 'small-spare' })];
    const { stage, ctx, next } = await moved([failed()], { move: () => ({ exceeded }) });
    await assert.rejects(next(), (error: StageError) => error.code === 'spend_limit_exceeded');
    ctx.noteAll({ 'error.code': 'spend_limit_exceeded', 'upstream.attempts': 1, 'usage.provenance': {} });
    await stage.hooks.finish!(ctx);
    assert.equal(ctx.written['spend.rule'], 'small-spare');
  });

  it('continues during an outage only where its limits allow it', async () => {
    const move = () => {
      throw new StageError('store_unavailable', 'The gateway cannot use its database.');
    };
    const strict = await moved([failed()], { move });
    await assert.rejects(strict.next(), (error: StageError) => error.code === 'store_unavailable');
    const lenient = await moved([failed()], { move, spend_limits: spendLimits({ on_store_error: 'allow' }) });
    await lenient.next();
  });

  it('is billed with its attempts without metering', async () => {
    const { stage, ctx, next } = await moved([failed()], { spend_limits: worst_case });
    await next();
    ctx.attempted.records = [failed(), served(2, { ms: 9.5, upstream_request_id: 'req_2' })];
    ctx.noteAll({ 'upstream.attempts': 2, 'upstream.status': 200 });
    await stage.hooks.finish!(ctx);
    const { amount_nano_usd } = stage.moved[0]!.request;
    assert.equal(stage.settlements[0]!.cost_nano_usd, amount_nano_usd + INPUT);
    assert.equal(stage.settlements[0]!.attempts!.length, 2);
    const { upstream_ms, upstream_request_id } = stage.settlements[0]!;
    assert.deepEqual([upstream_ms, upstream_request_id], [9.5, 'req_2']);
  });
});

describe('a request whose first upstream has no headroom in limits of its own', () => {
  const [main, spare] = stageConfig().upstreams;
  const candidates: readonly Candidate[] = [
    {
      upstream: main!,
      upstream_model: 'coder-1',
      facts: { 'route.upstream': 'main', 'route.upstream_model': 'coder-1' },
    },
    { upstream: spare!, upstream_model: 'coder-1@2026', facts: SPARE },
  ];

  async function asked(...scopes: readonly string[]) {
    const exceeded = scopes.map((scope) => limit_status({ scope, rule: `limit on ${scope}` }));
    const reserve = ({ upstream }: { readonly upstream: string }) => ({
      exceeded: upstream === 'main' ? exceeded : [],
    });
    const { stage, ctx } = enter({ reserve });
    ctx.candidates = candidates;
    ctx.noteAll({ 'route.candidates': ['main', 'spare'] });
    return { stage, ctx, error: await Promise.resolve(stage.hooks.request!(ctx)).then(() => undefined, String) };
  }

  it('is reserved at the next, and the one before is dropped', async () => {
    for (const scope of ['upstream', 'user+upstream']) {
      const { stage, ctx, error } = await asked(scope);
      assert.equal(error, undefined);
      const places = stage.reservations.map(({ upstream, upstream_model }) => `${upstream} ${upstream_model}`);
      assert.deepEqual(places, ['main coder-1', 'spare coder-1@2026']);
      assert.equal(ctx.candidates!.map(({ upstream }) => upstream.name).join(), 'spare');
      const facts = (['route.upstream', 'route.candidates', 'route.dropped'] as const).map((path) => ctx.peek(path));
      assert.deepEqual(facts, ['spare', ['spare'], ['main: limit']]);
      assert.equal(ctx.written['spend.rule'], undefined);
    }
  });

  it("is rejected where another limit than the upstream's has no headroom", async () => {
    const { stage, ctx, error } = await asked('upstream', 'user');
    assert.match(error!, /would exceed/);
    assert.equal(stage.reservations.length, 1);
    assert.equal(ctx.candidates, candidates);
  });
});

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

describe('a rejection for money', () => {
  it('reports the exhausted limit, its reset and a remedy, to users and to programs', async () => {
    const error = await refused([{}]);
    assert.equal(error.code, 'spend_limit_exceeded');
    assert.equal(error.status, 429);
    assert.equal(
      error.message,
      'This request would exceed the daily limit of 50 USD for user alice@example.com; the limit resets 2026-03-11 00:00 UTC. ' +
        'To continue sooner, ask your administrator for a higher limit. ' +
        'Spend rule defaults.user_daily_usd: 49.995 USD is spent, and this request may cost 0.0105 USD.',
    );
    const limit = {
      ...{ limit_usd: 50, window: 'day', scope: 'user', key: 'alice@example.com', rule: 'defaults.user_daily_usd' },
      resets_at: '2026-03-11T00:00:00.000Z',
    };
    const amounts = { spent_usd: 49.995, reserved_usd: 0, reserved_by_requests: 0, needed_usd: 0.0105 };
    assert.deepEqual(error.details, { ...limit, ...amounts, exceeded: [limit] });
  });

  it('distinguishes money reserved by requests in flight from money spent', async () => {
    const reserved = { spent: 10 * USD, reserved: 40 * USD, in_flight: 3 };
    const { message: text, details } = await refused([reserved]);
    assert.match(
      text,
      / \(resets \S+ 00:00 UTC\) is reached while 3 requests run\. Try again when they have finished\. Spend rule \S+: 10 USD is spent, 40 USD is reserved by 3 requests in flight, and this request may cost 0.0105 USD\.$/,
    );
    assert.deepEqual([details.reserved_usd, details.reserved_by_requests], [40, 3]);
    assert.match(
      await message([{ ...reserved, in_flight: 1 }]),
      /while 1 request runs\. Try again when the request has finished\. .* reserved by 1 request in flight/,
    );
  });

  it('reports a request that alone exceeds the limit', async () => {
    const team = { scope: 'team', key: 'search', window: 'month', limit: 1_000_000 } as const;
    assert.match(
      await message([team]),
      /^Retrying will not help: this request alone exceeds the monthly limit of 0.001 USD for team search\. Request fewer output tokens.* this request may cost 0.0105 USD\.$/,
    );
  });

  it('that no waiting helps reports it also beside a limit that only needs time, and is final', async () => {
    for (const limit of [0, 1_000_000]) {
      const error = await refused([{ scope: 'team', key: 'search', window: 'month' }, { limit }]);
      assert.match(error.message, /^Retrying will not help: /);
      assert.deepEqual([error.status, error.headers['x-should-retry']], [429, 'false']);
    }
  });

  it('does not suggest a smaller request where nothing is allowed', async () => {
    assert.match(
      await message([{ limit: 0 }]),
      /^Retrying will not help: the daily limit for \S+ \S+ is 0 USD\. Ask your administrator for a higher limit\. Spend rule \S+\.$/,
    );
  });

  it('under a typical reservation reports the likely cost, and when only the worst case does not fit', async () => {
    const typical = { spend_limits: spendLimits({ reserve: 'typical' }), typicalCost: () => 6_000_000 };
    assert.match(await message([{}], typical), /49.995 USD is spent, and this request is likely to cost 0.006 USD\.$/);
    const crowded = { spent: 49 * USD, reserved: USD / 10, in_flight: 4, most: 6 * USD };
    const { message: text, details } = await refused([crowded], typical);
    assert.match(
      text,
      /\(resets .*\) is reached while 4 requests run\. .*: 49 USD is spent, 4 requests in flight may cost up to 6 USD, and this request up to 0.0105 USD\.$/,
    );
    assert.equal(details.needed_usd, 0.0105);
  });

  it('names every part of a combination', async () => {
    const both = { scope: 'user+model', key: '["alice@example.com","coder-1"]', rule: 'expensive' };
    assert.match(await message([both]), /for user alice@example.com and model coder-1; .* Spend rule expensive: /);
  });
});

describe('in the first 157 characters, all that the build CLI shows, every rejection', () => {
  const advice = 'Ask in the channel ai-platform for more';
  const who = { key: 'dev@example.com', limit: 20 * USD };
  const per_minute = { window: 'minute', resets_at: NOON + 22_500, rule: 'tpm' } as const;
  const at_once = { window: 'open', resets_at: null } as const;
  const cases: Readonly<Record<string, Partial<LimitStatus>>> = {
    'of what is spent': { ...who, spent: 20 * USD },
    'of a shared pool': { ...who, scope: 'team', key: 'search', window: 'month', spent: 20 * USD },
    'that nothing gets through': { ...who, limit: 0 },
    'of a request larger than the limit': { ...who, limit: USD / 1000 },
    'of what is reserved': { ...who, spent: 0, reserved: 20 * USD, in_flight: 3 },
    'of what may become of others': { ...who, spent: 0, reserved: 0, in_flight: 3, most: 20 * USD },
    'of a minute': { ...who, ...per_minute, unit: 'tokens', limit: 2000, spent: 100, reserved: 1500, in_flight: 3 },
    'of a minute, for good': { ...who, ...per_minute, unit: 'tokens', limit: 3 },
    'of requests at once': { ...who, ...at_once, unit: 'requests', limit: 2, reserved: 2, in_flight: 2 },
  };
  for (const [name, counter] of Object.entries(cases)) {
    it(`${name} reports the exhausted limit, its reset and a remedy`, async () => {
      const shown = async (more: Situation) => (await message([counter], more)).slice(0, 157);
      const [fact, help] = /^((?:The|This|Retrying) .*? limit (?:of|for) .*?|The limit of .*?)\. (?=[A-Z])(.*)/
        .exec(await shown({}))!
        .slice(1);
      const when = /^Retrying will not help: |resets 2026-03-11 00:00 UTC|finished$|in 23 seconds$/;
      assert.match(fact!, when);
      assert.match(help!, /^Spend rule|equest fewer|sk your|Try again when they have finished\./);
      const text = await shown({ spend_limits: spendLimits({ advice }) });
      assert.ok(text.startsWith(`${fact}. ${advice}.`), text);
    });
  }
});

describe('the headers of a rejection for money', () => {
  it('stop the client until the reset and name the reason, and omit whatever would make it hide our sentence', async () => {
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

  it('name the period, and whether the limit is shared', async () => {
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

describe('a rejection for too many requests or tokens', () => {
  const busy = { unit: 'requests', rule: 'parallel', limit: 2, spent: 0, reserved: 2, in_flight: 2 } as const;
  const concurrent = { ...busy, window: 'open', resets_at: null } as const;
  const counted = { limit: 60, spent: 57, reserved: 3, in_flight: 3 } as const;
  const minute = { ...busy, ...counted, window: 'minute', resets_at: NOON + 22_500 } as const;
  const tokens = { ...minute, unit: 'tokens', limit: 2000, spent: 100, reserved: 1500, rule: 'tpm' } as const;

  it('at once suggests an early retry, and is no matter of money', async () => {
    const error = await refused([concurrent], { spend_limits: spendLimits({ status: 402 }) });
    assert.deepEqual([error.code, error.status], ['rate_limit_exceeded', 429]);
    assert.equal(
      error.message,
      'The limit of 2 requests at once for user alice@example.com is reached; try again when one request has finished. Spend rule parallel: 2 requests are in flight.',
    );
    assert.deepEqual(error.headers, { 'retry-after': '3' });
    const limit = {
      ...{ limit: 2, unit: 'requests', window: 'open', scope: 'user', key: 'alice@example.com', rule: 'parallel' },
      resets_at: null,
    };
    const amounts = { used: 0, reserved: 2, in_flight: 2, needed: 1 };
    assert.deepEqual(error.details, { ...limit, ...amounts, exceeded: [limit] });
  });

  it('at once counts one request in the singular', async () => {
    const text = await message([{ ...concurrent, limit: 1, reserved: 1, in_flight: 1 }]);
    assert.match(
      text,
      / is reached; try again when the request in flight has finished\. Spend rule parallel: 1 request is in flight\.$/,
    );
  });

  it('of which nothing is allowed promises nothing of another try', async () => {
    for (const [counter, limit] of [
      [concurrent, '0 requests at once'],
      [minute, '0 requests per minute'],
      [tokens, '0 tokens per minute'],
    ] as const) {
      const { message: text, headers } = await refused([{ ...counter, limit: 0, reserved: 0, in_flight: 0 }]);
      const who = 'user alice@example.com';
      const fact = `Retrying will not help: the limit for ${who} is ${limit}`;
      assert.equal(text, `${fact}. Ask your administrator for a higher limit. Spend rule ${counter.rule}.`);
      assert.equal(headers['x-should-retry'], 'false');
    }
  });

  it('per minute reports the time until the next one', async () => {
    const { message: text, headers, details } = await refused([minute]);
    assert.equal(details.resets_at, '2026-03-10T12:00:22.500Z');
    assert.match(
      text,
      /^This request would exceed the limit of 60 requests per minute for user \S+; try again in 23 seconds\. Spend rule parallel: 57 used and 3 reserved by requests in flight in this minute\.$/,
    );
    assert.deepEqual(headers, { 'retry-after': '23' });
    assert.match(await message([{ ...minute, resets_at: NOON + 1 }]), /try again in 1 second\. /);
  });

  it("in tokens reports the request's tokens", async () => {
    const { message: text, details } = await refused([tokens]);
    assert.match(
      text,
      /^This request would exceed the limit of 2000 tokens per minute .*; .*: 100 used and 1500 reserved .*, and this request may need 1300 tokens\.$/,
    );
    assert.equal(details.needed, 1300);
  });
});

const UNIFIED = 'vendor-ratelimit-unified-';

/** Headers of the response to a caller with these limit states, as a flat list. */
async function headersOf(
  statuses: readonly LimitStatus[],
  { status = 200, from_upstream = [] as readonly string[], header_prefix = 'vendor' },
): Promise<string[]> {
  const { stage, ctx } = enter({ reserve: () => ({ statuses }), header_prefix });
  await stage.hooks.request!(ctx);
  const head = new UpstreamHead(status, [...from_upstream]);
  stage.hooks.response!(ctx, head);
  return head.headers;
}

async function limitHeaders(...statuses: LimitStatus[]): Promise<Record<string, string>> {
  const headers = await headersOf(statuses, {});
  const pairs = Array.from({ length: headers.length / 2 }, (_, i) => headers.slice(2 * i, 2 * i + 2));
  return Object.fromEntries(pairs.map(([name, value]) => [name!.replace(UNIFIED, ''), value!]));
}

const used = (share: number, more: Partial<LimitStatus> = {}) =>
  limit_status({ limit: 100 * USD, spent: share * 100 * USD, ...more });

describe('a response to a caller with a limit', () => {
  it('reports how much of it is used and when it resets', async () => {
    const reset = String(MIDNIGHT / 1000);
    assert.deepEqual(await limitHeaders(used(0.5)), {
      status: 'allowed',
      'representative-claim': 'overage',
      'overage-status': 'allowed',
      'overage-utilization': '0.50',
      reset,
      'overage-reset': reset,
    });
  });

  it('warns from three quarters on, and names the exceeded threshold', async () => {
    const said = async (share: number) => {
      const headers = await limitHeaders(used(share));
      assert.equal(headers.status, headers['overage-status']);
      return [headers.status, headers['overage-utilization'], headers['overage-surpassed-threshold']];
    };
    assert.deepEqual(await said(0.7499), ['allowed', '0.74', undefined]);
    assert.deepEqual(await said(0.75), ['allowed_warning', '0.75', '0.75']);
    assert.deepEqual(await said(0.9499), ['allowed_warning', '0.94', '0.75']);
    assert.deepEqual(await said(0.95), ['allowed_warning', '0.95', '0.95']);
    assert.deepEqual(await said(1), ['allowed_warning', '0.99', '0.95'], 'only a rejection has 1');
    assert.deepEqual(await said(1.3), ['allowed_warning', '0.99', '0.95'], 'a limit was lowered meanwhile');
  });

  it('counts reserved amounts, supports a limit of zero, and spending that was corrected below zero', async () => {
    const shown = async (...asked: Parameters<typeof used>) =>
      (await limitHeaders(used(...asked)))['overage-utilization'];
    assert.equal(await shown(0.5, { reserved: 30 * USD, in_flight: 2 }), '0.80');
    assert.equal(await shown(0, { limit: 0 }), '0.99');
    assert.equal(await shown(-0.1), '0.00');
  });

  it('is about the limit that is used up the furthest', async () => {
    const month = used(0.6, { window: 'month', resets_at: MIDNIGHT + 86_400_000 });
    const headers = await limitHeaders(used(0.2), month, used(0.59));
    assert.deepEqual([headers['overage-utilization'], headers.reset], ['0.60', String(MIDNIGHT / 1000 + 86_400)]);
  });

  it('shows every percent exactly, also where the share as a fraction is a little less', async () => {
    for (let percent = 0; percent < 100; percent++) {
      const headers = await limitHeaders(limit_status({ limit: 100 * USD, spent: percent * USD }));
      assert.equal(headers['overage-utilization'], `0.${String(percent).padStart(2, '0')}`);
    }
  });

  it('always shows two decimals below 1 and agrees with itself', async () => {
    const amount = fc.integer({ min: 0, max: 2 ** 52 });
    await fc.assert(
      fc.asyncProperty(amount, amount, amount, async (limit, spent, reserved) => {
        const headers = await limitHeaders(limit_status({ limit, spent, reserved }));
        assert.match(headers['overage-utilization']!, /^0\.\d\d$/);
        assert.equal(headers.status === 'allowed_warning', headers['overage-surpassed-threshold'] !== undefined);
      }),
    );
  });
});

describe("the upstream's own figures about limits", () => {
  const from_upstream = [
    ...['Vendor-RateLimit-Requests-Limit', '50', 'request-id', 'req_1', 'vendor-ratelimit-unified-status', 'rejected'],
    ...['vendor-ratelimit', 'no prefix of it', 'x-vendor-ratelimit-reset', '5', 'VENDOR-RATELIMIT-unified-reset', '1'],
  ];
  const others = ['request-id', 'req_1', 'vendor-ratelimit', 'no prefix of it', 'x-vendor-ratelimit-reset', '5'];

  it('are removed, also for a caller without a limit, and nothing else is', async () => {
    assert.deepEqual(await headersOf([], { from_upstream }), others);
  });

  it('stay on its errors, which pass unchanged, without ours', async () => {
    for (const status of [400, 429, 529]) {
      assert.deepEqual(await headersOf([used(0.5)], { status, from_upstream }), from_upstream);
    }
  });
});

describe('the names of a profile', () => {
  it('are those removed and those added', async () => {
    const from_upstream = ['acme-ratelimit-tokens', '5', 'vendor-ratelimit-tokens', '6'];
    const headers = await headersOf([used(0.5)], { from_upstream, header_prefix: 'acme' });
    assert.deepEqual(headers.slice(0, 4), ['vendor-ratelimit-tokens', '6', 'acme-ratelimit-unified-status', 'allowed']);
  });
});
