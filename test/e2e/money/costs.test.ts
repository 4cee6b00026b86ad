/**
 * The cost of a request, through the whole gateway: for clients and upstreams of every protocol, with usage in the places and by the
 * names that servers are known to have for it, also as clients see it. Every number of nano-USD here was
 * calculated by hand from the prices below; none comes out of the program.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { cli } from '../../cli/support.ts';
import { ONE_ATTEMPT } from '../../support/gateway.ts';
import { answerChunks, answerJson, type Script } from '../../support/model-provider/scripted-upstream.ts';
import { IS_DEEP, inTurn } from '../../support/times.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { askBody, modelVia, nineConfig, PRICING, post, useNine } from '../support/nine.ts';
import { type LedgerRow, ledgerRow } from '../support/state.ts';

const { provider, gateway } = useNine((url) => {
  const open = { type: 'compat', protocols: ['chat'], allow_fields: ['input_audio', 'modalities'], ...ONE_ATTEMPT };
  return nineConfig(url, {
    models: [
      { id: 'heard-1', pricing: { ...PRICING, audio_input: 40, audio_output: 80 } },
      { id: 'unheard-1' },
      { id: 'contract-1', pricing: { ...PRICING, long_context: { above_input_tokens: 1500, input: 6, output: 22.5 } } },
    ],
    upstreams: [
      { name: 'open', ...open },
      { name: 'contract', price_multiplier: 0.85, ...open },
    ],
    rules: [
      { models: ['heard-1'], upstream: 'chat' },
      { models: ['unheard-1'], upstream: 'open' },
      { models: ['contract-1'], upstream: 'contract' },
    ],
  });
});

interface Counts {
  readonly input: number;
  readonly read?: number;
  readonly written?: number;
  readonly written_1h?: number;
  readonly output: number;
}

/** A server's usage, and its meaning. */
interface Row {
  /** The usage at the top, where all the rest is as in the protocol. */
  readonly usage?: object;
  /** Fields beside `choices` in the last chunk, or in the document. */
  readonly last?: object;
  /** Fields in the choice of the last chunk, or of the document. */
  readonly choice?: object;
  /** Fields in all chunks with text. */
  readonly each?: object;
  readonly counts: Counts;
}

const data = (value: unknown): string => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const event = (value: { readonly type: string }): string => `event: ${value.type}\n${data(value)}`;

const HEAD = { id: 'c-1', created: 1, model: 'up' };
const DONE = data('[DONE]');
const chunk = (choices: readonly object[], more: object = {}): string =>
  data({ ...HEAD, object: 'chat.completion.chunk', choices, ...more });
const says = (content: string, more: object = {}): string =>
  chunk([{ index: 0, delta: { content }, finish_reason: null }], more);
const stops = (choice: object = {}, more: object = {}): string =>
  chunk([{ index: 0, delta: {}, finish_reason: 'stop', ...choice }], more);

function chatScript({ usage, last, choice, each }: Row, stream: boolean): Script {
  if (!stream) {
    const message = { role: 'assistant', content: 'Hi there' };
    const choices = [{ index: 0, message, finish_reason: 'stop', ...choice }];
    return answerJson({ ...HEAD, object: 'chat.completion', choices, ...last, ...(usage && { usage }) });
  }
  return answerChunks([
    says('Hi ', each),
    says('there', each),
    stops(choice, last),
    ...(usage === undefined ? [] : [chunk([], { usage })]),
    DONE,
  ]);
}

/** Usage as chat completions have it. */
const used = (prompt_tokens: number, completion_tokens: number, total_tokens: number, more: object = {}) => ({
  ...{ prompt_tokens, completion_tokens, total_tokens, ...more },
});

const WRITTEN_APART = {
  ...{ cached_tokens: 5, cache_write_tokens: 0 },
  cache_write_tokens_details: { ttl_12h_tokens: 40, ttl_30m_tokens: 10 },
};

