/** The bill of a response, and the reservation of a request, with more than one model, tier or run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cli } from '../../cli/support.ts';
import {
  answerChunks,
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  sse,
} from '../../support/model-provider/scripted-upstream.ts';
import { ask, bearer, type Response, send } from '../support/client.ts';
import { auditRecord, type LedgerRow, ledgerRow } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const SIZES = { context_window: 200_000, max_output_tokens: 64_000 };
const CHEAP = { input: 1, output: 5 };
const EXPENSIVE = { input: 15, output: 75 };
const TIERED = {
  ...CHEAP,
  service_tiers: { priority: { multiplier: 2 } },
  speeds: { fast: { multiplier: 6 } },
  inference_geos: { us: { multiplier: 1.1 } },
};

/** Prices by which the USD of a reservation show its parts: a window of input is 0.2, the longest response 6.4. */
const PRICES_BY_PART = { input: 1, output: 100 };
const WINDOW = 0.2;
const LONGEST = 6.4;

const compat = (url: string) => ({ type: 'compat', base_url: `${url}/v1`, api_key_env: 'TEST_UPSTREAM_KEY' });

/** Callers whose day has room for 0.50 USD. */
const SMALL = { glob: [{ var: 'principal.email' }, 'small-*'] };

const CONFIG = (url: string) => ({
  upstreams: [
    {
      name: 'main',
      type: 'vendor',
      base_url: url,
      api_key_env: 'TEST_UPSTREAM_KEY',
      supports: { max_tokens_0: true },
    },
    { name: 'chat', ...compat(url) },
    { name: 'strict', type: 'vendor', base_url: url, api_key_env: 'TEST_UPSTREAM_KEY' },
    { name: 'newer', ...compat(url), enforces: ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] },
  ],
  models: [
    { ...SIZES, id: 'cheap-1', pricing: CHEAP },
    { ...SIZES, id: 'expensive-1', aliases: ['expensive-latest'], pricing: EXPENSIVE },
    { ...SIZES, id: 'tiered-1', pricing: TIERED },
    { ...SIZES, id: 'chat-1', pricing: CHEAP },
    { ...SIZES, id: 'newer-1', pricing: CHEAP },
    { ...SIZES, id: 'open-1', pricing: CHEAP, supports: { thinking: 'none' } },
    ...['small-1', 'strict-1', 'small-chat-1'].map((id) => ({ ...SIZES, id, pricing: PRICES_BY_PART })),
  ],
  token_groups: [{ name: 'all', models: ['*'] }],
  routing: {
    default_upstream: 'main',
    rules: [
      { models: ['chat-1', 'small-chat-1'], upstream: 'chat' },
      { models: ['strict-1'], upstream: 'strict' },
      { models: ['newer-1'], upstream: 'newer' },
    ],
  },
  spend_limits: {
    reserve: 'worst_case',
    rules: [{ name: 'small', scope: 'user', window: 'day', limit_usd: 0.5, when: SMALL }],
  },
});

const opened = useGateway(CONFIG);

let callers = 0;
const smallToken = () => opened.gateway.newToken({ user: `small-${++callers}@example.com` });

const chat = (token: string, body: object, path = '/v1/chat/completions') =>
  send(opened.gateway.url, {
    path,
    headers: bearer(token),
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }], ...body }),
  });

async function rowOf(response: Response): Promise<LedgerRow & { readonly billed: Record<string, unknown> | null }> {
  assert.equal(response.status, 200, response.text);
  const row = await ledgerRow(opened.gateway.database, String(response.headers['x-gateway-request-id']));
  return row as Awaited<ReturnType<typeof rowOf>>;
}

/** A run as `usage.iterations` reports it. */
function run(type: string, input_tokens: number, output_tokens: number, more: object = {}): object {
  return {
    type,
    input_tokens,
    output_tokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    cache_creation: null,
    ...more,
  };
}

