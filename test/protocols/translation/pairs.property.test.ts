/** Invariants of every pair of different protocols, for any content. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ResponseConverter } from '../../../engine/api.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/domain/protocols/definitions.ts';
import type { Conversation, Part, Tool, Turn } from '../../../engine/domain/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { createTranslator, translateRequest } from '../../../engine/domain/protocols/translation/translate.ts';
import { eventsIn, textIn } from '../../e2e/streams/streams.ts';
import {
  type Answer,
  checkRequest,
  documentOf,
  eventsOf,
  type Said,
} from '../../support/model-provider/model-provider.ts';
import { times } from '../../support/times.ts';
import { argumentTexts, conversations, joinedTurns, names, texts } from './conversation-arbitraries.ts';
import { headOf, PAIRS, translate } from './translating.ts';

const target = { max_output_tokens: 64_000, thinking: 'adaptive', sampling: true } as const;
const asked = { upstream: 'u', upstream_model: 'upstream-model', target, request_id: 'r-1', created_at: 1 };

/** Runs `check` unless a rule rejects the request. */
function unlessRefused(check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof StageError && error.code === 'not_translatable')) throw error;
  }
}

/** Turns as they are grouped by every protocol: neighbours of one role are one turn, and an empty text is none. */
const merged = (turns: readonly Turn[]): readonly Turn[] =>
  joinedTurns(turns.map(({ role, parts }) => ({ role, parts: parts.map(withoutEmpty) })));

function withoutEmpty(part: Part): Part {
  // Some protocols require a name of every document.
  if (part.kind === 'document') return { ...part, name: part.name ?? 'document.pdf' };
  if (part.kind !== 'tool_result') return part;
  return { ...part, parts: part.parts.filter((inner) => inner.kind !== 'text' || inner.text !== '') };
}

/** A tool as every protocol can say it: whether its schema can be strict depends on the protocol. */
const sayable = ({ strict: _, ...tool }: Tool) => tool;

/** The fields of a request beside its turns; defaults are omitted. */
function settingsOf({ turns: _, ...every }: Conversation): object {
  const { parallel_tool_calls, tool_choice, reasoning, temperature, ...others } = every;
  return {
    ...others,
    ...(temperature !== undefined && temperature !== 1 && { temperature }),
    ...(parallel_tool_calls === false && tool_choice?.kind !== 'none' && { parallel_tool_calls }),
    ...(tool_choice && tool_choice.kind !== 'auto' && { tool_choice }),
    ...(reasoning && { reasoning: { ...reasoning, show: reasoning.show ?? false } }),
  };
}

const saying = (conversation: Conversation, text: string): Conversation => ({
  ...conversation,
  turns: [...conversation.turns, { role: 'user', parts: [{ kind: 'text', text }] }],
});

/** Clients of JSON mode request JSON in words; their own protocol requires it. */
const withWords = (conversation: Conversation): Conversation =>
  conversation.output_format?.kind === 'json_object' ? saying(conversation, 'As JSON.') : conversation;

/** A conversation whose last turn is the user's; an unfinished assistant turn may end with no space. */
const ended = (conversation: Conversation): Conversation =>
  conversation.turns.at(-1)?.role === 'assistant' ? saying(conversation, 'Go on.') : conversation;

/** Settings of a request, few of which every protocol supports. */
const SETTINGS = [
  ...(['max_output_tokens', 'temperature', 'top_p', 'top_k', 'frequency_penalty', 'presence_penalty', 'seed'] as const),
  ...(['stop', 'reasoning', 'verbosity', 'user', 'metadata', 'service_tier', 'store', 'tool_choice'] as const),
  ...(['parallel_tool_calls'] as const),
];

/** One that all protocols can say, with its settings. */
const SAYABLE: readonly [Conversation, typeof SETTINGS] = [
  {
    model: 'm',
    instructions: [],
    turns: [{ role: 'user', parts: [{ kind: 'text', text: 'Hi' }] }],
    tools: [],
    stream: false,
    max_output_tokens: 100,
    temperature: 0.5,
  },
  ['max_output_tokens', 'temperature'],
];

/** A conversation with these settings only, so that not every one triggers a rule. */
function withOnly(conversation: Conversation, kept: readonly (typeof SETTINGS)[number][]): Conversation {
  const left_out: ReadonlySet<string> = new Set(SETTINGS.filter((setting) => !kept.includes(setting)));
  const rest = Object.fromEntries(Object.entries(conversation).filter(([key]) => !left_out.has(key)));
  return { ...(rest as unknown as Conversation), tools: conversation.tools.map(sayable) };
}

