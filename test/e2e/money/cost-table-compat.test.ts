/**
 * What a request costs on the spoken for chat completions and Responses, at upstreams that speak the same, through the
 * whole gateway. Every number of nano-USD here was worked out by hand from the prices below; none comes out of the program.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { bootGateway, type ConfigSections, type TestGateway } from '../../support/gateway.ts';
import {
  answerBytes,
  answerChunks,
  answerJson,
  EVENT_STREAM,
  hang,
  type Script,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { bearer, open, send } from '../support/client.ts';
import { auditRecord, type LedgerRow, ledgerRow, ledgerRows, nothingReserved } from '../support/state.ts';

// Nano-USD per token: 3000 in, 15000 out, 300 read from the cache, 3750 and 6000 written to it; 10,000,000 for a search.
const LIST = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };
const PRICING = {
  ...LIST,
  // With more than 200,000 tokens in: 6000, 22500, 600, 7500, 12000.
  long_context: { above_input_tokens: 200_000, input: 6, output: 22.5 },
  server_tools: { web_search: 10 },
};

const CONFIG = (url: string): ConfigSections => ({
  upstreams: [
    {
      name: 'main',
      type: 'compat',
      base_url: `${url}/v1`,
      api_key_env: 'TEST_UPSTREAM_KEY',
      on_client_abort: 'cancel',
    },
    { name: 'contract', type: 'compat', base_url: url, api_key_env: 'TEST_UPSTREAM_KEY', price_multiplier: 0.85 },
  ],
  models: [
    {
      id: 'coder-1',
      aliases: ['coder-latest'],
      context_window: 1_000_000,
      max_output_tokens: 64_000,
      pricing: PRICING,
    },
    { id: 'contract-1', context_window: 1_000_000, max_output_tokens: 64_000, pricing: PRICING },
  ],
  token_groups: [{ name: 'all', models: ['*'] }],
  routing: { default_upstream: 'main', rules: [{ name: 'contract', models: ['contract-1'], upstream: 'contract' }] },
});

let upstream: ScriptedUpstream;
let gateway: TestGateway;

before(async () => {
  upstream = await startUpstream();
  gateway = await bootGateway({ upstream_url: upstream.url, config: CONFIG(upstream.url) });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
});

/** What an answer used, in words that both protocols can say. */
interface Usage {
  readonly input: number;
  readonly cached?: number;
  readonly written?: number;
  readonly output: number;
  readonly reasoning?: number;
  readonly total?: number;
  readonly searches?: number;
}

type Api = 'chat' | 'responses';
const PATHS: Readonly<Record<Api, string>> = { chat: '/v1/chat/completions', responses: '/v1/responses' };

function usageOf(
  api: Api,
  { input, cached = 0, written, output, reasoning = 0, total = input + output }: Usage,
): object {
  const into = { cached_tokens: cached, ...(written !== undefined && { cache_write_tokens: written }) };
  const out = { reasoning_tokens: reasoning };
  if (api === 'responses') {
    const details = { input_tokens_details: into, output_tokens_details: out };
    return { input_tokens: input, output_tokens: output, total_tokens: total, ...details };
  }
  const details = { prompt_tokens_details: into, completion_tokens_details: out };
  return { prompt_tokens: input, completion_tokens: output, total_tokens: total, ...details };
}

const data = (value: unknown): string => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const chunk = (fields: object): string =>
  data({ id: 'chatcmpl-1', object: 'chat.completion.chunk', model: 'up', ...fields });
const says = (content: string, more: object = {}): string =>
  chunk({ choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more });
const stops = (more: object = {}): string =>
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], ...more });
const DONE = data('[DONE]');

const event = (type: string, fields: object): string =>
  `event: ${type}\n${data({ type, sequence_number: 1, ...fields })}`;
const delta = (text: string): string => event('response.output_text.delta', { item_id: 'msg_1', delta: text });
const search = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } };
const items = ({ searches = 0 }: Usage): object[] => Array.from({ length: searches }, () => search);
const ends = (status: string, usage: object | null, output: object[] = []): string =>
  event(`response.${status}`, { response: { id: 'resp_1', object: 'response', status, output, usage } });
const CREATED = event('response.created', { response: { id: 'resp_1', status: 'in_progress', usage: null } });

/** Where an upstream may say what a request used; all of them mean the same. */
const PLACES: Readonly<Record<Api, Readonly<Record<string, (usage: Usage) => Script>>>> = {
  chat: {
    'one document': (usage) => {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }];
      return answerJson({ id: 'chatcmpl-1', object: 'chat.completion', choices, usage: usageOf('chat', usage) });
    },
    'a chunk of its own': (usage) =>
      answerChunks([says('Hi', { usage: null }), stops(), chunk({ choices: [], usage: usageOf('chat', usage) }), DONE]),
    'the last chunk': (usage) => answerChunks([says('Hi'), stops({ usage: usageOf('chat', usage) }), DONE]),
    'all chunks, each with the whole so far': (usage) => {
      const so_far = usageOf('chat', { ...usage, output: 1, reasoning: 0, total: usage.input + 1 });
      return answerChunks([says('Hi', { usage: so_far }), stops({ usage: usageOf('chat', usage) })]);
    },
  },
  responses: {
    'one document': (usage) => {
      const about = { id: 'resp_1', object: 'response', status: 'completed', output: items(usage) };
      return answerJson({ ...about, usage: usageOf('responses', usage) });
    },
    'the last event': (usage) =>
      answerChunks([
        CREATED,
        ...items(usage).map((item) => event('response.output_item.done', { item })),
        delta('Hi'),
        ends('completed', usageOf('responses', usage), items(usage)),
      ]),
    'the last event of an answer that was cut short': (usage) =>
      answerChunks([
        CREATED,
        ...items(usage).map((item) => event('response.output_item.done', { item })),
        ends('incomplete', usageOf('responses', usage)),
      ]),
  },
};

