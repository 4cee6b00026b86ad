/** A gateway whose own clock is wrong: windows are the database's, and so are the retry hints. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { ask } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Longest duration of a test, and the rounded seconds. */
const TOLERANCE_MS = 10_000;
const late = { ...systemClock, now: () => Date.now() - 3 * 86_400_000 };

const { gateway } = useGateway({ spend_limits: { defaults: { user_weekly_usd: 0 } } }, late);

test('three days off, it gives callers waiting times by the clock of the database', async () => {
  const { status, text, headers } = await ask(gateway.url, gateway.token, { max_tokens: 1 });
  assert.equal(status, 429, text);
  const left_ms = Date.parse(JSON.parse(text).error.resets_at) - Date.now();
  const hint_ms = Number(headers['retry-after']) * 1000;
  assert.ok(Math.abs(hint_ms - left_ms) < TOLERANCE_MS, `hinted to wait ${hint_ms} ms of ${left_ms}`);
});
