import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { OidcConfig } from '../../../engine/contract/config.ts';
import {
  type Admission,
  type AdmissionConfig,
  admit,
  mayStay,
  type Person,
} from '../../../engine/identity/provider/admit.ts';
import type { AdmissionProblem } from '../../../engine/identity/provider/claim-values.ts';
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
  assert.ok('refused' in admission, 'somebody was admitted');
  assert.equal(admission.refused, problem, admission.detail);
  assert.match(admission.detail, detail);
  assert.doesNotMatch(admission.detail + admission.message, /\p{Cc}/u);
  return admission.message;
}

test('a person is who the provider says they are', () => {
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
  assert.deepEqual(admitted(decide({})), { issuer, subject, email, groups: [] }, 'nothing is made up');
});

test('nobody is admitted without an identity', () => {
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
  test('has to be there', () => {
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

  test('has to be one, without anything that could be mistaken for another', () => {
    const long = `${'a'.repeat(243)}@example.com`;
    const bad = [
      7,
      true,
      {},
      ['a@example.com'],
      'anna',
      '@example.com',
      'anna@',
      'a@b@example.com',
      'a b@example.com',
      'a@exam ple.com',
      'a@example.com\n',
      'a\u0000@example.com',
      'a\u200b@example.com',
      'a\u202e@example.com',
      '"a"@example.com',
      '<script>@example.com',
      'Anna <a@example.com>',
      'a,b@example.com',
      'a@example..com',
      'a@.example.com',
      'a@example.com.',
      '\u212aim@example.com',
      '\u0130rene@example.com',
      'anna@\u212aim.example.com',
      'anna@e\u00d7ample.com',
      'anna@m\u00fcnchen.example.com',
      'anna@\uff45xample.com',
      'jo\u0308rg@example.com',
      'a\ud800@example.com',
      '\uff41nna@example.com',
      'an\u034fna@example.com',
      'anna\ufe0f@example.com',
      '\u3164anna@example.com',
      'an\u00adna@example.com',
      '\u017fam@example.com',
      '\ufb01@example.com',
      'anna\u00a0@example.com',
      long,
    ];
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

  test('that the provider calls unverified is refused, always', () => {
    for (const email_verification of ['required', 'if_stated'] as const) {
      for (const email_verified of [false, 'false', 'yes', 1, 0, {}, '']) {
        const message = refused(decide({ email_verified }, { email_verification }), 'email_unverified', /not true/);
        assert.match(message, /anna@example\.com/);
      }
    }
  });

  test('that the provider calls unverified passes where gateway.yaml says so, at the domains it names alone', () => {
    const settings = { email_verification: 'ignored', allowed_email_domains: ['example.com'] } as const;
    for (const email_verified of [false, 'false', 0, null, undefined, {}, true]) {
      assert.equal(admitted(decide({ email_verified }, settings)).email, 'anna@example.com');
      refused(decide({ email_verified, email: 'a@example.org' }, settings), 'email_domain', /none of the domains/);
    }
    refused(
      decide({ email_verified: false }),
      'email_unverified',
      /set auth\.oidc\.email_verification to ignored, with/,
    );
  });

  test('about which the provider says nothing is refused, unless gateway.yaml says that it never does', () => {
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

  test('is not verified by a word about another one', () => {
    const claims = { preferred_username: 'boss@example.com' };
    refused(decide(claims, { email_claim: 'preferred_username' }), 'email_unverified', /not about that address/);
    const own = { preferred_username: 'ANNA@example.com' };
    admitted(decide(own, { email_claim: 'preferred_username' }));
  });

  test('has to be at an allowed domain, exactly', () => {
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

  test('are the keys of an object that says of each role who grants it, alone or in a list', () => {
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

  test('of any other shape are refused rather than guessed', () => {
    for (const groups of [
      { admins: true },
      { admins: true, ops: {} },
      { 0: 'admins', length: 1 },
      { admins: 'yes' },
      { roles: ['admins'] },
      { gateway: { roles: ['admins'] } },
      [{ id: 7 }],
      [{ name: 'admins' }],
      [{ admins: null }],
      7,
      true,
      [['admins']],
      ['a', 7],
      ['a', null],
      [{}],
    ]) {
      refused(
        decide({ groups }),
        'claims_unusable',
        /auth\.oidc\.groups_claim\) must be a list of texts, or an object whose keys are roles/,
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

  test('that the provider keeps back are not taken for none', () => {
    refused(decide({ _claim_names: { groups: 'src1' } }), 'too_many_groups', /keeps back the claim groups/);
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
    refused(decide({ groups: ['eng'] }, { allowed_groups, keep_groups: ['x'] }), 'group', /keep_groups leaves out/);
  });
});

describe('team and project', () => {
  const teams = [
    { name: 'core', groups: ['eng', 'ops'] },
    { name: 'sales', groups: ['sales', 'eng'] },
  ];

  test('are those of the claim, else the first that a group fits', () => {
    const team = (claims: object) =>
      admitted(decide(claims, { team_claim: 'dept', project_claim: 'dept' }, { teams })).team;
    assert.equal(team({ dept: 'own', groups: ['eng'] }), 'own');
    for (const dept of [undefined, null, '']) assert.equal(team({ dept, groups: ['eng'] }), 'core');
    assert.equal(team({ groups: ['sales'] }), 'sales');
    assert.equal(team({ groups: ['hr'] }), undefined);
    assert.equal(admitted(decide({ groups: ['eng'] }, {}, { projects: teams })).project, 'core');
  });

  test('that are no text are refused', () => {
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

test('somebody who was admitted may stay while domains and groups still fit', () => {
  const person = admitted(decide({ groups: ['eng'] }));
  assert.deepEqual(mayStay(person, config({ allowed_groups: ['eng'], allowed_email_domains: ['example.com'] })), {
    person,
  });
  refused(mayStay(person, config({ allowed_groups: ['ops'] })), 'group', /allowed_groups/);
  refused(mayStay(person, config({ allowed_email_domains: ['example.org'] })), 'email_domain', /allowed_email_domains/);
});

test('whatever the claims are, the answer is a decision, and its person survives storage and JSON', () => {
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
