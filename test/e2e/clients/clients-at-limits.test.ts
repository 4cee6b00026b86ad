/** How coding clients and SDKs, with their own retries, treat every kind of limit rejection. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { buildCli, codingCli, messagesClient, type Turn } from '../../support/coding-clients.ts';
import { gatewayConfig, serverSection } from '../../support/gateway.ts';
import { answerJson, type Exchange, message } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { useGateway } from '../support/use-gateway.ts';

const MESSAGE_HEADER = 'x-coding-cli-message';
const ADVICE = 'Frag „Zoë“ im Kanal.';

/** Continues with other limits, at once. */
async function limit(spend_limits: object): Promise<void> {
  const server = { ...serverSection({}), profile: 'names.yaml' };
  await writeFile(gateway.config_file, JSON.stringify(gatewayConfig(upstream.url, { server, spend_limits })));
  await gateway.reload();
  const found = gateway.logs.filter((record) => record.includes('"level":"error"'));
  assert.deepEqual(found, []);
}

const { gateway, upstream } = useGateway({});
before(() =>
  writeFile(
    gateway.config_file.replace('gateway.yaml', 'names.yaml'),
    `header_prefix: acme\nrefusal_header: ${MESSAGE_HEADER}\n`,
  ),
);

const turns = () => ({
  messages: messagesClient(gateway),
  coding: codingCli(gateway, { message_header: MESSAGE_HEADER }),
  build: buildCli(gateway),
});

/** What all clients show for a rejection that a short wait does not fix. */
async function assertEnds(says: RegExp, status: number): Promise<void> {
  for (const [name, playing] of Object.entries(turns())) {
    const { waited, shown, ...turn }: Turn = await playing;
    assert.ok(waited < 1, `${name} waits ${waited} s`);
    assert.equal(turn.status, status, name);
    assert.match(shown ?? '', says, name);
  }
  assert.equal(upstream.requests.length, 0);
}

describe('every coding client ends its turn at once and shows our sentence', () => {
  for (const [status, window, called] of [
    [429, 'day', 'daily'],
    [402, 'month', 'monthly'],
    [403, 'day', 'daily'],
  ] as const) {
    test(`at a limit of the ${window} with status ${status}`, async () => {
      const rules = [{ name: 'small', scope: 'user', window, limit_usd: 0.0001 }];
      await limit({ status, advice: ADVICE, rules });
      const says = `Retrying will not help: .* the ${called} limit of 0.0001 USD for user dev@example.com.*Frag .*Zoe?.*im Kanal`;
      await assertEnds(new RegExp(says, 's'), status);
    });
  }

  test('at a limit that allows nothing', async () => {
    await limit({ defaults: { user_daily_usd: 0 } });
    await assertEnds(/Retrying will not help: .* is 0 USD/, 429);
  });

  test('at a limit per minute that is smaller than the request', async () => {
    await limit({ rules: [{ name: 'tpm', scope: 'user', tokens_per_minute: 3 }] });
    await assertEnds(/Retrying will not help: .* the limit of 3 tokens per minute/, 429);
  });
});

describe('the SDKs of both protocols', () => {
  /** Both, with their usual retries, and the status of every response they got. */
  function clients() {
    const statuses: number[] = [];
    const counting: typeof fetch = async (...asked) => {
      const response = await fetch(...asked);
      statuses.push(response.status);
      return response;
    };
    return {
      statuses,
      compat: new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.token, fetch: counting }),
      messages: new Anthropic({ baseURL: gateway.url, authToken: gateway.token, apiKey: null, fetch: counting }),
    };
  }
  const ours = { role: 'user', content: 'Hi' } as const;

  for (const status of [429, 402, 403]) {
    test(`get an error with status ${status} once, streaming or not, with our sentence`, async () => {
      await limit({ status, defaults: { user_daily_usd: 0 } });
      const { compat, messages, statuses } = clients();
      for (const stream of [false, true]) {
        for (const call of [
          () => compat.responses.create({ model: 'coder-1', input: 'Hi', stream }),
          () => compat.chat.completions.create({ model: 'coder-1', messages: [ours], stream }),
          () => messages.messages.create({ model: 'coder-1', max_tokens: 9, messages: [ours], stream }),
        ])
          await assert.rejects(call, { status, message: /Retrying will not help: the daily limit for .* is 0 USD/ });
      }
      assert.deepEqual(statuses, Array(6).fill(status));
    });
  }

  test('wait out a limit on requests at once', async () => {
    await limit({ rules: [{ name: 'parallel', scope: 'user', concurrency: 1 }] });
    const { messages, statuses } = clients();
    const create = () => messages.messages.create({ model: 'coder-1', max_tokens: 64, messages: [ours] });
    const first = Promise.withResolvers<Exchange>();
    upstream.script = first.resolve;
    const earlier = create();
    const exchange = await first.promise;
    upstream.script = answerJson(message());
    const later = create();
    await until('the second one is rejected', () => statuses.length === 1);
    await answerJson(message())(exchange);
    assert.deepEqual([(await earlier).type, (await later).type], ['message', 'message']);
    assert.deepEqual(statuses, [429, 200, 200]);
  });
});
