/** What every client gets from every upstream, whatever protocol each of them speaks: words, errors, rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import type { Answer, ModelProvider } from '../../support/model-provider/model-provider.ts';
import { until } from '../../support/until.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { open, type Response, send } from '../support/client.ts';
import { askBody, COMBINATIONS, modelVia, nineConfig, post, sending, TRANSLATED, useNine } from '../support/nine.ts';
import { auditRecord, ledgerRow, nothingReserved } from '../support/state.ts';

let provider: ModelProvider;
let gateway: TestGateway;

useNine(
  (nine) => {
    ({ provider, gateway } = nine);
  },
  (url) => {
    // Answers that are read on for their bill are another story.
    const upstreams = nineConfig(url).upstreams as readonly object[];
    return { upstreams: upstreams.map((upstream) => ({ ...upstream, on_client_abort: 'cancel' })) };
  },
);

interface AuditRecord {
  readonly losses: readonly string[];
  readonly rewrites: readonly string[];
}

const requestId = (response: Response) => String(response.headers['x-gateway-request-id']);

const WORDS = 'Hello — Grüße, 世界 🙂.\n\ndata: [DONE]\n';
const ANSWER: Answer = { said: [{ kind: 'text', text: WORDS }], pings: true };

for (const [protocol, upstream] of COMBINATIONS) {
  const model = modelVia(upstream);
  const which = `a ${protocol} client at a ${upstream} upstream`;

  test(`${which} gets the model's words, in a document and in a stream`, async () => {
    provider.model = () => ANSWER;
    const whole = await post(gateway, protocol, askBody(protocol, model));
    assert.equal(whole.status, 200, whole.text);
    assert.match(String(whole.headers['content-type']), /^application\/json/);
    assert.equal(textIn(protocol, whole.json()), WORDS);
    const streamed = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream: true }));
    assert.match(String(streamed.headers['content-type']), /^text\/event-stream/);
    assert.equal(textIn(protocol, eventsIn(streamed.text)), WORDS);
    assert.deepEqual(provider.refused, []);
    assert.deepEqual(
      provider.asked.map(({ protocol, stream, body }) => [protocol, stream, body.model]),
      [
        [upstream, false, `upstream-${upstream}`],
        [upstream, true, `upstream-${upstream}`],
      ],
    );
  });

  test(`${which} may use an alias`, async () => {
    const answer = await post(gateway, protocol, askBody(protocol, `${upstream}-latest`));
    assert.equal(answer.status, 200, answer.text);
    assert.equal(provider.only().body.model, `upstream-${upstream}`);
    const row = await ledgerRow(gateway.database, requestId(answer));
    assert.deepEqual([row.model, row.upstream_model], [model, `upstream-${upstream}`]);
  });

  for (const stream of [false, true]) {
    const how = stream ? 'stream' : 'document';
    test(`${which} is charged by hand-computed prices for a ${how}`, async () => {
      const used = { input: 100, cache_read: 2000, cache_write: 0, output: 40, reasoning: 8 };
      provider.model = () => ({ ...ANSWER, used });
      const answer = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream }));
      const row = await ledgerRow(gateway.database, requestId(answer));
      const { protocol: by, status, aborted, input_tokens, output_tokens, cache_read_tokens, cost_nano_usd } = row;
      assert.deepEqual(
        { by, status, aborted, input_tokens, output_tokens, cache_read_tokens, cost_nano_usd },
        {
          by: protocol,
          status: 200,
          aborted: false,
          input_tokens: 100,
          output_tokens: 40,
          cache_read_tokens: 2000,
          // 100 x 3000 + 2000 x 300 + 40 x 15000
          cost_nano_usd: 1_500_000,
        },
      );
      assert.equal(row.provenance.cost, 'upstream');
      assert.equal(row.upstream, upstream);
    });
  }

  for (const status of [400, 403, 413, 429, 500, 529]) {
    test(`${which} gets the upstream's ${status} with its message, in the envelope of the client's protocol`, async () => {
      const message = `Extra inputs are not permitted: “ü” (${status})`;
      provider.model = () => ({ status, message, headers: { 'retry-after': '7' } });
      const answer = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream: true }));
      assert.equal(answer.status, status);
      assert.match(String(answer.headers['content-type']), /^application\/json/);
      assert.equal(answer.headers['retry-after'], '7');
      const body = answer.json();
      assert.equal(body.error.message, message);
      assert.equal(body.type, protocol === 'messages' ? 'error' : undefined);
      assert.equal(typeof body.error.type, 'string');
    });
  }

  test(`${which} is told that the prompt is too long so that it compacts the conversation`, async () => {
    const words = {
      messages: { message: 'prompt is too long: 210000 tokens > 200000 maximum' },
      chat: { message: "This model's maximum context length is 200000 tokens.", code: 'context_length_exceeded' },
      responses: { message: 'Your input exceeds the context window of this model.', code: 'context_length_exceeded' },
    };
    provider.model = () => ({ status: 400, ...words[upstream] });
    const { error } = (await post(gateway, protocol, askBody(protocol, model))).json();
    assert.ok(error.message.endsWith(words[upstream].message), error.message);
    if (protocol === 'messages')
      assert.match(error.message, upstream === 'messages' ? /^prompt is too long/ : /^prompt is too long: /);
    else if (protocol !== upstream) assert.equal(error.code, 'context_length_exceeded');
  });

  test(`${which} gets an error in the stream in its own words, and what was said before it`, async () => {
    provider.model = () => ({ ...ANSWER, fails: { after: 6, status: 529, message: 'Overloaded, sorry.' } });
    const answer = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream: true }));
    assert.equal(answer.status, 200);
    const events = eventsIn(answer.text);
    const error = events.find(({ data }) => data.error ?? data.type === 'error')!;
    assert.equal((error.data.error ?? error.data).message, 'Overloaded, sorry.');
    if (protocol === 'responses') {
      const failed = events.at(-1)!;
      assert.equal(failed.data.type, 'response.failed');
      assert.equal(failed.data.response.error.message, 'Overloaded, sorry.');
    }
    assert.ok(WORDS.startsWith(textIn(protocol, events)));
    await ledgerRow(gateway.database, requestId(answer));
  });

  test(`${which} that goes away in the middle cancels the upstream and is settled`, async () => {
    provider.model = () => ({ ...ANSWER, stalls_after: 7 });
    const asked = open(
      gateway.url,
      sending(protocol, gateway.token, JSON.stringify(askBody(protocol, model, 'x', { stream: true }))),
    );
    const head = await asked.head;
    await new Promise((resolve) => head.once('data', resolve));
    head.on('error', () => {});
    asked.abort();
    await until('the upstream request is cancelled', () => provider.upstream.only().cancelled);
    const row = await ledgerRow(gateway.database, String(head.headers['x-gateway-request-id']));
    assert.equal(row.aborted, true);
    assert.ok(row.cost_nano_usd > 0);
  });

  test(`${which} learns that the connection to the upstream broke, and the request is settled`, async () => {
    provider.model = () => ({ ...ANSWER, cut_after_bytes: 1500 });
    const answer = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream: true }));
    const error = eventsIn(answer.text).find(({ data }) => data.error ?? data.type === 'error')!;
    assert.ok(error !== undefined, answer.text);
    await ledgerRow(gateway.database, requestId(answer));
    await nothingReserved(gateway.database);
  });
}

/** Something that only this protocol can say, and the rule that drops it. */
const UNSAYABLE: Readonly<Record<Protocol, readonly [said: object, rule: string]>> = {
  messages: [{ top_k: 3 }, 'top_k'],
  chat: [{ logit_bias: { 1: 2 } }, 'logit_bias'],
  responses: [{ truncation: 'auto' }, 'truncation'],
};

