import assert from 'node:assert/strict';
import { createServer as createPlainServer } from 'node:http';
import { createServer } from 'node:https';
import { test } from 'node:test';
import { createAsk } from '../../engine/edge/client/http.ts';
import { CERTIFICATES } from '../support/certificates.ts';
import { startForwardProxy } from '../support/net/forward-proxy.ts';
import { ownPort } from '../support/net/own-port.ts';
import { startScriptedGateway } from './scripted-gateway.ts';

test('aborts a missing or unfinished response', async () => {
  const gateway = await startScriptedGateway();
  gateway.scripts.set('/silent', () => ({ never: true }));
  gateway.scripts.set('/half', () => ({ headers: { 'content-length': '100' }, body: 'half' }));
  const ask = createAsk({ timeout_seconds: 0.1 });
  for (const [path, why] of [
    ['/silent', 'no response within 0.1 seconds'],
    ['/half', 'the connection was cut'],
  ]) {
    await assert.rejects(ask('GET', gateway.url + path), {
      name: 'Unreachable',
      exit_code: 69,
      message: `no response from ${gateway.url}: ${why}`,
    });
  }
});

test('names an unverifiable certificate with a remedy, and http at an https address', async () => {
  const server = createServer(CERTIFICATES.first, (_req, res) => res.end('{}'));
  await assert.rejects(createAsk()('GET', `https://127.0.0.1:${await ownPort(server)}`), {
    name: 'Unreachable',
    message: /its certificate is not trusted.*; set NODE_EXTRA_CA_CERTS to a PEM file/,
  });
  const gateway = await startScriptedGateway();
  await assert.rejects(createAsk()('GET', gateway.url.replace('http:', 'https:')), { message: /does not speak TLS/ });
});

test('a form and JSON use the proxy of the environment, and responses return, large ones excepted', async () => {
  const seen: string[] = [];
  const behind = createPlainServer((req, res) => {
    let body = '';
    req.on('data', (chunk) => {
      body += chunk;
    });
    req.on('end', () => {
      seen.push(`${req.method} ${req.headers.host} ${req.headers['content-type']} ${body}`);
      res.setHeader('retry-after', '7');
      if (req.url === '/large') res.end('x'.repeat(1024 * 1024 + 1));
      else res.writeHead(req.url === '/none' ? 204 : 200).end(req.url === '/none' ? undefined : '{"a":1}');
    });
  });
  const servers = { 'gateway.example': await ownPort(behind) };
  const proxy = await startForwardProxy({ servers, credential: { name: 'ada', password: 'planted-word' } });
  const ask = createAsk({ env: { HTTP_PROXY: proxy.url } });
  const url = 'http://gateway.example/token';
  const response = { status: 200, kind: 'json', body: { a: 1 }, retry_after_seconds: 7 };
  assert.deepEqual(await ask('POST', url, { form: { a: 'b c' } }), response);
  assert.deepEqual(await ask('PUT', url, { json: { a: 'b' }, headers: { authorization: 'Bearer x' } }), response);
  assert.equal((await ask('GET', 'http://gateway.example/none')).kind, 'empty');
  await assert.rejects(ask('GET', 'http://gateway.example/large'), { exit_code: 69, message: /more than 1 MiB/ });
  assert.deepEqual(seen.slice(0, 2), [
    'POST gateway.example application/x-www-form-urlencoded;charset=UTF-8 a=b+c',
    'PUT gateway.example application/json {"a":"b"}',
  ]);
  assert.equal(proxy.passed.length, 4);
  const refused = createAsk({ env: { HTTP_PROXY: proxy.url.replace('planted', 'other') } })('GET', url);
  await assert.rejects(refused, { message: new RegExp(`the proxy ${proxy.host} responds with status 407`) });
  await proxy.close();
});
