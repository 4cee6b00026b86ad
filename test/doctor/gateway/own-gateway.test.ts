import assert from 'node:assert/strict';
import { test } from 'node:test';
import { useGateway } from '../../e2e/support/use-gateway.ts';
import { diagnose, faultsOf } from './support.ts';

const { gateway, upstream } = useGateway();

test('a gateway of ours has no faults, without a request to an upstream', async () => {
  const connections = [{ token: gateway.token, model: 'coder-1', context_window: 200_000 }];
  const { diagnoses, of } = await diagnose(gateway.url, { connections });
  assert.deepEqual(faultsOf(diagnoses), []);
  for (const id of ['token', 'model', 'context_window']) assert.equal(of(id).verdict, 'ok', id);
  assert.deepEqual(upstream.requests, []);
  assert.ok(!gateway.logs.join('\n').includes('unknown-feature'), 'what a self-check sent is logged');
});
