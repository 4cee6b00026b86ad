import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { type TestGateway, UPSTREAM_KEY } from '../../support/gateway.ts';
import {
  answerChunks,
  answerJson,
  message,
  messageEvents,
  type ScriptedUpstream,
  sse,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

let upstream: ScriptedUpstream;
let gateway: TestGateway;
let client: Anthropic;

useGateway((opened) => {
  ({ upstream, gateway } = opened);
  client = new Anthropic({ baseURL: gateway.url, authToken: gateway.token, apiKey: null, maxRetries: 0 });
});

const ASK = {
  model: 'coder-1',
  max_tokens: 64,
  messages: [{ role: 'user' as const, content: 'Say hello.' }],
};

test('the SDK gets exactly the message the upstream sent', async () => {
  const answer = await client.messages.create(ASK);
  const { _request_id, ...received } = answer as typeof answer & { _request_id?: string };
  assert.deepEqual(received, message());
  assert.equal(_request_id, 'req_scripted', "the upstream's request-id header reaches the SDK");
  assert.deepEqual(JSON.parse(upstream.only().body.toString()), ASK);
});

test('the SDK may send its credential as an API key instead of a bearer token', async () => {
  const with_key = new Anthropic({ baseURL: gateway.url, apiKey: gateway.token, authToken: null, maxRetries: 0 });
  await with_key.messages.create(ASK);
  assert.equal(upstream.only().headers['x-api-key'], UPSTREAM_KEY);
  assert.equal(upstream.only().headers.authorization, undefined);
});

test('the SDK streams every event the upstream sent and builds the final message from them', async () => {
  const words = Array.from({ length: 50 }, (_, index) => `word${index} `);
  upstream.script = answerChunks(messageEvents(words));
  const events: unknown[] = [];
  for await (const event of await client.messages.create({ ...ASK, stream: true })) events.push(event);
  // The SDK itself hides pings.
  const sent = messageEvents(words).filter((event) => !event.startsWith('event: ping'));
  assert.deepEqual(
    events,
    sent.map((event) => JSON.parse(/data: (.*)/.exec(event)![1]!)),
  );

  const final = await client.messages.stream(ASK).finalMessage();
  assert.deepEqual(final.content[0]?.type === 'text' && final.content[0].text, words.join(''));
  assert.equal(final.usage.output_tokens, 40);
  assert.equal(final.usage.cache_creation?.ephemeral_1h_input_tokens, 20);
});

test('tools travel up, a tool call streamed in pieces comes back whole', async () => {
  const pieces = ['{"path": "/s', 'rc/ü.ts", "li', 'mit": 12}'];
  upstream.script = answerChunks([
    sse({ type: 'message_start', message: { ...message(), content: [] } }),
    sse({
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'tool_use', id: 'toolu_1', name: 'read_file', input: {} },
    }),
    ...pieces.map((partial_json) =>
      sse({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json } }),
    ),
    sse({ type: 'content_block_stop', index: 0 }),
    sse({ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } }),
    sse({ type: 'message_stop' }),
  ]);
  const tools = [
    {
      name: 'read_file',
      description: 'Reads a file',
      input_schema: { type: 'object' as const, properties: { path: { type: 'string' }, limit: { type: 'integer' } } },
    },
  ];
  const final = await client.messages.stream({ ...ASK, tools, tool_choice: { type: 'auto' } }).finalMessage();
  const [block] = final.content;
  assert.equal(block?.type, 'tool_use');
  assert.deepEqual(block.type === 'tool_use' && block.input, { path: '/src/ü.ts', limit: 12 });
  assert.equal(final.stop_reason, 'tool_use');
  assert.deepEqual(JSON.parse(upstream.only().body.toString()).tools, tools);
});

test('a one-hour cache_control and its beta header reach the upstream unchanged', async () => {
  const system = [
    { type: 'text' as const, text: 'x-anthropic-billing-header: cc_version=2.0; cc_entrypoint=cli;' },
    {
      type: 'text' as const,
      text: 'You are terse.',
      cache_control: { type: 'ephemeral' as const, ttl: '1h' as const },
    },
  ];
  const betas = ['extended-cache-ttl-2025-04-11', 'unheard-of-2031-01-01'];
  await client.beta.messages.create({ ...ASK, system, betas });
  const received = upstream.only();
  assert.deepEqual(JSON.parse(received.body.toString()).system, system);
  assert.equal(received.headers['anthropic-beta'], betas.join(','));
  assert.match(String(received.headers['anthropic-version']), /^\d{4}-\d\d-\d\d$/);
});

