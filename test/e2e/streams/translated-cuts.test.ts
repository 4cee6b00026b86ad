/** Streams that break anywhere, on every combination of protocols: the client can read what it got, and the request is settled. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { type Answer, eventsOf, type ModelProvider } from '../../support/model-provider/model-provider.ts';
import { askBody, COMBINATIONS, modelVia, post, useNine } from '../support/nine.ts';
import { ledgerRow, nothingReserved } from '../support/state.ts';
import { type ClientEvent, eventsIn, textIn } from './streams.ts';

let provider: ModelProvider;
let gateway: TestGateway;

useNine((nine) => {
  ({ provider, gateway } = nine);
});

const TEXT = 'Grüße, 世界 🙂 — "done".';
const ANSWER: Answer = {
  said: [
    { kind: 'thought', text: 'Hm.' },
    { kind: 'text', text: TEXT },
    { kind: 'call', name: 'read', arguments: '{"path":"/ü","lines":[1,2]}' },
    { kind: 'call', name: 'read', arguments: '{"path":"/b"}' },
  ],
  mixed: true,
  pings: true,
};

const isError = ({ data }: ClientEvent) =>
  data.type === 'error' || data.type === 'response.failed' || data.error !== undefined;

/** Whether the stream says that the answer is whole. */
const ENDS: Readonly<Record<Protocol, (event: ClientEvent) => boolean>> = {
  messages: ({ data }) => data.type === 'message_stop' || typeof data.delta?.stop_reason === 'string',
  chat: ({ data }) => typeof data.choices?.[0]?.finish_reason === 'string',
  responses: ({ data }) => data.type === 'response.completed',
};

for (const [spoken, upstream] of COMBINATIONS) {
  test(`a ${spoken} client at a ${upstream} upstream that breaks off anywhere gets whole events and one error`, async () => {
    // The question says where.
    provider.model = ({ seen }) => ({ ...ANSWER, cut_after_bytes: Number(seen.texts.at(-1)![1]) });
    const bytes = Buffer.byteLength(eventsOf(upstream, ANSWER).join(''));
    const places = fc.sample(fc.integer({ min: 1, max: bytes - 1 }), 12);
    const ids = await Promise.all(
      places.map(async (cut_after_bytes) => {
        const body = askBody(spoken, modelVia(upstream), String(cut_after_bytes), {
          stream: true,
          ...(spoken === 'chat' && { stream_options: { include_usage: true } }),
        });
        const got = await post(gateway, spoken, body);
        // Nothing of a stream is passed on before its first event is whole.
        if (got.status === 502) {
          assert.equal(JSON.parse(got.text).error.upstream, upstream);
          return String(got.headers['x-gateway-request-id']);
        }
        const events = eventsIn(got.text);
        const errors = events.filter(isError);
        const why = `cut after ${cut_after_bytes} bytes: ${got.text}`;
        assert.ok(
          TEXT.startsWith(
            textIn(
              spoken,
              events.filter((event) => !isError(event)),
            ),
          ),
          why,
        );
        const ended = events.some(ENDS[spoken]);
        // Whoever was told the end is owed no more, though bytes were still to come.
        if (!ended)
          assert.deepEqual(
            errors.map(({ data }) => data.type === 'response.failed'),
            spoken === 'responses' ? [false, true] : [false],
            why,
          );
        assert.ok(ended || isError(events.at(-1)!), why);
        return String(got.headers['x-gateway-request-id']);
      }),
    );
    for (const id of ids) assert.equal((await ledgerRow(gateway.database, id)).protocol, spoken);
    await nothingReserved(gateway.database);
  });
}
