/** The example for embeddings, files, batches, images and audio, with the official SDKs in front and a recording upstream. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import { parse } from 'yaml';
import { ONE_ATTEMPT } from '../../support/gateway.ts';
import { answerBytes, answerJson, type Script } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { bearer, type Response, send } from '../support/client.ts';
import { idOf, rewritesOf } from '../support/odd.ts';
import { auditRecord, type LedgerRow, ledgerRow, ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const EXAMPLE = join(import.meta.dirname, '../../../examples/other-endpoints');
/** Every byte there is, so that nothing in between can have read them as text. */
const BYTES = Buffer.from(Array.from({ length: 5000 }, (_, i) => i % 256));

let openai: OpenAI;
let batch_openai: OpenAI;
let anthropic: Anthropic;

const { gateway, upstream } = useGateway((base_url) => {
  const { server: _server, upstreams, ...example } = parse(readFileSync(join(EXAMPLE, 'gateway.yaml'), 'utf8'));
  const ours = { ...ONE_ATTEMPT, base_url, api_key_env: 'TEST_UPSTREAM_KEY' };
  return {
    ...example,
    pipelines: join(EXAMPLE, 'pipelines'),
    upstreams: upstreams.map((each: object) => ({ ...each, ...ours })),
  };
});
before(async () => {
  const token = await gateway.newToken({ group: 'batch', name: 'batch' });
  const all = { baseURL: `${gateway.url}/v1`, apiKey: gateway.token, maxRetries: 0 };
  openai = new OpenAI(all);
  batch_openai = new OpenAI({ ...all, apiKey: token });
  anthropic = new Anthropic({ baseURL: gateway.url, apiKey: token, maxRetries: 0 });
});

/** Sends one request, and returns its outcome with its ledger row. */
async function metered<T>(script: Script, ask: () => PromiseLike<T>): Promise<{ answer: T; row: LedgerRow }> {
  upstream.script = script;
  // The row of the test before may still be on its way.
  await nothingReserved(gateway.database);
  const rows = (await ledgerRows(gateway.database)).length;
  const response = await ask();
  await until('the ledger has another row', async () => (await ledgerRows(gateway.database)).length > rows);
  await nothingReserved(gateway.database);
  return { answer: response, row: (await ledgerRows(gateway.database)).at(-1)! };
}

