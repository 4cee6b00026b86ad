/** Gateways whose own clocks are wrong: windows are the database's, and so is the time that callers are told to wait. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../../engine/kit/clock.ts';
import { bootGateway } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ask } from '../support/client.ts';

const DAY_MS = 86_400_000;
/** Longest time a test takes, and the seconds that are rounded. */
const TOLERANCE_MS = 10_000;

let upstream: ScriptedUpstream;

before(async () => {
  upstream = await startUpstream();
});
after(() => upstream?.close());

describe('a gateway whose clock is wrong', () => {
  for (const days of [-3]) {
    test(`${days} days off, it tells callers how long to wait by the clock of the database`, async () => {
      const gateway = await bootGateway({
        upstream_url: upstream.url,
        clock: { ...systemClock, now: () => Date.now() + days * DAY_MS },
        config: { spend_limits: { defaults: { user_weekly_usd: 0 } } },
      });
      try {
        const { status, text, headers } = await ask(gateway.url, gateway.token, { max_tokens: 1 });
        assert.equal(status, 429, text);
        const left_ms = Date.parse(JSON.parse(text).error.resets_at) - Date.now();
        const told_ms = Number(headers['retry-after']) * 1000;
        assert.ok(Math.abs(told_ms - left_ms) < TOLERANCE_MS, `told to wait ${told_ms} ms of ${left_ms}`);
      } finally {
        await gateway.close();
      }
    });
  }
});