test('the upstream sees the very request the SDK would have sent to it directly, but for the credential', async () => {
  const direct = new Anthropic({ baseURL: upstream.url, authToken: gateway.token, apiKey: null, maxRetries: 0 });
  await direct.beta.messages.create({ ...ASK, betas: ['unheard-of-2031-01-01'] });
  await client.beta.messages.create({ ...ASK, betas: ['unheard-of-2031-01-01'] });
  const [expected, forwarded] = upstream.requests.map(({ method, url, headers, sha256 }) => {
    const { host: _host, connection: _connection, authorization, 'x-api-key': key, ...rest } = headers;
    return { credential: authorization ?? key, request: { method, url, sha256, headers: rest } };
  });
  assert.deepEqual(forwarded!.request, expected!.request);
  assert.deepEqual([expected!.credential, forwarded!.credential], [`Bearer ${gateway.token}`, UPSTREAM_KEY]);
});

test('token counts come from the upstream', async () => {
  upstream.script = answerJson({ input_tokens: 4711 });
  const { max_tokens: _, ...countable } = ASK;
  const count = await client.messages.countTokens(countable);
  assert.equal(count.input_tokens, 4711);
  assert.equal(upstream.only().url, '/v1/messages/count_tokens');
});

test("the gateway's own refusals arrive as the SDK's error classes", async () => {
  const stranger = new Anthropic({
    baseURL: gateway.url,
    authToken: 'gw_nobody_ever_made_this',
    apiKey: null,
    maxRetries: 0,
  });
  await assert.rejects(stranger.messages.create(ASK), Anthropic.AuthenticationError);
  await assert.rejects(client.messages.create({ ...ASK, model: 'no-such-model' }), (error: unknown) => {
    assert.ok(error instanceof Anthropic.NotFoundError);
    assert.match(error.message, /no-such-model/);
    assert.equal(error.type, 'not_found_error');
    return true;
  });
  const narrow = new Anthropic({
    baseURL: gateway.url,
    authToken: await gateway.newToken({ group: 'mapped-only' }),
    apiKey: null,
    maxRetries: 0,
  });
  await assert.rejects(narrow.messages.create(ASK), Anthropic.NotFoundError);
  await assert.rejects(
    client.messages.create({ ...ASK, max_tokens: 'many' as unknown as number }),
    Anthropic.BadRequestError,
  );
  assert.equal(upstream.requests.length, 0);
});

const UPSTREAM_ERRORS = [
  { status: 400, type: 'invalid_request_error', expected: Anthropic.BadRequestError },
  { status: 403, type: 'permission_error', expected: Anthropic.PermissionDeniedError },
  { status: 413, type: 'request_too_large', expected: Anthropic.APIError },
  { status: 429, type: 'rate_limit_error', expected: Anthropic.RateLimitError },
  { status: 500, type: 'api_error', expected: Anthropic.InternalServerError },
  { status: 529, type: 'overloaded_error', expected: Anthropic.APIError },
];
for (const { status, type, expected } of UPSTREAM_ERRORS) {
  test(`an upstream's ${status} ${type} arrives with its status, type and message`, async () => {
    const body = { type: 'error', error: { type, message: `prompt is too long: said the upstream (${status})` } };
    upstream.script = answerJson(body, status, { 'retry-after': '7' });
    await assert.rejects(client.messages.create(ASK), (error: unknown) => {
      assert.ok(error instanceof expected);
      assert.equal(error.status, status);
      assert.deepEqual(error.error, body);
      assert.equal(error.headers?.get('retry-after'), '7');
      return true;
    });
  });
}

test('an abort in the middle of a stream is settled at what the whole answer used', async () => {
  const user = 'aborting@example.com';
  const authToken = await gateway.newToken({ user });
  const aborting = new Anthropic({ baseURL: gateway.url, authToken, apiKey: null, maxRetries: 0 });
  const [start, ...rest] = messageEvents();
  let finish = () => {};
  upstream.script = ({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(`${start}${rest[0]}${rest[2]}`);
    finish = () => res.end(rest.slice(3).join(''));
  };
  const stream = aborting.messages.stream(ASK);
  stream.on('text', () => stream.abort());
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  finish();
  const row = await until('the request is settled', async () =>
    (await ledgerRows(gateway.database)).find((found) => found.user_email === user),
  );
  assert.equal(row.input_tokens, 100, 'what message_start reported is billed');
  assert.equal(row.output_tokens, 40);
  await nothingReserved(gateway.database);
});

test('a body of two megabytes passes', async () => {
  const content = 'Grüße, 世界! '.repeat(120_000);
  await client.messages.create({ ...ASK, messages: [{ role: 'user', content }] });
  const received = upstream.only();
  assert.ok(received.body.length > 2_000_000);
  assert.equal(JSON.parse(received.body.toString()).messages[0].content, content);
});