for (const [protocol, upstream] of TRANSLATED) {
  test(`the audit record says that ${protocol} was translated to ${upstream}, and what was lost`, async () => {
    const [said, rule] = UNSAYABLE[protocol];
    const body = askBody(protocol, modelVia(upstream), 'Hi', { ...said, zz_unheard_of: 1, 'Not a name!': 2 });
    const answer = await post(gateway, protocol, body);
    assert.equal(answer.status, 200, answer.text);
    const { record } = (await auditRecord(gateway.database, requestId(answer))) as { record: AuditRecord };
    assert.deepEqual(record.losses.toSorted(), [rule, 'unknown_field', 'unknown_field:zz_unheard_of'].sort());
    assert.deepEqual(record.rewrites, ['*']);
  });
}

for (const protocol of PROTOCOLS) {
  test(`bytes of a ${protocol} client reach a ${protocol} upstream untouched but for the model's name`, async () => {
    const body = JSON.stringify(
      askBody(protocol, 'budget-1', 'Grüße', { zz_unheard_of: { b: 1, a: [1.0, null] } }),
      null,
      1,
    );
    const spaced = body.replace('budget-1', modelVia(protocol));
    const answer = await post(gateway, protocol, spaced);
    assert.ok(answer.status === 400, 'the strict provider refuses the unknown field');
    const sent = provider.upstream.only().body.toString();
    assert.equal(sent, spaced.replace(modelVia(protocol), `upstream-${protocol}`));
  });
}

