/** Clients with a wrong base URL ask for paths that nothing serves: what they are told gets them on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { send } from '../support/client.ts';
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
  assert.match(json().error.message, /POST \/v1\/messages, \/v1\/chat\/completions or \/v1\/responses\.$/);
});
