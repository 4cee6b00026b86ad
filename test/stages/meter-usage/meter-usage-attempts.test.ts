import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AttemptRecord, ChargedAttempt } from '../../../engine/api.ts';
import { type Facts, openStage, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import meterUsage from '../../../stages/meter-usage.ts';
import { spendLimitsSection } from '../../support/spend-limits.ts';
import { attemptNext, failed, served } from '../attempts.ts';
import { document, type Event, FORWARDED, PRICE, start } from './metered.ts';

const INPUT = 500 * PRICE.input;
const ANSWERED = 100 * PRICE.input + 20 * PRICE.output;
const DOCUMENT = document({ input_tokens: 100, output_tokens: 20 });

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
  const spend_limits = spendLimitsSection({ reserve, defaults: {} });
  const stage = openStage(meterUsage, { options: { charge }, config: stageConfig({ spend_limits }) });
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
  const [row = assert.fail()] = stage.settlements;
  return { ...row, written: ctx.written };
}

const costs = (attempts: readonly ChargedAttempt[] | null | undefined) =>
  attempts!.map(({ cost_nano_usd, provenance }) => `${cost_nano_usd} ${provenance}`);

describe('a request with several attempts', () => {
  it('costs the price of the serving one, and separates what others may be billed', async () => {
    const row = await settle([failed(), served(2)], DOCUMENT);
    const { cost_nano_usd, provenance, possibly_billed_nano_usd } = row;
    assert.deepEqual([cost_nano_usd, provenance.cost, possibly_billed_nano_usd], [ANSWERED, 'upstream', INPUT]);
    assert.deepEqual([row.upstream, row.upstream_model], ['spare', 'coder-1@2026']);
    assert.deepEqual(row.attempts, [
      { ...failed(), cost_nano_usd: 0, provenance: 'estimate', possibly_billed_nano_usd: INPUT },
      { ...served(2), cost_nano_usd: ANSWERED, provenance: 'upstream' },
    ]);
    assert.equal(row.written['usage.possibly_billed_nano_usd'], INPUT);
  });

  it('has the time and the id of the last one in its row, also where it was the only one', async () => {
    const last = { ms: 9.5, upstream_request_id: 'req_2' };
    for (const attempts of [[served(1, last)], [failed(), served(2, last)]]) {
      const { upstream_ms, upstream_request_id } = await settle(attempts, DOCUMENT);
      assert.deepEqual([upstream_ms, upstream_request_id], [9.5, 'req_2']);
    }
  });

  it('costs under worst_case also the input of possibly billed attempts', async () => {
    const row = await settle([failed(), served(2)], DOCUMENT, { reserve: 'worst_case' });
    assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [ANSWERED + INPUT, 'possible']);
    assert.deepEqual(costs(row.attempts), [`${INPUT} possible`, `${ANSWERED} upstream`]);
    assert.equal(row.written['usage.cost_nano_usd'], ANSWERED + INPUT);
  });

  it('ignores usage of an upstream that did not serve', async () => {
    const before = [start({ input_tokens: 9_000_000, output_tokens: 1 })];
    assert.equal((await settle([failed(), served(2)], DOCUMENT, { before })).cost_nano_usd, ANSWERED);
  });

  it('costs nothing where all rejected it, whatever the forwarded error reports', async () => {
    const attempts = [
      failed({ certainty: 'answered', status: 429, outcome: 'limited', reason: 'next_limited' }),
      failed({ n: 2, upstream: 'spare', certainty: 'not_sent', outcome: 'unreachable', reason: 'exhausted', sends: 0 }),
    ];
    const row = await settle(attempts, document({ input_tokens: 100 }), { reserve: 'worst_case' });
    assert.deepEqual([row.cost_nano_usd, row.possibly_billed_nano_usd], [0, undefined]);
    assert.deepEqual(costs(row.attempts), ['0 refused', '0 upstream']);
  });

  it('may be billed by each upstream without a response', async () => {
    const attempts = [
      failed(),
      failed({ n: 2, upstream: 'spare', status: 502, certainty: 'answered', outcome: 'bad_gateway' }),
    ];
    const facts = { 'error.code': 'upstream_failed' };
    const typical = await settle(attempts, [], { facts });
    assert.deepEqual([typical.cost_nano_usd, typical.possibly_billed_nano_usd], [0, 2 * INPUT]);
    const strict = await settle(attempts, [], { facts, reserve: 'worst_case' });
    assert.deepEqual([strict.cost_nano_usd, strict.possibly_billed_nano_usd], [2 * INPUT, 2 * INPUT]);
    const sum = strict.attempts!.reduce((total, each) => total + each.cost_nano_usd, 0);
    assert.equal(sum, strict.cost_nano_usd);
  });

  it('is free in all attempts where it costs nothing', async () => {
    const row = await settle([failed(), served(2)], [], { charge: 'nothing', reserve: 'worst_case' });
    assert.deepEqual([row.cost_nano_usd, row.possibly_billed_nano_usd], [0, undefined]);
  });
});

describe('a request with one attempt', () => {
  it('reports no attempts if it got a response, and the attempt if not', async () => {
    assert.equal((await settle([served(1)], DOCUMENT)).attempts, undefined);
    const lost = await settle([failed({ reason: 'exhausted' })], [], { facts: { 'error.code': 'upstream_timeout' } });
    assert.deepEqual([lost.attempts!.length, lost.possibly_billed_nano_usd], [1, INPUT]);
  });
});
