import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { readOtherBody } from '../../../engine/domain/protocols/body/other-body.ts';
import { newUsageReading, readOtherUsage } from '../../../engine/domain/protocols/usage.ts';
import { BufferedBody } from '../../../engine/pipeline/run/body.ts';

/** Facts in the bodies of other APIs: models, number of texts, billable fields. */

const JSON_TYPE = { 'content-type': 'application/json' };
const read = (value: unknown, headers: Readonly<Record<string, string>> = JSON_TYPE) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return readOtherBody(headers, new BufferedBody(Buffer.from(text), () => {}), (name) => name === 'big-1');
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
  (await body).privileged.map(({ param, rule, value }) => [param, rule.name, value]);
const refuses = (body: ReturnType<typeof read>, what: RegExp) =>
  assert.rejects(body, (error) => error instanceof StageError && what.test(error.message));

describe('a body of another API', () => {
  it('may be none at all, or bytes, and then names no model', async () => {
    assert.equal((await read('', {})).model, undefined);
    const bytes = await read('\x00\x01', { 'content-type': 'audio/wav' });
    assert.deepEqual([bytes.model, bytes.choices, bytes.input_tokens_max], [undefined, 1, 2]);
  });

  it('counts texts of a list, and requested responses', async () => {
    const choices = async (body: object) => (await read({ model: 'e', ...body })).choices;
    assert.equal(await choices({ input: 'text' }), 1);
    assert.equal(await choices({ input: [1, 2, 3] }), 1);
    assert.equal(await choices({ input: ['a', 'b', 'c'] }), 3);
    assert.equal(await choices({ input: [[1], [2]] }), 2);
    assert.equal(await choices({ input: Array(300_000).fill(100_256) }), 1, 'as many tokens as providers accept');
    assert.equal(await choices({ prompt: 'a', n: 4 }), 4);
    for (const n of [0, -1, 1.5, 'many', {}, 1e9]) await refuses(read({ model: 'e', n }), /^n: must be a whole number/);
  });

  it('bounds the tokens of texts by their bytes, and those of images and recordings by nothing', async () => {
    const body = { model: 'e', input: 'text' };
    assert.equal((await read(body)).input_tokens_max, JSON.stringify(body).length);
    assert.ok((await read({ model: 'e', image_url: 'https://images.test/a.png' })).input_tokens_max > 1e8);
    assert.ok((await form([['model', 'e']])).input_tokens_max > 1e8);
  });

  it('may name further models, tiers and accounts, at any place; the speed of a voice is none', async () => {
    const body = { model: 'e', speed: 1.5, service_tier: 'priority', extra: { fallbacks: ['big-1'] }, tags: ['x'] };
    assert.deepEqual(await decided(read(body)), [
      ['service_tier', 'service_tier', 'priority'],
      ['extra.fallbacks[0]', 'fallbacks', 'big-1'],
    ]);
    const fields = { model: 'e', fallback_model: 'big-1', service_tier: 'auto', organization: 'o' };
    assert.deepEqual(await decided(form(Object.entries(fields))), [
      ['fallback_model', 'fallback_model', 'big-1'],
      ['organization', 'organization', 'o'],
    ]);
  });

  it('is rejected where a form has the model twice, or in another spelling', async () => {
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
      await refuses(form(fields), /occur once|cannot be read/);
    }
    await refuses(form([['model', '']]), /non-empty/);
  });

  it('is a batch: each model of its requests counts once, with its place', async () => {
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

  it('of another type is rejected, and so is a compressed one', async () => {
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

/** Usage in APIs beside those for models, in the shapes they are known to have, and in none. */

function usageOf(usage: unknown, name?: string) {
  const reading = newUsageReading();
  readOtherUsage(reading, { name, data: JSON.stringify({ usage }) });
  const { input, output } = reading.reported;
  return reading.seen ? [input, output] : undefined;
}

describe('usage of other APIs', () => {
  it('is read in the shapes of embeddings, images and transcriptions, whole or in events', () => {
    assert.deepEqual(usageOf({ prompt_tokens: 8, total_tokens: 8 }), [8, 0]);
    assert.deepEqual(usageOf({ prompt_tokens: 8 }), [8, 0]);
    assert.deepEqual(usageOf({ total_tokens: 8 }), [8, 0]);
    assert.deepEqual(usageOf({ input_tokens: 50, output_tokens: 10, total_tokens: 60 }), [50, 10]);
    assert.deepEqual(usageOf({ prompt_tokens: 8, total_tokens: 12 }), [8, 4]);
    assert.deepEqual(usageOf({ input_tokens: 5, output_tokens: 1 }, 'transcript.text.done'), [5, 1]);
  });

  it('reports the share of audio in it', () => {
    const reading = newUsageReading();
    const details = { text_tokens: 10, audio_tokens: 40 };
    const usage = {
      type: 'tokens',
      input_tokens: 50,
      input_token_details: details,
      output_tokens: 5,
      total_tokens: 55,
    };
    readOtherUsage(reading, { name: undefined, data: JSON.stringify({ usage }) });
    assert.deepEqual(reading.reported, { input: 50, audio_input: 40, output: 5 });
  });

  it('is unknown if it is in another unit, missing or implausible', () => {
    for (const usage of [
      undefined,
      null,
      'much',
      { type: 'duration', seconds: 3 },
      { output_tokens: 5 },
      { input_tokens: 5, output_tokens: 5, cache_creation_input_tokens: 1000 },
      { input_tokens: -1 },
      { input_tokens: 1.5 },
      { input_tokens: 1e12 },
      { prompt_tokens: 9, total_tokens: 3 },
      { prompt_tokens: 9, completion_tokens: -1000 },
      { prompt_tokens: 9, completion_tokens: 'many' },
    ]) {
      assert.equal(usageOf(usage), undefined, JSON.stringify(usage));
    }
  });

  it('is never negative, whatever is reported', () => {
    const number = fc.option(fc.oneof(fc.integer(), fc.double(), fc.string()), { nil: undefined });
    const usage = fc.record({ prompt_tokens: number, completion_tokens: number, total_tokens: number });
    fc.assert(
      fc.property(usage, (said) => {
        const tokens = usageOf(said);
        assert.ok(tokens === undefined || tokens.every((count) => Number.isInteger(count) && count! >= 0));
      }),
    );
  });

  it('of non-JSON is unknown', () => {
    const reading = newUsageReading();
    for (const data of ['', 'ID3', '[1]', '{"usage":'] as const) readOtherUsage(reading, { name: undefined, data });
    assert.equal(reading.seen, false);
  });
});
