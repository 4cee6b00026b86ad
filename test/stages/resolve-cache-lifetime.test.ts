/** Where a request for a prompt cache of an hour goes, and what it asks for there. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RoutingRuleConfig, UpstreamConfig } from '../../engine/contract/config.ts';
import { StageError } from '../../engine/contract/errors.ts';
import type { Closed, UpstreamStates } from '../../engine/contract/services.ts';
import { type Facts, openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import resolveRoute from '../../stages/resolve-route.ts';
import { inOrder, routingSection } from '../support/routing.ts';

type Policy = UpstreamConfig['on_unsupported_cache'];

const { region: _, ...main } = stageConfig().upstreams[0]!;
/** Upstreams by name: whether each keeps prompts for an hour, or what it does with requests for that. */
type Upstreams = Readonly<Record<string, true | Policy>>;

interface Wishes {
  readonly asked?: string;
  readonly rule?: Policy;
  readonly closed?: Readonly<Record<string, Closed['because']>>;
  readonly facts?: Facts;
}

function take(upstreams: Upstreams, { asked = '1h', rule, closed = {}, facts }: Wishes = {}) {
  const names = inOrder(...Object.keys(upstreams));
  const told = { name: 'r', mode: 'enforce', upstreams: names, ...(rule && { on_unsupported_cache: rule }) } as const;
  const config = stageConfig({
    upstreams: Object.entries(upstreams).map(([name, can]): UpstreamConfig => {
      const supports = { ...main.supports, prompt_cache_1h: can === true };
      const how = can === true ? {} : { on_unsupported_cache: can };
      return { ...main, name, cache_pool: name, state_boundary: name, supports, ...how };
    }),
    routing: { ...routingSection([told as RoutingRuleConfig]), default_upstreams: names },
  });
  const stage = openStage(resolveRoute, { config, now: 0 });
  const states = stage.services.upstreams as { -readonly [K in keyof UpstreamStates]: UpstreamStates[K] };
  states.closed = (name) => {
    const because = closed[name];
    return because === undefined ? undefined : { because, until: undefined, last: undefined };
  };
  const ctx = stage.request({
    facts: {
      'request.protocol': 'messages',
      'request.model': 'coder-1',
      'principal.id': 'token:alice',
      'principal.email': 'alice@example.com',
      'principal.groups': ['all'],
      'principal.token.group': 'all',
      'cache.requested_ttl': asked,
      ...facts,
    },
  });
  stage.hooks.request!(ctx);
  return {
    asks: ctx.candidates!.map(({ upstream, facts }) => `${upstream.name} ${facts['cache.effective_ttl']}`),
    downgraded: ctx.written['cache.downgraded'],
    effective: ctx.written['cache.effective_ttl'],
    able: ctx.written['route.candidates'],
    dropped: ctx.written['route.dropped'],
    dropped_later: ctx.candidates!.at(-1)!.facts['route.dropped'],
  };
}

function refusal(upstreams: Upstreams, wishes?: Wishes): StageError {
  try {
    take(upstreams, wishes);
  } catch (error) {
    if (error instanceof StageError) return error;
    throw error;
  }
  throw new assert.AssertionError({ message: 'it was not refused' });
}

describe('a request for a prompt cache of an hour', () => {
  it('goes as it is to the upstream that supports it, and to another only when that has failed', () => {
    const { asks, able, dropped, downgraded, effective } = take({ short: 'downgrade', long: true, last: 'downgrade' });
    assert.deepEqual([able, dropped], [['long'], ['short: cache', 'last: cache']]);
    assert.deepEqual(asks, ['long 1h', 'short 5m', 'last 5m']);
    assert.deepEqual([downgraded, effective], [false, '1h']);
    const refusing = take({ long: true, no: 'refuse', short: 'downgrade' });
    assert.deepEqual([refusing.dropped, refusing.dropped_later], [['no: cache', 'short: cache'], ['no: cache']]);
  });

  it('asks for five minutes where no upstream supports it that takes requests', () => {
    const none = take({ a: 'downgrade', b: 'downgrade' });
    assert.deepEqual([none.asks, none.dropped], [['a 5m', 'b 5m'], undefined]);
    assert.deepEqual([none.downgraded, none.effective], [true, '5m']);
    const away = take({ long: true, short: 'downgrade' }, { closed: { long: 'open' } });
    assert.deepEqual([away.asks, away.dropped], [['short 5m'], ['long: open']]);
    assert.deepEqual(take({ a: 'downgrade' }).asks, ['a 5m']);
  });

  it('passes as it is where an upstream is said to take it so', () => {
    const { asks, downgraded } = take({ a: 'pass' });
    assert.deepEqual([asks, downgraded], [['a 1h'], false]);
  });

  it('is refused with what to do about it where every upstream refuses it', () => {
    const lone = refusal({ a: 'refuse' });
    assert.deepEqual([lone.code, lone.status, lone.details.upstream], ['invalid_request', 400, 'a']);
    assert.match(refusal({ a: 'refuse', b: 'refuse' }).message, /"a" and "b" do not keep.*Ask for five minutes/);
    const other = take({ a: 'refuse', b: 'downgrade' });
    assert.deepEqual([other.asks, other.dropped], [['b 5m'], ['a: cache']]);
    const long = take({ a: 'refuse', b: true }, { closed: { b: 'open' }, asked: '5m' });
    assert.deepEqual(long.asks, ['a 5m']);
  });

  it('is treated as the rule says that matched, before what the upstream says', () => {
    assert.equal(refusal({ a: 'downgrade' }, { rule: 'refuse' }).code, 'invalid_request');
    assert.deepEqual(take({ a: 'refuse' }, { rule: 'downgrade' }).asks, ['a 5m']);
    assert.deepEqual(take({ a: 'refuse', b: 'downgrade' }, { rule: 'pass' }).asks, ['a 1h', 'b 1h']);
  });

  it('for counting tokens goes the same way', () => {
    assert.deepEqual(take({ a: 'downgrade' }, { facts: { 'request.protocol': 'count_tokens' } }).asks, ['a 5m']);
  });
});

describe('a request for less', () => {
  it('goes where it would have gone', () => {
    for (const asked of ['5m', 'none']) {
      const { asks, dropped, downgraded } = take({ a: 'refuse', b: true }, { asked });
      assert.deepEqual([asks, dropped, downgraded], [[`a ${asked}`, `b ${asked}`], undefined, false]);
    }
  });
});
