import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { bootGateway } from '../support/gateway.ts';
import { use } from '../support/use.ts';

/** Size of the download before sign-in: far below what a user waits for. */
const BYTES_MAX = 600_000;

const PUBLIC_URL = 'https://gateway.example.com/ai';

const gateway = use(() => {
  const server = { listen: '127.0.0.1:0', public_url: `${PUBLIC_URL}/`, drain: { accept_seconds: 0 } };
  return bootGateway({ upstream_url: 'http://127.0.0.1:9', config: { server } });
});

const get = (path: string, init?: RequestInit) => fetch(`${gateway.url}${path}`, init);

describe('the package for developers', () => {
  it('is public, with and without the path of the public URL, and npm revalidates it each time', async () => {
    const response = await get('/client.tgz');
    assert.equal(response.status, 200, 'npm run build:console creates it');
    const bytes = Buffer.from(await response.arrayBuffer());
    const etag = `"${createHash('sha256').update(bytes).digest('hex')}"`;
    const { headers } = response;
    const expected = { 'content-type': 'application/gzip', 'content-length': String(bytes.length), etag };
    const more = { 'cache-control': 'public, no-cache', 'x-content-type-options': 'nosniff' };
    for (const [name, value] of Object.entries({ ...expected, ...more })) assert.equal(headers.get(name), value, name);
    assert.ok(bytes.length < BYTES_MAX, `${bytes.length} bytes`);

    const below = await get('/ai/client.tgz', { headers: { host: 'evil.example.net' } });
    assert.deepEqual(Buffer.from(await below.arrayBuffer()), bytes);
    const head = await get('/client.tgz', { method: 'HEAD' });
    assert.deepEqual([head.status, head.headers.get('etag'), await head.text()], [200, etag, '']);
    for (const [known, status] of [
      [etag, 304],
      ['*', 304],
      [`"other", W/${etag}`, 304],
      ['"other"', 200],
    ] as const) {
      const again = await get('/client.tgz', { headers: { 'if-none-match': known } });
      assert.equal(again.status, status, known);
      await again.arrayBuffer();
    }
  });

  it('rejects any other method, and no other name is a package', async () => {
    const refused = await get('/client.tgz', { method: 'POST' });
    assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD']);
    for (const path of ['/client.tgz/', '/client.tgz.sha256', '/Client.tgz', '/client', '/v1/client.tgz']) {
      assert.equal((await get(path)).status, 404, path);
    }
  });

  it('has the hash that the console shows', async () => {
    const { client_sha256 } = (await (await get('/console/session')).json()) as { client_sha256: string };
    assert.equal((await get('/client.tgz')).headers.get('etag'), `"${client_sha256}"`);
  });
});
