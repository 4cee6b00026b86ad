import assert from 'node:assert/strict';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { it } from 'node:test';
import fc from 'fast-check';
import { SPEND_SCOPES } from '../../../engine/base/contract/config.ts';
import type { LimitStatus } from '../../../engine/base/contract/services.ts';
import { SPEND_WINDOWS } from '../../../engine/base/contract/windows.ts';
import { limitHeaders, refuseForLimits } from '../../../engine/domain/budget/limits/refusals.ts';
import { anyText } from '../../support/any-text.ts';

const amount = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const NOW = Date.parse('2026-03-10T12:00:00Z');

const common = fc
  .record({
    scopes: fc.subarray([...SPEND_SCOPES], { minLength: 1, maxLength: 4 }),
    names: fc.tuple(...Array.from({ length: 4 }, () => anyText({ maxLength: 30 }))),
    rule: fc.string({ maxLength: 30 }),
    limit: amount,
    spent: amount,
    reserved: amount,
    in_flight: fc.nat(1000),
    most: amount,
  })
  .map(({ scopes, names, ...rest }) => ({
    ...rest,
    scope: scopes.join('+'),
    key: scopes.length === 1 ? names[0]! : JSON.stringify(names.slice(0, scopes.length)),
  }));

// Clocks of the gateway and the database need not agree.
const moment = fc.integer({ min: NOW - 100_000, max: NOW + 32 * 86_400_000 });
const counted = fc.oneof(
  fc.record({ unit: fc.constant('nano_usd' as const), window: fc.constantFrom(...SPEND_WINDOWS), resets_at: moment }),
  fc.record({
    unit: fc.constantFrom('requests' as const, 'tokens' as const),
    window: fc.constant('minute' as const),
    resets_at: moment,
  }),
  fc.constant({ unit: 'requests', window: 'open', resets_at: null } as const),
);
const limit_status = fc.tuple(common, counted).map(([one, other]): LimitStatus => ({ ...one, ...other }));

it('any rejection can be sent: whole seconds, proper headers, a sentence and details in JSON', () => {
  const exceeded = fc.array(limit_status, { minLength: 1, maxLength: 5 });
  const needs = fc.record({ amount_nano_usd: amount, most_nano_usd: amount, tokens: amount });
  const advice = fc.option(fc.constant('Ask Bob.'), { nil: undefined });
  fc.assert(
    fc.property(exceeded, needs, advice, (statuses, needed, said) => {
      const style = { status: 402, advice: said, headers: limitHeaders('acme'), time_zone: 'Asia/Kolkata' };
      const { code, status, message, headers, details } = refuseForLimits(statuses, needed, style, NOW);
      const [first] = statuses;
      const in_money = first!.unit === 'nano_usd';
      assert.deepEqual([code, status], in_money ? ['spend_limit_exceeded', 402] : ['rate_limit_exceeded', 429]);
      for (const [name, value] of Object.entries(headers)) {
        validateHeaderName(name);
        validateHeaderValue(name, value);
      }
      const final = headers['x-should-retry'] === 'false';
      if (in_money || !final) assert.match(headers['retry-after']!, /^[1-9]\d*$/);
      else assert.equal(headers['retry-after'], undefined);
      assert.ok(final || !in_money);
      assert.ok(message.includes(`Spend rule ${first!.rule}`) && message.endsWith('.'), message);
      if (said !== undefined) assert.match(message, /\. Ask Bob\. Spend rule /);
      assert.deepEqual(JSON.parse(JSON.stringify(details)), details);
      assert.equal((details.exceeded as unknown[]).length, statuses.length);
      assert.doesNotMatch(
        message,
        /(?:undefined|NaN|null) (?:USD|requests?|tokens?|seconds?|is|used|reserved)|resets (?!\d{4}-\d\d-\d\d \d\d:\d\d Asia\/Kolkata)/,
      );
    }),
  );
});
