import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GatewayConfig, LimitClaim, LimitStanding, SpendRuleConfig } from '../../engine/api.ts';
import { StageError } from '../../engine/api.ts';
import { type Facts, openStage, type ServiceWishes, stageConfig } from '../../engine/testing/stage-harness.ts';
import checkBudget from '../../stages/check-budget.ts';

/** What the harness's models cost, in nano-USD per token. */
const PRICE = { input: 3000, output: 15_000, cache_write_5m: 3750, cache_write_1h: 6000 };
const NOON = Date.parse('2026-03-10T12:00:00Z');

const ROUTED: Facts = {
  'request.id': 'req-1',
  'request.surface': 'messages',
  'request.model': 'coder-1',
  'request.input_tokens_max': 1000,
  'request.max_tokens': 500,
  'request.cache.ttl': 'none',
  'principal.id': 'user:alice@example.com',
  'principal.email': 'alice@example.com',
  'principal.token.id': 'tok_1',
  'route.upstream': 'main',
  'route.upstream_model': 'coder-1',
};
const COST = 1000 * PRICE.input + 500 * PRICE.output;

type SpendLimits = NonNullable<GatewayConfig['spend_limits']>;

function spendLimits(more: Partial<SpendLimits> = {}): SpendLimits {
  return {
    defaults: { user_daily_usd: 50, team_monthly_usd: 2000 },
    on_exceeded: 'deny',
    on_store_error: 'deny',
    reserve: 'worst_case',
    status: 429,
    time_zone: 'UTC',
    rules: [],
    ...more,
  };
}

interface Situation extends ServiceWishes {
  readonly facts?: Facts;
  readonly spend_limits?: SpendLimits;
  readonly charge?: 'full' | 'nothing';
}

function enter({ facts = {}, spend_limits, charge = 'full', ...wishes }: Situation = {}) {
  const config = stageConfig(spend_limits === undefined ? {} : { spend_limits });
  const stage = openStage(checkBudget, { options: { charge }, config, now: NOON, ...wishes });
  return { stage, ctx: stage.request({ facts: { ...ROUTED, ...facts } }) };
}

async function reserved(situation: Situation = {}) {
  const { stage, ctx } = enter(situation);
  await stage.hooks.request!(ctx);
  return stage.reservations[0]!;
}

async function refused(standing: Partial<LimitStanding>, situation: Situation = {}): Promise<StageError> {
  const whole: LimitStanding = {
    scope: 'user',
    key: 'alice@example.com',
    window: 'day',
    rule: 'defaults.user_daily_usd',
    limit_nano_usd: 50_000_000_000,
    spent_nano_usd: 49_995_000_000,
    held_nano_usd: 0,
    resets_at: Date.parse('2026-03-11T00:00:00Z'),
    ...standing,
  };
  const { stage, ctx } = enter({ ...situation, reserve: () => whole });
  try {
    await stage.hooks.request!(ctx);
  } catch (error) {
    assert.equal(ctx.written['spend.rule'], whole.rule);
    assert.equal(ctx.written['spend.reserved_nano_usd'], undefined);
    assert.ok(error instanceof StageError);
    await stage.hooks.finish!(ctx);
    assert.deepEqual([stage.released, stage.settlements], [[], []]);
    return error;
  }
  throw new Error('the request was not refused');
}

describe('what check-budget holds', () => {
  it('is the input bound and the output bound at full price', async () => {
    assert.equal((await reserved()).amount_nano_usd, COST);
  });

  it('is written down as a fact', async () => {
    const { stage, ctx } = enter();
    await stage.hooks.request!(ctx);
    assert.deepEqual(ctx.written, { 'spend.reserved_nano_usd': COST });
  });

  it('prices the input as the dearest cache write that was asked for', async () => {
    const amount = async (ttl: string) =>
      (await reserved({ facts: { 'request.cache.ttl': ttl, 'request.max_tokens': 0 } })).amount_nano_usd;
    assert.equal(await amount('none'), 1000 * PRICE.input);
    assert.equal(await amount('5m'), 1000 * PRICE.cache_write_5m);
    assert.equal(await amount('1h'), 1000 * PRICE.cache_write_1h);
  });

  it("takes the model's output limit when the request names none", async () => {
    const { amount_nano_usd } = await reserved({ facts: { 'request.max_tokens': undefined } });
    assert.equal(amount_nano_usd, 1000 * PRICE.input + 64_000 * PRICE.output);
  });

  it("never exceeds the model's context window", async () => {
    const facts = { 'request.input_tokens_max': 10 ** 9, 'request.max_tokens': Number.MAX_SAFE_INTEGER };
    assert.equal((await reserved({ facts })).amount_nano_usd, 200_000 * (PRICE.input + PRICE.output));
  });

  it("counts against the user's day and the team's month", async () => {
    const { claims, ...identity } = await reserved({
      facts: { 'principal.team': 'search', 'principal.project': 'apollo' },
      spend_limits: spendLimits({ defaults: { user_daily_usd: 0.5, team_monthly_usd: 2000 } }),
    });
    assert.deepEqual(claims, [
      {
        scope: 'user',
        key: 'alice@example.com',
        window: 'day',
        limit_nano_usd: 500_000_000,
        rule: 'defaults.user_daily_usd',
      },
      {
        scope: 'team',
        key: 'search',
        window: 'month',
        limit_nano_usd: 2_000_000_000_000,
        rule: 'defaults.team_monthly_usd',
      },
    ]);
    assert.deepEqual(identity, {
      request_id: 'req-1',
      surface: 'messages',
      principal_id: 'user:alice@example.com',
      user: 'alice@example.com',
      team: 'search',
      project: 'apollo',
      token_id: 'tok_1',
      model: 'coder-1',
      upstream: 'main',
      upstream_model: 'coder-1',
      amount_nano_usd: COST,
    });
  });

  it('counts without a limit when none is configured', async () => {
    const { claims } = await reserved({ facts: { 'principal.team': 'search' } });
    assert.deepEqual(
      claims.map(({ scope, limit_nano_usd }) => [scope, limit_nano_usd]),
      [
        ['user', null],
        ['team', null],
      ],
    );
  });

  it('is nothing for a free request, which no limit refuses', async () => {
    const { amount_nano_usd, claims } = await reserved({ charge: 'nothing', spend_limits: spendLimits() });
    assert.equal(amount_nano_usd, 0);
    assert.deepEqual(
      claims.map(({ limit_nano_usd }) => limit_nano_usd),
      [null],
    );
  });
});

