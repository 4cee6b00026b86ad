import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/domain/protocols/definitions.ts';
import { echoOf } from '../../../engine/domain/protocols/responses/write-answer.ts';
import type { Conversation } from '../../../engine/domain/protocols/translation/conversation.ts';
import {
  decodeCallId,
  encodeCallId,
  renameTools,
  shortCallId,
} from '../../../engine/domain/protocols/translation/features.ts';
import {
  escapeFreeText,
  FREE_TEXT_END,
  FREE_TEXT_START,
  FreeTextDecoder,
  freeTextArguments,
  freeTextOf,
} from '../../../engine/domain/protocols/translation/free-text.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { withoutUsageChunk } from '../../../engine/domain/protocols/usage.ts';
import { eventsIn } from '../../e2e/streams/streams.ts';
import { anyText } from '../../support/any-text.ts';
import { times } from '../../support/times.ts';
import { cut, places } from '../rewriting/rewriting.ts';
import { ANSWER_CONTEXT } from './answer-arbitraries.ts';
import { PAIRS, translate } from './translating.ts';

const ids = fc.oneof(
  fc.string({ minLength: 1, maxLength: 200, unit: 'grapheme' }),
  fc.base64String({ minLength: 4, maxLength: 200 }).map((text) => `call_1__thought__${text}`),
  fc.base64String({ minLength: 4, maxLength: 60 }).map((text) => `gwid_${text}`),
);

describe('an identifier of a tool call', () => {
  it('is of few characters, and is restored', () => {
    fc.assert(
      fc.property(ids, (id) => {
        assert.match(encodeCallId(id), /^[a-zA-Z0-9_-]+$/);
        assert.equal(decodeCallId(encodeCallId(id)), id);
        assert.match(encodeCallId(shortCallId(id)), /^[a-zA-Z0-9_-]{1,64}$/);
      }),
    );
  });

  it('stays unchanged where every API accepts it, and where a client made it up', () => {
    for (const id of ['call_1', 'toolu_01A-b', 'x'.repeat(64)]) {
      assert.equal(encodeCallId(id), id);
      assert.equal(shortCallId(id), id);
      assert.equal(decodeCallId(id), id);
    }
    for (const id of ['gwid_', 'gwid_*', 'gwid_YQ==', 'gwid_Y2FsbF8x']) assert.equal(decodeCallId(id), id);
  });
});

/** Names of tools beyond an upstream's limit are shortened on the way up and restored on the way down. */

const LONG = `mcp__a_server_with_a_long_name__${'and_a_tool_'.repeat(5)}`;

function conversation(names: readonly string[], more: Partial<Conversation> = {}): Conversation {
  const tools = names.map((name) => ({ name, parameters: {} }));
  return { model: 'm', instructions: [], turns: [], tools, stream: false, ...more };
}

function namesOf({ tools }: Conversation): string[] {
  return tools.map(({ name }) => name);
}

describe('a name above 64 characters', () => {
  it('is shortened in tools, in the choice of a tool and in tool calls, and restored', () => {
    const call = { kind: 'tool_call', id: 'c1', name: LONG, arguments: '{}' } as const;
    const notes = new Notes();
    const asked = conversation(['short', LONG], {
      tool_choice: { kind: 'tool', name: LONG },
      turns: [{ role: 'assistant', parts: [{ kind: 'text', text: 'Calling.' }, call] }],
    });
    const { conversation: renamed, restore } = renameTools(asked, DEFINITIONS.chat.accepted, notes);
    const [kept, short = ''] = namesOf(renamed);
    assert.equal(kept, 'short');
    assert.match(short, /^mcp__a_server_with_a_long_name__.*_[0-9a-f]{8}$/);
    assert.equal(short.length, 64);
    assert.deepEqual(renamed.tool_choice, { kind: 'tool', name: short });
    assert.deepEqual(renamed.turns[0]!.parts[1], { ...call, name: short });
    assert.equal(restore(short), LONG);
    assert.equal(restore('short'), 'short');
    assert.deepEqual(notes.names, ['tool_name']);
  });

  it('is the same in every request, so that the prompt stays cached', () => {
    const once = renameTools(conversation([LONG]), DEFINITIONS.chat.accepted, new Notes());
    const again = renameTools(conversation(['other', LONG]), DEFINITIONS.responses.accepted, new Notes());
    assert.deepEqual(namesOf(once.conversation), namesOf(again.conversation).slice(1));
  });

  it('stays whole for an upstream that supports 128', () => {
    const asked = conversation([LONG]);
    assert.equal(renameTools(asked, DEFINITIONS.messages.accepted, new Notes()).conversation, asked);
  });
});

