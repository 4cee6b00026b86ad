/** How responses end: which count as whole, broken off or rejected, and what each client sees of it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { createTranslator } from '../../../engine/domain/protocols/translation/translate.ts';
import { headOf, PAIRS, raised, translate } from '../../protocols/translation/translating.ts';
import { type Answer, documentOf, eventsOf } from '../../support/model-provider/model-provider.ts';
import {
  answerChunks,
  answerJson,
  EVENT_STREAM,
  type Script,
  sse,
} from '../../support/model-provider/scripted-upstream.ts';
import { inTurn } from '../../support/times.ts';
import type { Response } from '../support/client.ts';
import { askBody, COMBINATIONS, modelVia, nineConfig, PRICING, post, useNine } from '../support/nine.ts';
import { idOf } from '../support/odd.ts';
import { ledgerRow } from '../support/state.ts';
import { eventsIn, textIn } from './streams.ts';

const nine = useNine((url) => {
  const { upstreams, ...rest } = nineConfig(url, {
    models: OPENING.map((_, i) => ({ id: failing(i) })),
    rules: OPENING.map(([, , upstream], i) => ({ name: failing(i), models: [failing(i)], upstream })),
  });
  // Breakers as they are by default: they open for what is no answer.
  return {
    ...rest,
    upstreams: (upstreams as { breaker: unknown }[]).map(({ breaker: _off, ...upstream }) => upstream),
  };
});

/** The model of an upstream of `OPENING`. */
const failing = (index: number): string => `failing-${index}`;

const HALF = 'export function half() {';
const INPUT = 100;
const OUTPUT = 40;
/** What the tokens of these answers cost, in nano-USD. */
const COST = (INPUT * PRICING.input + OUTPUT * PRICING.output) * 1000;

const USED = { input: INPUT, output: OUTPUT, cache_read: 0, cache_write: 0, reasoning: 0 };
const ANSWER: Answer = { said: [{ kind: 'text', text: HALF }], used: USED, piece: HALF.length };

const STARTED = eventsOf('messages', ANSWER).slice(0, 3);
const [BLOCK_STOP, ENDED, MESSAGE_STOP] = eventsOf('messages', ANSWER).slice(3) as [string, string, string];
const messageDelta = (stop_reason: string | null) => ENDED.replace('"end_turn"', JSON.stringify(stop_reason));

/** Data of an event of chat completions. */
const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const CHAT = documentOf('chat', ANSWER) as { readonly usage: object };
const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) =>
  data({
    id: 'c',
    object: 'chat.completion.chunk',
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
    ...more,
  });
const SPOKEN = { role: 'assistant', content: HALF };
const DONE = 'data: [DONE]\n\n';

const SAID = eventsOf('responses', ANSWER).slice(0, -1);
const responseEnd = (type: string, status: string, more: object = {}) => {
  const response = { ...documentOf('responses', ANSWER), status, ...more };
  return sse({ type: `response.${type}`, sequence_number: SAID.length, response });
};

