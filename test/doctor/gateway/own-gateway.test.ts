import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Surroundings, useGateway } from '../../e2e/support/use-gateway.ts';
import { diagnose, faultsOf } from './support.ts';

let opened: Surroundings;
useGateway((input) => {
  opened = input;
});

describe('a gateway of ours', { concurrency: true }, () => {
  test('has no faults, without a request to an upstream', async () => {
    const { gateway, upstream } = opened;
    const connections = [{ token: gateway.token, model: 'coder-1', context_window: 200_000 }];
    const { diagnoses, of } = await diagnose(gateway.url, { connections });
    assert.deepEqual(faultsOf(diagnoses), []);
    for (const id of ['token', 'model', 'context_window']) {
      assert.equal(of(id).verdict, 'ok', id);
    }
    assert.deepEqual(upstream.requests, []);
    assert.ok(!gateway.logs.join('\n').includes('unknown-feature'), 'what a self-check sent is logged');
  });

  test('explains a model denied to the token group', async () => {
    const token = await opened.gateway.newToken({ group: 'mapped-only' });
    const { of } = await diagnose(opened.gateway.url, { connections: [{ token, model: 'coder-1' }] });
    assert.equal(of('model').verdict, 'failed');
    assert.match(of('model').found, /its token group does not allow it/);
    assert.match(of('model').remedy!, /mapped-1/);
  });

  test('explains unknown tokens and expired ones', async () => {
    const unknown = await diagnose(opened.gateway.url, { connections: [{ token: 'gw_nobody-has-this-one' }] });
    assert.match(unknown.of('token').found, /does not know the token/);
    const token = await opened.gateway.newToken({ expires_at: new Date(Date.now() - 1000) });
    const expired = await diagnose(opened.gateway.url, { connections: [{ token, model: undefined }] });
    assert.match(expired.of('token').found, /the token has expired/);
  });
});
