/** The outcome of every failure of an upstream, without a gateway: each attempt, and the client's response. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { UpstreamConfig } from '../../../engine/base/contract/config.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import type { AttemptRecord } from '../../../engine/base/contract/forwarding.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import { isPreamble } from '../../../engine/domain/protocols/index.ts';
import { errorOfEvent, readError, statusOf } from '../../../engine/domain/protocols/read-error.ts';
import {
  mayBeBilled,
  outcomeOf as outcomeOfStatus,
  Peek,
  type PeekOptions,
} from '../../../engine/domain/upstreams/attempts/attempt.ts';
import { Attempts, createTarget } from '../../../engine/domain/upstreams/index.ts';
import { createUpstreamStates } from '../../../engine/domain/upstreams/states/upstream-states.ts';
import type { Target } from '../../../engine/domain/upstreams/target.ts';
import { type Controller, ReceivedResponse } from '../../../engine/domain/upstreams/transports/direct-transport.ts';
import type { Sending } from '../../../engine/domain/upstreams/transports/transport.ts';
import { openStage, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import forward from '../../../stages/forward.ts';
import {
  answers,
  type Call,
  errorEvent,
  eventsBy,
  hangs,
  type Play,
  resets,
  serves,
} from '../../support/model-provider/fault-server.ts';
import { type Attempt, allCasesOf, type Case, mixed, outcomeOf, type Placed, place, read } from './cases.ts';
import { MIXTURES, ROWS } from './expected.ts';

const config = stageConfig();
const timeouts = {
  ...config.server.timeouts,
  non_streaming_first_byte_seconds: 60,
  idle_seconds: 60,
  commit_seconds: 1000,
};
const stage = openStage(forward, { config: { ...config, server: { ...config.server, timeouts } } });
const { clock, services } = stage;

/** Plays one request without a connection: the written bytes are the gateway's input. */
function sendTo(play: Play | 'refuses', call: Omit<Call, 'res' | 'socket' | 'received'>): Sending {
  const { promise, resolve, reject } = Promise.withResolvers<ReceivedResponse>();
  const failing = (code: string) => reject(Object.assign(new Error(code), { code }));
  let response: ReceivedResponse | undefined;
  const controller = { rawHeaders: [], pause() {}, resume() {}, abort() {} } as unknown as Controller;
  const cut = () => (response === undefined ? failing('ECONNRESET') : response.break(new Error('cut')));
  const res = {
    writeHead(status: number, headers: Record<string, string>) {
      response = new ReceivedResponse(controller, status, headers, undefined);
      resolve(response);
    },
    write(text: string, done?: () => void) {
      response!.take(Buffer.from(text));
      done?.();
    },
    end(text = '') {
      if (text !== '') response!.take(Buffer.from(text));
      response!.end();
    },
  };
  if (play === 'refuses') failing('ECONNREFUSED');
  else void play({ ...call, res, socket: { destroy: cut, resetAndDestroy: cut } } as unknown as Call);
  const is_sent = play !== 'refuses';
  return {
    response: promise,
    attempts: is_sent ? 1 : 0,
    resent: undefined,
    body_is_sent: is_sent,
    abandon: reject,
    release: reject,
    late: () => promise,
    forgetBody() {},
  };
}

const TARGETS = Object.fromEntries(
  PROTOCOLS.map((protocol) => {
    const [vendor] = config.upstreams;
    const upstream: UpstreamConfig = { ...vendor!, type: 'compat', protocols: [protocol] };
    const target = createTarget(upstream, services);
    target.transport.close();
    return [protocol, { ...target, drain: undefined }];
  }),
) as Readonly<Record<Protocol, Target>>;

/** The upstreams of a case, each playing its part. */
function targetsOf({ upstreams, names, stream, model, greets }: Placed): Map<string, Target> {
  return new Map(
    names.map((upstream, at) => {
      const { play, speaks } = upstreams[at]!;
      let nth = 0;
      const send = () => sendTo(play, { upstream, protocol: speaks, stream, model, nth: ++nth });
      const target = TARGETS[speaks];
      // A rejected credential is rejected at all upstreams of one address.
      const base_url = `http://127.0.0.1:9/${upstream}`;
      const commit_after = greets ? 'first_content' : 'first_event';
      const config: UpstreamConfig = { ...target.config, name: upstream, base_url, commit_after };
      return [upstream, { ...target, config, transport: { send, close() {} } }];
    }),
  );
}

