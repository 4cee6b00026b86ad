/** How clients of every protocol see the errors of real servers, and where a request goes next. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { FULL_CONTEXTS, OTHER_MEANINGS, type ServerError } from '../../protocols/upstream-errors.ts';
import { ONE_ATTEMPT } from '../../support/gateway.ts';
import { answerBytes, answerChunks, answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { IS_DEEP, inTurn } from '../../support/times.ts';
import { eventsIn } from '../streams/streams.ts';
import type { Response } from '../support/client.ts';
import { askBody, COMBINATIONS, modelVia, nineConfig, post } from '../support/nine.ts';
import { idOf, recordOf } from '../support/odd.ts';
import { ledgerRow, ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Models of two upstreams: a report of one about a model is remembered for a while. */
const BOTH = ['both', ...OTHER_MEANINGS.keys()].map((n) => `both-${n}`);

const CHAT = { type: 'compat', protocols: ['chat'] };

after(() => nothingReserved(gateway.database));
const { gateway, upstream } = useGateway((url) =>
  nineConfig(url, {
    upstreams: [
      { name: 'second', ...CHAT, base_url: `${url}/second`, ...ONE_ATTEMPT },
      { name: 'watched', ...CHAT, base_url: `${url}/watched` },
    ],
    models: [...BOTH, 'watched'].map((id) => ({ id })),
    rules: [
      { name: 'both', models: BOTH, upstreams: ['chat', 'second'] },
      { name: 'watched', models: ['watched'], upstream: 'watched' },
    ],
  }),
);

const bytesOf = (body: ServerError['body']) => (typeof body === 'string' ? body : JSON.stringify(body));

/** Has the upstream send a server's error as that server does. */
function answers({ status, body }: ServerError): void {
  const type = typeof body !== 'string' ? 'application/json' : body.startsWith('<') ? 'text/html' : 'text/plain';
  upstream.script = answerBytes(status, { 'content-type': type, 'x-of-the-server': 'kept' }, bytesOf(body));
}

/** The words by which clients know that they must compact the conversation. */
const KNOWN: Readonly<Record<Protocol, (error: { message: string; code?: string }) => boolean>> = {
  messages: ({ message }) =>
    message.toLowerCase().includes('prompt is too long') ||
    message.includes('input length and `max_tokens` exceed context limit'),
  chat: ({ message, code }) =>
    /prompt is too long|maximum context length|context_length_exceeded/i.test(message) ||
    code === 'context_length_exceeded',
  responses: ({ code }) => code === 'context_length_exceeded',
};

/** Bodies of servers whose clients know the words. */
const KNOWN_AT: Readonly<Record<Protocol, ReadonlySet<string>>> = {
  messages: new Set(['Messages API', 'Messages API, with the answer']),
  chat: new Set(['OpenAI', 'OpenAI, older models', 'Azure', 'Groq', 'llama-cpp-python']),
  responses: new Set(['OpenAI', 'OpenAI, older models', 'Azure', 'Groq', 'llama-cpp-python']),
};

/** Checks that a client compacts its conversation when it gets this response. */
function assertCompacts(spoken: Protocol, stream: boolean, { server, says }: ServerError, response: Response): void {
  const in_stream = stream && spoken === 'responses';
  assert.equal(response.status, in_stream ? 200 : 400, `${server}: ${response.text}`);
  assert.equal(response.headers['retry-after'], undefined);
  if (!in_stream) {
    const { error } = response.json();
    assert.equal(error.type, 'invalid_request_error', response.text);
    assert.ok(KNOWN[spoken](error), response.text);
    assert.ok(error.message.includes(says), response.text);
    return;
  }
  assert.match(String(response.headers['content-type']), /^text\/event-stream/);
  const [created, , failed] = eventsIn(response.text);
  assert.equal(created!.data.type, 'response.created');
  assert.equal(failed!.data.type, 'response.failed');
  for (const { id, created_at, model, output } of [created!.data.response, failed!.data.response]) {
    // Clients with types read no event whose response lacks one of these.
    assert.deepEqual([typeof id, typeof created_at, typeof model, output], ['string', 'number', 'string', []]);
    assert.notEqual(model, '');
  }
  assert.equal(failed!.data.response.error.code, 'context_length_exceeded');
  assert.ok(failed!.data.response.error.message.includes(says), response.text);
}

