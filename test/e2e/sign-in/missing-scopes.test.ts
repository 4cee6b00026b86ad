/** A provider that gives out claims only for a scope that nobody asks for: `check --live` and `sessions explain` name it. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { cli } from '../../cli/support.ts';
import type { ConfigSections, TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { beginSignIn, bootSignIn, confirmInBrowser, signIn } from '../../support/identity/sign-in.ts';

let provider: TestIdentityProvider;
const gateways: TestGateway[] = [];

before(async () => {
  provider = await startIdentityProvider({ scopes: { groups: ['groups'], email: ['email', 'email_verified'] } });
});
after(async () => {
  for (const gateway of gateways) await gateway.close();
  await provider?.close();
});

async function boot(oidc: ConfigSections): Promise<TestGateway> {
  const gateway = await bootSignIn({ provider, oidc: { allowed_groups: ['engineering'], ...oidc } });
  gateways.push(gateway);
  return gateway;
}

/** What a command of the operator prints, in one line. */
async function printed({ config_file, env }: TestGateway, ...command: string[]): Promise<string> {
  const { stdout, stderr } = await cli([...command, '--config', config_file], { env });
  return (stdout + stderr).replace(/\s+/g, ' ');
}

async function refuse({ url }: TestGateway, sub: string): Promise<void> {
  const { user_code } = await beginSignIn(url);
  assert.equal((await confirmInBrowser(url, user_code, sub)).status, 403);
}

describe('a scope that the provider lists and nobody asks for', () => {
  const REMEDY = 'set auth.oidc.scopes to [openid, profile, email, offline_access, groups]';

  it('is named by check --live and by sessions explain, with all scopes to write, and then groups come', async () => {
    const gateway = await boot({});
    const checked = await printed(gateway, 'check', '--live');
    assert.match(checked, /warning: it lists the scope groups, which brings the claim groups and is not asked for: /);
    assert.ok(checked.includes(REMEDY), checked);
    await refuse(gateway, 'anna');
    const explained = await printed(gateway, 'sessions', 'explain', 'anna@example.com');
    assert.match(explained, /lists no groups; the provider lists the scope groups, which brings the claim groups/);
    assert.ok(explained.includes(REMEDY), explained);

    const mended = await boot({ scopes: ['openid', 'profile', 'email', 'offline_access', 'groups'] });
    assert.doesNotMatch(await printed(mended, 'check', '--live'), /the scope/);
    await signIn(mended.url, 'anna');
    await refuse(mended, 'ben');
    assert.doesNotMatch(await printed(mended, 'sessions', 'explain', 'ben@example.com'), /the scope/);
  });
});