/** What was said in another protocol can only be passed on at once: later its status is used. */
const TRANSLATED: Case = {
  ...mixed(MIXTURES.find(({ what }) => what === '429 before 500')!),
  what: 'in the end: 429 of another protocol before 500',
  upstreams: [
    { play: answers(429), speaks: 'chat' },
    { play: answers(500), speaks: 'messages' },
  ],
  expected: 'a 429 next_limited, b 500? exhausted => 429 ours',
};

const FAILED = errorEvent('messages', { status: 500, message: 'Failed' });
const BROKE_OFF = 'data: {"type":"message_delta","delta":{"stop_reason":"network_error"},"usage":{"output_tokens":1}}';
/** A stream whose first event says nothing yet is not passed on before the next one. */
const GREETED = (
  [
    ['an error', 'responses', errorEvent('responses', { status: 500, message: 'No.', code: 'server_error' }, 1), '500'],
    ['nothing', 'responses', undefined, '200'],
    ['an error', 'messages', FAILED, '500'],
    ['an end that says so', 'messages', `event: message_delta\n${BROKE_OFF}\n\n`, '502'],
    ['such an end without its blank line', 'messages', `event: message_delta\n${BROKE_OFF}`, '502'],
  ] as const
).map(([what, spoken, end, status]): Case => {
  const play: Play = ({ res, socket, upstream }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(eventsBy(spoken, upstream)[0]!);
    if (end === undefined) socket.destroy();
    else res.end(end);
  };
  const upstreams = [play, serves].map((each) => ({ play: each, speaks: spoken }));
  const expected = `a ${status}? next_failed, b 200 served => 200 whole`;
  return { what: `greets, then ${what}`, name: spoken, spoken, stream: true, upstreams, expected, greets: true };
});

const ODD = (
  [
    [
      'other line ends, a byte order mark',
      'text/event-stream',
      `\ufeff${FAILED.replaceAll('\n', '\r\n')}`,
      '500? next_failed',
    ],
    ['an error with status 200', 'application/json', FAILED.split('data: ')[1]!, '500? next_failed'],
    ['silence after the head', 'text/event-stream', undefined, '200? next_unconfirmed'],
  ] as const
).map(([what, type, text, first]): Case => {
  const expected = `a ${first}, b 200 served => 200 whole`;
  const play: Play = ({ res }) => {
    res.writeHead(200, { 'content-type': type });
    if (text !== undefined) res.end(text);
  };
  return { ...mixed({ what, plays: [play, serves], expected }), stream: true };
});

const LIMITED = (
  [
    [{ unconfirmed: false }, [resets, serves], 'a unknown? exhausted => 502 ours'],
    [{ unconfirmed: false }, [answers(504), serves], 'a 504? exhausted => 504 theirs'],
    [{ unconfirmed: false }, [answers(500), serves], 'a 500? next_failed, b 200 served => 200 whole'],
    [{ seconds: 90 }, [hangs, hangs, serves], 'a unknown? next_unconfirmed, b unknown? too_late => 502 ours'],
  ] as const
).map(([attempts, plays, expected]) => ({ ...mixed({ what: JSON.stringify(attempts), plays, expected }), attempts }));

const CASES: readonly Case[] = [
  ...ROWS.flatMap(allCasesOf),
  ...MIXTURES.map(mixed),
  TRANSLATED,
  ...GREETED,
  ...ODD,
  ...LIMITED,
];
const PLACED = [...place(CASES).values()].map((one) => ({ ...one, targets: targetsOf(one) }));
const upstreams = PLACED.flatMap(({ targets }) => [...targets.values()].map((target) => target.config));
const states = createUpstreamStates({ upstreams, clock, log: services.log, random: () => 0.5 });

/** Moves the clock on whenever a request waits for it. */
async function passTime<T>(work: Promise<T>, clock: FrozenClock): Promise<T> {
  let is_over = false;
  const end = () => {
    is_over = true;
  };
  work.then(end, end);
  for (;;) {
    await setImmediate();
    if (is_over) return work;
    const next = clock.next();
    assert.notEqual(next, undefined, 'it waits for an event that never happens');
    clock.advance(next!);
  }
}

