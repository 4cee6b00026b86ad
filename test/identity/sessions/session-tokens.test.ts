import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync } from 'node:crypto';
import { describe, it } from 'node:test';
import { CompactEncrypt, decodeJwt, decodeProtectedHeader, SignJWT } from 'jose';
import type { Principal } from '../../../engine/api.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { StartError } from '../../../engine/base/contract/start-error.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { openWith, sealWith } from '../../../engine/domain/identity/sessions/secrets.ts';
import { createSessionKeys } from '../../../engine/domain/identity/sessions/session-keys.ts';
import { createSessionTokens } from '../../../engine/domain/identity/sessions/session-tokens.ts';
import type { Revocations } from '../../../engine/domain/identity/sessions/sessions.ts';
import { quietLog } from '../../support/store.ts';
import { authWith, configWith, SECRETS, secret } from './configuration.ts';
import { anyPerson, START } from './people.ts';

const ISSUER = 'https://gateway.example.com';
const auth = authWith({ session: { signing_key_env: 'SIGNING_KEY' } });
const keys = createSessionKeys(auth, secret, quietLog);
const person = anyPerson({ name: 'Alice', groups: ['staff', 'platform'], team: 'search', project: 'apollo' });

function revocationsOf(ended = new Set<string>(), away = () => false): Pick<Revocations, 'has'> {
  return {
    has(id) {
      if (away()) throw new StageError('store_unavailable', 'never read');
      return ended.has(id);
    },
  };
}

function open(more: Partial<Parameters<typeof createSessionTokens>[0]> = {}) {
  const given = { config: configWith(auth), clock: frozenClock(START), revocations: revocationsOf(), log: quietLog };
  return createSessionTokens({ secret, ...given, ...more });
}

const session = { id: 'ses_1', person };
const seconds = Date.parse(START) / 1000;

const CLAIMS = {
  iss: ISSUER,
  aud: ISSUER,
  sub: `user:${person.email}`,
  sid: 'ses_1',
  email: person.email,
  groups: ['staff'],
  idp_issuer: person.issuer,
  idp_subject: person.subject,
  iat: seconds,
  exp: seconds + 3600,
};

const HEADER = { alg: 'HS256', typ: 'session+jwt', kid: keys.current.id };

/** Signs anything with the gateway's own key, as somebody with the key could, or with another. */
function forge(
  claims: object,
  header: object = {},
  key: Parameters<SignJWT['sign']>[0] = keys.current.derive('sign'),
): Promise<string> {
  return new SignJWT({ ...CLAIMS, ...claims }).setProtectedHeader({ ...HEADER, ...header }).sign(key);
}

const base64url = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

async function refused(verified: Principal | Promise<Principal> | (() => Principal | Promise<Principal>)) {
  try {
    await (typeof verified === 'function' ? verified() : verified);
  } catch (error) {
    assert.ok(error instanceof StageError, String(error));
    return { code: error.code, message: error.message };
  }
  return assert.fail('the token was accepted');
}

describe('issuing a session token', () => {
  it('contains user, expiry, gateway and key', async () => {
    const { access_token, expires_in_seconds } = await open().issue(session);
    assert.notEqual(access_token, (await open().issue(session)).access_token, 'two of one second have two ids');
    assert.equal(expires_in_seconds, 3600);
    assert.deepEqual(decodeProtectedHeader(access_token), HEADER);
    const { jti, ...claims } = decodeJwt(access_token);
    assert.match(jti!, /^jwt_[0-9a-f]{20}$/);
    assert.deepEqual(claims, {
      ...CLAIMS,
      name: 'Alice',
      groups: ['staff', 'platform'],
      groups_of: 'any',
      roles: [],
      team: 'search',
      project: 'apollo',
    });
  });

  it('drops the name where it would make the token too long, and groups before that', async () => {
    const long = { ...person, name: '名'.repeat(200), email: `${'a'.repeat(64)}@${'b'.repeat(180)}.example.com` };
    for (const team of ['search', '搜'.repeat(200)]) {
      const { access_token } = await open().issue({ id: 'ses_1', person: { ...long, team, project: team } });
      assert.ok(access_token.length <= 3072, `${access_token.length} characters`);
      const { email, name } = await open({ groupsOf: async () => ['staff'] }).verify(access_token);
      assert.deepEqual([email, name], [long.email, team === 'search' ? long.name : undefined]);
    }
  });
});

