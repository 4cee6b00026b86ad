/** What callers who use the SDK, with its own retries, meet at a limit. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  type Exchange,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';

const ASK = { model: 'coder-1', max_tokens: 64, messages: [{ role: 'user' as const, content: 'Say hello.' }] };

let upstream: ScriptedUpstream;
const gateways: TestGateway[] = [];

before(async () => {
  upstream = await startUpstream();
});
after(async () => {
  for (const gateway of gateways) await gateway.close();
  await upstream?.close();
});

/** A gateway with these limits, a client with the SDK's usual patience, and the status of every answer it got. */
async function open(spend_limits: object) {
  const gateway = await bootGateway({ upstream_url: upstream.url, config: { spend_limits } });
  gateways.push(gateway);
  upstream.requests.length = 0;
  upstream.script = answerJson(message());
  const statuses: number[] = [];
  const client = new Anthropic({
    baseURL: gateway.url,
    authToken: gateway.token,
    apiKey: null,
    fetch: async (...asked) => {
      const response = await fetch(...asked);
      statuses.push(response.status);
      return response;
    },
  });
  return { client, statuses };
}

for (const [status, expected] of [
  [429, Anthropic.RateLimitError],
  [402, Anthropic.APIError],
  [403, Anthropic.PermissionDeniedError],
] as const) {
  test(`a limit in money that answers ${status} is that error at once, streaming or not, with our sentence`, async () => {
    const advice = 'Ask in the channel.';
    const { client, statuses } = await open({ status, advice, defaults: { user_daily_usd: 0 } });
    const calls = [() => client.messages.create(ASK), () => client.messages.stream(ASK).finalMessage()];
    for (const call of calls) {
      await assert.rejects(call, (error: unknown) => {
        assert.ok(error instanceof expected);
        assert.deepEqual([error.status, error.type], [status, 'billing_error']);
        const { error: said } = error.error as { error: { code: string; message: string } };
        assert.equal(said.code, 'spend_limit_exceeded');
        assert.match(
          said.message,
          /^Waiting does not help: the daily limit of 0 USD for user dev@example\.com .*\. Ask in the channel\. Spend rule /,
        );
        return true;
      });
    }
    assert.deepEqual(statuses, [status, status], 'nothing was tried again');
    assert.equal(upstream.requests.length, 0);
  });
}

test('a limit on requests at once is waited out', async () => {
  const { client, statuses } = await open({ rules: [{ name: 'parallel', scope: 'user', concurrency: 1 }] });
  let first: Exchange | undefined;
  upstream.script = (exchange) => {
    first = exchange;
  };
  const earlier = client.messages.create(ASK);
  await until('the first request is at the upstream', () => first !== undefined);
  upstream.script = answerJson(message());
  const later = client.messages.create(ASK);
  await until('the second one is refused', () => statuses.length === 1);
  await answerJson(message())(first!);
  assert.deepEqual([(await earlier).type, (await later).type], ['message', 'message']);
  assert.deepEqual(statuses, [429, 200, 200]);
});
