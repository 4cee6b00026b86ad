import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { OidcConfig } from '../../../engine/contract/config.ts';
import { admit } from '../../../engine/identity/provider/admit.ts';
import { askedScopes, type SignInScopes, scopeGaps } from '../../../engine/identity/provider/scopes.ts';
import { oidcConfig } from '../../support/identity/oidc-config.ts';

const ISSUER = 'https://id.example.com';
const STANDARD = ['openid', 'profile', 'email'];

/** What providers list, what is asked for and which claim is wanted; then what is missing. */
const CASES: readonly [
  provider: string,
  listed: readonly string[] | undefined,
  oidc: Partial<OidcConfig>,
  gaps: readonly string[],
][] = [
  ['Dex, Okta, Authelia, Pocket ID', [...STANDARD, 'groups', 'offline_access'], {}, ['certain groups']],
  ['the same, asked for', [...STANDARD, 'groups'], { scopes: [...STANDARD, 'groups'] }, []],
  ['Entra ID, Google', STANDARD, {}, []],
  ['Kanidm, groups by name', [...STANDARD, 'groups', 'groups_name'], { scopes: [...STANDARD, 'groups_name'] }, []],
  ['Kanidm, only groups by name', [...STANDARD, 'groups_name', 'groups_spn'], {}, ['likely groups_name, groups_spn']],
  ['Keycloak', [...STANDARD, 'roles', 'web-origins', 'microprofile-jwt', 'acr'], {}, ['likely roles']],
  ['Keycloak, roles', [...STANDARD, 'roles'], { groups_claim: '/realm_access/roles' }, ['likely roles']],
  ['GitLab', [...STANDARD, 'read_user', 'api', 'create_runner', 'k8s_proxy', 'admin_mode'], {}, []],
  [
    'ZITADEL, listing the scope of its claim',
    [...STANDARD, 'urn:zitadel:iam:org:project:roles'],
    { groups_claim: 'urn:zitadel:iam:org:project:roles' },
    ['certain urn:zitadel:iam:org:project:roles'],
  ],
  ['Auth0, with scopes named as claims', [...STANDARD, 'email_verified', 'name'], {}, []],
  ['no address', STANDARD, { scopes: ['openid'] }, ['certain email']],
  ['no list of scopes', undefined, { scopes: ['openid'] }, ['certain email']],
  ['no list of scopes, and the usual ones', undefined, {}, []],
  [
    'another claim of the address',
    STANDARD,
    { scopes: ['openid', 'email'], email_claim: 'preferred_username' },
    ['certain profile'],
  ],
  ['a claim of teams', [...STANDARD, 'department'], { team_claim: '/department/name' }, ['certain department']],
];

describe('claims that do not come for want of a scope', () => {
  for (const [provider, listed, oidc, expected] of CASES) {
    test(provider, () => {
      const config = oidcConfig(ISSUER, oidc);
      const gaps = scopeGaps(config, { asked: askedScopes(config, listed), listed });
      const found = gaps.map(({ kind, hint }) => `${kind} ${/the scopes? (.*?), (?:which|not)/.exec(hint)?.[1]}`);
      assert.deepEqual(found, expected);
      for (const { hint } of gaps) assert.match(hint, /set auth\.oidc\.scopes to \[openid, [^\]]+\]$/);
    });
  }

  test('are told in refusals, also where the provider did not grant the scope, and only of claims that did not come', () => {
    const asked = [...STANDARD, 'groups'];
    const claims = { iss: ISSUER, sub: 'anna-1', email: 'anna@example.com', email_verified: true };
    const detailOf = (scopes: SignInScopes, more: object = {}) => {
      const oidc = oidcConfig(ISSUER, { allowed_groups: ['engineering'], scopes: asked });
      const admission = admit({ ...claims, ...more }, { teams: [], projects: [], oidc }, scopes);
      return 'detail' in admission ? admission.detail : '';
    };
    const kept_back = { asked, listed: asked, granted: STANDARD };
    assert.match(
      detailOf(kept_back),
      /; the provider did not grant the scope groups, which brings .*: allow the client/,
    );
    assert.doesNotMatch(detailOf({ asked, listed: asked, granted: asked }), /scope/);
    assert.doesNotMatch(detailOf({ asked, listed: asked }), /scope/);
    assert.doesNotMatch(detailOf(kept_back, { groups: ['marketing'] }), /scope/);
    const unverified = { asked: ['openid'], listed: STANDARD };
    assert.match(
      detailOf(unverified, { email_verified: undefined }),
      /lists the scope email, which brings the claims email, email_verified/,
    );
    assert.match(
      detailOf(unverified, { email: undefined }),
      /let the identity provider send it; the provider lists the scope email/,
    );
  });
});
