/** How responses end: which count as whole, broken off or rejected, and what each client sees of it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import {
  answerChunks,
  answerJson,
  EVENT_STREAM,
  type Script,
  sse,
} from '../../support/model-provider/scripted-upstream.ts';
import { inTurn } from '../../support/times.ts';
import type { Response } from '../support/client.ts';
import {
  askBody,
  COMBINATIONS,
  modelVia,
  type Nine,
  nineConfig,
  PRICING,
  post,
  TRANSLATED,
  useNine,
} from '../support/nine.ts';
import { idOf } from '../support/odd.ts';
import { ledgerRow } from '../support/state.ts';
import { eventsIn } from './streams.ts';

let nine: Nine;
useNine(
  (started) => {
    nine = started;
  },
  (url) => {
    const { upstreams, ...rest } = nineConfig(url, {
      models: FAILING.map((_, i) => ({ id: failing(i) })),
      rules: FAILING.map((upstream, i) => ({ name: failing(i), models: [failing(i)], upstream })),
    });
    // Breakers as they are by default: they open for what is no answer.
    return {
      ...rest,
      upstreams: (upstreams as { breaker: unknown }[]).map(({ breaker: _off, ...upstream }) => upstream),
    };
  },
);

/** The upstreams of the models that fail, in the order of `OPENING`. */
const FAILING: readonly Protocol[] = ['chat', 'chat', 'messages', 'responses'];
const failing = (index: number): string => `failing-${index}`;

const HALF = 'export function half() {';
const INPUT = 100;
const OUTPUT = 40;
/** What the tokens of these answers cost, in nano-USD. */
const COST = (INPUT * PRICING.input + OUTPUT * PRICING.output) * 1000;

/** Data of an event of chat completions. */
const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) =>
  data({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
    ...more,
  });
const DONE = 'data: [DONE]\n\n';
const CHAT_USAGE = { prompt_tokens: INPUT, completion_tokens: OUTPUT, total_tokens: INPUT + OUTPUT };
const MESSAGES_USAGE = { input_tokens: INPUT, output_tokens: OUTPUT };
const RESPONSES_USAGE = { input_tokens: INPUT, output_tokens: OUTPUT, total_tokens: INPUT + OUTPUT };

const STARTED = [
  sse({
    type: 'message_start',
    message: {
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [],
      stop_reason: null,
      usage: { input_tokens: INPUT, output_tokens: 1 },
    },
  }),
  sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: HALF } }),
];
const BLOCK_STOP = sse({ type: 'content_block_stop', index: 0 });
const messageDelta = (stop_reason: string | null) =>
  sse({ type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: OUTPUT } });
const MESSAGE_STOP = sse({ type: 'message_stop' });

const ITEM = {
  id: 'msg_1',
  type: 'message',
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text: HALF, annotations: [] }],
};
const SAID = [
  sse({
    type: 'response.created',
    sequence_number: 0,
    response: { id: 'r', object: 'response', status: 'in_progress', model: 'm', output: [] },
  }),
  sse({
    type: 'response.output_item.added',
    sequence_number: 1,
    output_index: 0,
    item: { ...ITEM, status: 'in_progress', content: [] },
  }),
  sse({
    type: 'response.output_text.delta',
    sequence_number: 2,
    output_index: 0,
    item_id: 'msg_1',
    content_index: 0,
    delta: HALF,
  }),
  sse({ type: 'response.output_item.done', sequence_number: 3, output_index: 0, item: ITEM }),
];
const answerOf = (status: string, more: object = {}) => ({
  id: 'r',
  object: 'response',
  status,
  model: 'm',
  output: [ITEM],
  usage: RESPONSES_USAGE,
  ...more,
});
const responseEnd = (type: string, status: string, more: object = {}) =>
  sse({ type: `response.${type}`, sequence_number: 4, response: answerOf(status, more) });

