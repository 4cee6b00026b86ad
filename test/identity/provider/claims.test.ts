import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { claimRoot, completeClaims, isWithheld, lookUpClaim } from '../../../engine/identity/provider/claims.ts';

const CLAIMS = JSON.parse(`{
  "groups": ["a", "b"],
  "realm_access": { "roles": ["admin"], "": 7, "a/b": 8, "m~n": 9, "deep": [{ "x": null }] },
  "https://example.com/groups": ["named"],
  "constructor": "own",
  "a.b": "dotted",
  "__proto__": { "roles": ["sneaked in"] }
}`) as Record<string, unknown>;

describe('a claim is found', () => {
  const found: [string, unknown][] = [
    ['groups', ['a', 'b']],
    ['https://example.com/groups', ['named']],
    ['a.b', 'dotted'],
    ['/groups/1', 'b'],
    ['/realm_access/roles', ['admin']],
    ['/realm_access/', 7],
    ['/realm_access/a~1b', 8],
    ['/realm_access/m~0n', 9],
    ['/realm_access/deep/0/x', null],
    ['/https:~1~1example.com~1groups/0', 'named'],
    ['constructor', 'own'],
    ['/__proto__/roles', ['sneaked in']],
  ];
  for (const [claim, value] of found) {
    test(`by ${claim}`, () => assert.deepEqual(lookUpClaim(CLAIMS, claim), value));
  }
});

test('what is not there is not found, nor anything that every object has', () => {
  const absent = [
    'missing',
    '/missing',
    '/groups/2',
    '/groups/01',
    '/groups/-',
    '/groups/length',
    '/groups/0/0',
    'a',
    '/a.b/c',
  ];
  const inherited = [
    'toString',
    '/toString',
    '/groups/map',
    '/realm_access/constructor',
    '/realm_access/__proto__',
    'hasOwnProperty',
  ];
  for (const claim of [...absent, ...inherited, '/', '']) assert.equal(lookUpClaim(CLAIMS, claim), undefined, claim);
  assert.equal(lookUpClaim({}, '__proto__'), undefined);
  assert.equal(lookUpClaim({}, 'constructor'), undefined);
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

test('the root of a claim is the top-level claim it is in', () => {
  assert.equal(claimRoot('groups'), 'groups');
  assert.equal(claimRoot('/realm_access/roles'), 'realm_access');
  assert.equal(claimRoot('/a~1b/c'), 'a/b');
});

test('a claim is withheld when the provider says where it is instead of what it is', () => {
  const elsewhere = { _claim_names: { groups: 'src1' } };
  assert.equal(isWithheld(elsewhere, 'groups'), true);
  assert.equal(isWithheld(elsewhere, '/groups/0'), true);
  assert.equal(isWithheld({ ...elsewhere, groups: [] }, 'groups'), false);
  assert.equal(isWithheld(elsewhere, 'roles'), false);
  assert.equal(isWithheld(elsewhere, 'toString'), false);
  for (const _claim_names of [null, 'groups', ['groups'], 7])
    assert.equal(isWithheld({ _claim_names }, 'groups'), false);
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

  test('with a verified address only from where that address stands', () => {
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