describe('a spend rule', () => {
  const RULE: SpendRuleConfig = { name: 'rule', scope: 'user', window: 'day', limit_usd: 20, mode: 'enforce' };

  /** The claims of a request that are limited, and those that only count, by scope, window and key. */
  async function claimsOn(rules: readonly Partial<SpendRuleConfig>[], facts: Facts = {}) {
    const spend_limits = spendLimits({ defaults: {}, rules: rules.map((rule) => ({ ...RULE, ...rule })) });
    const { claims } = await reserved({ spend_limits, facts });
    const counter = ({ scope, window, key }: LimitClaim) => `${scope} ${window} ${key}`;
    return {
      limited: claims.flatMap((claim) =>
        claim.limit_nano_usd === null ? [] : [`${counter(claim)}: ${claim.rule} ${claim.limit_nano_usd / 1e9}`],
      ),
      counted: [...new Set(claims.map(counter))].toSorted(),
    };
  }

  const USER_DAY = 'user day alice@example.com';

  it('limits what its scope spends, whatever that is', async () => {
    const scopes = ['user', 'team', 'project', 'model', 'upstream'] as const;
    const facts = { 'principal.team': 'search', 'principal.project': 'apollo' };
    const { limited } = await claimsOn(
      scopes.map((scope) => ({ name: `per-${scope}`, scope, window: 'month' })),
      facts,
    );
    assert.deepEqual(limited, [
      'user month alice@example.com: per-user 20',
      'team month search: per-team 20',
      'project month apollo: per-project 20',
      'model month coder-1: per-model 20',
      'upstream month main: per-upstream 20',
    ]);
  });

  it('does not apply to a caller without a team or project', async () => {
    const { limited, counted } = await claimsOn([{ scope: 'team' }, { scope: 'project' }]);
    assert.deepEqual([limited, counted], [[], [USER_DAY]]);
  });

  it('limits only requests that its condition holds for, and counts them all', async () => {
    const when = { in: ['contractors', { var: 'principal.groups' }] };
    const rules = [
      { when, scope: 'model', name: 'first' },
      { when, scope: 'model', name: 'second', limit_usd: 5 },
    ] as const;
    const counted = ['model day coder-1', USER_DAY];
    const contractor = await claimsOn(rules, { 'principal.groups': ['contractors'] });
    assert.deepEqual(contractor, { limited: ['model day coder-1: first 20', 'model day coder-1: second 5'], counted });
    assert.deepEqual(await claimsOn(rules, { 'principal.groups': ['staff'] }), { limited: [], counted });
  });

  it('may look at the route', async () => {
    const when = { '===': [{ var: 'route.upstream' }, 'spare'] };
    assert.deepEqual((await claimsOn([{ when }])).limited, []);
    assert.deepEqual((await claimsOn([{ when }], { 'route.upstream': 'spare' })).limited, [`${USER_DAY}: rule 20`]);
  });

  it('without an amount limits nothing yet', async () => {
    const parallel: SpendRuleConfig = { name: 'parallel', scope: 'model', concurrency: 8, mode: 'enforce' };
    const { claims } = await reserved({ spend_limits: spendLimits({ defaults: {}, rules: [parallel] }) });
    assert.deepEqual(
      claims.map(({ scope }) => scope),
      ['user'],
    );
  });

  it('in shadow mode asks only to be told, and what it is told is reported by name', async () => {
    const spend_limits = spendLimits({ rules: [{ ...RULE, name: 'trial', mode: 'shadow' }] });
    const { stage, ctx } = enter({
      spend_limits,
      reserve({ claims }, onShadow) {
        const [trial, ...others] = claims.filter(({ shadow }) => shadow);
        assert.equal(others.length, 0);
        const numbers = { limit_nano_usd: 1, spent_nano_usd: 1, held_nano_usd: 0, resets_at: NOON };
        onShadow!({ ...trial!, ...numbers });
        return undefined;
      },
    });
    await stage.hooks.request!(ctx);
    assert.deepEqual(ctx.shadows, ['spend:trial']);
    assert.deepEqual(ctx.written, { 'spend.reserved_nano_usd': COST });
  });

  it('is named in the refusal', async () => {
    const { message, details } = await refused({ scope: 'model', key: 'coder-1', rule: 'dear-models' });
    assert.match(message, /for model coder-1 \(spend rule dear-models\)/);
    assert.deepEqual([details.scope, details.rule], ['model', 'dear-models']);
  });

  it('limits no free request', async () => {
    const { claims } = await reserved({ charge: 'nothing', spend_limits: spendLimits({ rules: [RULE] }) });
    assert.deepEqual(
      claims.map(({ scope, limit_nano_usd }) => [scope, limit_nano_usd]),
      [['user', null]],
    );
  });
});

