import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChatBound } from '../../../engine/contract/config.ts';
import { spellBound } from '../../../engine/protocols/body/output-bound.ts';
import { HeldBody } from '../../../engine/run/body.ts';

function spelt(text: string, field: ChatBound): { readonly text: string; readonly rewrites: readonly string[] } {
  const rewrites: string[] = [];
  const body = new HeldBody(Buffer.from(text), (key) => rewrites.push(key));
  spellBound(body, field);
  return { text: body.bytes.toString(), rewrites };
}

describe('the bound of a chat completions request', () => {
  test('gets the name that the upstream takes, and nothing else changes', () => {
    const asked = '{ "model":"m",\n "max_completion_tokens" : 5.0e1 , "messages":[{"max_completion_tokens":1}] }';
    assert.deepEqual(spelt(asked, 'max_tokens'), {
      text: asked.replace('"max_completion_tokens" :', '"max_tokens" :'),
      rewrites: ['max_completion_tokens'],
    });
    assert.equal(spelt('{"max_tokens":1}', 'max_completion_tokens').text, '{"max_completion_tokens":1}');
    assert.equal(spelt('{"max_\\u0074okens":1}', 'max_completion_tokens').text, '{"max_completion_tokens":1}');
  });

  test('stands where there was nothing but null', () => {
    const { text, rewrites } = spelt('{"max_tokens":null,"max_completion_tokens":9}', 'max_tokens');
    assert.deepEqual([text, rewrites], ['{"max_tokens":9,"max_completion_tokens":9}', ['max_tokens']]);
  });

  for (const asked of [
    '{"max_tokens":1}',
    '{"max_tokens":1,"max_completion_tokens":2}',
    '{"max_completion_tokens":null}',
    '{"messages":[]}',
  ]) {
    test(`stays as it is in ${asked}`, () => {
      assert.deepEqual(spelt(asked, 'max_tokens'), { text: asked, rewrites: [] });
    });
  }
});