/** An answer of an upstream, as a stream and whole, that ends with this word of its server. */
const ENDED_WITH: Readonly<Record<Protocol, (word: string) => { stream: string[]; whole: object }>> = {
  messages: (word) => ({
    stream: [...STARTED, BLOCK_STOP, messageDelta(word), MESSAGE_STOP],
    whole: {
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'text', text: HALF }],
      stop_reason: word,
      stop_sequence: null,
      usage: MESSAGES_USAGE,
    },
  }),
  chat: (word) => ({
    stream: [
      chunk({ role: 'assistant', content: HALF }),
      chunk({}, word),
      data({ choices: [], usage: CHAT_USAGE }),
      DONE,
    ],
    whole: {
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: HALF }, finish_reason: word }],
      usage: CHAT_USAGE,
    },
  }),
  responses: (word) => ({
    stream: [...SAID, responseEnd('incomplete', 'incomplete', { incomplete_details: { reason: word } })],
    whole: answerOf('incomplete', { incomplete_details: { reason: word } }),
  }),
};

/** What a client reads at the end of a whole answer. */
const WHOLE_END: Readonly<Record<Protocol, string>> = { messages: 'end_turn', chat: 'stop', responses: 'completed' };

// biome-ignore lint/suspicious/noExplicitAny: a response in any protocol
const READ_END: Readonly<Record<Protocol, (response: any) => unknown>> = {
  messages: ({ stop_reason, delta }) => stop_reason ?? delta?.stop_reason,
  chat: ({ choices }) => choices?.[0]?.finish_reason,
  responses: ({ type, response, ...answer }) => {
    if (type !== undefined && !/^response\.(?:completed|incomplete)$/.test(type)) return undefined;
    const { status, incomplete_details } = response ?? answer;
    return [status, incomplete_details?.reason].filter(Boolean).join(' ');
  },
};

/** How a response ends for its client: its finish reason, or `broken` with the error. */
function endOf(spoken: Protocol, { text, status, headers }: Response): { end: unknown; message?: string } {
  if (!String(headers['content-type']).includes('event-stream')) {
    const response = JSON.parse(text);
    return status === 200
      ? { end: READ_END[spoken](response) }
      : { end: `broken ${status}`, message: response.error.message };
  }
  const events = eventsIn(text).map((event) => event.data);
  const failed = events.find((event) => event.type === 'error' || event.error !== undefined);
  const end = events.map(READ_END[spoken]).findLast((found) => found != null && found !== '');
  return failed === undefined ? { end } : { end: 'broken', message: (failed.error ?? failed).message };
}

interface Asked {
  readonly stream: boolean;
  readonly model?: string;
  readonly text?: string;
}

async function ask(
  spoken: Protocol,
  upstream: Protocol,
  script: Script,
  { stream, model, text = 'Write half a file.' }: Asked,
): Promise<Response> {
  nine.provider.upstream.script = script;
  const usage = spoken === 'chat' && stream && { stream_options: { include_usage: true } };
  const body = askBody(spoken, model ?? modelVia(upstream), text, { stream, ...usage });
  return post(nine.gateway, spoken, body);
}

/** Resets the breaker's count: a whole response. */
async function heal(upstream: Protocol): Promise<void> {
  const { whole } = ENDED_WITH[upstream]('max_tokens');
  assert.equal((await ask(upstream, upstream, answerJson(whole), { stream: false })).status, 200);
}

/** Repeated behaviours of a server that must not affect callers, each with a model of its own. */
const OPENING: readonly (readonly [what: string, Protocol, Protocol, Script, stream: boolean])[] = [
  ['loses its network', 'messages', 'chat', answerJson(ENDED_WITH.chat('network_error').whole), false],
  ['loses its network', 'chat', 'chat', answerChunks(ENDED_WITH.chat('network_error').stream), true],
  ['ends in the middle', 'messages', 'messages', answerChunks([...STARTED, BLOCK_STOP]), true],
  ['ends in the middle', 'responses', 'responses', answerChunks(SAID), true],
];

test('a document without a reason for its end is whole, and one that holds nothing is broken', async () => {
  const call = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{"a":1}' } };
  const document = (message: object) => ({
    ...ENDED_WITH.chat('stop').whole,
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: null }],
  });
  assert.equal(
    endOf('messages', await ask('messages', 'chat', answerJson(document({ content: HALF })), { stream: false })).end,
    'end_turn',
  );
  const called = await ask('messages', 'chat', answerJson(document({ content: null, tool_calls: [call] })), {
    stream: false,
  });
  assert.equal(endOf('messages', called).end, 'tool_use');
  for (const nothing of [
    { content: '' },
    { content: null, tool_calls: [{ ...call, function: { name: 'read', arguments: '{"a"' } }] },
  ]) {
    assert.equal(
      endOf('messages', await ask('messages', 'chat', answerJson(document(nothing)), { stream: false })).end,
      'broken 502',
    );
    await heal('chat');
  }
});

