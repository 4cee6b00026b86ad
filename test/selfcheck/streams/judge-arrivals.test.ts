import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { judgeArrivals, tellArrivals } from '../../../engine/selfcheck/arrivals.ts';
import { times } from '../../support/times.ts';
import { asMade, madeEvents, throughBuffer, throughNetwork } from './simulated-stream.ts';

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
  test('comes one by one, at whatever pace it was made and however long it was thought about', () => {
    fc.assert(
      fc.property(streams, fc.boolean(), (given, is_pace_known) => {
        const known = is_pace_known ? { made_every_ms: given.every_ms } : {};
        assert.equal(judgeArrivals({ ...asMade(madeEvents(given)), ...known }), 'one_by_one');
      }),
      RUNS,
    );
  });

  test('comes one by one over a network that makes some events wait for others', () => {
    fc.assert(
      fc.property(
        streams,
        fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 9 }),
        fc.boolean(),
        (given, delays_ms, is_pace_known) => {
          const known = is_pace_known ? { made_every_ms: given.every_ms } : {};
          const arrived = throughNetwork(asMade(madeEvents(given)), delays_ms);
          assert.equal(judgeArrivals({ ...arrived, ...known }), 'one_by_one');
        },
      ),
      RUNS,
    );
  });

  test('is not called held back for a stop of the network in the middle of it', () => {
    const events = madeEvents({ pieces: 60, every_ms: 40 });
    const delays_ms = events.map((_, index) => (index === 20 ? 800 : 0));
    assert.equal(judgeArrivals(throughNetwork(asMade(events), delays_ms)), 'one_by_one');
    assert.equal(judgeArrivals({ ...throughNetwork(asMade(events), delays_ms), made_every_ms: 40 }), 'one_by_one');
  });
});

describe('a stream that something holds back', () => {
  test('until its end comes at once', () => {
    fc.assert(
      fc.property(streams, fc.boolean(), (given, is_pace_known) => {
        const known = is_pace_known ? { made_every_ms: given.every_ms } : {};
        const held = throughBuffer(asMade(madeEvents(given)), 1024 * 1024);
        assert.equal(judgeArrivals({ ...held, ...known }), 'at_once');
      }),
      RUNS,
    );
  });

  test('until a buffer is full comes in blocks, or at once where the buffer is as large', () => {
    const sizes = fc.constantFrom(1024, 4096, 8192, 8000, 16_384);
    fc.assert(
      fc.property(streams, sizes, fc.boolean(), (given, size_bytes, is_pace_known) => {
        const known = is_pace_known ? { made_every_ms: given.every_ms } : {};
        const made = asMade(madeEvents(given));
        const judged = judgeArrivals({ ...throughBuffer(made, size_bytes), ...known });
        if (made.body.length > 3 * size_bytes) assert.equal(judged, 'in_blocks');
        else if (made.body.length < size_bytes) assert.equal(judged, 'at_once');
        // One block and a rest behind it can be either, or too quick to tell.
        else assert.notEqual(judged, 'one_by_one');
      }),
      { numRuns: times(150) },
    );
  });

  test('comes at once although its first event came early', () => {
    const events = madeEvents({ pieces: 40, every_ms: 50 });
    const [first, ...rest] = asMade(events).arrivals;
    const bytes = rest.reduce((sum, arrival) => sum + arrival.bytes, 0);
    const arrivals = [first!, { at_ms: 2000, bytes }];
    assert.equal(judgeArrivals({ ...asMade(events), arrivals }), 'at_once');
  });

  test('comes at once although the gateway made pings meanwhile', () => {
    const ping = { text: 'event: ping\ndata: {"type":"ping"}\n\n', at_ms: 0 };
    const pings = Array.from({ length: 40 }, (_, index) => ({ ...ping, at_ms: index * 100 }));
    const rest = madeEvents({ pieces: 40, every_ms: 0, thinking_ms: 4100 });
    assert.equal(judgeArrivals(asMade([...pings, ...rest])), 'at_once');
  });

  test('for a second at a time comes in blocks, also where no event is cut', () => {
    const events = madeEvents({ pieces: 100, every_ms: 0 });
    const every_second = events.map(({ text }, index) => ({ text, at_ms: Math.floor(index / 20) * 1200 }));
    assert.equal(judgeArrivals(asMade(every_second)), 'in_blocks');
  });

  test('only at its beginning is in blocks where its pace is known', () => {
    const events = madeEvents({ pieces: 60, every_ms: 50 });
    const held = events.map(({ text, at_ms }) => ({ text, at_ms: Math.max(at_ms, 1000) }));
    assert.equal(judgeArrivals({ ...asMade(held), made_every_ms: 50 }), 'in_blocks');
  });
});

describe('a stream that says nothing about it', () => {
  test('is unclear: one that is short, that is quick, that is no stream at all', () => {
    const unclear = [
      asMade(madeEvents({ pieces: 5, every_ms: 300 })),
      asMade(madeEvents({ pieces: 100, every_ms: 1 })),
      asMade(madeEvents({ pieces: 100, every_ms: 0 })),
      asMade(madeEvents({ pieces: 100, every_ms: 1, thinking_ms: 5000 })),
      asMade([]),
      asMade([{ at_ms: 900, text: '<html>'.repeat(900) }]),
    ];
    assert.deepEqual(
      unclear.map(judgeArrivals),
      unclear.map(() => 'unclear'),
    );
  });

  test('whatever its bytes and times are, there is a judgement and a few lines about it', () => {
    const pieces = fc.constantFrom(
      'data: {}',
      '\n',
      '\r',
      '\r\n',
      '\n\n',
      'event: ping\n',
      ': x',
      'data:',
      '\u{1f600}',
      'x',
    );
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.array(pieces, { maxLength: 8 }), fc.integer({ min: 0, max: 500 }))),
        fc.option(fc.integer({ min: 1, max: 500 }), { nil: undefined }),
        (made, made_every_ms) => {
          let at_ms = 0;
          const events = made.map(([texts, wait_ms]) => {
            at_ms += wait_ms;
            return { text: texts.join(''), at_ms };
          });
          const stream = asMade(events);
          const given = { ...stream, ...(made_every_ms === undefined ? {} : { made_every_ms }) };
          assert.match(judgeArrivals(given), /^(one_by_one|at_once|in_blocks|unclear)$/);
          assert.ok(tellArrivals(given).length <= 7);
        },
      ),
      RUNS,
    );
  });
});

test('the lines about a stream say when it came, and in how large pieces', () => {
  const made = asMade(madeEvents({ pieces: 60, every_ms: 40 }));
  const [all, first] = tellArrivals(throughBuffer(made, 4096));
  assert.match(all!, /^60 events: the first after 12\d\d ms, the last after 2360 ms, the end after 2360 ms$/);
  assert.match(first!, /^12\d\d ms: \d+ events in 4096 bytes, the last one cut$/);
});
