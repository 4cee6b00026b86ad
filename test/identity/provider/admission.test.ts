import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { OidcConfig } from '../../../engine/base/contract/config.ts';
import {
  type Admission,
  type AdmissionConfig,
  admit,
  mayStay,
  type Person,
} from '../../../engine/domain/identity/provider/admit.ts';
import {
  type AdmissionProblem,
  completeClaims,
  groupMisses,
  lookUpClaim,
} from '../../../engine/domain/identity/provider/claims.ts';
import { type issuerOf, redirectUriOf } from '../../../engine/domain/identity/provider/provider.ts';
import { requestedScopes, type SignInScopes, scopeGaps } from '../../../engine/domain/identity/provider/scopes.ts';
import { oidcConfig } from '../../support/identity/oidc-config.ts';

const CLAIMS = { iss: 'https://id.example.com', sub: 'anna-1', email: 'Anna@Example.com', email_verified: true };

function config(oidc: Partial<OidcConfig> = {}, more: Partial<AdmissionConfig> = {}): AdmissionConfig {
  return { teams: [], projects: [], ...more, oidc: oidcConfig('https://id.example.com', oidc) };
}

const decide = (claims: object, oidc: Partial<OidcConfig> = {}, more: Partial<AdmissionConfig> = {}) =>
  admit({ ...CLAIMS, ...claims }, config(oidc, more));

function admitted(admission: Admission): Person {
  assert.ok('person' in admission, 'detail' in admission ? admission.detail : '');
  return admission.person;
}

function refused(admission: Admission, problem: AdmissionProblem, detail: RegExp): string {
  assert.ok('refused' in admission, 'the user was admitted');
  assert.equal(admission.refused, problem, admission.detail);
  assert.match(admission.detail, detail);
  assert.doesNotMatch(admission.detail + admission.message, /\p{Cc}/u);
  return admission.message;
}

test("a user is defined by the provider's claims", () => {
  const claims = { name: 'Anna Adler', groups: ['eng', 'ops'], team: 'core', project: 'apollo' };
  assert.deepEqual(admitted(decide(claims, { team_claim: 'team', project_claim: 'project' })), {
    issuer: 'https://id.example.com',
    subject: 'anna-1',
    email: 'anna@example.com',
    name: 'Anna Adler',
    groups: ['eng', 'ops'],
    team: 'core',
    project: 'apollo',
  });
  const { issuer, subject, email } = admitted(decide({}));
  assert.deepEqual(admitted(decide({})), { issuer, subject, email, groups: [] }, 'nothing is invented');
});

test('rejects a user without an identity', () => {
  for (const [claim, value] of [
    ['sub', ''],
    ['sub', 7],
    ['sub', 'a\nb'],
    ['sub', 's'.repeat(256)],
    ['iss', null],
  ] as const) {
    refused(decide({ [claim]: value }), 'claims_unusable', new RegExp(`claim ${claim} `));
  }
});

