/** Whatever stands where something else belongs, in requests and in answers: a clear refusal, never a crash. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/contract/errors.ts';
import { PROTOCOLS } from '../../../engine/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/protocols/definitions.ts';
import type { ReasoningProof } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { boundaryMark, isMade, proofFromText, proofToText } from '../../../engine/protocols/translation/proof.ts';
import { createTranslator } from '../../../engine/protocols/translation/translate.ts';
import { anyText } from '../../support/any-text.ts';
import { type Answer, documentOf, eventsOf } from '../../support/model-provider/model-provider.ts';
import { times } from '../../support/times.ts';
import { conversations } from './conversation-arbitraries.ts';
import { headOf, PAIRS, translate } from './translating.ts';

const ANSWER: Answer = {
  said: [
    { kind: 'thought', text: 'A thought of some length.' },
    { kind: 'text', text: 'Some text.' },
    { kind: 'call', name: 'f', arguments: '{"a":1}' },
    { kind: 'call', name: 'g', arguments: '{"b":[1,2]}' },
  ],
  pings: true,
};

type Container = Record<string | number, unknown>;

/** Every place in a value that can be changed. */
function placesIn(value: unknown): [Container, string][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) => [[value as Container, key], ...placesIn(below)]) as never;
}

interface Change {
  readonly at: number;
  readonly to: unknown;
}

const changes: fc.Arbitrary<Change[]> = fc.array(
  fc.record({
    at: fc.nat(),
    to: fc.oneof(
      fc.constantFrom(undefined, null, '', '\ud800', '__proto__', -1, 1.5, 1e308, true),
      fc.constantFrom([null], [[]], [{}], {}, { type: 'text' }, { type: 'constructor' }, '{"a":1}', 'a'.repeat(200)),
      fc.jsonValue({ maxDepth: 2 }),
    ),
  }),
  { minLength: 1, maxLength: 3 },
);

/** The value as JSON with something else in some places; what is `undefined` is left out, or null in a list. */
function changed(value: unknown, list: readonly Change[]): unknown {
  const copy = JSON.parse(JSON.stringify(value)) as unknown;
  for (const { at, to } of list) {
    const places = placesIn(copy);
    const [container, key] = places[at % Math.max(1, places.length)] ?? [];
    if (container !== undefined && key !== undefined) container[key] = structuredClone(to);
  }
  return JSON.parse(JSON.stringify(copy));
}

function refusesWith(codes: readonly string[], step: () => void): void {
  try {
    step();
  } catch (error) {
    assert.ok(error instanceof StageError, error instanceof Error ? error.stack : String(error));
    assert.ok(codes.includes(error.code), error.code);
    assert.notEqual(error.message, '');
  }
}

for (const { from, to } of PAIRS) {
  describe(`a ${from} client and a ${to} upstream`, () => {
    it('may send any request', () => {
      const target = { max_output_tokens: 32_000, thinking: 'adaptive', sampling: true } as const;
      const asked = conversations({ url_documents: false }).map((said) =>
        DEFINITIONS[from].adapter.writeRequest(said, target, new Notes()),
      );
      fc.assert(
        fc.property(asked, changes, (body, list) => {
          const request = changed(body, list) as object;
          refusesWith(['invalid_request', 'not_translatable'], () => translate(from, to, true, request));
        }),
        { numRuns: times(30) },
      );
    });

    it('may send any document', () => {
      const document = documentOf(to, ANSWER);
      fc.assert(
        fc.property(changes, fc.boolean(), (list, stream) => {
          const converter = createTranslator(translate(from, to, stream), headOf('application/json'));
          refusesWith(['upstream_invalid', 'upstream_failed'], () => {
            converter.write(Buffer.from(JSON.stringify(changed(document, list))));
            converter.end();
          });
        }),
        { numRuns: times(30) },
      );
    });

    it('may send any events, and the stream still ends well', () => {
      const events = eventsOf(to, ANSWER);
      fc.assert(
        fc.property(fc.nat(events.length - 1), changes, fc.boolean(), (index, list, stream) => {
          const sent = events.map((event, i) => {
            if (i !== index || event.includes('[DONE]')) return event;
            return event.replace(/^data: (.*)$/m, (_, data: string) => {
              return `data: ${JSON.stringify(changed(JSON.parse(data), list))}`;
            });
          });
          const converter = createTranslator(translate(from, to, stream), headOf('text/event-stream'));
          refusesWith(['upstream_invalid', 'upstream_failed'], () => {
            converter.write(Buffer.from(sent.join('')));
            converter.end();
          });
          const end = converter.fail?.(new StageError('upstream_failed', 'It broke.')) ?? '';
          assert.ok(end === '' || end.endsWith('\n\n'));
        }),
        { numRuns: times(30) },
      );
    });
  });
}

const OWN = { protocol: 'messages', kind: 'signature' } as const;

describe('a proof of reasoning kept as text', () => {
  it('comes back as it was, whatever is in it', () => {
    const proofs: fc.Arbitrary<ReasoningProof> = fc.record(
      {
        protocol: fc.constantFrom(...PROTOCOLS),
        kind: fc.constantFrom('signature', 'encrypted', 'state', 'none'),
        value: anyText(),
        id: anyText({ minLength: 1 }),
      },
      { requiredKeys: ['protocol', 'kind', 'value'], noNullPrototype: true },
    );
    fc.assert(
      fc.property(proofs, anyText(), fc.option(anyText(), { nil: undefined }), (proof, upstream, state_boundary) => {
        const made = state_boundary === undefined ? {} : { boundary: boundaryMark(state_boundary) };
        const text = proofToText(proof, { protocol: 'chat', upstream, ...made });
        assert.ok(isMade(text));
        assert.deepEqual(proofFromText(text, OWN), { ...proof, upstream, ...made });
      }),
    );
  });

  it('is made even of an identifier that is no Unicode', () => {
    const proof = { protocol: 'responses', kind: 'encrypted', value: 'x', id: 'a\ud800' } as const;
    const text = proofToText(proof, { protocol: 'chat', upstream: 'b\ud800' });
    assert.deepEqual(proofFromText(text, OWN), { ...proof, id: 'a\ufffd', upstream: 'b\ufffd' });
  });

  it('is one even where the upstream gave none, so that nobody takes it for their own', () => {
    const text = proofToText(undefined, { protocol: 'chat', upstream: 'spare' });
    assert.deepEqual(proofFromText(text, OWN), { protocol: 'chat', kind: 'none', value: '', upstream: 'spare' });
  });

  it('was made without the name of its upstream before, and is read all the same', () => {
    const proof = { protocol: 'responses', kind: 'encrypted', value: 'x:y', id: 'rs_1' };
    assert.deepEqual(proofFromText('gw:responses:encrypted:rs_1:x:y', OWN), proof);
  });

  it("is the provider's own where it was not made so, and none where it says nothing", () => {
    for (const text of ['gw', 'EqQBCg==']) assert.deepEqual(proofFromText(text, OWN), { ...OWN, value: text });
    for (const text of ['', 'gw:', 'gw:messages:signature', 'gw:other:signature::x', 'gw:chat@u:other::x']) {
      assert.equal(proofFromText(text, OWN), undefined);
    }
  });
});