const CRLF = (events: readonly string[]) => events.map((event) => event.replaceAll('\n', '\r\n'));
const withoutLast = (events: readonly string[]) => [...events.slice(0, -1), events.at(-1)!.trimEnd()];

/** Streams that say everything, each as some servers end it. */
const WHOLE: readonly (readonly [Protocol, how: string, events: readonly string[]])[] = [
  ['messages', 'with [DONE] instead of message_stop', [...STARTED, BLOCK_STOP, messageDelta('end_turn'), DONE]],
  ['messages', 'without message_stop', [...STARTED, BLOCK_STOP, messageDelta('end_turn')]],
  [
    'messages',
    'with a ping instead of message_stop',
    [...STARTED, BLOCK_STOP, messageDelta('end_turn'), sse({ type: 'ping' })],
  ],
  ['messages', 'without content_block_stop', [...STARTED, messageDelta('end_turn'), MESSAGE_STOP]],
  ['messages', 'without a reason', [...STARTED, BLOCK_STOP, messageDelta(null), MESSAGE_STOP]],
  [
    'messages',
    'with a later delta that has no reason',
    [...STARTED, BLOCK_STOP, messageDelta('end_turn'), messageDelta(null)],
  ],
  [
    'messages',
    'without names of events',
    [...STARTED, BLOCK_STOP, messageDelta('end_turn')].map((event) => event.replace(/^event: .*\n/, '')),
  ],
  ['chat', 'without [DONE]', [chunk({ content: HALF }), chunk({}, 'stop'), data({ choices: [], usage: CHAT_USAGE })]],
  ['chat', 'with usage beside the reason', [chunk({ content: HALF }), chunk({}, 'stop', { usage: CHAT_USAGE })]],
  ['chat', 'without a reason', [chunk({ content: HALF }), data({ choices: [], usage: CHAT_USAGE }), DONE]],
  [
    'chat',
    'with the word null until it ends',
    [chunk({ content: HALF }, 'null'), chunk({}, 'stop', { usage: CHAT_USAGE }), DONE],
  ],
  [
    'chat',
    'without the last blank line',
    withoutLast([chunk({ content: HALF }), chunk({}, 'stop', { usage: CHAT_USAGE })]),
  ],
  [
    'chat',
    'with other ends of lines',
    CRLF([chunk({ content: HALF }), chunk({}, 'stop', { usage: CHAT_USAGE }), DONE]),
  ],
  ['responses', 'with response.completed', [...SAID, responseEnd('completed', 'completed')]],
  ['responses', 'with response.done', [...SAID, responseEnd('done', 'completed')]],
  ['responses', 'with [DONE] behind it', [...SAID, responseEnd('completed', 'completed'), DONE]],
];

/** Streams that lack something. */
const INTERRUPTED: readonly (readonly [Protocol, how: string, events: readonly string[]])[] = [
  ['messages', 'before its reason', [...STARTED, BLOCK_STOP]],
  ['messages', 'before its reason, with [DONE]', [...STARTED, BLOCK_STOP, DONE]],
  ['messages', 'with a delta without a reason', [...STARTED, BLOCK_STOP, messageDelta(null)]],
  ['messages', 'with an end of nothing', [STARTED[0]!, messageDelta(null), MESSAGE_STOP]],
  ['messages', 'inside an event', [...STARTED, BLOCK_STOP, messageDelta('end_turn').slice(0, 60)]],
  ['chat', 'before its reason', [chunk({ content: HALF })]],
  ['chat', 'with an end of nothing', [chunk({ role: 'assistant' }), DONE]],
  ['responses', 'before response.completed', SAID],
  [
    'responses',
    'with response.done that failed',
    [...SAID, responseEnd('done', 'failed', { error: { code: 'server_error', message: 'It broke.' } })],
  ],
  ['responses', 'with response.done that was cancelled', [...SAID, responseEnd('done', 'cancelled')]],
];

