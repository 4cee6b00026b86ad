import assert from 'node:assert/strict';
import { test } from 'node:test';
import { admit } from '../../../engine/identity/provider/admit.ts';
import { groupMisses } from '../../../engine/identity/provider/group-misses.ts';
import { oidcConfig } from '../../support/identity/oidc-config.ts';

const misses = (groups: unknown, allowed_groups: string[], more: { claims?: object; groups_claim?: string } = {}) =>
  groupMisses(
    { sub: 'dana', email: 'dana@example.com', ...(groups === undefined ? {} : { groups }), ...more.claims },
    oidcConfig('https://id.example.com', {
      allowed_groups,
      ...(more.groups_claim === undefined ? {} : { groups_claim: more.groups_claim }),
    }),
  );

test('what came nearly as expected comes first, and it is said what is different', () => {
  const cases: [string, string, RegExp][] = [
    [
      '/engineering',
      'engineering',
      /^\/engineering came, and engineering is expected: the provider sends the full path/,
    ],
    ['/company/engineering', 'engineering', /sends the full path/],
    ['engineering', '/engineering', /sends the name alone/],
    ['Engineering', 'engineering', /capitals count/],
    ['Model Users', 'model-users', /to the letter/],
    ['cn=engineering,ou=groups,dc=example,dc=com', 'engineering', /writes more around the name/],
    ['engineering@example.com', 'engineering', /writes more around the name/],
    ['EXAMPLE\\engineering', 'engineering', /writes more around the name/],
    ['enginering', 'engineering', /mistyped/],
  ];
  for (const [came, expected, hint] of cases) {
    const found = misses(['staff', 'everybody', came], [expected, 'research']);
    assert.equal(found.came[0], came);
    assert.deepEqual(found.came.slice(1), ['staff', 'everybody']);
    assert.deepEqual(found.expected, [expected, 'research']);
    assert.match(found.hints[0] ?? '', hint, came);
  }
});

test('groups in another claim, identifiers for names and no groups at all are told apart', () => {
  const roles = { realm_access: { roles: ['offline_access', 'engineering'] } };
  assert.match(
    misses(undefined, ['engineering'], { claims: roles }).hints[0] ?? '',
    /the claim \/realm_access\/roles lists one .* set auth\.oidc\.groups_claim to \/realm_access\/roles/,
  );
  const ids = misses(['aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee'], ['engineering']);
  assert.match(ids.hints[0] ?? '', /sends identifiers of groups/);
  const none = misses(undefined, ['engineering']);
  assert.match(none.hints[0] ?? '', /no group came in the claim groups .* the claims that came are sub, email/);
  assert.ok(!JSON.stringify(none).includes('dana@example.com'), 'only names of claims');
  assert.deepEqual(misses(['staff'], ['research']).hints, []);
  for (const text of ['staff,engineering', 'staff engineering', '[staff, engineering]', '["staff","engineering"]']) {
    assert.match(misses(text, ['engineering']).hints[0] ?? '', /^one text came with engineering in it/);
  }
  assert.deepEqual(misses({ staff: {}, engineering: null }, ['engineering']).came, ['staff']);
});

test('however much a provider sends, little of it is kept', () => {
  const many = Array.from({ length: 5000 }, (_, n) => `/group-${n}/${'x'.repeat(500)}`);
  const found = misses(many, ['engineering', ...many.map((name) => name.toUpperCase()).slice(0, 100)]);
  assert.ok(JSON.stringify(found).length < 10_000);
});

test('an administrator reads in the refusal what came and what is expected', () => {
  const oidc = oidcConfig('https://id.example.com', { allowed_groups: ['engineering'] });
  const claims = {
    iss: 'https://id.example.com',
    sub: 'd',
    email: 'd@example.com',
    email_verified: true,
    groups: ['/engineering'],
  };
  const refused = admit(claims, { oidc, teams: [], projects: [] });
  assert.ok('refused' in refused);
  assert.match(refused.detail, /\/engineering came, and engineering is expected/);
  assert.deepEqual(refused.misses?.came, ['/engineering']);
});
