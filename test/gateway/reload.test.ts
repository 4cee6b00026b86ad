import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import { ConfigurationError } from '../../engine/base/source/configuration-error.ts';
import { adoptConfig, describeReload } from '../../engine/edge/gateway/reload.ts';

const server = {
  listen: '127.0.0.1:8080',
  public_url: 'https://gateway.example.com',
  limits: { body_bytes: 1000, header_bytes: 100, buffered_bytes: 5000, json_depth: 128, json_values: 500_000 },
};
const database = { postgres: { url_env: 'DATABASE_URL', pool_max: 10 } };

function configured(more: object, more_server: object = {}): GatewayConfig {
  return { server: { ...server, ...more_server }, database, models: [], ...more } as unknown as GatewayConfig;
}

test('a configuration without restart-only changes is adopted unchanged', () => {
  const wanted = configured(
    { models: [{ id: 'new' }] },
    { public_url: 'https://other.example.com', limits: { ...server.limits, body_bytes: 1 } },
  );
  const { config, needs_restart } = adoptConfig(configured({}), wanted);
  assert.deepEqual(config, wanted);
  assert.deepEqual(needs_restart, []);
  assert.ok(Object.isFrozen(config.server.limits));
});

test('sign-in permissions need no restart', () => {
  const oidc = { issuer_url: 'https://id.example.com', client_id: 'gateway', client_secret_env: 'SECRET' };
  const wanted = configured({ auth: { oidc }, policies: { managed: { enabled: true, directory: '/policies' } } });
  for (const [before, after] of [
    [configured({}), wanted],
    [wanted, configured({})],
  ] as const) {
    const { config, needs_restart } = adoptConfig(before, after);
    assert.deepEqual(config, after);
    assert.deepEqual(needs_restart, []);
  }
});

test('a configuration written in another order is the same', () => {
  const wanted = configured({ database: { postgres: { pool_max: 10, url_env: 'DATABASE_URL' } } });
  assert.deepEqual(adoptConfig(configured({}), wanted).needs_restart, []);
});

test('another certificate is adopted, no certificate is not, and neither is a first one', () => {
  const tls = { cert_file: '/a.crt', key_file: '/a.key' };
  const other = { cert_file: '/b.crt', key_file: '/b.key' };
  const adopt = (before: object, after: object) => adoptConfig(configured({}, before), configured({}, after));
  assert.deepEqual(adopt({ tls }, { tls: other }).config.server.tls, other);
  assert.deepEqual(adopt({ tls }, { tls: other }).needs_restart, []);
  assert.deepEqual(adopt({ tls }, {}).config.server.tls, tls);
  assert.deepEqual(adopt({ tls }, {}).needs_restart, ['server.tls']);
  assert.equal(adopt({}, { tls }).config.server.tls, undefined);
  assert.deepEqual(adopt({}, { tls }).needs_restart, ['server.tls']);
});

test('requests are spooled where they were before, whatever the new limits', () => {
  const limits = (spool_dir: string, status = 429) => configured({ spend_limits: { spool_dir, status } });
  const { config, needs_restart } = adoptConfig(limits('/a'), limits('/b', 402));
  assert.deepEqual(config.spend_limits, limits('/a', 402).spend_limits);
  assert.deepEqual(needs_restart, ['spend_limits.spool_dir']);
  assert.deepEqual(adoptConfig(configured({}), limits('/b')).config, limits('/b'));
  assert.deepEqual(adoptConfig(limits('/a'), configured({})).needs_restart, []);
});

test('telemetry of a failed reload has its findings, each code once and none of the text, or another reason', () => {
  const finding = (severity: 'error' | 'warning', code: string) => ({ severity, code, message: 'planted' });
  const diagnostics = [finding('error', 'C4011'), finding('error', 'C4011'), finding('warning', 'W1001')];
  const findings = { diagnostics } as unknown as ConstructorParameters<typeof ConfigurationError>[1];
  assert.deepEqual(describeReload({ error: new ConfigurationError('gateway.yaml', findings) }), {
    attributes: { 'gateway.reload.result': 'failed', 'gateway.reload.findings': ['C4011'] },
    error_type: 'invalid_configuration',
  });
  const recorded = describeReload({ error: new Error('planted') });
  assert.equal(recorded.error_type, 'not_usable');
  assert.doesNotMatch(JSON.stringify(recorded), /planted/);
});
