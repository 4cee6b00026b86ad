import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CompactEncrypt } from 'jose';
import { StartError } from '../../../engine/contract/start-error.ts';
import { openWith, sealWith } from '../../../engine/identity/sessions/sealed.ts';
import { createSessionKeys } from '../../../engine/identity/sessions/session-keys.ts';
import { quietLog } from '../../support/store.ts';
import { authWith, SECRETS, secret } from './configuration.ts';

type Session = Parameters<typeof authWith>[0] & {};

const keysOf = (auth: Session = {}) => createSessionKeys(authWith(auth), secret, quietLog);
const signedWith = (signing_key_env: string, ...previous: string[]) =>
  keysOf({ session: { signing_key_env, previous_signing_keys: previous.map((key_env) => ({ key_env })) } });

const { client_secret_env: _, ...oidc } = authWith().oidc;
const BY_PRIVATE_KEY = { ...authWith(), oidc: { ...oidc, private_key_env: 'PRIVATE_KEY' } };

/** The message of the StartError about a configuration, which must give no secret away. */
function complaintAbout(auth: Session): string {
  try {
    keysOf(auth);
  } catch (error) {
    assert.ok(error instanceof StartError);
    assert.equal(error.exit_code, 78);
    for (const value of Object.values(SECRETS)) assert.ok(!error.message.includes(value));
    return error.message;
  }
  return assert.fail('the keys were taken');
}

describe('the keys of sessions', () => {
  it('are the same on every replica, and others for every secret and every use', () => {
    const [first, second, other] = [signedWith('SIGNING_KEY'), signedWith('SIGNING_KEY'), signedWith('OTHER_KEY')];
    assert.equal(first.current.id, second.current.id);
    assert.deepEqual(first.current.derive('sign'), second.current.derive('sign'));
    assert.equal(first.current.derive('sign').length, 32);
    assert.notEqual(first.current.id, other.current.id);
    assert.notDeepEqual(first.current.derive('sign'), other.current.derive('sign'));
    assert.notDeepEqual(first.current.derive('sign'), first.current.derive('seal provider-grant'));
  });

  it('do not show the secret they are made of', () => {
    const { current } = signedWith('SIGNING_KEY');
    const text = Buffer.from(current.derive('sign')).toString('latin1') + current.id;
    assert.ok(!text.includes(secret('SIGNING_KEY').slice(0, 8)));
    assert.match(current.id, /^[\w-]{12}$/);
  });

  it('are made of the client secret or the private key where no signing key is named', () => {
    const by_secret = keysOf();
    const by_key = createSessionKeys(BY_PRIVATE_KEY, secret, quietLog);
    assert.notEqual(by_secret.current.id, by_key.current.id);
    assert.notEqual(by_secret.current.id, signedWith('SIGNING_KEY').current.id);
  });

  it('are the same for copies of a private key with other line ends', () => {
    const windows = createSessionKeys(BY_PRIVATE_KEY, (name) => secret(name).replaceAll('\n', '\r\n'), quietLog);
    assert.equal(windows.current.id, createSessionKeys(BY_PRIVATE_KEY, secret, quietLog).current.id);
  });

  it('count every previous key, and the current one as the one that signs', () => {
    const keys = signedWith('SIGNING_KEY', 'OTHER_KEY', 'CLIENT_SECRET', 'SIGNING_KEY');
    assert.equal(keys.all.size, 3);
    assert.equal(keys.all.get(keys.current.id), keys.current);
    assert.equal(keys.current.id, signedWith('SIGNING_KEY').current.id);
  });

  it('refuse a secret that is too short, by its variable and with a remedy', () => {
    assert.match(
      complaintAbout({ session: { signing_key_env: 'SHORT_KEY' } }),
      /SHORT_KEY is too short .* at least 32 characters; make one with "openssl/,
    );
    assert.match(
      complaintAbout({ session: { previous_signing_keys: [{ key_env: 'SHORT_CLIENT_SECRET' }] } }),
      /SHORT_CLIENT_SECRET is too short .* auth\.session\.previous_signing_keys/,
    );
  });

  it('are of this process alone where the client secret could be guessed from what it signs', () => {
    const told: string[] = [];
    const log = { warn: (fields: object, message: string) => void told.push(`${JSON.stringify(fields)} ${message}`) };
    const auth = authWith({ oidc: { client_secret_env: 'SHORT_CLIENT_SECRET' } });
    const [one, after_reload] = [createSessionKeys(auth, secret, log), createSessionKeys(auth, secret, log)];
    assert.equal(one.current.id, after_reload.current.id);
    assert.notEqual(one.current.id, keysOf().current.id);
    assert.match(told[0]!, /SHORT_CLIENT_SECRET.*sessions end with this process.*auth\.session\.signing_key_env/);
    assert.equal(told.length, 2);
    assert.ok(!told.join().includes(SECRETS.SHORT_CLIENT_SECRET!));
  });

  it('take a client secret of any length where a signing key is named', () => {
    const auth = { oidc: { client_secret_env: 'SHORT_CLIENT_SECRET' }, session: { signing_key_env: 'SIGNING_KEY' } };
    assert.equal(keysOf(auth).current.id, signedWith('SIGNING_KEY').current.id);
  });
});

