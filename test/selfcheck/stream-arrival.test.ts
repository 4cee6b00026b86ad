import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { CheckResult, Verdict } from '../../engine/base/contract/checks.ts';
import type { Arrival, Exchange } from '../../engine/base/kit/net/exchange.ts';
import { classifyArrivals, describeArrivals } from '../../engine/edge/selfcheck/arrivals.ts';
import { CHECKS } from '../../engine/edge/selfcheck/checks.ts';
import { times } from '../support/times.ts';
import { makeCheck, subjectAt } from './support.ts';

const EVENT_STREAM = { 'content-type': 'text/event-stream; charset=utf-8' };

function assertFound(result: CheckResult, verdict: Verdict, found: RegExp, remedy: RegExp = /./): void {
  const shown = JSON.stringify(result, null, 1);
  assert.equal(result.verdict, verdict, shown);
  assert.match(result.found, found, shown);
  if (verdict === 'failed' || verdict === 'warning') assert.match(result.remedy ?? '', remedy, shown);
}

async function checkWith(answer: Partial<Exchange> & Arrived): Promise<CheckResult> {
  let requests = 0;
  const ask = async () => {
    requests++;
    return { status: 200, headers: EVENT_STREAM, ending: 'whole' as const, head_ms: 1, ...answer };
  };
  const result = await makeCheck(CHECKS, 'messages.stream_arrival', subjectAt('http://127.0.0.1:1', { ask }));
  assert.equal(requests, 1);
  return result;
}

describe('how events arrive', () => {
  const made = (pieces: number, every_ms: number, thinking_ms = 0) =>
    asMade(madeEvents({ pieces, every_ms, thinking_ms }));
  const LONG = made(85, 30, 700);

  const page = { ...asMade([{ text: '<html>', at_ms: 10 }]), headers: { 'content-type': 'text/html' } };
  const sized = { ...EVENT_STREAM, 'content-length': String(LONG.body.length) };
  const all_at_once = /either a proxy buffers streams, or the model completes its response/;
  for (const [answer, verdict, found, remedy] of [
    [LONG, 'ok', /one by one/],
    [throughBuffer(LONG, 4096), 'failed', /in blocks/, /proxy_buffering off/],
    [throughBuffer(LONG, 1_000_000), 'warning', all_at_once, /--echo/],
    ...[made(7, 30, 300), made(85, 1), made(85, 0)].map((quick) => [quick, 'skipped', /inconclusive/] as const),
    [page, 'skipped', /inconclusive: .*page/],
    [{ ...LONG, headers: sized }, 'failed', /complete before its first byte was sent/],
  ] as const) {
    test(`is ${verdict}: ${found.source}`, async () => assertFound(await checkWith(answer), verdict, found, remedy));
  }
});

const RUNS = { numRuns: times(60) };

/** Streams of slow and of quick models, a second long or more. */
const streams = fc
  .record({
    pieces: fc.integer({ min: 20, max: 300 }),
    every_ms: fc.integer({ min: 10, max: 250 }),
    thinking_ms: fc.integer({ min: 0, max: 20_000 }),
    text_chars: fc.integer({ min: 1, max: 60 }),
  })
  .filter(({ pieces, every_ms }) => pieces * every_ms >= 1000);

describe('a stream that passes as it is made', () => {
  test('comes one by one at whatever pace it was made, also over a network that makes some events wait', () => {
    const delays = fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(streams, delays, fc.boolean(), (given, delays_ms, is_pace_known) => {
        const known = is_pace_known ? { made_every_ms: given.every_ms } : {};
        const made = asMade(madeEvents(given));
        for (const arrived of [made, throughNetwork(made, delays_ms)])
          assert.equal(classifyArrivals({ ...arrived, ...known }), 'one_by_one');
      }),
      RUNS,
    );
  });

  test('is not called buffered for a stop of the network in the middle of it', () => {
    const events = madeEvents({ pieces: 60, every_ms: 40 });
    const delays_ms = events.map((_, index) => (index === 20 ? 800 : 0));
    assert.equal(classifyArrivals(throughNetwork(asMade(events), delays_ms)), 'one_by_one');
    assert.equal(classifyArrivals({ ...throughNetwork(asMade(events), delays_ms), made_every_ms: 40 }), 'one_by_one');
  });
});

