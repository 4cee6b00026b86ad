/** What the bodies of other APIs decide: models, how many texts, which fields cost. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { readOtherBody } from '../../../engine/protocols/body/other-body.ts';
import { HeldBody } from '../../../engine/run/body.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const read = (value: unknown, headers: Readonly<Record<string, string>> = JSON_TYPE) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return readOtherBody(headers, new HeldBody(Buffer.from(text), () => {}), (name) => name === 'big-1');
};
const form = (fields: readonly (readonly [string, string])[], file?: string) => {
  const parts = fields.map(
    ([name, value]) => `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const disposition = 'content-disposition: form-data; name="file"; filename="a.jsonl"';
  const uploaded = file === undefined ? '' : `--b\r\n${disposition}\r\n\r\n${file}\r\n`;
  return read(`${parts.join('')}${uploaded}--b--`, { 'content-type': 'multipart/form-data; boundary=b' });
};
const decided = async (body: ReturnType<typeof read>) =>
  (await body).decisive.map(({ param, rule, value }) => [param, rule.name, value]);
const refuses = (body: ReturnType<typeof read>, what: RegExp) =>
  assert.rejects(body, (error) => error instanceof StageError && what.test(error.message));

describe('a body of another API', () => {
  it('may be none at all, or bytes, and then names no model', async () => {
    assert.equal((await read('', {})).model, undefined);
    const bytes = await read('\x00\x01', { 'content-type': 'audio/wav' });
    assert.deepEqual([bytes.model, bytes.choices, bytes.input_tokens_max], [undefined, 1, 2]);
  });

  it('counts texts of a list, and answers that are asked for', async () => {
    const choices = async (body: object) => (await read({ model: 'e', ...body })).choices;
    assert.equal(await choices({ input: 'text' }), 1);
    assert.equal(await choices({ input: [1, 2, 3] }), 1);
    assert.equal(await choices({ input: ['a', 'b', 'c'] }), 3);
    assert.equal(await choices({ input: [[1], [2]] }), 2);
    assert.equal(await choices({ prompt: 'a', n: 4 }), 4);
    for (const n of [0, -1, 1.5, 'many', {}, 1e9]) await refuses(read({ model: 'e', n }), /^n: must be a whole number/);
  });

  it('bounds the tokens of texts by their bytes, and those of images and recordings by nothing', async () => {
    const body = { model: 'e', input: 'text' };
    assert.equal((await read(body)).input_tokens_max, JSON.stringify(body).length);
    assert.ok((await read({ model: 'e', image_url: 'https://images.test/a.png' })).input_tokens_max > 1e8);
    assert.ok((await form([['model', 'e']])).input_tokens_max > 1e8);
  });

  it('may name further models, tiers and accounts, wherever they stand; the speed of a voice is none', async () => {
    const body = { model: 'e', speed: 1.5, service_tier: 'priority', extra: { fallbacks: ['big-1'] }, tags: ['x'] };
    assert.deepEqual(await decided(read(body)), [
      ['service_tier', 'service_tier', 'priority'],
      ['extra.fallbacks[0]', 'fallbacks', 'big-1'],
    ]);
    assert.deepEqual(
      await decided(
        form([
          ['model', 'e'],
          ['fallback_model', 'big-1'],
          ['service_tier', 'auto'],
          ['organization', 'o'],
        ]),
      ),
      [
        ['fallback_model', 'fallback_model', 'big-1'],
        ['organization', 'organization', 'o'],
      ],
    );
  });

  it('is refused where a form says twice, or in another spelling, which model is meant', async () => {
    for (const fields of [
      [
        ['model', 'a'],
        ['model', 'b'],
      ],
      [
        ['model', 'a'],
        ['Model', 'b'],
      ],
      [['model[]', 'a']],
      [['mode\u00adl', 'a']],
    ] as const) {
      await refuses(form(fields), /there once|cannot be read/);
    }
    await refuses(form([['model', '']]), /non-empty/);
  });

  it('is a batch: each model that its requests name counts once, with its place', async () => {
    const requests = [
      { params: { model: 'a' } },
      { params: { model: 'a', tools: [{ type: 'advisor', model: 'big-1' }] } },
    ];
    assert.deepEqual(await decided(read({ requests })), [
      ['requests[0].params.model', 'model', 'a'],
      ['requests[1].params.tools[0].model', 'model', 'big-1'],
    ]);
    await refuses(read({ requests: [{}] }), /requests\[0\]\.params: must be/);
    await refuses(read({ requests: 'all' }), /requests: must be a list/);
    await refuses(read({ requests: [1] }), /requests\[0\]: must be an object/);
    await refuses(read('{"requests":[{"params":{"model":"a","model":"b"}}]}'), /model/);
    for (const twice of [
      '{"requests":[{"params":{"model":"a"},"params":{"model":"b"}}]}',
      '{"requests":[{"Params":{"model":"a"},"params":{"model":"b"}}]}',
      '{"requests":[{"params":{"model":"a"}}],"requests":[{"params":{"model":"b"}}]}',
    ])
      await refuses(read(twice), /requests|params/i);
  });

  it('is the file of a batch, whose lines are read like its requests', async () => {
    const purpose = ['purpose', 'batch'] as const;
    assert.deepEqual(await decided(form([purpose], '{"body":{"model":"a"}}\n\n{"body":{"model":"b"}}\r\n')), [
      ['file line 1: body.model', 'model', 'a'],
      ['file line 3: body.model', 'model', 'b'],
    ]);
    assert.deepEqual(await decided(form([['purpose', 'vision']], 'no lines')), []);
    await refuses(form([purpose], '{"body":'), /file line 1/);
    await refuses(form([purpose], '[]'), /must be an object/);
    await refuses(form([purpose], '{"body":{"model":"a","model":"b"}}'), /twice/);
    await refuses(form([purpose], '{"body":{"model":"a"},"body":{"model":"b"}}'), /twice/);
    await refuses(form([purpose], '{"Body":{"model":"a"},"body":{"model":"b"}}'), /twice/);
    await refuses(form([['purpose', `${' '.repeat(1024)}batch`]], '{}'), /at most 1024 bytes/);
    await refuses(form([purpose, ['file', '{}']]), /file line 1/);
    await refuses(form([purpose], '{"body":{"messages":[]}}'), /name of a model/);
  });

  it('is the file of a batch with few long lines, between which others have their turn', async () => {
    let turns = 0;
    let turn = setImmediate(function next() {
      turns++;
      turn = setImmediate(next);
    });
    const line = JSON.stringify({ body: { model: 'a', messages: ['x'.repeat(300_000)] } });
    await form([['purpose', 'batch']], `${line}\n`.repeat(10));
    clearImmediate(turn);
    assert.ok(turns >= 9, `${turns} turns`);
  });

  it('of another type is refused, and one that is compressed', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/xml',
      'application/json; charset=utf-16',
    ]) {
      await assert.rejects(read({ model: 'a' }, { 'content-type': type }), { status: 415 });
    }
    await assert.rejects(
      read({ model: 'a' }, {}).then(({ model }) => assert.equal(model, undefined)),
      { status: 415 },
    );
    const bytes = { 'content-type': 'application/octet-stream' };
    const wide = Buffer.from(' {}', 'utf16le');
    for (const json of ['\uFEFF{}', `${' '.repeat(100)}{}`, wide.toString('latin1'), wide.swap16().toString('latin1')])
      await assert.rejects(read(json, bytes), { status: 415 }, JSON.stringify(json));
    assert.equal((await read('\0\0\0\0\0{}', bytes)).model, undefined);
  });
});
