import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GatewayConfig } from '../../engine/config.ts';
import { createSecrets, namedSecrets } from '../../engine/services/secrets.ts';
import { StartError } from '../../engine/services/start-error.ts';

const config = {
  database: { postgres: { url_env: 'DATABASE_URL', pool_max: 10 } },
  upstreams: [
    { name: 'main', api_key_env: 'MAIN_KEY' },
    { name: 'spare', auth_token_env: 'SPARE_TOKEN' },
  ],
  auth: { oidc: { client_secret_env: 'OIDC_SECRET' } },
} as unknown as GatewayConfig;

test('every key that ends in _env names a secret, wherever it stands', () => {
  const names = namedSecrets(config).map(({ name }) => name);
  assert.deepEqual(names, ['DATABASE_URL', 'MAIN_KEY', 'SPARE_TOKEN', 'OIDC_SECRET']);
});

test('a stage gets the variables the configuration names and no others', () => {
  const secret = createSecrets(config, { MAIN_KEY: 'value', HOME: '/root' }, () => {});
  assert.equal(secret('MAIN_KEY'), 'value');
  assert.throws(() => secret('HOME'), /HOME/);
  assert.throws(() => secret('SPARE_TOKEN'), /SPARE_TOKEN/);
});

test('every value is hidden from the log before anybody can get it', () => {
  const hidden: string[] = [];
  createSecrets(config, { MAIN_KEY: 'one', SPARE_TOKEN: 'two', OTHER: 'three' }, (value) => hidden.push(value));
  assert.deepEqual(hidden, ['one', 'two']);
});

test('a value with a line break is refused by name, never by value', () => {
  for (const value of ['planted\n', ' planted', 'plan\tted', 'plänted']) {
    assert.throws(
      () => createSecrets(config, { MAIN_KEY: value }, () => {}),
      (error) =>
        error instanceof StartError &&
        error.exit_code === 78 &&
        /MAIN_KEY/.test(error.message) &&
        !/plan|plän/.test(error.message),
    );
  }
});

test('a secret that is not sent in a header may hold any character', () => {
  const url = 'postgres://app:pässwörd@db/app';
  assert.equal(createSecrets(config, { DATABASE_URL: url }, () => {})('DATABASE_URL'), url);
});