interface Outcome {
  readonly attempts: readonly AttemptRecord[];
  /** The client's output: the beginning of an upstream's response, or an error of the gateway's. */
  readonly given: { readonly status: number; readonly begun: string } | StageError;
  readonly dropped: readonly string[] | undefined;
}

/** What happens while the request is prepared for the next upstream. */
interface Meanwhile {
  readonly cancel_reason?: StageError;
  readonly refusal?: StageError;
}

async function serve(one: (typeof PLACED)[number], { cancel_reason, refusal }: Meanwhile = {}): Promise<Outcome> {
  const { spoken, stream, names, model, targets, headers = [] } = one;
  const ctx = stage.request({
    facts: {
      'request.id': 'req_1',
      'request.protocol': spoken,
      'request.model': model,
      'request.stream': stream,
      'route.upstream': names[0]!,
      'route.upstream_model': model,
    },
    headers: Object.fromEntries(headers.map((name, i) => [name, headers[i + 1]!]).filter((_, i) => i % 2 === 0)),
    body: JSON.stringify({ model }),
  });
  ctx.candidates = [...targets.values()].map((target) => ({
    upstream: target.config,
    upstream_model: model,
    facts: {},
  }));
  ctx.prepareAttempt = () => {
    // As if it had been translated for this upstream.
    ctx.body!.replaced = true;
    if (ctx.attempts.length === 0) return;
    if (refusal !== undefined) throw refusal;
    if (cancel_reason !== undefined) Object.assign(ctx, { cancel_reason });
  };
  const routing = { ...services.config.routing };
  routing.attempts = { ...routing.attempts, ...one.attempts };
  const own = { ...services, config: { ...services.config, routing }, upstreams: states };
  const surroundings = { services: own, targets, random: () => 0.5 };
  const attempts = new Attempts(ctx, surroundings);
  const input = await passTime(attempts.serve(), clock).then(
    ({ response, begun = [] }) => ({ status: response.statusCode!, begun: Buffer.concat(begun).toString() }),
    (error: unknown) => {
      if (error instanceof StageError) return error;
      throw error;
    },
  );
  return { attempts: ctx.attempts, given: input, dropped: ctx.peek('route.dropped') };
}

const written = (attempts: readonly Attempt[]) =>
  attempts.map(({ upstream, outcome, reason }) => `${upstream} ${outcome} ${reason}`);

function check(one: Placed, { attempts, given }: Outcome): void {
  const expected = read(one);
  const found = attempts.map((attempt) => ({ ...attempt, outcome: outcomeOf(attempt) }));
  assert.deepEqual(written(found), written(expected.attempts));
  const billed = expected.attempts.map(({ possibly }) => possibly);
  assert.deepEqual(attempts.map(mayBeBilled), billed, 'the possibly billed ones');
  assert.equal(given.status, expected.status);
  if (expected.answer === 'ours') {
    assert.ok(given instanceof StageError, 'it is an error of the gateway');
    return;
  }
  assert.ok(!(given instanceof StageError), 'it is the response of an upstream');
  const { upstream } = expected.attempts.at(-1)!;
  const { speaks } = one.upstreams[one.names.indexOf(upstream)]!;
  const whole = one.stream ? eventsBy(speaks, upstream).join('') : '';
  if (expected.answer === 'theirs') assert.match(given.begun, /Refused with|You exceeded/);
  else if (expected.answer === 'error') assert.match(given.begun, /"error"/);
  else if (one.stream) assert.ok(whole.startsWith(given.begun) && given.begun !== '', given.begun);
  else assert.ok(given.begun.includes(`Served by ${upstream}.`), given.begun);
}

describe('the outcome of a request', () => {
  for (const [what, placed] of Map.groupBy(PLACED, (one) => one.what)) {
    test(what, async () => {
      for (const one of placed) {
        const outcome = await serve(one);
        try {
          check(one, outcome);
        } catch (error) {
          throw new Error(`${one.name}: ${(error as Error).message}`, { cause: error });
        }
      }
    });
  }
});

/** A case of `expected.ts` by its row and the end of its name. */
const placedAs = (row: string, route: string) => PLACED.find(({ what, name }) => what === row && name.endsWith(route))!;
const reasonsOf = ({ attempts }: Outcome) => attempts.map(({ reason }) => reason);