test('runs of other models are billed at their prices, though the totals leave them out', async () => {
  opened.upstream.script = answerJson({
    ...message({
      input_tokens: 1000,
      output_tokens: 50,
      iterations: [
        run('message', 400, 20),
        run('advisor_message', 100_000, 20_000, { model: 'expensive-1-20260301' }),
        run('message', 600, 30),
      ],
    }),
    model: 'cheap-1',
  });
  const tools = [{ type: 'advisor_20260301', name: 'advisor', model: 'expensive-1' }];
  const row = await rowOf(await ask(opened.gateway.url, opened.gateway.token, { model: 'cheap-1', tools }));
  assert.equal(row.cost_nano_usd, 1000 * 1000 + 50 * 5000 + 100_000 * 15_000 + 20_000 * 75_000);
  assert.deepEqual([row.input_tokens, row.output_tokens], [101_000, 20_050]);
  const found = (row.billed!.parts as { model: string }[]).map(({ model }) => model);
  assert.deepEqual(found, ['cheap-1', 'cheap-1', 'expensive-1']);
  const { record } = await auditRecord(opened.gateway.database, row.request_id);
  assert.deepEqual((record as { billed: unknown }).billed, row.billed);
});

test('a summary of the conversation is billed on top of the totals, in a stream as well', async () => {
  const iterations = [run('compaction', 60_000, 3000), run('message', 100, 40)];
  const [start, ...others] = messageEvents(['Hi'], { input_tokens: 100, output_tokens: 1 });
  const end = sse({
    type: 'message_delta',
    delta: { stop_reason: 'end_turn' },
    usage: { output_tokens: 40, iterations },
  });
  opened.upstream.script = answerChunks([start!, ...others.slice(0, -2), end, others.at(-1)!], EVENT_STREAM);
  const context_management = { edits: [{ type: 'compact_20260112' }] };
  const body = { model: 'cheap-1', stream: true, context_management };
  const row = await rowOf(await ask(opened.gateway.url, opened.gateway.token, body));
  assert.equal(row.cost_nano_usd, 60_100 * 1000 + 3040 * 5000);
});

test('the responding model is recorded, and priced where it is more expensive', async () => {
  const used = { input_tokens: 1000, output_tokens: 10 };
  for (const [name, cost] of [
    ['expensive-latest', 1000 * 15_000 + 10 * 75_000],
    ['vendor/expensive-1@20260301', 1000 * 15_000 + 10 * 75_000],
    ['nobody-knows-1', 1000 * 1000 + 10 * 5000],
  ] as const) {
    opened.upstream.script = answerJson({ ...message(used), model: name });
    const row = await rowOf(await ask(opened.gateway.url, opened.gateway.token, { model: 'cheap-1' }));
    assert.equal(row.cost_nano_usd, cost, name);
    assert.equal(row.billed?.model, name);
  }
  opened.upstream.script = answerJson({ ...message(used), model: 'cheap-1-2026-03-01' });
  assert.equal((await rowOf(await ask(opened.gateway.url, opened.gateway.token, { model: 'cheap-1' }))).billed, null);
  opened.upstream.script = answerJson({ ...message(used), model: 'a\u001b[31m\nb' });
  assert.equal((await rowOf(await ask(opened.gateway.url, opened.gateway.token, { model: 'cheap-1' }))).billed, null);
});

test('a tier, a speed and a region cost the served ones, by the response', async () => {
  const used = { input_tokens: 1000, output_tokens: 10 };
  const plain = 1000 * 1000 + 10 * 5000;
  const cases: [asked: object, answered: object, cost: number][] = [
    [{ speed: 'fast' }, { speed: 'fast' }, 6 * plain],
    [{ speed: 'fast' }, { speed: 'standard' }, plain],
    [{ speed: 'fast' }, {}, 6 * plain],
    [{}, { service_tier: 'priority', inference_geo: 'us' }, 2.2 * plain],
    [{}, { service_tier: 'unheard-of' }, 2 * plain],
  ];
  for (const [asked, answered, cost] of cases) {
    opened.upstream.script = answerJson(message({ ...used, ...answered }));
    const row = await rowOf(await ask(opened.gateway.url, opened.gateway.token, { model: 'tiered-1', ...asked }));
    assert.equal(row.cost_nano_usd, Math.ceil(cost), JSON.stringify([asked, answered]));
    assert.equal(
      row.provenance.price,
      'service_tier' in answered && answered.service_tier === 'unheard-of' ? 'unknown_tier' : undefined,
    );
  }
});

