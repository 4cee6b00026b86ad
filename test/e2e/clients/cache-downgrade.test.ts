/** A prompt cache of an hour: passed where supported, else shortened to five minutes, rejected or passed, and reported. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { ConfigSections } from '../../support/gateway.ts';
import { answerJson, type Received } from '../../support/model-provider/scripted-upstream.ts';
import { type Response, send } from '../support/client.ts';
import { askBody, modelVia, nineConfig, post, sending, useNine } from '../support/nine.ts';
import { idOf, recordOf } from '../support/odd.ts';
import { ledgerRow } from '../support/state.ts';

/** Upstreams of the three protocols without a cache of an hour, and Messages upstreams that have one, reject or pass. */
function config(url: string): ConfigSections {
  const none = { supports: { prompt_cache_1h: false } };
  const rule = (name: string, upstream: string, more: object = {}) => ({ name, models: [name], upstream, ...more });
  const { upstreams, ...rest } = nineConfig(url, {
    models: [
      ...['hour-1', 'refusing-1', 'passing-1', 'ruled-1', 'spared-1', 'undone-1'].map((id) => ({ id })),
      { id: 'minutes-1', ...none },
    ],
    rules: [
      ...['hour', 'refusing', 'passing'].map((name) => rule(`${name}-1`, name)),
      rule('ruled-1', 'messages', { on_unsupported_cache: 'refuse' }),
      rule('minutes-1', 'hour'),
      { name: 'spared-1', models: ['spared-1'], upstreams: [{ upstream: 'messages' }, { upstream: 'hour' }] },
      {
        name: 'undone-1',
        models: ['undone-1'],
        upstreams: [
          { upstream: 'messages', order: 1 },
          { upstream: 'passing', order: 2 },
        ],
      },
    ],
  });
  const vendor = { type: 'vendor', base_url: url, api_key_env: 'TEST_UPSTREAM_KEY' };
  return {
    ...rest,
    upstreams: [
      ...(upstreams as object[]).map((upstream) => ({ ...upstream, ...none })),
      { name: 'hour', ...vendor },
      { name: 'refusing', ...vendor, ...none, on_unsupported_cache: 'refuse' },
      { name: 'passing', ...vendor, ...none, on_unsupported_cache: 'pass' },
    ],
  };
}

const nine = useNine(config);

const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex');

/** A coding client's prompt: the attribution block, then the marked prompt; and text that only looks like a mark. */
const CODING = (model: string, more = '') =>
  `{"model":"${model}","max_tokens":64, "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli;"},` +
  '{"type":"text","text":"Be \\u003ckind\\u003e.","cache_control":{"type":"ephemeral","ttl":"1h"}}],' +
  '"tools":[{"name":"metrics","input_schema":{"type":"object","properties":{"range":{"enum":["5m","1h"]}}},' +
  '"cache_control" : { "ttl" : "1h" , "type":"ephemeral" }}],"messages":[' +
  '{"role":"user","content":[{"type":"text","text":"\\"cache_control\\":{\\"ttl\\":\\"1h\\"}"}]},' +
  '{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"metrics","input":{"range":"1h","cache_control":{"ttl":"1h"}}}]},' +
  `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"1h","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]${more}}`;

const SHORT = (text: string) =>
  text
    .replace('"text":"Be \\u003ckind\\u003e.","cache_control":{"type":"ephemeral","ttl":"1h"}', (all) =>
      all.replace('1h', '5m'),
    )
    .replace('{ "ttl" : "1h" ,', '{ "ttl" : "5m" ,')
    .replace('"content":"1h","cache_control":{"type":"ephemeral","ttl":"1h"}', (all) =>
      all.replace('"ttl":"1h"', '"ttl":"5m"'),
    );

const only = (): Received => {
  assert.equal(nine.provider.upstream.requests.length, 1);
  return nine.provider.upstream.requests[0]!;
};

async function reportOf(response: Response) {
  const { cache_requested_ttl, cache_effective_ttl, cache_downgraded, rewrites } = await recordOf(
    nine.gateway,
    response,
  );
  return { cache_requested_ttl, cache_effective_ttl, cache_downgraded, rewrites };
}

describe('where the upstream keeps prompts for an hour', () => {
  test('a request for it passes byte for byte, including the attribution block, without a warning', async () => {
    const body = CODING('hour-1');
    const response = await post(nine.gateway, 'messages', body);
    assert.equal(response.status, 200, response.text);
    assert.equal(only().sha256, sha256(body));
    assert.equal(response.headers['x-gateway-cache-ttl'], undefined);
    assert.deepEqual(await reportOf(response), {
      cache_requested_ttl: '1h',
      cache_effective_ttl: undefined,
      cache_downgraded: undefined,
      rewrites: [],
    });
    const row = (await ledgerRow(nine.gateway.database, idOf(response))) as unknown as Record<string, unknown>;
    assert.deepEqual([row.cache_requested_ttl, row.cache_effective_ttl], ['1h', '1h']);
  });
});