describe('the SDK of chat completions', () => {
  test('gets embeddings, which cost the tokens in the response', async () => {
    const data = [{ object: 'embedding', index: 0, embedding: [0.5, 0.25] }];
    const usage = { prompt_tokens: 12, total_tokens: 12 };
    const script = answerJson({ object: 'list', model: 'embed-1', data, usage });
    const { answer: response, row } = await metered(script, () =>
      openai.embeddings.create({ model: 'embed-1', input: ['a', 'b'], encoding_format: 'float' }),
    );
    assert.deepEqual(response.data[0]?.embedding, [0.5, 0.25]);
    assert.deepEqual([row.model, row.input_tokens, row.output_tokens, row.cost_nano_usd], ['embed-1', 12, 0, 240]);
    assert.equal(row.provenance.cost, 'upstream');
    const sent = upstream.only();
    assert.equal(sent.url, '/v1/embeddings');
    assert.equal(sent.headers['x-team'], 'platform');
  });

  test('draws an image, which costs the tokens in the response', async () => {
    const usage = { input_tokens: 10, output_tokens: 100, total_tokens: 110 };
    const { row } = await metered(answerJson({ created: 1, data: [{ b64_json: 'AAAA' }], usage }), () =>
      openai.images.generate({ model: 'image-1', prompt: 'a lighthouse', n: 1 }),
    );
    assert.deepEqual([row.input_tokens, row.output_tokens, row.cost_nano_usd], [10, 100, 4_100_000]);
  });

  test("speaks: every byte of the response arrives, and the request costs the pipeline's price", async () => {
    const { answer, row } = await metered(answerBytes(200, { 'content-type': 'audio/mpeg' }, BYTES), async () => {
      const response = await openai.audio.speech.create({ model: 'voice-1', voice: 'alloy', input: 'Hi', speed: 1.5 });
      return Buffer.from(await response.arrayBuffer());
    });
    assert.ok(answer.equals(BYTES));
    assert.deepEqual([row.input_tokens, row.cost_nano_usd], [0, 50_000_000]);
    assert.deepEqual([row.provenance.input, row.provenance.cost], ['unknown', 'per_request']);
  });

  test('transcribes: the form arrives byte for byte, and costs the tokens in the response', async () => {
    const usage = { type: 'tokens', input_tokens: 50, output_tokens: 5, total_tokens: 55 };
    const { answer: response, row } = await metered(answerJson({ text: 'Good evening.', usage }), async () => {
      return await openai.audio.transcriptions.create({
        model: 'transcribe-1',
        file: await toFile(BYTES, 'evening "1".wav', { type: 'audio/wav' }),
        timestamp_granularities: ['word'],
      });
    });
    assert.equal(response.text, 'Good evening.');
    assert.ok(upstream.only().body.includes(BYTES));
    assert.deepEqual([row.model, row.input_tokens, row.cost_nano_usd], ['transcribe-1', 50, 350_000]);
  });

  test('uploads, lists, reads and deletes files, which cost nothing', async () => {
    const jsonl =
      '{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"chat-1","messages":[]}}\n';
    const uploaded = await metered(answerJson({ id: 'file-1', object: 'file' }), async () => {
      return await batch_openai.files.create({ purpose: 'batch', file: await toFile(Buffer.from(jsonl), 'a.jsonl') });
    });
    assert.equal(uploaded.answer.id, 'file-1');
    assert.deepEqual([uploaded.row.model, uploaded.row.cost_nano_usd], ['(none)', 0]);
    const content = await metered(answerBytes(200, { 'content-type': 'application/octet-stream' }, BYTES), async () =>
      Buffer.from(await (await batch_openai.files.content('file-1')).arrayBuffer()),
    );
    assert.ok(content.answer.equals(BYTES));
    assert.equal(upstream.requests.at(-1)?.headers['content-length'], undefined);
    const listed = await metered(answerJson({ object: 'list', data: [], has_more: false }), () =>
      batch_openai.files.list({ limit: 3 }),
    );
    assert.deepEqual(listed.answer.data, []);
    assert.equal(upstream.requests.at(-1)?.url, '/v1/files?limit=3');
    const deleted = await metered(answerJson({ id: 'file-1', deleted: true }), () =>
      batch_openai.files.delete('file-1'),
    );
    assert.equal(deleted.answer.deleted, true);
  });

  test("creates a batch at the pipeline's price, and reads it free of charge", async () => {
    const batch = { input_file_id: 'file-1', endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
    const made = await metered(answerJson({ id: 'batch_1', object: 'batch' }), () =>
      batch_openai.batches.create(batch),
    );
    assert.equal(made.answer.id, 'batch_1');
    assert.equal(made.row.cost_nano_usd, 2_000_000_000);
    const used = answerJson({ id: 'batch_1', usage: { input_tokens: 9, total_tokens: 9 } });
    const seen = await metered(used, () => batch_openai.batches.retrieve('batch_1'));
    assert.deepEqual([seen.row.cost_nano_usd, seen.row.input_tokens], [0, 0]);
    await metered(answerJson({ id: 'batch_1' }), () => batch_openai.batches.cancel('batch_1'));
  });

  test('rejects a batch file with a request for a denied model', async () => {
    const jsonl = '{"body":{"model":"chat-1"}}\n{"body":{"model":"image-1"}}';
    const file = await toFile(Buffer.from(jsonl), 'a.jsonl');
    await assert.rejects(batch_openai.files.create({ purpose: 'batch', file }), (error) => {
      assert.ok(error instanceof OpenAI.NotFoundError);
      assert.match(error.message, /image-1/);
      return true;
    });
    assert.equal(upstream.requests.length, 0);
  });

  test('explains a denial: the group, the model, the credential', async () => {
    await assert.rejects(openai.files.list().then(), OpenAI.PermissionDeniedError);
    await assert.rejects(batch_openai.embeddings.create({ model: 'embed-1', input: 'a' }), OpenAI.NotFoundError);
    const stranger = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'gw_nobody', maxRetries: 0 });
    await assert.rejects(stranger.images.generate({ model: 'image-1', prompt: 'a' }), OpenAI.AuthenticationError);
    assert.equal(upstream.requests.length, 0);
  });
});

describe('the SDK of Messages', () => {
  const params = { model: 'chat-1', max_tokens: 10, messages: [{ role: 'user' as const, content: 'Hi' }] };

  test('creates a batch of more requests than fields may name models, lists batches and reads results', async () => {
    const requests = Array.from({ length: 500 }, (_, i) => ({ custom_id: `r${i}`, params }));
    const made = await metered(answerJson({ id: 'msgbatch_1', type: 'message_batch' }), () =>
      anthropic.messages.batches.create({ requests }),
    );
    assert.equal(made.answer.id, 'msgbatch_1');
    assert.deepEqual([made.row.upstream, made.row.cost_nano_usd], ['claude', 2_000_000_000]);
    const record = await auditRecord(gateway.database, made.row.request_id);
    const { other_models, usage, cost_from } = record.record as Record<string, unknown>;
    assert.deepEqual([other_models, usage, cost_from], [['chat-1'], 'unknown', 'per_request']);
    const listed = await metered(answerJson({ data: [], has_more: false }), () => anthropic.messages.batches.list());
    assert.deepEqual(listed.answer.data, []);
    const deleted = answerJson({ id: 'msgbatch_1', type: 'message_batch_deleted' });
    await metered(deleted, () => anthropic.messages.batches.delete('msgbatch_1'));
  });

  test('rejects a batch with a request for a denied model', async () => {
    const requests = [{ custom_id: 'a', params: { ...params, model: 'image-1' } }];
    await assert.rejects(anthropic.messages.batches.create({ requests }), Anthropic.NotFoundError);
    assert.equal(upstream.requests.length, 0);
  });
});

