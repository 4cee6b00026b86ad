/** Clients of other APIs at a provider as strict as the vendor of the Messages API, with any spelling of its address. */
import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import OpenAI from 'openai';
import { bootGateway } from '../../support/gateway.ts';
import { startModelProvider } from '../../support/model-provider/model-provider.ts';
import { use } from '../../support/use.ts';
import { PRICING, post } from '../support/nine.ts';
import { rewritesOf } from '../support/odd.ts';

/** The vendor names of an upstream. */
const UPSTREAMS = {
  'at-a-known-path': { path: '/anthropic' },
  'with-a-profile': { profile: 'anthropic' },
  'with-a-file': { profile: 'names.yaml' },
  'nobody-knows': {},
};

/** Upstreams that know one of the two, each named like it. */
const CHAT_BOUNDS = ['max_tokens', 'max_completion_tokens'] as const;

const HI = [{ role: 'user' as const, content: 'Hi' }];

let openai: OpenAI;

const provider = use(() => startModelProvider({ models: { known: 64_000 } }));
const gateway = use(() => {
  const names = Object.entries(UPSTREAMS);
  return bootGateway({
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
});
before(() => {
  openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.token, maxRetries: 0 });
});
beforeEach(() => provider.reset());

/** The headers of the Messages protocol that the provider received. */
function received(): Record<string, unknown> {
  const entries = Object.entries(provider.upstream.requests.at(-1)!.headers);
  return Object.fromEntries(entries.filter(([name]) => /^(?:vendor|anthropic)-(?:version|beta)$/.test(name)));
}

for (const name of Object.keys(UPSTREAMS)) {
  for (const prefix of ['anthropic', 'vendor']) {
    test(`an upstream ${name.replaceAll('-', ' ')} receives the client's version and betas in ${prefix}-version and ${prefix}-beta`, async () => {
      const said = { version: '2026-10-21', beta: 'context-1m-2025-08-07,compact-2026-01-12' };
      const headers = { [`${prefix}-version`]: said.version, [`${prefix}-beta`]: said.beta };
      await openai.chat.completions.create({ model: `via-${name}`, messages: HI }, { headers });
      const got = received();
      const found = [got[`${prefix}-version`], got[`${prefix}-beta`]];
      assert.deepEqual(found, [said.version, said.beta], 'as they were sent');
      for (const [key, value] of Object.entries(got))
        assert.equal(value, said[key.endsWith('beta') ? 'beta' : 'version']);
      assert.deepEqual(provider.refused, []);
    });
  }
}

for (const field of CHAT_BOUNDS) {
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
  const model = `by-${field}`;

  test(`an upstream of chat completions that supports only ${field} gets it from clients of other protocols`, async () => {
    const answered = await post(gateway, 'messages', { model, max_tokens: 50, messages: HI });
    assert.equal(answered.status, 200, answered.text);
    await openai.responses.create({ model, input: 'Hi', max_output_tokens: 60 });
    const bounds = provider.asked.map(({ body }) => [body[other], body[field]]);
    assert.deepEqual(
      bounds,
      [50, 60].map((bound) => [undefined, bound]),
    );
  });

  test(`and a chat client's ${other} under that name, every other byte unchanged, as the audit record shows`, async () => {
    const text = `{ "model": "${model}",  "${other}": 70, "messages": [{"role":"user","content":"Hi"}] }`;
    const same = text.replace(other, field);
    for (const [sent, rewrites] of [
      [text, [other]],
      [same, []],
    ] as const) {
      provider.reset();
      const answered = await post(gateway, 'chat', sent);
      assert.equal(answered.status, 200, answered.text);
      assert.equal(provider.upstream.only().body.toString(), same);
      assert.deepEqual(await rewritesOf(gateway, answered), rewrites);
    }
  });
}