it('leaves a conversation alone whose names all fit, and notes nothing', () => {
  const notes = new Notes();
  const asked = conversation(['a', 'b-2', 'C_3'.padEnd(64, 'x')]);
  assert.equal(renameTools(asked, DEFINITIONS.chat.accepted, notes).conversation, asked);
  assert.deepEqual(notes.names, []);
});

it('sends the first of two tools with one name', () => {
  const notes = new Notes();
  const asked = conversation(['find', 'other', 'find']);
  const { conversation: sent } = renameTools(asked, DEFINITIONS.chat.accepted, notes);
  assert.deepEqual([sent.tools, notes.names], [asked.tools.slice(0, 2), ['duplicate_tool']]);
});

it('gives different tools different names within the limit, and restores each, with any names', () => {
  const name = fc.oneof(
    fc.string({ maxLength: 80 }),
    fc.constantFrom(LONG, `${LONG}x`, `${LONG.slice(0, 55)}_deadbeef`, 'a.b', 'a/b', 'a_b', '', '__proto__'),
  );
  fc.assert(
    fc.property(fc.uniqueArray(name), fc.constantFrom('messages', 'chat', 'responses'), (names, to) => {
      const { accepted } = DEFINITIONS[to];
      const { conversation: renamed, restore } = renameTools(conversation(names), accepted, new Notes());
      const short = namesOf(renamed);
      assert.equal(new Set(short).size, names.length);
      for (const one of short) assert.match(one, to === 'messages' ? /^[\w-]{1,128}$/ : /^[\w-]{1,64}$/);
      assert.deepEqual(short.map(restore), names);
      // A second request that has the shortened name as a real one must not lose it.
      const both = [...new Set([...names, ...short])];
      const second = renameTools(conversation(both), accepted, new Notes());
      assert.deepEqual(namesOf(second.conversation).map(second.restore), both);
    }),
  );
});

/** The request at the upstream, and its notes. */
function asked(from: Protocol, to: Protocol, more: object, sampling = true) {
  const { json, notes } = translate(from, to, false, more, { max_output_tokens: 1000, thinking: 'none', sampling });
  return { body: JSON.parse(json) as Record<string, unknown>, notes: notes.names };
}

const boundOf = (protocol: Protocol): string => DEFINITIONS[protocol].output.fields[0];

test("requests no more tokens than the model's maximum from an upstream", () => {
  for (const { from, to } of PAIRS) {
    const above = asked(from, to, { [boundOf(from)]: 1001 });
    assert.equal(above.body[boundOf(to)], 1000, `${from} to ${to}`);
    assert.ok(above.notes.includes('output_bound'));
    const within = asked(from, to, { [boundOf(from)]: 1000 });
    assert.equal(within.body[boundOf(to)], 1000);
    assert.ok(!within.notes.includes('output_bound'));
  }
});

test('a number that no JSON has is rejected', () => {
  const refusal = { code: 'invalid_request', details: { param: 'temperature' } };
  assert.throws(() => translate('chat', 'messages', false, { temperature: Infinity }), refusal);
});

test('a model without sampling parameters gets none, for any two protocols', () => {
  for (const { from, to } of PAIRS) {
    for (const more of [{ temperature: 0.3 }, { top_p: 0.9 }]) {
      const key = Object.keys(more)[0]!;
      const refusing = asked(from, to, more, false);
      assert.equal(refusing.body[key], undefined, `${from} to ${to}`);
      assert.ok(refusing.notes.includes('no_sampling'));
      const taking = asked(from, to, more);
      assert.notEqual(taking.body[key], undefined);
      assert.ok(!taking.notes.includes('no_sampling'));
    }
    assert.ok(!asked(from, to, {}, false).notes.includes('no_sampling'));
  }
  assert.equal(asked('chat', 'messages', { top_k: 5 }, false).body.top_k, undefined);
});