describe('a stream that something buffers', () => {
  test('until its end comes at once', () => {
    fc.assert(
      fc.property(streams, fc.boolean(), (given, is_pace_known) => {
        const known = is_pace_known ? { made_every_ms: given.every_ms } : {};
        const held = throughBuffer(asMade(madeEvents(given)), 1024 * 1024);
        assert.equal(classifyArrivals({ ...held, ...known }), 'at_once');
      }),
      RUNS,
    );
  });

  test('until a buffer is full comes in blocks, or at once where the buffer is as large', () => {
    const sizes = fc.constantFrom(4096, 8192, 8000, 16_384);
    fc.assert(
      fc.property(streams, sizes, fc.boolean(), (given, size_bytes, is_pace_known) => {
        const known = is_pace_known ? { made_every_ms: given.every_ms } : {};
        const made = asMade(madeEvents(given));
        const judged = classifyArrivals({ ...throughBuffer(made, size_bytes), ...known });
        if (made.body.length > 3 * size_bytes) assert.equal(judged, 'in_blocks');
        else if (made.body.length < size_bytes) assert.equal(judged, 'at_once');
        // One block and a rest behind it can be either, or too quick to tell.
        else assert.notEqual(judged, 'one_by_one');
      }),
      { numRuns: times(150) },
    );
  });

  test('comes at once although its first event came early, or the gateway made pings meanwhile', () => {
    const slow = asMade(madeEvents({ pieces: 40, every_ms: 50 }));
    const [first, ...rest] = slow.arrivals;
    const bytes = rest.reduce((sum, arrival) => sum + arrival.bytes, 0);
    assert.equal(classifyArrivals({ ...slow, arrivals: [first!, { at_ms: 2000, bytes }] }), 'at_once');
    const ping = { text: 'event: ping\ndata: {"type":"ping"}\n\n', at_ms: 0 };
    const pings = Array.from({ length: 40 }, (_, index) => ({ ...ping, at_ms: index * 100 }));
    const late = madeEvents({ pieces: 40, every_ms: 0, thinking_ms: 4100 });
    assert.equal(classifyArrivals(asMade([...pings, ...late])), 'at_once');
  });

  test('comes in blocks if it is buffered for a second at a time, or only its beginning at a known pace', () => {
    const quick = madeEvents({ pieces: 100, every_ms: 0 });
    const every_second = quick.map(({ text }, index) => ({ text, at_ms: Math.floor(index / 20) * 1200 }));
    assert.equal(classifyArrivals(asMade(every_second)), 'in_blocks');
    const steady = madeEvents({ pieces: 60, every_ms: 50 });
    const held = steady.map(({ text, at_ms }) => ({ text, at_ms: Math.max(at_ms, 1000) }));
    assert.equal(classifyArrivals({ ...asMade(held), made_every_ms: 50 }), 'in_blocks');
  });
});

test('the lines about a stream say when it came, and how much at a time', () => {
  const made = asMade(madeEvents({ pieces: 60, every_ms: 40 }));
  const [all, first] = describeArrivals(throughBuffer(made, 4096));
  assert.match(all!, /^60 events: the first after 12\d\d ms, the last after 2360 ms, the end after 2360 ms$/);
  assert.match(first!, /^12\d\d ms: \d+ events$/);
  assert.deepEqual(describeArrivals(asMade([{ at_ms: 900, text: '<html>' }])), ['no event in 900 ms']);
});

interface MadeEvent {
  readonly at_ms: number;
  readonly text: string;
}

/** Events of a Messages stream with a piece of text each, made at a steady pace after a time of thinking. */
function madeEvents(given: {
  readonly pieces: number;
  readonly every_ms: number;
  readonly thinking_ms?: number;
  readonly text_chars?: number;
}): MadeEvent[] {
  const { pieces, every_ms, thinking_ms = 0, text_chars = 20 } = given;
  return Array.from({ length: pieces }, (_, index) => {
    const text = 'x'.repeat(1 + ((index * 7) % (2 * text_chars)));
    const data = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } };
    return {
      at_ms: thinking_ms + index * every_ms,
      text: `event: content_block_delta\ndata: ${JSON.stringify(data)}\n\n`,
    };
  });
}

interface Arrived {
  readonly body: Buffer;
  readonly arrivals: readonly Arrival[];
  readonly total_ms: number;
}

function asMade(events: readonly MadeEvent[]): Arrived {
  return {
    body: Buffer.from(events.map(({ text }) => text).join('')),
    arrivals: events.map(({ at_ms, text }) => ({ at_ms, bytes: Buffer.byteLength(text) })),
    total_ms: events.at(-1)?.at_ms ?? 0,
  };
}

/** Through a buffer that is passed on when it is full, and at the end. */
function throughBuffer(stream: Arrived, size_bytes: number): Arrived {
  const arrivals: Arrival[] = [];
  let held = 0;
  for (const { at_ms, bytes } of stream.arrivals)
    for (held += bytes; held >= size_bytes; held -= size_bytes) arrivals.push({ at_ms, bytes: size_bytes });
  if (held > 0) arrivals.push({ at_ms: stream.total_ms, bytes: held });
  return { ...stream, arrivals };
}

/** In the pieces that a network makes of what is sent: several at once after a pause, or one as two that come together. */
function throughNetwork(stream: Arrived, delays_ms: readonly number[]): Arrived {
  const arrivals: Arrival[] = [];
  let last_ms = 0;
  stream.arrivals.forEach(({ at_ms, bytes }, index) => {
    last_ms = Math.max(last_ms, at_ms + (delays_ms[index % delays_ms.length] ?? 0));
    const first = Math.floor(bytes / 3);
    arrivals.push({ at_ms: last_ms, bytes: first }, { at_ms: last_ms, bytes: bytes - first });
  });
  return { ...stream, arrivals, total_ms: Math.max(stream.total_ms, last_ms) };
}