describe('an e-mail address', () => {
  test('is required', () => {
    for (const email of [undefined, null, '']) {
      const message = refused(decide({ email }), 'email_missing', /claim email \(auth\.oidc\.email_claim\)/);
      assert.match(message, /e-mail address/);
    }
  });

  test('is found by name or pointer', () => {
    const email_verification = 'if_stated';
    assert.equal(admitted(decide({ upn: 'U@x.org' }, { email_claim: 'upn', email_verification })).email, 'u@x.org');
    const emails = ['L@x.org'];
    assert.equal(admitted(decide({ emails }, { email_claim: '/emails/0', email_verification })).email, 'l@x.org');
    refused(decide({ emails: ['a@x.org'] }, { email_claim: 'emails' }), 'claims_unusable', /not a list.*\/emails\/0/);
  });

  test('must be a single address, without anything mistakable for another', () => {
    const long = `${'a'.repeat(243)}@example.com`;
    const mistyped = ['anna', '"a"@example.com', 'Anna <a@example.com>'];
    const names = ['', 'a@b', '<script>', 'a,b', 'a b', 'a\u0000'].map((name) => `${name}@example.com`);
    const domains = ['', 'exam ple.com', 'example..com', '.example.com', 'example.com.', 'example.com\n'];
    // Characters that look like others, or like nothing.
    const in_name = [0x200b, 0x202e, 0x212a, 0x130, 0xd800, 0xff41, 0x34f, 0xfe0f, 0x3164, 0xad, 0x17f, 0xfb01, 0xa0];
    const in_domain = [0x212a, 0xd7, 0xfc, 0xff45];
    const deceptive = [
      ...in_name.map((code) => `an${String.fromCharCode(code)}a@example.com`),
      ...in_domain.map((code) => `anna@e${String.fromCharCode(code)}ample.com`),
      'jo\u0308rg@example.com',
    ];
    const at_domains = domains.map((domain) => `a@${domain}`);
    const bad = [7, true, {}, ['a@example.com'], ...mistyped, ...names, ...at_domains, ...deceptive, long];
    for (const email of bad) refused(decide({ email }), 'claims_unusable', /auth\.oidc\.email_claim/);
    const good = [
      "o'neil+x@sub.example.com",
      'j\u00f6rg@example.com',
      'anna@xn--mnchen-3ya.example.com',
      long.slice(1),
    ];
    for (const email of good) {
      assert.equal(admitted(decide({ email })).email, email);
    }
  });

  test('that the provider calls unverified is rejected, always', () => {
    for (const email_verification of ['required', 'if_stated'] as const) {
      for (const email_verified of [false, 'false', 'yes', 1, 0, {}, '']) {
        const message = refused(decide({ email_verified }, { email_verification }), 'email_unverified', /not true/);
        assert.match(message, /anna@example\.com/);
      }
    }
  });

  test('that the provider calls unverified passes where gateway.yaml allows it, at the named domains only', () => {
    const settings = { email_verification: 'ignored', allowed_email_domains: ['example.com'] } as const;
    for (const email_verified of [false, 'false', 0, null, undefined, {}, true]) {
      assert.equal(admitted(decide({ email_verified }, settings)).email, 'anna@example.com');
      refused(decide({ email_verified, email: 'a@example.org' }, settings), 'email_domain', /not in a domain/);
    }
    refused(
      decide({ email_verified: false }),
      'email_unverified',
      /set auth\.oidc\.email_verification to ignored, with/,
    );
  });

  test('without a claim about verification is rejected, unless gateway.yaml declares it absent', () => {
    for (const email_verified of [undefined, null]) {
      for (const allowed_email_domains of [undefined, ['example.com']]) {
        const settings = allowed_email_domains === undefined ? {} : { allowed_email_domains };
        admitted(decide({ email_verified }, { ...settings, email_verification: 'if_stated' }));
        refused(
          decide({ email_verified }, settings),
          'email_unverified',
          /missing.*set auth\.oidc\.email_verification to if_stated/,
        );
      }
    }
    admitted(decide({ email_verified: 'true' }));
  });

  test('is not verified by a claim about another one', () => {
    const claims = { preferred_username: 'boss@example.com' };
    refused(decide(claims, { email_claim: 'preferred_username' }), 'email_unverified', /about another address/);
    const own = { preferred_username: 'ANNA@example.com' };
    admitted(decide(own, { email_claim: 'preferred_username' }));
  });

  test('must be at an allowed domain, exactly', () => {
    const allowed_email_domains = ['Example.COM', 'example.org'];
    admitted(decide({}, { allowed_email_domains }));
    for (const domain of ['sub.example.com', 'example.com.evil.net', 'evilexample.com', 'example.net']) {
      const message = refused(decide({ email: `a@${domain}` }, { allowed_email_domains }), 'email_domain', /domains/);
      assert.ok(message.includes(domain));
    }
    for (const domain of ['ехample.com', 'example。com']) {
      refused(decide({ email: `a@${domain}` }, { allowed_email_domains }), 'claims_unusable', /must be in ASCII/);
    }
  });
});

