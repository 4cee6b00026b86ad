/** An answer of Responses repeats the settings, tools and instructions of its request, and never its input. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { echoOf } from '../../../engine/protocols/translation/echo.ts';

it('repeats sampling, limits, metadata and how the model is to reason and write', () => {
  const repeated = {
    temperature: 0.2,
    top_p: 0.9,
    max_output_tokens: 100,
    parallel_tool_calls: false,
    tool_choice: 'required',
    metadata: { run: '7' },
    user: 'u1',
    truncation: 'disabled',
    reasoning: { effort: 'high', summary: 'auto' },
    text: { format: { type: 'text' }, verbosity: 'low' },
  };
  assert.deepEqual(echoOf({ ...repeated, model: 'm' }), repeated);
});

it('repeats instructions, tools and formats as they are, and no input', () => {
  const repeated = {
    instructions: 'Be kind.',
    tools: [{ type: 'function', name: 'look', parameters: { type: 'object' } }],
    tool_choice: { type: 'function', name: 'look' },
    text: { format: { type: 'json_schema', name: 'a', schema: { a: 'b' } } },
    prompt_cache_key: 'a-session',
  };
  assert.deepEqual(echoOf({ ...repeated, model: 'm', input: 'secret', prompt: { id: 'secret' } }), repeated);
});

it('repeats nothing long, and nothing of a wrong type, whatever is sent', () => {
  const keys = ['temperature', 'tool_choice', 'metadata', 'user', 'reasoning', 'text', '__proto__', 'truncation'];
  const value = fc.oneof(
    fc.jsonValue(),
    fc.string({ minLength: 513, maxLength: 600 }),
    fc.dictionary(fc.string(), fc.string()),
  );
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...keys), value), (body) => {
      const echo = JSON.parse(JSON.stringify(echoOf(body))) as Record<string, unknown>;
      assert.ok(JSON.stringify(echo).length < 20_000);
      const { temperature = 0, user = '', tool_choice = {} } = echo;
      assert.deepEqual([typeof temperature, typeof user], ['number', 'string']);
      assert.ok(typeof tool_choice === 'string' || (typeof tool_choice === 'object' && !Array.isArray(tool_choice)));
    }),
  );
});
