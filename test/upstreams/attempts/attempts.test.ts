/** The outcome of every failure of an upstream, without a gateway: each attempt, and the client's response. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import zlib from 'node:zlib';
import fc from 'fast-check';
import type { UpstreamConfig } from '../../../engine/base/contract/config.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import type { AttemptRecord } from '../../../engine/base/contract/forwarding.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
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
import { type Controller, ReceivedAnswer } from '../../../engine/domain/upstreams/transports/direct-transport.ts';
import type { Sending } from '../../../engine/domain/upstreams/transports/transport.ts';
import { openStage, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import forward from '../../../stages/forward.ts';
import {
  type Attempt,
  allCasesOf,
  type Case,
  mixed,
  outcomeOf,
  type Placed,
  place,
  read,
} from '../../e2e/failover/cases.ts';
import { MIXTURES, ROWS } from '../../e2e/failover/expected.ts';
import { answers, type Call, eventsBy, type Play } from '../../support/model-provider/fault-server.ts';
import { times } from '../../support/times.ts';

const config = stageConfig();
const timeouts = { ...config.server.timeouts, non_streaming_first_byte_seconds: 60, idle_seconds: 60 };
const stage = openStage(forward, { config: { ...config, server: { ...config.server, timeouts } } });
const { clock, services } = stage;

/** Plays one request without a connection: the written bytes are the gateway's input. */
function sendTo(play: Play | 'refuses', call: Omit<Call, 'res' | 'socket' | 'received'>): Sending {
  const { promise, resolve, reject } = Promise.withResolvers<ReceivedAnswer>();
  const failing = (code: string) => reject(Object.assign(new Error(code), { code }));
  let response: ReceivedAnswer | undefined;
  const controller = { rawHeaders: [], pause() {}, resume() {}, abort() {} } as unknown as Controller;
  const cut = () => (response === undefined ? failing('ECONNRESET') : response.break(new Error('cut')));
  const res = {
    writeHead(status: number, headers: Record<string, string>) {
      response = new ReceivedAnswer(controller, status, headers, undefined);
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
    answer: promise,
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
function targetsOf({ upstreams, names, stream, model }: Placed): Map<string, Target> {
  return new Map(
    names.map((upstream, at) => {
      const { play, speaks } = upstreams[at]!;
      let nth = 0;
      const send = () => sendTo(play, { upstream, protocol: speaks, stream, model, nth: ++nth });
      const target = TARGETS[speaks];
      // A rejected credential is rejected at all upstreams of one address.
      const base_url = `http://127.0.0.1:9/${upstream}`;
      return [
        upstream,
        { ...target, config: { ...target.config, name: upstream, base_url }, transport: { send, close() {} } },
      ];
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
const CASES: readonly Case[] = [...ROWS.flatMap(allCasesOf), ...MIXTURES.map(mixed), TRANSLATED];
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
}

async function serve(one: (typeof PLACED)[number]): Promise<Outcome> {
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
  };
  const surroundings = { services: { ...services, upstreams: states }, targets, random: () => 0.5 };
  const attempts = new Attempts(ctx, surroundings);
  const input = await passTime(attempts.serve(), clock).then(
    ({ response, begun = [] }) => ({ status: response.statusCode!, begun: Buffer.concat(begun).toString() }),
    (error: unknown) => {
      if (error instanceof StageError) return error;
      throw error;
    },
  );
  return { attempts: ctx.attempts, given: input };
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

const body = (error: object) => JSON.stringify({ type: 'error', error });

describe('an error response', () => {
  const ROWS: readonly (readonly [status: number, body: string, outcome: string])[] = [
    [429, body({ type: 'rate_limit_error', message: 'slow' }), 'limited'],
    [429, '', 'limited'],
    [429, JSON.stringify({ error: { code: 'insufficient_quota', type: 'insufficient_quota' } }), 'payment'],
    [529, body({ type: 'overloaded_error' }), 'overloaded'],
    [503, '<html>', 'overloaded'],
    [500, JSON.stringify({ error: { code: 'server_is_overloaded', message: 'busy' } }), 'overloaded'],
    [500, body({ type: 'api_error' }), 'failed'],
    [520, '', 'failed'],
    [502, '', 'bad_gateway'],
    [504, '', 'bad_gateway'],
    [401, '', 'credential'],
    [402, '', 'payment'],
    [403, '', 'permission'],
    [400, body({ type: 'invalid_request_error', message: 'Your credit balance is too low to access' }), 'payment'],
    [400, JSON.stringify({ error: { code: 'model_not_found' } }), 'model_missing'],
    [404, '', 'model_missing'],
    [501, '', 'model_missing'],
    [400, body({ type: 'invalid_request_error', message: 'prompt is too long' }), 'caller'],
    [409, '', 'caller'],
    [413, '', 'caller'],
    [422, '', 'caller'],
  ];
  for (const [status, text, outcome] of ROWS) {
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

const ENCODERS = {
  identity: (bytes: Buffer) => bytes,
  gzip: (bytes: Buffer) => zlib.gzipSync(bytes),
  deflate: (bytes: Buffer) => zlib.deflateSync(bytes),
  'deflate, raw': (bytes: Buffer) => zlib.deflateRawSync(bytes),
  br: (bytes: Buffer) => zlib.brotliCompressSync(bytes),
  zstd: (bytes: Buffer) => zlib.zstdCompressSync(bytes),
} as const;

function responseOf(chunks: readonly Buffer[], encoding = 'identity'): IncomingMessage {
  const headers = {
    'content-type': 'text/event-stream',
    ...(encoding !== 'identity' && { 'content-encoding': encoding.replace(', raw', '') }),
  };
  return Object.assign(Readable.from(chunks, { objectMode: false }), { headers }) as unknown as IncomingMessage;
}

function peek(response: IncomingMessage, more: Partial<PeekOptions> = {}) {
  const clock = frozenClock(0);
  const { beginning } = new Peek(response, { until: 'event', clock, silence_seconds: 60, seconds: 15, ...more });
  return { clock, beginning };
}

async function rest(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends]
    .map((start, i) => bytes.subarray(start, ends[i] ?? bytes.length))
    .filter(({ length }) => length > 0);
}

const STREAM =
  ': hello\n\nevent: ping\ndata: {}\n\nevent: message_start\ndata: {"type":"message_start","é":"🙂"}\n\ndata: more\n\n';

describe('the beginning of a response', () => {
  test('ends with the first event with content, for any chunks and compression, and no byte is lost', async () => {
    const encodings = fc.constantFrom(...(Object.keys(ENCODERS) as (keyof typeof ENCODERS)[]));
    const text = fc.constantFrom(STREAM, STREAM.replaceAll('\n', '\r\n'), STREAM.replaceAll('\n', '\r'));
    await fc.assert(
      fc.asyncProperty(encodings, text, fc.array(fc.nat(), { maxLength: 12 }), async (encoding, stream, places) => {
        const bytes = ENCODERS[encoding](Buffer.from(stream));
        const response = responseOf(cut(bytes, places), encoding);
        const { chunks, by, event } = await peek(response).beginning;
        assert.equal(by, 'complete');
        assert.deepEqual(event, { name: 'message_start', data: '{"type":"message_start","é":"🙂"}' });
        assert.deepEqual(Buffer.concat([...chunks, await rest(response)]), bytes);
      }),
      { numRuns: times(100) },
    );
  });

  test('is the whole response without any event', async () => {
    const { chunks, by, event } = await peek(responseOf([Buffer.from(': wait\n\n')])).beginning;
    assert.deepEqual([Buffer.concat([...chunks]).toString(), by, event], [': wait\n\n', 'ended', undefined]);
    assert.equal((await peek(responseOf([])).beginning).by, 'ended');
  });

  test('is passed on when it is not read to be an event: too long, compressed wrongly or in an unknown way', async () => {
    const long = [Buffer.from('data: '), Buffer.alloc(300_000, 'x')];
    assert.equal((await peek(responseOf(long)).beginning).by, 'enough');
    assert.equal((await peek(responseOf([Buffer.from('no gzip')], 'gzip')).beginning).by, 'enough');
    assert.equal((await peek(responseOf([Buffer.from(STREAM)], 'snappy')).beginning).by, 'enough');
  });

  test('distinguishes silence from an upstream at work', async () => {
    const quiet = () => Object.assign(new Readable({ read() {} }), { headers: {} }) as unknown as IncomingMessage;
    const silent = peek(quiet(), { silence_seconds: 10 });
    silent.clock.advance(10_000);
    assert.equal((await silent.beginning).by, 'silent');
    const at_work = peek(quiet(), { silence_seconds: 60, seconds: 15 });
    at_work.clock.advance(15_000);
    assert.equal((await at_work.beginning).by, 'enough');
  });

  test('waits for content no longer than 2 seconds after a greeting', async () => {
    const response = Object.assign(new Readable({ read() {} }), { headers: {} }) as unknown as IncomingMessage &
      Readable;
    const greeted = peek(response, { until: 'content' });
    greeted.clock.advance(14_000);
    response.push('data: {"type":"response.created"}\n\n');
    await setImmediate();
    greeted.clock.advance(500);
    response.push('data: {"type":"response.in_progress"}\n\n');
    await setImmediate();
    greeted.clock.advance(500);
    assert.equal((await greeted.beginning).by, 'enough', 'and not longer than 15 in all');
    const second = Object.assign(new Readable({ read() {} }), { headers: {} }) as unknown as IncomingMessage & Readable;
    const soon = peek(second, { until: 'content' });
    second.push('data: {"type":"response.created"}\n\n');
    await setImmediate();
    soon.clock.advance(2000);
    assert.equal((await soon.beginning).by, 'enough');
  });

  test('skips preamble events where content is required, up to a limit', async () => {
    const greetings = ['message_start', 'response.created'].map((type) => `data: {"type":"${type}"}\n\n`).join('');
    const chat = 'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n';
    const said = 'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n';
    const found = await peek(responseOf([Buffer.from(greetings + chat + said)]), { until: 'content' }).beginning;
    assert.equal(found.event?.data, said.slice('data: '.length).trim());
    const failed = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n';
    const error = await peek(responseOf([Buffer.from(greetings + failed)]), { until: 'content' }).beginning;
    assert.equal(error.event?.name, 'error');
    const many = await peek(responseOf([Buffer.from(chat.repeat(70))]), { until: 'content' }).beginning;
    assert.equal(many.by, 'enough');
  });
});
