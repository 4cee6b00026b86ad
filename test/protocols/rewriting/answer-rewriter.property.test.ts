import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { type Rewriting, StageError, type TextKind } from '../../../engine/api.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/domain/protocols/definitions.ts';
import { type AnswerRewriter, editJson, rewriteAnswer } from '../../../engine/domain/protocols/rewriting.ts';
import { gatherAnswer, type ModelEvent } from '../../../engine/domain/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { times } from '../../support/times.ts';
import { ANSWER_CONTEXT } from '../translation/answer-arbitraries.ts';
import { ADDRESSES, cut, places, rewriterOf, rewritten, texts, WORDS } from './rewriting.ts';

type Kind = 'text' | 'reasoning' | 'refusal' | 'tool_call';

/** A part of a response, cut as the model writes it. */
interface SaidPart {
  readonly kind: Kind;
  readonly pieces: readonly string[];
}

const ANSWER = { ...ANSWER_CONTEXT, echo: { instructions: 'Write to boss@example.com' } };

const parts = fc.array(
  fc
    .record({ kind: fc.constantFrom<Kind>('text', 'reasoning', 'tool_call'), text: texts, at: places })
    .map(({ kind, text, at }): SaidPart => {
      const well_formed = text.toWellFormed();
      const said = kind === 'tool_call' ? JSON.stringify({ to: [well_formed], n: 1 }) : well_formed;
      return { kind, pieces: cut(said, at) };
    }),
  { minLength: 1, maxLength: 4 },
);

function eventsOf(said: readonly SaidPart[]): ModelEvent[] {
  const events = said.flatMap(({ kind, pieces }, index): ModelEvent[] => [
    { type: 'part_start', index, part: kind === 'tool_call' ? { kind, id: `call_${index}`, name: 'send' } : { kind } },
    ...pieces.filter((text) => text !== '').map((text): ModelEvent => ({ type: 'part_delta', index, text })),
    { type: 'part_end', index },
  ]);
  return [
    { type: 'start', id: 'answer-1', model: 'coder-1', usage: { input: 10 } },
    ...events,
    { type: 'end', reason: 'finished', usage: { output: 20 } },
  ];
}

function stream(protocol: Protocol, said: readonly SaidPart[]): string {
  const writer = DEFINITIONS[protocol].adapter.createWriter(ANSWER, new Notes());
  return eventsOf(said)
    .map((event) => writer.write(event))
    .join('');
}

function rewriteStream(rewriter: AnswerRewriter, text: string, at: readonly number[]): string {
  const converter = rewriteAnswer('text/event-stream', rewriter);
  const bytes = Buffer.from(text);
  const chunks = cut(bytes.toString('latin1'), at).map((chunk) => Buffer.from(chunk, 'latin1'));
  return chunks.map((chunk) => String(converter.write(chunk))).join('') + String(converter.end());
}

/** A client's view of a stream. */
function readStream(protocol: Protocol, text: string) {
  const events: ModelEvent[] = [];
  const reader = DEFINITIONS[protocol].adapter.createReader(new Notes(), (event) => events.push(event));
  const datas: string[] = [];
  createParser({
    onEvent({ event, data }) {
      datas.push(data);
      reader.read({ name: event ?? 'message', data });
    },
  }).feed(text);
  reader.end();
  const { parts: read } = gatherAnswer(events);
  return { datas, texts: read.map(({ start, text: whole }) => ({ kind: start.kind, text: whole })) };
}

const joined = (said: readonly { kind: string; text: string }[], kind: string): string =>
  said.flatMap((part) => (part.kind === kind ? [part.text] : [])).join('|');

