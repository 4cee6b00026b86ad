import assert from 'node:assert/strict';
import { createServer as createPlainServer } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createAsk } from '../../engine/client/http.ts';
import { CERTIFICATES } from '../support/certificates.ts';
import { startScriptedGateway } from './scripted-gateway.ts';

test('an answer that does not come, or not to its end, is given up', async () => {
  const gateway = await startScriptedGateway();
  gateway.scripts.set('/silent', () => ({ never: true }));
  gateway.scripts.set('/half', () => ({ headers: { 'content-length': '100' }, body: 'half' }));
  const ask = createAsk({ timeout_seconds: 0.1 });
  for (const path of ['/silent', '/half']) {
    await assert.rejects(ask('GET', gateway.url + path), {
      name: 'Unreachable',
      exit_code: 69,
      message: `no answer from ${gateway.url}: no answer within 0.1 seconds`,
    });
  }
});

test('an answer that unpacks to something huge is given up on the way', async () => {
  const server = createPlainServer((_req, res) => {
    res.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(50_000_000)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await assert.rejects(createAsk()('GET', url), { exit_code: 69, message: /more than 1 MiB/ });
  server.closeAllConnections();
  server.close();
});

test('what stops a request is what it rejects with', async () => {
  const gateway = await startScriptedGateway();
  gateway.scripts.set('/silent', () => ({ never: true }));
  const reason = new Error('stopped');
  const stop = new AbortController();
  const asked = createAsk()('GET', `${gateway.url}/silent`, { signal: stop.signal });
  stop.abort(reason);
  await assert.rejects(asked, reason);
});

test('a certificate nobody verifies is named, with what to do about it', async () => {
  const server = createServer(CERTIFICATES.first, (_req, res) => res.end('{}'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await assert.rejects(createAsk()('GET', url), {
    name: 'Unreachable',
    message: /its certificate is not trusted.*; set NODE_EXTRA_CA_CERTS to a PEM file/,
  });
  server.close();
});

test('http at an https address says so', async () => {
  const gateway = await startScriptedGateway();
  await assert.rejects(createAsk()('GET', gateway.url.replace('http:', 'https:')), { message: /does not speak TLS/ });
});