/** Each row is for one combination, the next one for the next; in the deep tier for all. */
const rowsFor = <T>(rows: readonly T[], combination: number): [number, T][] =>
  [...rows.entries()].filter(([place]) => IS_DEEP || (place + combination) % COMBINATIONS.length === 0);

for (const [combination, [spoken, protocol]] of COMBINATIONS.entries()) {
  const is_same = spoken === protocol;
  const which = `a ${spoken} client at a ${protocol} upstream`;
  const ask = (stream: boolean) => post(gateway, spoken, askBody(spoken, modelVia(protocol), 'Say hello.', { stream }));

  test(`${which} compacts its conversation for any server's error of length`, async () => {
    for (const [place, row] of rowsFor(FULL_CONTEXTS, combination)) {
      // Where they are known already, the next test has them.
      if (is_same && KNOWN_AT[spoken].has(row.server)) continue;
      answers(row);
      const stream = place % 2 === 0;
      const response = await ask(stream);
      // Other words that it passes unchanged.
      if (is_same && response.text === bytesOf(row.body))
        assert.ok(KNOWN[spoken](response.json().error), `${row.server}: ${response.text}`);
      else assertCompacts(spoken, stream, row, response);
      assert.equal(response.headers['x-of-the-server'], 'kept');
    }
  });
}

for (const protocol of PROTOCOLS) {
  test(`a ${protocol} client gets the bytes of a ${protocol} upstream with a known error`, async () => {
    for (const row of FULL_CONTEXTS.filter(({ server }) => KNOWN_AT[protocol].has(server))) {
      answers(row);
      const response = await post(gateway, protocol, askBody(protocol, modelVia(protocol), 'Hi', { stream: true }));
      assert.deepEqual([response.status, response.text], [row.status, bytesOf(row.body)]);
      assert.equal((await recordOf(gateway, response)).error_rewritten, undefined);
    }
  });

  test(`rewrites unknown errors of a ${protocol} upstream, with an audit note, and keeps its other fields`, async () => {
    upstream.script = answerJson(
      { error: { message: 'no room', type: 'exceed_context_size_error', code: 400, n_ctx: 4096 }, trace: 'abc' },
      500,
      { 'retry-after': '1', 'x-should-retry': 'true', etag: '"x"' },
    );
    const response = await post(gateway, protocol, askBody(protocol, modelVia(protocol)));
    assert.equal(response.status, 400, response.text);
    const { error, trace } = response.json();
    assert.deepEqual([error.n_ctx, trace, error.type], [4096, 'abc', 'invalid_request_error']);
    assert.equal(error.message, protocol === 'messages' ? 'prompt is too long: no room' : 'no room');
    const { 'retry-after': wait, 'x-should-retry': retry, etag, 'request-id': id } = response.headers;
    assert.deepEqual([wait, retry, etag, id], [undefined, undefined, undefined, 'req_scripted']);
    const { error_rewritten, upstream_status, status } = await recordOf(gateway, response);
    assert.deepEqual([error_rewritten, upstream_status, status], [true, 500, 400]);
  });
}

const TOO_LONG = 'Input is too long for requested model.';
const event = (data: object, name?: string) => `${name ? `event: ${name}\n` : ''}data: ${JSON.stringify(data)}\n\n`;

/** Reports as the first event of a stream that the conversation is too long. */
const FIRST_EVENTS: Readonly<Record<Protocol, string>> = {
  messages: event({ type: 'error', error: { type: 'api_error', message: TOO_LONG } }, 'error'),
  chat: `${event({ error: { code: 500, message: TOO_LONG } })}data: [DONE]\n\n`,
  responses: event(
    {
      ...{ type: 'response.failed', sequence_number: 0 },
      response: { id: 'r', status: 'failed', output: [], error: { code: 'server_error', message: TOO_LONG } },
    },
    'response.failed',
  ),
};

const ODD_EVENTS: readonly string[] = [
  `event: error\ndata: ${TOO_LONG}\n\n`,
  event({ message: TOO_LONG }, 'error'),
  ...[{ detail: TOO_LONG }, { error: TOO_LONG }, { object: 'error', message: TOO_LONG, code: 400 }].map((data) =>
    event(data),
  ),
];

