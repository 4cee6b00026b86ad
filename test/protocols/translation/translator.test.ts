/** A whole response on its way from an upstream of one protocol to a client of another. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ResponseConverter } from '../../../engine/api.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { proofToText } from '../../../engine/domain/protocols/translation/made-reasoning.ts';
import { createTranslator, type Translation } from '../../../engine/domain/protocols/translation/translate.ts';
import { eventsIn, textIn } from '../../e2e/streams/streams.ts';
import { type Answer, documentOf, eventsOf } from '../../support/model-provider/model-provider.ts';
import { headOf, LONG_NAME, PAIRS, raised, translate } from './translating.ts';

function open(translation: Translation, streamed: boolean, status = 200, headers: Record<string, string> = {}) {
  const head = headOf(streamed ? 'text/event-stream' : 'application/json', status, headers);
  return { head, converter: createTranslator(translation, head) };
}

function through(converter: ResponseConverter, chunks: readonly (string | Buffer)[]): string {
  const parts = chunks.map((chunk) => String(converter.write(Buffer.from(chunk))));
  return parts.join('') + String(converter.end());
}

const SAID: Answer = {
  said: [
    { kind: 'text', text: 'Grüße aus Köln ☂' },
    { kind: 'call', name: 'weather', arguments: '{"city":"Köln"}' },
  ],
};

/** Each protocol's event for a busy upstream. */
const ERROR_EVENTS: Readonly<Record<Protocol, string>> = {
  messages: 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Busy."}}\n\n',
  chat: 'data: {"error":{"type":"server_error","code":"server_is_overloaded","message":"Busy."}}\n\n',
  responses:
    'event: response.failed\ndata: {"type":"response.failed","sequence_number":9,"response":{"id":"resp_1","status":"failed","error":{"code":"server_is_overloaded","message":"Busy."}}}\n\n',
};

for (const { from, to } of PAIRS) {
  describe(`a ${from} client of a ${to} upstream`, () => {
    it('gets a document as the requested stream', () => {
      const { head, converter } = open(translate(from, to, true), false);
      const stream = through(converter, [JSON.stringify(documentOf(to, SAID))]);
      assert.equal(head.get('content-type'), 'text/event-stream');
      assert.equal(textIn(from, eventsIn(stream)), 'Grüße aus Köln ☂');
    });

    it('has its tools called by its own names, and the upstream by names it supports', () => {
      const translation = translate(from, to, true);
      const sent = JSON.parse(translation.json) as { tools: { name?: string; function?: { name: string } }[] };
      const name = sent.tools[0]!.name ?? sent.tools[0]!.function!.name;
      assert.equal(name.length <= (to === 'messages' ? 128 : 64), true);
      const call: Answer = { said: [{ kind: 'call', name, arguments: '{}' }] };
      assert.match(through(open(translation, true).converter, [eventsOf(to, call).join('')]), new RegExp(LONG_NAME));
      const whole = open(translate(from, to, false), false).converter;
      assert.match(through(whole, [JSON.stringify(documentOf(to, call))]), new RegExp(LONG_NAME));
    });

    it('gets an error that came inside a stream as a response, where it requested a document', () => {
      const { converter } = open(translate(from, to, false), true);
      converter.write(Buffer.from(eventsOf(to, SAID).slice(0, 3).join('') + ERROR_EVENTS[to]));
      const isBusy = (error: unknown) =>
        error instanceof StageError && error.message === 'Busy.' && error.status >= 500;
      assert.throws(() => converter.end(), isBusy);
    });

    it('gets an error of the request with its status, and must not retry', () => {
      const { converter } = open(translate(from, to, false), false);
      const error = { type: 'invalid_request_error', message: 'The picture is broken.' };
      const isFinal = (raised: unknown) =>
        raised instanceof StageError && raised.status === 400 && raised.headers['x-should-retry'] === 'false';
      assert.throws(() => through(converter, [JSON.stringify({ id: 'x', error })]), isFinal);
    });

    it('gets an error response in the format of its protocol, even where the upstream sends a stream', () => {
      const { converter } = open(translate(from, to, true), true, 529);
      const body = JSON.parse(through(converter, [ERROR_EVENTS.chat])) as { error: { message: string } };
      assert.equal(body.error.message, 'Busy.');
    });

    it('does not get half a response as a whole one', () => {
      const all = eventsOf(to, SAID);
      for (const count of [0, 1, 2, Math.ceil(all.length / 2)]) {
        for (const stream of [true, false]) {
          const { converter } = open(translate(from, to, stream), true);
          converter.write(Buffer.from(all.slice(0, count).join('')));
          assert.throws(() => converter.end(), raised('upstream_failed'));
        }
      }
    });

    it('has a stream ended with an error that its parser understands', () => {
      const { converter } = open(translate(from, to, true), true);
      const all = eventsOf(to, SAID);
      const said = String(converter.write(Buffer.from(all.slice(0, all.length / 2).join(''))));
      const end = converter.fail!(new StageError('upstream_timeout', 'The upstream sent nothing for 300 seconds.'));
      const { name, data } = eventsIn(said + end).at(-1)!;
      assert.equal(name, { messages: 'error', chat: undefined, responses: 'response.failed' }[from]);
      assert.match(JSON.stringify(data), /The upstream sent nothing for 300 seconds/);
    });

    it('loses nothing sent before the stream broke, and does not get it twice', () => {
      const { converter } = open(translate(from, to, true), true);
      const [start, ...rest] = eventsOf(to, { said: [{ kind: 'text', text: 'Before.' }], piece: 7 });
      const until_said = rest.slice(0, rest.findIndex((event) => event.includes('Before.')) + 1);
      const broken = `${start}${until_said.join('')}event: content_block_delta\ndata: {"broken\n\n`;
      let said = '';
      assert.throws(() => {
        said = String(converter.write(Buffer.from(broken)));
      }, raised('upstream_invalid'));
      said += converter.fail!(new StageError('upstream_invalid', 'It broke.'));
      assert.equal(said.split('Before.').length, 2);
    });

    it('gets nothing more after the end or an error, whatever becomes of the connection', () => {
      for (const last of [eventsOf(to, SAID).join(''), eventsOf(to, SAID)[0]! + ERROR_EVENTS[to]]) {
        const { converter } = open(translate(from, to, true), true);
        converter.write(Buffer.from(last));
        assert.equal(converter.write(Buffer.from(': late\n\n')), '');
        assert.equal(converter.fail!(new StageError('upstream_failed', 'It dropped the connection.')), '');
      }
    });

    it('is shown an upstream that responds with another protocol', () => {
      for (const text of ['', 'null', '[]', '"text"', '{"a":', '<html>', '['.repeat(100_000)]) {
        for (const stream of [true, false]) {
          const { converter } = open(translate(from, to, stream), false);
          assert.throws(() => through(converter, [text]), raised('upstream_invalid'), text.slice(0, 20));
        }
      }
    });
  });
}

