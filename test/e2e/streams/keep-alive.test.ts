/** Streams with a pause: what the client receives, and that it receives nothing before its response has begun. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { createGzip } from 'node:zlib';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { bootGateway, serverSection } from '../../support/gateway.ts';
import { type Answer, eventsOf } from '../../support/model-provider/model-provider.ts';
import { answerJson, EVENT_STREAM, type Exchange } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { closing } from '../../support/use.ts';
import { bearer, messagesBody, open, readAll } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { askBody, COMBINATIONS, modelVia, nineConfig, sending } from '../support/nine.ts';
import { useGateway } from '../support/use-gateway.ts';
import { type ClientEvent, eventsIn, textIn } from './streams.ts';

/** As long as a stream may be silent before a keep-alive. */
const QUIET_MS = 15_000;

const KEEP_ALIVE: Readonly<Record<Protocol, string>> = {
  messages: 'event: ping\ndata: {"type": "ping"}\n\n',
  chat: ': keep-alive\n\n',
  responses: ': keep-alive\n\n',
};

/** Nothing else waits this long. */
const COMMIT_SECONDS = 7;

const WORDS = 'Hello — world.';
const ANSWER: Answer = { said: [{ kind: 'text', text: WORDS }] };

const clock = frozenClock(Date.now());

const { gateway, upstream } = useGateway(nineConfig, clock);

/** Requests a stream; `exchange` is the upstream's side of it. */
async function ask(spoken: Protocol, at: Protocol): Promise<{ exchange: Exchange; head: Promise<IncomingMessage> }> {
  const arrived = Promise.withResolvers<Exchange>();
  upstream.script = arrived.resolve;
  const body = JSON.stringify(askBody(spoken, modelVia(at), 'Say hello.', { stream: true }));
  const { head } = open(gateway.url, sending(spoken, gateway.token, body));
  return { exchange: await arrived.promise, head };
}

/** The received part of a response. */
function collect(response: IncomingMessage): { text: string; ended: boolean } {
  const got = { text: '', ended: false };
  response.setEncoding('utf8');
  response.on('data', (text) => (got.text += text)).on('end', () => (got.ended = true));
  return got;
}

/** The received events so far, without keep-alives. */
function heard(text: string): ClientEvent[] {
  return eventsIn(text.slice(0, text.lastIndexOf('\n\n') + 2)).filter(({ name }) => name !== 'ping');
}

for (const [spoken, at] of COMBINATIONS) {
  test(`a ${spoken} client at a ${at} upstream hears every 15 seconds of silence that its stream is alive, between events`, async () => {
    const keep_alive = KEEP_ALIVE[spoken];
    const events = eventsOf(at, ANSWER, false);
    const half = events.length - 2;
    const { exchange, head } = await ask(spoken, at);
    exchange.res.writeHead(200, [...EVENT_STREAM] as string[]);
    exchange.res.write(events.slice(0, half).join(''));
    const got = collect(await head);
    await until('the words are there', () => textIn(spoken, heard(got.text)) === WORDS);
    const before = got.text;

    clock.advance(QUIET_MS - 1);
    clock.advance(1);
    await until('a keep-alive arrives', () => got.text === before + keep_alive);
    // The client has nothing of this event yet, and nothing may be inserted into it.
    await new Promise((resolve) => exchange.res.write(events[half]!.slice(0, 9), resolve));
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(QUIET_MS);
    await until('another keep-alive arrives', () => got.text === before + keep_alive + keep_alive);
    exchange.res.end(events[half]!.slice(9) + events.slice(half + 1).join(''));
    await until('the response is over', () => got.ended);
    assert.equal(textIn(spoken, heard(got.text)), WORDS);
    if (spoken === at) assert.equal(got.text.replaceAll(keep_alive, ''), events.join(''));
  });
}

for (const spoken of ['messages', 'chat', 'responses'] as const) {
  test(`a ${spoken} client gets nothing until its upstream responds, and then the status of the response`, async () => {
    const { exchange, head } = await ask(spoken, spoken);
    let is_answered = false;
    head.then(() => (is_answered = true));
    for (let quiet = 0; quiet < 4; quiet++) {
      clock.advance(QUIET_MS);
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(is_answered, false);
    await answerJson({ type: 'error', error: { type: 'invalid_request_error', message: 'No.' } }, 400)(exchange);
    assert.equal((await readAll(await head)).status, 400);
  });
}

for (const spoken of ['messages', 'responses'] as const) {
  test(`a ${spoken} client that reads compressed events gets nothing in between them`, async () => {
    const events = eventsOf(spoken, ANSWER);
    // As far as the first word: before it streams of Responses are buffered.
    const said = events.findIndex((event) => event.includes('delta')) + 1;
    const packed = createGzip();
    const pieces: Buffer[] = [];
    packed.on('data', (piece) => pieces.push(piece));
    packed.write(events.slice(0, said).join(''));
    await new Promise<void>((resolve) => packed.flush(resolve));
    const beginning = Buffer.concat(pieces);
    packed.end(events.slice(said).join(''));
    await once(packed, 'end');
    const whole = Buffer.concat(pieces);
    const { exchange, head } = await ask(spoken, spoken);
    exchange.res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
    exchange.res.write(beginning);
    const response = await head;
    clock.advance(4 * QUIET_MS);
    exchange.res.end(whole.subarray(beginning.length));
    assert.deepEqual((await readAll(response)).body, whole);
  });
}

test('compressed events that a stage has unpacked for the client get keep-alives like any others', async () => {
  // Usage is requested in the name of a chat client, which requires a converter.
  const text = eventsOf('chat', ANSWER).join('');
  const { exchange, head } = await ask('chat', 'chat');
  exchange.res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
  const packed = createGzip();
  packed.pipe(exchange.res);
  packed.write(text.slice(0, text.indexOf('\n\n') + 2));
  packed.flush();
  const got = collect(await head);
  await until('the first event is there', () => got.text !== '');
  clock.advance(QUIET_MS);
  await until('a keep-alive arrives', () => got.text.endsWith(KEEP_ALIVE.chat));
  packed.end(text.slice(text.indexOf('\n\n') + 2));
  await until('the response is over', () => got.ended);
  assert.equal(textIn('chat', eventsIn(got.text)), WORDS);
});

test('response headers wait as long as configured for the first event, and then go to the client alone', async () => {
  const moving = movableClock();
  const server = serverSection({ timeouts: { commit_seconds: COMMIT_SECONDS } });
  await using early = closing(await bootGateway({ upstream_url: upstream.url, clock: moving, config: { server } }));
  const arrived = Promise.withResolvers<Exchange>();
  upstream.script = arrived.resolve;
  const { head } = open(early.url, { headers: bearer(early.token), body: messagesBody({ stream: true }) });
  const { res } = await arrived.promise;
  res.writeHead(200, [...EVENT_STREAM] as string[]);
  res.flushHeaders();
  await until('it waits for the first event', () => moving.begun(COMMIT_SECONDS * 1000) > 0);
  moving.advance(COMMIT_SECONDS * 1000);
  const response = await head;
  assert.equal(response.statusCode, 200);
  const events = eventsOf('messages', ANSWER, false).join('');
  res.end(events);
  assert.equal((await readAll(response)).text, events);
});
