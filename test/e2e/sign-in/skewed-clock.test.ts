/** A gateway whose own clock is wrong: windows are the database's, and so is the time that callers are told to wait. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { ask } from '../support/client.ts';
import { type Surroundings, useGateway } from '../support/use-gateway.ts';

/** Longest time a test takes, and the seconds that are rounded. */
const TOLERANCE_MS = 10_000;
const late = { ...systemClock, now: () => Date.now() - 3 * 86_400_000 };

let gateway: Surroundings['gateway'];
useGateway((opened) => ({ gateway } = opened), { spend_limits: { defaults: { user_weekly_usd: 0 } } }, late);

test('three days off, it tells callers how long to wait by the clock of the database', async () => {
  const { status, text, headers } = await ask(gateway.url, gateway.token, { max_tokens: 1 });
  assert.equal(status, 429, text);
  const left_ms = Date.parse(JSON.parse(text).error.resets_at) - Date.now();
  const told_ms = Number(headers['retry-after']) * 1000;
  assert.ok(Math.abs(told_ms - left_ms) < TOLERANCE_MS, `told to wait ${told_ms} ms of ${left_ms}`);
});
