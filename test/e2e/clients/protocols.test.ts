/** What every client gets from every upstream, in any combination of protocols: text, errors, retry hints, rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import type { Answer } from '../../support/model-provider/model-provider.ts';
import { answerBytes, answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import type { Response } from '../support/client.ts';
import { askBody, COMBINATIONS, modelVia, post, TRANSLATED, useNine } from '../support/nine.ts';
import { idOf, recordOf } from '../support/odd.ts';
import { ledgerRow } from '../support/state.ts';

const { gateway, provider } = useNine();

const WORDS = 'Hello — Grüße, 世界 🙂.\n\ndata: [DONE]\n';
const ANSWER: Answer = { said: [{ kind: 'text', text: WORDS }], pings: true };

for (const [protocol, upstream] of COMBINATIONS) {
  const model = modelVia(upstream);
  const which = `a ${protocol} client at a ${upstream} upstream`;

  for (const stream of [false, true]) {
    const how = stream ? 'stream' : 'document';
    test(`${which} gets the model's text in a ${how}, and is charged by hand-computed prices`, async () => {
      const used = { input: 100, cache_read: 2000, cache_write: 0, output: 40, reasoning: 8 };
      provider.model = () => ({ ...ANSWER, used });
      const response = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream }));
      assert.equal(response.status, 200, response.text);
      assert.match(String(response.headers['content-type']), stream ? /^text\/event-stream/ : /^application\/json/);
      assert.equal(textIn(protocol, stream ? eventsIn(response.text) : response.json()), WORDS);
      assert.deepEqual(provider.refused, []);
      const received = provider.asked.map(({ protocol, stream, body }) => [protocol, stream, body.model]);
      assert.deepEqual(received, [[upstream, stream, `upstream-${upstream}`]]);
      const row = await ledgerRow(gateway.database, idOf(response));
      assert.deepEqual([row.protocol, row.upstream, row.status, row.aborted], [protocol, upstream, 200, false]);
      assert.deepEqual([row.input_tokens, row.output_tokens, row.cache_read_tokens], [100, 40, 2000]);
      const cost_nano_usd = 100 * 3000 + 2000 * 300 + 40 * 15_000;
      assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [cost_nano_usd, 'upstream']);
    });
  }

  for (const status of [400, 403, 413, 429, 500, 529]) {
    test(`${which} gets the upstream's ${status} with its message, in the envelope of the client's protocol`, async () => {
      const message = `Extra inputs are not permitted: “ü” (${status})`;
      provider.model = () => ({ status, message, headers: { 'retry-after': '7' } });
      const response = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream: true }));
      assert.equal(response.status, status);
      assert.match(String(response.headers['content-type']), /^application\/json/);
      assert.equal(response.headers['retry-after'], '7');
      const body = response.json();
      assert.equal(body.error.message, message);
      assert.equal(body.type, protocol === 'messages' ? 'error' : undefined);
      assert.equal(typeof body.error.type, 'string');
    });
  }
}

/** Something that only this protocol can say, and the rule that drops it. */
const UNSAYABLE: Readonly<Record<Protocol, readonly [said: object, rule: string]>> = {
  messages: [{ top_k: 3 }, 'top_k'],
  chat: [{ logit_bias: { 1: 2 } }, 'logit_bias'],
  responses: [{ truncation: 'auto' }, 'truncation'],
};

for (const [protocol, upstream] of TRANSLATED) {
  test(`the audit record reports ${protocol} translated to ${upstream}, and the losses`, async () => {
    const [said, rule] = UNSAYABLE[protocol];
    const body = askBody(protocol, modelVia(upstream), 'Hi', { ...said, zz_unheard_of: 1, 'Not a name!': 2 });
    const response = await post(gateway, protocol, body);
    assert.equal(response.status, 200, response.text);
    const record = await recordOf(gateway, response);
    assert.deepEqual(record.losses.toSorted(), [rule, 'unknown_field', 'unknown_field:zz_unheard_of'].sort());
    assert.deepEqual(record.rewrites, ['*']);
  });
}

/** The response of a gateway whose upstream answers with this. */
function answered(
  spoken: Protocol,
  upstream: Protocol,
  document: object,
  status = 200,
  headers: Record<string, string> = {},
): Promise<Response> {
  provider.upstream.script = answerJson(document, status, headers);
  return post(gateway, spoken, askBody(spoken, modelVia(upstream), 'Hi', { stream: status !== 200 }));
}