const CHAT_ROWS: Readonly<Record<string, Row>> = {
  'OpenAI, Azure, vLLM, SGLang, Mistral': {
    usage: used(1100, 40, 1140, {
      prompt_tokens_details: { cached_tokens: 1000, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 15, accepted_prediction_tokens: 3, rejected_prediction_tokens: 2 },
    }),
    counts: { input: 100, read: 1000, output: 40 },
  },
  'Moonshot, in the last choice': { choice: { usage: used(2000, 600, 2600) }, counts: { input: 2000, output: 600 } },
  'Moonshot, in the last choice and at the top': {
    choice: { usage: used(1100, 40, 1140, { cached_tokens: 1000 }) },
    usage: used(1100, 40, 1140, { cached_tokens: 1000 }),
    counts: { input: 100, read: 1000, output: 40 },
  },
  'Moonshot and Together, cached tokens at the top': {
    usage: used(1000, 40, 1040, { cached_tokens: 900 }),
    counts: { input: 100, read: 900, output: 40 },
  },
  'Mistral, cached tokens by its own name': {
    usage: used(1000, 40, 1040, { num_cached_tokens: 900 }),
    counts: { input: 100, read: 900, output: 40 },
  },
  'Requesty, cached tokens and those it caches': {
    usage: used(1630, 40, 1670, { prompt_tokens_details: { cached_tokens: 100, caching_tokens: 1500 } }),
    counts: { input: 30, read: 100, written: 1500, output: 40 },
  },
  'new-api, caches in the details and beside the prompt': {
    usage: used(30, 40, 70, { prompt_tokens_details: { cached_tokens: 100, cached_creation_tokens: 1500 } }),
    counts: { input: 30, read: 100, written: 1500, output: 40 },
  },
  'Gemini, thinking in the total alone': { usage: used(20, 424, 1016), counts: { input: 20, output: 996 } },
  'Gemini, nothing but thinking': {
    usage: used(21, 0, 81, { completion_tokens_details: { reasoning_tokens: 60 } }),
    counts: { input: 21, output: 60 },
  },
  'xAI, reasoning beside the output': {
    usage: used(1100, 40, 1155, {
      prompt_tokens_details: { text_tokens: 1100, audio_tokens: 0, image_tokens: 0, cached_tokens: 1000 },
      completion_tokens_details: { reasoning_tokens: 15, audio_tokens: 0 },
      num_sources_used: 0,
    }),
    counts: { input: 100, read: 1000, output: 55 },
  },
  'LiteLLM and Databricks, caches at the top, in the prompt': {
    usage: used(1630, 40, 1670, { cache_creation_input_tokens: 1500, cache_read_input_tokens: 100 }),
    counts: { input: 30, read: 100, written: 1500, output: 40 },
  },
  'LiteLLM, caches in the details, with their lifetimes': {
    usage: used(1630, 40, 1670, {
      prompt_tokens_details: {
        cached_tokens: 100,
        cache_creation_tokens: 1500,
        cache_creation_token_details: { ephemeral_5m_input_tokens: 500, ephemeral_1h_input_tokens: 1000 },
      },
      cache_creation_input_tokens: 1500,
      cache_read_input_tokens: 100,
    }),
    counts: { input: 30, read: 100, written: 500, written_1h: 1000, output: 40 },
  },
  OpenRouter: {
    usage: used(1630, 40, 1670, {
      cost: 0.95,
      prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 1500, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    }),
    counts: { input: 30, read: 100, written: 1500, output: 40 },
  },
  'Qwen, an explicit cache': {
    usage: used(1630, 40, 1670, {
      prompt_tokens_details: {
        cached_tokens: 0,
        cache_creation_input_tokens: 1605,
        cache_type: 'ephemeral',
        cache_creation: { ephemeral_5m_input_tokens: 1605 },
      },
    }),
    counts: { input: 25, read: 0, written: 1605, output: 40 },
  },
  'Portkey, caches beside the prompt and in the total': {
    usage: used(30, 40, 1670, {
      prompt_tokens_details: { cached_tokens: 100 },
      cache_creation_input_tokens: 1500,
      cache_read_input_tokens: 100,
    }),
    counts: { input: 30, read: 100, written: 1500, output: 40 },
  },
  'a proxy with the usage of the Messages protocol': {
    usage: { input_tokens: 30, output_tokens: 40, cache_creation_input_tokens: 1500, cache_read_input_tokens: 100 },
    counts: { input: 30, read: 100, written: 1500, output: 40 },
  },
  'a proxy with the names of Responses': {
    usage: { input_tokens: 1000, output_tokens: 40, total_tokens: 1040, input_tokens_details: { cached_tokens: 900 } },
    counts: { input: 100, read: 900, output: 40 },
  },
  DeepSeek: {
    last: {
      usage: used(1000, 40, 1040, { prompt_cache_hit_tokens: 900, prompt_cache_miss_tokens: 100 }),
    },
    counts: { input: 100, read: 900, output: 40 },
  },
  Groq: {
    last: { x_groq: { id: 'req_1', usage: { queue_time: 0.05, prompt_tokens: 1000, completion_tokens: 40 } } },
    counts: { input: 1000, output: 40 },
  },
  'servers with the whole so far in every chunk': {
    each: { usage: used(1000, 1, 1001) },
    last: { usage: used(1000, 40, 1040) },
    counts: { input: 1000, output: 40 },
  },
  'servers with null, and with an empty object, where nothing is known yet': {
    each: { usage: {} },
    last: { usage: null },
    usage: { prompt_tokens: 1000, completion_tokens: 40, prompt_tokens_details: null, completion_tokens_details: null },
    counts: { input: 1000, output: 40 },
  },
  'servers with zeros in the last chunk': {
    each: { usage: used(1000, 40, 1040) },
    choice: { usage: used(1000, 40, 1040) },
    last: { usage: used(0, 0, 0) },
    counts: { input: 1000, output: 40 },
  },
  'a proxy, written for half a day and half an hour, with a total of less': {
    usage: used(100, 20, 120, { prompt_tokens_details: WRITTEN_APART }),
    counts: { input: 45, read: 5, written: 10, written_1h: 40, output: 20 },
  },
  'llama.cpp, without usage': {
    last: { timings: { cache_n: 900, prompt_n: 100, prompt_ms: 30.9, predicted_n: 40, predicted_per_second: 52.9 } },
    counts: { input: 100, read: 900, output: 40 },
  },
};