/** An answer of an upstream, as a stream and whole, that ends with this word of its server. */
function endedWith(protocol: Protocol, word: string): { readonly stream: string[]; readonly whole: object } {
  if (protocol === 'responses') {
    const details = { incomplete_details: { reason: word } };
    const whole = { ...documentOf('responses', ANSWER), status: 'incomplete', ...details };
    return { stream: [...SAID, responseEnd('incomplete', 'incomplete', details)], whole };
  }
  const said = (text: string) => text.replace(/(?<=(?:stop|finish)_reason":)"(?:end_turn|stop)"/, JSON.stringify(word));
  const stream = eventsOf(protocol, ANSWER).map(said);
  return { stream, whole: JSON.parse(said(JSON.stringify(documentOf(protocol, ANSWER)))) };
}

/** The message of the error that a client gets in place of its answer or at its end; `undefined` for a whole answer. */
function brokenBy({ text, status, headers }: Response): string | undefined {
  if (!String(headers['content-type']).includes('event-stream'))
    return status === 200 ? undefined : JSON.parse(text).error.message;
  return errorIn(text);
}

function errorIn(stream: string): string | undefined {
  const failed = eventsIn(stream).find((event) => event.data.type === 'error' || event.data.error != null);
  return failed && (failed.data.error ?? failed.data).message;
}

/** How whole answers end. */
const WHOLE_END: Readonly<Record<Protocol, { readonly document: object; readonly stream: RegExp }>> = {
  messages: { document: { stop_reason: 'end_turn' }, stream: /"stop_reason":"end_turn".*"message_stop"[^\n]*\n\n$/s },
  chat: {
    document: { choices: [{ finish_reason: 'stop' }] },
    stream: /"finish_reason":"stop".*\ndata: \[DONE\]\n\n$/s,
  },
  responses: { document: { status: 'completed' }, stream: /"type":"response\.completed"[^\n]*\n\n$/ },
};

function assertWhole(spoken: Protocol, text: string, stream: boolean): void {
  assert.equal(textIn(spoken, stream ? eventsIn(text) : JSON.parse(text)), HALF);
  const end = WHOLE_END[spoken];
  if (stream) assert.deepEqual([errorIn(text), end.stream.test(text)], [undefined, true], text);
  else assert.partialDeepStrictEqual(JSON.parse(text), end.document);
}

/** What a client of another protocol gets of these events. */
function translated(from: Protocol, to: Protocol, events: readonly string[], stream: boolean): string {
  const converter = createTranslator(translate(from, to, stream), headOf('text/event-stream'));
  return String(converter.write(Buffer.from(events.join('')))) + converter.end();
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
  const { whole } = endedWith(upstream, 'max_tokens');
  assert.equal((await ask(upstream, upstream, answerJson(whole), { stream: false })).status, 200);
}

/** Repeated behaviours of a server that must not affect callers, each with a model of its own. */
const OPENING: readonly (readonly [what: string, Protocol, Protocol, Script, stream: boolean])[] = [
  ['loses its network', 'messages', 'chat', answerJson(endedWith('chat', 'network_error').whole), false],
  ['loses its network', 'chat', 'chat', answerChunks(endedWith('chat', 'network_error').stream), true],
  ['ends in the middle', 'messages', 'messages', answerChunks([...STARTED, BLOCK_STOP]), true],
  ['ends in the middle', 'responses', 'responses', answerChunks(SAID), true],
];

const TEXT = chunk({ content: HALF });
const STOPPED = chunk({}, 'stop', { usage: CHAT.usage });
const USAGE = data({ choices: [], usage: CHAT.usage });
const COMPLETED = responseEnd('completed', 'completed');
const ITS_ERROR = { error: { code: 'server_error', message: 'It broke.' } };
const stopped = (...events: readonly string[]) => [...STARTED, BLOCK_STOP, ...events];

/** Streams that say everything, each as some servers end it. */
const WHOLE: readonly (readonly [Protocol, how: string, events: readonly string[]])[] = [
  ['messages', 'with [DONE] instead of message_stop', stopped(ENDED, DONE)],
  ['messages', 'without message_stop', stopped(ENDED)],
  ['messages', 'with a ping instead of message_stop', stopped(ENDED, sse({ type: 'ping' }))],
  ['messages', 'without content_block_stop', [...STARTED, ENDED, MESSAGE_STOP]],
  ['messages', 'without a reason', stopped(messageDelta(null), MESSAGE_STOP)],
  ['messages', 'with a later delta that has no reason', stopped(ENDED, messageDelta(null))],
  ['messages', 'without names of events', stopped(ENDED).map((event) => event.replace(/^event: .*\n/, ''))],
  ['chat', 'without [DONE]', [TEXT, chunk({}, 'stop'), USAGE]],
  ['chat', 'with usage beside the reason', [TEXT, STOPPED]],
  ['chat', 'without a reason', [TEXT, USAGE, DONE]],
  ['chat', 'with the word null until it ends', [chunk({ content: HALF }, 'null'), STOPPED, DONE]],
  ['chat', 'without the last blank line', [TEXT, STOPPED.trimEnd()]],
  ['chat', 'with other ends of lines', [TEXT, STOPPED, DONE].map((event) => event.replaceAll('\n', '\r\n'))],
  ['responses', 'with response.completed', [...SAID, COMPLETED]],
  ['responses', 'with response.done', [...SAID, responseEnd('done', 'completed')]],
  ['responses', 'with [DONE] behind it', [...SAID, COMPLETED, DONE]],
];

/** Streams that lack something. */
const INTERRUPTED: readonly (readonly [Protocol, how: string, events: readonly string[]])[] = [
  ['messages', 'before its reason', stopped()],
  ['messages', 'before its reason, with [DONE]', stopped(DONE)],
  ['messages', 'with a delta without a reason', stopped(messageDelta(null))],
  ['messages', 'with an end of nothing', [STARTED[0]!, messageDelta(null), MESSAGE_STOP]],
  ['messages', 'inside an event', stopped(ENDED.slice(0, 60))],
  ['chat', 'before its reason', [TEXT]],
  ['chat', 'with an end of nothing', [chunk({ role: 'assistant' }), DONE]],
  ['responses', 'before response.completed', SAID],
  ['responses', 'with response.done that failed', [...SAID, responseEnd('done', 'failed', ITS_ERROR)]],
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
      const got = await ask(upstream, upstream, answerChunks(events), { stream: true });
      assert.deepEqual([got.status, got.text], [200, events.join('')]);
      assert.equal((await ledgerRow(nine.gateway.database, idOf(got))).cost_nano_usd, COST);
      for (const { from } of PAIRS.filter(({ to }) => to === upstream)) {
        for (const stream of [true, false]) assertWhole(from, translated(from, upstream, events, stream), stream);
      }
    });
  }

  for (const [upstream, how, events] of INTERRUPTED) {
    test(`of a ${upstream} upstream that ends ${how} is broken for every client of another protocol`, async () => {
      for (const { from } of PAIRS.filter(({ to }) => to === upstream)) {
        assert.throws(() => translated(from, upstream, events, false), raised('upstream_failed'));
        if (how.includes('response.done')) assert.match(translated(from, upstream, events, true), /"error"/);
        else assert.throws(() => translated(from, upstream, events, true), raised('upstream_failed'));
      }
    });
  }

  test('whose connection breaks after its last event is whole, and one that breaks before it is not', async () => {
    for (const [spoken, upstream] of COMBINATIONS) {
      for (const stream of spoken === upstream ? [true] : [true, false]) {
        const events = eventsOf(upstream, ANSWER);
        const got = await ask(spoken, upstream, dropped(events), { stream });
        assert.deepEqual([got.status, brokenBy(got)], [200, undefined], got.text);
        if (spoken === upstream) assert.equal(got.text, events.join(''));
        else assertWhole(spoken, got.text, stream);
        assert.equal((await ledgerRow(nine.gateway.database, idOf(got))).cost_nano_usd, COST);
        const cut = await ask(spoken, upstream, dropped(events.slice(0, upstream === 'chat' ? 2 : 3)), { stream });
        assert.notEqual(brokenBy(cut), undefined, cut.text);
        await heal(upstream);
      }
    }
  });
});

