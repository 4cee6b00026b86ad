/** Clients of other APIs at a provider as strict as the vendor of the Messages API, with any spelling of its address. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import OpenAI from 'openai';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { type ModelProvider, startModelProvider } from '../../support/model-provider/model-provider.ts';
import type { Response } from '../support/client.ts';
import { PRICING, post } from '../support/nine.ts';
import { auditRecord } from '../support/state.ts';

/** The vendor names of an upstream. */
const UPSTREAMS = {
  'at-a-known-path': { path: '/anthropic' },
  'with-a-profile': { profile: 'anthropic' },
  'with-a-file': { profile: 'names.yaml' },
  'nobody-knows': {},
};

/** Upstreams that know one of the two, each named like it. */
const CHAT_BOUNDS = ['max_tokens', 'max_completion_tokens'] as const;

let provider: ModelProvider;
let gateway: TestGateway;
let openai: OpenAI;

before(async () => {
  provider = await startModelProvider({ models: { known: 64_000, short: 8192, tiny: 4096 } });
  const names = Object.entries(UPSTREAMS);
  gateway = await bootGateway({
    upstream_url: provider.url,
    config: {
      upstreams: [
        ...names.map(([name, upstream]) => {
          const { path = '', ...rest } = upstream as { path?: string; profile?: string };
          const profile =
            rest.profile === 'names.yaml'
              ? `${import.meta.dirname}/../../../examples/profiles/vendor-names.yaml`
              : rest.profile;
          return { name, base_url: provider.url + path, api_key_env: 'TEST_UPSTREAM_KEY', ...(profile && { profile }) };
        }),
        ...CHAT_BOUNDS.map((max_tokens_field) => ({
          ...{ name: max_tokens_field, type: 'compat', protocols: ['chat'], base_url: provider.url, max_tokens_field },
          api_key_env: 'TEST_UPSTREAM_KEY',
        })),
      ],
      models: [
        ...names.map(([name]) => ({
          id: `via-${name}`,
          max_output_tokens: 64_000,
          pricing: PRICING,
          upstream_ids: { [name]: 'known' },
        })),
        ...CHAT_BOUNDS.map((name) => ({ id: `by-${name}`, max_output_tokens: 64_000, pricing: PRICING })),
        { id: 'untold-1', pricing: PRICING, upstream_ids: { 'nobody-knows': 'short' } },
        { id: 'untold-2', pricing: PRICING, upstream_ids: { 'nobody-knows': 'tiny' }, context_window: 16_000 },
      ],
      routing: {
        default_upstream: 'nobody-knows',
        rules: [
          ...names.map(([name]) => ({ name, models: [`via-${name}`], upstream: name })),
          ...CHAT_BOUNDS.map((name) => ({ name, models: [`by-${name}`], upstream: name })),
        ],
      },
    },
  });
  openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.token, maxRetries: 0 });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});
beforeEach(() => provider.reset());

/** The headers of the Messages protocol that the provider received. */
function received(): Record<string, unknown> {
  const entries = Object.entries(provider.upstream.requests.at(-1)!.headers);
  return Object.fromEntries(entries.filter(([name]) => /^(?:vendor|anthropic)-(?:version|beta)$/.test(name)));
}

for (const name of Object.keys(UPSTREAMS)) {
  describe(`an upstream ${name.replaceAll('-', ' ')}`, () => {
    const model = `via-${name}`;

    for (const prefix of ['anthropic', 'vendor']) {
      test(`receives the client's version and betas in ${prefix}-version and ${prefix}-beta`, async () => {
        const said = { version: '2026-10-21', beta: 'context-1m-2025-08-07,compact-2026-01-12' };
        const headers = { [`${prefix}-version`]: said.version, [`${prefix}-beta`]: said.beta };
        const ask = { model, messages: [{ role: 'user' as const, content: 'Hi' }] };
        await openai.chat.completions.create(ask, { headers });
        const { [`${prefix}-version`]: version, [`${prefix}-beta`]: beta, ...more } = received();
        assert.deepEqual({ version, beta }, said, 'as they were sent');
        for (const [name, value] of Object.entries(more))
          assert.equal(value, said[name.endsWith('beta') ? 'beta' : 'version']);
        assert.deepEqual(provider.refused, []);
      });
    }
  });
}

test('an unknown version is left to the provider to reject', async () => {
  const headers = { 'anthropic-version': '2024-10-22' };
  const ask = { model: 'via-with-a-profile', messages: [{ role: 'user' as const, content: 'Hi' }] };
  await assert.rejects(openai.chat.completions.create(ask, { headers }), /not a valid version/);
});

describe('an unbounded response', () => {
  const BOUNDS = { 'via-with-a-profile': 64_000, 'untold-1': 8192, 'untold-2': 4000 };
  for (const [model, max_tokens] of Object.entries(BOUNDS)) {
    test(`of ${model} is requested with ${max_tokens} tokens in Messages`, async () => {
      await openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hi' }] });
      await openai.responses.create({ model, input: 'Hi', reasoning: { effort: 'high' } });
      assert.deepEqual(provider.refused, []);
      assert.deepEqual(
        provider.asked.map(({ body }) => body.max_tokens),
        [max_tokens, max_tokens],
      );
    });
  }
});

/** Fields that the gateway changed in a request, by its audit record. */
async function rewritesOf({ headers }: Response): Promise<readonly string[] | undefined> {
  const { record } = await auditRecord(gateway.database, String(headers['x-gateway-request-id']));
  return (record as { rewrites?: readonly string[] }).rewrites;
}

for (const field of CHAT_BOUNDS) {
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
  describe(`an upstream of chat completions that supports only ${field}`, () => {
    const model = `by-${field}`;
    const boundsOf = (body: Record<string, unknown>) => CHAT_BOUNDS.flatMap((name) => (name in body ? [name] : []));

    test('gets it from clients of other protocols', async () => {
      const answered = await post(gateway, 'messages', {
        model,
        max_tokens: 50,
        messages: [{ role: 'user', content: 'Hi' }],
      });
      assert.equal(answered.status, 200, answered.text);
      await openai.responses.create({ model, input: 'Hi', max_output_tokens: 60 });
      assert.deepEqual(
        provider.asked.map(({ body }) => [boundsOf(body), body[field]]),
        [
          [[field], 50],
          [[field], 60],
        ],
      );
    });

    test("gets a chat client's bound under that name, every other byte unchanged, and the audit record shows it", async () => {
      const text = `{ "model": "${model}",  "${other}": 70, "messages": [{"role":"user","content":"Hi"}] }`;
      const answered = await post(gateway, 'chat', text);
      assert.equal(answered.status, 200, answered.text);
      assert.equal(provider.upstream.only().body.toString(), text.replace(other, field));
      assert.deepEqual(await rewritesOf(answered), [other]);
      provider.reset();
      const same = text.replace(other, field);
      const untouched = await post(gateway, 'chat', same);
      assert.equal(provider.upstream.only().body.toString(), same);
      assert.deepEqual(await rewritesOf(untouched), []);
    });
  });
}
