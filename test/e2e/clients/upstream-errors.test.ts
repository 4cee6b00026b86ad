/** How clients of every protocol see the errors of real servers. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { FULL_CONTEXTS, type ServerError } from '../../protocols/upstream-errors.ts';
import { answerBytes, answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { IS_DEEP } from '../../support/times.ts';
import { eventsIn } from '../streams/streams.ts';
import type { Response } from '../support/client.ts';
import { askBody, COMBINATIONS, modelVia, nineConfig, post } from '../support/nine.ts';
import { recordOf } from '../support/odd.ts';
import { ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

after(() => nothingReserved(gateway.database));
const { gateway, upstream } = useGateway((url) => nineConfig(url));

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