/** The client's request for a conversation. */
function bodyOf(from: Protocol, conversation: Conversation) {
  return DEFINITIONS[from].adapter.writeRequest(conversation, target, new Notes());
}

for (const { from, to } of PAIRS) {
  const which = `from ${from} to ${to}`;

  test(`a strict upstream accepts every translated request: ${which}`, () => {
    fc.assert(
      fc.property(conversations({ reasoning: ['text'] }), (conversation) =>
        unlessRefused(() => {
          const body = bodyOf(from, withWords(conversation));
          const { json } = translateRequest({ from, to, body, ...asked });
          checkRequest(to, JSON.parse(json));
        }),
      ),
      { numRuns: times(20) },
    );
  });

  test(`a request within both sides' features returns unchanged: ${which}`, () => {
    const plain = conversations({
      reasoning: [],
      part_caches: false,
      instructions_turns: false,
      refusals: false,
      free_text_tools: false,
      result_files: false,
      long_results: from !== 'chat' && to !== 'chat',
      result_errors: false,
      url_documents: false,
      text_documents: false,
      image_details: false,
    }).map(({ cache: _, output_format: __, ...rest }): Conversation => ended(rest));
    let whole = 0;
    const settings = fc.subarray(SETTINGS, { maxLength: 2 });
    fc.assert(
      fc.property(plain, settings, (every, settings) =>
        unlessRefused(() => {
          const conversation = withOnly(every, settings);
          const body = bodyOf(from, conversation);
          const same = { ...asked, upstream_model: conversation.model };
          const there = translateRequest({ from, to, body, ...same });
          const back = translateRequest({ from: to, to: from, body: JSON.parse(there.json), ...same });
          const once = DEFINITIONS[from].adapter.readRequest(body, new Notes());
          const again = DEFINITIONS[from].adapter.readRequest(JSON.parse(back.json), new Notes());
          assert.deepEqual(merged(again.turns), merged(once.turns));
          assert.deepEqual(again.instructions, once.instructions);
          assert.deepEqual(again.tools.map(sayable), once.tools.map(sayable));
          assert.deepEqual(again.tool_choice ?? { kind: 'auto' }, once.tool_choice ?? { kind: 'auto' });
          assert.equal(again.user, once.user);
          assert.equal(again.stream, once.stream);
          if (there.notes.names.length + back.notes.names.length > 0) return;
          // Nothing was lost without a note.
          assert.deepEqual({ ...settingsOf(again), ...settingsOf(once) }, settingsOf(again));
          if (settings.length > 0) whole++;
        }),
      ),
      { numRuns: times(60), examples: [[...SAYABLE]] },
    );
    assert.ok(whole >= 1, `only ${whole} requests had settings that no rule applied to`);
  });

  test(`any chunks of the upstream's stream give the client the same bytes: ${which}`, () => {
    fc.assert(
      fc.property(modelAnswers, fc.array(fc.nat(), { maxLength: 40 }), (response, places) => {
        const bytes = streamOf(to, response);
        const whole = convertAll(translatorFor(from, to, true, 'stream'), [bytes]);
        assert.equal(convertAll(translatorFor(from, to, true, 'stream'), cutAt(bytes, places)), whole);
        const one_by_one = Array.from(bytes, (byte) => Buffer.from([byte]));
        assert.equal(convertAll(translatorFor(from, to, true, 'stream'), one_by_one), whole);
      }),
      { numRuns: times(15) },
    );
  });

  test(`each event of the upstream is passed on at once: ${which}`, () => {
    fc.assert(
      fc.property(modelAnswers, (response) => {
        const converter = translatorFor(from, to, true, 'stream');
        let said = '';
        for (const event of eventsOf(to, response)) {
          said += converter.write(Buffer.from(event));
          // Nothing is ever half an event.
          eventsIn(said);
        }
        assert.equal(String(converter.end()), '', 'nothing is left for the end');
      }),
      { numRuns: times(15) },
    );
  });

  test(`a stream cut anywhere ends with a well-formed error, after a prefix of the whole: ${which}`, () => {
    fc.assert(
      fc.property(modelAnswers, fc.nat(), (response, place) => {
        const bytes = streamOf(to, response);
        const whole = convertAll(translatorFor(from, to, true, 'stream'), [bytes]);
        const converter = translatorFor(from, to, true, 'stream');
        let got = String(converter.write(bytes.subarray(0, place % bytes.length)));
        let failed = false;
        try {
          got += converter.end();
        } catch (error) {
          assert.ok(error instanceof StageError);
          got += converter.fail!(error);
          failed = true;
        }
        const events = eventsIn(got);
        const full = eventsIn(whole);
        const isError = (data: Record<string, unknown>) =>
          /^(?:error|response\.failed)$/.test(String(data.type)) || 'error' in data;
        const errors = events.filter(({ data }) => isError(data));
        if (!failed) {
          // Chat completions is complete once it has a reason, though usage would have followed.
          assert.equal(textIn(from, events), textIn(from, full));
          assert.deepEqual(errors, []);
          return;
        }
        assert.ok(errors.length >= 1);
        const before = events.slice(0, events.length - errors.length);
        assert.ok(textIn(from, full).startsWith(textIn(from, before)));
        if (from !== 'responses') return;
        assert.equal(events.at(-1)!.data.type, 'response.failed');
        for (const [index, { data }] of events.entries()) assert.equal(data.sequence_number, index);
      }),
      { numRuns: times(20) },
    );
  });

  test(`a document and a stream of the same response are the same to the client: ${which}`, () => {
    fc.assert(
      fc.property(modelAnswers, (response) => {
        const document = Buffer.from(JSON.stringify(documentOf(to, response)));
        const from_document = convertAll(translatorFor(from, to, false, 'document'), [document]);
        const from_stream = convertAll(translatorFor(from, to, false, 'stream'), [streamOf(to, response)]);
        assert.deepEqual(JSON.parse(from_stream), JSON.parse(from_document));
        const streamed = convertAll(translatorFor(from, to, true, 'stream'), [streamOf(to, response)]);
        assert.equal(textIn(from, eventsIn(streamed)), textIn(from, JSON.parse(from_document)));
      }),
      { numRuns: times(12) },
    );
  });
}

