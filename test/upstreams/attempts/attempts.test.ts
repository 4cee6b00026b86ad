/** What comes of every failure of an upstream, without a gateway: each attempt, and what is given to the client. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { UpstreamConfig } from '../../../engine/contract/config.ts';
import { StageError } from '../../../engine/contract/errors.ts';
import type { AttemptRecord } from '../../../engine/contract/forwarding.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import type { FrozenClock } from '../../../engine/kit/clock.ts';
import { openStage, stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { mayBeBilled } from '../../../engine/upstreams/attempts/error-meaning.ts';
import { Attempts, createTarget } from '../../../engine/upstreams/index.ts';
import { createUpstreamStates } from '../../../engine/upstreams/states/upstream-states.ts';
import type { Target } from '../../../engine/upstreams/target.ts';
import type { Controller } from '../../../engine/upstreams/transports/connection.ts';
import { ReceivedAnswer } from '../../../engine/upstreams/transports/received-answer.ts';
import type { Sending } from '../../../engine/upstreams/transports/transport.ts';
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

const config = stageConfig();
const timeouts = { ...config.server.timeouts, unstreamed_first_byte_seconds: 60, idle_seconds: 60 };
const stage = openStage(forward, { config: { ...config, server: { ...config.server, timeouts } } });
const { clock, services } = stage;

/** Plays one request without a connection: what is written is what the gateway reads. */
function sendTo(play: Play | 'refuses', call: Omit<Call, 'res' | 'socket' | 'received'>): Sending {
  const { promise, resolve, reject } = Promise.withResolvers<ReceivedAnswer>();
  const failing = (code: string) => reject(Object.assign(new Error(code), { code }));
  let answer: ReceivedAnswer | undefined;
  const controller = { rawHeaders: [], pause() {}, resume() {}, abort() {} } as unknown as Controller;
  const cut = () => (answer === undefined ? failing('ECONNRESET') : answer.break(new Error('cut')));
  const res = {
    writeHead(status: number, headers: Record<string, string>) {
      answer = new ReceivedAnswer(controller, status, headers, undefined);
      resolve(answer);
    },
    write(text: string, done?: () => void) {
      answer!.take(Buffer.from(text));
      done?.();
    },
    end(text = '') {
      if (text !== '') answer!.take(Buffer.from(text));
      answer!.end();
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
      // A credential that is refused is refused at all upstreams of one address.
      const base_url = `http://127.0.0.1:9/${upstream}`;
      return [
        upstream,
        { ...target, config: { ...target.config, name: upstream, base_url }, transport: { send, close() {} } },
      ];
    }),
  );
}

/** What was said in another protocol can only be passed on at once: later its status is told. */
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
    assert.notEqual(next, undefined, 'it waits for something that never comes');
    clock.advance(next!);
  }
}

interface Outcome {
  readonly attempts: readonly AttemptRecord[];
  /** What goes to the client: the beginning of an upstream's answer, or an error of the gateway's. */
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
  const given = await passTime(attempts.serve(), clock).then(
    ({ response, begun = [] }) => ({ status: response.statusCode!, begun: Buffer.concat(begun).toString() }),
    (error: unknown) => {
      if (error instanceof StageError) return error;
      throw error;
    },
  );
  return { attempts: ctx.attempts, given };
}

const written = (attempts: readonly Attempt[]) =>
  attempts.map(({ upstream, outcome, reason }) => `${upstream} ${outcome} ${reason}`);

function check(one: Placed, { attempts, given }: Outcome): void {
  const expected = read(one);
  const found = attempts.map((attempt) => ({ ...attempt, outcome: outcomeOf(attempt) }));
  assert.deepEqual(written(found), written(expected.attempts));
  const billed = expected.attempts.map(({ possibly }) => possibly);
  assert.deepEqual(attempts.map(mayBeBilled), billed, 'which of them may be billed');
  assert.equal(given.status, expected.status);
  if (expected.answer === 'ours') {
    assert.ok(given instanceof StageError, 'it is an error of the gateway');
    return;
  }
  assert.ok(!(given instanceof StageError), 'it is the answer of an upstream');
  const { upstream } = expected.attempts.at(-1)!;
  const { speaks } = one.upstreams[one.names.indexOf(upstream)]!;
  const whole = one.stream ? eventsBy(speaks, upstream).join('') : '';
  if (expected.answer === 'theirs') assert.match(given.begun, /Refused with|You exceeded/);
  else if (expected.answer === 'error') assert.match(given.begun, /"error"/);
  else if (one.stream) assert.ok(whole.startsWith(given.begun) && given.begun !== '', given.begun);
  else assert.ok(given.begun.includes(`Served by ${upstream}.`), given.begun);
}

describe('what comes of a request', () => {
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
