/** Requests of very many small pieces: all of them are translated, or too many refused, so that one cannot stop the gateway. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StageError } from '../../../engine/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import { MANY, PAIRS, translate } from './translating.ts';

for (const from of PROTOCOLS) {
  for (const [what, request] of Object.entries(MANY[from])) {
    it(`a ${from} request of many ${what} is translated as a whole`, () => {
      for (const { to } of PAIRS.filter((pair) => pair.from === from)) {
        const pieces = translate(from, to, true, request(200)).json.match(/"(?:a|done)"/g);
        assert.equal(pieces?.length, 200, `all of it goes to ${to}`);
      }
    });
  }
}

describe('a request of more pieces than can be translated in a moment', () => {
  const text = (type: string) => Array.from({ length: 100_001 }, () => ({ type, text: 'a' }));
  const tools = Array.from({ length: 100_001 }, () => ({}));
  const user = (content: unknown) => [{ role: 'user', content }];
  const result = { type: 'tool_result', tool_use_id: 'c', content: text('text') };
  const BODIES: Readonly<Record<Protocol, readonly object[]>> = {
    messages: [{ messages: user(text('text')) }, { system: text('text') }, { messages: user([result]) }, { tools }],
    chat: [{ messages: user(text('text')) }, { messages: tools }, { tools }],
    responses: [{ input: user(text('input_text')) }, { tools: [{ type: 'namespace', name: 'n', tools }] }],
  };
  for (const { from, to } of PAIRS) {
    it(`is refused from ${from} to ${to}, and where it has them is told`, () => {
      for (const body of BODIES[from]) {
        assert.throws(
          () => translate(from, to, true, body),
          (error: StageError) =>
            error.code === 'not_translatable' && error.message.startsWith(`${Object.keys(body)[0]}: `),
        );
      }
    });
  }

  it('may have as large schemas and arguments as it likes', () => {
    const properties = Object.fromEntries(Array.from({ length: 100_001 }, (_, i) => [`p${i}`, {}]));
    const schema = { type: 'object', properties, required: Object.keys(properties).slice(0, 9), enum: text('x') };
    const call = { type: 'tool_use', id: 'c', name: 't', input: { list: text('x') } };
    const messages = [
      { role: 'user', content: 'Go' },
      { role: 'assistant', content: [call] },
    ];
    translate('messages', 'chat', true, { messages, tools: [{ name: 't', input_schema: schema }] });
  });
});
