/** Translation is measured by the scripted model provider, so it must reject what the real APIs reject. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkRequest } from './model-provider.ts';

const user = { role: 'user', content: 'Go.' };
const ask = { model: 'm', max_tokens: 2000, messages: [user] };
const call = { type: 'tool_use', id: 'toolu_1', name: 'read', input: {} };
const chat_call = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{}' } };
const image_result = {
  role: 'tool',
  tool_call_id: 'call_1',
  content: [{ type: 'image_url', image_url: { url: 'x' } }],
};
const REFUSED: readonly (readonly [
  what: string,
  protocol: 'messages' | 'chat' | 'responses',
  body: object,
  why: RegExp,
])[] = [
  ['an unknown field', 'messages', { ...ask, frequency_penalty: 1 }, /frequency_penalty: Extra inputs are not/],
  ['an unknown role', 'messages', { ...ask, messages: [{ role: 'tool', content: 'x' }] }, /messages\.0/],
  [
    'a call without its result',
    'messages',
    { ...ask, messages: [user, { role: 'assistant', content: [call] }, user] },
    /tool_result/,
  ],
  ['a budget that is too small', 'messages', { ...ask, thinking: { type: 'enabled', budget_tokens: 2000 } }, /greater/],
  ['an unknown field', 'chat', { model: 'm', messages: [user], top_k: 1 }, /top_k/],
  [
    'a call without an answer',
    'chat',
    { model: 'm', messages: [user, { role: 'assistant', tool_calls: [chat_call] }, user] },
    /responding to each/,
  ],
  [
    'an image in a result',
    'chat',
    { model: 'm', messages: [user, { role: 'assistant', tool_calls: [chat_call] }, image_result] },
    /messages\.2\.content/,
  ],
  ['an unknown field', 'responses', { model: 'm', input: 'x', stop: ['a'] }, /stop/],
  [
    'a call without its output',
    'responses',
    { model: 'm', input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }] },
    /No tool output found/,
  ],
  [
    'a thought it did not have',
    'responses',
    { model: 'm', input: [{ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' }] },
    /could not be verified/,
  ],
];
for (const [what, protocol, body, why] of REFUSED) {
  test(`${protocol} rejects ${what}`, () => {
    assert.throws(() => checkRequest(protocol, body), why);
  });
}