const CACHED: Usage = { input: 2130, cached: 2000, output: 40, reasoning: 15 };
const WRITTEN: Usage = { ...CACHED, written: 30 };
const LONG: Usage = { input: 210_000, cached: 60_000, output: 1000 };

const COSTS: readonly (readonly [what: string, model: string, usage: Usage, nano_usd: number, only?: Api])[] = [
  // 7 x 3000 + 11 x 15000
  ['input and output', 'coder-1', { input: 7, output: 11 }, 186_000],
  // 130 x 3000 + 2000 x 300 + 40 x 15000
  ['cached input and reasoning', 'coder-1', CACHED, 1_590_000],
  // 100 x 3000 + 2000 x 300 + 30 x 6000 + 40 x 15000; the request asks for a day, the longest that is priced is an hour
  ['input written to the cache', 'coder-1', WRITTEN, 1_680_000],
  // 130 x 3000 + 2000 x 300 + 55 x 15000
  ['output without its reasoning', 'coder-1', { ...CACHED, total: 2185 }, 1_815_000],
  // 150000 x 6000 + 60000 x 600 + 1000 x 22500
  ['a long context', 'coder-1', LONG, 958_500_000],
  // 140000 x 3000 + 60000 x 300 + 1000 x 15000
  ['a context that is just not long', 'coder-1', { ...LONG, input: 200_000 }, 453_000_000],
  ['input written to the cache at a contract', 'contract-1', WRITTEN, 1_428_000],
  ['an alias', 'coder-latest', CACHED, 1_590_000],
  ['searches', 'coder-1', { ...CACHED, searches: 2 }, 21_590_000, 'responses'],
];

/** A request of exactly 200 bytes, which are taken for 50 tokens; it asks for a cache of a day. */
function bodyFor(api: Api, model: string, more: object): string {
  const said = (text: string) => [{ role: 'user', content: text }];
  const bodyOf = (text: string) =>
    JSON.stringify({
      model,
      ...(api === 'chat' ? { messages: said(text) } : { input: said(text) }),
      prompt_cache_retention: '24h',
      ...more,
    });
  return bodyOf('x'.repeat(200 - bodyOf('').length));
}

interface Asked {
  readonly model?: string;
  readonly more?: object;
}

async function rowAfter(api: Api, script: Script, { model = 'coder-1', more = {} }: Asked = {}): Promise<LedgerRow> {
  upstream.script = script;
  const body = bodyFor(api, model, more);
  const response = await send(gateway.url, { path: PATHS[api], headers: bearer(gateway.token), body });
  return ledgerRow(gateway.database, String(response.headers['x-gateway-request-id']));
}

for (const api of ['chat', 'responses'] as const) {
  for (const [what, model, usage, nano_usd, only = api] of COSTS) {
    for (const [place, answer] of only === api ? Object.entries(PLACES[api]) : []) {
      test(`${api}: ${what}, told in ${place}, cost ${nano_usd} nano-USD`, async () => {
        const row = await rowAfter(api, answer(usage), { model });
        assert.equal(row.cost_nano_usd, nano_usd);
        assert.equal(row.provenance.cost, 'upstream');
        assert.deepEqual([row.protocol, row.model], [api, model === 'coder-latest' ? 'coder-1' : model]);
        assert.deepEqual(row.server_tools, usage.searches === undefined ? null : { web_search: usage.searches });
      });
    }
  }
}

// Twelve pieces of five characters: 15 tokens.
const TWELVE = Array.from({ length: 12 });
const ERROR = { error: { message: 'no', type: 'server_error', code: null, param: null } };
const OVERLOADED = { error: { ...ERROR.error, code: 'server_is_overloaded' } };
const JSON_TYPE = { 'content-type': 'application/json' };

