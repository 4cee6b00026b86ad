import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Surroundings, useGateway } from '../../e2e/support/use-gateway.ts';
import { buffersWhole, only, stripsHeaders, takesUpTo } from '../../support/proxies/behaviours.ts';
import { startProxy } from '../../support/proxies/proxy.ts';
import { examine, faultsOf } from './support.ts';

let opened: Surroundings;
useGateway((given) => {
  opened = given;
});

describe('a gateway of ours', { concurrency: true }, () => {
  test('has no faults, tells for certain that streams arrive, and asks no upstream for it', async () => {
    const { gateway, upstream } = opened;
    const connections = [{ token: gateway.token, model: 'coder-1', context_window: 200_000 }];
    const { diagnoses, of } = await examine(gateway.url, { connections });
    assert.deepEqual(faultsOf(diagnoses), []);
    for (const id of ['token', 'model', 'context_window', 'clock', 'headers', 'stream', 'large_body', 'telemetry']) {
      assert.equal(of(id).verdict, 'ok', id);
    }
    assert.deepEqual(upstream.requests, []);
    assert.ok(!gateway.logs.join('\n').includes('unknown-feature'), 'what a self-check sent is logged');
  });

  test('explains a model that the token group may not use', async () => {
    const token = await opened.gateway.newToken({ group: 'mapped-only' });
    const { of } = await examine(opened.gateway.url, { connections: [{ token, model: 'coder-1' }] });
    assert.equal(of('model').verdict, 'failed');
    assert.match(of('model').found, /its token group may not use it/);
    assert.match(of('model').remedy!, /mapped-1/);
  });

  test('explains tokens that it does not know, and that have expired', async () => {
    const unknown = await examine(opened.gateway.url, { connections: [{ token: 'gw_nobody-has-this-one' }] });
    assert.match(unknown.of('token').found, /does not know the token/);
    const token = await opened.gateway.newToken({ expires_at: new Date(Date.now() - 1000) });
    const expired = await examine(opened.gateway.url, { connections: [{ token, model: undefined }] });
    assert.match(expired.of('token').found, /the token has expired/);
  });

  test('is told apart from a proxy before it that holds streams back, takes headers off or refuses large requests', async () => {
    const { gateway } = opened;
    const faults = [
      [only(/selfcheck/, buffersWhole), ['stream']],
      [stripsHeaders('vendor-'), ['headers']],
      [takesUpTo(1_048_576), ['large_body']],
    ] as const;
    await Promise.all(
      faults.map(async ([behaviour, expected]) => {
        const proxy = await startProxy(gateway.url, behaviour);
        const token = await gateway.newToken({ user: `${expected[0]}@example.com` });
        const { diagnoses } = await examine(proxy.url, { connections: [{ token }] });
        await proxy.close();
        assert.deepEqual(faultsOf(diagnoses), expected);
      }),
    );
  });

  test('says how requests arrive below the path of its public URL as well, in its description, and to its callers only', async () => {
    const { gateway } = opened;
    const headers = { authorization: `Bearer ${gateway.token}` };
    const answer = await fetch(`${gateway.url}/v1/selfcheck`, { method: 'POST', headers, body: '{}' });
    assert.equal(answer.status, 200);
    assert.ok(answer.headers.get('x-gateway-request-id'));
    const refused = await fetch(`${gateway.url}/v1/selfcheck`, { method: 'POST', body: '{}' });
    assert.equal(refused.status, 401);
    assert.match(await (await fetch(`${gateway.url}/protocol`)).text(), /POST \/v1\/selfcheck/);
  });
});
