import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Rewriting } from '../../../engine/api.ts';
import {
  compileRewriting,
  inTurn,
  jsonTextRewriter,
  TextRewriter,
} from '../../../engine/domain/protocols/rewriting.ts';
import { times } from '../../support/times.ts';
import { ADDRESSES, cut, places, rewritten, texts, WORDS } from './rewriting.ts';

/** The result of a rewriting by its definition: place by place, of each no more than counts. */
function byDefinition({ replacements, window_characters = 256, never_contains }: Rewriting, text: string): string {
  let out = '';
  for (let at = 0; at < text.length; ) {
    const window = text.slice(at, at + window_characters);
    const end = never_contains === undefined ? -1 : window.search(never_contains);
    const view = text.slice(0, at + (end < 0 ? window.length : end));
    const match = replacements
      .map(({ find, replace }) => {
        const sticky = new RegExp(find.source, `${find.flags}y`);
        sticky.lastIndex = at;
        return { found: sticky.exec(view)?.[0] ?? '', replace };
      })
      .find(({ found }) => found !== '');
    if (match === undefined) out += text[at++];
    else {
      out += match.replace as string;
      at += match.found.length;
    }
  }
  return out;
}

describe('a text in pieces', () => {
  const several: Rewriting = {
    ...WORDS,
    replacements: [{ find: /example|a{3,}/, replace: '?' }, ...WORDS.replacements, { find: /[ab]b?/, replace: '*' }],
  };
  for (const [name, rewriting] of Object.entries({ ADDRESSES, WORDS, several })) {
    test(`is rewritten the same however it is cut: ${name}`, () => {
      fc.assert(
        fc.property(texts, places, (text, at) => {
          const whole = rewritten(rewriting, [text]);
          assert.deepEqual(rewritten(rewriting, cut(text, at)), whole);
          assert.deepEqual(rewritten(rewriting, [...text]), whole);
          assert.equal(whole.text, byDefinition(rewriting, text));
        }),
        { numRuns: times(150) },
      );
    });
  }

  test('buffers no more than a possible match', () => {
    const waiting = new TextRewriter(compileRewriting(ADDRESSES), () => {});
    assert.equal(waiting.push('x'.repeat(100)).length, 100 - 63);
    const words = new TextRewriter(compileRewriting(WORDS), () => {});
    assert.equal(words.push('Write to ann@exam'), 'Write to ');
    assert.equal(words.push('ple.com, or'), '[address], ');
    assert.equal(words.end(), 'or');
  });

  test('never passes on half of a character', () => {
    const rewriter = new TextRewriter(compileRewriting({ replacements: [], window_characters: 1 }), () => {});
    assert.equal(rewriter.push('a\ud83d'), 'a');
    assert.equal(rewriter.push('\ude00b'), '\u{1f600}b');
  });

  test('is searched with the lookaround of an expression', () => {
    const rewriting: Rewriting = {
      replacements: [{ find: /(?<=key: )\w+(?=;)/, replace: '*' }],
      window_characters: 20,
    };
    fc.assert(
      fc.property(places, (at) => {
        const text = 'key: abc; no: abc; key: abc, key: def;';
        assert.equal(rewritten(rewriting, cut(text, at)).text, 'key: *; no: abc; key: abc, key: *;');
      }),
    );
  });

  test('keeps the replacement, and counts matches', () => {
    const even = (found: string) => (Number(found) % 2 === 0 ? '#' : undefined);
    const rewriting: Rewriting = { replacements: [{ find: /\d+/, replace: even }] };
    assert.deepEqual(rewritten(rewriting, ['1', '2 1', '3 $', '4']), { text: '# 13 $#', count: 2 });
  });

  test('inserts a replacement literally, and the first of two at one place', () => {
    const rewriting: Rewriting = {
      replacements: [
        { find: /ab/g, replace: '$&$1' },
        { find: /a./, replace: '?' },
      ],
    };
    assert.deepEqual(rewritten(rewriting, ['xab', ' ac']), { text: 'x$&$1 ?', count: 2 });
  });

  test('is scanned at most once per length of the match for each character, with any content', () => {
    const rare = ['zz', 'zy', 'yz'].map((text) => ({ find: new RegExp(text), replace: '' }));
    const common: Rewriting = { replacements: [...rare, { find: /a/, replace: 'b' }] };
    for (const [rewriting, replaced] of [
      [ADDRESSES, 0],
      [common, 20_000],
    ] as const) {
      const rules = compileRewriting(rewriting);
      let visited = 0;
      // The searched text is recorded at the call of the expression.
      for (const { search } of rules.patterns) {
        search.exec = (text) => {
          const from = search.lastIndex;
          const found = RegExp.prototype.exec.call(search, text);
          visited += (found === null ? text.length : search.lastIndex) - from;
          return found;
        };
      }
      let count = 0;
      const rewriter = new TextRewriter(rules, () => count++);
      const length = rewriter.push('a'.repeat(20_000)).length + rewriter.end().length;
      assert.deepEqual([length, count], [20_000, replaced]);
      assert.ok(visited < 2 * rules.window * rules.patterns.length * length, `${visited} characters`);
    }
  });
});

describe('a JSON text in pieces', () => {
  const json = (pieces: readonly string[], rewriting = ADDRESSES): string => {
    const rewriter = jsonTextRewriter(() => new TextRewriter(compileRewriting(rewriting), () => {}));
    return pieces.map((piece) => rewriter.push(piece)).join('') + rewriter.end();
  };
  const values = fc.jsonValue({ maxDepth: 3 });

  test('stays JSON, with its strings rewritten, however it is cut', () => {
    fc.assert(
      fc.property(texts, texts, values, places, fc.boolean(), (one, two, three, at, escaped) => {
        const value = { [one]: [two, three], three };
        const plain = JSON.stringify(value, null, escaped ? 1 : 0);
        const text = escaped ? plain.replaceAll('@', '\\u0040') : plain;
        const whole = json([text]);
        assert.equal(json(cut(text, at)), whole);
        assert.deepEqual(JSON.parse(whole), saidIn(JSON.parse(plain)));
      }),
      { numRuns: times(100) },
    );
  });
  const said = (text: string) => rewritten(ADDRESSES, [text]).text;
  /** A value with its strings rewritten, and the names of its members: object keys may be addresses, too. */
  const saidIn = (value: unknown): unknown => {
    if (typeof value === 'string') return said(value);
    if (Array.isArray(value)) return value.map(saidIn);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [said(name), saidIn(inner)]));
  };

  test('has a string where a number is replaced', () => {
    const digits: Rewriting = { replacements: [{ find: /\d{4}/, replace: '#' }] };
    assert.equal(json(['{"a":12', '345,"b":-1.5e3,"c":true}'], digits), '{"a":"#5","b":-1.5e3,"c":true}');
  });

  test('passes unchanged where it breaks off', () => {
    for (const text of ['{"a":"b', '{"a":"b\\', '{"a":"b\\u00', '{"a":tr', '{"a', ''])
      assert.equal(json([...text]), text);
  });
});

test("chained rewriters see each other's output", () => {
  const make = (find: RegExp, replace: string) =>
    new TextRewriter(compileRewriting({ replacements: [{ find, replace }] }), () => {});
  const both = inTurn([make(/a/, 'bb'), make(/bbb/, 'c')]);
  assert.equal(both.push('xa') + both.push('bx') + both.end(), 'xcx');
});
