/** The memory of tool calls: for how long, how much, and which. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallMemory } from '../../../engine/domain/protocols/chat/call-memory.ts';

const HOUR_MS = 3_600_000;
const ASKER = { caller: 'ana', state_boundary: 'https://a.test KEY', session: 's' };
const call = (id: string, text = '{}') => ({ id, name: 'weather', arguments: text });

const SIGNED = { extra_content: { google: { thought_signature: 's' } } };

function answer(memory: CallMemory, id: string, more: object = SIGNED): void {
  const watch = memory.watch(ASKER);
  const tool_calls = [{ index: 0, id, type: 'function', function: { name: 'weather', arguments: '{}' }, ...more }];
  watch.read({ name: 'message', data: JSON.stringify({ choices: [{ index: 0, delta: { tool_calls } }] }) });
  watch.read({ name: 'message', data: '[DONE]' });
}

test('a call is forgotten a day after its last use', () => {
  let now = 1;
  const memory = new CallMemory({ now: () => now });
  answer(memory, 'call_4fGh7kLm9');
  assert.deepEqual(memory.recalling(ASKER)?.(call('call_4fGh7kLm9'))?.call, SIGNED);
  now += 20 * HOUR_MS;
  assert.ok(memory.recalling(ASKER)?.(call('call_4fGh7kLm9')));
  now += 20 * HOUR_MS;
  assert.ok(memory.recalling(ASKER)?.(call('call_4fGh7kLm9')));
  now += 25 * HOUR_MS;
  assert.equal(memory.recalling(ASKER), undefined);
});

test('new calls evict the oldest', () => {
  const memory = new CallMemory();
  const large = { extra_content: 'x'.repeat(900_000) };
  for (let n = 0; n < 60; n++) answer(memory, `call_4fGh7kLm${n}x`, large);
  const recall = memory.recalling(ASKER)!;
  assert.equal(recall(call('call_4fGh7kLm0x')), undefined);
  assert.equal(recall(call('call_4fGh7kLm59x'))?.call?.extra_content, large.extra_content);
});

test('nothing is stored for responses without state', () => {
  const memory = new CallMemory();
  answer(memory, 'call_4fGh7kLm9', {});
  answer(memory, 'call_4fGh7kLm9', { extra_content: null });
  assert.equal(memory.recalling(ASKER), undefined);
});

for (const id of [
  'chatcmpl-tool-0123456789abcdef0123456789abcdef',
  'toolu_01A09q90qw90lq917835lq9',
  'function-call-5498324432190712346',
]) {
  test(`a call is identified by ${id}`, () => {
    const memory = new CallMemory();
    answer(memory, id);
    assert.ok(memory.recalling({ ...ASKER, session: 'another' })?.(call(id, '{"city":"Rome"}')));
  });
}

for (const id of ['0', 'call_1', 'call_00000001', 'weather:0', 'functions.weather:12', 'call_1764300000']) {
  test(`a call with ${id} shared by other responses is identified by its session and arguments, too`, () => {
    const memory = new CallMemory();
    const watch = memory.watch(ASKER);
    const read = (delta: object) => watch.read({ name: 'message', data: JSON.stringify({ choices: [{ delta }] }) });
    const piece = (fields: object) => read({ tool_calls: [{ index: 0, ...fields }] });
    piece({ id, type: 'function', function: { name: 'weather', arguments: '' } });
    for (const text of ['{"b": [{"d": 1,', ' "c": 2}], "a', '": "é"}']) piece({ function: { arguments: text } });
    read({ reasoning_content: 'I look.' });
    watch.end();
    const recall = memory.recalling(ASKER)!;
    assert.ok(recall(call(id, '{"a":"\\u00e9","b":[{"c":2,"d":1}]}')));
    assert.equal(recall(call(id, '{"a":"e","b":[{"c":2,"d":1}]}')), undefined);
    const elsewhere = memory.recalling({ ...ASKER, session: 'another' })!;
    assert.equal(elsewhere(call(id, '{"a":"é","b":[{"c":2,"d":1}]}')), undefined);
  });
}

test('an endless response, or one of nothing but names of calls, is dropped', () => {
  const memory = new CallMemory();
  const endless = JSON.stringify({ choices: [{ delta: { reasoning: 'x'.repeat(1_000_000) } }] });
  const names = `{"choices":[{"delta":{${'"tool_calls":["name":"",'.repeat(200_000)}`;
  const watch = memory.watch(ASKER);
  watch.read({ name: 'message', data: names });
  for (let n = 0; n < 20; n++) watch.read({ name: 'message', data: endless });
  answer(memory, 'call_4fGh7kLm9', {});
  watch.end();
  assert.equal(memory.recalling(ASKER), undefined);
});

test('skips unreadable entries', () => {
  const memory = new CallMemory();
  const cut = '{"choices":[{"delta":{"reasoning":"a","tool_calls":[{"name":"x"';
  for (const data of [cut, '[]', 'null', '{"error":{"message":"x"},"reasoning":"a"}']) {
    const watch = memory.watch(ASKER);
    for (const name of ['message', undefined]) watch.read({ name, data });
    watch.end();
  }
  assert.equal(memory.recalling(ASKER), undefined);
});
