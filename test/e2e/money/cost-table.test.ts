/**
 * The cost of a request, through the whole gateway, for clients and upstreams of the same protocol. Every number of
 * nano-USD here was calculated by hand from the prices below; none comes out of the program.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { type ConfigSections, ONE_ATTEMPT, type TestGateway } from '../../support/gateway.ts';
import {
  answerBytes,
  answerChunks,
  answerJson,
  type Script,
  type ScriptedUpstream,
  sse,
} from '../../support/model-provider/scripted-upstream.ts';
import { inTurn } from '../../support/times.ts';
import { bearer, type Response, send } from '../support/client.ts';
import { auditRecord, type LedgerRow, ledgerRow, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

// Nano-USD per token: 3000 in, 15000 out, 300 read from the cache, 3750 and 6000 written to it.
const LIST = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };
// With more than 200,000 tokens in: 6000, 22500, 600, 7500, 12000; and 10,000,000 for a search.
const TIERS = {
  ...LIST,
  long_context: { above_input_tokens: 200_000, input: 6, output: 22.5 },
  server_tools: { web_search: 10 },
};

const model = { context_window: 1_000_000, max_output_tokens: 64_000 };
const CONTRACT = { price_multiplier: 0.85 };

function CONFIG(url: string): ConfigSections {
  const upstreamAt = (name: string, type: string, base_url = url) => ({
    ...{ name, type, base_url, api_key_env: 'TEST_UPSTREAM_KEY', on_client_abort: 'cancel', ...ONE_ATTEMPT },
  });
  const rules = { contract: 'contract-1', compat: 'chat-1', 'compat-contract': 'chat-contract-1' };
  return {
    upstreams: [
      upstreamAt('main', 'vendor'),
      { ...upstreamAt('contract', 'vendor'), ...CONTRACT },
      upstreamAt('compat', 'compat', `${url}/v1`),
      { ...upstreamAt('compat-contract', 'compat'), ...CONTRACT },
    ],
    models: [
      ...['coder-1', 'contract-1', 'dated-1', 'chat-contract-1'].map((id) => ({ ...model, id, pricing: TIERS })),
      { ...model, id: 'chat-1', aliases: ['chat-latest'], pricing: TIERS },
      { ...model, id: 'unpriced-1' },
    ],
    token_groups: [{ name: 'all', models: ['*'] }],
    routing: {
      default_upstream: 'main',
      rules: Object.entries(rules).map(([upstream, id]) => ({ name: upstream, models: [id], upstream })),
    },
    prices: {
      unknown_model: { input: 10, output: 50 },
      rows: [
        { models: ['dated-*'], until: '2020-01-01', pricing: { input: 1, output: 1 } },
        { models: ['dated-*'], from: '2020-01-01', pricing: { input: 4, output: 20 } },
      ],
    },
  };
}

let upstream: ScriptedUpstream;
let gateway: TestGateway;

useGateway((opened) => {
  ({ upstream, gateway } = opened);
}, CONFIG);

/** The usage of a response: in the terms of Messages, and in terms of both other protocols. */
interface MessagesUsage {
  readonly output_tokens: number;
  readonly [field: string]: unknown;
}

const USAGE: MessagesUsage = {
  input_tokens: 100,
  cache_read_input_tokens: 2000,
  cache_creation_input_tokens: 30,
  cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
  output_tokens: 40,
};
const SEARCHED: MessagesUsage = { ...USAGE, server_tool_use: { web_search_requests: 2 } };
const LONG_MESSAGES: MessagesUsage = { input_tokens: 150_000, cache_read_input_tokens: 60_000, output_tokens: 1000 };
const NEARLY_LONG: MessagesUsage = { ...LONG_MESSAGES, input_tokens: 140_000 };

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
const PATHS: Readonly<Record<Protocol, string>> = {
  messages: '/v1/messages',
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
};

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
const says = (content: string): string => chunk({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const stops = (): string => chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
const DONE = data('[DONE]');

const event = (type: string, fields: object): string =>
  `event: ${type}\n${data({ type, sequence_number: 1, ...fields })}`;
const delta = (text: string): string => event('response.output_text.delta', { item_id: 'msg_1', delta: text });
const search = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } };
const items = ({ searches = 0 }: Usage): object[] => Array.from({ length: searches }, () => search);
const ends = (status: string, usage: object | null, output: object[] = []): string =>
  event(`response.${status}`, { response: { id: 'resp_1', object: 'response', status, output, usage } });
const CREATED = event('response.created', { response: { id: 'resp_1', status: 'in_progress', usage: null } });

const text = (said: string) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: said } });
const start = (usage?: object) => ({
  type: 'message_start',
  message: { type: 'message', content: [], ...(usage && { usage }) },
});
const end = (usage?: object) => ({
  type: 'message_delta',
  delta: { stop_reason: 'end_turn' },
  ...(usage && { usage }),
});
const stream = (...events: Parameters<typeof sse>[0][]): Script =>
  answerChunks([...events, { type: 'message_stop' }].map((event) => sse(event)));

