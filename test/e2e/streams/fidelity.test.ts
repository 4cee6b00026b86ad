import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import fc from 'fast-check';
import { fieldRule, KNOWN_KEYS } from '../../../engine/domain/protocols/body/privileged-fields.ts';
import { UPSTREAM_KEY } from '../../support/gateway.ts';
import { times } from '../../support/times.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { idOf, rewritesOf } from '../support/odd.ts';
import { ledgerRow } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const { gateway, upstream } = useGateway();

const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex');

/** Values of a header in raw form, in order, under exactly this spelling. */
function spelled(raw: readonly string[], name: string): string[] {
  return raw.filter((_, index) => index % 2 === 1 && raw[index - 1] === name);
}

function keysWithin(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return [...(Array.isArray(value) ? [] : Object.keys(value)), ...Object.values(value).flatMap(keysWithin)];
}

function decides(key: string): boolean {
  const spelling = Buffer.from(JSON.stringify(key).slice(1, -1));
  return KNOWN_KEYS.find(spelling, 0, spelling.length) !== undefined || fieldRule(key, true) !== undefined;
}

describe('a request body reaches the upstream byte for byte', () => {
  const BODIES: Record<string, string> = {
    'with odd key order':
      '{"messages":[{"content":"hi","role":"user"}],"zz":1,"max_tokens":8,"aa":2,"model":"coder-1"}',
    'with duplicate unknown fields': '{"x":1,"model":"coder-1","x":2,"max_tokens":8,"messages":[],"x":{"x":3,"x":4}}',
    'with duplicate keys below the top':
      '{"model":"coder-1","max_tokens":8,"messages":[{"role":"user","role":"user","model":"a","model":"b"}]}',
    'with escapes where none are needed':
      '{"model":"coder-1","max_tokens":8,"messages":[{"role":"\\u0075ser","content":"\\u0041\\/\\u00e9\\u0000\\n"}]}',
    'with surrogate pairs and lone surrogates':
      '{"model":"coder-1","max_tokens":8,"messages":[{"role":"user","content":"\\ud83d\\ude00 \\ud83d \\ude00"}]}',
    'with numbers no double can hold':
      '{"model":"coder-1","max_tokens":8,"n":[12345678901234567890,1e400,-0,1.0,0.1000000000000000055,1E+2]}',
    'with non-ASCII text':
      '{"model":"coder-1","max_tokens":8,"messages":[{"role":"user","content":"ünïcödé 世界 😀 \u2028\u2029\u007f"}]}',
    'with white space everywhere': ' \r\n\t{ "model" :\t"coder-1" ,\n\n"max_tokens":8 , "messages" : [ ] }\r\n \n',
    'with an escaped model key': '{"mod\\u0065l":"coder-1","max_tokens":8,"messages":[]}',
    'with an escaped model value': '{"model":"\\u0063oder-1","max_tokens":8,"messages":[]}',
    'with thoughts of a server that signs none':
      '{"model":"coder-1","max_tokens":8,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[{"role":"user",' +
      '"content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"b","signature":""},{"type":"tool_use",' +
      '"id":"c","name":"d","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]}',
    'with unknown, nested and treacherous fields':
      '{"safeguards":{"level":[null,true]},"tags":["a"],"context_management":{"edits":[{"type":"x_2099"}]},' +
      '"model":"coder-1","max_tokens":8,"__proto__":{"polluted":true},"constructor":1,"toString":null}',
  };
  for (const [what, body] of Object.entries(BODIES)) {
    test(what, async () => {
      const response = await send(gateway.url, { headers: bearer(gateway.token), body });
      assert.equal(response.status, 200, response.text);
      assert.equal(upstream.only().sha256, sha256(body));
    });
  }

  test('when it arrives in chunks that split characters', async () => {
    const bytes = Buffer.from(messagesBody({ note: '世界'.repeat(30_000) }));
    const cuts = [0, 1, 2, 90, 91, 65_537, 65_538, bytes.length];
    const parts = cuts.slice(1).map((cut, index) => bytes.subarray(cuts[index], cut));
    const response = await send(gateway.url, { headers: bearer(gateway.token), body: parts });
    assert.equal(response.status, 200, response.text);
    assert.equal(upstream.only().sha256, sha256(bytes));
  });

  test('with any JSON', async () => {
    const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
    const field = fc.tuple(fc.string({ unit: 'grapheme' }), fc.json({ stringUnit: 'grapheme' }), space);
    const bodies = fc.tuple(fc.array(field, { maxLength: 6 }), fc.array(field, { maxLength: 3 }), space);
    const text = (fields: [string, string, string][]) =>
      fields
        // Fields that the gateway decides by may be rejected: a second one, another spelling, a value of another type.
        .filter(([key, json]) => ![key, ...keysWithin(JSON.parse(json))].some(decides))
        .map(([key, json, gap]) => `${gap}${JSON.stringify(key)}:${gap}${json}${gap},`)
        .join('');
    await fc.assert(
      fc.asyncProperty(bodies, async ([before_model, after_model, gap]) => {
        upstream.requests.length = 0;
        const body = `${gap}{${text(before_model)}"model"${gap}:"coder-1",${text(after_model)}"max_tokens":8}${gap}`;
        const response = await send(gateway.url, { headers: bearer(gateway.token), body });
        assert.equal(response.status, 200, response.text);
        assert.equal(upstream.only().sha256, sha256(body));
      }),
      { numRuns: times(30) },
    );
  });
});

