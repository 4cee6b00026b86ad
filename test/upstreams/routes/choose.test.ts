import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import type { Unavailable } from '../../../engine/base/contract/forwarding.ts';
import {
  createRoute,
  type Ranking,
  type RouteEntry,
  rankEntries,
  unavailableError,
} from '../../../engine/domain/upstreams/routes.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { randomOf } from '../../support/random.ts';

const [main] = stageConfig().upstreams;
const [coder] = stageConfig().models;

test('a caller is told why an upstream is unavailable', () => {
  const now = 1000;
  const message = (unavailable: Partial<Unavailable> & Pick<Unavailable, 'because'>) =>
    unavailableError({ upstream: main! }, { until: now + 5000, last: undefined, ...unavailable }, now).message;
  const whys: readonly [Parameters<typeof message>[0], RegExp][] = [
    [{ because: 'open', last: 'status 529' }, /: it failed too often \(status 529\), and /],
    [{ because: 'open', only_for: 'caller' }, /: it failed too often on your requests, and /],
    [{ because: 'limited' }, /: it responded 429: the account of the gateway is rate limited there, and /],
    [{ because: 'credential', last: 'status 401' }, /: it rejected the credential of the gateway \(status 401\), and /],
    [{ because: 'model_missing' }, /: it does not have the model, and /],
  ];
  for (const [unavailable, why] of whys) assert.match(message(unavailable), why);
});

interface Entry {
  readonly order?: number;
  readonly weight?: number;
  readonly pool?: string | undefined;
}

/** The entries of a route with these upstreams, named by letters. */
function entriesOf(configured: Readonly<Record<string, Entry>>): readonly RouteEntry[] {
  const upstream = (name: string) => ({ ...main!, name, cache_pool: configured[name]!.pool ?? `upstream ${name}` });
  const route = Object.entries(configured).map(([name, { order = 1, weight = 1 }]) => ({
    upstream: name,
    order,
    weight,
  }));
  return createRoute(route, { upstream, translates: true }).entries(coder!, 'messages');
}

const IDLE: Ranking = {
  key: undefined,
  preferred: undefined,
  states: { active: () => 0, share: () => 1 },
  random: () => 0.5,
};

function names(all: readonly RouteEntry[], ranking: Partial<Ranking> = {}): string[] {
  return rankEntries(all, { ...IDLE, ...ranking }).map(({ upstream }) => upstream.name);
}

const without = (all: readonly RouteEntry[], name: string) => all.filter(({ upstream }) => upstream.name !== name);
const named = (all: readonly RouteEntry[], name: string) => all.find(({ upstream }) => upstream.name === name)!;

function firsts(all: readonly RouteEntry[], keys: number, ranking: Partial<Ranking> = {}): Record<string, number> {
  const found: Record<string, number> = {};
  for (let i = 0; i < keys; i++) {
    const [first] = names(all, { key: `session ${i}`, ...ranking });
    found[first!] = (found[first!] ?? 0) + 1;
  }
  return found;
}

function isNear(found: number | undefined, expected: number, keys = 10_000): void {
  const share = (found ?? 0) / keys;
  assert.ok(Math.abs(share - expected) < 0.02, `${share} is not near ${expected}`);
}