const RESPONSES_ROWS: Readonly<Record<string, Row>> = {
  OpenAI: {
    usage: {
      input_tokens: 1630,
      input_tokens_details: { cached_tokens: 100, cache_write_tokens: 1500 },
      output_tokens: 40,
      output_tokens_details: { reasoning_tokens: 15 },
      total_tokens: 1670,
    },
    counts: { input: 30, read: 100, written: 1500, output: 40 },
  },
  'a proxy with the names of chat completions': {
    usage: used(1000, 40, 1040, { cached_tokens: 900 }),
    counts: { input: 100, read: 900, output: 40 },
  },
  'a proxy of Gemini, thinking in the total alone': {
    usage: { input_tokens: 20, output_tokens: 424, total_tokens: 1016 },
    counts: { input: 20, output: 996 },
  },
  'a proxy, written for half a day and half an hour, with a total of less': {
    usage: { input_tokens: 100, output_tokens: 20, total_tokens: 120, input_tokens_details: WRITTEN_APART },
    counts: { input: 45, read: 5, written: 10, written_1h: 40, output: 20 },
  },
  'a proxy with usage beside the response': {
    last: { usage: { input_tokens: 1000, output_tokens: 40, total_tokens: 1040 } },
    counts: { input: 1000, output: 40 },
  },
};

