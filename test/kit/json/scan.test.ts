/** The scan of JSON bytes: as strict as a parser about structure, whatever surrounds it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type JsonBounds, JsonScan } from '../../../engine/base/kit/json/scan.ts';
import { times } from '../../support/times.ts';

const BOUNDS: JsonBounds = { depth: 100, values: 100_000 };

function scan(text: string | Buffer, { slice = Infinity, bounds = BOUNDS } = {}): JsonScan {
  const done = new JsonScan(Buffer.from(text), bounds);
  while (!done.step(slice));
  return done;
}

/** What `JSON.parse` makes of a text; a fault of the scan counts as one of the parser. */
const read = (text: string, options?: Parameters<typeof scan>[1]): unknown =>
  scan(text, options).fault === undefined ? parsed(text) : 'no JSON';

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return 'no JSON';
  }
}

const long = fc.string({ minLength: 50, maxLength: 200, unit: fc.constantFrom('a', '"', '\\', 'é', '😀', '\u0000') });
const value = fc.oneof(fc.jsonValue({ maxDepth: 6 }), fc.array(long), fc.dictionary(long, fc.jsonValue()));
const object = fc.dictionary(fc.oneof(fc.constantFrom('model', 'n', '__proto__'), fc.string(), long), value);
const pad = fc.constantFrom(undefined, 1, '\t', '\n\r ');

describe('a JSON text', () => {
  it('is read as a parser reads it, in slices of any size', () => {
    fc.assert(
      fc.property(value, pad, fc.nat(40), (json, space, slice) => {
        const text = JSON.stringify(json, null, space);
        assert.deepEqual(read(text, { slice: slice + 1 }), JSON.parse(text));
      }),
    );
  });

  it('is rejected where a parser rejects it, after any change', () => {
    const change = fc.tuple(fc.nat(), fc.nat(3), fc.constantFrom(...'{}[]:,"\\ 0-.e1tn\n\u00a0\ufeff', ',,', '}{', ''));
    fc.assert(
      fc.property(value, fc.array(change, { maxLength: 2 }), (json, changes) => {
        let text = JSON.stringify(json);
        for (const [at, length, put] of changes) {
          const start = at % (text.length + 1);
          text = (text.slice(0, start) + put + text.slice(start + length)).toWellFormed();
        }
        assert.deepEqual(read(text), parsed(text), text);
      }),
      { numRuns: times(100) },
    );
  });

  it('with something before, behind or in between is rejected', () => {
    for (const text of [
      ...[
        '',
        ' ',
        '{"a":1',
        '{"a"',
        '{"a',
        '{"a\\',
        '"',
        '[1',
        '{',
        '[',
        '{}}',
        '[]]',
        '{}{}',
        '1 2',
        '{} x',
        '\ufeff{}',
      ],
      ...[
        '[1,]',
        '{"a":1,}',
        '[,1]',
        '{,}',
        '{"a" 1}',
        '{"a":1 "b":2}',
        '{"a"::1}',
        '{1:2}',
        '[1:2]',
        '{"a":1]',
        '[1}',
      ],
      ...[
        "{'a':1}",
        '[NaN]',
        '[+1]',
        '[01]',
        '[1.]',
        '[.5]',
        '[-]',
        '[tru]',
        '[truee]',
        '[nul]',
        '\u00a0{}',
        '{}\u0000',
      ],
      ...['/**/{}', '["\n"]', '["\\x"]', '["\\u12"]'],
    ]) {
      assert.equal(parsed(text), 'no JSON', text);
      assert.equal(read(text), 'no JSON', text);
    }
  });

  it('is rejected beyond the permitted depth and number of values, and not before', () => {
    const deep = (depth: number) => `${'[{"a":'.repeat(depth / 2)}0${'}]'.repeat(depth / 2)}`;
    assert.equal(scan(deep(100)).fault, undefined);
    assert.equal(scan(deep(102)).fault?.kind, 'depth');
    const bounds = { depth: 2, values: 8 };
    // An object, two keys that are two each, a null, an array and what is in it.
    assert.equal(scan('{"a":null,"b":[1]}', { bounds }).fault, undefined);
    assert.equal(scan('{"a":null,"b":[1,2]}', { bounds }).fault?.kind, 'values');
    assert.equal(scan(`{"a":null,"${'b'.repeat(32)}":[1]}`, { bounds }).fault?.kind, 'values');
    for (const [unit, kind] of Object.entries({ '\\n': 'values', '\\u00e9': undefined, abc: undefined }))
      assert.equal(scan(`"${unit.repeat(6_000_000 / unit.length)}"`).fault?.kind, kind, unit);
  });
});

describe('the members of an object', () => {
  it('are found where they are, whatever surrounds them', () => {
    fc.assert(
      fc.property(object, pad, fc.nat(40), (json, space, slice) => {
        const { offsets, bytes } = scan(JSON.stringify(json, null, space), { slice: slice + 1 });
        const text = (from: number, to: number) => bytes.toString('utf8', from, to);
        const members: [unknown, unknown][] = [];
        for (let i = 0; i < offsets.length; i += 4) {
          const found = text(offsets[i + 2]!, offsets[i + 3]!);
          assert.equal(found, found.trim());
          members.push([JSON.parse(`"${text(offsets[i]!, offsets[i + 1]!)}"`), JSON.parse(found)]);
        }
        const inner = JSON.parse(JSON.stringify(json)) as object;
        assert.deepEqual(members, Object.entries(inner));
      }),
    );
  });

  it('are absent from anything else', () => {
    for (const text of ['[{"a":1}]', '"a"', '7', '[[1,2],3]']) assert.deepEqual(scan(text).offsets, [], text);
  });
});
