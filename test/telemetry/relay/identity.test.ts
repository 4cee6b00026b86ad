import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Principal } from '../../../engine/api.ts';
import { callerAttributes, isClaimed } from '../../../engine/telemetry/relay/identity.ts';

const ADA: Principal = {
  id: 'user:ada@example.com',
  email: 'ada@example.com',
  kind: 'access_token',
  groups: ['engineering'],
  roles: [],
  team: 'compilers',
  project: undefined,
  token: { id: 'tok_1', name: 'laptop', group: 'all' },
};

const said = (principal: Principal, parts: Parameters<typeof callerAttributes>[1]) =>
  Object.fromEntries(
    callerAttributes(principal, parts).map(({ key, value }) => [
      key,
      value?.stringValue ?? value?.arrayValue?.values?.map(({ stringValue }) => stringValue),
    ]),
  );

test('telemetry of a client says of its sender what the destination may know, and no address by another name', () => {
  assert.deepEqual(said(ADA, ['id', 'email', 'groups', 'team', 'project', 'token_group']), {
    'user.id': 'user:ada@example.com',
    'user.email': 'ada@example.com',
    'user.groups': ['engineering'],
    'gateway.team': 'compilers',
    'gateway.token_group': 'all',
    'identity.source': 'gateway-token',
  });
  assert.deepEqual(said(ADA, ['id', 'team']), { 'gateway.team': 'compilers', 'identity.source': 'gateway-token' });
  const signed_in: Principal = { ...ADA, id: 'usr_7f01', kind: 'session' };
  assert.deepEqual(said(signed_in, ['id']), { 'user.id': 'usr_7f01', 'identity.source': 'gateway-oidc' });
});

test('a client does not say who it is by names that a backend takes for those of the gateway', () => {
  const claimed = `user.id user_id userId User-Groups user/groups user_groups usr.id enduser_id gateway_team gateway.team
    identity_source identity-source user_email gateway_token_group`;
  for (const name of [...claimed.split(/\s+/), ' user.id', 'user groups', 'user.id\u200b']) {
    assert.equal(isClaimed(name), true, JSON.stringify(name));
  }
  for (const name of 'user_agent.original http.user_agent session.id model team_size user_prompt_length'.split(' ')) {
    assert.equal(isClaimed(name), false, name);
  }
});
