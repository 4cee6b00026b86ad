import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TokenGroupConfig } from '../../../engine/contract/config.ts';
import { rolesOf, tokenGroupOf } from '../../../engine/identity/deprovisioning/token-groups.ts';
import { tokenGroupsOpenTo } from '../../../engine/identity/tokens/self-made-tokens.ts';
import { authWith } from '../sessions/configuration.ts';

const everything: TokenGroupConfig = { name: 'everything', models: ['*'] };
const writing: TokenGroupConfig = { name: 'writing', models: ['writer-*'] };
const editors = { ...writing, members: ['editors'] };

function standing(token_groups: readonly TokenGroupConfig[], groups: readonly string[], token_group?: string) {
  const config = { token_groups, auth: authWith(token_group === undefined ? {} : { session: { token_group } }) };
  return [tokenGroupOf(config, groups), tokenGroupsOpenTo({ is_admin: false, groups }, config)];
}

describe('the token group of somebody who signed in, and those to make tokens in', () => {
  it('is the one of which one of their groups is a member', () => {
    assert.deepEqual(standing([everything, editors], ['staff', 'editors']), ['writing', ['writing']]);
    assert.deepEqual(standing([{ ...everything, members: ['staff'] }, editors], ['editors', 'staff']), [
      'everything',
      ['everything', 'writing'],
    ]);
  });

  it('is otherwise the one named for sessions, else the only one there is', () => {
    assert.deepEqual(standing([everything, editors], ['staff'], 'everything'), ['everything', ['everything']]);
    assert.deepEqual(standing([writing], ['staff']), ['writing', ['writing']]);
    assert.deepEqual(standing([], ['staff']), ['all', ['all']]);
  });

  it('is otherwise none', () => {
    assert.deepEqual(standing([editors], ['staff']), [undefined, []]);
    assert.deepEqual(standing([everything, editors], ['staff']), [undefined, []]);
    assert.deepEqual(standing([everything, writing], ['staff']), [undefined, []]);
  });
});

it('members of the administrating groups are administrators, nobody where there are none', () => {
  assert.deepEqual(rolesOf({ admin_groups: ['platform'] }, ['staff', 'platform']), ['admin']);
  assert.deepEqual(rolesOf({ admin_groups: ['platform'] }, ['Platform']), []);
  assert.deepEqual(rolesOf({}, ['staff']), []);
});
