/**
 * What a request costs, through the whole gateway. Every number of nano-USD here was worked out by hand from the prices
 * below; none comes out of the program.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { bootGateway, type ConfigSections, type TestGateway } from '../../support/gateway.ts';
import {
  answerBytes,
  answerChunks,
  answerJson,
  EVENT_STREAM,
  hang,
  type Script,
  type ScriptedUpstream,
  sse,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { bearer, open, send } from '../support/client.ts';
import { type LedgerRow, ledgerRow, ledgerRows, nothingReserved } from '../support/state.ts';

// Nano-USD per token: 3000 in, 15000 out, 300 read from the cache, 3750 and 6000 written to it.
const LIST = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };
// With more than 200,000 tokens in: 6000, 22500, 600, 7500, 12000; and 10,000,000 for a search.
const TIERS = {
  ...LIST,
  long_context: { above_input_tokens: 200_000, input: 6, output: 22.5 },
  server_tools: { web_search: 10 },
};

const model = { context_window: 1_000_000, max_output_tokens: 64_000 };
const upstreamAt = (name: string, url: string) => ({
  name,
  type: 'vendor',
  base_url: url,
  api_key_env: 'TEST_UPSTREAM_KEY',
  on_client_abort: 'cancel',
});

const CONFIG = (url: string): ConfigSections => ({
  upstreams: [upstreamAt('main', url), { ...upstreamAt('contract', url), price_multiplier: 0.85 }],
  models: [
    { ...model, id: 'coder-1', pricing: TIERS },
    { ...model, id: 'contract-1', pricing: TIERS },
    { ...model, id: 'dated-1', pricing: TIERS },
    { ...model, id: 'unpriced-1' },
  ],
  token_groups: [{ name: 'all', models: ['*'] }],
  routing: { default_upstream: 'main', rules: [{ name: 'contract', models: ['contract-1'], upstream: 'contract' }] },
  prices: {
    unknown_model: { input: 10, output: 50 },
    rows: [
      { models: ['dated-*'], until: '2020-01-01', pricing: { input: 1, output: 1 } },
      { models: ['dated-*'], from: '2020-01-01', pricing: { input: 4, output: 20 } },
    ],
  },
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
beforeEach(() => {
  upstream.requests.length = 0;
});

interface Usage {
  readonly output_tokens: number;
  readonly [field: string]: unknown;
}

const USAGE: Usage = {
  input_tokens: 100,
  cache_read_input_tokens: 2000,
  cache_creation_input_tokens: 30,
  cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
  output_tokens: 40,
};
const SEARCHED: Usage = { ...USAGE, server_tool_use: { web_search_requests: 2 } };
const LONG: Usage = { input_tokens: 150_000, cache_read_input_tokens: 60_000, output_tokens: 1000 };
const NEARLY_LONG: Usage = { ...LONG, input_tokens: 140_000 };

const COSTS: readonly (readonly [what: string, model: string, usage: Usage, nano_usd: number])[] = [
  ['input and output', 'coder-1', { input_tokens: 7, output_tokens: 11 }, 186_000],
  ['every kind of cached token', 'coder-1', USAGE, 1_657_500],
  ['writes for an hour without a split', 'coder-1', { ...USAGE, cache_creation: null }, 1_680_000],
  ['searches', 'coder-1', SEARCHED, 21_657_500],
  ['a long context', 'coder-1', LONG, 958_500_000],
  ['a context that is just not long', 'coder-1', NEARLY_LONG, 453_000_000],
  ['every kind of cached token at a contract', 'contract-1', USAGE, 1_408_875],
  ['searches at a contract', 'contract-1', SEARCHED, 18_408_875],
  ['a long context at a contract', 'contract-1', LONG, 814_725_000],
  ['every kind of cached token at the price of these years', 'dated-1', USAGE, 2_210_000],
  ['every kind of cached token of a model without a price', 'unpriced-1', USAGE, 5_525_000],
];

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

/** Where an upstream may say what a request used; all of them mean the same. */
const PLACES: Readonly<Record<string, (usage: Usage) => Script>> = {
  'one document': (usage) => answerJson({ type: 'message', content: [], usage }),
  'the first event': (usage) => stream(start(usage), text('Hi'), end()),
  'the last event': (usage) => stream(start(), text('Hi'), end(usage)),
  'both events': (usage) =>
    stream(start({ ...usage, output_tokens: 1 }), text('Hi'), end({ output_tokens: usage.output_tokens })),
  'all events, each with the whole so far': (usage) =>
    stream(start({ ...usage, output_tokens: 1 }), text('Hi'), { ...end(usage), delta: {} }, end(usage)),
};

/** A request of exactly 200 bytes, which are taken for 50 tokens; it asks for a cache of an hour. */
function bodyFor(id: string): string {
  const body = {
    model: id,
    max_tokens: 1000,
    cache_control: { type: 'ephemeral', ttl: '1h' },
    messages: [] as object[],
  };
  body.messages.push({ role: 'user', content: '' });
  const missing = 200 - JSON.stringify(body).length;
  body.messages = [{ role: 'user', content: 'x'.repeat(missing) }];
  return JSON.stringify(body);
}

async function rowAfter(script: Script, id = 'coder-1', path = '/v1/messages'): Promise<LedgerRow> {
  upstream.script = script;
  const response = await send(gateway.url, { path, headers: bearer(gateway.token), body: bodyFor(id) });
  return ledgerRow(gateway.database, String(response.headers['x-gateway-request-id']));
}