describe('verifying a session token', () => {
  it('gives the frozen principal, the second time without a promise', async () => {
    const tokens = open();
    const { access_token } = await tokens.issue(session);
    const principal = await tokens.verify(access_token);
    assert.deepEqual(principal, {
      id: `user:${person.email}`,
      email: person.email,
      name: 'Alice',
      kind: 'session',
      groups: ['staff', 'platform'],
      roles: [],
      team: 'search',
      project: 'apollo',
      token: { id: 'ses_1', name: 'sign-in', group: undefined },
    });
    for (const part of [principal, principal.groups, principal.roles, principal.token])
      assert.ok(Object.isFrozen(part));
    assert.equal(tokens.verify(access_token), principal);
  });

  it('is rejected once it has expired, cached or not', async () => {
    const clock = frozenClock(START);
    const tokens = open({ clock });
    const { access_token } = await tokens.issue(session);
    const { access_token: unseen } = await tokens.issue(session);
    clock.advance(3_599_999);
    await tokens.verify(access_token);
    clock.advance(1);
    for (const token of [access_token, unseen]) {
      const { code, message } = await refused(() => tokens.verify(token));
      assert.equal(code, 'credential_expired');
      assert.match(message, /expired on 2026-03-10T13:00:00.000Z\. Clients renew it .* sign in again/);
    }
  });

  it('is rejected once its session has ended, cached or not', async () => {
    const ended = new Set<string>();
    const tokens = open({ revocations: revocationsOf(ended) });
    const { access_token } = await tokens.issue(session);
    await tokens.verify(access_token);
    ended.add('ses_1');
    assert.equal((await refused(() => tokens.verify(access_token))).code, 'credential_revoked');
    const { access_token: unseen } = await tokens.issue(session);
    assert.match((await refused(() => tokens.verify(unseen))).message, /session was ended.*Sign in again/);
    const { access_token: other } = await tokens.issue({ id: 'ses_2', person });
    assert.equal((await tokens.verify(other)).token.id, 'ses_2');
  });

  it('reports the store as unavailable while ended sessions are unknown', async () => {
    let away = true;
    const tokens = open({ revocations: revocationsOf(new Set(), () => away) });
    const { access_token } = await tokens.issue(session);
    assert.equal((await refused(() => tokens.verify(access_token))).code, 'store_unavailable');
    away = false;
    assert.equal((await tokens.verify(access_token)).email, person.email);
  });
});

