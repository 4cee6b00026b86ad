import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { isException } from '../../../engine/base/kit/net/proxy-route.ts';
import { evaluateClock, sessionEnd, tokenTextProblem } from '../../../engine/edge/doctor/gateway/evaluations.ts';
import { times } from '../../support/times.ts';

const GATEWAY = 'https://gateway.example.com';

describe('NO_PROXY', () => {
  const cases: readonly (readonly [url: string, no_proxy: string, expected: string])[] = [
    [GATEWAY, '', 'no'],
    [GATEWAY, '*', 'yes'],
    [GATEWAY, 'gateway.example.com', 'yes'],
    [GATEWAY, 'localhost, GATEWAY.example.com', 'yes'],
    [GATEWAY, '.example.com', 'yes'],
    [GATEWAY, '*.example.com', 'yes'],
    [GATEWAY, 'example.com', 'some'],
    [GATEWAY, 'ample.com', 'no'],
    [GATEWAY, 'gateway.example.com:443', 'yes'],
    [GATEWAY, 'gateway.example.com:8443', 'no'],
    ['https://10.1.2.3:8443', '10.1.2.3', 'yes'],
    ['https://10.1.2.3:8443', '10.0.0.0/8', 'some'],
    ['https://10.1.2.3:8443', '11.0.0.0/8', 'no'],
    ['https://10.1.2.3:8443', '.3', 'no'],
    ['https://[2001:db8::1]', '2001:db8::1', 'yes'],
    ['https://[2001:db8::1]', '[2001:db8::1]', 'yes'],
    ['https://[2001:db8::1]', '2001:db8::/32', 'some'],
  ];
  for (const [url, no_proxy, expected] of cases) {
    test(`"${no_proxy}" excepts ${url}: ${expected}`, () =>
      assert.equal(isException(new URL(url), no_proxy), expected));
  }

  test('is read whatever is in it', () => {
    fc.assert(
      fc.property(fc.string(), (text) => ['yes', 'some', 'no'].includes(isException(new URL(GATEWAY), text))),
      { numRuns: times(300) },
    );
  });
});

describe('the text of a token', () => {
  test('is taken as it is where it could be one', () => {
    for (const token of ['gw_abc', 'sk-123', 'eyJ.eyJ.sig', 'a'.repeat(5000)])
      assert.equal(tokenTextProblem(token), undefined);
  });

  test('is never repeated, whatever is wrong with it', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 6 }), (text) => {
        const { found = '', remedy = '' } = tokenTextProblem(text) ?? {};
        return !`${found}${remedy}`.includes(text);
      }),
      { numRuns: times(300) },
    );
  });

  test('says when a session ends, and nothing where it is none', () => {
    const of = (claims: unknown) => `h.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;
    assert.equal(sessionEnd(of({ exp: 1_700_000_000 })), 1_700_000_000_000);
    for (const token of [of({ exp: 'soon' }), of({ exp: 1e300 }), of(null), of([]), 'gw_abc', 'a.b.c', '']) {
      assert.equal(sessionEnd(token), undefined);
    }
  });
});

test('a clock agrees within a minute, is wrong in one direction or the other beyond that, and not found by what is no date', () => {
  const now = Date.parse('2026-11-23T10:00:00.400Z');
  const told = (date: string) => {
    const { verdict, found } = evaluateClock({ date }, now) ?? {};
    return `${verdict} ${/clock is (.*?) the gateway's/.exec(found ?? '')?.[1] ?? ''}`;
  };
  const DATES = [
    ['Mon, 23 Nov 2026 10:00:00 GMT', 'ok '],
    ['Mon, 23 Nov 2026 10:00:59 GMT', 'ok '],
    ['Mon, 23 Nov 2026 09:59:30 GMT', 'ok '],
    ['Mon, 23 Nov 2026 10:02:30 GMT', 'warning 3 min behind'],
    ['Fri, 20 Nov 2026 10:00:00 GMT', 'failed 3 days ahead of'],
    ['yesterday', 'undefined '],
    ['', 'undefined '],
  ] as const;
  for (const [date, expected] of DATES) assert.equal(told(date), expected, date);
});
