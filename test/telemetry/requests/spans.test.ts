import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import type { FinishedSpan } from '../../../engine/telemetry/spans.ts';
import { attempt, ended, limit, NOON, refused, said, spansOf, USD } from './scene.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

function eventsOf({ events }: FinishedSpan): [string, Record<string, unknown>][] {
  return events.map(({ name, attributes }) => [name, said(attributes)]);
}

describe('the spans of a request that was served', () => {
  it('are one for it and one for its attempt, within it, at their times by the clock of the gateway', () => {
    const [request, served, ...more] = spansOf(ended());
    assert.equal(more.length, 0);
    assert.deepEqual([request!.name, request!.kind, request!.failed], ['POST /v1/messages', 'server', false]);
    assert.deepEqual([served!.name, served!.kind, served!.failed], ['chat coder-1', 'client', false]);
    assert.deepEqual([request!.began_at, request!.ended_at], [NOON, NOON + 40]);
    assert.deepEqual([served!.began_at, served!.ended_at], [NOON + 10, NOON + 40]);
    assert.equal(served!.parent_span_id, request!.span_id);
    assert.equal(served!.trace_id, request!.trace_id);
    assert.equal(request!.parent_span_id, undefined);
  });

  it('belong to the trace of the caller, whether that is sampled or not', () => {
    const headers = { traceparent: `00-${TRACE}-${PARENT}-00`, tracestate: 'vendor=1' };
    const [request, served] = spansOf(ended({ headers }));
    assert.deepEqual([request!.trace_id, request!.parent_span_id, request!.parent_is_remote], [TRACE, PARENT, true]);
    assert.deepEqual([served!.trace_id, served!.parent_is_remote], [TRACE, false]);
    assert.deepEqual([request!.trace_state, served!.trace_state], ['vendor=1', 'vendor=1']);
  });

  it('have the tracestate of the caller only where it is one that anybody would pass on', () => {
    const states: [string, boolean][] = [
      ['vendor=1, other@tenant=a b~,', true],
      [`a=${'b'.repeat(255)}`, true],
      ['my notes about the customer', false],
      ['a=1,a=2', false],
      ['A=1', false],
      ['a=é', false],
      ['a==', false],
      ['=', false],
      ['', false],
      [`a=${'b'.repeat(257)}`, false],
      [`a=${'b'.repeat(250)},b=${'b'.repeat(250)},c=${'b'.repeat(250)}`, false],
      [Array.from({ length: 33 }, (_, n) => `k${n}=v`).join(), false],
    ];
    for (const [tracestate, is_kept] of states) {
      const [request] = spansOf(ended({ headers: { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate } }));
      assert.deepEqual(
        [request!.trace_id, request!.trace_state],
        [TRACE, is_kept ? tracestate : undefined],
        tracestate,
      );
    }
  });

  it('say what the answer used: input tokens with those of the cache, in the words of either conventions', () => {
    const usage = { 'gen_ai.usage.input_tokens': 120, 'gen_ai.usage.output_tokens': 50 };
    const [, served] = spansOf(ended());
    const read = { 'gen_ai.usage.cache_read.input_tokens': 100 };
    const attributes = said(served!.attributes);
    for (const [name, value] of Object.entries({
      ...usage,
      ...read,
      'gen_ai.usage.cache_creation.input_tokens': 10,
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'coder-1',
      'gen_ai.response.model': 'coder-1',
      'gen_ai.request.stream': true,
      'gen_ai.response.time_to_first_chunk': 0.025,
      'gateway.cost_usd': 0.005,
      'gateway.upstream': 'main',
    })) {
      assert.equal(attributes[name], value, name);
    }
    const env = { OTEL_SEMCONV_STABILITY_OPT_IN: 'http, gen_ai_latest_experimental' };
    for (const [, answered] of [spansOf(ended(), { conventions: 'latest' }), spansOf(ended(), {}, { env })]) {
      const latest = said(answered!.attributes);
      assert.equal(latest['gen_ai.usage.cache_write.input_tokens'], 10);
      assert.equal(latest['gen_ai.usage.cache_creation.input_tokens'], undefined);
    }
  });

  it('say of an attempt that was not answered no tokens, rather than 0, but what it is charged with where it is', () => {
    const failed = attempt({ outcome: 'failed', status: 500, reason: 'exhausted' });
    const none = Object.fromEntries(
      ['input', 'output', 'cache_read_input', 'cache_write_5m_input', 'cache_write_1h_input'].map((kind) => [
        `usage.${kind}_tokens`,
        0,
      ]),
    );
    const [, unmetered] = spansOf(ended({ attempts: [failed], facts: { ...none, 'outcome.status': 500 } }));
    assert.equal(said(unmetered!.attributes)['gen_ai.usage.input_tokens'], undefined);
    const [, charged] = spansOf(ended({ attempts: [failed], facts: { 'outcome.status': 500 } }));
    assert.equal(said(charged!.attributes)['gen_ai.usage.input_tokens'], 120);
  });

  it('name the tightest limit and what is left of it', () => {
    const limits = [limit(), limit({ rule: 'team', window: 'month', scope: 'team', limit: 30 * USD })];
    const [request] = spansOf(ended({ limits }));
    const attributes = said(request!.attributes);
    assert.equal(attributes['gateway.budget.rule'], 'team');
    assert.equal(attributes['gateway.budget.remaining_usd'], 5);
    assert.ok(Math.abs((attributes['gateway.budget.used_ratio'] as number) - 25 / 30) < 1e-9);
    assert.deepEqual(request!.events, [], 'a limit with room decides nothing');
  });
});

