/** Answers that take long without a stream: nothing of them comes before they are complete. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { serverSection, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  hang,
  message,
  messageEvents,
  type ScriptedUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { ledgerRow } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Longer than a stream may be silent, shorter than an answer without one may take. */
const LONG_MS = 700;
const timeouts = { first_byte_seconds: 0.3, idle_seconds: 0.3, unstreamed_first_byte_seconds: 1.5 };

let upstream: ScriptedUpstream;
let gateway: TestGateway;

useGateway(
  (opened) => {
    ({ upstream, gateway } = opened);
  },
  { server: serverSection({ timeouts }) },
);

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
  test(`on ${path} an answer without a stream may be silent for longer than a stream, before its head and behind it`, async () => {
    upstream.script = async (exchange) => {
      await delay(LONG_MS);
      await answerJson(message())(exchange);
    };
    assert.equal((await post(path)).status, 200);
    upstream.script = async ({ res }) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.flushHeaders();
      await delay(LONG_MS);
      res.end(ANSWER);
    };
    const answer = await post(path);
    assert.equal(answer.status, 200, answer.text);
    const { cost_nano_usd } = await ledgerRow(gateway.database, String(answer.headers['x-gateway-request-id']));
    assert.ok(cost_nano_usd > 0);
  });
}

test('once its body has begun, such an answer may be silent as long as any other', async () => {
  upstream.script = ({ res }) => {
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': ANSWER.length });
    res.write(ANSWER.slice(0, 20));
  };
  const started = performance.now();
  await assert.rejects(post('/v1/messages'));
  assert.ok(performance.now() - started < 1300, 'not as long as before its first byte');
});

test('a stream must begin, and go on, in its own time', async () => {
  upstream.script = hang;
  const late = await post('/v1/messages', { stream: true });
  assert.equal(late.status, 504);
  assert.match(late.json().error.message, /within 0\.3 seconds/);
  upstream.script = ({ res }) => {
    res.writeHead(200, [...EVENT_STREAM] as string[]);
    res.write(messageEvents()[0]);
  };
  assert.match((await post('/v1/messages', { stream: true })).text, /sent nothing for 0\.3 seconds/);
});

test('counting tokens is not waited for that long', async () => {
  upstream.script = hang;
  const started = performance.now();
  const path = '/v1/messages/count_tokens';
  const { status } = await send(gateway.url, { path, headers: bearer(gateway.token), body: messagesBody() });
  assert.equal(status, 504);
  assert.ok(performance.now() - started < 1300);
});

test('a timeout behind the sending is not called one to send again, says what becomes of the money, and no SDK sends it again', async () => {
  upstream.script = hang;
  const plain = await post('/v1/messages');
  assert.equal(plain.status, 504);
  assert.equal(plain.headers['x-should-retry'], 'false');
  assert.match(
    plain.json().error.message,
    /within 1\.5 seconds\. Its answer is waited for and charged if it comes; the same request sent again is paid again\.$/,
  );
  upstream.requests.length = 0;
  const baseURL = `${gateway.url}/v1`;
  const compat = new OpenAI({ baseURL, apiKey: gateway.token });
  const messages = new Anthropic({ baseURL: gateway.url, authToken: gateway.token, apiKey: null });
  const hi = { role: 'user', content: 'Hi' } as const;
  const calls = [
    compat.responses.create({ model: 'coder-1', input: 'Hi' }),
    compat.chat.completions.create({ model: 'coder-1', messages: [hi] }),
    messages.messages.create({ model: 'coder-1', max_tokens: 9, messages: [hi] }),
  ];
  for (const { status, reason } of (await Promise.allSettled(calls)) as PromiseRejectedResult[]) {
    assert.deepEqual([status, reason.status], ['rejected', 504]);
  }
  assert.equal(upstream.requests.length, calls.length);
});