describe('groups', () => {
  test('are a list of texts, or one text that is one group', () => {
    assert.deepEqual(admitted(decide({ groups: 'a, b admins' })).groups, ['a, b admins']);
    assert.deepEqual(admitted(decide({ groups: ['b', '', 'a', 'b', ' a ', 'A'] })).groups, ['b', 'a', ' a ', 'A']);
    for (const groups of [undefined, null, [], '']) assert.deepEqual(admitted(decide({ groups })).groups, []);
  });

  test('are the keys of an object that maps each role to its grantor, alone or in a list', () => {
    const rows: readonly (readonly [unknown, readonly string[]])[] = [
      [{ coder: { 17: 'acme.zitadel.cloud' }, admin: { 17: 'acme.zitadel.cloud', 18: 'b' } }, ['coder', 'admin']],
      [
        [{ coder: { 17: 'acme.zitadel.cloud' } }, { admin: { 17: 'b' } }],
        ['coder', 'admin'],
      ],
      [{ coder: {}, ops: null }, ['coder']],
      [{}, []],
      [
        ['ops', { coder: { 17: 'a' } }],
        ['ops', 'coder'],
      ],
      [JSON.parse('{"__proto__": {"1": "a"}, "constructor": {"1": "a"}}'), ['__proto__', 'constructor']],
    ];
    for (const [groups, expected] of rows) assert.deepEqual(admitted(decide({ groups })).groups, expected);
    const zitadel = 'urn:zitadel:iam:org:project:roles';
    assert.deepEqual(admitted(decide({ [zitadel]: { coder: {} } }, { groups_claim: zitadel })).groups, ['coder']);
    assert.deepEqual(admitted(decide({ groups: { a: {}, b: {} } }, { keep_groups: ['b'] })).groups, ['b']);
  });

  test('of any other shape are rejected rather than guessed', () => {
    for (const groups of [
      { admins: true },
      { admins: true, ops: {} },
      { 0: 'admins', length: 1 },
      { gateway: { roles: ['admins'] } },
      [{ id: 7 }],
      [{ admins: null }],
      7,
      [['admins']],
      ['a', 7],
      [{}],
    ]) {
      refused(
        decide({ groups }),
        'claims_unusable',
        /auth\.oidc\.groups_claim\) must be a list of strings, or an object whose keys are roles/,
      );
    }
    refused(decide({ groups: ['a\nb'] }), 'claims_unusable', /control characters/);
    refused(decide({ groups: { 'a\nb': {} } }), 'claims_unusable', /control characters/);
    const claims = { resource_access: { 'my/app\u202e': { roles: ['admins'] } } };
    const detail = /object with lists in it|one of the lists in it name \/resource_access\/my~1app\?\/roles/;
    refused(decide(claims, { groups_claim: 'resource_access' }), 'claims_unusable', detail);
    refused(decide({ groups: ['a\ud800'] }), 'claims_unusable', /control characters/);
  });

  test('are found by pointer, never on a prototype', () => {
    const groups_claim = '/realm_access/roles';
    assert.deepEqual(admitted(decide({ realm_access: { roles: ['r'] } }, { groups_claim })).groups, ['r']);
    for (const name of ['__proto__', '/__proto__/groups', 'constructor', '/constructor/name', 'toString']) {
      assert.deepEqual(admitted(decide({}, { groups_claim: name })).groups, [], name);
    }
    assert.deepEqual(admitted(decide({ groups: ['__proto__', 'constructor'] })).groups, ['__proto__', 'constructor']);
  });

  test('that keep_groups does not name are forgotten', () => {
    const groups = ['team-a', 'team-b', 'other', 'ad\nmin', ...Array.from({ length: 500 }, (_, i) => `dl-${i}`)];
    assert.deepEqual(admitted(decide({ groups }, { keep_groups: ['team-*', 'x'] })).groups, ['team-a', 'team-b']);
  });

  test('are too many when there are thousands', () => {
    const many = (count: number, length = 1) => Array.from({ length: count }, (_, i) => `${i}`.padEnd(length, 'x'));
    assert.equal(admitted(decide({ groups: many(2000) })).groups.length, 2000);
    refused(decide({ groups: many(2001) }), 'too_many_groups', /2001 groups.*auth\.oidc\.keep_groups/);
    assert.equal(admitted(decide({ groups: many(128, 1024) })).groups.length, 128);
    refused(decide({ groups: many(132, 1000) }), 'too_many_groups', /132000 bytes/);
    refused(decide({ groups: ['é'.repeat(65_537)] }), 'too_many_groups', /131074 bytes/);
    const roles = Object.fromEntries(many(2001).map((role) => [role, {}]));
    refused(decide({ groups: roles }), 'too_many_groups', /2001 groups/);
  });

  test('that the provider withholds are not treated as none', () => {
    refused(decide({ _claim_names: { groups: 'src1' } }), 'too_many_groups', /omits the claim groups/);
    admitted(decide({ _claim_names: { groups: 'src1' }, groups: ['a'] }));
    admitted(decide({ _claim_names: { groups: 'src1' } }, { groups_claim: 'roles' }));
  });

  test('decide who may sign in, letter by letter', () => {
    const allowed_groups = ['eng', 'ops'];
    admitted(decide({ groups: ['x', 'ops'] }, { allowed_groups }));
    for (const groups of [undefined, [], ['Eng'], ['engineering'], ['en', 'g'], 'eng,ops', 'eng ops', ['eng ']]) {
      const message = refused(decide({ groups }, { allowed_groups }), 'group', /none of auth\.oidc\.allowed_groups/);
      assert.match(message, /anna@example\.com, who is in none of the groups/);
    }
    refused(
      decide({ groups: ['eng'] }, { allowed_groups, keep_groups: ['x'] }),
      'group',
      /after auth\.oidc\.keep_groups/,
    );
  });
});