/** Responses of the scripted model provider as arbitraries, and their way through a translator. */

const thoughts = fc.array(
  texts.map((text): Said => ({ kind: 'thought', text })),
  { maxLength: 1 },
);
const words = fc.array(
  texts.map((text): Said => ({ kind: 'text', text })),
  { maxLength: 1 },
);
const calls = fc.array(fc.tuple(names, argumentTexts), { maxLength: 3 });
const refusals = texts.map((text): Said[] => [{ kind: 'refusal', text }]);

/** A model's output: perhaps a thought, perhaps a text, tool calls; or a refusal. */
const said: fc.Arbitrary<readonly Said[]> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(thoughts, words, calls)
      .map(([thought, text, made]): Said[] => [
        ...[...thought, ...text],
        ...made.map(([name, args]): Said => ({ kind: 'call', name, arguments: args })),
      ]),
  },
  { weight: 1, arbitrary: refusals },
);

/** Responses within each protocol's features. */
const modelAnswers: fc.Arbitrary<Answer> = fc
  .record({
    said,
    cut_short: fc.boolean(),
    piece: fc.integer({ min: 1, max: 9 }),
    mixed: fc.boolean(),
    pings: fc.boolean(),
    input: fc.nat(9999),
    cache_read: fc.nat(9999),
    output: fc.integer({ min: 100, max: 9999 }),
    reasoning: fc.nat(100),
  })
  .map(({ said: all, cut_short, piece, mixed, pings, ...used }) => {
    const only_text = all.length > 0 && all.every(({ kind }) => kind === 'text');
    return { said: all, piece, mixed, pings, used, ...(cut_short && only_text && { stop: 'length' as const }) };
  });

/** The converter of an upstream's response into a client's. */
function translatorFor(from: Protocol, to: Protocol, stream: boolean, type: 'stream' | 'document'): ResponseConverter {
  const head = headOf(type === 'stream' ? 'text/event-stream' : 'application/json');
  return createTranslator(translate(from, to, stream), head);
}

/** The client's bytes for these bytes of the upstream. */
function convertAll(converter: ResponseConverter, chunks: readonly Buffer[]): string {
  return chunks.map((chunk) => String(converter.write(chunk))).join('') + String(converter.end());
}

/** The bytes of the upstream's stream. */
const streamOf = (protocol: Protocol, response: Answer): Buffer => Buffer.from(eventsOf(protocol, response).join(''));

/** Bytes cut at these places. */
function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const inside = new Set(places.map((place) => place % (bytes.length + 1)));
  const cuts = [0, ...[...inside].sort((a, b) => a - b), bytes.length];
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}
