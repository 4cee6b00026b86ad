import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileCondition } from '../../engine/base/rules/compile.ts';

/** A Monday, noon in Berlin. */
const MONDAY = Date.UTC(2026, 5, 1, 10);

const FACTS = {
  request: {
    model: 'coder-1',
    max_tokens: 1000,
    stream: true,
    cache: { ttl: '1h' },
    received_at: MONDAY,
    client: { address: '10.1.2.3' },
  },
  principal: { groups: ['research', 'interns'], email: '', roles: [] },
  route: { estimate_nano_usd: 600_000_000 },
};

const holds = (logic: unknown, facts: Readonly<Record<string, unknown>> = FACTS) => compileCondition(logic)(facts);

describe('a compiled condition', () => {
  const cases: readonly [name: string, logic: unknown, expected: boolean][] = [
    ['matches a pattern', { glob: [{ var: 'request.model' }, 'coder-*'] }, true],
    ['matches one of several patterns', { glob: [{ var: 'request.model' }, 'chat-*', '*-1'] }, true],
    ['matches no pattern with a fact that is not set', { glob: [{ var: 'principal.team' }, '*'] }, false],
    [
      'finds an address in a range',
      { cidr: [{ var: 'request.client.address' }, '192.168.0.0/16', '10.0.0.0/8'] },
      true,
    ],
    ['finds no address that is not set', { cidr: [{ var: 'principal.team' }, '0.0.0.0/0'] }, false],
    ['finds the bucket of a text', { '===': [{ bucket: [{ var: 'request.model' }, 'new-model', 100] }, 17] }, true],
    ['finds no bucket of a text that is not set', { '<': [{ bucket: [{ var: 'principal.team' }, 'a', 2] }, 2] }, false],
    ['reads the time', { time_window: [{ var: 'request.received_at' }, 'mon 11:00-13:00 Europe/Berlin'] }, true],
    ['is in no window when the moment is not set', { time_window: [{ var: 'no.moment' }, '00:00-24:00'] }, false],
    ['compares money with an amount in USD', { '>': [{ var: 'route.estimate_nano_usd' }, { usd: 0.5 }] }, true],
  ];
  for (const [name, logic, expected] of cases) {
    test(name, () => assert.equal(holds(logic), expected));
  }

  test('is a strict boolean whatever its operator returns', () => {
    assert.equal(holds({ or: ['', 'text'] }), true);
    assert.equal(holds({ and: [1, 0] }), false);
    assert.equal(holds({ max: [0, 5] }), true);
  });

  test('does not compile with an operator that is not on the list', () => {
    for (const operator of ['log', 'method', '==', 'map', 'constructor', '__proto__', 'toString', 'rule']) {
      const logic = JSON.parse(`{ "and": [{ "${operator}": [1, 2] }] }`);
      assert.throws(() => compileCondition(logic), /does not exist/, operator);
    }
  });

  test('does not compile with a wrong number of operands', () => {
    for (const logic of [{ '===': [1] }, { if: [true, 1] }, { if: [true, 1, true, 2] }, { usd: [] }]) {
      assert.throws(() => compileCondition(logic), /does not take/);
    }
  });

  test('does not compile with a computed pattern, range or window', () => {
    for (const operator of ['glob', 'cidr', 'time_window']) {
      assert.throws(() => compileCondition({ [operator]: [{ var: 'a.b' }, { var: 'a.c' }] }), /literal/);
    }
  });
});