describe('team and project', () => {
  const teams = [
    { name: 'core', groups: ['eng', 'ops'] },
    { name: 'sales', groups: ['sales', 'eng'] },
  ];

  test('are those of the claim, else the first that matches a group', () => {
    const team = (claims: object) =>
      admitted(decide(claims, { team_claim: 'dept', project_claim: 'dept' }, { teams })).team;
    assert.equal(team({ dept: 'own', groups: ['eng'] }), 'own');
    for (const dept of [undefined, null, '']) assert.equal(team({ dept, groups: ['eng'] }), 'core');
    assert.equal(team({ groups: ['sales'] }), 'sales');
    assert.equal(team({ groups: ['hr'] }), undefined);
    assert.equal(admitted(decide({ groups: ['eng'] }, {}, { projects: teams })).project, 'core');
  });

  test('that are no text are rejected', () => {
    for (const dept of [7, {}, ['a'], 'a\nb', 'x'.repeat(256)]) {
      refused(decide({ dept }, { team_claim: 'dept' }), 'claims_unusable', /claim dept \(auth\.oidc\.team_claim\)/);
      refused(
        decide({ dept }, { project_claim: 'dept' }),
        'claims_unusable',
        /claim dept \(auth\.oidc\.project_claim\)/,
      );
    }
  });
});

test('a name is for showing: printable and short, else left out', () => {
  const name = (value: unknown) => admitted(decide({ name: value })).name;
  assert.equal(name('  Anna\r\n\u202eAdler\u0000 '), 'Anna Adler');
  assert.equal(name('x'.repeat(500)), 'x'.repeat(200));
  assert.equal([...name('😀'.repeat(300))!].length, 200);
  assert.equal(name(`${'x'.repeat(200)}\ud83d`), 'x'.repeat(200));
  for (const none of ['', ' \n ', 7, {}, null, ['Anna']]) assert.equal(name(none), undefined);
});

test('a user who was admitted may stay while domains and groups still fit', () => {
  const person = admitted(decide({ groups: ['eng'] }));
  assert.deepEqual(mayStay(person, config({ allowed_groups: ['eng'], allowed_email_domains: ['example.com'] })), {
    person,
  });
  refused(mayStay(person, config({ allowed_groups: ['ops'] })), 'group', /allowed_groups/);
  refused(mayStay(person, config({ allowed_email_domains: ['example.org'] })), 'email_domain', /allowed_email_domains/);
});

test('for any claims, the result is a decision, and its user survives storage and JSON', () => {
  const pointers = fc.constantFrom('groups', '/groups/0', '/a/b', '__proto__', 'name');
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom('iss', 'sub', 'email', 'groups', 'name', 'a', '_claim_names'), fc.jsonValue()),
      fc.boolean(),
      pointers,
      (claims, whole, pointer) => {
        const oidc = { groups_claim: pointer, team_claim: pointer, keep_groups: ['*'] };
        const admission = admit(whole ? { ...CLAIMS, ...claims } : claims, config(oidc));
        if ('refused' in admission) return;
        assert.deepEqual(JSON.parse(JSON.stringify(admission.person)), admission.person);
        assert.doesNotMatch(JSON.stringify(Object.values(admission.person)), /\\u0000|\\ud[89a-f]/);
      },
    ),
  );
});

test('every value of any JSON is found by its pointer, and looking never fails', () => {
  const escaped = (step: string) => step.replaceAll('~', '~0').replaceAll('/', '~1');
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (claims, anything) => {
      const visit = (value: unknown, pointer: string) => {
        assert.deepEqual(lookUpClaim(claims, pointer), value);
        if (typeof value !== 'object' || value === null) return;
        for (const [step, inner] of Object.entries(value)) visit(inner, `${pointer}/${escaped(step)}`);
      };
      for (const [name, value] of Object.entries(claims)) visit(value, `/${escaped(name)}`);
      lookUpClaim(claims, anything);
    }),
  );
});