function responsesScript({ usage, last = {} }: Row, stream: boolean): Script {
  const part = { type: 'output_text', text: 'Hi there', annotations: [] };
  const said = { type: 'message', id: 'm-1', role: 'assistant', status: 'completed', content: [part] };
  const head = { id: 'r-1', object: 'response', status: 'completed', model: 'up' };
  const response = { ...head, output: [said], usage: usage ?? null };
  if (!stream) return answerJson({ ...response, ...last });
  const at = { item_id: 'm-1', output_index: 0, content_index: 0 };
  return answerChunks([
    event({
      type: 'response.created',
      response: { ...response, status: 'in_progress', output: [], usage: null },
    } as never),
    event({ type: 'response.output_text.delta', ...at, delta: 'Hi there' } as never),
    event({ type: 'response.completed', response, ...last } as never),
  ]);
}

/** Usage in a stream of the Messages protocol: at its start, with its stop reason, in a later delta and at its end. */
interface MessagesRow extends Row {
  readonly start?: unknown;
  readonly end?: unknown;
  /** Further deltas, with and without a stop reason. */
  readonly later?: readonly object[];
  readonly stop?: object;
}

const SPLIT = { ephemeral_5m_input_tokens: 500, ephemeral_1h_input_tokens: 1000 };
const CACHES = { cache_creation_input_tokens: 1500, cache_read_input_tokens: 100, cache_creation: SPLIT };
const THOUSAND = { input_tokens: 1000, output_tokens: 4000 };

const MESSAGES_ROWS: Readonly<Record<string, MessagesRow>> = {
  Anthropic: {
    start: { input_tokens: 30, output_tokens: 1, ...CACHES },
    end: { output_tokens: 40, output_tokens_details: { thinking_tokens: 15 } },
    counts: { input: 30, read: 100, written: 500, written_1h: 1000, output: 40 },
  },
  'Zhipu and LiteLLM, everything at the end': {
    start: { input_tokens: 0, output_tokens: 0 },
    end: { input_tokens: 100, output_tokens: 40, cache_read_input_tokens: 900 },
    counts: { input: 100, read: 900, output: 40 },
  },
  'an estimate at the start, put right at the end': {
    start: { input_tokens: 5000, output_tokens: 0, cache_read_input_tokens: null },
    end: { input_tokens: 100, output_tokens: 40, cache_read_input_tokens: 900 },
    counts: { input: 100, read: 900, output: 40 },
  },
  'everything at the start': {
    start: { input_tokens: 1000, output_tokens: 40 },
    end: null,
    counts: { input: 1000, output: 40 },
  },
  'Bedrock, in the last event': {
    start: null,
    end: undefined,
    stop: {
      'amazon-bedrock-invocationMetrics': {
        inputTokenCount: 100,
        outputTokenCount: 40,
        cacheReadInputTokenCount: 900,
        cacheWriteInputTokenCount: 0,
        invocationLatency: 3037,
      },
    },
    counts: { input: 100, read: 900, written: 0, output: 40 },
  },
  'a proxy with the names of chat completions': {
    start: undefined,
    end: { prompt_tokens: 1000, completion_tokens: 40, total_tokens: 1040, cached_tokens: 900 },
    counts: { input: 100, read: 900, output: 40 },
  },
  'a last event with less of everything': {
    start: { input_tokens: 1000, output_tokens: 1 },
    end: THOUSAND,
    stop: { usage: { input_tokens: 0, output_tokens: 0 } },
    counts: { input: 1000, output: 4000 },
  },
  'a later delta with more': {
    start: { input_tokens: 1000, output_tokens: 1 },
    end: { output_tokens: 1 },
    later: [{ type: 'message_delta', delta: {}, usage: { output_tokens: 4000 } }],
    counts: { input: 1000, output: 4000 },
  },
};

function messagesEvents({ start, end, later = [], stop = {} }: MessagesRow): string[] {
  const message = {
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'up', content: [] },
    stop_reason: null,
  };
  const text = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi there' } };
  const events: { readonly type: string }[] = [
    { type: 'message_start', message: { ...message, usage: start } } as never,
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as never,
    text,
    { type: 'content_block_stop', index: 0 } as never,
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: end } as never,
    ...(later as never[]),
    { type: 'message_stop', ...stop },
  ];
  return events.map(event);
}

