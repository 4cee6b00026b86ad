/** What the type of a body says, in every way it can be written. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isEventStream, isJson, isPlain, jsonTypeProblem } from '../../engine/base/kit/media-type.ts';

const listed = (text: string) => text.split(' | ');

describe('the type of a request body', () => {
  it('is JSON in UTF-8, however that is written, or not stated', () => {
    const plain = listed(
      'application/json | APPLICATION/JSON |  application/json  | application/vnd.api+json | text/json',
    );
    const charsets = listed('; charset=utf-8 | ;charset=UTF-8 | ; Charset="utf-8" |  ; charset=utf8; | ;;v=1');
    const json = charsets.map((charset) => `application/json${charset}`);
    for (const type of [undefined, ...plain, ...json, 'application/json; profile="x;charset=utf-7"'])
      assert.equal(jsonTypeProblem(type), undefined, type);
  });

  it('is rejected in another charset, or with a duplicate or malformed one', () => {
    const others = listed('charset=utf-7 | charset=UTF-16LE | charset="utf-16" | CHARSET=latin1 | charset=utf-8-x');
    const malformed = listed('charset= | charset | charset = utf-7 | charset=utf-8 utf-7 | charset="utf-8');
    const more = ["charset*=utf-8''utf-7", "charset='utf-8'", 'v="a\\"";charset=utf-7'];
    const twice = listed('charset=utf-8; charset=utf-7 | charset=utf-8;charset=utf-8');
    for (const charset of [...others, ...malformed, ...more, ...twice])
      assert.equal(jsonTypeProblem(`application/json; ${charset}`), 'charset', charset);
  });

  it('is rejected where it is not JSON', () => {
    const others = listed(
      'application/x-www-form-urlencoded | multipart/form-data; boundary=x | text/plain |  | json | +json',
    );
    const alike = listed('application/json, text/plain | application/jsonx | application/json/x | application / json');
    const around = listed('application/xml; a=application/json | text/plain; application/json | application/+json x');
    for (const type of [...others, ...alike, ...around]) assert.equal(jsonTypeProblem(type), 'type', type);
  });
});

it('the type of a response is compared without case', () => {
  for (const type of ['text/event-stream', 'Text/Event-Stream; charset=UTF-8', 'TEXT/EVENT-STREAM ;x=1']) {
    assert.equal(isEventStream(type), true, type);
  }
  for (const type of [undefined, '', 'application/json', 'text/event-streams', 'text/plain; x=text/event-stream']) {
    assert.equal(isEventStream(type), false, type);
  }
  assert.equal(isJson('Application/Problem+JSON'), true);
  assert.deepEqual([undefined, 'Identity', ' identity', ''].map(isPlain), [true, true, true, true]);
  assert.deepEqual(['gzip', 'identity, gzip'].map(isPlain), [false, false]);
});