const GUESSES: readonly (readonly [api: Api, what: string, script: Script, nano_usd: number, by: string])[] = [
  // 50 x 3000 + 20 x 15000
  ['chat', 'a document without usage', answerBytes(200, JSON_TYPE, '{"choices":[]}'.padEnd(80)), 450_000, 'estimate'],
  [
    'responses',
    'a document without usage',
    answerBytes(200, JSON_TYPE, '{"output":[]}'.padEnd(80)),
    450_000,
    'estimate',
  ],
  // 50 x 3000 + 15 x 15000
  [
    'chat',
    'a stream without usage',
    answerChunks([...TWELVE.map(() => says('word ')), stops(), DONE]),
    375_000,
    'estimate',
  ],
  ['chat', 'a stream that breaks off', answerChunks(TWELVE.map(() => says('word '))), 375_000, 'estimate'],
  ['chat', 'a stream that fails', answerChunks([...TWELVE.map(() => says('word ')), data(ERROR)]), 375_000, 'estimate'],
  // Such an error stands for status 500, or for one that says that the request was not taken.
  ['chat', 'a stream that is only an error', answerChunks([data(ERROR)]), 0, 'estimate'],
  ['chat', 'a stream that only says overloaded', answerChunks([data(OVERLOADED)]), 0, 'upstream'],
  [
    'responses',
    'a stream that breaks off',
    answerChunks([CREATED, ...TWELVE.map(() => delta('word '))]),
    375_000,
    'estimate',
  ],
  [
    'responses',
    'a stream that fails',
    answerChunks([CREATED, ...TWELVE.map(() => delta('word ')), ends('failed', null)]),
    375_000,
    'estimate',
  ],
  ['responses', 'a stream that fails before it began', answerChunks([CREATED, ends('failed', null)]), 0, 'upstream'],
  ['chat', 'an error', answerJson(ERROR, 503), 0, 'upstream'],
  ['chat', 'an error that may have come late', answerJson(ERROR, 500), 0, 'estimate'],
  [
    'responses',
    'a refusal that tells usage',
    answerJson({ ...ERROR, usage: usageOf('responses', CACHED) }, 400),
    0,
    'upstream',
  ],
];

for (const [api, what, script, nano_usd, by] of GUESSES) {
  test(`${api}: ${what} costs ${nano_usd} nano-USD by ${by}`, async () => {
    const row = await rowAfter(api, script, { more: { stream: true } });
    assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [nano_usd, by]);
  });
}

function assertUnknown(row: LedgerRow, known: number): void {
  assert.equal(row.aborted, true);
  assert.ok(row.cost_nano_usd >= known, String(row.cost_nano_usd));
  assert.match(row.provenance.cost!, /^(?:most|learned)$/);
}

for (const api of ['chat', 'responses'] as const) {
  test(`${api}: a client that leaves before the answer pays what such requests cost, at least the most it can have sent`, async () => {
    upstream.script = hang;
    const known = new Set((await ledgerRows(gateway.database)).map(({ request_id }) => request_id));
    const seen = upstream.requests.length;
    const body = bodyFor(api, 'coder-1', {});
    const asked = open(gateway.url, { path: PATHS[api], headers: bearer(gateway.token), body });
    await upstream.arrived(seen + 1);
    asked.abort();
    const row = await until('the row of the request is there', async () =>
      (await ledgerRows(gateway.database)).find(({ request_id }) => !known.has(request_id)),
    );
    // 200 bytes x 3000
    assertUnknown(row, 600_000);
  });
}

test('a client that leaves a stream that is cancelled pays what such requests cost, at least what it was sent', async () => {
  upstream.script = ({ res }) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    res.write(TWELVE.map(() => says('word ')).join(''));
  };
  const known = new Set((await ledgerRows(gateway.database)).map(({ request_id }) => request_id));
  const body = bodyFor('chat', 'coder-1', { stream: true });
  const asked = open(gateway.url, { path: PATHS.chat, headers: bearer(gateway.token), body });
  let received = '';
  for await (const piece of await asked.head) {
    received += String(piece);
    if (received.split('word ').length > TWELVE.length) break;
  }
  asked.abort();
  const row = await until('the row of the request is there', async () =>
    (await ledgerRows(gateway.database)).find(({ request_id }) => !known.has(request_id)),
  );
  assertUnknown(row, 375_000);
});

test('several answers that nobody counted cost no more than all their bounds', async () => {
  const thirty = answerChunks(Array.from({ length: 30 }, () => says('word ')));
  const row = await rowAfter('chat', thirty, { more: { stream: true, max_tokens: 10, n: 3 } });
  // 50 x 3000 + 30 x 15000
  assert.equal(row.cost_nano_usd, 600_000);
});

test('an alias, the answers asked for and the protocol of the upstream are in the audit record', async () => {
  upstream.script = PLACES.chat['one document']!(CACHED);
  const body = bodyFor('chat', 'coder-latest', { n: 2 });
  const response = await send(gateway.url, { path: PATHS.chat, headers: bearer(gateway.token), body });
  const { record } = await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']));
  const { model, alias, choices, image_count, protocol } = record as Record<string, unknown>;
  assert.deepEqual([model, alias, choices, image_count, protocol], ['coder-1', 'coder-latest', 2, 0, 'chat']);
});

test('an answer in the background is refused before anything is reserved or sent', async () => {
  const sent = upstream.requests.length;
  const body = bodyFor('responses', 'coder-1', { background: true });
  const response = await send(gateway.url, { path: PATHS.responses, headers: bearer(gateway.token), body });
  assert.equal(response.status, 400);
  assert.match(JSON.parse(response.text).error.message, /^background: must be false or left out/);
  assert.equal(upstream.requests.length, sent);
  await nothingReserved(gateway.database);
});
