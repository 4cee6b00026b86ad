import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type AttemptRecord, StageError } from '../../engine/api.ts';
import type { Candidate } from '../../engine/contract/forwarding.ts';
import { stageConfig } from '../../engine/simulate/stage-harness.ts';
import { attemptNext, failed, served } from './attempts.ts';
import { enter, limit_status, type Situation, spendLimits } from './budget-bench.ts';

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

describe('a request that check-budget let through to another upstream', () => {
  it('has nothing moved for its first attempt, nor for another one where it is', async () => {
    const { stage, next } = await moved([]);
    await next({ 'route.upstream': 'main', 'route.upstream_model': 'coder-1' });
    assert.deepEqual(stage.moved, []);
  });

  it('has its reservation moved there, with the limits of that upstream and what became of it before', async () => {
    const { stage, ctx, next } = await moved([failed()], { spend_limits: spendLimits({ reserve: 'typical' }) });
    await next();
    const [{ request, held } = assert.fail()] = stage.moved;
    assert.deepEqual([request.upstream, request.upstream_model], ['spare', 'coder-1@2026']);
    const apart = { cost_nano_usd: 0, provenance: 'estimate', possibly_billed_nano_usd: INPUT } as const;
    assert.deepEqual(held, [{ ...failed(), ...apart }]);
    const scopes = request.demands.map(({ scope }) => scope);
    assert.deepEqual(
      scopes,
      stage.reservations[0]!.demands.map(({ scope }) => scope),
    );
    assert.equal(ctx.written['spend.reserved_nano_usd'], request.amount_nano_usd);
  });

  it('keeps under worst_case the input of what may be billed, attempt by attempt', async () => {
    const attempts = [
      failed(),
      failed({ n: 2, upstream: 'spare', outcome: 'overloaded', certainty: 'answered', status: 529 }),
    ];
    const { stage, next } = await moved(attempts, { spend_limits: worst_case });
    await next(SPARE, attempts.slice(0, 1));
    await next({ 'route.upstream': 'main', 'route.upstream_model': 'coder-1' });
    assert.deepEqual(
      stage.moved.map(({ held }) => held.map(({ n, cost_nano_usd }) => [n, cost_nano_usd])),
      [
        [[1, INPUT]],
        [
          [1, INPUT],
          [2, 0],
        ],
      ],
    );
  });

  it('keeps no money of an attempt that never left, was refused, or belongs to a free request', async () => {
    const unbilled = [
      failed({ certainty: 'not_sent', outcome: 'unreachable' }),
      failed({ certainty: 'answered', status: 429, outcome: 'limited' }),
      failed({ certainty: 'answered', status: 400, outcome: 'caller' }),
    ];
    for (const attempt of unbilled) {
      const { stage, next } = await moved([attempt], { spend_limits: worst_case });
      await next();
      assert.deepEqual(stage.moved[0]!.held, [{ ...attempt, cost_nano_usd: 0, provenance: 'refused' }]);
    }
    const { stage, next } = await moved([failed()], { spend_limits: worst_case, charge: 'nothing' });
    await next();
    assert.equal(stage.moved[0]!.held[0]!.cost_nano_usd, 0);
  });

  it('is refused there by a limit without room, and the rule is told if that ends the request', async () => {
    const exceeded = [limit_status({ scope: 'upstream', key: 'spare', rule: 'small-spare' })];
    const { stage, ctx, next } = await moved([failed()], { move: () => ({ exceeded }) });
    await assert.rejects(next(), (error: StageError) => error.code === 'spend_limit_exceeded');
    ctx.noteAll({ 'error.code': 'spend_limit_exceeded', 'upstream.attempts': 1, 'usage.provenance': {} });
    await stage.hooks.finish!(ctx);
    assert.equal(ctx.written['spend.rule'], 'small-spare');
  });

  it('goes on while the store is away only where its limits allow it', async () => {
    const move = () => {
      throw new StageError('store_unavailable', 'The gateway cannot use its database.');
    };
    const strict = await moved([failed()], { move });
    await assert.rejects(strict.next(), (error: StageError) => error.code === 'store_unavailable');
    const lenient = await moved([failed()], { move, spend_limits: spendLimits({ on_store_error: 'allow' }) });
    await lenient.next();
  });

  it('is billed with its attempts where nobody meters', async () => {
    const { stage, ctx, next } = await moved([failed()], { spend_limits: worst_case });
    await next();
    ctx.attempts = [failed(), served(2, { ms: 9.5, upstream_request_id: 'req_2' })];
    ctx.noteAll({ 'upstream.attempts': 2, 'upstream.status': 200 });
    await stage.hooks.finish!(ctx);
    const { amount_nano_usd } = stage.moved[0]!.request;
    assert.equal(stage.settlements[0]!.cost_nano_usd, amount_nano_usd + INPUT);
    assert.equal(stage.settlements[0]!.attempts!.length, 2);
    const { upstream_ms, upstream_request_id } = stage.settlements[0]!;
    assert.deepEqual([upstream_ms, upstream_request_id], [9.5, 'req_2']);
  });
});

describe('a request whose first upstream has no room in limits of its own', () => {
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
      assert.deepEqual(
        stage.reservations.map(({ upstream, upstream_model }) => [upstream, upstream_model]),
        [
          ['main', 'coder-1'],
          ['spare', 'coder-1@2026'],
        ],
      );
      assert.deepEqual(
        ctx.candidates!.map(({ upstream }) => upstream.name),
        ['spare'],
      );
      const told = (['route.upstream', 'route.candidates', 'route.dropped'] as const).map((path) => ctx.peek(path));
      assert.deepEqual(told, ['spare', ['spare'], ['main: limit']]);
      assert.equal(ctx.written['spend.rule'], undefined);
    }
  });

  it('is refused where a limit has no room that is not of the upstream alone', async () => {
    const { stage, ctx, error } = await asked('upstream', 'user');
    assert.match(error!, /no room/);
    assert.equal(stage.reservations.length, 1);
    assert.equal(ctx.candidates, candidates);
  });
});