const PROTOCOLS = ['messages', 'chat', 'responses'] as const;

async function ask(
  spoken: Protocol,
  model: string,
  script: Script,
  more: object,
): Promise<{ readonly row: LedgerRow & { readonly billed: object | null }; readonly text: string }> {
  provider.upstream.script = script;
  const response = await post(gateway, spoken, askBody(spoken, model, 'Say hello.', more));
  assert.equal(response.status, 200, response.text);
  const row = await ledgerRow(gateway.database, String(response.headers['x-gateway-request-id']));
  return { row: row as Awaited<ReturnType<typeof ask>>['row'], text: response.text };
}

function assertBill(row: LedgerRow, counts: Counts, nano_usd: number): void {
  const { input, read = 0, written = 0, written_1h = 0, output } = counts;
  const { input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, output_tokens } = row;
  assert.deepEqual(
    [input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, output_tokens],
    [input, read, written, written_1h, output],
  );
  assert.equal(row.cost_nano_usd, nano_usd);
  assert.equal(row.provenance.cost, 'upstream');
}

/** By the prices above, and not by the program. */
const costOf = ({ input, read = 0, written = 0, written_1h = 0, output }: Counts): number =>
  3000 * input + 300 * read + 3750 * written + 6000 * written_1h + 15_000 * output;

/** What the client got, in the terms of the table. */
function toldTo(spoken: Protocol, text: string, stream: boolean): Counts {
  const documents = stream ? eventsIn(text).map(({ data }) => data) : [JSON.parse(text)];
  const usage = documents.map((each) => each.response?.usage ?? each.usage).findLast((each) => each != null);
  if (spoken === 'messages') {
    const { cache_read_input_tokens: read = 0, cache_creation_input_tokens: written = 0 } = usage;
    return { input: usage.input_tokens, read, written, output: usage.output_tokens };
  }
  const { cached_tokens, cache_write_tokens } = usage.input_tokens_details ?? usage.prompt_tokens_details;
  const input = (usage.input_tokens ?? usage.prompt_tokens) - cached_tokens - cache_write_tokens;
  const output = usage.output_tokens ?? usage.completion_tokens;
  return { input, read: cached_tokens, written: cache_write_tokens, output };
}

function describeRows(
  upstream: Protocol,
  rows: Readonly<Record<string, Row>>,
  scriptOf: (row: never, stream: boolean) => Script,
): void {
  const ways = PROTOCOLS.flatMap((spoken) =>
    (upstream === 'messages' ? [true] : [true, false]).map((stream) => ({ spoken, stream })),
  );
  describe(`usage of a ${upstream} upstream`, () => {
    for (const [place, [server, row]] of Object.entries(rows).entries()) {
      // Each server with two of the ways; reading its response is the same for all.
      for (const { spoken, stream } of [...inTurn(ways, place), ...(IS_DEEP ? [] : inTurn(ways, place + 2))]) {
        it(`${server}: a ${stream ? 'stream' : 'document'} for a ${spoken} client costs the right amount`, async () => {
          const more = {
            stream,
            ...(stream && spoken === 'chat' && { stream_options: { include_usage: true } }),
            ...(spoken === 'messages' && { max_tokens: 5000 }),
          };
          const response = await ask(spoken, modelVia(upstream), scriptOf(row as never, stream), more);
          assertBill(response.row, row.counts, costOf(row.counts));
          // A client of the same protocol has every byte as it was sent.
          if (spoken === upstream) return;
          const { input, read = 0, written = 0, written_1h = 0, output } = row.counts;
          assert.deepEqual(toldTo(spoken, response.text, stream), {
            input,
            read,
            written: written + written_1h,
            output,
          });
        });
      }
    }
  });
}