/** A document and a stream; the other places for usage are in usage-places.test.ts. */
const PLACES = {
  messages: {
    'a document': (usage: MessagesUsage): Script => answerJson({ type: 'message', content: [], usage }),
    'a stream': (usage: MessagesUsage): Script =>
      stream(start({ ...usage, output_tokens: 1 }), text('Hi'), end({ output_tokens: usage.output_tokens })),
  },
  chat: {
    'a document': (usage: Usage): Script => {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }];
      return answerJson({ id: 'chatcmpl-1', object: 'chat.completion', choices, usage: usageOf('chat', usage) });
    },
    'a stream': (usage: Usage): Script =>
      answerChunks([says('Hi'), stops(), chunk({ choices: [], usage: usageOf('chat', usage) }), DONE]),
  },
  responses: {
    'a document': (usage: Usage): Script => {
      const about = { id: 'resp_1', object: 'response', status: 'completed', output: items(usage) };
      return answerJson({ ...about, usage: usageOf('responses', usage) });
    },
    'a stream': (usage: Usage): Script =>
      answerChunks([
        CREATED,
        ...items(usage).map((item) => event('response.output_item.done', { item })),
        delta('Hi'),
        ends('completed', usageOf('responses', usage), items(usage)),
      ]),
  },
};

const CACHED: Usage = { input: 2130, cached: 2000, output: 40, reasoning: 15 };
const WRITTEN: Usage = { ...CACHED, written: 30 };
const LONG: Usage = { input: 210_000, cached: 60_000, output: 1000 };

const MESSAGES_COSTS: readonly (readonly [what: string, model: string, usage: MessagesUsage, nano_usd: number])[] = [
  ['input and output', 'coder-1', { input_tokens: 7, output_tokens: 11 }, 186_000],
  ['every kind of cached token', 'coder-1', USAGE, 1_657_500],
  ['writes for an hour without a split', 'coder-1', { ...USAGE, cache_creation: null }, 1_680_000],
  ['searches', 'coder-1', SEARCHED, 21_657_500],
  ['a long context', 'coder-1', LONG_MESSAGES, 958_500_000],
  ['a context that is just not long', 'coder-1', NEARLY_LONG, 453_000_000],
  ['every kind of cached token at a contract', 'contract-1', USAGE, 1_408_875],
  ['searches at a contract', 'contract-1', SEARCHED, 18_408_875],
  ['a long context at a contract', 'contract-1', LONG_MESSAGES, 814_725_000],
  ['every kind of cached token at the price of these years', 'dated-1', USAGE, 2_210_000],
  ['every kind of cached token of a model without a price', 'unpriced-1', USAGE, 5_525_000],
];

const COSTS: readonly (readonly [what: string, model: string, usage: Usage, nano_usd: number, only?: Api])[] = [
  // 7 x 3000 + 11 x 15000
  ['input and output', 'chat-1', { input: 7, output: 11 }, 186_000],
  // 130 x 3000 + 2000 x 300 + 40 x 15000
  ['cached input and reasoning', 'chat-1', CACHED, 1_590_000],
  // 100 x 3000 + 2000 x 300 + 30 x 6000 + 40 x 15000; the request has a day, the longest priced lifetime is an hour
  ['input written to the cache', 'chat-1', WRITTEN, 1_680_000],
  // 130 x 3000 + 2000 x 300 + 55 x 15000
  ['output without its reasoning', 'chat-1', { ...CACHED, total: 2185 }, 1_815_000],
  // 150000 x 6000 + 60000 x 600 + 1000 x 22500
  ['a long context', 'chat-1', LONG, 958_500_000],
  // 140000 x 3000 + 60000 x 300 + 1000 x 15000
  ['a context that is just not long', 'chat-1', { ...LONG, input: 200_000 }, 453_000_000],
  ['input written to the cache at a contract', 'chat-contract-1', WRITTEN, 1_428_000],
  ['an alias', 'chat-latest', CACHED, 1_590_000],
  ['searches', 'chat-1', { ...CACHED, searches: 2 }, 21_590_000, 'responses'],
];

/** A request of exactly 200 bytes, estimated as 50 tokens; it requests the longest cache. */
function bodyFor(spoken: Protocol, model: string, more: object): string {
  const said = (text: string) => [{ role: 'user', content: text }];
  const cache =
    spoken === 'messages'
      ? { max_tokens: 1000, cache_control: { type: 'ephemeral', ttl: '1h' } }
      : { prompt_cache_retention: '24h' };
  const bodyOf = (text: string) =>
    JSON.stringify({
      model,
      ...cache,
      ...(spoken === 'responses' ? { input: said(text) } : { messages: said(text) }),
      ...more,
    });
  return bodyOf('x'.repeat(200 - bodyOf('').length));
}

function ask(spoken: Protocol, script: Script, id: string, more: object = {}): Promise<Response> {
  upstream.script = script;
  return send(gateway.url, { path: PATHS[spoken], headers: bearer(gateway.token), body: bodyFor(spoken, id, more) });
}