describe('where the upstream does not', () => {
  const DOWNGRADED = {
    cache_requested_ttl: '1h',
    cache_effective_ttl: '5m',
    cache_downgraded: true,
    rewrites: ['messages', 'system', 'tools'],
  };

  test('rewrites exactly the fields that request it to five minutes, and reports that everywhere', async () => {
    for (const model of ['via-messages', 'minutes-1']) {
      nine.provider.reset();
      const body = CODING(model);
      const sent = sending('messages', nine.gateway.token, body);
      const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`;
      const headers = [...sent.headers, 'content-digest', digest, 'anthropic-beta', 'extended-cache-ttl-2025-04-11'];
      const response = await send(nine.gateway.url, { ...sent, headers });
      assert.equal(response.status, 200, response.text);
      const received = only();
      assert.equal(String(received.body), SHORT(body).replace('via-messages', 'upstream-messages'));
      assert.equal(received.headers['content-digest'], undefined);
      assert.equal(received.headers['anthropic-beta'], 'extended-cache-ttl-2025-04-11');
      assert.equal(response.headers['x-gateway-cache-ttl'], '5m');
      const { rewrites, ...rest } = await reportOf(response);
      const fields = (rewrites as string[]).filter((key) => key !== 'model').sort();
      assert.deepEqual({ ...rest, rewrites: fields }, DOWNGRADED);
      const row = (await ledgerRow(nine.gateway.database, idOf(response))) as unknown as Record<string, unknown>;
      assert.deepEqual([row.cache_requested_ttl, row.cache_effective_ttl], ['1h', '5m']);
    }
  });

  test("translated requests are shortened as well, in the upstream's terms", async () => {
    const asked = (spoken: Protocol) => {
      if (spoken !== 'messages') return askBody(spoken, modelVia('messages'), 'Hi', { prompt_cache_retention: '24h' });
      const content = [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', ttl: '1h' } }];
      return { ...askBody('messages', modelVia('chat')), messages: [{ role: 'user', content }] };
    };
    for (const spoken of PROTOCOLS) {
      nine.provider.reset();
      const response = await post(nine.gateway, spoken, asked(spoken));
      assert.equal(response.status, 200, response.text);
      assert.equal(response.headers['x-gateway-cache-ttl'], '5m', spoken);
      const said = String(only().body);
      assert.doesNotMatch(said, /"1h"|24h|12h/);
      if (spoken !== 'messages') assert.match(said, /"cache_control":\{"type":"ephemeral"(,"ttl":"5m")?\}/);
    }
  });

  test('untranslated chat and Responses requests are shortened, too', async () => {
    for (const protocol of ['chat', 'responses'] as const) {
      nine.provider.reset();
      const body = askBody(protocol, modelVia(protocol), 'Hi', { prompt_cache_retention: '24h' });
      const response = await post(nine.gateway, protocol, body);
      assert.equal(response.status, 200, response.text);
      assert.equal(nine.provider.only().body.prompt_cache_retention, 'in_memory');
    }
  });

  test("is rejected in the client's terms where upstream or rule require it, with a remedy", async () => {
    const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } };
    for (const model of ['refusing-1', 'ruled-1']) {
      for (const spoken of PROTOCOLS) {
        const response = await post(nine.gateway, spoken, askBody(spoken, model, 'Hi', hour));
        const { type, message } = response.json().error;
        assert.deepEqual([response.status, type], [400, 'invalid_request_error']);
        const name = model === 'ruled-1' ? 'messages' : 'refusing';
        assert.match(message, new RegExp(`"${name}" does not cache prompts.*for an hour.*Request five minutes`));
        assert.equal(response.headers['x-should-retry'], 'false');
      }
    }
    assert.equal(nine.provider.upstream.requests.length, 0);
  });
});

describe('where there are several upstreams', () => {
  /** Fails the first request, as an upstream would that has an error of its own. */
  const failFirst = () => {
    const { script, requests } = nine.provider.upstream;
    nine.provider.upstream.script = (exchange) =>
      (requests.length === 1 ? answerJson({ type: 'error' }, 500) : script)(exchange);
  };
  const received = () => nine.provider.upstream.requests.map(({ body }) => String(body));

  test('the upstream with a cache of an hour gets the request, and one with five minutes after a failure', async () => {
    const body = CODING('spared-1');
    const long = await post(nine.gateway, 'messages', body);
    assert.deepEqual([long.status, received()], [200, [body]]);
    assert.equal((await recordOf(nine.gateway, long)).upstream, 'hour');

    nine.provider.reset();
    failFirst();
    const short = await post(nine.gateway, 'messages', body);
    assert.deepEqual([short.status, received()], [200, [body, SHORT(body)]]);
    assert.equal(short.headers['x-gateway-cache-ttl'], '5m');
    const { upstream, cache_downgraded, rewrites } = await recordOf(nine.gateway, short);
    assert.deepEqual([upstream, cache_downgraded], ['messages', true]);
    assert.deepEqual((rewrites as string[]).toSorted(), ['messages', 'system', 'tools']);
  });

  test('a change for one upstream is undone for the next', async () => {
    const body = CODING('undone-1');
    failFirst();
    const response = await post(nine.gateway, 'messages', body);
    assert.deepEqual([response.status, received()], [200, [SHORT(body), body]]);
    assert.equal(response.headers['x-gateway-cache-ttl'], undefined);
    assert.deepEqual((await reportOf(response)).rewrites, []);
  });
});
