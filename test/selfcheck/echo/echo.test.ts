import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { BODY_BYTES_MAX, openEcho } from '../../../engine/edge/selfcheck/echo.ts';
import { use } from '../../support/use.ts';

const echo = use(openEcho);

const post = (path: string, json: unknown, headers: Record<string, string> = {}) =>
  fetch(`${echo.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(json),
  });

const prompt = (content: string) => ({ model: 'coder-1', max_tokens: 16, messages: [{ role: 'user', content }] });

describe('the echo upstream', () => {
  test('reads a body that was compressed on the way', async () => {
    const expected = echo.expect();
    const body = gzipSync(JSON.stringify(prompt(expected.text)));
    const response = await fetch(`${echo.url}/v1/messages`, {
      method: 'POST',
      body,
      headers: { 'content-encoding': 'gzip' },
    });
    await response.arrayBuffer();
    assert.equal(expected.received()?.body.toString(), JSON.stringify(prompt(expected.text)));
  });

  test('lists a model, and describes itself in it', async () => {
    const models = (await (await fetch(`${echo.url}/v1/models?limit=1000`)).json()) as { data: { id: string }[] };
    const ids = models.data.map(({ id }) => id);
    assert.deepEqual(ids, ['selfcheck-echo']);
    assert.equal((await fetch(echo.url)).status, 200);
    assert.equal((await fetch(`${echo.url}/v1/messages`)).status, 405);
    assert.equal((await post('/elsewhere', {})).status, 404);
  });

  test('rejects non-JSON or endless nesting, and continues', async () => {
    for (const body of ['<html>', '[1]'.repeat(2), '['.repeat(100_000)]) {
      const response = await fetch(`${echo.url}/v1/messages`, { method: 'POST', body });
      assert.equal(response.status, 400);
      await response.arrayBuffer();
    }
    assert.equal((await post('/v1/messages', prompt('still there?'))).status, 200);
  });

  test('rejects a body that is too large, and continues', async () => {
    const status = await new Promise((resolve) => {
      const { port } = new URL(echo.url);
      const socket = connect(Number(port), '127.0.0.1');
      const head = `POST /v1/messages HTTP/1.1\r\nhost: echo\r\ncontent-length: ${2 * BODY_BYTES_MAX}\r\n\r\n`;
      socket.write(head);
      const piece = Buffer.alloc(1024 * 1024, 32);
      const more = () => socket.write(piece, (error) => error || more());
      more();
      socket.on('error', () => {});
      socket.once('data', (data) => {
        socket.destroy();
        resolve(data.toString().split(' ')[1]);
      });
    });
    assert.equal(status, '413');
    assert.equal((await post('/v1/messages', prompt('still there?'))).status, 200);
  });

  test('drops the oldest expectation, and never exceeds its memory', async () => {
    const first = echo.expect();
    await (await post('/v1/messages', prompt(first.text))).arrayBuffer();
    for (let i = 0; i < 150; i++) echo.expect();
    await (await post('/v1/messages', prompt(first.text))).arrayBuffer();
    assert.equal(first.count(), 1);
  });

  test('names the port in use, with a remedy', async () => {
    const port = Number(new URL(echo.url).port);
    await assert.rejects(openEcho({ port }), {
      name: 'StartError',
      message: `127.0.0.1:${port} is in use by another program; stop it, or set --echo to a free port`,
    });
  });
});
