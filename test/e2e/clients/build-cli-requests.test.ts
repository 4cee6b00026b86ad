/** What the build CLI 1.0.41 was seen to send, beside its turns, at a provider of each protocol. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROTOCOLS } from '../../../engine/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import type { ModelProvider } from '../../support/model-provider/model-provider.ts';
import { modelVia, post, useNine } from '../support/nine.ts';

let provider: ModelProvider;
let gateway: TestGateway;

useNine((nine) => {
  ({ provider, gateway } = nine);
});

/** It wants the title of a session as the arguments of a tool that it forces. */
const title = (model: string) => ({
  model,
  messages: [
    { role: 'system', content: 'You are tasked with generating the session title.' },
    { role: 'user', content: '<user_query>\nSay hello\n</user_query>' },
  ],
  temperature: 1,
  max_tokens: 100,
  tools: [
    {
      type: 'function',
      function: {
        name: 'session_title',
        description: 'Generate the session_title which we use for the user_message',
        parameters: {
          type: 'object',
          required: ['session_title'],
          properties: { session_title: { type: 'string', description: 'Final session title.' } },
          additionalProperties: false,
        },
      },
    },
  ],
  tool_choice: { type: 'function', function: { name: 'session_title' } },
  stream: true,
  stream_options: { include_usage: true },
});

for (const protocol of PROTOCOLS) {
  test(`the title of a session comes from a ${protocol} upstream`, async () => {
    const said = { kind: 'call', name: 'session_title', arguments: '{"session_title":"Greetings"}' } as const;
    provider.model = () => ({ said: [said] });
    const { status, text } = await post(gateway, 'chat', title(modelVia(protocol)));
    assert.equal(status, 200, text);
    assert.deepEqual(provider.refused, []);
    assert.deepEqual(provider.only().seen.tools, ['session_title']);
    const pieces = [...text.matchAll(/"arguments":"((?:[^"\\]|\\.)*)"/g)].map(([, piece]) => JSON.parse(`"${piece}"`));
    assert.equal(pieces.join(''), said.arguments);
    assert.match(text, /"usage":\{/);
    assert.match(text, /data: \[DONE\]\n\n$/);
  });
}