/** Writes events and drops the connection behind them. */
const dropped =
  (events: readonly string[]): Script =>
  ({ res, socket }) => {
    res.writeHead(200, [...EVENT_STREAM]);
    res.write(events.join(''), () => socket.destroy());
  };

describe('a stream', () => {
  for (const [upstream, how, events] of WHOLE) {
    test(`of a ${upstream} upstream that ends ${how} is whole for every client, and charged`, async () => {
      for (const [place, [spoken]] of COMBINATIONS.filter(([, one]) => one === upstream).entries()) {
        for (const stream of inTurn([true, false], place + events.length)) {
          const got = await ask(spoken, upstream, answerChunks(events), { stream });
          assert.equal(got.status, 200, got.text);
          if (spoken === upstream) {
            assert.equal(got.text, events.join(''));
            assert.equal((await ledgerRow(nine.gateway.database, idOf(got))).cost_nano_usd, COST);
          } else assert.deepEqual(endOf(spoken, got), { end: WHOLE_END[spoken] });
        }
      }
    });
  }

  for (const [upstream, how, events] of INTERRUPTED) {
    test(`of a ${upstream} upstream that ends ${how} is broken for every client of another protocol`, async () => {
      for (const [place, [spoken]] of TRANSLATED.filter(([, one]) => one === upstream).entries()) {
        for (const stream of inTurn([true, false], place + events.length)) {
          assert.match(
            String(endOf(spoken, await ask(spoken, upstream, answerChunks(events), { stream })).end),
            /^broken/,
          );
          await heal(upstream);
        }
      }
    });
  }

  test('whose connection breaks after its last event is whole, and one that breaks before it is not', async () => {
    const whole: Readonly<Record<Protocol, readonly string[]>> = {
      messages: [...STARTED, BLOCK_STOP, messageDelta('end_turn'), MESSAGE_STOP],
      chat: [chunk({ content: HALF }), chunk({}, 'stop', { usage: CHAT_USAGE }), DONE],
      responses: [...SAID, responseEnd('completed', 'completed')],
    };
    for (const [spoken, upstream] of COMBINATIONS) {
      for (const stream of [true, false]) {
        if (spoken === upstream && !stream) continue;
        const events = whole[upstream];
        const got = await ask(spoken, upstream, dropped(events), { stream });
        if (spoken === upstream) assert.equal(got.text, events.join(''));
        else assert.deepEqual(endOf(spoken, got), { end: WHOLE_END[spoken] });
        assert.equal((await ledgerRow(nine.gateway.database, idOf(got))).cost_nano_usd, COST);
        const cut = await ask(spoken, upstream, dropped(events.slice(0, upstream === 'chat' ? 1 : 3)), { stream });
        assert.match(String(endOf(spoken, cut).end), /^broken/);
        await heal(upstream);
      }
    }
  });
});

/** Errors with which upstreams end a stream, as the last event before the connection closes. */
const SAID_WRONG: Readonly<Record<Protocol, readonly (readonly [how: string, event: string])[]>> = {
  messages: [
    ['an error', sse({ type: 'error', error: { type: 'api_error', message: 'The disk is full.' } })],
    ['an error without a name', data({ type: 'error', error: { type: 'api_error', message: 'The disk is full.' } })],
  ],
  chat: [
    ['a chunk that is an error', data({ error: { message: 'The disk is full.', code: 502 } })],
    ['an error in a list of choices', chunk({}, 'error', { error: { message: 'The disk is full.', code: 502 } })],
    ['an event called error', `event: error\n${data({ message: 'The disk is full.' })}`],
  ],
  responses: [
    [
      'response.failed',
      responseEnd('failed', 'failed', { error: { code: 'server_error', message: 'The disk is full.' } }),
    ],
    ['an error', sse({ type: 'error', code: 'server_error', message: 'The disk is full.', param: null })],
  ],
};