for (const [combination, [spoken, protocol]] of COMBINATIONS.entries()) {
  const which = `a ${spoken} client at a ${protocol} upstream`;
  const events_for = [FIRST_EVENTS[protocol], ...rowsFor(ODD_EVENTS, combination).map(([, event]) => event)];
  const row = { server: '', status: 200, body: '', says: TOO_LONG };

  test(`${which} compacts its conversation when a stream begins with that error`, async () => {
    for (const [place, event] of events_for.entries()) {
      for (const stream of inTurn([true, false], place)) {
        upstream.script = answerChunks([event]);
        const response = await post(gateway, spoken, askBody(spoken, modelVia(protocol), 'Hi', { stream }));
        assertCompacts(spoken, stream, { ...row, server: event }, response);
      }
    }
  });
}

/** Errors inside a response, and how they are reported. */
const IN_ANSWERS: readonly (readonly [server: string, body: object, says: string, compacts?: true])[] = [
  [
    'MiniMax',
    { id: '', choices: null, model: '', base_resp: { status_code: 2013, status_msg: 'context window exceeds limit' } },
    'context window exceeds limit',
    true,
  ],
  ['MiniMax', { id: '', choices: null, base_resp: { status_code: 1004, status_msg: 'login fail' } }, 'login fail'],
  [
    'DashScope',
    { code: 'InvalidParameter', message: 'Range of input length should be [1, 30720]', request_id: 'x' },
    'Range of input length',
    true,
  ],
  ['Cloudflare', { result: null, success: false, errors: [{ code: 5, message: 'No capacity' }] }, 'No capacity'],
  ['Zhipu', { code: 500, msg: '404 NOT_FOUND', success: false }, '404 NOT_FOUND'],
  ['a proxy', { status: 'error', message: 'Something is off' }, 'Something is off'],
];

for (const [combination, [spoken, protocol]] of COMBINATIONS.filter(([one, other]) => one !== other).entries()) {
  test(`a ${spoken} client gets the error that a ${protocol} upstream sends as its response, at no cost`, async () => {
    for (const [, [server, body, says, compacts]] of rowsFor(IN_ANSWERS, COMBINATIONS.length - combination)) {
      upstream.script = answerJson(body);
      const response = await post(gateway, spoken, askBody(spoken, modelVia(protocol)));
      assert.ok(response.status >= 400, `${server}: ${response.text}`);
      assert.ok(response.json().error.message.includes(says), `${server}: ${response.text}`);
      assert.equal(response.status === 400 && KNOWN[spoken](response.json().error), compacts === true, response.text);
      assert.equal((await ledgerRow(gateway.database, idOf(response))).cost_nano_usd, 0, server);
    }
  });
}

test('a conversation that is too long stops fallback, and an error of the upstream does not', async () => {
  const asked = async (model: string, row: ServerError) => {
    upstream.requests.length = 0;
    answers(row);
    await post(gateway, 'chat', askBody('chat', model));
    return upstream.requests.length;
  };
  for (const row of FULL_CONTEXTS.slice(0, 2)) assert.equal(await asked('both-both', row), 1, row.server);
  for (const [n, row] of OTHER_MEANINGS.entries())
    assert.equal(await asked(`both-${n}`, row), 2, `${row.server}: ${row.means}`);
});

test('no breaker opens for conversations that are too long, nor for what a caller can make an upstream repeat', async () => {
  const ask = () => post(gateway, 'chat', askBody('chat', 'watched'));
  answers(FULL_CONTEXTS.find(({ status }) => status >= 500)!);
  for (let i = 0; i < 6; i++) assert.equal((await ask()).status, 400);
  for (const said of [
    'you wrote: API key not valid',
    'you wrote: The model `x` does not exist',
    'rate limit exceeded',
  ]) {
    upstream.script = answerJson({ error: { message: said } }, 400);
    for (let i = 0; i < 6; i++) assert.equal((await ask()).status, 400);
  }
  upstream.script = answerJson({ error: { message: 'No.' } }, 422);
  assert.equal((await ask()).status, 422);
});

test('upstream error text is in the response, and not in the log, the ledger or the audit log', async () => {
  for (const body of [
    'Plain-merger',
    { detail: 'Detail-merger' },
    { error: { message: 'Prompt is too long: merger' } },
  ]) {
    answers({ server: '', status: 400, body, says: '' });
    assert.match((await post(gateway, 'messages', askBody('messages', modelVia('chat')))).text, /merger/);
  }
  await nothingReserved(gateway.database);
  const rows = JSON.stringify([
    await ledgerRows(gateway.database),
    await gateway.database.knex('audit_log').select('*'),
  ]);
  assert.doesNotMatch(`${gateway.logs.join('\n')}${rows}`, /merger/);
});
