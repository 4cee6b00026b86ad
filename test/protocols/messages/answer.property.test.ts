import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { messagesProtocol } from '../../../engine/protocols/messages/index.ts';
import type { ReasoningProof } from '../../../engine/protocols/translation/conversation.ts';
import type { ModelEvent } from '../../../engine/protocols/translation/events.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { proofToText } from '../../../engine/protocols/translation/proof.ts';
import { eventsIn } from '../../e2e/streams/streams.ts';
import { times } from '../../support/times.ts';
import { answers, saidBy } from '../translation/answer-arbitraries.ts';
import { ANSWER, clientOf, readStream, streamOf } from './scene.ts';

/** What a Messages upstream says that says these events: a refusal is text, every proof a mark of where it comes from. */
const asMessages = (events: readonly ModelEvent[]) =>
  saidBy(events).map(({ proof, ...part }) => ({
    ...part,
    ...(part.kind === 'refusal' && { kind: 'text' }),
    ...(part.kind === 'reasoning' && { proof: ownProof(proof) }),
  }));

const ownProof = (proof: ReasoningProof | undefined): ReasoningProof => ({
  protocol: 'messages',
  kind: 'signature',
  value: proofToText(proof, ANSWER.made_by),
});

const endOf = (events: readonly ModelEvent[]) => events.find((event) => event.type === 'end');

/** Blocks of a message as the official client has them. */
function saidIn(content: readonly unknown[]): unknown[] {
  return content.map((block) => {
    const { type, text, thinking, signature, data, id, name, input } = block as Record<string, string>;
    if (type === 'text') return { kind: 'text', text };
    if (type === 'tool_use') return { kind: 'tool_call', name, id, input };
    if (type === 'redacted_thinking') return { kind: 'reasoning', text: '', proof: data };
    return { kind: 'reasoning', text: thinking, proof: signature };
  });
}

/** Parts in the shape of `saidIn`. */
function expectedOf(events: readonly ModelEvent[]): unknown[] {
  return asMessages(events).map(({ kind, text, name, id, proof }) => {
    if (kind === 'text') return { kind, text };
    if (kind === 'tool_call') return { kind, name, id, input: JSON.parse(text) };
    return { kind, text, proof: proof?.value ?? '' };
  });
}

test('the official client reads every answer: the same texts, thoughts and calls, in order', async () => {
  await fc.assert(
    fc.asyncProperty(answers(), async (events) => {
      const stream = clientOf(streamOf(events)).messages.stream({ model: 'm', max_tokens: 9, messages: [] });
      const message = await stream.finalMessage();
      assert.deepEqual(saidIn(message.content), expectedOf(events));
      const { usage } = endOf(events)!;
      assert.equal(message.usage.input_tokens, usage?.input);
      assert.equal(message.usage.output_tokens, usage?.output);
      const unknown = usage?.cache_read === undefined && usage?.cache_write === undefined ? undefined : 0;
      assert.equal(message.usage.cache_read_input_tokens, usage?.cache_read ?? unknown);
      assert.equal(message.usage.cache_creation_input_tokens, usage?.cache_write ?? unknown);
    }),
    { numRuns: times(30) },
  );
});

test('blocks of a stream are numbered from 0 and never overlap, whatever the upstream did', () => {
  fc.assert(
    fc.property(answers(), (events) => {
      const data = eventsIn(streamOf(events)).filter(({ name }) => name !== 'ping');
      assert.ok(data.every(({ name, data: { type } }) => name === type));
      const names = data.map(({ name }) => name);
      assert.equal(names[0], 'message_start');
      assert.deepEqual(names.slice(-2), ['message_delta', 'message_stop']);
      let [open, next] = [-1, 0];
      for (const { name, data: event } of data.slice(1, -2)) {
        if (name === 'content_block_start') {
          assert.equal(open, -1);
          assert.equal(event.index, next);
          open = next++;
        } else assert.equal(event.index, open);
        if (name === 'content_block_stop') open = -1;
      }
      assert.equal(open, -1);
    }),
  );
});

test('an answer that was written as a stream is read back the same, foreign proofs too', () => {
  fc.assert(
    fc.property(answers(), (events) => {
      const back = readStream(eventsIn(streamOf(events)).map(({ data }) => data));
      assert.deepEqual(saidBy(back), asMessages(events));
      assert.deepEqual(endOf(back)?.reason, endOf(events)?.reason);
      const { input, output, reasoning } = endOf(events)!.usage!;
      assert.deepEqual(
        { ...endOf(back)!.usage, cache_read: 0, cache_write: 0 },
        { input, output, cache_read: 0, cache_write: 0, ...(reasoning !== undefined && { reasoning }) },
      );
    }),
  );
});

test('a whole answer says what the stream of the same answer says', () => {
  fc.assert(
    fc.property(answers({ pings: false }), (events) => {
      const document = JSON.parse(JSON.stringify(messagesProtocol.adapter.writeDocument(events, ANSWER, new Notes())));
      assert.deepEqual(saidIn(document.content), expectedOf(events));
      const back = messagesProtocol.adapter.readDocument(document, new Notes());
      assert.deepEqual(saidBy(back), asMessages(events));
      assert.deepEqual(endOf(back)?.reason, endOf(events)?.reason);
    }),
  );
});

test('what the writer can say of an event it says at once: only parts behind an open one wait', () => {
  fc.assert(
    fc.property(answers({ overlapping: false }), (events) => {
      const writer = messagesProtocol.adapter.createWriter(ANSWER, new Notes());
      for (const event of events) {
        const written = writer.write(event);
        if (event.type === 'part_delta') assert.ok(written.includes(JSON.stringify(event.text)));
      }
    }),
  );
});
