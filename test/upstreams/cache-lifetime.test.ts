/** What becomes of a request for a 1-hour lifetime at one upstream. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheChoice, refuseLifetime } from '../../engine/upstreams/cache-lifetime.ts';

const told = (effective_ttl: string, downgraded = false) => ({
  'cache.effective_ttl': effective_ttl,
  'cache.downgraded': downgraded,
});

test('an upstream gets what it can do as it was asked for', () => {
  const refuses = { on_unsupported_cache: 'refuse' } as const;
  assert.deepEqual(cacheChoice('1h', true, refuses), { fate: 'as_asked', facts: told('1h') });
  for (const asked of ['5m', 'none'])
    assert.deepEqual(cacheChoice(asked, false, refuses), { fate: 'as_asked', facts: told(asked) });
  assert.deepEqual(cacheChoice(undefined, false, refuses), { fate: 'as_asked', facts: told('none') });
});

test('what it cannot do is made short, refused or passed, as the rule says, and where that says nothing the upstream', () => {
  const upstream = { on_unsupported_cache: 'downgrade' } as const;
  assert.deepEqual(cacheChoice('1h', false, upstream), { fate: 'downgrade', facts: told('5m', true) });
  assert.deepEqual(cacheChoice('1h', false, upstream, {}), { fate: 'downgrade', facts: told('5m', true) });
  const passes = { on_unsupported_cache: 'pass' } as const;
  assert.deepEqual(cacheChoice('1h', false, upstream, passes), { fate: 'pass', facts: told('1h') });
  assert.equal(cacheChoice('1h', false, passes, { on_unsupported_cache: 'refuse' }).fate, 'refuse');
});

test('a refusal names the upstream and what to do', () => {
  const { code, status, message, details } = refuseLifetime(['cloud']);
  assert.deepEqual([code, status], ['invalid_request', 400]);
  assert.deepEqual(details, { param: 'cache_control.ttl', upstream: 'cloud' });
  assert.match(message, /The upstream "cloud" does not keep prompts of this model for an hour.*Ask for five minutes/);
  assert.match(refuseLifetime(['a', 'b']).message, /The upstreams "a" and "b" do not/);
});