/** Retry hints of upstreams, in every form of real servers, and what the clients read. */

const ERROR = { error: { type: 'rate_limit_error', message: 'Slow down.', code: 'rate_limit_exceeded' } };
const RETRY_INFO = {
  error: {
    code: 429,
    message: 'Quota exceeded.',
    details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '12.4s' }],
  },
};

/** The headers of an upstream with status 429, and the `retry-after` of a translated response. */
const HINTS: readonly (readonly [headers: Record<string, string>, body: object, retry_after: string | undefined])[] = [
  [{ 'retry-after': '0.5' }, ERROR, '1'],
  [{ 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '20ms' }, ERROR, '1'],
  [{}, RETRY_INFO, '13'],
  [{ 'retry-after': 'soon' }, ERROR, undefined],
];

for (const [spoken, upstream] of COMBINATIONS) {
  const ask = (headers: Record<string, string>, body: object) => answered(spoken, upstream, body, 429, headers);

  if (spoken === upstream) {
    test(`passes a ${upstream} upstream's own headers to ${spoken} clients untouched`, async () => {
      for (const [headers, body] of HINTS) {
        const got = await ask(headers, body);
        assert.equal(got.headers['retry-after'], headers['retry-after']);
        assert.equal(got.headers['retry-after-ms'], headers['retry-after-ms']);
      }
    });
    continue;
  }

  test(`sends ${spoken} clients whole seconds for any format of a ${upstream} upstream`, async () => {
    for (const [headers, body, retry_after] of HINTS) {
      const got = await ask(headers, body);
      assert.deepEqual([got.status, got.headers['retry-after']], [429, retry_after], JSON.stringify(headers));
    }
    // Clients of one protocol give up at waits that others would sleep out.
    const long = (await ask({ 'retry-after': '2h' }, ERROR)).headers;
    assert.equal(long['retry-after'], spoken === 'messages' ? '7200' : undefined);
    const long_ms = (await ask({ 'retry-after-ms': '7200000' }, ERROR)).headers['retry-after-ms'];
    assert.equal(long_ms === undefined, spoken !== 'messages');
  });

  test(`sends ${spoken} clients whole seconds where a page replaces a ${upstream} upstream's response`, async () => {
    provider.upstream.script = answerBytes(503, { 'content-type': 'text/html', 'retry-after': '2.5' }, '<html>Busy');
    const got = await post(gateway, spoken, askBody(spoken, modelVia(upstream), 'Hi'));
    assert.deepEqual([got.status, got.headers['retry-after']], [503, '3']);
  });
}

for (const [upstream, document] of [
  [
    'responses',
    (input_tokens_details: object) => {
      const content = [{ type: 'output_text', text: 'Hi', annotations: [] }];
      const output = [{ type: 'message', id: 'msg_1', role: 'assistant', content }];
      const usage = { input_tokens: 100, output_tokens: 20, total_tokens: 120, input_tokens_details };
      return { id: 'resp_1', object: 'response', status: 'completed', model: 'm', output, usage };
    },
  ],
  [
    'chat',
    (prompt_tokens_details: object) => {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }];
      const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120, prompt_tokens_details };
      return { id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage };
    },
  ],
] as const) {
  test(`a messages client gets the tokens that a ${upstream} upstream wrote to a cache, by their lifetimes`, async () => {
    // Servers may report a total that is less than its parts.
    for (const cache_write_tokens of [50, 0]) {
      const by_lifetime = { cache_write_tokens_details: { ttl_12h_tokens: 40, ttl_30m_tokens: 10 } };
      const details = { cached_tokens: 5, cache_write_tokens, ...by_lifetime };
      const answer = await answered('messages', upstream, document(details));
      const { input_tokens, cache_creation_input_tokens, cache_creation } = answer.json().usage;
      assert.deepEqual([input_tokens, cache_creation_input_tokens], [45, 50]);
      assert.deepEqual(cache_creation, { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 40 });
      const row = await ledgerRow(gateway.database, idOf(answer));
      assert.deepEqual([row.input_tokens, row.cache_write_5m_tokens, row.cache_write_1h_tokens], [45, 10, 40]);
    }
  });
}
