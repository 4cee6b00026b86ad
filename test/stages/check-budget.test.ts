import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../engine/api.ts';
import { type Facts, stageConfig } from '../../engine/simulate/stage-harness.ts';
import { enter, limit_status, reserved, spendLimits } from './budget-bench.ts';

/** What the harness's models cost, in nano-USD per token. */
const PRICE = { input: 3000, output: 15_000, cache_write_5m: 3750, cache_write_1h: 6000 };
const COST = 1000 * PRICE.input + 500 * PRICE.output;
/** The tokens it is for. */
const MOST = { 'spend.most_tokens': { input: 1000, output: 500, input_limit: 200_000, other_runs: 1 } };

describe('what check-budget holds', () => {
  it('is the input bound and the output bound at full price', async () => {
    const { amount_nano_usd, most_nano_usd, overshoot_percent } = await reserved();
    assert.deepEqual([amount_nano_usd, most_nano_usd, overshoot_percent], [COST, COST, undefined]);
  });

  it('is written down as a fact', async () => {
    const { stage, ctx } = enter();
    await stage.hooks.request!(ctx);
    assert.deepEqual(ctx.written, { ...MOST, 'spend.reserved_nano_usd': COST, 'spend.most_nano_usd': COST });
  });

  it('prices the input as the most expensive cache write that was asked for', async () => {
    const amount = async (ttl: string) =>
      (await reserved({ facts: { 'request.cache.ttl': ttl, 'request.max_tokens': 1 } })).amount_nano_usd;
    assert.equal(await amount('none'), 1000 * PRICE.input + PRICE.output);
    assert.equal(await amount('5m'), 1000 * PRICE.cache_write_5m + PRICE.output);
    assert.equal(await amount('1h'), 1000 * PRICE.cache_write_1h + PRICE.output);
    const facts = { 'request.cache.ttl': '1h', 'cache.downgraded': true, 'request.max_tokens': 1 };
    const { amount_nano_usd } = await reserved({ facts });
    assert.equal(amount_nano_usd, 1000 * PRICE.cache_write_5m + PRICE.output, 'an hour that was made five minutes');
  });

  it("takes the model's output limit when the request names none", async () => {
    const { amount_nano_usd } = await reserved({ facts: { 'request.max_tokens': undefined } });
    assert.equal(amount_nano_usd, 1000 * PRICE.input + 64_000 * PRICE.output);
  });

  it("never exceeds the model's context window", async () => {
    const facts = { 'request.input_tokens_max': 10 ** 9, 'request.max_tokens': Number.MAX_SAFE_INTEGER };
    assert.equal((await reserved({ facts })).amount_nano_usd, 200_000 * (PRICE.input + PRICE.output));
  });

  it('covers audio at its price, where the request has some or asks for it', async () => {
    const amount = async (fields: readonly string[]) => {
      const decisive = Object.fromEntries(fields.map((field) => [`${field}[0]`, { field, value: 'audio' }]));
      return (await reserved({ facts: { 'request.decisive_fields': decisive } })).amount_nano_usd;
    };
    // Without a price of its own: 16 times that of text in, 8 times out.
    assert.equal(await amount(['input_audio']), 16 * 1000 * PRICE.input + 500 * PRICE.output);
    assert.equal(await amount(['modalities']), 1000 * PRICE.input + 8 * 500 * PRICE.output);
    assert.equal(await amount(['input_audio', 'modalities']), 16 * 1000 * PRICE.input + 8 * 500 * PRICE.output);
    assert.equal(await amount(['service_tier']), COST);
  });

  it('covers every answer that was asked for', async () => {
    const { amount_nano_usd, tokens } = await reserved({ facts: { 'request.choices': 3 } });
    assert.equal(amount_nano_usd, 3 * COST, 'some providers read the input for every answer');
    assert.equal(tokens, 800 + 3 * 500);
    const longest = await reserved({ facts: { 'request.choices': 2, 'request.max_tokens': 10 ** 9 } });
    assert.equal(longest.amount_nano_usd, 2 * (1000 * PRICE.input + 200_000 * PRICE.output));
  });

  it('covers cache writes that nobody asked for, where the protocol of the upstream lets it make them', async () => {
    const amount = async (protocol: string, ttl = 'none') => {
      const facts = {
        'request.protocol': protocol,
        'route.protocol': protocol,
        'request.cache.ttl': ttl,
        'request.max_tokens': 1,
      };
      return (await reserved({ facts })).amount_nano_usd;
    };
    assert.equal(await amount('messages'), 1000 * PRICE.input + PRICE.output);
    assert.equal(await amount('chat'), 1000 * PRICE.cache_write_5m + PRICE.output);
    assert.equal(await amount('responses'), 1000 * PRICE.cache_write_5m + PRICE.output);
    assert.equal(await amount('chat', '1h'), 1000 * PRICE.cache_write_1h + PRICE.output);
  });

  it('covers every model that is named beside that of the request, to the end of its own output, the same one again', async () => {
    const amount = async (others: readonly string[]) =>
      (await reserved({ facts: { 'request.other_models': others } })).amount_nano_usd;
    const other = 1000 * PRICE.input + 64_000 * PRICE.output;
    assert.equal(await amount(['coder-2']), COST + other);
    assert.equal(await amount(['coder-1']), COST + other);
    assert.equal(await amount(['coder-1', 'coder-2']), COST + 2 * other);
    const { stage, ctx } = enter({ facts: { 'request.other_models': ['coder-1'] } });
    await stage.hooks.request!(ctx);
    const most = ctx.written['spend.most_tokens'];
    assert.deepEqual(
      most,
      { input: 2000, output: 64_500, input_limit: 400_000, other_runs: 1 },
      'nor is what it says cut below that',
    );
  });

  it('is reserved for the caller, its request and where it goes', async () => {
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

  it('is nothing for a free request', async () => {
    const { amount_nano_usd, most_nano_usd, tokens } = await reserved({ charge: 'nothing' });
    assert.deepEqual([amount_nano_usd, most_nano_usd, tokens], [0, 0, 0]);
  });

  it('counts as the tokens that are likely and asked for, which are no more than the model takes and gives', async () => {
    const tokens = async (facts: Facts) => (await reserved({ facts })).tokens;
    assert.equal(await tokens({}), 800 + 500);
    assert.equal(await tokens({ 'request.max_tokens': undefined }), 800 + 64_000);
    assert.equal(await tokens({ 'request.max_tokens': 10 ** 12 }), 800 + 64_000);
    assert.equal(await tokens({ 'request.input_tokens_estimate': 10 ** 9 }), 200_000 + 500);
  });
});

describe('the most a request can cost', () => {
  const [coder] = stageConfig().models;
  const priced = (pricing: object) => [{ ...coder!, pricing: { input: 3, output: 15, ...pricing } }];

  it('counts the uses of tools that the upstream runs, where the request bounds them', async () => {
    const models = priced({ server_tools: { web_search: 10 } });
    const facts = { 'request.server_tool_uses': { web_search: 5 } };
    assert.equal((await reserved({ models, facts })).most_nano_usd, COST + 5 * 10_000_000);
  });

  it('counts all of a long input at the price of long inputs', async () => {
    const models = priced({ long_context: { above_input_tokens: 900, input: 6, output: 22.5 } });
    assert.equal((await reserved({ models })).most_nano_usd, 1000 * 6000 + 500 * 22_500);
    const short = await reserved({ models, facts: { 'request.input_tokens_max': 900 } });
    assert.equal(short.most_nano_usd, 900 * 3000 + 500 * 15_000);
  });

  it('counts the most expensive cache price of the tier, and that of reading when it is most expensive', async () => {
    const long_context = { above_input_tokens: 900, input: 6, output: 15, cache_write_5m: 9 };
    const facts = { 'request.cache.ttl': '5m', 'request.max_tokens': 1 };
    assert.equal((await reserved({ models: priced({ long_context }), facts })).most_nano_usd, 1000 * 9000 + 15_000);
    const odd = await reserved({ models: priced({ cache_read: 4 }), facts: { 'request.max_tokens': 1 } });
    assert.equal(odd.most_nano_usd, 1000 * 4000 + 15_000);
  });

  it('is not below what a shorter input would cost where long inputs are cheaper', async () => {
    const models = priced({ long_context: { above_input_tokens: 900, input: 1, output: 1 } });
    assert.equal((await reserved({ models })).most_nano_usd, 900 * 3000 + 500 * 15_000);
  });
});

describe('a typical reservation', () => {
  const typical = spendLimits({ reserve: 'typical', overshoot_percent: 7 });

  it('holds what requests of this caller to this model usually cost, and names the most it can cost', async () => {
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

  it('holds the most while nothing is known, and never more than that', async () => {
    assert.equal((await reserved({ spend_limits: typical })).amount_nano_usd, COST);
    assert.equal((await reserved({ spend_limits: typical, typicalCost: () => COST + 1 })).amount_nano_usd, COST);
  });

  it('is not asked for where the worst case is to be reserved, nor for a free request', async () => {
    const typicalCost = () => 1;
    const worst = await reserved({ spend_limits: spendLimits(), typicalCost });
    assert.deepEqual([worst.amount_nano_usd, worst.overshoot_percent], [COST, undefined]);
    const free = await reserved({ spend_limits: typical, charge: 'nothing', typicalCost });
    assert.deepEqual([free.amount_nano_usd, free.overshoot_percent], [0, undefined]);
  });

  it('is not asked for where a request wants several answers, which cost more than such requests usually do', async () => {
    const several = { 'request.choices': 2 };
    const { amount_nano_usd, most_nano_usd, overshoot_percent } = await reserved({
      spend_limits: typical,
      facts: several,
      typicalCost: () => 1,
    });
    const most = 2 * COST;
    assert.deepEqual([amount_nano_usd, most_nano_usd, overshoot_percent], [most, most, undefined]);
  });

  it('that nobody metered is billed at what was reserved, as an estimate', async () => {
    const { stage, ctx } = enter({ spend_limits: typical, typicalCost: () => 1234 });
    await stage.hooks.request!(ctx);
    ctx.noteAll({ 'upstream.attempts': 1, 'upstream.status': 200 });
    await stage.hooks.finish!(ctx);
    assert.equal(stage.settlements[0]?.cost_nano_usd, 1234);
  });
});

describe('a limit in shadow mode', () => {
  it('that had no room lets the request go on, and is reported by name', async () => {
    const { stage, ctx } = enter({ reserve: () => ({ shadows: [limit_status({ rule: 'trial' })] }) });
    await stage.hooks.request!(ctx);
    assert.deepEqual(ctx.shadows, ['spend:trial']);
    assert.equal(ctx.written['spend.reserved_nano_usd'], COST);
  });
});

describe('while the database is away', () => {
  it('a request that may go out all the same goes out without a reservation, and says so in a fact', async () => {
    const { stage, ctx } = enter({ reserve: () => ({ unreserved: true }) });
    await stage.hooks.request!(ctx);
    assert.deepEqual(ctx.written, {
      ...MOST,
      'spend.reserved_nano_usd': 0,
      'spend.most_nano_usd': COST,
      'spend.unreserved': true,
    });
    await stage.hooks.finish!(ctx);
    assert.deepEqual(stage.released, ['req-1'], 'it never left, which the ledger must hear');
  });

  it('any other is refused with the error of the ledger, and told that its limits cannot be read', async () => {
    const away = new StageError('store_unavailable', 'The gateway cannot use its database.', {
      details: { why: 'away' },
      headers: { 'retry-after': '2' },
    });
    const { stage, ctx } = enter({ reserve: () => Promise.reject(away) });
    await assert.rejects(
      async () => stage.hooks.request!(ctx),
      (error: StageError) => {
        assert.deepEqual([error.code, error.status, error.message], [away.code, 503, away.message]);
        assert.deepEqual(error.details, { why: 'away' });
        assert.deepEqual(error.headers, {
          'retry-after': '2',
          'vendor-ratelimit-unified-overage-disabled-reason': 'fetch_error',
        });
        return true;
      },
    );
  });

  it('a fault that is no outage is not taken for one', async () => {
    const fault = new RangeError('cannot hold -1 nano-USD');
    const { stage, ctx } = enter({ reserve: () => Promise.reject(fault) });
    await assert.rejects(async () => stage.hooks.request!(ctx), fault);
  });
});

describe('the end of a request that check-budget let through', () => {
  async function ended(facts: Facts) {
    const { stage, ctx } = enter();
    await stage.hooks.request!(ctx);
    ctx.noteAll(facts);
    await stage.hooks.finish!(ctx);
    return stage;
  }

  it('gives the reservation back when the request never left', async () => {
    const { released, settlements } = await ended({});
    assert.deepEqual([released, settlements], [['req-1'], []]);
  });

  it('leaves a metered request alone', async () => {
    const { released, settlements } = await ended({ 'upstream.attempts': 1, 'usage.provenance': {} });
    assert.deepEqual([released, settlements], [[], []]);
  });

  it('settles at the reserved amount what left and was not metered', async () => {
    const { released, settlements } = await ended({ 'upstream.attempts': 1, 'upstream.status': 200 });
    assert.deepEqual(released, []);
    assert.equal(settlements.length, 1);
    const [settled] = settlements;
    assert.equal(settled!.cost_nano_usd, COST);
    assert.equal(settled!.status, 200);
    assert.equal(settled!.reserved, true);
    assert.deepEqual(settled!.tokens, {
      input: 1000,
      output: 500,
      cache_read: 0,
      cache_write_5m: 0,
      cache_write_1h: 0,
    });
    assert.deepEqual([...new Set(Object.values(settled!.provenance))], ['estimate']);
  });

  it('charges nothing for what the upstream refused', async () => {
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

  it('gives back what it reserved when it has run out of time meanwhile', async () => {
    const { stage, ctx } = enter();
    Object.defineProperty(ctx, 'state', { set: () => assert.fail('the hook is over') });
    await assert.rejects(async () => stage.hooks.request!(ctx), /the hook is over/);
    assert.deepEqual(stage.released, [stage.reservations[0]?.request_id]);
  });
});