describe('a refusal by check-budget', () => {
  it('says what ran out, when it resets and what to do, to people and to programs', async () => {
    const error = await refused({});
    assert.equal(error.code, 'spend_limit_exceeded');
    assert.equal(error.status, 429);
    assert.equal(
      error.message,
      'The daily limit of 50 USD for user alice@example.com (spend rule defaults.user_daily_usd) has no room for this request, which may cost 0.0105 USD: ' +
        '49.995 USD is spent; it resets at 2026-03-11T00:00:00.000Z, until then ask your administrator for a higher limit.',
    );
    assert.deepEqual(error.details, {
      limit_usd: 50,
      spent_usd: 49.995,
      held_usd: 0,
      needed_usd: 0.0105,
      window: 'day',
      scope: 'user',
      resets_at: '2026-03-11T00:00:00.000Z',
      rule: 'defaults.user_daily_usd',
    });
    assert.deepEqual(error.headers, { 'retry-after': '43200', 'x-should-retry': 'false' });
  });

  it('tells money held by requests in flight from money spent', async () => {
    const { message } = await refused({ spent_nano_usd: 10_000_000_000, held_nano_usd: 40_000_000_000 });
    assert.match(
      message,
      /10 USD is spent and 40 USD is held by requests in flight; try again when they have finished/,
    );
  });

  it('says when the request alone is larger than the limit', async () => {
    const team = { scope: 'team', key: 'search', window: 'month', limit_nano_usd: 1_000_000 } as const;
    const { message } = await refused(team);
    assert.match(
      message,
      /^The monthly limit of 0.001 USD for team search \(spend rule .*\) is smaller than .* ask for fewer output tokens/,
    );
  });

  it('has the status the operator chose, and asks for at least a second of patience', async () => {
    const error = await refused({ resets_at: NOON - 5000 }, { spend_limits: spendLimits({ status: 402 }) });
    assert.equal(error.status, 402);
    assert.equal(error.headers['retry-after'], '1');
  });
});

describe('the end of a request that check-budget let through', () => {
  async function ended(facts: Facts) {
    const { stage, ctx } = enter();
    await stage.hooks.request!(ctx);
    ctx.note(facts);
    await stage.hooks.finish!(ctx);
    return stage;
  }

  it('gives the hold back when the request never left', async () => {
    const { released, settlements } = await ended({});
    assert.deepEqual([released, settlements], [['req-1'], []]);
  });

  it('leaves a metered request alone', async () => {
    const { released, settlements } = await ended({ 'upstream.attempts': 1, 'usage.provenance': {} });
    assert.deepEqual([released, settlements], [[], []]);
  });

  it('settles at the held amount what left and was not metered', async () => {
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

  it('does nothing when nothing was held', async () => {
    const away = new StageError('store_unavailable', 'The gateway cannot use its database.');
    const { stage, ctx } = enter({ reserve: () => Promise.reject(away) });
    await assert.rejects(async () => stage.hooks.request!(ctx), away);
    await stage.hooks.finish!(ctx);
    assert.deepEqual([stage.released, stage.settlements], [[], []]);
  });

  it('gives back what it held when it has run out of time meanwhile', async () => {
    const { stage, ctx } = enter();
    Object.defineProperty(ctx, 'state', { set: () => assert.fail('the hook is over') });
    await assert.rejects(async () => stage.hooks.request!(ctx), /the hook is over/);
    assert.deepEqual(stage.released, [stage.reservations[0]?.request_id]);
  });
});
