/** A request on its way from a client of one protocol to an upstream of another. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import { translateRequest } from '../../../engine/protocols/translation/translate.ts';
import { PAIRS, raised, translate } from './translating.ts';

describe('a request', () => {
  it('that is no object is refused', () => {
    for (const body of [null, [], 'text', 7, undefined]) {
      const wishes = {
        upstream: 'u',
        upstream_model: 'm',
        target: { max_output_tokens: 1, thinking: 'none', sampling: true },
        request_id: 'r',
      } as const;
      for (const { from, to } of PAIRS) {
        assert.throws(() => translateRequest({ from, to, body, created_at: 0, ...wishes }), raised('invalid_request'));
      }
    }
  });

  it('that is nested without end is refused, wherever it is deep, and never crashes', () => {
    const deep: unknown = JSON.parse(`${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`);
    const places = [
      { tools: deep },
      { messages: deep, input: deep },
      { metadata: deep },
      { messages: [{ role: 'user', content: deep }], input: [{ role: 'user', content: deep }] },
      {
        tools: [
          { name: 't', type: 'function', input_schema: { type: 'object', deep }, parameters: { type: 'object', deep } },
        ],
      },
      { tools: [{ type: 'function', function: { name: 't', parameters: { type: 'object', deep } } }] },
    ];
    for (const { from, to } of PAIRS) {
      for (const more of places) {
        try {
          translate(from, to, true, more);
        } catch (error) {
          assert.ok(error instanceof StageError, String(error));
          assert.ok(['invalid_request', 'not_translatable'].includes(error.code));
        }
      }
    }
  });

  it('asks the upstream for its own name of the model, and tells the client what it asked for', () => {
    for (const { from, to } of PAIRS) {
      const { json, answer } = translate(from, to, false);
      assert.equal((JSON.parse(json) as { model: string }).model, 'upstream-1');
      assert.equal(answer.model, 'coder-1');
    }
  });
});

describe('numbers that are larger than any count', () => {
  const LIMITS: Readonly<Record<Protocol, string>> = {
    messages: 'max_tokens',
    chat: 'max_tokens',
    responses: 'max_output_tokens',
  };
  for (const from of PROTOCOLS) {
    it(`are told to be too large, and not to be no numbers, to a ${from} client`, () => {
      for (const value of [1e29, Infinity, 2 ** 53]) {
        const more = { [LIMITS[from]]: value };
        assert.throws(
          () => translate(from, from === 'chat' ? 'messages' : 'chat', false, more),
          (error) =>
            raised('invalid_request')(error) &&
            (error as Error).message === `${LIMITS[from]}: must be 9007199254740991 or less`,
        );
      }
    });
  }
});
