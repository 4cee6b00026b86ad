import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import { StartError } from '../../engine/base/contract/start-error.ts';
import type { PipelineSpec, StageEntry } from '../../engine/base/source/spec.ts';
import { createSecrets, namedSecrets } from '../../engine/base/store/secrets.ts';

const config = {
  database: { postgres: { url_env: 'DATABASE_URL', pool_max: 10 } },
  upstreams: [
    { name: 'main', api_key_env: 'MAIN_KEY' },
    { name: 'spare', auth_token_env: 'SPARE_TOKEN' },
  ],
  auth: { oidc: { client_secret_env: 'OIDC_SECRET' } },
} as unknown as GatewayConfig;

const loaded = { config, pipelines: [] };

test('every key that ends in _env names a secret, at any place', () => {
  const names = namedSecrets(config).map(({ name }) => name);
  assert.deepEqual(names, ['DATABASE_URL', 'MAIN_KEY', 'SPARE_TOKEN', 'OIDC_SECRET']);
});

test('a stage gets the variables the configuration names and no others', () => {
  const secret = createSecrets(loaded, { MAIN_KEY: 'value', HOME: '/root' }, () => {});
  assert.equal(secret('MAIN_KEY'), 'value');
  assert.throws(() => secret('HOME'), /HOME/);
  assert.throws(() => secret('SPARE_TOKEN'), /SPARE_TOKEN/);
});

test('a stage gets the variables that the options of a stage name, in any list of a pipeline', () => {
  const entry = (options: unknown) => ({ options }) as StageEntry;
  const pipeline = {
    stages: [entry({ token_env: 'ONE' })],
    on_error: [entry({})],
    finally: [entry({ targets: [{ key_env: 'TWO' }] })],
  } as unknown as PipelineSpec;
  const secret = createSecrets({ config, pipelines: [pipeline] }, { ONE: '1', TWO: '2', THREE: '3' }, () => {});
  assert.equal(secret('ONE') + secret('TWO'), '12');
  assert.throws(() => secret('THREE'), /THREE/);
});

test('every value is hidden from the log before it is readable', () => {
  const hidden: string[] = [];
  createSecrets(loaded, { MAIN_KEY: 'one', SPARE_TOKEN: 'two', OTHER: 'three' }, (value) => hidden.push(value));
  assert.deepEqual(hidden, ['one', 'two']);
});

test('of the address of a proxy only the password is hidden, in every form, also where no key names the proxy', () => {
  const address = 'http://ada:p%40ss%3Aword@proxy.example.com:3128';
  const forms = [Buffer.from('ada:p@ss:word').toString('base64'), 'p@ss:word', 'p%40ss%3Aword'];
  const hiddenOf = (env: Record<string, string>, proxy?: object) => {
    const hidden: string[] = [];
    const upstreams = [{ name: 'main', ...proxy }];
    createSecrets({ ...loaded, config: { upstreams } as unknown as GatewayConfig }, env, (one) => hidden.push(one));
    return hidden;
  };
  const by_key = { proxy: { url_env: 'PROXY_URL' } };
  assert.deepEqual(hiddenOf({ PROXY_URL: address }, by_key), forms);
  assert.deepEqual(hiddenOf({ PROXY_URL: 'http://proxy.example.com:3128' }, by_key), []);
  assert.deepEqual(hiddenOf({ PROXY_URL: 'no proxy at all' }, by_key), ['no proxy at all', 'no%20proxy%20at%20all']);
  for (const name of ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy'])
    assert.deepEqual([...new Set(hiddenOf({ [name]: address.replace('http://', '') }))], forms, name);
});

test('a value with a line break is rejected by name, never by value', () => {
  for (const value of ['planted\n', ' planted', 'plan\tted', 'plänted']) {
    assert.throws(
      () => createSecrets(loaded, { MAIN_KEY: value }, () => {}),
      (error) =>
        error instanceof StartError &&
        error.exit_code === 78 &&
        /MAIN_KEY/.test(error.message) &&
        !/plan|plän/.test(error.message),
    );
  }
});

test('a token that a stage sends in a header must meet the same rule', () => {
  const pipeline = {
    stages: [{ options: { token_env: 'ONE' } }],
    on_error: [],
    finally: [],
  } as unknown as PipelineSpec;
  const read = () => createSecrets({ config, pipelines: [pipeline] }, { ONE: 'plan\nted' }, () => {});
  assert.throws(read, (error: Error) => /ONE/.test(error.message) && !/plan/.test(error.message));
});

test('a secret outside headers may contain any character', () => {
  const url = 'postgres://app:pässwörd@db/app';
  assert.equal(createSecrets(loaded, { DATABASE_URL: url }, () => {})('DATABASE_URL'), url);
});

test('the keys of sign-in are secrets, former ones included, and may contain any character', () => {
  const session = { signing_key_env: 'SIGNING_KEY', previous_signing_keys: [{ key_env: 'OLD_KEY' }] };
  const oidc = { client_secret_env: 'CLIENT_SECRET', private_key_env: 'PRIVATE_KEY' };
  const with_auth = { auth: { oidc, session } } as unknown as GatewayConfig;
  const env = {
    SIGNING_KEY: 'sign ',
    OLD_KEY: 'öld\tkey',
    CLIENT_SECRET: 'client&secret',
    PRIVATE_KEY: 'private\nkey',
  };
  const hidden: string[] = [];
  const secret = createSecrets({ config: with_auth, pipelines: [] }, env, (value) => hidden.push(value));
  for (const [name, value] of Object.entries(env)) {
    assert.equal(secret(name), value);
    assert.ok(hidden.includes(value), name);
  }
  assert.ok(hidden.includes('client%26secret'), 'as a form holds it');
});

test('every line of a private key is hidden, and every private member of a JSON Web Key', () => {
  const lines = ['MIGHAgEAMBMGByqGSM49AgEG', 'CCqGSM49AwEHBG0wawIBAQQg', 'short'];
  const pem = ['-----BEGIN PRIVATE KEY-----', ...lines, '-----END PRIVATE KEY-----', ''];
  const config = { auth: { oidc: { private_key_env: 'KEY' } } } as unknown as GatewayConfig;
  const hiddenOf = (KEY: string) => {
    const hidden: string[] = [];
    createSecrets({ config, pipelines: [] }, { KEY }, (value) => hidden.push(value));
    return hidden;
  };
  for (const line_break of ['\n', '\r\n', '\\n']) {
    const [whole, , ...parts] = hiddenOf(pem.join(line_break));
    assert.equal(whole, pem.join(line_break));
    assert.deepEqual(parts, lines.slice(0, 2));
  }
  const jwk = { kty: 'EC', crv: 'P-256', x: 'the-public-part', y: 'the-other-public-part', d: 'the-private-part' };
  assert.ok(hiddenOf(JSON.stringify(jwk)).includes('the-private-part'));
  assert.ok(!hiddenOf(JSON.stringify(jwk)).includes('the-public-part'));
  for (const odd of ['null', '[1]', '{"d":1}', '"text"', '\ud800']) assert.ok(hiddenOf(odd).includes(odd));
});
