/** Everything at once that a caller with a valid token can do to a gateway. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startChild, stopChildren } from '../../bench/processes.ts';
import { ATTACKS } from '../../support/identity/hostile-caller.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

after(stopChildren);
const { gateway, upstream } = useGateway({});

test("one hostile caller makes no other caller's request fail", async () => {
  const { url } = gateway;
  const response = upstream.script;
  upstream.script = (exchange) => {
    // Two minutes of requests would otherwise stay in memory.
    upstream.requests.length = 0;
    return response(exchange);
  };
  const people = Array.from({ length: 10 }, (_, i) => gateway.newToken({ user: `honest-${i}@example.com` }));
  const tokens = await Promise.all(people);
  const token = await gateway.newToken({ user: 'mallory@example.com' });
  const attacker = await startChild('servers/attacker.ts');
  await attacker.ask('attack', { url, token, model: 'coder-1', names: ATTACKS });
  const body = Buffer.from(messagesBody({ note: 'x'.repeat(60_000) }));
  await until('the attacks are rejected while others send requests', async () => {
    for (let round = 0; round < 3; round++) {
      const responses = await Promise.all(tokens.map((one) => send(url, { headers: bearer(one), body })));
      for (const { status, text } of responses) assert.equal(status, 200, text);
    }
    return '429' in (await attacker.ask<Record<string, number>>('answered'));
  });
  await attacker.ask('stop_attack');
});
