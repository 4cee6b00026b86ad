import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startUpstream } from '../../examples/demo/upstream.ts';
import { use } from '../support/use.ts';

const KEY = 'demo-key';

const upstream = use(() => startUpstream({ api_key: KEY }));

function post(path: string, body: object, headers: Record<string, string> = {}, signal: AbortSignal | null = null) {
  const init = { method: 'POST', headers: { 'x-api-key': KEY, ...headers }, body: JSON.stringify(body), signal };
  return fetch(upstream.url + path, init);
}

/** A response body, whatever its shape. */
// biome-ignore lint/suspicious/noExplicitAny: a test asserts on whatever shape came
function json(response: Response): Promise<any> {
  return response.json();
}

function request(more: object = {}): object {
  return { model: 'demo-large', max_tokens: 100, messages: [{ role: 'user', content: 'one two three' }], ...more };
}

test('a plain response repeats the question and counts words', async () => {
  const message = await json(await post('/v1/messages', request()));
  assert.match(message.content[0].text, /You said: "one two three"/);
  assert.equal(message.usage.input_tokens, 3);
  assert.equal(message.usage.output_tokens, message.content[0].text.split(' ').length);
  assert.equal(message.stop_reason, 'end_turn');
});

test('a streamed response is the same text, one event per word, with the usage at both ends', async () => {
  const plain = await json(await post('/v1/messages', request()));
  const text = await (await post('/v1/messages', request({ stream: true }))).text();
  const events = text
    .trimEnd()
    .split('\n\n')
    .map((event) => JSON.parse(event.slice(event.indexOf('data: ') + 6)));
  assert.equal(events[0].type, 'message_start');
  assert.equal(events[0].message.usage.input_tokens, 3);
  assert.ok(events.some(({ type }) => type === 'ping'));
  const words = events.filter(({ type }) => type === 'content_block_delta').map(({ delta }) => delta.text);
  assert.equal(words.join(''), plain.content[0].text);
  assert.deepEqual(events.at(-2).usage, { output_tokens: words.length });
  assert.equal(events.at(-1).type, 'message_stop');
});

test("a coding client's long prompt gets one sentence, and words in it that request no failure are ignored", async () => {
  const content = [
    { type: 'text', text: `<reminder>Do not let it fail silently. ${'Mind the rules. '.repeat(5000)}</reminder>` },
    { type: 'text', text: 'Say hello' },
  ];
  const ask = (text: string) => {
    const messages = [{ role: 'user', content: [...content, { type: 'text', text }] }];
    return post('/v1/messages', request({ max_tokens: 32_000, messages }));
  };
  const { content: said } = await json(await ask('please'));
  assert.match(said[0].text, /^I am the mock model of the demo: /);
  assert.ok(said[0].text.length < 300);
  assert.equal((await ask('now fail 529')).status, 529);
});

test('the marked part is written to the cache once, for its lifetime, and read from then on', async () => {
  const system = [
    { type: 'text', text: 'a b c d', cache_control: { type: 'ephemeral', ttl: '1h' } },
    { type: 'text', text: 'e f', cache_control: { type: 'ephemeral' } },
  ];
  const ask = async () => (await json(await post('/v1/messages', request({ system })))).usage;
  const first = await ask();
  assert.deepEqual(first.cache_creation, { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 4 });
  assert.equal(first.cache_creation_input_tokens, 6);
  assert.equal(first.cache_read_input_tokens, 0);
  const second = await ask();
  assert.deepEqual(second.cache_creation, { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 });
  assert.equal(second.cache_read_input_tokens, 6);
  assert.equal(second.input_tokens, 3);
});

test('fails on request, by header or by words', async () => {
  for (const status of [400, 429, 500, 529]) {
    const response = await post('/v1/messages', request(), { 'x-demo-fail': String(status) });
    assert.equal(response.status, status);
    assert.equal((await json(response)).type, 'error');
    assert.equal(response.headers.get('retry-after'), status === 429 ? '2' : null);
  }
  const words = await post('/v1/messages', request({ messages: [{ role: 'user', content: 'please fail 529 now' }] }));
  assert.equal(words.status, 529);
  const html = await post('/v1/messages', request(), { 'x-demo-fail': 'html' });
  assert.match(await html.text(), /<html>/);
  await assert.rejects(post('/v1/messages', request(), { 'x-demo-fail': 'reset' }));
  const hanging = post('/v1/messages', request(), { 'x-demo-fail': 'hang' }, AbortSignal.timeout(50));
  await assert.rejects(hanging, { name: 'TimeoutError' });
});

test("a wrong key, an unknown model, an unknown path and a malformed body are errors like a real provider's", async () => {
  const wrong: [Promise<Response>, number, string][] = [
    [post('/v1/messages', request(), { 'x-api-key': 'other' }), 401, 'authentication_error'],
    [post('/v1/messages', request({ model: 'other' })), 404, 'not_found_error'],
    [post('/v2/messages', request()), 404, 'not_found_error'],
    [post('/v1/messages', { model: 'demo-large' }), 400, 'invalid_request_error'],
  ];
  for (const [asked, status, type] of wrong) {
    const response = await asked;
    assert.equal(response.status, status);
    assert.equal((await json(response)).error.type, type);
  }
});
