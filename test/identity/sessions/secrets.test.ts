import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  createSecretTags,
  hashSecret,
  isRefreshToken,
  isSecret,
  makeId,
  makeRefreshToken,
  makeSecret,
  makeUserCode,
  readUserCode,
  shownUserCode,
} from '../../../engine/domain/identity/sessions/secrets.ts';
import { anyText } from '../../support/any-text.ts';

const many = <T>(make: () => T) => Array.from({ length: 500 }, make);

describe('a user code', () => {
  it('has eight of twenty letters, each as likely as the others', () => {
    const codes = many(makeUserCode);
    for (const code of codes) assert.match(code, /^[BCDFGHJKLMNPQRSTVWXZ]{8}$/);
    assert.equal(new Set(codes).size, codes.length);
    const counts = Object.values(Object.groupBy(codes.join(''), (letter) => letter)).map((each) => each!.length);
    assert.equal(counts.length, 20);
    // 200 of each are to be expected; so far off comes up once in billions of runs.
    assert.ok(
      counts.every((count) => count > 100 && count < 300),
      String(counts),
    );
  });

  it('is read as shown', () => {
    for (const code of many(makeUserCode)) assert.equal(readUserCode(shownUserCode(code)), code);
    assert.equal(shownUserCode('WDJBMJHT'), 'WDJB-MJHT');
    assert.equal(readUserCode('  wdjb – mjht\t'), 'WDJBMJHT');
  });

  it('is only ever read from eight of its letters', () => {
    fc.assert(
      fc.property(anyText({ maxLength: 80 }), (typed) => {
        assert.match(readUserCode(typed) ?? 'BCDFGHJK', /^[BCDFGHJKLMNPQRSTVWXZ]{8}$/);
      }),
    );
    for (const wrong of ['', 'AEIOUYAE', 'BCDFGHJ', 'BCDFGHJKL', 'BCDF+GHJK', 'BCDFGHJ\u017f', 'BCDFGHJ\uff2b'])
      assert.equal(readUserCode(wrong), undefined, wrong);
  });
});

describe('secrets and ids', () => {
  it('are recognised by their form, and never the same twice', () => {
    const [secrets, tokens, ids] = [many(makeSecret), many(makeRefreshToken), many(() => makeId('ses'))];
    for (const made of [secrets, tokens, ids]) assert.equal(new Set(made).size, made.length);
    assert.ok(secrets.every(isSecret) && tokens.every(isRefreshToken));
    assert.ok(!secrets.some(isRefreshToken) && !tokens.some(isSecret));
    assert.equal(hashSecret('x').length, 32);
    assert.ok(ids.every((id) => /^ses_[0-9a-f]{20}$/.test(id)));
    assert.ok(!isSecret(`${secrets[0]}\n`) && !isRefreshToken(`${tokens[0]}\n`));
  });
});

describe('a mark', () => {
  const keys = (...secrets: string[]) => {
    const made = secrets.map((secret) => ({ id: secret, derive: () => new Uint8Array(Buffer.alloc(32, secret)) }));
    return createSecretTags({ current: made[0]!, all: new Map(made.map((key) => [key.id, key])) });
  };

  it('distinguishes secrets made here, by any replica and under a previous key, from made-up ones', () => {
    const [tags, next, foreign] = [keys('a'), keys('b', 'a'), keys('c')];
    for (const text of [makeSecret(tags), makeRefreshToken(tags)]) {
      assert.ok(isSecret(text) || isRefreshToken(text));
      assert.ok(tags.fit(text) && next.fit(text) && !foreign.fit(text));
      assert.ok(!tags.fit(text.slice(0, -16)) && !tags.fit(`A${text}`) && !tags.fit(text.slice(1)));
    }
    for (const text of ['', 'x', makeSecret(), makeRefreshToken(), 'x'.repeat(59)]) assert.ok(!tags.fit(text));
  });
});

it('a secret has one spelling', () => {
  for (const [make, is] of [
    [makeSecret, isSecret],
    [makeRefreshToken, isRefreshToken],
  ] as const) {
    const text = make();
    const spellings = [`${text}=`, ` ${text}`, `${text} `, text.replace(/^.{9}/, '$&\n'), `${text}\0`];
    const last = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'.indexOf(text.at(-1)!);
    for (const more of [1, 2, 3]) {
      spellings.push(
        text.slice(0, -1) + 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'[last + more],
      );
    }
    for (const spelling of spellings) assert.ok(!is(spelling), spelling);
    assert.ok(is(text));
  }
});