describe('claims are completed from the userinfo endpoint', () => {
  const complete = (id_token: object, userinfo: object, lacking: string[]) =>
    completeClaims(id_token as never, userinfo as never, lacking, 'email');

  test('where the ID token has none', () => {
    const claims = complete({ sub: 'a', email: 'x' }, { sub: 'a', email: 'y', groups: ['g'], name: 'n' }, ['groups']);
    assert.deepEqual(claims, { sub: 'a', email: 'x', groups: ['g'], name: 'n' });
  });

  test('also within a claim that the ID token has in part, or as null', () => {
    const userinfo = { realm_access: { roles: ['r'] }, groups: ['g'] };
    const claims = complete({ realm_access: { other: 1 }, groups: null }, userinfo, ['/realm_access/roles', 'groups']);
    assert.deepEqual(claims, userinfo);
  });

  test('with a verified address only from its own source', () => {
    const verified = (id_token: object, userinfo: object, lacking: string[] = []) =>
      complete(id_token, userinfo, lacking).email_verified;
    assert.equal(verified({ email: 'x' }, { email: 'x', email_verified: true }), true);
    assert.equal(verified({ email: 'x' }, { email: 'y', email_verified: true }), undefined);
    assert.equal(verified({ email: 'x' }, { email_verified: true }), undefined);
    assert.equal(verified({ email: 'x', email_verified: false }, { email: 'x', email_verified: true }), false);
    assert.equal(verified({ email_verified: true }, { email: 'y' }, ['email']), undefined);
    assert.equal(verified({ email_verified: true }, { email: 'y', email_verified: false }, ['email']), false);
  });

  test('without touching the prototype of anything', () => {
    const claims = complete({}, JSON.parse('{"__proto__":{"groups":["admins"]}}'), ['groups', '__proto__']);
    assert.equal(lookUpClaim(claims, 'groups'), undefined);
    assert.equal(Object.getPrototypeOf(claims), Object.prototype);
  });
});

const misses = (groups: unknown, allowed_groups: string[], more: { claims?: object; groups_claim?: string } = {}) =>
  groupMisses(
    { sub: 'dana', email: 'dana@example.com', ...(groups === undefined ? {} : { groups }), ...more.claims },
    oidcConfig('https://id.example.com', {
      allowed_groups,
      ...(more.groups_claim === undefined ? {} : { groups_claim: more.groups_claim }),
    }),
  );