test('a request that is given up while it is prepared for the next upstream goes no further', async () => {
  const draining = new StageError('draining', 'The gateway is stopping.');
  const outcome = await serve(placedAs('fails with 500', 'first of two'), { cancel_reason: draining });
  assert.equal(outcome.given, draining);
  assert.deepEqual(reasonsOf(outcome), ['gone']);
});

test('an upstream whose limits cannot be read is dropped for that, and not for a limit', async () => {
  const away = new StageError('store_unavailable', 'The gateway cannot use its database.');
  const outcome = await serve(placedAs('fails with 500', 'first of two'), { refusal: away });
  assert.deepEqual(outcome.dropped, [`${placedAs('fails with 500', 'first of two').names[1]}: store_unavailable`]);
});

test('an upstream whose retry budget is used up gets no request twice', async () => {
  const busy = placedAs('is overloaded (529)', 'first of two');
  const [name] = busy.names;
  // The budget grows with the requests in flight, which are the responses that other tests have not read.
  const taken = Array.from({ length: 3 + states.active(name!) }, () => states.takeRetry(name!));
  assert.deepEqual(reasonsOf(await serve(busy)), ['next_overloaded', 'served']);
  for (const giveBack of taken) giveBack?.();
});

test('clients do not retry where each upstream may be at work on the request: it would be billed again', async () => {
  for (const [row, hint] of [
    ['never answers', 'false'],
    ['fails with 500', undefined],
  ] as const) {
    const { given } = await serve(placedAs(row, 'all three'));
    assert.ok(given instanceof StageError);
    assert.equal(given.headers['x-should-retry'], hint);
    assert.equal(/a retry may be billed too/.test(given.message), hint === 'false');
  }
});

const body = (error: object) => JSON.stringify({ type: 'error', error });

describe('an error response', () => {
  for (const [status, text, outcome] of [
    [520, '', 'failed'],
    [400, body({ type: 'invalid_request_error', message: 'Your credit balance is too low to access' }), 'payment'],
    [400, JSON.stringify({ error: { code: 'model_not_found' } }), 'model_missing'],
    [400, body({ type: 'invalid_request_error', message: 'prompt is too long' }), 'caller'],
  ] as const) {
    test(`${status} ${text.slice(0, 60)} is ${outcome}`, () =>
      assert.equal(outcomeOfStatus(status, readError(text)), outcome));
  }
});

describe('an error in a stream', () => {
  const ROWS: readonly (readonly [name: string, data: object, status: number])[] = [
    ['error', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 529],
    ['error', { type: 'error', error: { type: 'api_error' } }, 500],
    ['error', { type: 'error', error: { type: 'rate_limit_error' } }, 429],
    ['error', { type: 'error', error: { type: 'invalid_request_error' } }, 400],
    ['message', { error: { code: 429, message: 'upstream limited' } }, 429],
    ['message', { error: { code: 'rate_limit_exceeded', type: 'requests' } }, 429],
    ['message', { error: { code: null, type: 'server_error' } }, 500],
    ['message', { error: { code: 'context_length_exceeded', type: 'invalid_request_error' } }, 400],
    ['error', { type: 'error', code: 'server_is_overloaded', message: 'busy' }, 503],
    ['response.failed', { type: 'response.failed', response: { error: { code: 'server_error' } } }, 500],
    ['response.failed', { type: 'response.failed', response: { error: { code: 'insufficient_quota' } } }, 402],
    ['response.failed', { type: 'response.failed', response: { error: { code: 'image_parse_error' } } }, 400],
    ['response.failed', { type: 'response.failed', response: { error: { code: 'cyber_policy' } } }, 400],
    ['error', {}, 500],
  ];
  for (const [name, data, status] of ROWS) {
    test(`${name} ${JSON.stringify(data).slice(0, 70)} means ${status}`, () => {
      assert.equal(statusOf(errorOfEvent(name, JSON.stringify(data))!), status);
    });
  }

  test('is none where a response only mentions errors', () => {
    const said = {
      type: 'content_block_delta',
      delta: { type: 'text_delta', text: '{"error": {"type": "api_error"}}' },
    };
    assert.equal(errorOfEvent('content_block_delta', JSON.stringify(said)), undefined);
    const created = { type: 'response.created', response: { error: null, status: 'in_progress' } };
    assert.equal(errorOfEvent('response.created', JSON.stringify(created)), undefined);
    assert.equal(errorOfEvent('message', JSON.stringify({ choices: [], error: null })), undefined);
  });

  test('with any content is read without a failure', () => {
    fc.assert(
      fc.property(fc.string(), fc.json(), (name, json) => {
        const said = errorOfEvent(name, json);
        if (said !== undefined) assert.notEqual(outcomeOfStatus(statusOf(said), said), 'answered');
      }),
    );
  });
});