async function rowAfter(...asked: Parameters<typeof ask>): Promise<LedgerRow> {
  const { headers } = await ask(...asked);
  return ledgerRow(gateway.database, String(headers['x-gateway-request-id']));
}

for (const [at, [what, id, usage, nano_usd]] of MESSAGES_COSTS.entries()) {
  for (const [place, answer] of inTurn(Object.entries(PLACES.messages), at)) {
    test(`messages: ${what}, in ${place}, cost ${nano_usd} nano-USD`, async () => {
      const row = await rowAfter('messages', answer(usage), id);
      assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [nano_usd, 'upstream']);
      assert.equal(row.provenance.price, id === 'unpriced-1' ? 'unknown_model' : undefined);
    });
  }
}

for (const api of ['chat', 'responses'] as const) {
  for (const [at, [what, id, usage, nano_usd, only = api]] of COSTS.entries()) {
    for (const [place, answer] of only === api ? inTurn(Object.entries(PLACES[api]), at) : []) {
      test(`${api}: ${what}, in ${place}, cost ${nano_usd} nano-USD`, async () => {
        const row = await rowAfter(api, answer(usage), id);
        assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [nano_usd, 'upstream']);
        assert.deepEqual([row.protocol, row.model], [api, id === 'chat-latest' ? 'chat-1' : id]);
        assert.deepEqual(row.server_tools, usage.searches === undefined ? null : { web_search: usage.searches });
      });
    }
  }
}

// Twelve pieces of five characters: 15 tokens.
const WORDS = Array.from({ length: 12 }, () => text('word '));
const FAILED = { type: 'error', error: { type: 'overloaded_error', message: 'no' } };
const DOCUMENT = JSON.stringify({ type: 'message', content: [] }).padEnd(80, ' ');

const TWELVE = Array.from({ length: 12 });
const ERROR = { error: { message: 'no', type: 'server_error', code: null, param: null } };
const OVERLOADED = { error: { ...ERROR.error, code: 'server_is_overloaded' } };
const JSON_TYPE = { 'content-type': 'application/json' };

const GUESSES: readonly (readonly [spoken: Protocol, what: string, script: Script, nano_usd: number, by: string])[] = [
  // 50 x 3000 + 20 x 15000
  ['messages', 'a document without usage', answerBytes(200, JSON_TYPE, DOCUMENT), 450_000, 'estimate'],
  // 50 x 3000 + 15 x 15000
  ['messages', 'a stream without usage', stream(start(), ...WORDS, end()), 375_000, 'estimate'],
  // 100 x 3000 + 15 x 15000 + 2000 x 300 + 10 x 3750 + 20 x 6000
  [
    'messages',
    'a stream without output tokens',
    stream(start({ ...USAGE, output_tokens: null }), ...WORDS, end()),
    1_282_500,
    'estimate',
  ],
  [
    'messages',
    'a stream that fails',
    stream(start({ ...USAGE, output_tokens: 1 }), ...WORDS, FAILED),
    1_282_500,
    'estimate',
  ],
  ['messages', 'a stream that fails before it began', stream(FAILED), 0, 'upstream'],
  ['messages', 'an error', answerJson(FAILED, 529), 0, 'upstream'],
  ['messages', 'an error with usage', answerJson({ ...FAILED, usage: USAGE }, 400), 0, 'upstream'],
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
  // Such an error means status 500, or one for a request that was not accepted.
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
    'an error with usage',
    answerJson({ ...ERROR, usage: usageOf('responses', CACHED) }, 400),
    0,
    'upstream',
  ],
];

for (const [spoken, what, script, nano_usd, by] of GUESSES) {
  test(`${spoken}: ${what} costs ${nano_usd} nano-USD by ${by}`, async () => {
    const row = await rowAfter(
      spoken,
      script,
      spoken === 'messages' ? 'coder-1' : 'chat-1',
      spoken === 'messages' ? {} : { stream: true },
    );
    assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [nano_usd, by]);
  });
}

test('several responses without usage cost no more than all their bounds', async () => {
  const thirty = answerChunks(Array.from({ length: 30 }, () => says('word ')));
  const row = await rowAfter('chat', thirty, 'chat-1', { stream: true, max_tokens: 10, n: 3 });
  // 50 x 3000 + 30 x 15000
  assert.equal(row.cost_nano_usd, 600_000);
});

test('an alias, the answers asked for and the protocol of the upstream are in the audit record', async () => {
  const response = await ask('chat', PLACES.chat['a document'](CACHED), 'chat-latest', { n: 2 });
  const { record } = await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']));
  const { model, alias, choices, image_count, protocol } = record as Record<string, unknown>;
  assert.deepEqual([model, alias, choices, image_count, protocol], ['chat-1', 'chat-latest', 2, 0, 'chat']);
});

test('a background response is rejected before anything is reserved or sent', async () => {
  const sent = upstream.requests.length;
  const { status, json } = await ask('responses', answerJson({}), 'chat-1', { background: true });
  assert.equal(status, 400);
  assert.match(json().error.message, /^background: must be false or left out/);
  assert.equal(upstream.requests.length, sent);
  await nothingReserved(gateway.database);
});