describe('a hostile token', () => {
  const refusals = async (token: string) => (await refused(() => open().verify(token))).code;

  it('passes with neither no signature nor an empty one', async () => {
    for (const alg of ['none', 'None', 'NONE', 'nOnE', '']) {
      const unsigned = `${base64url({ ...HEADER, alg })}.${base64url(CLAIMS)}.`;
      assert.equal(await refusals(unsigned), 'credential_invalid');
    }
    const good = await forge({});
    assert.equal(await refusals(good.slice(0, good.lastIndexOf('.') + 1)), 'credential_invalid');
  });

  it('passes with no other algorithm, even where the key would fit', async () => {
    for (const alg of ['HS384', 'HS512']) {
      const long = new Uint8Array(64).fill(1);
      assert.equal(await refusals(await forge({}, { alg }, long)), 'credential_invalid');
    }
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    assert.equal(await refusals(await forge({}, { alg: 'RS256' }, privateKey)), 'credential_invalid');
    // The public key as an HMAC secret, under the name of the asymmetric algorithm and of the right one.
    const pem = publicKey.export({ type: 'spki', format: 'pem' });
    for (const alg of ['RS256', 'HS256']) {
      const input = `${base64url({ ...HEADER, alg })}.${base64url(CLAIMS)}`;
      assert.equal(
        await refusals(`${input}.${createHmac('sha256', pem).update(input).digest('base64url')}`),
        'credential_invalid',
      );
    }
  });

  it('cannot bring its own key', async () => {
    const key = new Uint8Array(32).fill(7);
    const jwk = { kty: 'oct', k: Buffer.from(key).toString('base64url') };
    for (const more of [
      { jwk },
      { jku: 'https://evil.example.com/keys' },
      { kid: '../../dev/null' },
      { kid: '__proto__' },
      { kid: 5 },
      { kid: undefined },
    ]) {
      assert.equal(await refusals(await forge({}, more, key)), 'credential_invalid');
    }
  });

  it('is not signed with the signing key itself, or with the key of another use', async () => {
    for (const key of [new TextEncoder().encode(secret('SIGNING_KEY')), keys.current.derive('seal provider-grant')]) {
      assert.equal(await refusals(await forge({}, {}, key)), 'credential_invalid');
    }
  });

  it('is not of another issuer or for another audience', async () => {
    for (const claims of [
      { iss: 'https://evil.example.com' },
      { iss: `${ISSUER}/` },
      { aud: 'https://other.example.com' },
      { aud: [] },
    ]) {
      const { code, message } = await refused(open().verify(await forge(claims)));
      assert.equal(code, 'credential_invalid');
      assert.equal(message, `The session token was issued by another gateway. Sign in to ${ISSUER}.`);
    }
  });

  it('misses no claim, and has none of another type', async () => {
    assert.equal((await open().verify(await forge({}))).email, person.email);
    const wrong: Record<string, unknown[]> = {
      iss: [undefined, 5],
      aud: [undefined, 5],
      exp: [undefined, 'soon', 1e300, -1e300, seconds + 3600.5],
      sub: [undefined, 5, 'user:mallory@example.com', person.email],
      sid: [undefined, 5, '', ['ses_1']],
      email: [undefined, 5, '', [person.email], 'mallory@example.com'],
      groups: ['staff', { staff: true }, ['staff', 5], [['staff']], null],
      name: [5, '', {}],
      team: [5, '', ['search']],
      project: [5, '', null],
      idp_issuer: [undefined, 5],
      idp_subject: [undefined, 5, ''],
    };
    for (const [claim, values] of Object.entries(wrong)) {
      for (const value of values) {
        const { code } = await refused(open().verify(await forge({ [claim]: value })));
        assert.match(code, /^credential_(?:invalid|expired)$/, `${claim}: ${JSON.stringify(value)}`);
      }
    }
  });

  it('is rejected unread when it is longer than any of ours, and never appears in its own rejection', async () => {
    const long = await forge({ groups: ['g'.repeat(40_000)] });
    assert.throws(() => open().verify(long), { code: 'credential_invalid' });
    assert.equal(await open().sessionOf(long), undefined);
    const token = await forge({ iss: 'https://evil.example.com/<script>' });
    const { message } = await refused(open().verify(token));
    assert.ok(!message.includes('evil') && !message.includes(token.slice(0, 20)));
  });

  it('does not push out good ones, nor get remembered', async () => {
    const tokens = open();
    const { access_token } = await tokens.issue(session);
    await tokens.verify(access_token);
    for (let i = 0; i < 50; i++) await refused(() => tokens.verify(`${access_token}${i}`));
    assert.ok(!(tokens.verify(access_token) instanceof Promise));
  });
});

describe('the session of a token', () => {
  it('is known when the token has expired, or its session was ended', async () => {
    const clock = frozenClock(START);
    const tokens = open({ clock, revocations: revocationsOf(new Set(['ses_1'])), mayStay: () => false });
    const { access_token } = await tokens.issue(session);
    clock.advance(10 * 86_400_000);
    assert.equal(await tokens.sessionOf(access_token), 'ses_1');
  });

  it('does not classify one signed by another key or gateway', async () => {
    const other = open({ config: configWith(authWith({ session: { signing_key_env: 'OTHER_KEY' } })) });
    const { access_token } = await other.issue(session);
    assert.equal(await open().sessionOf(access_token), undefined);
    assert.equal(await open().sessionOf(await forge({ iss: 'https://other.example.com' })), undefined);
    assert.equal(await open().sessionOf('gw_nonsense'), undefined);
  });
});