const FULL = { message: 'The disk is full.' };
const OF_MESSAGES = { type: 'error', error: { type: 'api_error', ...FULL } };
const OF_CHAT = { error: { ...FULL, code: 502 } };
const OF_RESPONSES = { code: 'server_error', ...FULL };

/** Errors with which upstreams end a stream, as the last event before the connection closes. */
const SAID_WRONG: readonly (readonly [Protocol, how: string, event: string])[] = [
  ['messages', 'an error', sse(OF_MESSAGES)],
  ['messages', 'an error without a name', data(OF_MESSAGES)],
  ['chat', 'a chunk that is an error', data(OF_CHAT)],
  ['chat', 'an error in a list of choices', chunk({}, 'error', OF_CHAT)],
  ['chat', 'an event called error', `event: error\n${data(FULL)}`],
  ['responses', 'response.failed', responseEnd('failed', 'failed', { error: OF_RESPONSES })],
  ['responses', 'an error', sse({ type: 'error', ...OF_RESPONSES, param: null })],
];

describe('a stream that reports an error', () => {
  const before: Readonly<Record<Protocol, readonly string[]>> = {
    messages: STARTED,
    chat: [chunk(SPOKEN)],
    responses: SAID.slice(0, 5),
  };
  const ends = { dropped, ended: answerChunks };
  for (const [upstream, how, event] of SAID_WRONG) {
    test(`with ${how} of a ${upstream} upstream reports it, and no other, however it ends`, async () => {
      const events = [...before[upstream], event];
      for (const [spoken] of COMBINATIONS.filter(([, one]) => one === upstream)) {
        for (const [place, [end, script]] of Object.entries(ends).entries()) {
          for (const stream of spoken === upstream ? [true] : inTurn([true, false], place)) {
            const got = await ask(spoken, upstream, script(events), { stream });
            if (spoken === upstream) assert.equal(got.text, events.join(''), end);
            else assert.equal(brokenBy(got), FULL.message, `${spoken} ${end} ${got.text}`);
            assert.doesNotMatch(got.text, /dropped the connection/);
            await heal(upstream);
          }
        }
      }
    });
  }
});

describe('a breaker', () => {
  /** Sends as many requests as a breaker tolerates, and then one more for a whole response. */
  async function statusAfter(spoken: Protocol, upstream: Protocol, script: Script, asked: Asked): Promise<number> {
    for (let i = 0; i < 5; i++) await ask(spoken, upstream, script, { ...asked, text: `Write file ${i}.` });
    const { whole } = endedWith(upstream, 'max_tokens');
    return (await ask(spoken, upstream, answerJson(whole), { ...asked, stream: false })).status;
  }

  test('stays closed for errors in responses that are about the request or the account', async () => {
    const about = { type: 'invalid_request_error', message: 'The picture is broken.' };
    const document = { id: 'c', object: 'chat.completion', error: { ...about, code: 400 } };
    const choice = { index: 0, message: SPOKEN, finish_reason: 'error', error: { ...about, code: 400 } };
    for (const [spoken, upstream, script, stream] of [
      ['messages', 'chat', answerJson(document), false],
      ['responses', 'chat', answerJson({ ...CHAT, choices: [choice] }), false],
      ['chat', 'chat', answerJson({ ...CHAT, choices: [choice] }), false],
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
