/** A message without text is a message all the same: an upstream of another protocol gets one that it takes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Protocol } from '../../../engine/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import type { ModelProvider } from '../../support/model-provider/model-provider.ts';
import { modelVia, post, TRANSLATED, useNine } from '../support/nine.ts';

let provider: ModelProvider;
let gateway: TestGateway;

useNine((nine) => {
  ({ provider, gateway } = nine);
});

const HISTORY = [
  { role: 'user', content: 'Hi' },
  { role: 'assistant', content: 'Hello.' },
];

function bodyOf(spoken: Protocol, model: string, messages: readonly object[]): object {
  if (spoken === 'responses') return { model, input: messages };
  return { model, messages, ...(spoken === 'messages' && { max_tokens: 100 }) };
}

for (const [spoken, upstream] of TRANSLATED) {
  describe(`from a ${spoken} client to a ${upstream} upstream`, () => {
    const contents = spoken === 'messages' ? ['', []] : ['', ' ', []];
    for (const content of contents) {
      it(`a conversation that is ${JSON.stringify(content)} alone, or ends with it, is answered`, async () => {
        for (const before of [[], HISTORY]) {
          const body = bodyOf(spoken, modelVia(upstream), [...before, { role: 'user', content }]);
          const { status, text } = await post(gateway, spoken, body);
          assert.deepEqual(provider.refused, []);
          assert.equal(status, 200, text);
          const said = provider.asked.at(-1)!.seen.texts;
          assert.equal(said.length, before.length + 1);
          assert.equal(said.at(-1)![0], 'user');
        }
      });
    }
  });
}
