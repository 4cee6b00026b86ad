import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { StageError } from '../../engine/contract/errors.ts';
import { definitionOf } from '../../engine/protocols/definitions.ts';

const REQUEST = { request_id: '0b5c1f6e-5f0a-4c55-9a6d-2f4f0e6f1c11', model: 'coder-1', created_at: 1_800_000_000 };
const ERROR = new StageError('upstream_failed', 'The upstream "main" dropped\nthe connection.', {
  details: { upstream: 'main' },
});

const eventsOf = (text: string) =>
  text
    .split('\n\n')
    .slice(0, -1)
    .map((block) => {
      const [, name, data = ''] = /^(?:event: (\S+)\n)?data: (.*)$/.exec(block) ?? [];
      return { name, data: JSON.parse(data) };
    });

/** An SDK's settings for a server that streams this text. */
const answering = (text: string) => ({
  apiKey: 'key',
  maxRetries: 0,
  fetch: async () => new Response(text, { headers: { 'content-type': 'text/event-stream' } }),
});

async function collect(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const events: unknown[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

const refused = { name: /Error/, message: /dropped\nthe connection/ };

describe('the end of a broken stream', () => {
  for (const protocol of ['messages', 'chat', 'responses', 'none']) {
    test(`at protocol ${protocol} is whole events, each with a single line of JSON`, () => {
      const text = definitionOf(protocol).errors.breakOff(ERROR, REQUEST);
      assert.ok(text.endsWith('\n\n'));
      for (const { name, data } of eventsOf(text)) {
        assert.equal(name, protocol === 'chat' ? undefined : data.type);
        assert.match(JSON.stringify(data), /dropped/);
      }
    });
  }

  test('is an error that the Messages SDK throws', async () => {
    const text = definitionOf('messages').errors.breakOff(ERROR, REQUEST);
    const client = new Anthropic(answering(`event: ping\ndata: {"type":"ping"}\n\n${text}`));
    const ask = { model: 'm', max_tokens: 1, messages: [{ role: 'user' as const, content: 'x' }] };
    await assert.rejects(client.messages.create({ ...ask, stream: true }).then(collect), /dropped/);
  });

  test('is an error that the chat completions SDK throws', async () => {
    const text = definitionOf('chat').errors.breakOff(ERROR, REQUEST);
    const client = new OpenAI(answering(text));
    const asked = client.chat.completions.create({ model: 'm', messages: [], stream: true });
    await assert.rejects(asked.then(collect), refused);
  });

  test('is an error that the Responses SDK throws', async () => {
    const text = definitionOf('responses').errors.breakOff(ERROR, REQUEST);
    const client = new OpenAI(answering(text));
    await assert.rejects(client.responses.create({ model: 'm', input: 'x', stream: true }).then(collect), refused);
  });

  test('for Responses tells clients that skip errors that the response has failed', () => {
    const at = { ...REQUEST, sequence_number: 41 };
    const [error, failed] = eventsOf(definitionOf('responses').errors.breakOff(ERROR, at));
    const { code, message, param, sequence_number } = error!.data;
    assert.deepEqual([code, message, param, sequence_number], ['server_error', ERROR.message, null, 41]);
    assert.equal(failed!.name, 'response.failed');
    assert.equal(failed!.data.sequence_number, 42);
    const { id, status, model, created_at, error: reason } = failed!.data.response;
    assert.equal(id, 'resp_0b5c1f6e5f0a4c559a6d2f4f0e6f1c11');
    assert.deepEqual([model, created_at], ['coder-1', 1_800_000_000]);
    assert.deepEqual([status, reason], ['failed', { code: 'server_error', message: ERROR.message }]);
  });
});