it('a token has one spelling: no equivalent for a decoder is accepted, or ends the session', async () => {
  const tokens = open();
  const { access_token } = await tokens.issue(session);
  const [header = '', payload = '', signature = ''] = access_token.split('.');
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = alphabet.indexOf(signature.at(-1)!);
  const respelled = [
    ...[1, 2, 3].map((more) => `${header}.${payload}.${signature.slice(0, -1)}${alphabet[last + more]}`),
    ...['=', ' ', '\n', '\t', '.', '\u00a0', '%3D'].flatMap((more) => [
      `${access_token}${more}`,
      `${more}${access_token}`,
    ]),
    `${header}.${payload}.${signature.slice(0, 20)} ${signature.slice(20)}`,
    `${header}=.${payload}.${signature}`,
    `${header}.${payload}=.${signature}`,
    `${header}.${payload}.${Buffer.from(signature, 'base64url').toString('base64')}`,
    `${header}.${payload}.${signature}A`,
  ];
  const variants = [
    { typ: HEADER.typ, alg: HEADER.alg, kid: HEADER.kid },
    { ...HEADER, typ: 'Session+JWT' },
    { ...HEADER, typ: 'application/session+jwt' },
    { ...HEADER, cty: 'x' },
    { ...HEADER, b64: true },
  ];
  // Signed by the very key, with an equivalent header in other words.
  for (const variant of variants) {
    respelled.push(await new SignJWT(CLAIMS).setProtectedHeader(variant).sign(keys.current.derive('sign')));
  }
  const spaced = Buffer.from(JSON.stringify(HEADER, null, 1));
  const signed = `${spaced.toString('base64url')}.${payload}`;
  respelled.push(`${signed}.${createHmac('sha256', keys.current.derive('sign')).update(signed).digest('base64url')}`);
  for (const token of respelled) {
    if (token === access_token) continue;
    assert.equal((await refused(() => tokens.verify(token))).code, 'credential_invalid', JSON.stringify(token));
    assert.equal(await tokens.sessionOf(token), undefined, JSON.stringify(token));
  }
  assert.equal((await tokens.verify(access_token)).email, person.email);
  assert.equal(await tokens.sessionOf(access_token), 'ses_1');
});

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
  return assert.fail('the keys were accepted');
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

  it('derive from the client secret or the private key without a named signing key, whatever its line ends', () => {
    const by_secret = keysOf();
    const by_key = createSessionKeys(BY_PRIVATE_KEY, secret, quietLog);
    assert.notEqual(by_secret.current.id, by_key.current.id);
    assert.notEqual(by_secret.current.id, signedWith('SIGNING_KEY').current.id);
    const windows = createSessionKeys(BY_PRIVATE_KEY, (name) => secret(name).replaceAll('\n', '\r\n'), quietLog);
    assert.equal(windows.current.id, by_key.current.id);
  });

  it('count every previous key, and the current one as the one that signs', () => {
    const keys = signedWith('SIGNING_KEY', 'OTHER_KEY', 'CLIENT_SECRET', 'SIGNING_KEY');
    assert.equal(keys.all.size, 3);
    assert.equal(keys.all.get(keys.current.id), keys.current);
    assert.equal(keys.current.id, signedWith('SIGNING_KEY').current.id);
  });

  it('reject a secret that is too short, by its variable and with a remedy', () => {
    assert.match(
      complaintAbout({ session: { signing_key_env: 'SHORT_KEY' } }),
      /SHORT_KEY is too short .* at least 32 characters; make one with "openssl/,
    );
    assert.match(
      complaintAbout({ session: { previous_signing_keys: [{ key_env: 'SHORT_CLIENT_SECRET' }] } }),
      /SHORT_CLIENT_SECRET is too short .* auth\.session\.previous_signing_keys/,
    );
  });

  it('are of this process alone where the client secret could be guessed from its signatures', () => {
    const warnings: string[] = [];
    const log = {
      warn: (fields: object, message: string) => void warnings.push(`${JSON.stringify(fields)} ${message}`),
    };
    const auth = authWith({ oidc: { client_secret_env: 'SHORT_CLIENT_SECRET' } });
    const [one, after_reload] = [createSessionKeys(auth, secret, log), createSessionKeys(auth, secret, log)];
    assert.equal(one.current.id, after_reload.current.id);
    assert.notEqual(one.current.id, keysOf().current.id);
    assert.match(warnings[0]!, /SHORT_CLIENT_SECRET.*sessions end with this process.*auth\.session\.signing_key_env/);
    assert.equal(warnings.length, 2);
    assert.ok(!warnings.join().includes(SECRETS.SHORT_CLIENT_SECRET!));
  });

  it('accept a client secret of any length with a named signing key', () => {
    const auth = { oidc: { client_secret_env: 'SHORT_CLIENT_SECRET' }, session: { signing_key_env: 'SIGNING_KEY' } };
    assert.equal(keysOf(auth).current.id, signedWith('SIGNING_KEY').current.id);
  });
});

describe('a sealed value', () => {
  const keys = signedWith('SIGNING_KEY');
  const value = { refresh_token: 'provider-refresh-token', ünïcode: ['\u2028', { deep: null }] };

  it('opens to its content, and reveals nothing of it before', async () => {
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

  it('does not open after any change', async () => {
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
