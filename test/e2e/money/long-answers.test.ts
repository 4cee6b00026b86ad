/** Slow responses without a stream: nothing of them arrives before they are complete. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import { bootGateway } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { bearer, messagesBody, open, send } from '../support/client.ts';
import { ledgerRow } from '../support/state.ts';

/** The gateway's defaults: for a stream to begin and to continue, and for a response without one. */
const [BEGINS_MS, GOES_ON_MS, WHOLE_MS] = [120_000, 300_000, 600_000];
/** Longer than a stream may be silent, shorter than an unstreamed response may last. */
const LONG_MS = 500_000;

/** The running timeouts of the gateway, in milliseconds. */
const waits: number[] = [];
const stopped = frozenClock(Date.now());
const clock: FrozenClock = {
  ...stopped,
  after(milliseconds, task) {
    waits.push(milliseconds);
    return stopped.after(milliseconds, task);
  },
};

const upstream = use(startUpstream);
const gateway = use(
  () => bootGateway({ upstream_url: upstream.url, clock }),
  async ({ close }) => {
    // First, since the gateway waits for aborted responses.
    await upstream.close();
    await close();
  },
);
beforeEach(() => {
  upstream.requests.length = 0;
  waits.length = 0;
});

/** Passes a timeout that the gateway has begun so often. */
async function pass(milliseconds: number, waited_ms = milliseconds, times = 1): Promise<void> {
  const isWaiting = () => waits.filter((each) => each === waited_ms).length >= times;
  await until(`the gateway waits ${waited_ms} ms`, isWaiting);
  clock.advance(milliseconds);
}

const ANSWER = JSON.stringify(message());
const BODIES = {
  '/v1/messages': { max_tokens: 64, messages: [{ role: 'user', content: 'Hi' }] },
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'Hi' }] },
  '/v1/responses': { input: 'Hi' },
};

const post = (path: keyof typeof BODIES, more: object = {}) => {
  const body = JSON.stringify({ model: 'coder-1', ...BODIES[path], ...more });
  return send(gateway.url, { path, headers: bearer(gateway.token), body });
};

for (const path of Object.keys(BODIES) as (keyof typeof BODIES)[]) {
  test(`on ${path} an unstreamed response may be silent for longer than a stream, before its head and behind it`, async () => {
    upstream.script = async (exchange) => {
      await pass(LONG_MS, WHOLE_MS);
      await answerJson(message())(exchange);
    };
    assert.equal((await post(path)).status, 200);
    waits.length = 0;
    upstream.script = async ({ res }) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.flushHeaders();
      await pass(LONG_MS, WHOLE_MS, 2);
      res.end(ANSWER);
    };
    const response = await post(path);
    assert.equal(response.status, 200, response.text);
    const { cost_nano_usd } = await ledgerRow(gateway.database, String(response.headers['x-gateway-request-id']));
    assert.ok(cost_nano_usd > 0);
  });
}

test('once its body has begun, such a response may be silent as long as any other', async () => {
  upstream.script = async ({ res }) => {
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': ANSWER.length });
    res.write(ANSWER.slice(0, 20));
    await pass(GOES_ON_MS);
  };
  await assert.rejects(post('/v1/messages'));
});

test('a stream must begin, and continue, in its own time', async () => {
  upstream.script = () => pass(BEGINS_MS);
  const late = await post('/v1/messages', { stream: true });
  assert.equal(late.status, 504);
  assert.match(late.json().error.message, /within 120 seconds/);
  upstream.script = ({ res }) => {
    res.writeHead(200, [...EVENT_STREAM]);
    res.write(messageEvents()[0]);
  };
  const { head } = open(gateway.url, { headers: bearer(gateway.token), body: messagesBody({ stream: true }) });
  let text = '';
  for await (const chunk of await head) {
    text += chunk;
    if (text.includes('message_start')) clock.advance(GOES_ON_MS);
  }
  assert.match(text, /sent nothing for 300 seconds/);
});

test('counting tokens is not waited for that long', async () => {
  upstream.script = () => pass(BEGINS_MS);
  const path = '/v1/messages/count_tokens';
  const { status } = await send(gateway.url, { path, headers: bearer(gateway.token), body: messagesBody() });
  assert.equal(status, 504);
});

test('a timeout after sending suggests no retry, explains the charge, and no SDK retries it', async () => {
  upstream.script = () => pass(WHOLE_MS);
  const plain = await post('/v1/messages');
  assert.equal(plain.status, 504);
  assert.equal(plain.headers['x-should-retry'], 'false');
  assert.match(
    plain.json().error.message,
    /within 600 seconds\. You are charged if the upstream still responds; a retry may be billed too\.$/,
  );
  upstream.requests.length = 0;
  const baseURL = `${gateway.url}/v1`;
  const compat = new OpenAI({ baseURL, apiKey: gateway.token });
  const messages = new Anthropic({ baseURL: gateway.url, authToken: gateway.token, apiKey: null });
  const hi = { role: 'user', content: 'Hi' } as const;
  const calls = [
    () => compat.responses.create({ model: 'coder-1', input: 'Hi' }),
    () => compat.chat.completions.create({ model: 'coder-1', messages: [hi] }),
    () => messages.messages.create({ model: 'coder-1', max_tokens: 9, messages: [hi] }),
  ];
  for (const call of calls) {
    waits.length = 0;
    await assert.rejects(call(), { status: 504 });
  }
  assert.equal(upstream.requests.length, calls.length);
});
