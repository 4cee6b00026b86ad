import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { UpstreamConfig } from '../../../engine/contract/config.ts';
import { StageError } from '../../../engine/contract/errors.ts';
import type { Closed } from '../../../engine/contract/forwarding.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { type Choosing, chooseCandidates, type Needs } from '../../../engine/upstreams/routes/choose.ts';
import { createRoute } from '../../../engine/upstreams/routes/route.ts';
import { times } from '../../support/times.ts';

const [main] = stageConfig().upstreams;
const [coder] = stageConfig().models;

const REFUSAL = new StageError('invalid_request', 'not allowed there');

const upstream = fc.record({
  order: fc.integer({ min: 1, max: 2 }),
  weight: fc.integer({ min: 0, max: 3 }),
  cache_pool: fc.constantFrom('x', 'y', 'z'),
  state_boundary: fc.constantFrom('x', 'y'),
  protocols: fc.constantFrom(['messages'] as const, ['chat'] as const),
  prompt_cache_1h: fc.boolean(),
  on_unsupported_cache: fc.constantFrom('downgrade' as const, 'refuse' as const, 'pass' as const),
  window: fc.constantFrom(1000, 200_000),
  refuses: fc.boolean(),
  closed: fc.option(fc.constantFrom('drained', 'open', 'limited', 'credential', 'model_missing'), { nil: undefined }),
});

const request = fc.record({
  tokens: fc.constantFrom(10, 5000, 10 ** 9),
  cache_ttl: fc.constantFrom('none', '5m', '1h'),
  session_key: fc.option(fc.string(), { nil: undefined }),
  holds_state: fc.boolean(),
  decides: fc.boolean(),
  home: fc.option(fc.nat(5), { nil: undefined }),
  translates: fc.boolean(),
});

test('every request has a candidate or an error, and every upstream is a candidate or has a reason', () => {
  const check = fc.property(fc.array(upstream, { minLength: 1, maxLength: 5 }), request, (all, asked) => {
    const named = new Map(all.map((each, index) => [`u${index}`, each]));
    const configOf = (name: string): UpstreamConfig => {
      const { cache_pool, state_boundary, protocols, prompt_cache_1h, on_unsupported_cache } = named.get(name)!;
      const supports = { ...main!.supports, prompt_cache_1h };
      return { ...main!, name, cache_pool, state_boundary, protocols, supports, on_unsupported_cache };
    };
    const entries = [...named].map(([name, { order, weight }]) => ({ upstream: name, order, weight }));
    const route = createRoute(entries, { upstream: configOf, translates: asked.translates });
    const context_windows = Object.fromEntries([...named].map(([name, { window }]) => [name, window]));
    const closed = (name: string): Closed | undefined => {
      const because = named.get(name)!.closed;
      return because === undefined ? undefined : { because, until: 5, last: undefined };
    };
    const choosing = {
      states: {
        closed,
        active: () => 0,
        share: () => 1,
        home: () => (asked.home === undefined ? undefined : `u${asked.home}`),
      },
      now: () => 0,
      random: () => 0.5,
    } as unknown as Choosing;
    const needs: Needs = {
      ...asked,
      model: coder!.id,
      continues: undefined,
      decide: asked.decides
        ? ({ upstream: { name } }) => {
            if (named.get(name)!.refuses) throw REFUSAL;
            return [];
          }
        : undefined,
    };
    const places = route.places({ ...coder!, context_windows }, 'messages');
    try {
      const { candidates, spare, dropped = [] } = chooseCandidates(route, places, needs, choosing);
      const names = candidates.map(({ upstream: { name } }) => name);
      assert.ok(names.length > spare);
      const reasons = dropped.map((each) => each.split(': ')[0]!);
      const told = [...names.slice(0, names.length - spare), ...reasons].sort();
      assert.deepEqual(told, [...named.keys()], 'each of them once');
      for (const name of names) assert.notEqual(named.get(name)!.closed, 'drained');
    } catch (error) {
      assert.ok(error instanceof StageError, String(error));
      assert.ok(['invalid_request', 'upstream_unavailable'].includes(error.code), error.code);
    }
  });
  fc.assert(check, { numRuns: times(500) });
});