test('implausible usage is booked at the possible maximum, marked and logged', async () => {
  for (const [tokens, mark] of [
    [100_000_000, 'clamped'],
    [1e15, 'estimate'],
  ] as const) {
    opened.upstream.script = answerJson(message({ input_tokens: tokens, output_tokens: tokens }));
    const body = { model: 'cheap-1', max_tokens: 64 };
    const response = await ask(opened.gateway.url, await smallToken(), body);
    const row = await rowOf(response);
    assert.equal(row.output_tokens, 64);
    assert.ok(row.input_tokens < 2000 && row.cost_nano_usd < 10_000_000, JSON.stringify(row));
    assert.equal(row.provenance.cost, mark);
    const { record } = await auditRecord(opened.gateway.database, row.request_id);
    assert.equal((record as { clamped?: boolean }).clamped, mark === 'clamped' ? true : undefined);
  }
  assert.ok(opened.gateway.logs.some((line) => line.includes('more usage than possible')));
});

test('the output of a model without hidden output is at most what was sent', async () => {
  opened.upstream.script = answerJson(message({ input_tokens: 10, output_tokens: 60_000 }));
  const row = await rowOf(await ask(opened.gateway.url, opened.gateway.token, { model: 'open-1', max_tokens: 64_000 }));
  assert.ok(row.output_tokens < 1000, String(row.output_tokens));
  assert.equal(row.provenance.output, 'clamped');
});

test('output with letters of several tokens each is plausible', async () => {
  const text = '\u{12000}'.repeat(3000);
  const used = { input_tokens: 10, output_tokens: 12_000 };
  opened.upstream.script = answerJson({ ...message(used), content: [{ type: 'text', text }] });
  const row = await rowOf(await ask(opened.gateway.url, opened.gateway.token, { model: 'open-1', max_tokens: 64_000 }));
  assert.deepEqual([row.output_tokens, row.provenance.output], [12_000, 'upstream']);
});

test('a final count of nothing after twenty deltas is not believed', async () => {
  const words = Array.from({ length: 20 }, (_, i) => `word ${i} `);
  const events = messageEvents(words).slice(0, -2);
  const end = sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 0 } });
  opened.upstream.script = answerChunks([...events, end, sse({ type: 'message_stop' })], EVENT_STREAM);
  const row = await rowOf(await ask(opened.gateway.url, opened.gateway.token, { model: 'cheap-1', stream: true }));
  assert.ok(row.output_tokens >= 20, String(row.output_tokens));
  assert.equal(row.provenance.output, 'estimate');
});

test('a bound that the upstream is not known to keep to bounds nothing', async () => {
  const refused = await chat(await smallToken(), { model: 'chat-1', max_completion_tokens: 1 });
  // 64,000 tokens of output at 5 USD a million are less than the limit; two responses are not.
  assert.equal(refused.status, 200);
  const two = await chat(await smallToken(), { model: 'chat-1', max_completion_tokens: 1, n: 2 });
  assert.equal(two.status, 429, two.text);
  const kept = await chat(await smallToken(), { model: 'newer-1', max_completion_tokens: 1, n: 2 });
  assert.equal(kept.status, 200, kept.text);
  const known = await chat(await smallToken(), { model: 'chat-1', max_tokens: 1, n: 2 });
  assert.equal(known.status, 200, known.text);
});

