import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readRequest, withHeaders } from '../../../engine/edge/cli/explain/explain-request.ts';
import { ownDirectory } from '../../support/own-directory.ts';

const directory = ownDirectory();

function read(text: string) {
  const file = join(directory, 'request.json');
  writeFileSync(file, text);
  return readRequest(file);
}

describe('a file with a request', () => {
  it('is a plain body unless all its keys belong to a request', () => {
    for (const text of ['', 'null', '[1]', '{}', '{"model": ', '{ "model": "coder-1", "text": 1 }']) {
      assert.deepEqual(read(text), { text });
    }
  });

  it('is rejected in words for a value that fits no request', () => {
    const wrong: [unknown, RegExp][] = [
      [{ method: 5 }, /`method` must be an HTTP method/],
      [{ method: 'NOT OK' }, /`method` must be an HTTP method/],
      [{ path: 'v1/messages' }, /`path` must be a path/],
      [{ path: '/v1 messages' }, /`path` must be a path/],
      [{ headers: 'none' }, /`headers` must be a mapping/],
      [{ headers: { 'x-a': 'two\nlines' } }, /`headers` must be a mapping/],
      [{ headers: { 'not a name': 'x' } }, /`headers` must be a mapping/],
      [{ headers: { 'x-a': 5 } }, /`headers` must be a mapping/],
      [{ text: {} }, /`text` must be a string/],
      [{ text: '', json: {} }, /`json` and `text` exclude each other/],
    ];
    for (const [content, message] of wrong) {
      assert.throws(() => read(JSON.stringify(content)), { name: 'StartError', message, exit_code: 64 });
    }
    assert.throws(() => readRequest(directory), /cannot read/);
  });
});

describe('headers of the command line', () => {
  it('replace those in the file; a repeated name keeps all values', () => {
    const request = { text: '', headers: { 'x-team': 'blue', 'x-own': '1' } };
    assert.deepEqual(withHeaders(request, ['X-Team: red', 'x-team:green', 'x-empty:']).headers, {
      'x-team': 'red, green',
      'x-own': '1',
      'x-empty': '',
    });
    assert.equal(withHeaders(request, []), request);
  });

  it('are rejected if malformed, credentials or connection headers', () => {
    const wrong: [string, RegExp][] = [
      ['x-team', /expected a name, a colon and a value/],
      [': red', /expected a name, a colon and a value/],
      ['not a name: x', /expected a name, a colon and a value/],
      ['x-a: two\nlines', /expected a name, a colon and a value/],
      ['Authorization: Bearer secret', /--header authorization: a dry run needs no credential; use --user/],
      ['x-api-key: secret', /--header x-api-key: a dry run needs no credential/],
      ['Host: elsewhere', /--header host: a connection header/],
    ];
    for (const [header, message] of wrong) {
      assert.throws(() => withHeaders({}, [header]), { name: 'StartError', message, exit_code: 64 });
    }
  });
});
