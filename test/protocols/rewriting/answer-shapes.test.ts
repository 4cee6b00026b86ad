/** Shapes of responses that adapters never write, and their texts. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { rewriteAnswer } from '../../../engine/domain/protocols/rewriting.ts';
import { ADDRESSES, rewriterOf } from './rewriting.ts';

const X = '[address]';
const ANN = 'ann@example.com';

function events(protocol: string, sent: readonly object[]) {
  const rewriter = rewriterOf(protocol);
  const said = sent.flatMap((event) => rewriter.event(undefined, JSON.stringify(event)));
  return [...said, ...rewriter.flush()].map(({ data }) => JSON.parse(data));
}

/** What becomes of a stream whose bytes come one by one. */
function passed(text: string, protocol: string): string {
  const converter = rewriteAnswer('text/event-stream; charset=utf-8', rewriterOf(protocol));
  const bytes = [...Buffer.from(text)].map((byte) => String(converter.write(Buffer.of(byte))));
  return bytes.join('') + String(converter.end());
}

describe('the bytes of a stream', () => {
  test('may have lines of any kind, several of data, and no blank line at the end', () => {
    for (const end of ['\n', '\r\n', '\r']) {
      const text = [': hi', '', 'id: 1', `data: {"choices":[],`, `data: "x":"${ANN}"}`, '', 'data: [DONE]'].join(end);
      const expected = `: hi\n\nid: 1\ndata: {"choices":[],\ndata: "x":"${X}"}\n\ndata: [DONE]\n\n`;
      assert.equal(passed(text, 'chat'), expected);
    }
  });

  test('that are no JSON are one text', () => {
    assert.equal(passed(`data: to ${ANN}\n\n`, 'chat'), `data: to ${X}\n\n`);
  });
});

test('rejects a response nested without end, or of endless texts, at once', () => {
  const deep = `${'["a",'.repeat(500_000)}1${']'.repeat(500_000)}`;
  for (const protocol of ['messages', 'chat', 'responses'])
    assert.throws(() => rewriterOf(protocol).document(deep), /nested too deeply/);
  const many = Array.from({ length: 1001 }, (_, index) => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'text_delta', text: 'a' },
  }));
  assert.throws(() => events('messages', many), /too many strings/);
});

test('numbers and words may be of any type', () => {
  const odd = { toString: null };
  const said = events('messages', [
    { type: 'content_block_delta', index: odd, delta: { type: 'text_delta', text: 'ann@' } },
    { type: 'content_block_delta', index: odd, delta: { type: 'text_delta', text: 'example.com' } },
  ]);
  const shown = said.map(({ delta }) => delta.text).join('');
  assert.equal(shown, X);
  const rewriter = rewriterOf('chat');
  rewriter.event('chunk', JSON.stringify({ type: odd, choices: [{ index: 0, delta: { content: 'ann@' } }] }));
  const names = rewriter.flush().map(({ name }) => name);
  assert.deepEqual(names, ['chunk']);
});

test('rejects a response without texts', () => {
  for (const type of ['image/png', 'application/octet-stream', 'audio/mpeg'])
    assert.throws(() => rewriteAnswer(type, rewriterOf('none')), /cannot be rewritten/);
  assert.throws(() => rewriteAnswer('text/event-stream', rewriterOf('none')), /cannot be rewritten/);
  const text = JSON.stringify({ anything: [ANN] });
  assert.equal(rewriterOf('none', ADDRESSES).document(text), text.replace(ANN, X));
});

describe('what stands around the events of a stream', () => {
  const stream = (text: string) => passed(text, 'messages');

  test('is looked through: comments, names, ids and fields of tomorrow', () => {
    for (const line of [': to ANN', 'event: ANN', 'id: ANN', 'note: ANN', ':ANN'])
      assert.equal(stream(`${line.replace('ANN', ANN)}\ndata: {}\n\n`), `${line.replace('ANN', X)}\ndata: {}\n\n`);
    assert.equal(stream(`: to ${ANN}\n\n`), `: to ${X}\n\n`);
  });

  test('stay unchanged where there is nothing to replace', () => {
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
