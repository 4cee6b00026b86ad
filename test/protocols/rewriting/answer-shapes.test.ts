/** Shapes of answers that adapters never write, and what becomes of texts in them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Rewriting } from '../../../engine/api.ts';
import { textsOf } from '../../../engine/protocols/definitions.ts';
import { AnswerRewriter, compileRewriting, rewriteAnswer } from '../../../engine/protocols/rewriting.ts';
import { ADDRESSES, WORDS } from './rewriting.ts';

const MARK = 'gw:messages@main:none::';
const X = '[address]';
const ANN = 'ann@example.com';

const rewriterOf = (protocol: string, rewriting: Rewriting = WORDS) =>
  new AnswerRewriter(textsOf(protocol), [{ id: 'a', rewriting: compileRewriting(rewriting) }], MARK);

function events(protocol: string, sent: readonly unknown[], rewriting: Rewriting = WORDS) {
  const rewriter = rewriterOf(protocol, rewriting);
  const got = sent.flatMap((event) =>
    rewriter.event(undefined, typeof event === 'string' ? event : JSON.stringify(event)),
  );
  const rest = rewriter.flush();
  const said = [...got, ...rest].map(({ data }) => (data === '[DONE]' ? data : JSON.parse(data)));
  return { said, replaced: rewriter.replaced.get('a') ?? 0 };
}

function document(protocol: string, sent: unknown, rewriting: Rewriting = WORDS) {
  const rewriter = rewriterOf(protocol, rewriting);
  return { said: JSON.parse(rewriter.document(JSON.stringify(sent))), replaced: rewriter.replaced.get('a') ?? 0 };
}

describe('messages', () => {
  const delta = (index: number, fields: object) => ({ type: 'content_block_delta', index, delta: fields });

  test('texts of blocks that overlap are told apart', () => {
    const { said } = events('messages', [
      delta(0, { type: 'text_delta', text: 'ann@' }),
      delta(1, { type: 'text_delta', text: 'bob' }),
      delta(0, { type: 'text_delta', text: 'example.com' }),
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_stop', index: 1 },
    ]);
    const flushed = said.filter(({ type, delta: { text } = {} }) => type === 'content_block_delta' && text !== '');
    assert.deepEqual(flushed, [
      delta(0, { type: 'text_delta', text: X }),
      delta(1, { type: 'text_delta', text: 'bob' }),
    ]);
  });

  test('citations, results of tools and blocks of tomorrow are looked through', () => {
    const { said, replaced } = events('messages', [
      delta(0, { type: 'citations_delta', citation: { type: 'char_location', cited_text: ANN, document_title: ANN } }),
      delta(1, { type: 'poem_delta', verse: 'ann@ex' }),
      delta(1, { type: 'poem_delta', verse: 'ample.com' }),
      { type: 'content_block_stop', index: 1 },
      {
        type: 'content_block_start',
        index: 2,
        content_block: {
          type: 'web_search_tool_result',
          content: [{ url: `https://x/${ANN}`, encrypted_content: ANN }],
        },
      },
    ]);
    assert.deepEqual(said[0].delta.citation, { type: 'char_location', cited_text: X, document_title: X });
    assert.deepEqual(said[3], delta(1, { type: 'poem_delta', verse: X }));
    assert.equal(said[5].content_block.content[0].encrypted_content, ANN);
    assert.doesNotMatch(said[5].content_block.content[0].url, /ann@/);
    assert.equal(replaced, 4);
  });

  test('a document keeps every byte beside its texts, and numbers that no double can hold', () => {
    const text = `{ "content" : [ {"type":"tool_use","id":"${ANN}","name":"f","input":{"n":12345678901234567890,"${ANN}":"${ANN}"}} ] }`;
    assert.equal(
      rewriterOf('messages').document(text),
      `{ "content" : [ {"type":"tool_use","id":"${ANN}","name":"f","input":{"n":12345678901234567890,"${X}":"${X}"}} ] }`,
    );
  });

  test('the proof of a thought is marked where the thought was changed, and only there', () => {
    const thought = (thinking: string, signature: string) => ({ type: 'thinking', thinking, signature });
    const content = [thought(ANN, 's1'), thought('nobody', 's2'), thought(ANN, ''), thought(ANN, 'gw:chat@x:none::')];
    assert.deepEqual(document('messages', { content }).said.content, [
      thought(X, MARK),
      thought('nobody', 's2'),
      thought(X, ''),
      thought(X, 'gw:chat@x:none::'),
    ]);
    const { said } = events('messages', [
      { type: 'content_block_start', index: 0, content_block: thought('', '') },
      delta(0, { type: 'thinking_delta', thinking: `${ANN} ` }),
      delta(0, { type: 'signature_delta', signature: 's1' }),
      delta(1, { type: 'signature_delta', signature: 's2' }),
    ]);
    assert.deepEqual(
      said.slice(2).map((event) => event.delta.signature),
      [MARK, 's2'],
    );
    const late = events('messages', [
      { type: 'content_block_start', index: 0, content_block: thought('', '') },
      delta(0, { type: 'thinking_delta', thinking: `so ${ANN}` }),
      delta(0, { type: 'signature_delta', signature: 's1' }),
      { type: 'content_block_stop', index: 0 },
    ]);
    assert.deepEqual(
      late.said.slice(1, -1).map(({ delta }) => delta),
      [
        { type: 'thinking_delta', thinking: 'so ' },
        { type: 'thinking_delta', thinking: X },
        { type: 'signature_delta', signature: MARK },
      ],
      'all of a thought comes before its proof',
    );
    const kept = document('messages', { content }, { ...WORDS, kinds: ['text'] });
    assert.deepEqual([kept.said.content, kept.replaced], [content, 0]);
  });
});

describe('chat', () => {
  const chunk = (delta: object, more: object = {}) => ({
    id: 'c',
    choices: [{ index: 0, delta, finish_reason: null, ...more }],
  });

  test('what waits of a thought comes before the text, and what waits of a text before the end', () => {
    const { said, replaced } = events('chat', [
      chunk({ role: 'assistant', reasoning_content: `so ${ANN}` }),
      chunk({ content: 'ann@' }),
      chunk({ content: 'example.com' }),
      chunk({}, { finish_reason: 'stop' }),
      '[DONE]',
    ]);
    assert.deepEqual(
      said.map((event) => (event === '[DONE]' ? event : event.choices[0].delta)),
      [
        { role: 'assistant', reasoning_content: 'so ' },
        { reasoning_content: X },
        { content: '' },
        { content: '' },
        { content: X },
        {},
        '[DONE]',
      ],
    );
    assert.equal(replaced, 2);
  });

  test('a text may end in the chunk that says so', () => {
    const { said } = events('chat', [
      chunk({ content: 'ann@' }),
      chunk({ content: 'example.com' }, { finish_reason: 'stop' }),
    ]);
    assert.deepEqual(
      said.map((event) => event.choices[0].delta.content),
      ['', X],
    );
  });

  test('choices and calls are told apart, and names of calls are said once', () => {
    const call = (index: number, args: string, more: object = {}) => ({
      tool_calls: [{ index, function: { ...more, arguments: args } }],
    });
    const { said } = events('chat', [
      chunk(call(0, '{"a":"ann@', { name: 'f' })),
      chunk(call(1, '{"b":"x', { name: 'g' })),
      { choices: [{ index: 1, delta: { content: ANN }, finish_reason: null }] },
      chunk(call(0, 'example.com"}')),
      chunk(call(1, ' "}')),
      chunk({}, { finish_reason: 'tool_calls' }),
    ]);
    const all = said.flatMap(({ choices }) => choices);
    const args = (wanted: number) =>
      all
        .flatMap(({ delta }) => delta.tool_calls ?? [])
        .filter(({ index }) => index === wanted)
        .map((one) => one.function);
    assert.equal(
      args(0)
        .map((one) => one.arguments)
        .join(''),
      `{"a":"${X}"}`,
    );
    assert.equal(
      args(1)
        .map((one) => one.arguments)
        .join(''),
      '{"b":"x "}',
    );
    assert.deepEqual(
      [...args(0), ...args(1)].flatMap(({ name }) => name ?? []),
      ['f', 'g'],
    );
    const other = all.filter(({ index }) => index === 1).map(({ delta }) => delta.content);
    assert.deepEqual(other, ['', X]);
  });

  test('probabilities of tokens are taken out, which would tell the text once more', () => {
    const logprobs = { content: [{ token: 'ann', logprob: -1 }] };
    assert.equal(events('chat', [chunk({ content: 'x ' }, { logprobs })]).said[0].choices[0].logprobs, null);
    const choices = [{ index: 0, message: { content: ANN, audio: { data: 'a@b.co', transcript: ANN } }, logprobs }];
    const { message, ...rest } = document('chat', { choices }).said.choices[0];
    assert.deepEqual(message, { content: X, audio: { data: 'a@b.co', transcript: X } });
    assert.deepEqual(rest, { index: 0, logprobs: null });
  });
});

test('old completions say their text in another place', () => {
  const piece = (text: string, finish_reason: string | null = null) => ({
    choices: [{ index: 0, text, finish_reason }],
  });
  const { said } = events('chat', [piece('ann@'), piece('example'), piece('.com', 'stop')]);
  assert.deepEqual(said, [piece(''), piece(''), piece(X, 'stop')]);
  const [, , rest] = events('chat', [piece('ann@'), piece('example.com')]).said;
  assert.deepEqual(rest, piece(X));
  assert.deepEqual(document('chat', piece(`a ${ANN}`)).said, piece(`a ${X}`));
});

describe('responses', () => {
  test('what is said several times counts once, also where no pieces of it come', () => {
    const part = { type: 'output_text', text: `${ANN} ${ANN}`, annotations: [] };
    const item = { type: 'message', id: 'm', content: [part] };
    const told = [
      { type: 'response.output_text.done', item_id: 'm', output_index: 0, content_index: 0, text: part.text },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: { object: 'response', instructions: ANN, output: [item] } },
    ];
    const { said, replaced } = events('responses', told);
    assert.equal(replaced, 2);
    assert.doesNotMatch(JSON.stringify([said[0], said[1], said[2].response.output]), /ann@/);
    assert.equal(said[2].response.instructions, ANN);
  });

  test('a translated signature is marked where its thought was changed, and what else is encrypted is left alone', () => {
    const thought = (text: string, encrypted_content: string) => ({
      type: 'reasoning',
      summary: [{ type: 'summary_text', text }],
      encrypted_content,
    });
    const signed = 'gw:messages@main:signature::c2ln';
    const state = `gw:chat@x/abc:state::{"message":{"reasoning_details":[{"text":"${ANN}"}]}}`;
    const opaque = ['gAAA', 'gw:responses@x:encrypted:rs_1:gAAA', 'gw:chat@x:none::'];
    const output = [
      thought(ANN, signed),
      thought(ANN, state),
      thought('nobody', signed),
      ...opaque.map((proof) => thought(ANN, proof)),
    ];
    const expected = [
      thought(X, MARK),
      thought(X, MARK),
      thought('nobody', signed),
      ...opaque.map((proof) => thought(X, proof)),
    ];
    assert.deepEqual(document('responses', { object: 'response', output }).said.output, expected);
    const { said } = events('responses', [
      ...output.map((item, output_index) => ({ type: 'response.output_item.done', output_index, item })),
      { type: 'response.completed', response: { object: 'response', output } },
    ]);
    assert.deepEqual(
      said.slice(0, -1).map(({ item }) => item),
      expected,
    );
    assert.deepEqual(said.at(-1).response.output, expected);
  });

  test('arguments, programs and pieces of tomorrow are looked through, pictures and sounds are not', () => {
    const { said, replaced } = events('responses', [
      { type: 'response.mcp_call_arguments.delta', item_id: 'a', output_index: 0, delta: '{"to":"ann@' },
      { type: 'response.mcp_call_arguments.delta', item_id: 'a', output_index: 0, delta: 'example.com"}' },
      { type: 'response.poem.delta', item_id: 'p', output_index: 1, delta: 'ann@example' },
      { type: 'response.poem.delta', item_id: 'p', output_index: 1, delta: '.com' },
      { type: 'response.output_item.done', output_index: 1, item: { type: 'poem', id: 'p', verse: ANN } },
      { type: 'response.audio.delta', delta: 'ann@example.com' },
      {
        type: 'response.completed',
        response: {
          output: [
            { type: 'code_interpreter_call', code: `mail("${ANN}")` },
            { type: 'image_generation_call', result: ANN, revised_prompt: ANN },
            { type: 'mcp_call', arguments: `{"to":"${ANN}"}`, output: ANN, error: { code: ANN, message: ANN } },
          ],
        },
      },
    ]);
    const args = said.filter(({ type }) => type === 'response.mcp_call_arguments.delta').map(({ delta }) => delta);
    assert.deepEqual(args, ['', '', `{"to":"${X}"}`], 'arguments come when they are whole');
    assert.deepEqual([said[4].type, said[4].delta, said[5].item.verse], ['response.poem.delta', X, X]);
    assert.equal(said[6].delta, ANN);
    const [program, picture, call] = said.at(-1).response.output;
    assert.equal(program.code, `mail("${X}")`);
    assert.deepEqual([picture.result, picture.revised_prompt], [ANN, X]);
    assert.deepEqual([call.arguments, call.output, call.error.message], [`{"to":"${X}"}`, X, X]);
    assert.ok(replaced >= 2);
  });
});

describe('the bytes of a stream', () => {
  const passed = (text: string, protocol = 'chat'): string => {
    const converter = rewriteAnswer('text/event-stream; charset=utf-8', rewriterOf(protocol));
    const bytes = [...Buffer.from(text)].map((byte) => String(converter.write(Buffer.of(byte))));
    return bytes.join('') + String(converter.end());
  };

  test('may have lines of any kind, several of data, and no blank line at the end', () => {
    for (const end of ['\n', '\r\n', '\r']) {
      const text = [': hi', '', 'id: 1', `data: {"choices":[],`, `data: "x":"${ANN}"}`, '', 'data: [DONE]'].join(end);
      const expected = `: hi\n\nid: 1\ndata: {"choices":[],\ndata: "x":"${X}"}\n\ndata: [DONE]\n\n`;
      assert.equal(passed(text), expected);
    }
  });

  test('that are no JSON are one text', () => {
    assert.equal(passed(`data: to ${ANN}\n\n`), `data: to ${X}\n\n`);
  });
});

test('an answer nested without end, or of texts without end, is refused at once', () => {
  const deep = `${'["a",'.repeat(500_000)}1${']'.repeat(500_000)}`;
  for (const protocol of ['messages', 'chat', 'responses'])
    assert.throws(() => rewriterOf(protocol).document(deep), /too many levels/);
  const many = Array.from({ length: 1001 }, (_, index) => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'text_delta', text: 'a' },
  }));
  assert.throws(() => events('messages', many), /too many texts/);
});

test('what should be a number or a word may be anything', () => {
  const odd = { toString: null };
  const { said } = events('messages', [
    { type: 'content_block_delta', index: odd, delta: { type: 'text_delta', text: 'ann@' } },
    { type: 'content_block_delta', index: odd, delta: { type: 'text_delta', text: 'example.com' } },
  ]);
  const shown = said.map(({ delta }) => delta.text).join('');
  assert.equal(shown, X);
  const rewriter = rewriterOf('chat');
  rewriter.event('chunk', JSON.stringify({ type: odd, choices: [{ index: 0, delta: { content: 'ann@' } }] }));
  assert.deepEqual(
    rewriter.flush().map(({ name }) => name),
    ['chunk'],
  );
});

test('an answer that has no texts is refused', () => {
  for (const type of ['image/png', 'application/octet-stream', 'audio/mpeg'])
    assert.throws(() => rewriteAnswer(type, rewriterOf('none')), /cannot be rewritten/);
  assert.throws(() => rewriteAnswer('text/event-stream', rewriterOf('none')), /cannot be rewritten/);
  assert.equal(document('none', { anything: [ANN], id: ANN }, ADDRESSES).said.anything[0], X);
});

describe('what stands around the events of a stream', () => {
  const stream = (text: string) => {
    const converter = rewriteAnswer('text/event-stream', rewriterOf('messages'));
    return `${converter.write(Buffer.from(text)) ?? ''}${converter.end() ?? ''}`;
  };

  test('is looked through: comments, names, ids and fields of tomorrow', () => {
    for (const line of [': to ANN', 'event: ANN', 'id: ANN', 'note: ANN', ':ANN'])
      assert.equal(stream(`${line.replace('ANN', ANN)}\ndata: {}\n\n`), `${line.replace('ANN', X)}\ndata: {}\n\n`);
    assert.equal(stream(`: to ${ANN}\n\n`), `: to ${X}\n\n`);
  });

  test('stays as it is where there is nothing to replace', () => {
    for (const text of [
      ': keep-alive\n\nevent: ping\nid: 7\nretry: 10\ndata: {"type":"ping"}\n\n',
      'event: ping\n\nretry: soon\nx-trace: 7\ndata:{"type":"ping"}\nid\n\ndata\n\n:\n\n',
    ])
      assert.equal(stream(text), text);
  });

  test('hides no event behind a byte order mark', () => {
    assert.equal(stream(`\uFEFFdata: {"type":"ping","a":"${ANN}"}\n\n`), `data: {"type":"ping","a":"${X}"}\n\n`);
  });
});
