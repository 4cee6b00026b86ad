/** Clients with a wrong base URL ask for paths that nothing serves: what they are told gets them on. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { auditRecord, auditRows } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

let gateway: TestGateway;

useGateway((opened) => {
  ({ gateway } = opened);
});

for (const [path, meant] of [
  ['/chat/completions', '/v1/chat/completions'],
  ['/v1/v1/chat/completions', '/v1/chat/completions'],
  ['/v1/v1/messages', '/v1/messages'],
  ['/messages', '/v1/messages'],
  ['/v1/messages/', '/v1/messages'],
  ['/v1/v1/messages/count_tokens', '/v1/messages/count_tokens'],
  ['//v1/Responses', '/v1/responses'],
  ['/models', '/v1/models'],
] as const) {
  test(`a client with a wrong base URL asks for ${path} and is told ${meant}, in the words of its protocol`, async () => {
    const { status, text, json } = await send(gateway.url, { path, body: '{}' });
    assert.equal(status, 404);
    assert.ok(text.includes(`did you mean ${meant}? The base URL of a Messages client is the root`), text);
    assert.equal(json().type, /completions|responses/i.test(path) ? undefined : 'error');
  });
}

test('a path of a protocol that is not served names those that are', async () => {
  const { status, json } = await send(gateway.url, { path: '/v1/embeddings', body: '{}' });
  assert.deepEqual([status, json().type], [404, undefined]);
  assert.match(json().error.message, /does not serve this API; an administrator .* route-to/);
  assert.match(json().error.message, /POST \/v1\/messages, \/v1\/chat\/completions or \/v1\/responses\.$/);
});

for (const [path, version, messages] of [
  ['/v1/messages/batches', undefined, true],
  ['/v1/files', '2023-06-01', true],
  ['/v1/files/file-1/content', undefined, false],
  ['/v1/batches', undefined, false],
  ['/v1/images/generations', undefined, false],
  ['/v1/audio/speech', undefined, false],
  ['/v1/threads/t/messages', undefined, false],
  ['/nowhere', undefined, true],
] as const) {
  test(`${path} is refused in the envelope of ${messages ? 'Messages' : 'chat completions'}`, async () => {
    const headers = version === undefined ? [] : ['anthropic-version', version];
    const { status, json } = await send(gateway.url, { path, headers, body: '{}' });
    assert.deepEqual([status, json().type], [404, messages ? 'error' : undefined]);
    assert.equal(typeof json().error.message, 'string');
  });
}

test('a path with a typing error is told the one that was meant', async () => {
  const { json } = await send(gateway.url, { path: '/v1/mesages', body: '{}' });
  assert.match(json().error.message, /did you mean \/v1\/messages\?/);
});

test('a method that a path does not take is refused in the envelope of the path, HEAD without a body', async () => {
  const wrong = await send(gateway.url, { method: 'GET', path: '/v1/chat/completions' });
  assert.deepEqual([wrong.status, wrong.headers.allow, wrong.json().type], [405, 'POST', undefined]);
  assert.equal(wrong.json().error.message, 'This path takes POST, not GET.');
  const head = await send(gateway.url, { method: 'HEAD', path: '/v1/messages' });
  assert.deepEqual([head.status, head.headers.allow, head.text], [405, 'POST', '']);
});

describe('a request that no pipeline takes', () => {
  test('leaves an audit record where somebody has sent it, with the path and never its query', async () => {
    const headers = ['authorization', `Bearer ${gateway.token}`];
    const response = await send(gateway.url, { path: '/v1/nowhere?text=secret-words', headers, body: '{"text":1}' });
    assert.equal(response.status, 404);
    const { record } = (await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']))) as {
      record: Record<string, unknown>;
    };
    const { user, method, path, status, error, model, token_group } = record;
    assert.deepEqual(
      { user, method, path, status, error, model, token_group },
      {
        ...{ user: gateway.user, method: 'POST', path: '/v1/nowhere', status: 404 },
        ...{ error: 'path_not_found', model: null, token_group: 'all' },
      },
    );
    assert.ok(!JSON.stringify(record).includes('secret-words'));
  });

  test('leaves none where nobody is known to have sent it', async () => {
    for (const headers of [[], ['authorization', 'Bearer gw_nobody'], ['authorization', 'Basic x']]) {
      assert.equal((await send(gateway.url, { path: '/v1/by-nobody', headers, body: '{}' })).status, 404);
    }
    // Records are written in order: once this one is there, those before it would be.
    const last = await send(gateway.url, {
      path: '/v1/messages',
      headers: bearer(gateway.token),
      body: messagesBody(),
    });
    await auditRecord(gateway.database, String(last.headers['x-gateway-request-id']));
    const rows = (await auditRows(gateway.database)) as { record: { path: string } }[];
    assert.ok(!rows.some(({ record }) => record.path === '/v1/by-nobody'));
  });
});