test('bounds of 0 or less, of parts and in quotes are rejected', async () => {
  const { token } = opened.gateway;
  for (const bound of [0, -1, 1.5, '5', 1e300, true]) {
    for (const key of ['max_tokens', 'max_completion_tokens']) {
      const response = await chat(token, { model: 'chat-1', [key]: bound });
      assert.equal(response.status, 400, `${key}: ${bound}`);
      assert.match(response.json().error.message, new RegExp(key));
    }
    const responses = await chat(token, { model: 'chat-1', max_output_tokens: bound, input: 'Hi' }, '/v1/responses');
    assert.equal(responses.status, 400, `max_output_tokens: ${bound}`);
    const messages = await ask(opened.gateway.url, token, { model: 'chat-1', max_tokens: bound });
    assert.equal(messages.status, 400, `max_tokens of Messages at a compat upstream: ${bound}`);
    const vendor = await ask(opened.gateway.url, token, { model: 'cheap-1', max_tokens: bound });
    assert.equal(
      vendor.status,
      bound === 0 ? 200 : 400,
      `max_tokens of Messages at an upstream that takes 0: ${bound}`,
    );
  }
});

test('more runs of other models than the request allows are not believed', async () => {
  const aside = run('advisor_message', 200_000, 64_000, { model: 'expensive-1' });
  const iterations = [run('message', 10, 10), ...Array.from({ length: 500 }, () => aside)];
  opened.upstream.script = answerJson(message({ input_tokens: 10, output_tokens: 10, iterations }));
  const tools = [{ type: 'advisor_20260301', name: 'advisor', model: 'expensive-1', max_uses: 1 }];
  const token = await opened.gateway.newToken({ user: 'flooded@example.com' });
  const row = await rowOf(await ask(opened.gateway.url, token, { model: 'cheap-1', tools }));
  assert.equal(row.provenance.cost, 'clamped');
  assert.ok(row.cost_nano_usd <= 2 * (200_000 * 15_000 + 64_000 * 75_000) + 100_000, String(row.cost_nano_usd));
  const result = await cli(
    ['usage', '--by', 'estimated', '--csv', '--user', 'flooded@example.com', '--config', opened.gateway.config_file],
    { env: opened.gateway.env },
  );
  assert.match(result.stdout, /^clamped,1,/m);
});

const PATHS = { messages: '/v1/messages', chat: '/v1/chat/completions', responses: '/v1/responses' } as const;
type Api = keyof typeof PATHS;
const PROMPT: Record<Api, object> = {
  messages: { model: 'small-1', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] },
  chat: { model: 'small-chat-1', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] },
  responses: { model: 'small-chat-1', max_output_tokens: 1, input: 'Hi' },
};

async function reserved(api: Api, fields: object): Promise<number> {
  if (api !== 'messages') opened.upstream.script = answerJson({ id: 'x' });
  const body = JSON.stringify({ ...PROMPT[api], ...fields });
  const response = await send(opened.gateway.url, { path: PATHS[api], body, headers: bearer(opened.gateway.token) });
  assert.equal(response.status, 200, response.text);
  const { record } = await auditRecord(opened.gateway.database, String(response.headers['x-gateway-request-id']));
  return (record as { reserved_usd: number }).reserved_usd;
}

const SEARCH = { type: 'web_search_20250305', name: 'web_search' };
const BUILTIN = { type: 'builtin_function', function: { name: '$web_search' } };
const addition = (definition: object) => ({ type: 'tool_addition', tool: { type: 'tool_definition', definition } });
const says = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
const RUNS = 10;