test('tokens are counted by Messages upstreams only', async () => {
  const count = (upstream: Protocol) => {
    const body = JSON.stringify(askBody('messages', modelVia(upstream)));
    return send(gateway.url, { ...sending('messages', gateway.token, body), path: '/v1/messages/count_tokens' });
  };
  for (const upstream of ['chat', 'responses'] satisfies Protocol[]) {
    const answer = await count(upstream);
    assert.equal(answer.status, 501, answer.text);
    assert.equal(answer.json().type, 'error');
  }
  assert.deepEqual(provider.upstream.requests, []);
  await count('messages');
  assert.equal(provider.upstream.only().url, '/v1/messages/count_tokens');
});

const CACHED: readonly (readonly [protocol: Protocol, more: object, ttl: string, nano_usd: number])[] = [
  // 100 x 3000 + 30 x 3750 + 40 x 15000
  ['chat', { prompt_cache_key: 'k' }, '5m', 1_012_500],
  ['responses', { prompt_cache_key: 'k' }, '5m', 1_012_500],
];
for (const [protocol, more, ttl, nano_usd] of CACHED) {
  test(`a ${protocol} client that names a cache has its prompt cached for ${ttl} by a messages upstream, and pays for it`, async () => {
    provider.model = () => ({
      ...ANSWER,
      used: { input: 100, cache_read: 0, cache_write: 30, output: 40, reasoning: 0 },
    });
    const answer = await post(gateway, protocol, askBody(protocol, modelVia('messages'), 'Hi', more));
    assert.match(JSON.stringify(provider.only().body), /"cache_control":\{"type":"ephemeral"/);
    const row = await ledgerRow(gateway.database, requestId(answer));
    assert.deepEqual([row.input_tokens, row.cache_write_5m_tokens, row.cost_nano_usd], [100, 30, nano_usd]);
  });
}

for (const protocol of ['chat', 'responses'] satisfies Protocol[]) {
  test(`a ${protocol} client's effort becomes a budget where the model wants one`, async () => {
    const more = protocol === 'chat' ? { reasoning_effort: 'high' } : { reasoning: { effort: 'high' } };
    const answer = await post(gateway, protocol, askBody(protocol, 'budget-1', 'Hi', more));
    assert.equal(answer.status, 200, answer.text);
    const { thinking, max_tokens } = provider.only().body;
    assert.equal(thinking.type, 'enabled');
    assert.ok(thinking.budget_tokens >= 1024 && thinking.budget_tokens < max_tokens);
  });
}