describe('the request line and headers', () => {
  const TARGETS = [
    '/v1/messages?beta=true',
    "/v1/messages?beta=true&a=%2F&b='x'&&c",

    '/v1/messages?a=1&a=2&A=3&=&%20+%zz;x=[]{}|^',
    '/v1/messages?next=https://elsewhere.example/&q=a?b?c',
  ];
  for (const path of TARGETS) {
    test(`the target ${path} is forwarded unchanged`, async () => {
      const response = await send(gateway.url, { path, headers: bearer(gateway.token), body: messagesBody() });
      assert.equal(response.status, 200, response.text);
      assert.equal(upstream.only().url, path);
    });
  }

  test('end-to-end headers arrive with the values sent, the known and the unknown, also when repeated', async () => {
    const sent = [
      ['Vendor-Version', '2023-06-01'],
      ['VENDOR-beta', 'context-1m-2025-08-07,unheard-of-2031-01-01'],
      ['anthropic-beta', 'claude-code-20250219, interleaved-thinking-2025-05-14'],
      ['anthropic-beta', 'second-line-2030-12-31'],
      ['X-Stainless-Lang', 'js'],
      ['x-claude-code-session-id', '0f0f-1'],
      ['User-Agent', 'claude-cli/2.0.44 (external, cli)'],
      ['accept-encoding', 'gzip, deflate, br, zstd'],
      ['X-Odd', 'one'],
      ['x-odd', 'two  spaces\tand a tab'],
      ['x-empty', ''],
      ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
      ['via', '1.1 corporate'],
      ['x-latin', 'caf\u00e9'],
    ] as const;
    await send(gateway.url, { headers: bearer(gateway.token, sent.flat()), body: messagesBody() });
    const { raw_headers } = upstream.only();
    const arrived = Array.from({ length: raw_headers.length / 2 }, (_, at) => raw_headers.slice(at * 2, at * 2 + 2));
    // Several lines of one name mean the same as one line with a comma (RFC 9110 section 5.3).
    const joined = (pairs: readonly (readonly string[])[], name: string) =>
      pairs
        .filter(([own]) => own!.toLowerCase() === name)
        .map(([, value]) => value)
        .join(', ');
    for (const name of new Set(sent.map(([own]) => own.toLowerCase()))) {
      assert.equal(joined(arrived, name), joined(sent, name), name);
    }
  });

  test("nothing is added that the client did not send, but the upstream's credential and connection headers", async () => {
    await send(gateway.url, { headers: bearer(gateway.token), body: messagesBody() });
    const names = Object.keys(upstream.only().headers).sort();
    assert.deepEqual(names, ['connection', 'content-length', 'content-type', 'host', 'x-api-key']);
    assert.equal(upstream.only().headers.host, new URL(upstream.url).host);
  });

  test('a Connection header cannot make the gateway drop what the upstream needs', async () => {
    const named = ['connection', 'close, x-api-key, content-type, content-length, host, anthropic-version'];
    const headers = bearer(gateway.token, [...named, 'anthropic-version', '2023-06-01']);
    const body = messagesBody();
    const response = await send(gateway.url, { headers, body });
    assert.equal(response.status, 200, response.text);
    assert.equal(upstream.only().headers['x-api-key'], UPSTREAM_KEY);
    assert.equal(upstream.only().headers['content-type'], 'application/json');
    assert.equal(upstream.only().sha256, sha256(body));
  });
});

