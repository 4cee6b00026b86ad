import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Log } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import {
  countedAddress,
  createAttemptLimits,
  createRateLimit,
} from '../../../engine/domain/identity/sessions/attempt-limits.ts';
import { quietLog, useTestStore } from '../../support/store.ts';
import { authWith } from './configuration.ts';
import { START } from './people.ts';

const { store } = useTestStore();

const few = { device_authorizations: 3, code_submissions: 2, refused_credentials: 5 };
const limits = { ...authWith().limits, ...few };

function open(clock = frozenClock(START), database: Database = store.database, log: Log = quietLog) {
  return createAttemptLimits({ database, clock, limits, log });
}

describe('attempts of one address', () => {
  it('leave one line in the log of each span in which there were too many', async () => {
    const clock = frozenClock(START);
    const lines: object[] = [];
    const log = { ...quietLog, warn: (fields: object) => void lines.push(fields) };
    const attempts = open(clock, store.database, log);
    for (let tried = 0; tried < 8; tried++) await attempts.count('code_submission', '2001:db8:9::1');
    assert.deepEqual(lines, [{ kind: 'code_submission', client_address: '2001:db8:9:0::/64' }]);
    clock.advance(600_000);
    for (let tried = 0; tried < 8; tried++) await attempts.count('code_submission', '2001:db8:9::1');
    assert.equal(lines.length, 2);
  });

  it('never hint at more than the span, even when the clock was set back, for any value of an address', async () => {
    const attempts = open(frozenClock('2026-03-10T18:00:00Z'));
    for (const text of ['', 'unknown', '\0\ud800', "'; drop table attempts; --", 'x'.repeat(100_000), '__proto__']) {
      for (let tried = 0; tried < 3; tried++) await attempts.count('code_submission', text);
      assert.deepEqual(await open().count('code_submission', text), { retry_after_seconds: 600 });
    }
  });
});

describe('the counter of an address', () => {
  it('is itself for IPv4, however it is written', () => {
    assert.equal(countedAddress('192.0.2.1'), '192.0.2.1');
    assert.equal(countedAddress('::ffff:192.0.2.1'), '192.0.2.1');
    assert.equal(countedAddress('::FFFF:c000:201'), '192.0.2.1');
    assert.equal(countedAddress('0:0:0:0:0:ffff:192.0.2.1'), '192.0.2.1');
  });

  it('is the network of 64 bits for IPv6, however it is written', () => {
    for (const text of [
      '2001:db8:1:2::1',
      '2001:0DB8:1:2:ffff:ffff:ffff:ffff',
      '2001:db8:1:2::',
      '2001:db8:1:2:0:0:192.0.2.1',
    ])
      assert.equal(countedAddress(text), '2001:db8:1:2::/64');
    assert.equal(countedAddress('2001:db8:1:3::1'), '2001:db8:1:3::/64');
    assert.equal(countedAddress('::1'), '0:0:0:0::/64');
    assert.equal(countedAddress('fe80::1%eth0'), 'fe80:0:0:0::/64');
  });

  it('is short for any text, the same for all addresses of a network, and never the same for two networks', () => {
    const group = fc.integer({ min: 0, max: 0xffff });
    const network = fc.tuple(group, group, group, group).filter((groups) => groups.some((each) => each !== 0));
    const host = fc.tuple(group, group, group, group);
    const anything = fc.oneof(fc.string(), fc.ipV6(), fc.ipV4());
    fc.assert(fc.property(anything, (text) => assert.ok(countedAddress(text).length <= 64)));
    const write = (groups: readonly number[]) => groups.map((each) => each.toString(16)).join(':');
    fc.assert(
      fc.property(network, network, host, host, (one, two, a, b) => {
        assert.equal(countedAddress(write([...one, ...a])), countedAddress(write([...one, ...b])));
        const is_same = write(one) === write(two);
        assert.equal(countedAddress(write([...one, ...a])) === countedAddress(write([...two, ...a])), is_same);
      }),
    );
  });
});

it('a rate limit admits a burst of a key, then so much a second, whatever others take', () => {
  const clock = frozenClock(START);
  const rates = createRateLimit({ clock, most: 64, window_seconds: 64 });
  assert.equal(rates.take('ada', 2), undefined);
  rates.giveBack('ada', -80);
  assert.deepEqual(rates.take('ada', 2), { retry_after_seconds: 20 });
  assert.equal(rates.take('bob', 2), undefined);
  clock.advance(20_000);
  assert.equal(rates.take('ada', 2), undefined);
});