describeRows('chat', CHAT_ROWS, chatScript);
describeRows('responses', RESPONSES_ROWS, responsesScript);
describeRows('messages', MESSAGES_ROWS, (row) => answerChunks(messagesEvents(row)));

it('a long context at an upstream with a contract costs its share of the higher prices', async () => {
  const row = { usage: used(2000, 40, 2040) } as Row;
  const long = await ask('chat', 'contract-1', chatScript(row, false), {});
  // (2000 x 6000 + 40 x 22500) x 0.85
  assertBill(long.row, { input: 2000, output: 40 }, 10_965_000);
});

describe('audio', () => {
  const audio = (prompt_tokens_details: object, completion_tokens_details: object = {}) =>
    used(1000, 200, 1200, { prompt_tokens_details, completion_tokens_details });
  const heard = { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'UklG' } }] }] };
  const script = (usage: object) => chatScript({ usage } as Row, false);

  it('costs its own price, in and out, and the row shows its amount', async () => {
    const usage = audio({ audio_tokens: 600, text_tokens: 400 }, { audio_tokens: 150 });
    const more = { ...heard, modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } };
    const { row } = await ask('chat', 'heard-1', script(usage), more);
    // 400 x 3000 + 600 x 40000 + 50 x 15000 + 150 x 80000
    assertBill(row, { input: 1000, output: 200 }, 37_950_000);
    assert.deepEqual(row.billed, { model: 'up', audio: { input: 600, output: 150 } });
    assert.equal(row.provenance.price, undefined);
    const { stdout } = await cli(
      ['ledger', 'reprice', '--since', '2020-01-01', '--model', 'heard-1', '--config', gateway.config_file],
      { env: gateway.env },
    );
    assert.match(stdout, /No differences/, 'priced again, it costs the same');
  });

  it('is not discounted as cached', async () => {
    const { row } = await ask('chat', 'heard-1', script(audio({ audio_tokens: 600, cached_tokens: 900 })), {});
    // 600 x 40000 + 400 x 300 + 200 x 15000
    assertBill(row, { input: 600, read: 400, output: 200 }, 27_120_000);
  });

  it('of a recording that only the total counts is input', async () => {
    const usage = used(4, 100, 854, { prompt_audio_seconds: 60 });
    const { row } = await ask('chat', 'heard-1', script(usage), {});
    // 4 x 3000 + 750 x 40000 + 100 x 15000
    assertBill(row, { input: 754, output: 100 }, 31_512_000);
  });

  it('without a price of its own costs a multiple of the price of text, and the row shows it', async () => {
    const usage = audio({ audio_tokens: 600 }, { audio_tokens: 150 });
    const { row } = await ask('chat', 'unheard-1', script(usage), heard);
    // 400 x 3000 + 600 x 16 x 3000 + 50 x 15000 + 150 x 8 x 15000
    assertBill(row, { input: 1000, output: 200 }, 48_750_000);
    assert.equal(row.provenance.price, 'unknown_audio');
  });

  it('without a price is rejected, with the name of the missing price', async () => {
    for (const [fields, name] of [
      [heard, 'audio_input'],
      [{ modalities: ['text', 'audio'] }, 'audio_output'],
    ] as const) {
      const { status, text } = await post(gateway, 'chat', askBody('chat', modelVia('chat'), 'Hi', fields));
      assert.equal(status, 400);
      assert.match(text, new RegExp(`\`${name}\` in the pricing of the model`));
    }
  });
});