for (const protocol of PROTOCOLS) {
  describe(`a stream of ${protocol}`, () => {
    for (const [name, rewriting] of Object.entries({ ADDRESSES, WORDS })) {
      test(`equals its texts rewritten as a whole: ${name}`, () => {
        fc.assert(
          fc.property(parts, places, (said, at) => {
            const original = stream(protocol, said);
            const rewriter = rewriterOf(protocol, rewriting);
            const text = rewriteStream(rewriter, original, at);
            const before = readStream(protocol, original);
            const after = readStream(protocol, text);
            const expected = before.texts.map(({ kind, text: whole }) => ({
              kind,
              text: kind === 'tool_call' ? rewrittenArguments(rewriting, whole) : rewritten(rewriting, [whole]).text,
            }));
            assert.deepEqual(after.texts, expected);
            const count = before.texts.reduce((sum, { kind, text: whole }) => sum + countIn(rewriting, kind, whole), 0);
            assert.equal(rewriter.replaced.get('a') ?? 0, count);
            if (protocol === 'responses') assertRepeated(after.datas);
          }),
          { numRuns: times(50) },
        );
      });
    }

    test('is the same however its bytes are cut, and as it was where nothing looks into it', () => {
      fc.assert(
        fc.property(parts, places, (said, at) => {
          const original = stream(protocol, said);
          const whole = rewriteStream(rewriterOf(protocol), original, []);
          assert.equal(rewriteStream(rewriterOf(protocol), original, at), whole);
          const blind: Rewriting = { ...WORDS, kinds: ['other' as TextKind] };
          assert.equal(rewriteStream(rewriterOf(protocol, blind), original, at), original);
        }),
        { numRuns: times(20) },
      );
    });

    test('as one document yields the same', () => {
      fc.assert(
        fc.property(parts, (said) => {
          const document = DEFINITIONS[protocol].adapter.writeDocument(eventsOf(said), ANSWER, new Notes());
          const json = JSON.stringify(document);
          const rewriter = rewriterOf(protocol, ADDRESSES);
          const text = rewriter.document(json);
          const read = (one: string) => {
            const said_by = DEFINITIONS[protocol].adapter.readDocument(JSON.parse(one), new Notes());
            const { parts: all } = gatherAnswer(said_by);
            return all.map(({ start, text: whole }) => ({ kind: start.kind as string, text: whole }));
          };
          for (const kind of ['text', 'reasoning'])
            assert.equal(joined(read(text), kind), joined(read(json).map(rewrittenPart), kind));
          for (const [i, { kind, text: args }] of read(text).entries()) {
            if (kind === 'tool_call')
              assert.deepEqual(JSON.parse(args), JSON.parse(rewrittenArguments(ADDRESSES, read(json)[i]!.text)));
          }
          assert.equal(text.includes('boss@example.com'), json.includes('boss@example.com'));
          if ((rewriter.replaced.get('a') ?? 0) === 0) assert.equal(text, json);
        }),
        { numRuns: times(50) },
      );
    });
  });
}

function rewrittenPart({ kind, text }: { kind: string; text: string }) {
  return { kind, text: kind === 'tool_call' ? text : rewritten(ADDRESSES, [text]).text };
}

function rewrittenArguments(rewriting: Rewriting, json: string): string {
  const value: unknown = JSON.parse(json, (_key, inner) =>
    typeof inner === 'string' ? rewritten(rewriting, [inner]).text : inner,
  );
  return JSON.stringify(value);
}

function countIn(rewriting: Rewriting, kind: string, text: string): number {
  if (kind !== 'tool_call') return rewritten(rewriting, [text]).count;
  let count = 0;
  JSON.parse(text, (_key, inner) => {
    if (typeof inner === 'string') count += rewritten(rewriting, [inner]).count;
    return inner;
  });
  return count;
}

/** A Responses stream says each text several times, and counts its events. */
function assertRepeated(datas: readonly string[]): void {
  const events = datas.map((data) => JSON.parse(data)) as Record<string, unknown>[];
  for (const [at, { sequence_number }] of events.entries()) assert.equal(sequence_number, at);
  for (const done of events.filter(({ type }) => type === 'response.output_text.done')) {
    const own = events.filter(({ item_id }) => item_id === done.item_id);
    const deltas = own.filter(({ type }) => type === 'response.output_text.delta');
    assert.equal(deltas.map(({ delta }) => delta).join(''), done.text);
  }
}

/** Made-up responses of an upstream: each is rewritten or rejected. */

const KEYS = [
  ...['type', 'index', 'delta', 'content_block', 'text', 'thinking', 'signature', 'partial_json', 'input', 'content'],
  ...['choices', 'finish_reason', 'message', 'tool_calls', 'function', 'arguments', 'logprobs', 'reasoning', 'error'],
  ...['response', 'output', 'item', 'part', 'item_id', 'output_index', 'content_index', 'sequence_number', 'object'],
  ...['__proto__', 'constructor', 'toString'],
];
const WORDS_OF_PROTOCOLS = [
  ...['content_block_delta', 'content_block_start', 'content_block_stop', 'text_delta', 'message_stop', 'error'],
  ...['response.output_text.delta', 'response.output_text.done', 'response.output_item.done', 'response.completed'],
  ...['response.function_call_arguments.delta', '.delta', 'delta', 'response', 'stop'],
  ...['ann@example.com', 'ann@', '{"a":"', '"}'],
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

test('text inserted into a JSON text is at its place, and the rest stays', () => {
  fc.assert(
    fc.property(value, fc.boolean(), fc.constantFrom(0, 1), (json, inside, space) => {
      const text = JSON.stringify(json, null, space);
      const found = editJson(text, () => undefined);
      assert.equal(found, text);
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
