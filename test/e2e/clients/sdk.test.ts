import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { type TestGateway, UPSTREAM_KEY } from '../../support/gateway.ts';
import type { ScriptedUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { useGateway } from '../support/use-gateway.ts';

let upstream: ScriptedUpstream;
let gateway: TestGateway;
let client: Anthropic;

useGateway((opened) => {
  ({ upstream, gateway } = opened);
  client = new Anthropic({ baseURL: gateway.url, authToken: gateway.token, apiKey: null, maxRetries: 0 });
});

const ASK = {
  model: 'coder-1',
  max_tokens: 64,
  messages: [{ role: 'user' as const, content: 'Say hello.' }],
};

test('the upstream sees the very request the SDK would have sent to it directly, but for the credential', async () => {
  const direct = new Anthropic({ baseURL: upstream.url, authToken: gateway.token, apiKey: null, maxRetries: 0 });
  await direct.beta.messages.create({ ...ASK, betas: ['unheard-of-2031-01-01'] });
  await client.beta.messages.create({ ...ASK, betas: ['unheard-of-2031-01-01'] });
  const [expected, forwarded] = upstream.requests.map(({ method, url, headers, sha256 }) => {
    const { host: _host, connection: _connection, authorization, 'x-api-key': key, ...rest } = headers;
    return { credential: authorization ?? key, request: { method, url, sha256, headers: rest } };
  });
  assert.deepEqual(forwarded!.request, expected!.request);
  assert.deepEqual([expected!.credential, forwarded!.credential], [`Bearer ${gateway.token}`, UPSTREAM_KEY]);
});

test("the gateway's own errors arrive as the SDK's error classes", async () => {
  const stranger = new Anthropic({
    baseURL: gateway.url,
    authToken: 'gw_nobody_ever_made_this',
    apiKey: null,
    maxRetries: 0,
  });
  await assert.rejects(stranger.messages.create(ASK), Anthropic.AuthenticationError);
  await assert.rejects(client.messages.create({ ...ASK, model: 'no-such-model' }), (error: unknown) => {
    assert.ok(error instanceof Anthropic.NotFoundError);
    assert.match(error.message, /no-such-model/);
    assert.equal(error.type, 'not_found_error');
    return true;
  });
  const narrow = new Anthropic({
    baseURL: gateway.url,
    authToken: await gateway.newToken({ group: 'mapped-only' }),
    apiKey: null,
    maxRetries: 0,
  });
  await assert.rejects(narrow.messages.create(ASK), Anthropic.NotFoundError);
  await assert.rejects(
    client.messages.create({ ...ASK, max_tokens: 'many' as unknown as number }),
    Anthropic.BadRequestError,
  );
  assert.equal(upstream.requests.length, 0);
});