describe('a sealed value', () => {
  const keys = signedWith('SIGNING_KEY');
  const value = { refresh_token: 'provider-refresh-token', ünïcode: ['\u2028', { deep: null }] };

  it('opens to what it was, and shows nothing of it meanwhile', async () => {
    const sealed = await sealWith(keys, value, 'provider-grant');
    assert.deepEqual(await openWith(keys, sealed, 'provider-grant'), value);
    const shown = sealed.split('.').map((part) => Buffer.from(part, 'base64url').toString('latin1'));
    assert.ok(shown.every((part) => !part.includes('provider')));
    assert.notEqual(sealed, await sealWith(keys, value, 'provider-grant'));
  });

  it('opens with a previous key, and not with another one', async () => {
    const sealed = await sealWith(keys, value, 'sign-in-attempt');
    assert.deepEqual(await openWith(signedWith('OTHER_KEY', 'SIGNING_KEY'), sealed, 'sign-in-attempt'), value);
    assert.equal(await openWith(signedWith('OTHER_KEY'), sealed, 'sign-in-attempt'), undefined);
  });

  it('does not open for another purpose', async () => {
    const sealed = await sealWith(keys, value, 'sign-in-attempt');
    assert.equal(await openWith(keys, sealed, 'provider-grant'), undefined);
  });

  it('does not open when anything of it was changed', async () => {
    const sealed = await sealWith(keys, value, 'provider-grant');
    const parts = sealed.split('.');
    for (let index = 0; index < parts.length; index++) {
      const part = parts[index]!;
      const other = part[5] === 'A' ? 'B' : 'A';
      const changed = parts.with(index, part === '' ? 'AAAA' : part.slice(0, 5) + other + part.slice(6)).join('.');
      assert.equal(await openWith(keys, changed, 'provider-grant'), undefined, `part ${index}`);
    }
    for (const text of ['', '.', '....', 'a.b.c.d.e', '\0', sealed.slice(1), `${sealed}A`, 'A'.repeat(1e6)])
      assert.equal(await openWith(keys, text, 'provider-grant'), undefined);
  });

  it('does not open when it was encrypted in another way than ours', async () => {
    const key = keys.current.derive('seal provider-grant');
    const plain = new TextEncoder().encode('{}');
    const wrapped = await new CompactEncrypt(plain)
      .setProtectedHeader({ alg: 'A256GCMKW', enc: 'A256GCM', kid: keys.current.id })
      .encrypt(key);
    assert.equal(await openWith(keys, wrapped, 'provider-grant'), undefined);
    const nameless = await new CompactEncrypt(plain).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' }).encrypt(key);
    assert.equal(await openWith(keys, nameless, 'provider-grant'), undefined);
  });
});