for (const [what, id, usage, nano_usd] of COSTS) {
  for (const [place, answer] of Object.entries(PLACES)) {
    test(`${what}, told in ${place}, cost ${nano_usd} nano-USD`, async () => {
      const row = await rowAfter(answer(usage), id);
      assert.equal(row.cost_nano_usd, nano_usd);
      assert.equal(row.provenance.cost, 'upstream');
      assert.equal(row.provenance.price, id === 'unpriced-1' ? 'unknown_model' : undefined);
    });
  }
}

// Twelve pieces of five characters: 15 tokens.
const WORDS = Array.from({ length: 12 }, () => text('word '));
const FAILED = { type: 'error', error: { type: 'overloaded_error', message: 'no' } };
const DOCUMENT = JSON.stringify({ type: 'message', content: [] }).padEnd(80, ' ');

const GUESSES: readonly (readonly [what: string, script: Script, nano_usd: number, by: string])[] = [
  // 50 x 3000 + 20 x 15000
  [
    'a document that tells no usage',
    answerBytes(200, { 'content-type': 'application/json' }, DOCUMENT),
    450_000,
    'estimate',
  ],
  // 50 x 3000 + 15 x 15000
  ['a stream that tells no usage', stream(start(), ...WORDS, end()), 375_000, 'estimate'],
  // 100 x 3000 + 15 x 15000 + 2000 x 300 + 10 x 3750 + 20 x 6000
  [
    'a stream that tells no output',
    stream(start({ ...USAGE, output_tokens: null }), ...WORDS, end()),
    1_282_500,
    'estimate',
  ],
  ['a stream that fails', stream(start({ ...USAGE, output_tokens: 1 }), ...WORDS, FAILED), 1_282_500, 'estimate'],
  ['a stream that fails before it began', stream(FAILED), 0, 'upstream'],
  ['an error', answerJson(FAILED, 529), 0, 'upstream'],
  ['a refusal that tells usage', answerJson({ ...FAILED, usage: USAGE }, 400), 0, 'upstream'],
];

for (const [what, script, nano_usd, by] of GUESSES) {
  test(`${what} costs ${nano_usd} nano-USD by ${by}`, async () => {
    const row = await rowAfter(script);
    assert.equal(row.cost_nano_usd, nano_usd);
    assert.equal(row.provenance.cost, by);
  });
}

/** What nobody knows is the most while nothing is learned: 200 x 6000 + 1000 x 15000. */
function assertUnknown(row: LedgerRow, known: number): void {
  assert.equal(row.aborted, true);
  assert.ok(row.cost_nano_usd >= known && row.cost_nano_usd <= 16_200_000, String(row.cost_nano_usd));
  assert.match(row.provenance.cost!, /^(?:most|learned)$/);
}

/** Asks and goes away once `leave` is through; gives the row that is new then. */
async function rowAfterLeaving(leave: (asked: ReturnType<typeof open>) => Promise<void>): Promise<LedgerRow> {
  const known = new Set((await ledgerRows(gateway.database)).map(({ request_id }) => request_id));
  const asked = open(gateway.url, { headers: bearer(gateway.token), body: bodyFor('coder-1') });
  await leave(asked);
  asked.abort();
  return await until('the row of the request is there', async () =>
    (await ledgerRows(gateway.database)).find(({ request_id }) => !known.has(request_id)),
  );
}

test('a client that leaves a stream that is cancelled pays what such requests cost, at least what it was sent', async () => {
  upstream.script = ({ res }) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    res.write([start({ ...USAGE, output_tokens: 1 }), ...WORDS].map((event) => sse(event)).join(''));
  };
  const row = await rowAfterLeaving(async (asked) => {
    let received = '';
    for await (const chunk of await asked.head) {
      received += String(chunk);
      if (received.split('word ').length > WORDS.length) break;
    }
  });
  assertUnknown(row, 1_282_500);
});

test('a client that leaves before the answer pays the same, at least the most it can have sent', async () => {
  upstream.script = hang;
  const row = await rowAfterLeaving(async () => void (await upstream.arrived(1)));
  // 200 bytes x 3000
  assertUnknown(row, 600_000);
});

test('counting tokens costs nothing, whatever the upstream says', async () => {
  for (const answer of [{ input_tokens: 14 }, { type: 'message', usage: USAGE }]) {
    const row = await rowAfter(answerJson(answer), 'coder-1', '/v1/messages/count_tokens');
    assert.deepEqual([row.protocol, row.cost_nano_usd, row.input_tokens], ['count_tokens', 0, 0]);
  }
});

test('a tool without a price costs nothing, and its row says so', async () => {
  const usage = { input_tokens: 7, output_tokens: 11, server_tool_use: { web_fetch_requests: 3 } };
  const row = await rowAfter(answerJson({ type: 'message', content: [], usage }));
  assert.deepEqual([row.cost_nano_usd, row.provenance.server_tools], [186_000, 'unpriced']);
});

test('the ledger keeps how often a tool was used', async () => {
  for (const place of Object.values(PLACES)) {
    assert.deepEqual((await rowAfter(place(SEARCHED))).server_tools, { web_search: 2 });
    assert.equal((await rowAfter(place(USAGE))).server_tools, null);
  }
});

test('the counters come to what the ledger comes to', async () => {
  await rowAfter(PLACES['both events']!(SEARCHED));
  await nothingReserved(gateway.database);
  const rows = await ledgerRows(gateway.database);
  const counters = gateway.database.knex('spend_counters').where({ scope: 'user', unit: 'nano_usd' });
  const [{ spent } = { spent: null }] = await counters.sum<{ spent: string }[]>({ spent: 'spent' });
  assert.equal(
    Number(spent),
    rows.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0),
  );
});
