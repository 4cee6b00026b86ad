import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainListenError } from '../../../engine/base/kit/net/listen-error.ts';

test('a port in use is unavailable, a forbidden one and a foreign address are mistakes of the configuration', () => {
  const busy =
    /^example\.com:80 is in use by another program; stop it, or set server\.listen in gateway\.yaml to a free port$/;
  const wrong = /^.*example\.com:80.*server\.listen.*$/;
  for (const [code, exit_code, message] of [
    ['EADDRINUSE', 69, busy],
    ['EACCES', 78, wrong],
    ['EADDRNOTAVAIL', 78, wrong],
    ['ENOTFOUND', 78, wrong],
    ['EMFILE', 69, /cannot listen on .*EMFILE/],
  ] as const) {
    const error = explainListenError(Object.assign(new Error(`listen ${code}`), { code }), 'example.com:80');
    assert.match(error.message, message);
    assert.equal(error.exit_code, exit_code, code);
  }
});
