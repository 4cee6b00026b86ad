/** JSON bytes: scanned as strictly as a parser reads, searched, cut and shortened without parsing. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import type { WantedTexts } from '../../engine/base/contract/request-body.ts';
import { parseScanned, readInSteps } from '../../engine/base/kit/json/cooperative.ts';
import { type ElementPath, rangesOfElements } from '../../engine/base/kit/json/elements.ts';
import { outlineOf } from '../../engine/base/kit/json/outline.ts';
import { type JsonBounds, JsonScan } from '../../engine/base/kit/json/scan.ts';
import { TEXT_BYTES_MAX, withShortTexts } from '../../engine/base/kit/json/short-texts.ts';
import { textsIn } from '../../engine/base/kit/json/texts.ts';
import { anyText } from '../support/any-text.ts';
import { times } from '../support/times.ts';

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
    const unfinished = String.raw`{"a":1 {"a" {"a {"a\ " [1 { [ {}} []] {}{} {}x`.split(' ');
    const misplaced = '[1,] {"a":1,} [,1] {,} {"a"_1} {"a":1_"b":2} {"a"::1} {1:2} [1:2] {"a":1] [1}'.split(' ');
    const misspelt = String.raw`{'a':1} [NaN] [+1] [01] [1.] [.5] [-] [tru] [truee] [nul] /**/{} ["\x"] ["\u12"]`.split(
      ' ',
    );
    const blanks = ['', ' ', '1 2', '\ufeff{}', '\u00a0{}', '{}\u0000', '["\n"]'];
    for (const text of [...unfinished, ...misplaced.map((each) => each.replace('_', ' ')), ...misspelt, ...blanks]) {
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

async function without(text: string, ...paths: ElementPath[]): Promise<string> {
  const bytes = Buffer.from(text);
  let at = 0;
  let left = '';
  for (const { start, end } of await readInSteps(bytes, '', rangesOfElements(bytes, paths))) {
    left += bytes.toString('utf8', at, start);
    at = end;
  }
  return left + bytes.toString('utf8', at);
}

test('an element is removed with one comma, and the rest keeps its spelling and spacing', async () => {
  const text = ' {"é" :[ 1 ,"a,]\\"" , {"b":[true, false]} ],\n"z":1.0} ';
  assert.equal(await without(text, ['é', 0]), ' {"é" :[ "a,]\\"" , {"b":[true, false]} ],\n"z":1.0} ');
  assert.equal(await without(text, ['é', 1]), ' {"é" :[ 1 , {"b":[true, false]} ],\n"z":1.0} ');
  assert.equal(await without(text, ['é', 2]), ' {"é" :[ 1 ,"a,]\\"" ],\n"z":1.0} ');
  assert.equal(await without(text, ['é', 2, 'b', 0], ['é', 0]), ' {"é" :[ "a,]\\"" , {"b":[false]} ],\n"z":1.0} ');
  assert.equal(await without(text, ['é', 0], ['é', 1], ['é', 2]), ' {"é" :[  ],\n"z":1.0} ');
});

test('a path without a target removes nothing, and the last of duplicate keys counts, as in parsers', async () => {
  const text = '{"a":[1],"b":{"c":2}}';
  for (const path of [
    ['a', 1],
    ['b', 'c'],
    ['b', 0],
    ['x', 0],
    ['a', 0, 'y', 0],
  ])
    assert.equal(await without(text, path), text);
  assert.equal(await without('{"a":[1,2],"a":[3,4]}', ['a', 0]), '{"a":[1,2],"a":[4]}');
});

/** Every place of an element, at any depth. */
function placesIn(value: unknown, at: ElementPath = []): ElementPath[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const place = [...at, Array.isArray(value) ? Number(key) : key];
    return [...(Array.isArray(value) ? [place] : []), ...placesIn(inner, place)];
  });
}

function removed(value: unknown, paths: readonly string[], at: ElementPath = []): unknown {
  if (Array.isArray(value)) {
    return value
      .map((inner, index) => [inner, [...at, index]] as const)
      .filter(([, place]) => !paths.includes(JSON.stringify(place)))
      .map(([inner, place]) => removed(inner, paths, place));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, removed(inner, paths, [...at, key])]));
}

test('the rest is JSON without these elements, for any text', async () => {
  const texts = fc.tuple(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(undefined, 1, '\t'));
  await fc.assert(
    fc.asyncProperty(texts, fc.infiniteStream(fc.boolean()), async ([value, space], takes) => {
      const text = JSON.stringify(value, null, space);
      const parsed: unknown = JSON.parse(text);
      const paths = placesIn(parsed).filter(() => takes.next().value);
      const keys = paths.map((path) => JSON.stringify(path));
      assert.deepEqual(JSON.parse(await without(text, ...paths)), removed(parsed, keys));
    }),
  );
});

const keys = new Map<string, NonNullable<ReturnType<WantedTexts<string>['keys']['get']>>>();
const block: WantedTexts<string> = { keys };
keys.set('é', { found: 'e' }).set('in', { within: block }).set('both', { found: 'both', within: block });

async function found(text: string) {
  const bytes = Buffer.from(text);
  const texts = await readInSteps(bytes, '', textsIn(bytes, block));
  return texts.map(({ start, end, ...rest }) => ({ ...rest, spelt: bytes.toString('utf8', start, end) }));
}

test('strings are found at any depth where they are looked for, however they are spelt', async () => {
  const text =
    ' {"other": {"é":"x"}, "\\u00e9" : "a\\"b" ,"in":[ {"é":1,"x":"é"}, [{"é" : "\\u0031"}], "é" ],"both":{"é":["z"],"both":"c"}}';
  assert.deepEqual(await found(text), [
    { found: 'e', text: 'a"b', top: 'é', spelt: '"a\\"b"' },
    { found: 'e', text: '1', top: 'in', spelt: '"\\u0031"' },
    { found: 'both', text: 'c', top: 'both', spelt: '"c"' },
  ]);
});

test('finds both values of a duplicate key, and no non-strings', async () => {
  const spelt = async (text: string) => (await found(text)).map(({ text }) => text);
  assert.deepEqual(await spelt('{"é":"a","é":"b","é":{"é":"c"}}'), ['a', 'b']);
  for (const none of ['"é"', '7', '[]', '{}', '{"é":null,"in":"é","both":[1,"x"]}'])
    assert.deepEqual(await spelt(none), []);
});

/** The same by the parsed value. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const wanted = keys.get(key);
    if (wanted === undefined) return [];
    if (typeof inner === 'string') return wanted.found === undefined ? [] : [inner];
    return wanted.within === undefined ? [] : textsOf(inner);
  });
}

test('every text has those that its parsed value has', async () => {
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 6 },
      fc.string(),
      fc.constantFrom(null, 1, true, '\\', '"', '{"é":"x"}'),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('é', 'in', 'both', 'x', '"'), tie('value')),
    ),
  }));
  await fc.assert(
    fc.asyncProperty(value, fc.constantFrom(undefined, 1, '\t'), async (made, indent) => {
      const texts = (await found(JSON.stringify(made, null, indent))).map(({ text }) => text);
      assert.deepEqual(texts, textsOf(made));
    }),
    { numRuns: times(100) },
  );
});

function shortened(text: string): unknown {
  const scan = new JsonScan(Buffer.from(text), { depth: 128, values: 500_000 }, { text_bytes: TEXT_BYTES_MAX });
  while (!scan.step(1000));
  assert.equal(scan.fault, undefined);
  return JSON.parse(withShortTexts(scan));
}

/** Whether a value is another one but for what is missing at the ends of its long texts. */
function isShortOf(short: unknown, whole: unknown, depth = 0): boolean {
  if (typeof whole === 'string' && depth > 1 && short !== whole) {
    const cut = 6 * whole.length > TEXT_BYTES_MAX;
    return cut && typeof short === 'string' && short.endsWith('…') && whole.startsWith(short.slice(0, -1));
  }
  if (typeof whole !== 'object' || whole === null) return Object.is(short, whole);
  const keys = Object.keys(whole);
  assert.deepEqual(Object.keys(short as object), keys);
  return keys.every((key) => isShortOf((short as never)[key], (whole as never)[key], depth + 1));
}

/** Texts with escapes, characters of several bytes and halves of pairs, long enough to be cut. */
const longText = fc
  .tuple(anyText({ maxLength: 40 }), fc.integer({ min: 0, max: 60 }))
  .map(([unit, times]) => unit.repeat(times));

describe('a body with short texts', () => {
  it('is the same but for the ends of long texts, wherever they are cut', () => {
    fc.assert(
      fc.property(
        fc.object({ values: [longText, fc.integer(), fc.boolean()], maxDepth: 4 }),
        fc.boolean(),
        (value, ascii) => {
          const json = JSON.stringify(value);
          const text = ascii
            ? json.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
            : json.toWellFormed();
          assert.ok(isShortOf(shortened(text), JSON.parse(text)));
        },
      ),
      { numRuns: times(100) },
    );
  });

  it('keeps members of the outermost object, keys and texts up to the bound whole', () => {
    const key = 'k'.repeat(2000);
    const edge = 'x'.repeat(TEXT_BYTES_MAX - 2);
    const value = { top: 'y'.repeat(2000), inner: { [key]: edge, more: `${edge}x` } };
    const short = shortened(JSON.stringify(value)) as typeof value;
    assert.equal(short.top, value.top);
    assert.equal(short.inner[key], edge);
    assert.match(short.inner.more!, /^x{128}…$/);
  });
});

/** What an outline of six levels leaves of a value. */
function expected(value: unknown, level = 1): unknown {
  if (typeof value === 'string') return JSON.stringify(value).length - 1 > 1024 ? '' : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return level > 6 ? [] : value.map((item) => expected(item, level + 1));
  if (level > 6) return {};
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expected(item, level + 1)]));
}

describe('an outline', () => {
  it('has all numbers and short strings of six levels, and empty values in place of the rest', () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: fc.constantFrom('a', '"', '\\'), minLength: 400, maxLength: 1500 }),
    );
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 9 },
        fc.integer(),
        text,
        fc.array(tie('tree')),
        fc.dictionary(fc.string(), tie('tree')),
      ),
    }));
    fc.assert(
      fc.property(tree, fc.constantFrom(undefined, 1), (value, space) => {
        const shown = outlineOf(JSON.stringify(value, null, space));
        assert.deepEqual(JSON.parse(shown!), JSON.parse(JSON.stringify(expected(value))));
      }),
    );
  });

  it('keeps the totals where there are very many values, and is none where even those are too many', () => {
    const many = (text: string) => JSON.parse(outlineOf(text) ?? 'null');
    const numbers = `[${'1,'.repeat(200_000)}1]`;
    assert.deepEqual(many(`{"a":{"b":{"c":${numbers}}},"usage":{"details":{"n":5}}}`), {
      a: { b: { c: [] } },
      usage: { details: { n: 5 } },
    });
    assert.deepEqual(many(`{"b":[1],"a":${numbers},"usage":{"n":5}}`), { b: [1], a: [], usage: { n: 5 } });
    assert.equal(many(`{"a":1${',"a":1'.repeat(60_000)}}`), null);
  });

  it('is missing for malformed JSON', () => {
    for (const text of ['', '{"a":[', '{"a":"', 'x\\', '{"a":[[[[[[[[1']) {
      assert.throws(() => JSON.parse(outlineOf(text) ?? ''), SyntaxError, text);
    }
  });
});

function scanned(bytes: number): JsonScan {
  const scan = new JsonScan(Buffer.from(`[${'"",'.repeat(bytes / 3)}0]`), { depth: 8, values: 10_000_000 });
  scan.step(Infinity);
  return scan;
}

test('a caller with one large text waits for one of each other caller, however many and small theirs are', async () => {
  const done: string[] = [];
  const parse = async (owner: string, bytes: number) => {
    await parseScanned(scanned(bytes), owner);
    done.push(owner);
  };
  const mallory = Array.from({ length: 10 }, () => parse('mallory', 1_200_000));
  await Promise.all([...mallory, parse('ana', 2_400_000), parse('ben', 1_800_000)]);
  assert.equal(done.length, 12);
  assert.ok(done.indexOf('ana') <= 3, done.join());
  assert.ok(done.indexOf('ben') <= 3, done.join());
});