const form = (...fields: readonly string[]) => `${fields.map((one) => `--b\r\n${one}\r\n`).join('')}--b--\r\n`;
const field = (name: string, value: string) => `content-disposition: form-data; name="${name}"\r\n\r\n${value}`;
const FORM = 'multipart/form-data; boundary=b';

function post(
  path: string,
  type: string,
  body: Buffer | string,
  token = gateway.token,
  more: readonly string[] = [],
): Promise<Response> {
  return send(gateway.url, {
    path,
    headers: ['authorization', `Bearer ${token}`, 'content-type', type, ...more],
    body,
  });
}

describe('a compressed body', () => {
  const asked = (path: string, type: string, body: Buffer | string, encoding: string, token: string) =>
    post(path, type, body, token, ['content-encoding', encoding]);
  const JSON_TYPE = 'application/json';
  const batch = (model: string) =>
    form(field('purpose', 'batch'), field('file"; filename="a.jsonl', JSON.stringify({ body: { model } })));
  const requests = (model: string) =>
    JSON.stringify({ requests: [{ custom_id: 'a', params: { model, messages: [] } }] });

  for (const [path, type, body, wrong, encoding, compress] of [
    ['/v1/embeddings', JSON_TYPE, '{"model":"chat-1"}', '{"model":"image-1"}', 'gzip', gzipSync],
    ['/v1/files', FORM, batch('chat-1'), batch('image-1'), 'br', brotliCompressSync],
    ['/v1/messages/batches', JSON_TYPE, requests('chat-1'), requests('image-1'), 'zstd', zstdCompressSync],
  ] as const) {
    test(`of ${path} is read for its models, and leaves uncompressed`, async () => {
      const token = await gateway.newToken({ group: 'batch', user: 'packer@example.com' });
      upstream.script = answerJson({ id: 'x', object: 'x' });
      const refused = await asked(path, type, compress(wrong), encoding, token);
      assert.equal(refused.status, 404, refused.text);
      assert.match(refused.text, /image-1/);
      assert.equal(upstream.requests.length, 0);
      const served = await asked(path, type, compress(body), encoding, token);
      assert.equal(served.status, 200, served.text);
      assert.equal(upstream.only().body.toString(), body);
      assert.equal(upstream.only().headers['content-encoding'], undefined);
      assert.deepEqual(await rewritesOf(gateway, served), ['content-encoding']);
    });
  }
});

describe('odd bodies', () => {
  for (const [what, path, type, body, status] of [
    ['a text', '/v1/embeddings', 'text/plain', '{"model":"embed-1"}', 415],
    ['JSON that says to be bytes', '/v1/embeddings', 'application/octet-stream', ' {"model":"embed-1"}', 415],
    ['a list', '/v1/embeddings', 'application/json', '[{"model":"embed-1"}]', 400],
    ['two models', '/v1/embeddings', 'application/json', '{"model":"embed-1","model":"image-1"}', 400],
    ['the name for no model', '/v1/audio/speech', 'application/json', '{"model":"(none)"}', 400],
    ['a form without its end', '/v1/audio/transcriptions', FORM, '--b\r\n', 400],
  ] as const) {
    test(`rejects a body that is ${what}, and never forwards it`, async () => {
      const response = await post(path, type, body);
      assert.equal(response.status, status, response.text);
      assert.equal(typeof response.json().error.message, 'string');
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('a truncated response is free, and its possible bill is recorded apart', async () => {
    const script: Script = ({ res, socket }) => {
      res.writeHead(200, { 'content-type': 'audio/mpeg', 'content-length': '5000' });
      res.write(BYTES.subarray(0, 100), () => socket.destroy());
    };
    const { row } = await metered(script, () =>
      post('/v1/audio/speech', 'application/json', '{"model":"voice-1"}').catch(() => undefined),
    );
    assert.equal(row.cost_nano_usd, 0);
    assert.equal(row.provenance.possibly_billed_nano_usd, 50_000_000);
  });

  test('a missing file reveals nothing about models: the next request is forwarded', async () => {
    const missing = { error: { message: 'No such model or file', code: 'model_not_found' } };
    const token = await gateway.newToken({ group: 'batch', user: 'other@example.com' });
    for (let i = 0; i < 3; i++) {
      upstream.script = answerJson(missing, 404);
      const get = { method: 'GET', path: '/v1/files/file-9', headers: bearer(token) };
      const response = await send(gateway.url, get);
      assert.deepEqual([response.status, response.json()], [404, missing]);
      await ledgerRow(gateway.database, idOf(response));
    }
    assert.equal(upstream.requests.length, 3);
  });
});
