import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { ADMIN_API } from '../../../engine/edge/admin/description.ts';
import { adminOperations } from '../../../engine/edge/admin/operations.ts';
import { description, operations, violation } from './description.ts';
import { adminBench, config } from './support.ts';

/** The examples of signed-in users need an identity provider. */
const oidc = { issuer_url: 'https://id.example.com' };
const with_sign_in = {
  ...config,
  auth: { ...config.auth, oidc, personal_tokens: { check_minutes: 60, suspend_after_days: 30 } },
} as unknown as GatewayConfig;

const bench = adminBench(with_sign_in);

test('the description has every operation there is, and no other', () => {
  const carried_out = Object.keys(adminOperations({ config } as Parameters<typeof adminOperations>[0]));
  const described = operations.map(({ operation }) => operation.operationId);
  assert.deepEqual(described.sort(), [...carried_out, 'getDescription'].sort());
});

test('every operation but the description itself describes its errors', () => {
  for (const { path, operation } of operations) {
    if (path === ADMIN_API.description) continue;
    const statuses = Object.keys(operation.responses);
    const wanted = ['400', '401', '403', '503', ...(operation.requestBody === undefined ? [] : ['413', '415'])];
    for (const status of wanted) assert.ok(statuses.includes(status), `${operation.operationId} lacks ${status}`);
  }
});

test('every example matches its schema', () => {
  const schemas = Object.entries(description.components.schemas as Record<string, { example?: object }>);
  for (const [name, schema] of schemas) {
    if (schema.example !== undefined) assert.equal(violation(schema, schema.example), undefined, name);
  }
  for (const [name, { content }] of Object.entries(description.components.responses)) {
    const { schema, example } = content!['application/json']!;
    if (example !== undefined) assert.equal(violation(schema, example), undefined, name);
  }
});

test('every example of a body is accepted', async () => {
  const bodies = operations.flatMap(({ method, path, operation }) => {
    const json = operation.requestBody?.content?.['application/json'];
    return Object.values(json?.examples ?? {}).map(({ value }) => ({ method, path, value, schema: json!.schema }));
  });
  assert.ok(bodies.length >= 7);
  for (const { method, path, value, schema } of bodies) {
    assert.equal(violation(schema, value), undefined, path);
    // The examples name the token group `all`, which the configuration under test does not have.
    const body = 'group' in value ? { ...value, group: 'everything' } : value;
    const { id } = (await bench.ask('root', 'POST', '/admin/api/tokens', { name: 'x', group: 'coders' })).body;
    const filled = path.replace('{id}', id).replace('{email}', 'alice@example.com').replace('{name}', 'main');
    const response = await bench.ask('root', method, filled, body);
    assert.ok(response.status < 300, `${path}: ${JSON.stringify(response.body)}`);
  }
});

test('the description is public, with the address and version of this gateway', async () => {
  const { status, body } = await bench.send('GET', ADMIN_API.description);
  assert.equal(status, 200);
  assert.deepEqual(body.servers, [{ url: 'https://gateway.example.com' }]);
  assert.match(body.info.version, /^\d+\.\d+\.\d+/);
  assert.deepEqual(Object.keys(body.paths), Object.keys(description.paths));
});