describe('a request that was refused', () => {
  const details = {
    limit_usd: 50,
    spent_usd: 49,
    reserved_usd: 0.9,
    needed_usd: 0.5,
    window: 'day',
    scope: 'user',
    key: 'alice@example.com',
    resets_at: '2026-03-11T00:00:00.000Z',
    rule: 'defaults.user_daily_usd',
    exceeded: [{ scope: 'user', window: 'day', rule: 'defaults.user_daily_usd' }],
  };
  const error = new StageError('spend_limit_exceeded', 'No room.', { details });
  const facts = { 'spend.rule': 'defaults.user_daily_usd', 'error.stage': 'check-budget' };

  it('has one span, which says which rule had how much room, and not whose limit it was', () => {
    const [request, ...more] = spansOf(refused(error, { facts }));
    assert.equal(more.length, 0);
    assert.equal(request!.failed, false);
    assert.equal(request!.attributes['gateway.outcome'], 'refused');
    const found = eventsOf(request!).find(([name]) => name === 'gateway.refused')![1];
    assert.deepEqual(found, {
      'gateway.error.code': 'spend_limit_exceeded',
      'gateway.error.stage': 'check-budget',
      'gateway.rule': 'defaults.user_daily_usd',
      'gateway.limit.scope': 'user',
      'gateway.limit.window': 'day',
      'gateway.limit.unit': 'usd',
      'gateway.limit.limit': 50,
      'gateway.limit.spent': 49,
      'gateway.limit.held': 0.9,
      'gateway.limit.needed': 0.5,
      'gateway.limit.resets_at': '2026-03-11T00:00:00.000Z',
    });
    assert.doesNotMatch(JSON.stringify(spansOf(refused(error, { facts }))), /alice/);
  });

  it('names the policy that hides the model', () => {
    const hidden = new StageError('model_not_found', 'Hidden.', { details: { model: 'coder-1', policy: 'interns' } });
    const [request] = spansOf(refused(hidden));
    assert.deepEqual(
      eventsOf(request!).map(([name, at]) => [name, at['gateway.rule']]),
      [
        ['gateway.decision', 'interns'],
        ['gateway.refused', 'interns'],
      ],
    );
  });
});

describe('a request that went to another upstream', () => {
  const failed = attempt({ status: 529, outcome: 'overloaded', reason: 'next_overloaded', ms: 5 });
  const served = attempt({ n: 2, upstream: 'spare', upstream_model: 'coder-1@2026' });
  const facts = { 'route.upstream': 'spare', 'route.upstream_model': 'coder-1@2026' };

  it('has a span for each attempt, says so, and has the cost at the request alone', () => {
    const [request, first, second] = spansOf(ended({ facts, attempts: [failed, served] }));
    assert.equal(request!.attributes['gateway.fallback'], true);
    assert.equal(request!.attributes['gateway.cost_usd'], 0.005);
    assert.deepEqual([first!.failed, first!.attributes['error.type']], [true, 'overloaded']);
    assert.deepEqual([second!.failed, second!.attributes['gateway.cost_usd']], [false, undefined]);
    assert.equal(first!.attributes['gen_ai.usage.output_tokens'], undefined);
    assert.deepEqual(eventsOf(request!), [
      [
        'gateway.fallback',
        { 'gateway.upstream': 'main', 'gateway.fallback.reason': 'next_overloaded', 'gateway.attempt': 1 },
      ],
    ]);
    assert.equal(request!.events[0]!.at, NOON + 15);
  });
});
