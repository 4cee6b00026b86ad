import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import type { Rewriting, TextKind } from '../../../engine/api.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/protocols/definitions.ts';
import { AnswerRewriter } from '../../../engine/protocols/rewriting/answer-rewriter.ts';
import { rewriteAnswer } from '../../../engine/protocols/rewriting/rewrite-answer.ts';
import { compileRewriting } from '../../../engine/protocols/rewriting/text-rewriter.ts';
import type { AnswerContext } from '../../../engine/protocols/translation/adapter.ts';
import { gatherAnswer, type ModelEvent } from '../../../engine/protocols/translation/events.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { times } from '../../support/times.ts';
import { ADDRESSES, cut, places, rewritten, texts, WORDS } from './rewriting.ts';

type Kind = 'text' | 'reasoning' | 'refusal' | 'tool_call';

/** A part of an answer, cut as the model says it. */
interface SaidPart {
  readonly kind: Kind;
  readonly pieces: readonly string[];
}

const ANSWER: AnswerContext = {
  request_id: 'request-1',
  made_by: { protocol: 'chat', upstream: 'main' },
  model: 'coder-1',
  created_at: 1_700_000_000,
  include_usage: true,
  free_text_tools: new Set(),
  echo: { instructions: 'Write to boss@example.com' },
};

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
    {
      type: 'part_start',
      index,
      part: kind === 'tool_call' ? { kind, id: `call_${index}`, name: 'send' } : { kind },
    },
    ...pieces.filter((text) => text !== '').map((text): ModelEvent => ({ type: 'part_delta', index, text })),
    { type: 'part_end', index },
  ]);
  return [
    { type: 'start', id: 'answer-1', model: 'coder-1', usage: { input: 10 } },
    ...events,
    { type: 'end', reason: 'finished', usage: { output: 20 } },
  ];
}

function newRewriter(protocol: Protocol, rewriting: Rewriting): AnswerRewriter {
  const named = { id: 'redact', rewriting: compileRewriting(rewriting) };
  return new AnswerRewriter(DEFINITIONS[protocol].texts, [named], 'gw:messages@main:none::');
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

/** What a client makes of a stream. */
function readStream(protocol: Protocol, text: string) {
  const reader = DEFINITIONS[protocol].adapter.createReader(new Notes());
  const events: ModelEvent[] = [];
  const datas: string[] = [];
  const emit = (event: ModelEvent) => events.push(event);
  createParser({
    onEvent({ event, data }) {
      datas.push(data);
      reader.read({ name: event ?? 'message', data }, emit);
    },
  }).feed(text);
  reader.end(emit);
  const { parts: read } = gatherAnswer(events);
  return { datas, texts: read.map(({ start, text: whole }) => ({ kind: start.kind, text: whole })) };
}

function joined(said: readonly { kind: string; text: string }[], kind: string): string {
  return said
    .filter((part) => part.kind === kind)
    .map(({ text }) => text)
    .join('|');
}

for (const protocol of PROTOCOLS) {
  describe(`a stream of ${protocol}`, () => {
    for (const [name, rewriting] of Object.entries({ ADDRESSES, WORDS })) {
      test(`says what its texts are when they are rewritten whole: ${name}`, () => {
        fc.assert(
          fc.property(parts, places, (said, at) => {
            const original = stream(protocol, said);
            const rewriter = newRewriter(protocol, rewriting);
            const text = rewriteStream(rewriter, original, at);
            const before = readStream(protocol, original);
            const after = readStream(protocol, text);
            const expected = before.texts.map(({ kind, text: whole }) => ({
              kind,
              text: kind === 'tool_call' ? rewrittenArguments(rewriting, whole) : rewritten(rewriting, [whole]).text,
            }));
            assert.deepEqual(after.texts, expected);
            const count = before.texts.reduce((sum, { kind, text: whole }) => sum + countIn(rewriting, kind, whole), 0);
            assert.equal(rewriter.replaced.get('redact') ?? 0, count);
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
          const whole = rewriteStream(newRewriter(protocol, WORDS), original, []);
          assert.equal(rewriteStream(newRewriter(protocol, WORDS), original, at), whole);
          const blind: Rewriting = { ...WORDS, kinds: ['other' as TextKind] };
          assert.equal(rewriteStream(newRewriter(protocol, blind), original, at), original);
        }),
        { numRuns: times(20) },
      );
    });

    test('as one document says the same', () => {
      fc.assert(
        fc.property(parts, (said) => {
          const document = DEFINITIONS[protocol].adapter.writeDocument(eventsOf(said), ANSWER, new Notes());
          const json = JSON.stringify(document);
          const rewriter = newRewriter(protocol, ADDRESSES);
          const text = rewriter.document(json);
          const read = (one: string) => {
            const { parts: all } = gatherAnswer(
              DEFINITIONS[protocol].adapter.readDocument(JSON.parse(one), new Notes()),
            );
            return all.map(({ start, text: whole }) => ({ kind: start.kind as string, text: whole }));
          };
          for (const kind of ['text', 'reasoning'])
            assert.equal(joined(read(text), kind), joined(read(json).map(rewrittenPart), kind));
          for (const [i, { kind, text: args }] of read(text).entries()) {
            if (kind === 'tool_call')
              assert.deepEqual(JSON.parse(args), JSON.parse(rewrittenArguments(ADDRESSES, read(json)[i]!.text)));
          }
          assert.equal(text.includes('boss@example.com'), json.includes('boss@example.com'));
          if ((rewriter.replaced.get('redact') ?? 0) === 0) assert.equal(text, json);
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

const values = (datas: readonly string[]): unknown[] =>
  datas.filter((data) => data !== '[DONE]').map((data) => JSON.parse(data) as unknown);

/** A Responses stream says each text several times, and counts its events. */
function assertRepeated(datas: readonly string[]): void {
  const events = values(datas) as {
    type: string;
    sequence_number: number;
    delta?: string;
    text?: string;
    item_id?: string;
  }[];
  assert.deepEqual(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_event, at) => at),
  );
  for (const done of events.filter(({ type }) => type === 'response.output_text.done')) {
    const deltas = events.filter(
      ({ type, item_id }) => type === 'response.output_text.delta' && item_id === done.item_id,
    );
    assert.equal(deltas.map(({ delta }) => delta).join(''), done.text);
  }
}
