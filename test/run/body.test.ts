/** A buffered request body: rewrites of single values keep every other byte as the client sent it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { JsonValue } from '../../engine/api.ts';
import type { AddedFields, WantedTexts } from '../../engine/base/contract/request-body.ts';
import { BufferedBody } from '../../engine/pipeline/run/body.ts';

function bufferedBody(text: string) {
  const rewrites: string[] = [];
  return { body: new BufferedBody(Buffer.from(text), (key) => rewrites.push(key)), rewrites };
}

describe('a value of a top-level key', () => {
  it('is read without parsing the rest, the last of several', () => {
    const { body } = bufferedBody('{"a": {"b": [1, "é"]}, "n": null, "a": [2]}');
    assert.deepEqual(body.value('a'), [2]);
    assert.equal(body.value('n'), null);
    assert.equal(body.value('b'), undefined);
  });

  it('replaces another, whatever JSON it is', () => {
    const { body, rewrites } = bufferedBody('{ "é": 1.0,  "x" : {"y": [1]} , "z":"\\u0061"}');
    body.rewrite('x', { list: [1, null, 'ü'], deep: { on: true } });
    assert.equal(String(body.bytes), '{ "é": 1.0,  "x" : {"list":[1,null,"ü"],"deep":{"on":true}} , "z":"\\u0061"}');
    assert.deepEqual(rewrites, ['x']);
  });

  it('is not added to a value that is not an object, and nothing is recorded', () => {
    for (const text of ['[{"a":1}]', '"{}"', '7']) {
      const { body, rewrites } = bufferedBody(text);
      assert.throws(() => body.rewrite('x', 1), /not a JSON object/);
      assert.deepEqual([String(body.bytes), rewrites], [text, []]);
    }
  });

  it('is rejected if it is not JSON, also in a field, and nothing is recorded', async () => {
    const { body, rewrites } = bufferedBody('{"a":{}}');
    for (const value of [undefined, NaN, Infinity, () => 1] as unknown[] as JsonValue[]) {
      for (const key of ['a', 'x']) assert.throws(() => body.rewrite(key, value), /puts a JSON value into the body/);
      await assert.rejects(body.addFields([{ path: ['a'], fields: { x: value } }]), /puts a JSON value/);
    }
    assert.deepEqual([String(body.bytes), rewrites], ['{"a":{}}', []]);
  });

  it('changes nothing else in any body', () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 5 });
    fc.assert(
      fc.property(object, fc.constantFrom('a', 'stream_options', '__proto__'), fc.jsonValue(), (before, key, value) => {
        const { body } = bufferedBody(JSON.stringify(before, null, 1));
        body.rewrite(key, value as JsonValue);
        const after = new Map(Object.entries(JSON.parse(String(body.bytes)) as object));
        const wanted = new Map(Object.entries(JSON.parse(JSON.stringify(before)) as object));
        wanted.set(key, JSON.parse(JSON.stringify(value)));
        assert.deepEqual(after, wanted);
        assert.deepEqual(body.value(key), wanted.get(key));
      }),
    );
  });
});

describe('fields added to objects', () => {
  const add = async (text: string, ...objects: AddedFields[]) => {
    const { body, rewrites } = bufferedBody(text);
    await body.addFields(objects);
    return [String(body.bytes), rewrites];
  };

  it('precede the existing ones, and every other byte stays', async () => {
    const text = ' {"é" :[ {"a":1.0} ,{ } ],\n"z":{"y":{"x" : "\\u0061"}}} ';
    const fields = { p: [1], q: 'ü' };
    assert.deepEqual(await add(text, { path: ['é', 1], fields }, { path: ['é', 0], fields: { p: 1 } }), [
      ' {"é" :[ {"p":1,"a":1.0} ,{"p":[1],"q":"ü" } ],\n"z":{"y":{"x" : "\\u0061"}}} ',
      ['é'],
    ]);
    const [both] = await add(text, { path: ['z', 'y'], fields }, { path: ['z'], fields: { o: null } });
    assert.equal(both, ' {"é" :[ {"a":1.0} ,{ } ],\n"z":{"o":null,"y":{"p":[1],"q":"ü","x" : "\\u0061"}}} ');
  });

  it('are added once, and only to objects', async () => {
    const text = '{"a":[{}],"b":"{","b":[1]}';
    assert.deepEqual(
      await add(text, { path: ['a', 0], fields: { p: 1 } }, { path: ['a', 0], fields: { p: 2, q: 3 } }),
      ['{"a":[{"p":1,"q":3}],"b":"{","b":[1]}', ['a']],
    );
    for (const path of [['b'], ['b', 0], ['x'], ['a', 1], ['a', '0'], ['a', 0, 'y'], []]) {
      assert.deepEqual(await add(text, { path, fields: { p: 1 } }), [text, []], path.join('.'));
    }
    assert.deepEqual(await add(text, { path: ['a', 0], fields: {} }), [text, []]);
  });
});

describe('a skimmed body', () => {
  const long = 'text '.repeat(400);

  it('is the whole body except for the ends of long strings', async () => {
    const { body } = bufferedBody(JSON.stringify({ top: long, in: [{ text: long, short: 'é' }] }));
    const { json, text } = await body.skim();
    const { top, in: inner } = json as { top: string; in: { text: string; short: string }[] };
    assert.equal(top, long);
    assert.equal(inner[0]!.short, 'é');
    assert.match(inner[0]!.text, /^(?:text ?)+.{0,4}…$/);
    assert.ok(text.length < body.bytes.length);
  });

  it('reports the same faults as a full parse, except in the ends of long strings', async () => {
    for (const text of [
      `{"in":["${long}","\\x"]}`,
      `{"in":["${long}",01]}`,
      `{"in":["${long}"`,
      `{"in":["\\x${long}"]}`,
    ]) {
      const said = await bufferedBody(text).body.json().catch(String);
      assert.match(String(said), /^StageError: The request body /);
      assert.equal(await bufferedBody(text).body.skim().catch(String), said, text.slice(-20));
    }
    const { json } = await bufferedBody(`{"in":["${long}\\x"]}`).body.skim();
    assert.ok(json);
  });
});

/** Strings under `a` and under `é` at any depth below `in`. */
const WANTED = (() => {
  const keys = new Map<string, { found?: string; within?: WantedTexts<string> }>([['é', { found: 'e' }]]);
  keys.set('in', { within: { keys } }).set('a', { found: 'a' });
  return { keys };
})();