describe('a stream that reports an error', () => {
  const before: Readonly<Record<Protocol, readonly string[]>> = {
    messages: STARTED,
    chat: [chunk({ role: 'assistant', content: HALF })],
    responses: SAID.slice(0, 3),
  };
  const ends = { dropped, ended: answerChunks };
  for (const upstream of ['messages', 'chat', 'responses'] as const) {
    for (const [how, event] of SAID_WRONG[upstream]) {
      test(`with ${how} of a ${upstream} upstream reports it, and no other, however it ends`, async () => {
        for (const [spoken] of COMBINATIONS.filter(([, one]) => one === upstream)) {
          for (const [place, [end, script]] of Object.entries(ends).entries()) {
            for (const stream of spoken === upstream ? [true] : inTurn([true, false], place)) {
              const events = [...before[upstream], event];
              const got = await ask(spoken, upstream, script(events), { stream });
              if (spoken === upstream) assert.equal(got.text, events.join(''), end);
              else assert.equal(endOf(spoken, got).message, 'The disk is full.', `${spoken} ${end} ${got.text}`);
              assert.doesNotMatch(got.text, /dropped the connection/);
              await heal(upstream);
            }
          }
        }
      });
    }
  }
});

/** Errors that a chat upstream puts into a response with status 200, in the choice or after its beginning. */
const INSIDE: readonly (readonly [where: string, (error: object) => object])[] = [
  [
    'beside the word for the end',
    (error) => ({ choices: [{ index: 0, message: SPOKEN, finish_reason: 'error', error }] }),
  ],
  [
    'beside a word that says nothing of it',
    (error) => ({ choices: [{ index: 0, message: SPOKEN, finish_reason: 'stop', error }] }),
  ],
  ['in the choice alone', (error) => ({ choices: [{ index: 0, error }] })],
  ['in the message', (error) => ({ choices: [{ index: 0, message: { ...SPOKEN, error }, finish_reason: 'error' }] })],
  ['behind the identifier', (error) => ({ error })],
];
const SPOKEN = { role: 'assistant', content: HALF };

describe('an error in a response of a chat upstream', () => {
  const wrapped = (code: number) => ({
    code,
    message: 'Provider returned error',
    metadata: { raw: '{"error":{"message":"The picture is broken."}}', provider_name: 'p' },
  });
  for (const [where, place] of INSIDE) {
    test(`${where} reaches clients of other protocols with its reason`, async () => {
      const response = { id: 'c', object: 'chat.completion', created: 1, model: 'm', ...place(wrapped(502)) };
      const said = JSON.parse(JSON.stringify(response).replace('"message":{"role"', '"delta":{"role"'));
      const chunks = [chunk({ role: 'assistant', content: HALF }), data(said)];
      for (const spoken of ['messages', 'responses'] as const) {
        const scripts = [answerJson(response), answerChunks(chunks), answerChunks([...chunks, DONE])];
        for (const [turn, script] of scripts.entries()) {
          for (const stream of inTurn([true, false], turn + spoken.length + where.length)) {
            const got = await ask(spoken, 'chat', script, { stream });
            const { end, message } = endOf(spoken, got);
            assert.match(String(end), /^broken(?: 502)?$/, got.text);
            assert.ok(message?.includes('The picture is broken.'), got.text);
            await heal('chat');
          }
        }
      }
    });
  }

  test('that is about the request has its status, and is no failure of the upstream', async () => {
    for (const [where, place] of INSIDE) {
      const response = { id: 'c', object: 'chat.completion', created: 1, model: 'm', ...place(wrapped(400)) };
      const got = await ask('messages', 'chat', answerJson(response), { stream: false });
      assert.equal(got.status, 400, `${where} ${got.text}`);
      assert.equal(got.headers['x-should-retry'], 'false');
    }
  });
});

