/** What every client gets from every upstream, in any combination of protocols: text, errors, rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import type { Answer, ModelProvider } from '../../support/model-provider/model-provider.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import type { Response } from '../support/client.ts';
import { askBody, COMBINATIONS, modelVia, post, TRANSLATED, useNine } from '../support/nine.ts';
import { auditRecord, ledgerRow } from '../support/state.ts';

let provider: ModelProvider;
let gateway: TestGateway;

useNine((nine) => {
  ({ provider, gateway } = nine);
});

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

  test(`${which} gets the model's text, in a document and in a stream`, async () => {
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

  for (const stream of [false, true]) {
    const how = stream ? 'stream' : 'document';
    test(`${which} is charged by hand-computed prices for a ${how}`, async () => {
      const used = { input: 100, cache_read: 2000, cache_write: 0, output: 40, reasoning: 8 };
      provider.model = () => ({ ...ANSWER, used });
      const response = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream }));
      const row = await ledgerRow(gateway.database, requestId(response));
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

  test(`${which} gets an error in the stream in its own format, and the text before it`, async () => {
    provider.model = () => ({ ...ANSWER, fails: { after: 6, status: 529, message: 'Overloaded, sorry.' } });
    const response = await post(gateway, protocol, askBody(protocol, model, 'Say hello.', { stream: true }));
    assert.equal(response.status, 200);
    const events = eventsIn(response.text);
    const error = events.find(({ data }) => data.error ?? data.type === 'error')!;
    assert.equal((error.data.error ?? error.data).message, 'Overloaded, sorry.');
    if (protocol === 'responses') {
      const failed = events.at(-1)!;
      assert.equal(failed.data.type, 'response.failed');
      assert.equal(failed.data.response.error.message, 'Overloaded, sorry.');
    }
    assert.ok(WORDS.startsWith(textIn(protocol, events)));
    await ledgerRow(gateway.database, requestId(response));
  });
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
    const { record } = (await auditRecord(gateway.database, requestId(response))) as { record: AuditRecord };
    assert.deepEqual(record.losses.toSorted(), [rule, 'unknown_field', 'unknown_field:zz_unheard_of'].sort());
    assert.deepEqual(record.rewrites, ['*']);
  });
}
