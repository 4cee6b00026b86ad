/** A prompt cache of an hour where the upstream has none: shortened to five minutes, rejected or passed, and reported. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { PROTOCOLS } from '../../../engine/base/contract/protocol.ts';
import type { ConfigSections } from '../../support/gateway.ts';
import { answerJson, type Received } from '../../support/model-provider/scripted-upstream.ts';
import { type Response, send } from '../support/client.ts';
import { askBody, nineConfig, post, sending, useNine } from '../support/nine.ts';
import { idOf, recordOf } from '../support/odd.ts';
import { ledgerRow } from '../support/state.ts';

/** Upstreams of the three protocols without a cache of an hour, and Messages upstreams that have one, reject or pass. */
function config(url: string): ConfigSections {
  const none = { supports: { prompt_cache_1h: false } };
  const rule = (name: string, upstream: string, more: object = {}) => ({ name, models: [name], upstream, ...more });
  const { upstreams, ...rest } = nineConfig(url, {
    models: [...['refusing-1', 'ruled-1', 'undone-1'].map((id) => ({ id })), { id: 'minutes-1', ...none }],
    rules: [
      rule('refusing-1', 'refusing'),
      rule('ruled-1', 'messages', { on_unsupported_cache: 'refuse' }),
      rule('minutes-1', 'hour'),
      {
        ...{ name: 'undone-1', models: ['undone-1'] },
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

  test('is passed unchanged to an upstream that is said to take it, also after a change for another', async () => {
    const body = CODING('undone-1');
    const { script, requests } = nine.provider.upstream;
    nine.provider.upstream.script = (exchange) =>
      (requests.length === 1 ? answerJson({ type: 'error' }, 500) : script)(exchange);
    const response = await post(nine.gateway, 'messages', body);
    const received = requests.map(({ body }) => String(body));
    assert.deepEqual([response.status, received], [200, [SHORT(body), body]]);
    assert.equal(response.headers['x-gateway-cache-ttl'], undefined);
    assert.deepEqual((await reportOf(response)).rewrites, []);
  });
});