describe('a truncated response', () => {
  test('costs the received part, and not the possible rest', async () => {
    const started = STARTED.slice(0, 2);
    const said = 'x'.repeat(400);
    const delta = sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: said } });
    for (const spoken of ['messages', 'chat'] as const) {
      const got = await ask(spoken, 'messages', answerChunks([...started, delta]), { stream: true });
      const row = await ledgerRow(nine.gateway.database, idOf(got));
      // Four characters are a token.
      assert.deepEqual([row.input_tokens, row.output_tokens, row.provenance.output], [INPUT, 100, 'estimate']);
      assert.equal(row.cost_nano_usd, (INPUT * PRICING.input + 100 * PRICING.output) * 1000);
      await heal('messages');
    }
  });

  test("costs its server's usage, if any", async () => {
    for (const [spoken, stream] of [
      ['messages', true],
      ['messages', false],
      ['chat', true],
    ] as const) {
      const script = answerChunks(ENDED_WITH.chat('insufficient_system_resource').stream);
      const got = await ask(spoken, 'chat', script, { stream });
      assert.equal((await ledgerRow(nine.gateway.database, idOf(got))).cost_nano_usd, COST);
      await heal('chat');
    }
  });

  test('before any content costs nothing', async () => {
    const got = await ask('messages', 'chat', answerChunks([chunk({}, 'network_error'), DONE]), { stream: true });
    assert.match(String(endOf('messages', got).end), /^broken/);
    assert.equal((await ledgerRow(nine.gateway.database, idOf(got))).cost_nano_usd, 0);
    await heal('chat');
  });
});

describe('a breaker', () => {
  /** Sends as many requests as a breaker tolerates, and then one more for a whole response. */
  async function statusAfter(spoken: Protocol, upstream: Protocol, script: Script, asked: Asked): Promise<number> {
    for (let i = 0; i < 5; i++) await ask(spoken, upstream, script, { ...asked, text: `Write file ${i}.` });
    const { whole } = ENDED_WITH[upstream]('max_tokens');
    return (await ask(spoken, upstream, answerJson(whole), { ...asked, stream: false })).status;
  }

  for (const stream of [true, false]) {
    const how = stream ? 'in streams' : 'in whole answers';
    test(`stays closed for rejections, for nonsense from models and for ends without a last event, ${how}`, async () => {
      for (const [spoken, upstream] of [
        ['messages', 'chat'],
        ['chat', 'chat'],
        ['chat', 'messages'],
      ] as const) {
        for (const word of ['SAFETY', 'MALFORMED_FUNCTION_CALL']) {
          const response = ENDED_WITH[upstream](word);
          const script = stream ? answerChunks(response.stream) : answerJson(response.whole);
          assert.equal(await statusAfter(spoken, upstream, script, { stream }), 200, `${word} ${spoken} ${upstream}`);
        }
      }
      for (const spoken of ['messages', 'chat', 'responses'] as const) {
        const script = answerChunks([...STARTED, BLOCK_STOP, messageDelta('end_turn')]);
        assert.equal(await statusAfter(spoken, 'messages', script, { stream }), 200, spoken);
      }
    });
  }

  test('stays closed for errors in responses that are about the request or the account', async () => {
    const about = { type: 'invalid_request_error', message: 'The picture is broken.' };
    const document = { id: 'c', object: 'chat.completion', error: { ...about, code: 400 } };
    const choice = { index: 0, message: SPOKEN, finish_reason: 'error', error: { ...about, code: 400 } };
    const chat = ENDED_WITH.chat('stop').whole;
    for (const [spoken, upstream, script, stream] of [
      ['messages', 'chat', answerJson(document), false],
      ['responses', 'chat', answerJson({ ...chat, choices: [choice] }), false],
      ['chat', 'chat', answerJson({ ...chat, choices: [choice] }), false],
      ['chat', 'chat', answerChunks([chunk(SPOKEN), data({ choices: [choice] })]), true],
      ['messages', 'chat', answerChunks([chunk(SPOKEN), data({ error: { ...about, code: 402 } })]), true],
      ['messages', 'messages', answerChunks([...STARTED, sse({ type: 'error', error: about })]), true],
      ['chat', 'messages', answerChunks([...STARTED, sse({ type: 'error', error: about })]), false],
      ['messages', 'messages', dropped([...STARTED, sse({ type: 'error', error: about })]), true],
    ] as const) {
      assert.equal(await statusAfter(spoken, upstream, script, { stream }), 200, `${spoken} ${upstream} ${stream}`);
    }
  });

  for (const [index, [what, spoken, upstream, script, stream]] of OPENING.entries()) {
    test(`opens for a ${upstream} upstream that ${what}, for ${spoken} clients ${stream ? 'of streams' : 'of documents'}`, async () => {
      assert.equal(await statusAfter(spoken, upstream, script, { stream, model: failing(index) }), 503);
    });
  }
});