describe('a stop sequence at an upstream without support', () => {
  for (const [spoken, key] of [
    ['messages', 'stop_sequences'],
    ['chat', 'stop'],
  ] as const) {
    for (const stream of [true, false]) {
      it(`cuts the ${stream ? 'stream' : 'document'} of a ${spoken} client there, and reports it`, async () => {
        // It may span the texts of a response.
        const said = ['One. Two. S', 'TO', 'P Three.'].map((text) => ({ kind: 'text' as const, text }));
        provider.model = () => ({ said, used: { output: 77 } });
        const body = askBody(spoken, modelVia('responses'), 'Count.', { [key]: ['STOP', 'x'], stream });
        const { status, text } = await post(gateway, spoken, body);
        assert.equal(status, 200, text);
        assert.deepEqual(provider.refused, []);
        const events = stream ? eventsIn(text) : [];
        assert.equal(textIn(spoken, stream ? events : JSON.parse(text)), 'One. Two. ');
        if (spoken === 'messages') {
          const { delta, usage } = events.find(({ name }) => name === 'message_delta')?.data ?? {};
          const { stop_reason, stop_sequence } = delta ?? JSON.parse(text);
          assert.deepEqual([stop_reason, stop_sequence], ['stop_sequence', 'STOP']);
          assert.equal((usage ?? JSON.parse(text).usage).output_tokens, 77);
        } else {
          const reasons = stream ? events.map(({ data }) => data.choices?.[0]?.finish_reason) : [];
          assert.ok((stream ? reasons : [JSON.parse(text).choices[0].finish_reason]).includes('stop'));
        }
      });
    }
  }
});

describe('a response without usage', () => {
  const said = 'Hello there, this is an answer of some length.';
  const message = { role: 'assistant', content: said };
  const head = { id: 'c', object: 'chat.completion', created: 1, model: 'm' };
  const item = { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: said }] };
  const ANSWERS: Readonly<Record<Exclude<Protocol, 'messages'>, object>> = {
    chat: { ...head, choices: [{ index: 0, message, finish_reason: 'stop' }] },
    responses: { id: 'resp_1', object: 'response', status: 'completed', model: 'm', output: [item] },
  };
  const CHUNKS = [
    { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta: message, finish_reason: null }] },
    { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  ];

  for (const upstream of ['chat', 'responses'] as const) {
    it(`at a ${upstream} upstream is estimated for a Messages client, and cached tokens are unknown`, async () => {
      provider.upstream.script = answerJson(ANSWERS[upstream]);
      const body = askBody('messages', modelVia(upstream), 'x'.repeat(4000));
      const { usage } = (await post(gateway, 'messages', body)).json();
      assert.equal(usage.input_tokens, Math.ceil(JSON.stringify(body).length / 4));
      assert.equal(usage.output_tokens, Math.ceil(said.length / 4));
      // Omitted, and not null: a client that reads them as numbers would find the whole response unreadable.
      assert.deepEqual(Object.keys(usage).sort(), ['input_tokens', 'output_tokens']);
    });
  }

  it('is estimated in a stream, at its beginning and at its end', async () => {
    provider.upstream.script = answerChunks(CHUNKS.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`));
    const { text } = await post(
      gateway,
      'messages',
      askBody('messages', modelVia('chat'), 'x'.repeat(4000), { stream: true }),
    );
    const events = eventsIn(text).map(({ data }) => data);
    const [first] = events;
    assert.ok(first.message.usage.input_tokens > 1000);
    for (const { usage, message } of events) {
      const counts: unknown[] = Object.values(usage ?? message?.usage ?? {});
      assert.ok(counts.every(Number.isInteger), JSON.stringify(counts));
    }
    const { usage } = events.find(({ type }) => type === 'message_delta');
    assert.deepEqual([usage.input_tokens > 1000, usage.output_tokens], [true, Math.ceil(said.length / 4)]);
  });

  it("is unknown if the client's protocol can express it, also if only a part was reported", async () => {
    provider.upstream.script = answerJson({ ...ANSWERS.chat, usage: { completion_tokens: 5 } });
    const { usage } = (await post(gateway, 'responses', askBody('responses', modelVia('chat')))).json();
    assert.equal(usage, null);
    provider.upstream.script = answerJson({ ...ANSWERS.responses, usage: { output_tokens: 5 } });
    const chat = (await post(gateway, 'chat', askBody('chat', modelVia('responses')))).json();
    assert.equal('usage' in chat, false);
  });
});