describe('the order in which upstreams are tried', () => {
  it('is that of their orders, with any weights', () => {
    const all = entriesOf({ a: { order: 3, weight: 100 }, b: { order: 1 }, c: { order: 2 } });
    for (let i = 0; i < 20; i++) assert.deepEqual(names(all, { key: `session ${i}` }), ['b', 'c', 'a']);
    assert.deepEqual(names(all), ['b', 'c', 'a']);
  });

  it('gives every upstream of an order the sessions of its weight', () => {
    const found = firsts(entriesOf({ a: { weight: 5 }, b: { weight: 3 }, c: { weight: 2 } }), 10_000);
    isNear(found.a, 0.5);
    isNear(found.b, 0.3);
    isNear(found.c, 0.2);
  });

  it('is the same for every turn of a session, and in every process', () => {
    const all = entriesOf({ a: {}, b: {}, c: { weight: 2 }, d: { pool: 'shared' }, e: { pool: 'shared' } });
    const orders = Array.from({ length: 8 }, (_, i) => names(all, { key: `session ${i}` }).join(''));
    assert.deepEqual(orders, 'debca caedb acbde edcab decab acdeb badec caedb'.split(' '));
  });

  it('spreads the sessions of a removed upstream over all others by their weights', () => {
    const all = entriesOf({ a: {}, b: {}, c: { weight: 2 } });
    const moved: Record<string, number> = {};
    let count = 0;
    for (let i = 0; count < 4000; i++) {
      const key = `session ${i}`;
      if (names(all, { key })[0] !== 'a') continue;
      const to = names(without(all, 'a'), { key })[0]!;
      moved[to] = (moved[to] ?? 0) + 1;
      count++;
    }
    isNear(moved.b, 1 / 3, 4000);
    isNear(moved.c, 2 / 3, 4000);
  });

  it('tries those that share a cache one after the other, and gives a pool the share of all of them', () => {
    const all = entriesOf({ a: {}, b: { pool: 'x' }, c: { pool: 'x' }, d: {} });
    const found = firsts(all, 10_000);
    for (const name of ['a', 'b', 'c', 'd']) isNear(found[name], 0.25);
    for (let i = 0; i < 200; i++) {
      const ranked = names(all, { key: `session ${i}` });
      assert.equal(Math.abs(ranked.indexOf('b') - ranked.indexOf('c')), 1, ranked.join());
    }
    // Sessions that leave a pool move to the rest of it, whose cache is warm.
    const left = firsts(without(all, 'b'), 10_000);
    isNear(left.c, 0.5);
    isNear(left.a, 0.25);
  });

  it("begins with the session's upstream, continues with those that share its cache, before all orders", () => {
    const all = entriesOf({ a: { order: 1 }, b: { order: 2, pool: 'x' }, c: { order: 3, pool: 'x' } });
    assert.deepEqual(names(all, { key: 'session', preferred: named(all, 'c') }), ['c', 'b', 'a']);
    assert.deepEqual(names(without(all, 'c'), { key: 'session', preferred: named(all, 'c') }), ['b', 'a']);
    assert.deepEqual(names(without(all, 'b'), { key: 'session', preferred: named(all, 'b') }), ['c', 'a']);
  });

  it('gives a recovered upstream a part of its sessions, and moves no others', () => {
    const all = entriesOf({ a: {}, b: {} });
    const share = (name: string) => (name === 'a' ? 0.25 : 1);
    isNear(firsts(all, 10_000, { states: { active: () => 0, share } }).a, 0.2);
    for (let i = 0; i < 500; i++) {
      const key = `session ${i}`;
      if (names(all, { key })[0] === 'b') assert.equal(names(all, { key, states: { active: () => 0, share } })[0], 'b');
    }
  });

  it('uses an upstream without weight only after all others of its order', () => {
    const all = entriesOf({ a: { weight: 0 }, b: {}, c: {}, d: { order: 2 } });
    for (let i = 0; i < 100; i++) assert.deepEqual(names(all, { key: `session ${i}` }).slice(2), ['a', 'd']);
    assert.deepEqual(names(all).slice(2), ['a', 'd']);
  });

  it('is by chance without a session, and prefers the less busy of two', () => {
    const all = entriesOf({ a: { weight: 3 }, b: {} });
    const chance: Record<string, number> = {};
    const random = randomOf('requests without a session');
    for (let i = 0; i < 10_000; i++) {
      const [first] = names(all, { random });
      chance[first!] = (chance[first!] ?? 0) + 1;
    }
    isNear(chance.a, 0.75);
    const busy = (active: number) => ({ active: (name: string) => (name === 'a' ? active : 1), share: () => 1 });
    for (let i = 0; i < 20; i++) {
      assert.equal(names(all, { random, states: busy(4) })[0], 'b');
      assert.equal(names(all, { random, states: busy(2) })[0], 'a');
    }
  });
});