/** What a request that says so may cost beyond its text and its one token of output: the least and the most USD. */
const RESERVED: readonly (readonly [Api, object, least: number, most?: number])[] = [
  // Thinking has a bound of its own where the other is 0.
  ['messages', { max_tokens: 0, thinking: { type: 'enabled', budget_tokens: 1024 } }, LONGEST],
  ['chat', { thinking: { budget_tokens: 9000 } }, 0.9],
  ['chat', { thinking_budget: 9000 }, 0.9],
  ['responses', { reasoning: { max_tokens: 9000 } }, 0.9],
  // A server may read any of several bounds, and keeps to one of them.
  ['chat', { n_predict: 9000 }, 0.9],
  ['chat', { max_tokens: 2, n_predict: 1 }, 0, 0.01],
  ['chat', { n_predict: -1 }, LONGEST],
  ['chat', { max_new_tokens: 9000 }, 0.9],
  ['responses', { max_tokens: 9000 }, 0.9],
  // Rejected predictions are billed beyond the bound.
  ['chat', { prediction: { type: 'content', content: 'abc' } }, LONGEST],
  // Tools that are defined in the middle of a conversation run as well.
  ['messages', says(addition(SEARCH)), RUNS * WINDOW],
  ['messages', says({ type: 'compaction', content: 'x', tool_changes: [addition(SEARCH)] }), RUNS * WINDOW],
  ['messages', { messages: [{ role: 'user', content: 'Hi', tools: [SEARCH] }] }, RUNS * WINDOW],
  ['messages', says(addition({ type: 'mcp_toolset', mcp_server_name: 's' })), RUNS * WINDOW],
  ['chat', { messages: [{ role: 'system', tools: [BUILTIN] }] }, RUNS * WINDOW],
  // Rejected uses beyond a limit are runs, too.
  ['messages', { tools: [{ ...SEARCH, max_uses: 1 }] }, RUNS * WINDOW],
  ['messages', { tools: [{ ...SEARCH, max_uses: 20 }] }, 21 * WINDOW],
  ['responses', { tools: [{ type: 'tool_search' }] }, 100 * WINDOW],
  ['responses', { tools: [{ type: 'tool_search', execution: 'client' }] }, 0, WINDOW],
  ['chat', { web_search_options: {} }, RUNS * WINDOW],
  ['chat', { enable_search: {} }, RUNS * WINDOW],
  // Tools of the client run there.
  ['messages', { tools: [{ type: 'bash_20250124', name: 'x' }] }, 0, WINDOW / 2],
  ['messages', { tools: [{ type: 'computer_toolset_20260801', name: 'x' }] }, 0, WINDOW / 2],
  ['messages', says(addition({ name: 'own', input_schema: { type: 'object' } })), 0, WINDOW / 2],
];

test('the output and the runs that a request may cause are reserved', async () => {
  for (const [api, fields, least, most = Number.POSITIVE_INFINITY] of RESERVED) {
    const usd = await reserved(api, fields);
    assert.ok(usd >= least && usd < most, `reserved ${usd} USD for ${JSON.stringify(fields)}`);
  }
});

test('a bound of 0 is rejected where the upstream has no known support, and one that is there twice', async () => {
  for (const [api, body, says] of [
    ['messages', JSON.stringify({ ...PROMPT.messages, model: 'strict-1', max_tokens: 0 }), /supports\.max_tokens_0/],
    ['chat', JSON.stringify({ ...PROMPT.chat, n_predict: 9000 }).replace(/}$/, ',"n_predict":1}'), /n_predict/],
  ] as const) {
    const response = await send(opened.gateway.url, { path: PATHS[api], body, headers: bearer(opened.gateway.token) });
    assert.equal(response.status, 400, response.text);
    assert.match(response.json().error.message, says);
  }
});

test("an advisor's cache is reserved at the price of an hour", async () => {
  const advisor = { type: 'advisor_20260301', name: 'advisor', model: 'small-1', max_uses: 1 };
  const plain = await reserved('messages', { tools: [advisor] });
  const kept = await reserved('messages', { tools: [{ ...advisor, caching: { type: 'ephemeral', ttl: '1h' } }] });
  assert.ok(kept - plain >= RUNS * WINDOW, `${kept} is no more than ${plain}`);
});