function responseOf(chunks: readonly Buffer[], encoding?: string): IncomingMessage {
  const headers = { 'content-type': 'text/event-stream', 'content-encoding': encoding };
  return Object.assign(Readable.from(chunks, { objectMode: false }), { headers }) as unknown as IncomingMessage;
}

function peek(response: IncomingMessage, more: Partial<PeekOptions> = {}) {
  const clock = frozenClock(0);
  const { beginning } = new Peek(response, { until: 'event', clock, silence_seconds: 60, seconds: 15, ...more });
  return { clock, beginning };
}

/** A response that says nothing by itself. */
const quiet = () =>
  Object.assign(new Readable({ read() {} }), { headers: {} }) as unknown as IncomingMessage & Readable;

describe('the beginning of a response', () => {
  test('is passed on when it is not read to be an event: too long, compressed wrongly or in an unknown way', async () => {
    const long = [Buffer.from('data: '), Buffer.alloc(300_000, 'x')];
    assert.equal((await peek(responseOf(long)).beginning).by, 'enough');
    assert.equal((await peek(responseOf([Buffer.from('no gzip')], 'gzip')).beginning).by, 'enough');
    assert.equal((await peek(responseOf([Buffer.from('data: {}\n\n')], 'snappy')).beginning).by, 'enough');
  });

  test('distinguishes silence from an upstream at work', async () => {
    const silent = peek(quiet(), { silence_seconds: 10 });
    silent.clock.advance(10_000);
    assert.equal((await silent.beginning).by, 'silent');
    const at_work = peek(quiet(), { silence_seconds: 60, seconds: 15 });
    at_work.clock.advance(15_000);
    assert.equal((await at_work.beginning).by, 'enough');
  });

  test('waits for content no longer than 2 seconds after a greeting', async () => {
    const response = quiet();
    const greeted = peek(response, { until: 'content' });
    greeted.clock.advance(14_000);
    response.push('data: {"type":"response.created"}\n\n');
    await setImmediate();
    greeted.clock.advance(500);
    response.push('data: {"type":"response.in_progress"}\n\n');
    await setImmediate();
    greeted.clock.advance(500);
    assert.equal((await greeted.beginning).by, 'enough', 'and not longer than 15 in all');
    const second = quiet();
    const soon = peek(second, { until: 'content' });
    second.push('data: {"type":"response.created"}\n\n');
    await setImmediate();
    soon.clock.advance(2000);
    assert.equal((await soon.beginning).by, 'enough');
  });

  test('skips preamble events where content is required, also compressed ones, up to a limit', async () => {
    const greetings = ['message_start', 'response.created'].map((type) => `data: {"type":"${type}"}\n\n`).join('');
    const chat = 'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n';
    const said = 'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n';
    const found = await peek(responseOf([Buffer.from(greetings + chat + said)]), { until: 'content' }).beginning;
    assert.equal(found.event?.data, said.slice('data: '.length).trim());
    const failed = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n';
    const packed = responseOf([gzipSync(greetings + failed)], 'gzip');
    const error = await peek(packed, { until: 'content' }).beginning;
    assert.equal(error.event?.name, 'error');
    const many = await peek(responseOf([Buffer.from(chat.repeat(70))]), { until: 'content' }).beginning;
    assert.equal(many.by, 'enough');
  });

  for (const [choices, is_preamble] of [
    ['[]', true],
    ['[{}]', true],
    ['[{"delta":null}]', true],
    ['[null]', false],
    ['["x"]', false],
    ['[[]]', false],
  ] as const) {
    test(`with the choices ${choices} is ${is_preamble ? '' : 'not '}preamble`, () =>
      assert.equal(isPreamble('', `{"choices":${choices}}`), is_preamble));
  }
});
