import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  type ScriptedUpstream,
  sse,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, bearer, messagesBody, open, readAll } from '../support/client.ts';
import { ledgerRow, nothingReserved, reserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

let upstream: ScriptedUpstream;
let gateway: TestGateway;

const spend_limits = { defaults: { user_daily_usd: 50 }, reserve: 'typical', overshoot_percent: 5 };
useGateway(
  (opened) => {
    ({ upstream, gateway } = opened);
  },
  { spend_limits },
);

const text = (said: string) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: said } });

test('a stream above the typical cost reserves more and more of the limit while it runs', async () => {
  // 10 x 3000 + 10 x 15000 = 180,000 nano-USD each.
  upstream.script = answerJson(message({ input_tokens: 10, output_tokens: 10 }));
  for (let i = 0; i < 25; i++) assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  await nothingReserved(gateway.database);

  let goOn = () => {};
  const paused = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  upstream.script = async ({ res }) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    const usage = { input_tokens: 10, output_tokens: 1 };
    res.write(sse({ type: 'message_start', message: { type: 'message', content: [], usage } }));
    for (let i = 0; i < 200; i++) res.write(sse(text('abcd')));
    await paused;
    res.write(sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 200 } }));
    res.end(sse({ type: 'message_stop' }));
  };
  const body = messagesBody({ max_tokens: 10_000, stream: true });
  const head = await open(gateway.url, { headers: bearer(gateway.token), body }).head;
  // Begun with about 180,000; 10 x 3000 + 200 x 15000 are spent by now.
  await until('the spent amount is reserved', async () => (await reserved(gateway.database)).nano_usd >= 3_030_000);
  const { nano_usd, reservations } = await reserved(gateway.database);
  assert.equal(reservations, 1);
  assert.ok(nano_usd < 10_000 * 15_000, `${nano_usd} are reserved, and not all that it may cost`);
  goOn();
  const response = await readAll(head);
  const row = await ledgerRow(gateway.database, String(response.headers['x-gateway-request-id']));
  assert.equal(row.cost_nano_usd, 3_030_000);
  await nothingReserved(gateway.database);
});
