/** Answers that an upstream makes up: whatever comes, it is rewritten or refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/api.ts';
import { PROTOCOLS } from '../../../engine/contract/protocol.ts';
import { textsOf } from '../../../engine/protocols/definitions.ts';
import { AnswerRewriter } from '../../../engine/protocols/rewriting/answer-rewriter.ts';
import { editJson } from '../../../engine/protocols/rewriting/edit-json.ts';
import { compileRewriting } from '../../../engine/protocols/rewriting/text-rewriter.ts';
import { times } from '../../support/times.ts';
import { WORDS } from './rewriting.ts';

const KEYS = [
  ...['type', 'index', 'delta', 'content_block', 'text', 'thinking', 'signature', 'partial_json', 'input', 'content'],
  ...['choices', 'finish_reason', 'message', 'tool_calls', 'function', 'arguments', 'logprobs', 'reasoning', 'error'],
  ...['response', 'output', 'item', 'part', 'item_id', 'output_index', 'content_index', 'sequence_number', 'object'],
  ...['__proto__', 'constructor', 'toString'],
];
const WORDS_OF_PROTOCOLS = [
  ...['content_block_delta', 'content_block_start', 'content_block_stop', 'text_delta', 'message_stop', 'error'],
  ...['response.output_text.delta', 'response.output_text.done', 'response.output_item.done', 'response.completed'],
  ...[
    'response.function_call_arguments.delta',
    '.delta',
    'delta',
    'response',
    'stop',
    'ann@example.com',
    'ann@',
    '{"a":"',
    '"}',
  ],
];

const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 6, withCrossShrink: true },
    fc.constantFrom<unknown>(null, true, 0, 1, -1, 1.5, 1e300),
    fc.constantFrom(...WORDS_OF_PROTOCOLS),
    fc.string({ maxLength: 8 }),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom(...KEYS), tie('value'), { maxKeys: 8 }),
  ),
}));

const rewriterOf = (protocol: string) =>
  new AnswerRewriter(textsOf(protocol), [{ id: 'a', rewriting: compileRewriting(WORDS) }], 'gw:x@y:none::');

for (const protocol of [...PROTOCOLS, 'none']) {
  test(`any events are events again, and any document a document: ${protocol}`, () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 8 }), (sent) => {
        const rewriter = rewriterOf(protocol);
        try {
          const got = sent.flatMap((one) => rewriter.event('e', JSON.stringify(one)));
          for (const { data } of [...got, ...rewriter.flush()]) JSON.parse(data);
          assert.deepEqual(rewriter.flush(), []);
          JSON.parse(rewriterOf(protocol).document(JSON.stringify(sent)));
        } catch (error) {
          assert.ok(error instanceof StageError, String(error));
        }
      }),
      { numRuns: times(400) },
    );
  });
}

test('what is put into a JSON text stands where it was asked for, and the rest stays', () => {
  fc.assert(
    fc.property(value, fc.boolean(), fc.constantFrom(0, 1), (json, inside, space) => {
      const text = JSON.stringify(json, null, space);
      assert.equal(
        editJson(text, () => undefined),
        text,
      );
      const edited = editJson(text, (path, first) =>
        first === '"' || (inside && path.length === 2) ? () => '0' : undefined,
      );
      const expected = (one: unknown, depth: number): unknown => {
        if (typeof one === 'string' || (inside && depth === 2)) return 0;
        if (Array.isArray(one)) return one.map((item) => expected(item, depth + 1));
        if (typeof one !== 'object' || one === null) return one;
        return Object.fromEntries(Object.entries(one).map(([key, item]) => [key, expected(item, depth + 1)]));
      };
      assert.deepEqual(JSON.parse(edited), expected(JSON.parse(text), 0));
    }),
    { numRuns: times(150) },
  );
});
