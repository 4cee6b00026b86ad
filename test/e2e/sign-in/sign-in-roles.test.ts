/** Providers that say of nobody that an address is verified, and that send roles in another form than a list. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import {
  askForToken,
  beginSignIn,
  bootSignIn,
  confirmInBrowser,
  pollWith,
  signIn,
} from '../../support/identity/sign-in.ts';

const ROLES = 'urn:zitadel:iam:org:project:roles';
const granted = { 2717: 'acme.id.example.com' };
const PEOPLE = {
  zoe: { email: 'zoe@example.com', email_verified: false, [ROLES]: { coder: granted, admin: granted } },
  yann: { email: 'yann@example.com', email_verified: false, [ROLES]: [{ coder: granted }] },
  xenia: { email: 'xenia@example.com', email_verified: false, [ROLES]: { coder: null, visitor: granted } },
  mallory: { email: 'mallory@example.org', email_verified: false, [ROLES]: { coder: granted } },
};

let provider: TestIdentityProvider;
let gateway: TestGateway;

const limits = { device_authorizations: 1000, code_submissions: 1000, window_seconds: 600 };
const oidc = { groups_claim: ROLES, allowed_groups: ['coder'], allowed_email_domains: ['example.com'] };

before(async () => {
  provider = await startIdentityProvider({ people: PEOPLE });
  gateway = await bootSignIn({
    provider,
    oidc: { ...oidc, email_verification: 'ignored' },
    auth: { admin_groups: ['admin'], limits },
  });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});

async function refusalOf(at: TestGateway, sub: string) {
  const { device_code, user_code } = await beginSignIn(at.url);
  await confirmInBrowser(at.url, user_code, sub);
  const { status, body } = await askForToken(at.url, pollWith(device_code));
  assert.deepEqual([status, body.error], [400, 'access_denied']);
  const { email } = provider.people.get(sub)!;
  return at.database.knex('refused_sign_ins').where({ email }).orderBy('id', 'desc').first();
}

async function me(sub: string) {
  const { access_token } = await signIn(gateway.url, sub);
  const answer = await fetch(`${gateway.url}/admin/api/me`, { headers: { authorization: `Bearer ${access_token}` } });
  assert.equal(answer.status, 200);
  return (await answer.json()) as { email: string; groups: string[]; roles: string[] };
}

describe('with roles as an object, and addresses that are verified for nobody', () => {
  it('people sign in whose role is one of its keys, administrators too', async () => {
    assert.partialDeepStrictEqual(await me('zoe'), { groups: ['coder', 'admin'], roles: ['admin'] });
    assert.partialDeepStrictEqual(await me('yann'), { groups: ['coder'], roles: [] });
  });

  it('somebody whose role was taken away does not', async () => {
    const { refused, groups } = await refusalOf(gateway, 'xenia');
    assert.deepEqual([refused, groups], ['group', ['visitor']]);
  });

  it('somebody at another domain does not', async () => {
    assert.equal((await refusalOf(gateway, 'mallory')).refused, 'email_domain');
  });

  it('nobody does where gateway.yaml does not say so, and administrators are told what would let them', async () => {
    const strict = await bootSignIn({ provider, oidc, auth: { limits } });
    const { refused, detail } = await refusalOf(strict, 'zoe');
    assert.equal(refused, 'email_unverified');
    assert.match(detail, /set auth\.oidc\.email_verification to ignored, with allowed_email_domains/);
    await strict.close();
  });
});
