/** The list of models as the official SDKs see it. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { useGateway } from '../support/use-gateway.ts';

const COUNT = 1000;
const IDS = Array.from({ length: COUNT }, (_, i) => `coder-${i}`);
const ODD = 'made by/us: ü@2026';

let messages: Anthropic;
let chat: OpenAI;

const model = { context_window: 200_000, max_output_tokens: 64_000, pricing: { input: 3, output: 15 } };
const { gateway } = useGateway({
  models: [
    ...IDS.map((id) => ({ ...model, id })),
    { ...model, id: ODD, family: 'odd', aliases: ['latest'], supports: { images: false, thinking: 'none' } },
  ],
  token_groups: [{ name: 'all', models: ['*'] }],
  routing: { default_upstream: 'main', rules: [] },
});
before(() => {
  const { url, token } = gateway;
  messages = new Anthropic({ baseURL: url, authToken: token, apiKey: null, maxRetries: 0 });
  chat = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
});

async function idsOf(list: AsyncIterable<{ readonly id: string }>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of list) ids.push(id);
  return ids;
}

describe('the SDK for Messages', () => {
  test('gets a thousand models in one page', async () => {
    const page = await messages.models.list({ limit: 1000 });
    const found = page.data.map(({ id }) => id);
    assert.deepEqual(found, IDS);
    assert.equal(page.has_more, true, 'there is another one');
  });

  test('lists every model once, at once and page by page', async () => {
    assert.deepEqual(await idsOf(messages.models.list()), [...IDS, ODD]);
    assert.deepEqual(await idsOf(messages.models.list({ limit: 1000 })), [...IDS, ODD]);
    assert.deepEqual(await idsOf(messages.models.list({ limit: 300 })), [...IDS, ODD]);
    const before = await messages.models.list({ limit: 2, before_id: 'coder-3' });
    const ids = before.data.map(({ id }) => id);
    assert.deepEqual(ids, ['coder-1', 'coder-2']);
  });

  test('gets its own kind of error for a model that is not there', async () => {
    await assert.rejects(messages.models.retrieve('nothing'), (error) => {
      return error instanceof Anthropic.NotFoundError && error.type === 'not_found_error';
    });
  });
});

describe('the SDK for chat completions and Responses', () => {
  test('lists every model once', async () => {
    assert.deepEqual(await idsOf(chat.models.list()), [...IDS, ODD]);
  });

  test('gets its own kind of error for a model that is not there', async () => {
    await assert.rejects(chat.models.retrieve('nothing'), (error) => {
      return error instanceof OpenAI.NotFoundError && error.code === 'model_not_found';
    });
  });
});

describe('any client', () => {
  test('may say hello without a credential', async () => {
    for (const path of ['/', '/api/hello']) {
      const response = await fetch(gateway.url + path, { method: 'HEAD', redirect: 'manual' });
      assert.equal(response.status, 200);
      assert.equal(await response.text(), '');
    }
  });
});
