import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cli } from '../../cli/support.ts';
import { startIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const groups = ['engineering'];
/** No claim says whether an address is verified, and users set their own. */
const PEOPLE = {
  stated: { email: 'stated@example.com', email_verified: true, groups },
  'dora-1': { email: 'dora@example.com', groups },
  'dora-2': { email: 'dora@example.com', groups },
  erik: { email: 'erik@example.com', groups },
};
const oidc = { email_verification: 'if_stated' };
const scene = useSignInScene({ people: { people: PEOPLE }, oidc });
const { statusOf, refused, trySignIn } = scene;

/** What `appscli users reassign` prints for a user. */
async function rebind(config_file: string, ...words: string[]): Promise<string> {
  const env = { ...process.env, TEST_DATABASE_URL: scene.database_url };
  return (await cli(['users', 'reassign', ...words, '--config', config_file], { env })).stderr;
}

describe('an administrator', () => {
  it('assigns the address of existing tokens to a user', async () => {
    const { gateway } = scene;
    const token = await gateway.newToken({ user: 'stated@example.com', name: 'made before' });
    const denied = await trySignIn('stated');
    assert.equal(denied.body.error, 'access_denied');
    assert.match(denied.page.text, /administrators created access tokens for that address.*ask your administrator/s);
    const printed = await rebind(gateway.config_file, 'Stated@example.com');
    assert.match(printed, /Assigned stated@example.com to the next account.*Ended: 0 sessions, 0 access tokens/);
    assert.equal((await scene.signIn('stated')).email, 'stated@example.com');
    assert.equal(await statusOf(token), 200);
  });

  it("gives a leaver's address to a new account, and ends the leaver's sessions and tokens", async () => {
    const { gateway } = scene;
    const former = await scene.signIn('dora-1');
    const token = await gateway.newToken({ user: 'dora@example.com', name: 'of the former' });
    const denied = await trySignIn('dora-2');
    assert.deepEqual([denied.page.status, denied.body.error], [403, 'access_denied']);
    assert.match(denied.page.text, /another account of the identity provider owns/);
    assert.equal((await scene.renew(former.refresh_token)).status, 200);
    const printed = await rebind(gateway.config_file, 'dora@example.com', '--subject', 'dora-2');
    assert.match(printed, /to account dora-2.*1 session, 1 access token/);
    for (const gone of [former.access_token, token]) await refused(gone);
    assert.equal((await trySignIn('dora-1')).body.error, 'access_denied');
    assert.equal((await scene.signIn('dora-2')).email, 'dora@example.com');
  });

  it('lets all users in again after a change of the provider, with their access tokens', async (t) => {
    await scene.signIn('erik');
    const token = await scene.gateway.newToken({ user: 'erik@example.com', name: 'kept' });
    const next = await startIdentityProvider({ people: { erik: PEOPLE.erik } });
    t.after(() => next.close());
    const after_change = await bootSignIn({ provider: next, oidc, database_url: scene.database_url });
    t.after(() => after_change.close());
    const denied = await trySignIn('erik', after_change);
    assert.equal(denied.body.error, 'access_denied', denied.page.text.slice(-900));
    assert.match(denied.page.text, /account of the previous identity provider/);
    const run = (...words: string[]) => rebind(after_change.config_file, ...words);
    assert.match(await run('--former-issuer', scene.provider.issuer), /Assigned erik@example\.com to the next account/);
    assert.equal((await scene.signIn('erik', after_change)).email, 'erik@example.com');
    assert.equal(await statusOf(token), 200);
    assert.match(await run('--former-issuer', 'https://nobody.example'), /no user has an account/);
    assert.match(await run('nobody@example.com'), /unknown user nobody@example.com/);
  });
});