const texts = fc.oneof(anyText(), fc.string(), fc.constantFrom('"', '\\', '\n\\"u0041', '🙂\ud83d'));

function decode(pieces: readonly string[]): string {
  const decoder = new FreeTextDecoder();
  return pieces.map((piece) => decoder.push(piece)).join('') + decoder.end();
}

test('a text is extracted from its arguments, cut anywhere', () => {
  fc.assert(
    fc.property(texts, places, (text, at) => {
      assert.equal(decode(cut(freeTextArguments(text), at)), text);
      assert.equal(freeTextOf(freeTextArguments(text)), text);
    }),
  );
});

test('pieces of a text form the arguments of the whole text', () => {
  fc.assert(
    fc.property(texts, places, (text, at) => {
      const pieces = cut(text, at).map(escapeFreeText);
      assert.equal(freeTextOf(FREE_TEXT_START + pieces.join('') + FREE_TEXT_END), text);
    }),
  );
});

test('arguments are decoded however the model spaces and escapes them', () => {
  assert.equal(decode([' { "input" :', ' "a\\u00', 'e4\\', '/b\\n" , "x": 1}']), 'aä/b\n');
});

test('text is known before the arguments are complete', () => {
  const decoder = new FreeTextDecoder();
  assert.equal(decoder.push('{"input":"*** Begin'), '*** Begin');
  assert.equal(decoder.push(' Patch\\'), ' Patch');
  assert.equal(decoder.push('nx'), '\nx');
});

test('arguments of another form are read whole, and are the text where they contain none', () => {
  assert.equal(decode(['{"reason":"because of this and of that and of more things than fit","in', 'put":"ab"}']), 'ab');
  assert.equal(decode(['{"in', 'put":7}']), '{"input":7}');
  assert.equal(decode(['plain words']), 'plain words');
  assert.equal(decode([]), '');
});

/** The extra chunk with usage is taken out of a stream of chat completions, and nothing else. */

const USAGE = { prompt_tokens: 10, completion_tokens: 7, total_tokens: 17 };

function chunk(value: object, end = '\n'): string {
  return `data: ${JSON.stringify({ object: 'chat.completion.chunk', ...value })}${end}${end}`;
}

function through(bytes: Buffer, sizes: readonly number[] = []): Buffer {
  const converter = withoutUsageChunk();
  const parts: Buffer[] = [];
  let at = 0;
  for (const size of [...sizes, bytes.length]) {
    parts.push(Buffer.from(converter.write(bytes.subarray(at, at + size))));
    at += size;
  }
  return Buffer.concat([...parts, Buffer.from(converter.end())]);
}

const text = (parts: readonly string[], sizes?: readonly number[]) =>
  through(Buffer.from(parts.join('')), sizes).toString();

describe('the chunk with usage', () => {
  const said = chunk({ choices: [{ index: 0, delta: { content: 'Hi' } }], usage: null });
  const done = 'data: [DONE]\n\n';

  it('is recognised however it is spaced, and over several lines', () => {
    assert.equal(text([said, 'data: { "usage" : {"prompt_tokens":1}, "choices" : [ ] }\n\n', done]), said + done);
    assert.equal(text([said, 'data: {"choices":[],\ndata: "usage":{"prompt_tokens":1}}\n\n', done]), said + done);
    assert.equal(text([said, `event: x\nid: 1\n${chunk({ choices: [], usage: USAGE })}`, done]), said + done);
  });

  it('is removed at the very end, even without its blank line', () => {
    assert.equal(text([said, chunk({ choices: [], usage: USAGE }).trimEnd()]), said);
  });

  it('stays when it contains something else, too', () => {
    for (const kept of [
      chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: USAGE }),
      chunk({ choices: [], usage: null }),
      chunk({ choices: [], prompt_filter_results: [] }),
      chunk({ choices: [{ index: 0, delta: { content: '{"choices":[],"usage":{}}' } }] }),
      'data: {"choices":[],"usage":{broken}\n\n',
      ': "choices":[] "usage":{}\n\n',
      'data: null\n\ndata: ["choices":[]]\n\n',
    ]) {
      assert.equal(text([said, kept, done]), said + kept + done);
    }
  });
});

