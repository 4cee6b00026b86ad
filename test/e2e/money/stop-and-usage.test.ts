/** The error for a response that its upstream could not be asked for, or did not count. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { eventsOf, type ModelProvider } from '../../support/model-provider/model-provider.ts';
import { answerChunks, answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { askBody, modelVia, post, useNine } from '../support/nine.ts';

let provider: ModelProvider;
let gateway: TestGateway;

useNine((nine) => {
  ({ provider, gateway } = nine);
});

describe('a stop sequence at an upstream without support', () => {
  for (const [spoken, key] of [
    ['messages', 'stop_sequences'],
    ['chat', 'stop'],
  ] as const) {
    for (const stream of [true, false]) {
      it(`cuts the ${stream ? 'stream' : 'document'} of a ${spoken} client there, and reports it`, async () => {
        // It may span the texts of a response.
        const said = ['One. Two. S', 'TO', 'P Three.'].map((text) => ({ kind: 'text' as const, text }));
        provider.model = () => ({ said, used: { output: 77 } });
        const body = askBody(spoken, modelVia('responses'), 'Count.', { [key]: ['STOP', 'x'], stream });
        const { status, text } = await post(gateway, spoken, body);
        assert.equal(status, 200, text);
        assert.deepEqual(provider.refused, []);
        const events = stream ? eventsIn(text) : [];
        assert.equal(textIn(spoken, stream ? events : JSON.parse(text)), 'One. Two. ');
        if (spoken === 'messages') {
          const { delta, usage } = events.find(({ name }) => name === 'message_delta')?.data ?? {};
          const { stop_reason, stop_sequence } = delta ?? JSON.parse(text);
          assert.deepEqual([stop_reason, stop_sequence], ['stop_sequence', 'STOP']);
          assert.equal((usage ?? JSON.parse(text).usage).output_tokens, 77);
        } else {
          const reasons = stream ? events.map(({ data }) => data.choices?.[0]?.finish_reason) : [];
          assert.ok((stream ? reasons : [JSON.parse(text).choices[0].finish_reason]).includes('stop'));
        }
      });
    }
  }

  it('that was found ends the response well, also where the upstream breaks off after it', async () => {
    const events = eventsOf('responses', { said: [{ kind: 'text', text: 'One. STOP Two.' }], piece: 100 });
    const said = events.findIndex((event) => event.includes('output_text.delta'));
    provider.upstream.script = answerChunks(events.slice(0, said + 1));
    const body = askBody('messages', modelVia('responses'), 'Go.', { stop_sequences: ['STOP'], stream: true });
    const { text } = await post(gateway, 'messages', body);
    const names = eventsIn(text).map(({ name }) => name);
    assert.deepEqual([names.at(-1), names.includes('error')], ['message_stop', false], text);
  });
});

describe('a response without usage', () => {
  const said = 'Hello there, this is an answer of some length.';
  const message = { role: 'assistant', content: said };
  const head = { id: 'c', object: 'chat.completion', created: 1, model: 'm' };
  const item = { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: said }] };
  const ANSWERS: Readonly<Record<Exclude<Protocol, 'messages'>, object>> = {
    chat: { ...head, choices: [{ index: 0, message, finish_reason: 'stop' }] },
    responses: { id: 'resp_1', object: 'response', status: 'completed', model: 'm', output: [item] },
  };
  const CHUNKS = [
    { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta: message, finish_reason: null }] },
    { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  ];

  for (const upstream of ['chat', 'responses'] as const) {
    it(`at a ${upstream} upstream is estimated for a Messages client, and cached tokens are unknown`, async () => {
      provider.upstream.script = answerJson(ANSWERS[upstream]);
      const body = askBody('messages', modelVia(upstream), 'x'.repeat(4000));
      const { usage } = (await post(gateway, 'messages', body)).json();
      assert.equal(usage.input_tokens, Math.ceil(JSON.stringify(body).length / 4));
      assert.equal(usage.output_tokens, Math.ceil(said.length / 4));
      // Omitted, and not null: a client that reads them as numbers would find the whole response unreadable.
      assert.deepEqual(Object.keys(usage).sort(), ['input_tokens', 'output_tokens']);
    });
  }

  it('is estimated in a stream, at its beginning and at its end', async () => {
    provider.upstream.script = answerChunks(CHUNKS.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`));
    const { text } = await post(
      gateway,
      'messages',
      askBody('messages', modelVia('chat'), 'x'.repeat(4000), { stream: true }),
    );
    const events = eventsIn(text).map(({ data }) => data);
    const [first] = events;
    assert.ok(first.message.usage.input_tokens > 1000);
    for (const { usage, message } of events) {
      const counts: unknown[] = Object.values(usage ?? message?.usage ?? {});
      assert.ok(counts.every(Number.isInteger), JSON.stringify(counts));
    }
    const { usage } = events.find(({ type }) => type === 'message_delta');
    assert.deepEqual([usage.input_tokens > 1000, usage.output_tokens], [true, Math.ceil(said.length / 4)]);
  });

  it("is unknown if the client's protocol can express it, also if only a part was reported", async () => {
    provider.upstream.script = answerJson({ ...ANSWERS.chat, usage: { completion_tokens: 5 } });
    const { usage } = (await post(gateway, 'responses', askBody('responses', modelVia('chat')))).json();
    assert.equal(usage, null);
    provider.upstream.script = answerJson({ ...ANSWERS.responses, usage: { output_tokens: 5 } });
    const chat = (await post(gateway, 'chat', askBody('chat', modelVia('responses')))).json();
    assert.equal('usage' in chat, false);
  });
});