describe('a model with another name at the upstream', () => {
  const MAPPED: Record<string, [sent: string, expected: string]> = {
    'in the middle': [
      '{"n":1e400,"model" : "mapped-1" ,"max_tokens":8,"x":{"model":"mapped-1"}}',
      '{"n":1e400,"model" : "upstream-name@2026" ,"max_tokens":8,"x":{"model":"mapped-1"}}',
    ],
    'at the end, without spaces': [
      '{"messages":[{"role":"user","content":"\\"model\\":\\"mapped-1\\""}],"max_tokens":8,"model":"mapped-1"}',
      '{"messages":[{"role":"user","content":"\\"model\\":\\"mapped-1\\""}],"max_tokens":8,"model":"upstream-name@2026"}',
    ],
    'under an escaped key': [
      '{"mod\\u0065l":"m\\u0061pped-1","max_tokens":8,"é":"世"}',
      '{"mod\\u0065l":"upstream-name@2026","max_tokens":8,"é":"世"}',
    ],
  };
  for (const [where, [sent, expected]] of Object.entries(MAPPED)) {
    test(`has only its value rewritten (${where}), and the audit record shows it`, async () => {
      const response = await send(gateway.url, { headers: bearer(gateway.token), body: sent });
      assert.equal(response.status, 200, response.text);
      assert.equal(upstream.only().body.toString(), expected);
      assert.equal(upstream.only().headers['content-length'], String(Buffer.byteLength(expected)));

      assert.deepEqual(await rewritesOf(gateway, response), ['model']);
      const row = await ledgerRow(gateway.database, idOf(response));
      assert.deepEqual([row.model, row.upstream_model], ['mapped-1', 'upstream-name@2026']);
    });
  }

  test('removes a digest of the received bytes, which stays with unchanged bytes', async () => {
    const digest = ['content-digest', 'sha-256=:AAAA:', 'digest', 'sha-256=AAAA'];
    const headersFor = async (model: string) => {
      upstream.requests.length = 0;
      await send(gateway.url, { headers: bearer(gateway.token, digest), body: messagesBody({ model }) });
      const { headers } = upstream.only();
      return [headers['content-digest'], headers.digest];
    };
    assert.deepEqual(await headersFor('mapped-1'), [undefined, undefined]);
    assert.deepEqual(await headersFor('coder-1'), ['sha-256=:AAAA:', 'sha-256=AAAA']);
  });

  test('while an unmapped one is not rewritten, and the audit record shows no rewrite', async () => {
    const response = await send(gateway.url, { headers: bearer(gateway.token), body: messagesBody() });
    assert.deepEqual(await rewritesOf(gateway, response), []);
    assert.equal(spelled(upstream.only().raw_headers, 'content-type').length, 1);
  });
});

describe('the official SDK', () => {
  const ASK = { model: 'coder-1', max_tokens: 64, messages: [{ role: 'user' as const, content: 'Say hello.' }] };
  const sdk = (authToken: string, baseURL = gateway.url) =>
    new Anthropic({ baseURL, authToken, apiKey: null, maxRetries: 0 });

  test('has the very request reach the upstream that it would have sent there, but for the credential', async () => {
    for (const baseURL of [upstream.url, gateway.url])
      await sdk(gateway.token, baseURL).beta.messages.create({ ...ASK, betas: ['unheard-of-2031-01-01'] });
    const [expected, forwarded] = upstream.requests.map(({ method, url, headers, sha256: hash }) => {
      const { host: _host, connection: _connection, authorization, 'x-api-key': key, ...rest } = headers;
      return { credential: authorization ?? key, request: { method, url, hash, headers: rest } };
    });
    assert.deepEqual(forwarded!.request, expected!.request);
    assert.deepEqual([expected!.credential, forwarded!.credential], [`Bearer ${gateway.token}`, UPSTREAM_KEY]);
  });

  test("gets the gateway's own errors as its error classes", async () => {
    const narrow = await gateway.newToken({ group: 'mapped-only' });
    const { AuthenticationError, BadRequestError, NotFoundError } = Anthropic;
    await assert.rejects(sdk('gw_nobody_ever_made_this').messages.create(ASK), AuthenticationError);
    await assert.rejects(sdk(gateway.token).messages.create({ ...ASK, model: 'no-such-model' }), (error: unknown) => {
      assert.ok(error instanceof NotFoundError && error.type === 'not_found_error');
      assert.match(error.message, /no-such-model/);
      return true;
    });
    await assert.rejects(sdk(narrow).messages.create(ASK), NotFoundError);
    const wrong = { ...ASK, max_tokens: 'many' as unknown as number };
    await assert.rejects(sdk(gateway.token).messages.create(wrong), BadRequestError);
    assert.equal(upstream.requests.length, 0);
  });
});