it('passes an event on as soon as it is complete, and buffers the rest', () => {
  const converter = withoutUsageChunk();
  const said = chunk({ choices: [{ index: 0, delta: { content: 'Hi' } }] });
  assert.equal(String(converter.write(Buffer.from(said))), said);
  assert.equal(String(converter.write(Buffer.from(said.slice(0, 20)))), '');
  assert.equal(String(converter.write(Buffer.from(said.slice(20) + said))), said + said);
});

it('gives up on an event without end instead of filling memory', () => {
  const converter = withoutUsageChunk();
  const long = Buffer.alloc(1024 * 1024 + 1, 'x');
  assert.equal(converter.write(long).length, long.length);
  assert.equal(String(converter.write(Buffer.from('more'))), 'more');
  assert.equal(String(converter.end()), '');
});

it('looks at a long event in many pieces once, not for each of them', (t) => {
  const converter = withoutUsageChunk();
  const long = Buffer.from(chunk({ choices: [{ delta: { content: 'x'.repeat(100_000) } }] }));
  const concat = t.mock.method(Buffer, 'concat');
  let passed = 0;
  for (let i = 0; i < long.length; i += 40) passed += converter.write(long.subarray(i, i + 40)).length;
  const looked_at = concat.mock.calls.reduce((sum, { result }) => sum + result!.length, 0);
  assert.equal(passed, long.length);
  assert.ok(looked_at < 4 * long.length, `${looked_at} bytes`);
});

it('leaves every other byte, whatever the ends of lines and however the stream is cut', () => {
  const content = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('"choices":[]', '\n\n', '\r\n\r\n', 'usage'),
  );
  const end = fc.constantFrom('\n', '\r\n', '\r');
  const event = fc.oneof(
    fc.record({ kept: fc.constant(true), value: fc.record({ choices: fc.tuple(fc.record({ delta: content })) }) }),
    fc.record({ kept: fc.constant(true), value: fc.record({ choices: fc.constant([]), usage: fc.constant(null) }) }),
    fc.record({ kept: fc.constant(false), value: fc.constant({ choices: [], usage: USAGE }) }),
  );
  const stream = fc.tuple(end, fc.array(event), fc.boolean());
  fc.assert(
    fc.property(stream, fc.array(fc.integer({ min: 1, max: 60 })), ([line_end, events, done], sizes) => {
      const last = done ? [`data: [DONE]${line_end}${line_end}`] : [];
      const all = [...events.map(({ value }) => chunk(value, line_end)), ...last].join('');
      const kept = events.filter((one) => one.kept).map(({ value }) => chunk(value, line_end));
      const wanted = [...kept, ...last].join('');
      assert.equal(through(Buffer.from(all), sizes).toString(), wanted);
    }),
    { numRuns: times(150) },
  );
});

/** A response of Responses repeats the settings, tools and instructions of its request, and never its input. */

it('repeats sampling, limits, metadata and how the model is to reason and write', () => {
  const repeated = {
    ...{ temperature: 0.2, top_p: 0.9, max_output_tokens: 100, parallel_tool_calls: false, tool_choice: 'required' },
    ...{ metadata: { run: '7' }, user: 'u1', truncation: 'disabled' },
    ...{ reasoning: { effort: 'high', summary: 'auto' }, text: { format: { type: 'text' }, verbosity: 'low' } },
  };
  assert.deepEqual(echoOf({ ...repeated, model: 'm' }), repeated);
});

it('repeats instructions, tools and formats unchanged, and no input', () => {
  const repeated = {
    instructions: 'Be kind.',
    tools: [{ type: 'function', name: 'look', parameters: { type: 'object' } }],
    tool_choice: { type: 'function', name: 'look' },
    text: { format: { type: 'json_schema', name: 'a', schema: { a: 'b' } } },
    prompt_cache_key: 'a-session',
  };
  assert.deepEqual(echoOf({ ...repeated, model: 'm', input: 'secret', prompt: { id: 'secret' } }), repeated);
});

it('leaves out instructions that are too long to be repeated', () => {
  const context = { ...ANSWER_CONTEXT, echo: { instructions: 'x'.repeat(2_000_000), user: 'u1' } };
  const writer = DEFINITIONS.responses.adapter.createWriter(context, new Notes());
  const { instructions, user } = eventsIn(writer.write({ type: 'start' }))[0]!.data.response;
  assert.deepEqual([instructions, user], [null, 'u1']);
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
