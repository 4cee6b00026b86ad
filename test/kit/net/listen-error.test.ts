import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainListenError } from '../../../engine/base/kit/net/listen-error.ts';

function failing(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`listen ${code}`), { code });
}

test('a port in use is unavailable, and the line has a remedy', () => {
  const error = explainListenError(failing('EADDRINUSE'), '127.0.0.1:8080');
  assert.equal(
    error.message,
    '127.0.0.1:8080 is in use by another program; stop it, or set server.listen in gateway.yaml to a free port',
  );
  assert.equal(error.exit_code, 69);
});

test('a forbidden port and a foreign address are mistakes of the configuration', () => {
  for (const code of ['EACCES', 'EADDRNOTAVAIL', 'ENOTFOUND']) {
    const error = explainListenError(failing(code), 'example.com:80');
    assert.equal(error.exit_code, 78);
    assert.match(error.message, /^.*example\.com:80.*server\.listen.*$/);
  }
});

test('any other reason is given literally', () => {
  assert.match(explainListenError(failing('EMFILE'), '127.0.0.1:8080').message, /cannot listen on .*EMFILE/);
});