describe('the head of a translated response', () => {
  it("loses headers about the upstream's bytes, and keeps the rest", () => {
    const sent = { etag: '"1"', 'content-md5': 'x', digest: 'x', 'x-novelty': '1', 'retry-after': '1' };
    const { head } = open(translate('chat', 'messages', false), false, 200, sent);
    assert.deepEqual(Object.keys(head.headers).toSorted(), ['content-type', 'retry-after', 'x-novelty']);
  });

  it("has the upstream's identifier of the request where clients look for it", () => {
    const at_messages = open(translate('chat', 'messages', false), false, 200, { 'request-id': 'req_1' }).head;
    assert.equal(at_messages.get('x-request-id'), 'req_1');
    const at_chat = open(translate('messages', 'chat', false), false, 200, { 'x-request-id': 'req_2' }).head;
    assert.equal(at_chat.get('request-id'), 'req_2');
  });
});

describe('an upstream that is a gateway itself', () => {
  it('gets its own reasoning signature back, though that represents another one', () => {
    const signature = proofToText(
      { protocol: 'responses', kind: 'encrypted', id: 'rs_1', value: 'sealed' },
      { protocol: 'responses', upstream: 'inner' },
    );
    const thought = { type: 'thinking', thinking: 'Hm.', signature };
    const said = { type: 'message', content: [thought, { type: 'text', text: 'Hi' }], stop_reason: 'end_turn' };
    const { converter } = open(translate('responses', 'messages', false), false);
    const { output } = JSON.parse(through(converter, [JSON.stringify(said)]));
    const input = [...output, { role: 'user', content: 'Go on.' }];
    const { messages } = JSON.parse(translate('responses', 'messages', false, { input }).json);
    assert.deepEqual(messages.at(-2).content[0], thought);
  });
});

describe('what an upstream may send', () => {
  it('may be a comment, which keeps clients of other protocols waiting, too', () => {
    const { converter } = open(translate('messages', 'chat', true), true);
    assert.match(String(converter.write(Buffer.from(': still there\n\n'))), /^event: ping\n/);
    const chat = open(translate('chat', 'messages', true), true).converter;
    assert.match(String(chat.write(Buffer.from('event: ping\ndata: {"type":"ping"}\n\n'))), /^: ping\n\n$/);
  });

  it('may lack the blank line at the end', () => {
    for (const { from, to } of PAIRS) {
      const text = eventsOf(to, SAID).join('').trimEnd();
      assert.doesNotThrow(() => through(open(translate(from, to, true), true).converter, [text]));
    }
  });

  it('may not exceed the buffer, as a document, an event or a stream for a document', () => {
    const mebibyte = Buffer.alloc(1024 * 1024, 'x');
    for (const attempt of ['document', 'stream', 'stream for a document']) {
      const streamed = attempt !== 'document';
      const { converter } = open(translate('messages', 'chat', attempt === 'stream'), streamed);
      if (streamed) converter.write(Buffer.from('data: '));
      assert.throws(() => {
        for (let i = 0; i < 34; i++) converter.write(mebibyte);
      }, raised('upstream_invalid'));
    }
  });

  it('may not be endless, as some clients get all of it again', () => {
    for (const { from, to } of PAIRS) {
      const { converter } = open(translate(from, to, true), true);
      const events = eventsOf(to, { said: [{ kind: 'text', text: 'x'.repeat(100_000) }], piece: 100_000 });
      const place = events.findIndex((event) => event.includes('xxx'));
      for (const event of events.slice(0, place)) converter.write(Buffer.from(event));
      const piece = Buffer.from(events[place]!);
      assert.throws(() => {
        for (let i = 0; i < 400; i++) converter.write(piece);
      }, raised('upstream_invalid'));
      assert.match(String(converter.fail!(new StageError('upstream_invalid', 'It broke.'))), /It broke\./);
    }
  });
});
