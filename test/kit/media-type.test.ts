/** What the type of a body says, in every way it can be written. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isEventStream, isJson, isPlain, jsonTypeProblem } from '../../engine/base/kit/media-type.ts';

describe('the type of a request body', () => {
  it('is JSON in UTF-8, however that is written, or not stated', () => {
    for (const type of [
      ...[
        undefined,
        'application/json',
        'APPLICATION/JSON',
        ' application/json ',
        'application/vnd.api+json',
        'text/json',
      ],
      ...['application/json; charset=utf-8', 'application/json;charset=UTF-8', 'application/json; Charset="utf-8"'],
      ...['application/json ; charset=utf8;', 'application/json; profile="x;charset=utf-7"', 'application/json;;v=1'],
    ]) {
      assert.equal(jsonTypeProblem(type), undefined, type);
    }
  });

  it('is rejected in another charset, or with a duplicate or malformed one', () => {
    for (const charset of [
      ...[
        'charset=utf-7',
        'charset=UTF-16LE',
        'charset="utf-16"',
        'charset=',
        'charset',
        'charset = utf-7',
        'CHARSET=latin1',
      ],
      ...[
        'charset=utf-8; charset=utf-7',
        'charset=utf-8;charset=utf-8',
        "charset*=utf-8''utf-7",
        'v="a\\"";charset=utf-7',
      ],
      ...['charset=utf-8-x', 'charset=utf-8 utf-7', 'charset="utf-8', "charset='utf-8'"],
    ]) {
      assert.equal(jsonTypeProblem(`application/json; ${charset}`), 'charset', charset);
    }
  });

  it('is rejected where it is not JSON', () => {
    for (const type of [
      ...[
        'application/x-www-form-urlencoded',
        'multipart/form-data; boundary=x',
        'text/plain',
        'text/html',
        '',
        'json',
        '+json',
      ],
      ...[
        'application/json, text/plain',
        'application/jsonx',
        'application/xml; a=application/json',
        'application/json/x',
      ],
      ...['text/plain; application/json', 'application/+json x', 'application / json'],
    ]) {
      assert.equal(jsonTypeProblem(type), 'type', type);
    }
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
