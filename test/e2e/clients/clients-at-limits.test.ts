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
import { ask, bearer, send } from '../support/client.ts';
import { nothingReserved } from '../support/state.ts';
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

test('a limit on requests at once and one per minute are waited out by every client, for no more than a minute', async () => {
  await limit({ rules: [{ name: 'rpm', scope: 'user', requests_per_minute: 1 }] });
  // Should the minute end right here, the next request of a client fills it again.
  await ask(gateway.url, gateway.token);
  await nothingReserved(gateway.database);
  for (const [path, body] of [
    ['/v1/messages', { max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }],
    ['/v1/responses', { input: 'Hi' }],
  ] as const) {
    const asked = () =>
      send(gateway.url, { path, headers: bearer(gateway.token), body: JSON.stringify({ model: 'coder-1', ...body }) });
    const refused = await until('the minute is full', async () => {
      const response = await asked();
      return response.status === 429 ? response : undefined;
    });
    const { error } = refused.json();
    const wait = Number(refused.headers['retry-after']);
    assert.ok(wait >= 1 && wait <= 60, `${path}: ${wait}`);
    assert.equal(refused.headers['x-should-retry'], 'true');
    assert.equal(refused.headers[MESSAGE_HEADER], undefined);
    if (path === '/v1/messages') assert.match(error.resets_at, /^\d{4}-.*Z$/);
    else assert.ok(Number.isInteger(error.resets_at), String(error.resets_at));
  }
});

for (const path of ['/v1/responses', '/v1/chat/completions']) {
  test(`on ${path} programs find the limit, the window and when it resets in whole seconds and as text`, async () => {
    await limit({ advice: ADVICE, defaults: { user_daily_usd: 0.0001, team_monthly_usd: 0.0001 } });
    const token = await gateway.newToken({ team: 'search' });
    for (const stream of [false, true]) {
      const input = path.endsWith('responses') ? { input: 'Hi' } : { messages: [{ role: 'user', content: 'Hi' }] };
      const body = JSON.stringify({ model: 'coder-1', stream, ...input });
      const refused = await send(gateway.url, { path, headers: bearer(token), body });
      const { error } = refused.json();
      assert.equal(refused.headers['content-type'], 'application/json');
      const { type, code, limit_usd } = error;
      assert.deepEqual([type, code, limit_usd], ['usage_limit_reached', 'insufficient_quota', 0.0001]);
      const exceeded: readonly { scope: string; window: string; resets_at: number; reset_time: string }[] =
        error.exceeded;
      const limits = exceeded.map(({ scope, window }) => `${scope} ${window}`);
      assert.deepEqual(limits.toSorted(), ['team month', 'user day']);
      // On the last day of a month both reset at once.
      assert.ok(exceeded.every(({ resets_at }) => resets_at <= error.resets_at));
      const named = error.window === 'month' ? 'monthly' : 'daily';
      assert.ok(Number.isInteger(error.resets_at) && error.resets_at > Date.now() / 1000);
      assert.equal(new Date(error.resets_at * 1000).toISOString(), error.reset_time);
      const found = exceeded.map(({ resets_at, reset_time }) => resets_at * 1000 === Date.parse(reset_time));
      assert.deepEqual(found, [true, true]);
      assert.equal(refused.headers['retry-after'], undefined);
      assert.equal(refused.headers['x-should-retry'], 'false');
      const said = String(refused.headers[MESSAGE_HEADER]);
      assert.ok(said.includes(`exceeds the ${named} limit of 0.0001 USD for `), said);
      assert.match(said, /(?:team search|user \S+)\. Frag \?Zoe\? im Kanal\. Spend rule [ -~]*[^.]$/);
    }
  });
}

test('without a profile that names one, no header carries the sentence', async () => {
  await writeFile(
    gateway.config_file,
    JSON.stringify(gatewayConfig(upstream.url, { spend_limits: { defaults: { user_daily_usd: 0 } } })),
  );
  await gateway.reload();
  const body = JSON.stringify({ model: 'coder-1', input: 'Hi' });
  const { headers, status } = await send(gateway.url, { path: '/v1/responses', headers: bearer(gateway.token), body });
  assert.equal(status, 429);
  const ours = Object.values(headers).filter((value) => String(value).includes('limit of'));
  assert.deepEqual(ours, []);
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