test('groups similar to an expected one come first, with the difference', () => {
  const cases: [string, string, RegExp][] = [
    ['/engineering', 'engineering', /^\/engineering came, and engineering is expected: .* sends the full path/],
    ['engineering', '/engineering', /sends the name alone/],
    ['Engineering', 'engineering', /to the letter, with capitals/],
    ['Model Users', 'model-users', /to the letter/],
    ['cn=engineering,ou=groups,dc=example,dc=com', 'engineering', /writes more around the name/],
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
  const around = Array.from({ length: 5 }, (_, n) => `engineering ${n}`);
  assert.equal(misses(['enginering', ...around, '/engineering'], ['engineering']).came[0], '/engineering');
  const long = misses(`${'staff,'.repeat(200)}engineering`, ['engineering']).hints[0];
  assert.match(long ?? '', /let it send a list of names/);
});

test('groups in another claim, identifiers for names and no groups at all are distinguished', () => {
  const roles = { realm_access: { roles: ['offline_access', 'engineering'] } };
  const [elsewhere = ''] = misses(undefined, ['engineering'], { claims: roles }).hints;
  assert.match(
    elsewhere,
    /the claim \/realm_access\/roles lists one .* set auth\.oidc\.groups_claim to \/realm_access\/roles/,
  );
  const ids = misses(['aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee'], ['engineering']);
  assert.match(ids.hints[0] ?? '', /sends identifiers of groups/);
  const none = misses(undefined, ['engineering']);
  assert.match(none.hints[0] ?? '', /no group came in the claim groups .* the claims that came are sub, email/);
  assert.ok(!JSON.stringify(none).includes('dana@example.com'), 'only names of claims');
  assert.deepEqual(misses(['staff'], ['research']).hints, []);
  for (const text of ['staff,engineering', 'staff engineering', '[staff, engineering]', '["staff","engineering"]']) {
    assert.match(misses(text, ['engineering']).hints[0] ?? '', /writes more around the name; .* send a list of names/);
  }
  assert.deepEqual(misses({ staff: {}, engineering: null }, ['engineering']).came, ['staff']);
});

test('stores little, however much a provider sends', () => {
  const many = Array.from({ length: 5000 }, (_, n) => `/group-${n}/${'x'.repeat(500)}`);
  const found = misses(many, ['engineering', ...many.map((name) => name.toUpperCase()).slice(0, 100)]);
  assert.ok(JSON.stringify(found).length < 10_000);
});

const at = (public_url: string) => ({ server: { public_url } }) as Parameters<typeof issuerOf>[0];

test('the redirect URI is the same text wherever it is sent, however the public URL is written', () => {
  const expected = 'https://gateway.example.com/base/oauth/callback';
  for (const url of ['https://gateway.example.com/base', 'https://Gateway.Example.com:443/base/']) {
    assert.equal(redirectUriOf(at(url)), expected);
    // A client that parses it and writes it again sends the same.
    assert.equal(new URL(redirectUriOf(at(url))).href, expected);
  }
});

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
  ['Entra ID, Google', STANDARD, {}, []],
  ['Kanidm, only groups by name', [...STANDARD, 'groups_name', 'groups_spn'], {}, ['likely groups_name, groups_spn']],
  ['Keycloak', [...STANDARD, 'roles', 'web-origins', 'microprofile-jwt', 'acr'], {}, ['likely roles']],
  ['Keycloak, roles', [...STANDARD, 'roles'], { groups_claim: '/realm_access/roles' }, ['likely roles']],
  ['GitLab', [...STANDARD, 'read_user', 'api', 'create_runner', 'k8s_proxy', 'admin_mode'], {}, []],
  ['ZITADEL', [...STANDARD, 'urn:z:roles'], { groups_claim: 'urn:z:roles' }, ['certain urn:z:roles']],
  ['Auth0, with scopes named as claims', [...STANDARD, 'email_verified', 'name'], {}, []],
  ['no address', STANDARD, { scopes: ['openid'] }, ['certain email']],
  ['no list of scopes', undefined, { scopes: ['openid'] }, ['certain email']],
  ['another claim', STANDARD, { scopes: ['email'], email_claim: 'preferred_username' }, ['certain profile']],
  ['a claim of teams', [...STANDARD, 'department'], { team_claim: '/department/name' }, ['certain department']],
];

describe('claims that do not come for want of a scope', () => {
  for (const [provider, listed, oidc, expected] of CASES) {
    test(provider, () => {
      const config = oidcConfig(ISSUER, oidc);
      const gaps = scopeGaps(config, { requested: requestedScopes(config, listed), listed });
      const found = gaps.map(({ kind, hint }) => `${kind} ${/the scopes? (.*?), (?:which|not)/.exec(hint)?.[1]}`);
      assert.deepEqual(found, expected);
      for (const { hint } of gaps) assert.match(hint, /set auth\.oidc\.scopes to \[openid, [^\]]+\]$/);
    });
  }

  test('are named in rejections, also where the provider did not grant the scope, and only for missing claims', () => {
    const requested = [...STANDARD, 'groups'];
    const claims = { iss: ISSUER, sub: 'anna-1', email: 'anna@example.com', email_verified: true };
    const detailOf = (scopes: SignInScopes, more: object = {}) => {
      const oidc = oidcConfig(ISSUER, { allowed_groups: ['engineering'], scopes: requested });
      const admission = admit({ ...claims, ...more }, { teams: [], projects: [], oidc }, scopes);
      return 'detail' in admission ? admission.detail : '';
    };
    const kept_back = { requested, listed: requested, granted: STANDARD };
    assert.match(
      detailOf(kept_back),
      /; the provider did not grant the scope groups, which contains .*: allow it for the client/,
    );
    assert.doesNotMatch(detailOf({ requested, listed: requested, granted: requested }), /scope/);
    assert.doesNotMatch(detailOf({ requested, listed: requested }), /scope/);
    assert.doesNotMatch(detailOf(kept_back, { groups: ['marketing'] }), /scope/);
    const unverified = { requested: ['openid'], listed: STANDARD };
    assert.match(
      detailOf(unverified, { email_verified: undefined }),
      /lists the scope email, which contains the claims email, email_verified/,
    );
    assert.match(
      detailOf(unverified, { email: undefined }),
      /let the identity provider send it; the provider lists the scope email/,
    );
  });
});
