/** A provider with claims only for a scope that no request includes: `check --live` and `sessions explain` name it. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { cli } from '../../cli/support.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({
  people: { scopes: { groups: ['groups'], email: ['email', 'email_verified'] } },
  oidc: { allowed_groups: ['engineering'] },
});
const REMEDY = 'set auth.oidc.scopes to [openid, profile, email, offline_access, groups]';

/** The output of an operator's command, in one line. */
async function printed(...command: string[]): Promise<string> {
  const { config_file, env } = scene.gateway;
  const { stdout, stderr } = await cli([...command, '--config', config_file], { env });
  return (stdout + stderr).replace(/\s+/g, ' ');
}

it('names a listed scope that no request includes, with all scopes to write, and then groups arrive', async () => {
  const checked = await printed('check', '--live');
  assert.match(checked, /it lists the scope groups, which contains the claim groups and is not requested: /);
  assert.ok(checked.includes(REMEDY), checked);
  assert.equal((await scene.trySignIn('anna')).page.status, 403);
  const explained = await printed('sessions', 'explain', 'anna@example.com');
  assert.match(explained, /lists no groups; the provider lists the scope groups, which contains the claim groups/);
  assert.ok(explained.includes(REMEDY), explained);

  await scene.configure(({ auth }) => {
    auth.oidc.scopes = ['openid', 'profile', 'email', 'offline_access', 'groups'];
  });
  assert.doesNotMatch(await printed('check', '--live'), /the scope/);
  await scene.signIn('anna');
  assert.equal((await scene.trySignIn('ben')).page.status, 403);
  assert.doesNotMatch(await printed('sessions', 'explain', 'ben@example.com'), /the scope/);
});