describe('replaced strings', () => {
  it('replace the old ones in place, at any depth, and every other byte stays', async () => {
    const { body, rewrites } = bufferedBody('{ "é": "x" , "in":[ {"é" : "\\u0031" }, {"in":{"a":"1"}} ],\n"d":"1"}');
    await body.replaceTexts(WANTED, (found, text) => (text === '1' ? `<${found}>` : undefined));
    assert.equal(String(body.bytes), '{ "é": "x" , "in":[ {"é" : "<e>" }, {"in":{"a":"<a>"}} ],\n"d":"1"}');
    assert.deepEqual(rewrites, ['in']);
    assert.equal(body.rewritten, true);
  });

  it('without a change leave the body unchanged, and record nothing', async () => {
    const { body, rewrites } = bufferedBody('{"a":"\\u0031","b":"2"}');
    await body.replaceTexts(WANTED, () => undefined);
    await body.replaceTexts(WANTED, (_, text) => text);
    assert.deepEqual([String(body.bytes), rewrites, body.rewritten], ['{"a":"\\u0031","b":"2"}', [], false]);
  });
});

describe('removed elements', () => {
  it('do not block the event loop, however large the body is', async () => {
    const numbers = `${'1'.repeat(60_000)},`.repeat(150);
    const { body } = bufferedBody(`{"model":"m","list":[0,[${numbers}1],2]}`);
    let turns = 0;
    let is_done = false;
    const count = (): void => {
      if (is_done) return;
      turns++;
      setImmediate(count);
    };
    setImmediate(count);
    await body.remove([['list', 0]]);
    is_done = true;
    assert.equal(String(body.bytes), `{"model":"m","list":[[${numbers}1],2]}`);
    assert.ok(turns > 15, `${turns} turns for others while ${body.bytes.length} bytes were read`);
  });

  it('combine with other rewrites in any order', async () => {
    const key = fc.constantFrom('a', 'é', '"', 'z', '');
    const change = fc.oneof(
      fc.record({ kind: fc.constant('rewrite' as const), key, value: fc.jsonValue({ maxDepth: 2 }) }),
      fc.record({ kind: fc.constant('rename' as const), key, value: fc.string() }),
      fc.record({ kind: fc.constant('remove' as const), key, value: fc.nat({ max: 3 }) }),
      fc.record({ kind: fc.constant('replace' as const), key, value: fc.string() }),
      fc.record({ kind: fc.constant('add' as const), key, value: fc.nat({ max: 3 }) }),
    );
    const list = fc.array(fc.oneof(fc.string(), fc.constantFrom([1], {}, { b: 1 })), { maxLength: 4 });
    const texts = fc.tuple(fc.dictionary(key, list), fc.constantFrom(undefined, 1), fc.boolean());
    await fc.assert(
      fc.asyncProperty(texts, fc.array(change, { maxLength: 6 }), async ([object, space, is_parsed], changes) => {
        const { body } = bufferedBody(JSON.stringify(object, null, space));
        if (is_parsed) await body.json();
        for (const [n, { kind, key, value }] of changes.entries()) {
          // What it does to a body that nothing was done to yet.
          const fresh = bufferedBody(String(body.bytes)).body;
          for (const one of [body, fresh]) {
            if (kind === 'rewrite') one.rewrite(key, value as JsonValue);
            else if (kind === 'rename') one.rename(key, value);
            else if (kind === 'replace') await one.replaceTexts({ keys: new Map([[key, { found: 0 }]]) }, () => value);
            else if (kind === 'add') await one.addFields([{ path: [key, value], fields: { [`${n}`]: 'ü' } }]);
            else await one.remove([[key, value]]);
          }
          assert.equal(String(body.bytes), String(fresh.bytes));
          JSON.parse(String(body.bytes));
        }
      }),
    );
  });
});
