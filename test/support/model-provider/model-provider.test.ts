/** Translation is measured by the scripted model provider, so it must reject what the real APIs reject. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { checkRequest } from './model-provider.ts';

const user = { role: 'user', content: 'Go.' };
const call = { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'read', input: {} }] };
const chat_call = {
  role: 'assistant',
  tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'read', arguments: '{}' } }],
};
const image = { type: 'image_url', image_url: { url: 'x' } };

/** Fields of a request beside the model, and why it is rejected. */
const REFUSED: Readonly<Record<Protocol, readonly (readonly [fields: object, why: RegExp])[]>> = {
  messages: [
    [{ frequency_penalty: 1 }, /frequency_penalty: Extra inputs are not/],
    [{ messages: [{ role: 'tool', content: 'x' }] }, /messages\.0/],
    [{ messages: [user, call, user] }, /tool_result/],
    [{ thinking: { type: 'enabled', budget_tokens: 2000 } }, /greater/],
  ],
  chat: [
    [{ top_k: 1 }, /top_k/],
    [{ messages: [user, chat_call, user] }, /responding to each/],
    [
      { messages: [user, chat_call, { role: 'tool', tool_call_id: 'call_1', content: [image] }] },
      /messages\.2\.content/,
    ],
  ],
  responses: [
    [{ stop: ['a'] }, /stop/],
    [{ input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }] }, /No tool output found/],
    [{ input: [{ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' }] }, /could not be verified/],
  ],
};
const BODIES = {
  messages: { max_tokens: 2000, messages: [user] },
  chat: { messages: [user] },
  responses: { input: 'x' },
};

for (const protocol of PROTOCOLS) {
  for (const [fields, why] of REFUSED[protocol]) {
    test(`${protocol} rejects ${JSON.stringify(fields).slice(0, 80)}`, () => {
      assert.throws(() => checkRequest(protocol, { model: 'm', ...BODIES[protocol], ...fields }), why);
    });
  }
}
