/** The output of `appscli client` is sufficient: clients that follow only the files are served. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { beforeEach, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { buildCli, codingCli, home, messages, piped, read, useBackend } from '../../cli/client/set-up.ts';
import { modelVia, useNine } from '../support/nine.ts';

const { gateway, provider } = useNine();
useBackend();
beforeEach(() => {
  provider.model = () => ({ said: [{ kind: 'text', text: 'The expected reply.' }] });
});

/** Texts and numbers of a section of a TOML file that `appscli client` wrote; the top is the section of no name. */
function section(toml: string, name = ''): Record<string, string> {
  const parts = `[]\n${toml}`.split(/^\[(.*)\]$/m);
  const body = parts[parts.indexOf(name, 1) + 1]!;
  return Object.fromEntries([...body.matchAll(/^(\w+) = "?(.*?)"?$/gm)].map(([, key, value]) => [key!, value!]));
}

describe('a client that follows its files', () => {
  for (const upstream of ['messages', 'chat'] as const) {
    test(`for the build CLI gets the expected reply of a single run from a ${upstream} upstream, and no redirect`, async () => {
      const input = { baseUrl: gateway.url, model: modelVia(upstream), alias: 'coder', contextWindow: 500_000 };
      await buildCli({ ...input, apiKeyEnv: 'RELAY_API_KEY', write: true });
      const file = read('.buildcli', 'config.toml');
      const entry = section(file, `model.${section(file, 'models').default}`);
      assert.equal(entry.context_window, '500000');
      const env: Record<string, string> = { RELAY_API_KEY: gateway.token };
      const hops: string[] = [];
      const client = new OpenAI({
        baseURL: entry.base_url!,
        apiKey: env[entry.env_key!]!,
        maxRetries: 0,
        fetch: async (url, init) => {
          hops.push(`${init?.method} ${url}`);
          return fetch(url, { ...init, redirect: 'error' });
        },
      });
      const stream = await client.chat.completions.create({
        model: entry.model!,
        messages: [{ role: 'user', content: 'Say it.' }],
        stream: true,
        stream_options: { include_usage: true },
      });
      let said = '';
      for await (const { choices } of stream) said += choices[0]?.delta.content ?? '';
      assert.equal(said, 'The expected reply.');
      assert.deepEqual(hops, [`POST ${gateway.url}/v1/chat/completions`]);
    });
  }

  test('for the build CLI may find the token itself in them, which only the owner can read', async () => {
    const input = { baseUrl: gateway.url, model: modelVia('chat'), contextWindow: 500_000, tokenStdin: true } as const;
    await buildCli({ ...input, displayName: 'Coder', write: true }, { input: piped(gateway.token) });
    const file = read('.buildcli', 'config.toml');
    assert.equal(statSync(home('.buildcli', 'config.toml')).mode & 0o777, 0o600);
    const { base_url, api_key, env_key, model, name } = section(file, `model.${section(file, 'models').default}`);
    assert.deepEqual([name, env_key], ['Coder', undefined]);
    const client = new OpenAI({ baseURL: base_url!, apiKey: api_key!, maxRetries: 0 });
    const response = await client.chat.completions.create({
      model: model!,
      messages: [{ role: 'user', content: 'Hi' }],
    });
    assert.equal(response.choices[0]?.message.content, 'The expected reply.');
  });

  test('for the coding CLI gets its reply over Responses, with the key of auth.json', async () => {
    const input = { baseUrl: gateway.url, model: modelVia('messages'), contextWindow: 500_000 };
    await codingCli({ ...input, tokenStdin: true, write: true }, { input: piped(`${gateway.token}\n`) });
    const file = read('.codingcli', 'config.toml');
    const { model, model_provider, model_auto_compact_token_limit } = section(file);
    const { base_url, wire_api } = section(file, `model_providers.${model_provider}`);
    assert.deepEqual([wire_api, model_auto_compact_token_limit], ['responses', '475000']);
    const { COMPAT_API_KEY } = JSON.parse(read('.codingcli', 'auth.json')) as Record<string, string>;
    const client = new OpenAI({ baseURL: base_url!, apiKey: COMPAT_API_KEY!, maxRetries: 0 });
    const stream = client.responses.stream({ model: model!, input: 'Say it.', store: false });
    assert.equal((await stream.finalResponse()).output_text, 'The expected reply.');
  });

  test('for Messages gets its reply and the list of models, at the root of the address and with the bearer token', async () => {
    const input = { baseUrl: `${gateway.url}/v1`, model: modelVia('messages'), discovery: true, write: true } as const;
    await messages({ ...input, tokenStdin: true }, { input: piped(gateway.token) });
    const { env } = JSON.parse(read('.client', 'settings.json')) as { env: Record<string, string> };
    assert.equal(env.CLIENT_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY, '1');
    const authToken = env.VENDOR_AUTH_TOKEN!;
    const client = new Anthropic({ baseURL: env.VENDOR_BASE_URL!, authToken, apiKey: null, maxRetries: 0 });
    const ask = { max_tokens: 500, messages: [{ role: 'user' as const, content: 'Say it.' }] };
    assert.equal(await client.messages.stream({ ...ask, model: env.VENDOR_MODEL! }).finalText(), 'The expected reply.');
    const listed = await client.models.list({ limit: 1000 });
    assert.ok(listed.data.some(({ id }) => id === env.VENDOR_MODEL));
  });
});
