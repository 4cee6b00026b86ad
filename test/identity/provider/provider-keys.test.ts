import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { StartError } from '../../../engine/contract/start-error.ts';
import { CERTIFICATES, LOOPBACK_CERTIFICATE } from '../../support/certificates.ts';
import { startIdentityProvider } from '../../support/identity/identity-provider.ts';
import { ATTEMPT, fails, makeProvider, SECRET, useProvider } from '../../support/identity/provider-client.ts';
import { answerJson, startScriptedProvider } from '../../support/identity/scripted-identity-provider.ts';

describe('the gateway proves itself', () => {
  test('with its secret in the header, or in the form', async (t) => {
    for (const method of ['client_secret_basic', 'client_secret_post'] as const) {
      const { remote, signIn } = await useProvider(
        t,
        { token_endpoint_auth_method: method },
        { token_endpoint_auth_method: method },
      );
      await signIn('anna');
      const request = remote.requests.find(({ endpoint }) => endpoint === 'token')!;
      const in_form = new URLSearchParams(request.body).get('client_secret') === remote.client_secret;
      assert.equal(in_form, method === 'client_secret_post');
      assert.equal(/^Basic /.test(request.headers.authorization ?? ''), method === 'client_secret_basic');
    }
  });

  test('in the only way the provider takes, where it says which', async (t) => {
    const scripted = await startScriptedProvider(t);
    const seen: unknown[] = [];
    scripted.token = (req, res, form) => {
      seen.push([/^Basic /.test(req.headers.authorization ?? ''), form.get('client_secret') === SECRET]);
      answerJson(res, 401, { error: 'invalid_client' });
    };
    const offers = [['client_secret_post'], ['client_secret_post', 'client_secret_basic'], ['private_key_jwt'], 7];
    for (const token_endpoint_auth_methods_supported of offers) {
      scripted.metadata = { token_endpoint_auth_methods_supported };
      const { provider } = makeProvider(scripted.issuer);
      await fails(provider.recheck({ subject: 'anna', refresh_token: 'r' }), 'invalid', /check auth\.oidc\.client_id/);
    }
    const [header, form] = [
      [true, false],
      [false, true],
    ];
    assert.deepEqual(seen, [form, header, header, header]);
  });

  const with_key = { private_key_env: 'OIDC_PRIVATE_KEY' };
  const pem = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString();
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ed = generateKeyPairSync('ed25519');
  const keys = {
    'an RSA key in PEM': [pem(rsa.privateKey), rsa.publicKey, 'RS256'],
    'an RSA key as a JWK for PS256': [
      JSON.stringify({ ...rsa.privateKey.export({ format: 'jwk' }), alg: 'PS256', kid: 'kid-of-jwk' }),
      rsa.publicKey,
      'PS256',
    ],
    'an EC key in PEM': [pem(ec.privateKey), ec.publicKey, 'ES256'],
    'an Ed25519 key in PEM': [pem(ed.privateKey), ed.publicKey, 'Ed25519'],
  } as const;
  for (const [name, [secret, public_key, alg]] of Object.entries(keys)) {
    test(`with ${name}`, async (t) => {
      const kid = alg === 'PS256' ? 'kid-of-jwk' : 'kid-1';
      const client_key = { ...public_key.export({ format: 'jwk' }), alg, kid, use: 'sig' };
      const method = 'private_key_jwt' as const;
      const changes = { ...with_key, ...(kid === 'kid-1' && { private_key_id: kid }) };
      const { remote, signIn } = await useProvider(
        t,
        { token_endpoint_auth_method: method, client_key },
        changes,
        secret,
      );
      assert.equal((await signIn('anna')).claims.sub, 'anna');
      const { body } = remote.requests.find(({ endpoint }) => endpoint === 'token')!;
      const assertion = new URLSearchParams(body).get('client_assertion') ?? '';
      assert.deepEqual(JSON.parse(Buffer.from(assertion.split('.')[0]!, 'base64url').toString()), { alg, kid });
    });
  }

  test('and says at the start when its key is of no use, without showing it', () => {
    const small = generateKeyPairSync('rsa', { modulusLength: 1024 });
    const odd = generateKeyPairSync('ec', { namedCurve: 'secp256k1' });
    const passphrase = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' } as const;
    const cases: [string, RegExp][] = [
      ['the-secret-that-is-no-key', /can't be read: expected PKCS #8/],
      ['{"kty":"the-secret-that-is-no-key"', /is not valid JSON/],
      ['{"kty":"the-secret-that-is-no-key"}', /can't be read/],
      [JSON.stringify(ec.publicKey.export({ format: 'jwk' })), /can't be read/],
      [rsa.privateKey.export(passphrase).toString(), /without a passphrase/],
      [pem(small.privateKey), /RSA key of 1024 bits/],
      [pem(odd.privateKey), /another curve/],
      [pem(generateKeyPairSync('x25519').privateKey), /type x25519/],
    ];
    for (const [secret, message] of cases) {
      const make = () => makeProvider('https://id.example.com', with_key, secret);
      assert.throws(make, (error) => {
        assert.ok(error instanceof StartError && error.exit_code === 78);
        assert.match(error.message, message);
        assert.match(error.message, /OIDC_PRIVATE_KEY/);
        assert.doesNotMatch(error.stack ?? '', /the-secret-that/);
        return true;
      });
    }
  });

  test('with a wrong secret in vain, which is not the fault of the person', async (t) => {
    const { signIn } = await useProvider(t, {}, {}, SECRET);
    const { message } = await fails(signIn('anna'), 'invalid', /^token endpoint: /);
    assert.ok(!message.includes(SECRET));
  });
});

describe('certificates', () => {
  const directory = mkdtempSync(join(tmpdir(), 'appscli-ca-'));
  after(() => rmSync(directory, { recursive: true }));
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };

  test('of an authority that only the configuration knows are trusted', async (t) => {
    const remote = await startIdentityProvider({ tls: LOOPBACK_CERTIFICATE });
    t.after(() => remote.close());
    const ca_file = file(
      'ca.pem',
      `# ours
${CERTIFICATES.second.cert}
${LOOPBACK_CERTIFICATE.cert}`,
    );
    const trusting = makeProvider(remote.issuer, { ca_file });
    assert.equal((await trusting.provider.authorizationUrl(ATTEMPT)).origin, remote.issuer);
    const { provider } = makeProvider(remote.issuer);
    await fails(
      provider.authorizationUrl(ATTEMPT),
      'invalid',
      /not trusted: it is self-signed; name .* auth\.oidc\.ca_file/,
    );
  });

  test('count for the name they are made out to alone', async (t) => {
    const remote = await startIdentityProvider({ tls: CERTIFICATES.first });
    t.after(() => remote.close());
    const ca_file = file('ca.pem', CERTIFICATES.first.cert);
    const { provider } = makeProvider(remote.issuer, { ca_file });
    await fails(provider.authorizationUrl(ATTEMPT), 'invalid', /its certificate is for another host$/);
  });

  test('that can not be read are named at the start', () => {
    const damaged = CERTIFICATES.second.cert.replace(/MII.{20}/, 'AAAA');
    const cases: [string, RegExp][] = [
      [join(directory, 'missing.pem'), /missing\.pem .*can't be read: ENOENT/],
      [file('empty.pem', 'nothing'), /holds no certificate/],
      [file('damaged.pem', `${CERTIFICATES.first.cert}${damaged}`), /certificate number 2 can't be read/],
    ];
    for (const [ca_file, message] of cases) {
      assert.throws(
        () => makeProvider('https://id.example.com', { ca_file }),
        (error) => {
          assert.ok(error instanceof StartError && error.exit_code === 78);
          assert.match(error.message, message);
          return true;
        },
      );
    }
  });
});
