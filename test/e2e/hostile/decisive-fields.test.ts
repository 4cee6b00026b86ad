/** Fields and headers beside `model` by which a caller could have models, prices or accounts that are not its own. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { PRIVILEGED_FIELDS } from '../../../engine/domain/protocols/body/privileged-fields.ts';
import type { ConfigSections } from '../../support/gateway.ts';
import { answerJson, message } from '../../support/model-provider/scripted-upstream.ts';
import { bearer, type Response, send } from '../support/client.ts';
import { recordOf } from '../support/odd.ts';
import { useGateway } from '../support/use-gateway.ts';

const CHEAP = { input: 1, output: 5 };
const EXPENSIVE = { input: 300, output: 1500 };

let token: string;

function sections(url: string): ConfigSections {
  const key = { base_url: url, api_key_env: 'TEST_UPSTREAM_KEY' };
  const window = { context_window: 200_000, max_output_tokens: 8000 };
  const cheap = (id: string, more: object = {}) => ({ id, family: 'cheap', ...window, pricing: CHEAP, ...more });
  return {
    upstreams: [
      { name: 'vendor', type: 'vendor', ...key },
      { name: 'router', type: 'compat', ...key },
      {
        name: 'open',
        type: 'compat',
        allow_fields: ['provider', 'moderation.model', 'workspace_id'],
        allow_headers: ['openai-project'],
        ...key,
      },
    ],
    models: [
      cheap('cheap-1', { pricing: { ...CHEAP, service_tiers: { priority: { multiplier: 2 } } } }),
      cheap('cheap-2', { aliases: ['small'], upstream_ids: { vendor: 'their-cheap-2' } }),
      cheap('chat-1'),
      cheap('chat-2', { pricing: { ...CHEAP, speeds: { fast: { multiplier: 6 } } } }),
      cheap('open-1'),
      {
        ...cheap('expensive-1', { family: 'expensive', pricing: EXPENSIVE }),
        upstream_ids: { vendor: 'expensive-upstream-name' },
      },
    ],
    token_groups: [
      { name: 'all', models: ['*'] },
      { name: 'cheap', families: ['cheap'] },
    ],
    routing: {
      default_upstream: 'vendor',
      rules: [
        { models: ['chat-*'], upstream: 'router' },
        { models: ['open-*'], upstream: 'open' },
      ],
    },
  };
}

const { gateway, upstream } = useGateway(sections);
before(async () => {
  token = await gateway.newToken({ group: 'cheap', name: 'cheap' });
});

const PATHS = { messages: '/v1/messages', chat: '/v1/chat/completions', responses: '/v1/responses' } as const;
type Api = keyof typeof PATHS;
const PROMPT: Record<Api, object> = {
  messages: { model: 'cheap-1', max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] },
  chat: { model: 'chat-1', max_completion_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] },
  responses: { model: 'chat-1', max_output_tokens: 10, input: 'Hi' },
};

function post(api: Api, fields: object, headers: readonly string[] = [], query = ''): Promise<Response> {
  upstream.script = answerJson(api === 'messages' ? message() : { id: 'x' });
  const body = JSON.stringify({ ...PROMPT[api], ...fields });
  return send(gateway.url, { path: PATHS[api] + query, body, headers: bearer(token, headers) });
}

interface Refusal {
  readonly error: { readonly message: string; readonly param?: string };
}

async function refused(api: Api, fields: object, param: string, status: number): Promise<string> {
  const sent = upstream.requests.length;
  const response = await post(api, fields);
  const said = `${JSON.stringify(fields)}: ${response.status} ${response.text}`;
  assert.equal(response.status, status, said);
  const { error } = JSON.parse(response.text) as Refusal;
  assert.equal(error.param, param, said);
  assert.ok(error.message.startsWith(`${param}: `), said);
  assert.equal(upstream.requests.length, sent);
  return error.message;
}

async function passes(api: Api, fields: object): Promise<void> {
  const sent = upstream.requests.length;
  const response = await post(api, fields);
  assert.equal(response.status, 200, `${JSON.stringify(fields)}: ${response.text}`);
  const body = JSON.stringify({ ...PROMPT[api], ...fields });
  assert.equal(upstream.requests.length, sent + 1);
  assert.equal(upstream.requests.at(-1)!.body.toString(), body);
}

const tool = (definition: object) => ({ tools: [definition] });

describe('a model named beside `model`', () => {
  test('is rejected in any protocol for a caller without permission', async () => {
    const addition = { type: 'tool_addition', tool: { type: 'tool_definition', definition: { model: 'expensive-1' } } };
    const image = { type: 'image_generation', model: 'expensive-1' };
    const places: readonly (readonly [Api, object, string])[] = [
      ['messages', tool({ type: 'advisor_20260301', model: 'expensive-upstream-name' }), 'tools[0].model'],
      ['messages', { compaction: { summaryModel: 'expensive-1' } }, 'compaction.summaryModel'],
      ['messages', { fallbacks: [{ model: 'expensive-1' }] }, 'fallbacks[0].model'],
      ['messages', { fallbacks: ['expensive-1'] }, 'fallbacks[0]'],
      [
        'messages',
        { messages: [{ role: 'user', content: [addition] }] },
        'messages[0].content[0].tool.definition.model',
      ],
      ['chat', { models: ['chat-1', 'expensive-1'] }, 'models[1]'],
      ['chat', { [`${'\ufdfa'.repeat(30)}_model`]: 'expensive-1' }, `${'\ufdfa'.repeat(30)}_model`],
      ['chat', tool({ type: 'openrouter:advisor', parameters: { model: 'expensive-1' } }), 'tools[0].parameters.model'],
      ['chat', tool({ type: 'function', function: { name: 'f', model: 'expensive-1' } }), 'tools[0].function.model'],
      ['chat', { tool_choice: { type: 'advisor', model: 'expensive-1' } }, 'tool_choice.model'],
      ...['engine', 'deployment', 'deployment_name', 'deployment_id', 'llm', 'fallback model'].map(
        (name) => ['chat', { [name]: 'gpt-unknown-9' }, name] as const,
      ),
      // Models of the gateway are found under any other name as well.
      ['chat', { router_hint: { use: ['chat-1', 'expensive-1'] } }, 'router_hint.use[1]'],
      ['messages', { x: 'expensive-upstream-name' }, 'x'],
      ['messages', { safeguards: [{ judge_model: 'expensive-1' }] }, 'safeguards[0].judge_model'],
      ['responses', tool({ type: 'namespace', tools: [image] }), 'tools[0].tools[0].model'],
      ['responses', { input: [{ type: 'additional_tools', tools: [image] }] }, 'input[0].tools[0].model'],
    ];
    for (const [api, fields, param] of places) assert.match(await refused(api, fields, param, 404), /Model not found/);
  });

  test('passes unchanged for a caller with permission if the upstream serves it by that name', async () => {
    await passes('messages', tool({ type: 'advisor_20260301', name: 'advisor', model: 'cheap-1' }));
    await passes('messages', { fallbacks: [{ model: 'their-cheap-2' }] });
    await passes('chat', { models: ['chat-1', 'chat-2'] });
  });

  test('is rejected with the correct name where the upstream uses another', async () => {
    for (const name of ['cheap-2', 'small']) {
      const said = await refused('messages', { fallbacks: [{ model: name }] }, 'fallbacks[0].model', 400);
      assert.match(said, /their-cheap-2/);
    }
  });

  test('may be repeated in an unknown field, where it is the model of the request', async () => {
    await passes('messages', { model: 'cheap-1', x: { model: 'cheap-1' } });
    await refused('messages', { model: 'cheap-1', x: { model: 'expensive-1' } }, 'x.model', 404);
  });

  test('is rejected with the setting that allows it where the name is unknown here', async () => {
    const said = await refused('responses', { moderation: { model: 'omni-latest' } }, 'moderation.model', 404);
    assert.match(said, /"moderation\.model" to `allow_fields` of the upstream "router"/);
  });

  test('is rejected where its requests go to another upstream', async () => {
    const said = await refused('chat', { models: ['cheap-1'] }, 'models[0]', 404);
    assert.match(said, /upstream "router"/);
  });

  test('is rejected in a form that cannot be checked', async () => {
    await refused('messages', { fallbacks: 'default' }, 'fallbacks', 400);
    await refused('chat', { fallbacks: [{ 'chat-1': ['expensive-1'] }] }, 'fallbacks[0]', 400);
    const by_name = { 'chat-1': 'gpt-unknown-9' };
    await refused('chat', { context_window_fallback_dict: by_name }, 'context_window_fallback_dict', 400);
    await refused('chat', tool({ type: 'openrouter:advisor' }), 'tools[0]', 400);
    await refused('chat', tool({ type: 'openrouter:fusion', parameters: {} }), 'tools[0]', 400);
  });

  test('is an ordinary word in content, in schemas of tools and in client-made names', async () => {
    const schema = {
      type: 'object',
      properties: { model: { type: 'string', default: 'expensive-1' }, models: { type: 'array' } },
    };
    await passes('messages', tool({ name: 'pick', input_schema: schema, input_examples: [{ model: 'expensive-1' }] }));
    await passes('chat', tool({ type: 'function', function: { name: 'pick', parameters: schema } }));
    await passes('responses', tool({ type: 'function', name: 'pick', parameters: schema }));
    await passes('responses', { text: { format: { type: 'json_schema', name: 'x', schema } } });
    await passes('messages', { metadata: { user_id: '{"model":"expensive-1"}', model: 'expensive-1' } });
    const call = { type: 'tool_use', id: 't', name: 'pick', input: { model: 'expensive-1', workspace_id: 'w' } };
    await passes('messages', { messages: [{ role: 'assistant', content: [call] }] });
    const asked = { id: 't', type: 'function', function: { name: 'f', arguments: '{"model":1}' } };
    await passes('chat', { messages: [{ role: 'assistant', tool_calls: [asked] }] });
    await passes('chat', { unheard_of: { word: 'small' }, user: 'expensive-1', prompt_cache_key: 'expensive-1' });
    await passes('messages', { safeguards: [{ judge_model: 'nobody-knows-1', project: 'p' }], tags: ['expensive-1'] });
    await passes('responses', { prompt: { id: 'pmpt_1', version: '2', variables: { model: 'expensive-1' } } });
  });
});

describe('a field that changes the price', () => {
  test('is rejected where its value has no price, by name and with a remedy', async () => {
    const priced: readonly (readonly [Api, object, string])[] = [
      ['messages', { speed: 'fast' }, 'speed'],
      ['chat', { service_tier: 'priority' }, 'service_tier'],
      ['chat', { modalities: ['text', 'audio'] }, 'modalities[1]'],
      ['responses', { service_tier: 'ultrafast' }, 'service_tier'],
      ['responses', { service_tier: 7 }, 'service_tier'],
      ['messages', { fallbacks: [{ model: 'cheap-1', speed: 'fast' }] }, 'fallbacks[0].speed'],
      ['messages', { inference_geo: 'us' }, 'inference_geo'],
      ['chat', { performance_config: { latency: 'optimized' } }, 'performance_config'],
      ...['best_of', 'num_return_sequences', 'candidate_count'].map((name) => ['chat', { [name]: 3 }, name] as const),
    ];
    for (const [api, fields, param] of priced) {
      const said = await refused(api, fields, param, 400);
      assert.match(said, /has no price for the model/);
    }
    assert.match(await refused('chat', { service_tier: 'priority' }, 'service_tier', 400), /service_tiers\.priority/);
  });

  test('passes where the model has a price for it, and where it never costs more', async () => {
    await passes('messages', { service_tier: 'priority' });
    await passes('messages', { service_tier: 'standard_only', speed: 'standard', inference_geo: 'global' });
    await passes('responses', { service_tier: 'flex' });
    await passes('chat', { model: 'chat-2', speed: 'fast' });
  });

  test('needs a price for every model that the request may use', async () => {
    const fields = { model: 'chat-2', models: ['chat-1'], speed: 'fast' };
    const said = await refused('chat', fields, 'speed', 400);
    assert.match(said, /"chat-1"/);
  });
});

describe('a field that chooses who serves or pays', () => {
  test('is rejected with the setting that allows it', async () => {
    const places: readonly (readonly [Api, object, string])[] = [
      ['messages', { workspace_id: 'w' }, 'workspace_id'],
      ['chat', { extra: { projectId: 'p' } }, 'extra.projectId'],
      ['chat', { provider: { order: ['expensive'] } }, 'provider'],
      ['chat', { extra_body: { model: 'expensive-1' } }, 'extra_body'],
      ['responses', { agent_reference: { name: 'a' } }, 'agent_reference'],
      ...PRIVILEGED_FIELDS.filter(({ rule }) => rule === 'refuse').map(
        ({ name }) => ['chat', { [name]: { a: 'b' } }, name] as const,
      ),
      // Names that are in no table.
      ...['providers', 'provider_order', 'user_profile', 'auth', 'litellm_credential_name', 'accessKeyId'].map(
        (name) => ['chat', { [name]: 'x' }, name] as const,
      ),
      ...['aws_secret_access_key', 'aws_bedrock_runtime_endpoint', 'azure_ad_token'].map(
        (name) => ['chat', { [name]: 'x' }, name] as const,
      ),
    ];
    for (const [api, fields, param] of places) {
      const said = await refused(api, fields, param, 400);
      assert.match(said, /`allow_fields` of the upstream/);
    }
  });

  test('passes when it is empty, and so does every unknown field', async () => {
    await passes('chat', { models: [], fallbacks: null, provider: {}, preset: '' });
    await passes('chat', { chat_template_kwargs: { thinking: true }, seed: 7, x: { y: [{ z: 'project' }] } });
    await passes('messages', { context_management: { edits: [] }, output_config: { effort: 'low' } });
    await passes('responses', { max_tool_calls: 3, reasoning: { effort: 'low' } });
    await passes('messages', { mcp_servers: [{ type: 'url', url: 'https://x.example', authorization_token: 't' }] });
    await passes('responses', tool({ type: 'mcp', server_label: 'm', project: 'p', headers: { 'x-account': 'a' } }));
  });

  test('passes at an upstream that allows it, and stays rejected at the others', async () => {
    const open = { model: 'open-1' };
    await passes('chat', { ...open, provider: { order: ['a'] } });
    await passes('chat', { ...open, workspaceId: 'w' });
    await passes('responses', { ...open, moderation: { model: 'omni-latest' } });
    await refused('chat', { ...open, plugins: [{ id: 'web' }] }, 'plugins', 400);
    await refused('responses', { ...open, moderation: { model: 'expensive-1' } }, 'moderation.model', 404);
  });
});

describe('a header that chooses who serves or pays', () => {
  const headers = ['OpenAI-Project', 'p', 'cookie', 'session=1', 'X-Portkey-Config', '{}', 'x-title', 'mine'];

  test('is dropped, and the audit record names it', async () => {
    const response = await post('chat', {}, headers);
    assert.equal(response.status, 200, response.text);
    const received = upstream.only().headers;
    for (const name of ['openai-project', 'cookie', 'x-portkey-config']) assert.equal(received[name], undefined, name);
    assert.equal(received['x-title'], 'mine');
    const record = await recordOf(gateway, response);
    assert.deepEqual(record.dropped_headers, ['openai-project', 'cookie', 'x-portkey-config']);
  });

  const betas = ['vendor-beta', 'first-1, context-1m-2025-08-07,last-2'];

  test('that lengthens the context window is forwarded, and more is reserved where the body could be longer', async () => {
    const body = { messages: [{ role: 'user', content: 'x'.repeat(400_000) }] };
    const plain = await recordOf(gateway, await post('messages', body));
    const longer = await recordOf(gateway, await post('messages', body, betas));
    assert.equal(upstream.requests.at(-1)!.headers['vendor-beta'], betas[1]);
    assert.ok(
      Number(longer.reserved_usd) > 1.5 * Number(plain.reserved_usd),
      `${longer.reserved_usd} ${plain.reserved_usd}`,
    );
  });

  test('reaches an upstream that allows it', async () => {
    await post('chat', { model: 'open-1' }, headers);
    const received = upstream.only().headers;
    assert.equal(received['openai-project'], 'p');
    assert.equal(received.cookie, undefined);
  });
});

describe('a query parameter', () => {
  const named = (name: string) => `beta=true&${name}=expensive-1`;

  test('that chooses a model, a price or an account is rejected', async () => {
    const names = [
      'model[] Model MODEL models model%5B%5D model[0] model[id] [model] model.id model%2Eid model_id x[model]',
      'x.y[0].model options[model][] %20model +model model%20 model%00x %256dodel %25256dodel %u006dodel mode%6C',
      '%EF%BD%8Dodel model- _model models[] fallbacks[0] fallback_models[] deployment[name] engine provider[order][]',
    ];
    const queries = [
      'model=expensive-1 beta=true&workspace_id=w a=1&%6dodel=expensive-1 service_tier=priority key=&api_key=k',
      'beta=true;model=expensive-1 a;model=expensive-1 ?model=expensive-1 beta=true#&model=expensive-1',
      'a=1%26model%3Dexpensive-1 a=1%2526model%253Dexpensive-1 a%3D1%3Bmodel%3Dexpensive-1 a=1&model &&model[]=&x',
      'model=cheap-1&model=expensive-1 model[]=cheap-1&model[]=expensive-1 workspace_id[]=w extra[api_key]=k',
    ];
    const words = (lines: readonly string[]) => lines.flatMap((line) => line.split(' '));
    for (const query of [...words(queries), ...words(names).map(named)]) {
      const response = await post('messages', {}, [], `?${query}`);
      assert.equal(response.status, 400, query);
      assert.match(response.text, /query parameter/);
      assert.equal(upstream.requests.length, 0);
    }
  });

  test('passes if unknown, and so does one that the upstream allows', async () => {
    for (const query of [
      'beta=true&x=%2F',
      'metadata[model]=a&include[]=b',
      'remodel=1&modeled[]=2',
      'a=b%26c%3Dd&limit=3',
    ])
      assert.equal((await post('messages', {}, [], `?${query}`)).status, 200, query);
    assert.equal((await post('chat', { model: 'open-1' }, [], '?workspace_id=w')).status, 200);
    assert.equal(upstream.requests.at(-1)!.url, '/v1/chat/completions?workspace_id=w');
  });
});

describe('the audit record of a request that may use other models', () => {
  test('names them and how it is to be served', async () => {
    const fields = { service_tier: 'auto', ...tool({ type: 'advisor_20260301', model: 'their-cheap-2' }) };
    const response = await post('messages', fields);
    const record = await recordOf(gateway, response);
    assert.deepEqual(record.other_models, ['cheap-2']);
    assert.equal(record.service_tier, 'auto');
  });
});
