/** The files of the console: how they are served, and with which headers. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { consoleFiles } from '../../../engine/edge/http/console-files.ts';
import { serve } from '../sign-in/support.ts';

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const served = await serve(consoleFiles('https://gateway.example.com'));
after(() => served.close());
/** Without an encoding that fetch would remove. */
const get = (path: string, encoding = 'identity', method = 'GET') =>
  fetch(served.url + path, { method, headers: { 'accept-encoding': encoding } });
const start = await (await get('/console')).text();
const linked = [...start.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!);
const script = linked.find((address) => address.endsWith('.js'))!;

describe('the start of the console', () => {
  test('is served at every path below it that names no file, and never cached', async () => {
    for (const path of ['/console', '/console/', '/console/requests', '/console/index']) {
      const response = await get(path);
      assert.equal(response.status, 200, path);
      assert.equal(await response.text(), start, path);
      assert.equal(response.headers.get('cache-control'), 'no-store', path);
    }
  });
});

describe('files of the console', () => {
  test('are cached by browsers for good, and compressed as the browser supports', async () => {
    const plain = await get(script);
    assert.equal(plain.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    assert.equal(plain.headers.get('content-type'), 'text/javascript; charset=utf-8');
    assert.equal(plain.headers.get('vary'), 'accept-encoding');
    const bytes = Buffer.from(await plain.arrayBuffer());
    const raw = async (encoding: string) => {
      const response = await get(script, encoding);
      assert.equal(response.headers.get('content-encoding'), encoding);
      return Buffer.from(await response.arrayBuffer());
    };
    // fetch has removed the encoding; its success shows that it was right.
    assert.deepEqual(await raw('br'), bytes);
    assert.deepEqual(await raw('gzip'), bytes);
  });

  test('that are not there are not found, whatever their path tries', async () => {
    const tried = [
      '/console/assets/none.js',
      '/console/index.html',
      '/console/..%2f..%2fpackage.json',
      '/console/%00.js',
    ];
    for (const path of tried) assert.equal((await get(path)).status, 404, path);
  });

  test('are read and nothing else', async () => {
    const response = await get('/console/requests', 'identity', 'POST');
    assert.equal(response.status, 405);
    assert.equal(response.headers.get('allow'), 'GET, HEAD');
    const head = await get(script, 'identity', 'HEAD');
    assert.equal(head.status, 200);
    assert.equal(await head.text(), '');
  });
});

test('everything below the console has its security headers, errors too', async () => {
  const expected = {
    'content-security-policy': POLICY,
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
  };
  for (const path of ['/console', script, '/console/assets/none.js', '/console/requests']) {
    const { headers } = await get(path);
    for (const [name, value] of Object.entries(expected)) assert.equal(headers.get(name), value, `${path} ${name}`);
  }
});
