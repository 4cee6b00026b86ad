import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AttemptRecord, GatewayConfig } from '../../../engine/api.ts';
import { type Facts, openStage, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import meterUsage from '../../../stages/meter-usage.ts';
import { spendLimitsSection } from '../../support/spend-limits.ts';
import { attemptNext, failed, served } from '../attempts.ts';
import { document, type Event, FORWARDED, PRICE, start } from './metered.ts';

const INPUT = 500 * PRICE.input;
const ANSWERED = 100 * PRICE.input + 20 * PRICE.output;
const DOCUMENT = document({ input_tokens: 100, output_tokens: 20 });
const spend_limits = { worst_case: limits('worst_case'), typical: limits('typical') };

function limits(reserve: 'worst_case' | 'typical') {
  return { spend_limits: spendLimitsSection({ reserve, defaults: {} }) } satisfies Partial<GatewayConfig>;
}

async function settle(
  attempts: readonly AttemptRecord[],
  events: readonly Event[],
  more: {
    reserve?: 'worst_case' | 'typical';
    facts?: Facts;
    before?: readonly Event[];
    charge?: 'full' | 'nothing';
  } = {},
) {
  const { reserve = 'typical', facts = {}, before = [], charge = 'full' } = more;
  const stage = openStage(meterUsage, { options: { charge }, config: stageConfig(spend_limits[reserve]) });
  const last = attempts.at(-1)!;
  const route = { 'route.upstream': last.upstream, 'route.upstream_model': last.upstream_model };
  const ctx = stage.request({ facts: { ...FORWARDED, 'upstream.attempts': undefined, 'upstream.status': undefined } });
  const play = (event: Event) => stage.hooks.event?.(ctx, { name: event[0], data: JSON.stringify(event[1]) });
  before.forEach(play);
  await attemptNext(ctx, (c) => stage.hooks.attempt?.(c), { facts: route, attempts: [] });
  ctx.attempted.records = attempts;
  const sends = attempts.reduce((sum, each) => sum + each.sends, 0);
  ctx.noteAll({
    'upstream.status': last.status ?? undefined,
    ...(sends > 0 && { 'upstream.attempts': sends }),
    ...facts,
  });
  events.forEach(play);
  await stage.hooks.finish!(ctx);
  return { settlements: stage.settlements, written: ctx.written };
}

describe('a request with several attempts', () => {
  it('costs the price of the serving one, and separates what others may be billed', async () => {
    const { settlements, written } = await settle([failed(), served(2)], DOCUMENT);
    const [
      { cost_nano_usd, attempts, upstream, upstream_model, provenance, possibly_billed_nano_usd } = assert.fail(),
    ] = settlements;
    assert.deepEqual([cost_nano_usd, provenance.cost, possibly_billed_nano_usd], [ANSWERED, 'upstream', INPUT]);
    assert.deepEqual([upstream, upstream_model], ['spare', 'coder-1@2026']);
    assert.deepEqual(attempts, [
      { ...failed(), cost_nano_usd: 0, provenance: 'estimate', possibly_billed_nano_usd: INPUT },
      { ...served(2), cost_nano_usd: ANSWERED, provenance: 'upstream' },
    ]);
    assert.equal(written['usage.possibly_billed_nano_usd'], INPUT);
  });

  it('has the time and the id of the last one in its row, also where it was the only one', async () => {
    const last = { ms: 9.5, upstream_request_id: 'req_2' };
    for (const attempts of [[served(1, last)], [failed(), served(2, last)]]) {
      const [{ upstream_ms, upstream_request_id } = assert.fail()] = (await settle(attempts, DOCUMENT)).settlements;
      assert.deepEqual([upstream_ms, upstream_request_id], [9.5, 'req_2']);
    }
  });

  it('costs under worst_case also the input of possibly billed attempts', async () => {
    const { settlements, written } = await settle([failed(), served(2)], DOCUMENT, { reserve: 'worst_case' });
    const [{ cost_nano_usd, attempts, provenance } = assert.fail()] = settlements;
    assert.deepEqual([cost_nano_usd, provenance.cost], [ANSWERED + INPUT, 'possible']);
    assert.deepEqual(
      attempts!.map(({ cost_nano_usd: cost, provenance: by }) => [cost, by]),
      [
        [INPUT, 'possible'],
        [ANSWERED, 'upstream'],
      ],
    );
    assert.equal(written['usage.cost_nano_usd'], ANSWERED + INPUT);
  });

  it('ignores usage of an upstream that did not serve', async () => {
    const before = [start({ input_tokens: 9_000_000, output_tokens: 1 })];
    const { settlements } = await settle([failed(), served(2)], DOCUMENT, { before });
    assert.equal(settlements[0]!.cost_nano_usd, ANSWERED);
  });

  it('costs nothing where all rejected it, whatever the forwarded error reports', async () => {
    const attempts = [
      failed({ certainty: 'answered', status: 429, outcome: 'limited', reason: 'next_limited' }),
      failed({ n: 2, upstream: 'spare', certainty: 'not_sent', outcome: 'unreachable', reason: 'exhausted', sends: 0 }),
    ];
    const { settlements } = await settle(attempts, document({ input_tokens: 100 }), { reserve: 'worst_case' });
    const [{ cost_nano_usd, possibly_billed_nano_usd, attempts: recorded } = assert.fail()] = settlements;
    assert.deepEqual([cost_nano_usd, possibly_billed_nano_usd], [0, undefined]);
    assert.deepEqual(
      recorded!.map(({ provenance }) => provenance),
      ['refused', 'upstream'],
    );
  });

  it('may be billed by each upstream without a response', async () => {
    const attempts = [
      failed(),
      failed({ n: 2, upstream: 'spare', status: 502, certainty: 'answered', outcome: 'bad_gateway' }),
    ];
    const facts = { 'error.code': 'upstream_failed' };
    const typical = (await settle(attempts, [], { facts })).settlements[0]!;
    assert.deepEqual([typical.cost_nano_usd, typical.possibly_billed_nano_usd], [0, 2 * INPUT]);
    const strict = (await settle(attempts, [], { facts, reserve: 'worst_case' })).settlements[0]!;
    assert.deepEqual([strict.cost_nano_usd, strict.possibly_billed_nano_usd], [2 * INPUT, 2 * INPUT]);
    const sum = strict.attempts!.reduce((total, each) => total + each.cost_nano_usd, 0);
    assert.equal(sum, strict.cost_nano_usd);
  });

  it('is free in all attempts where it costs nothing', async () => {
    const { settlements } = await settle([failed(), served(2)], [], { charge: 'nothing', reserve: 'worst_case' });
    assert.deepEqual([settlements[0]!.cost_nano_usd, settlements[0]!.possibly_billed_nano_usd], [0, undefined]);
  });
});

describe('a request with one attempt', () => {
  it('reports no attempts where it was answered, and reports one that was not', async () => {
    assert.equal((await settle([served(1)], DOCUMENT)).settlements[0]!.attempts, undefined);
    const facts = { 'error.code': 'upstream_timeout' };
    const { attempts, possibly_billed_nano_usd } = (await settle([failed({ reason: 'exhausted' })], [], { facts }))
      .settlements[0]!;
    assert.deepEqual([attempts!.length, possibly_billed_nano_usd], [1, INPUT]);
  });
});
