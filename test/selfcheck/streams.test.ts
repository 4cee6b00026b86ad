import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { CheckResult, Verdict } from '../../engine/contract/checks.ts';
import type { Exchange } from '../../engine/kit/net/exchange.ts';
import { STREAM_CHECKS } from '../../engine/selfcheck/checks/streams.ts';
import { VOICES } from '../../engine/selfcheck/echo/answers.ts';
import { readStream } from '../../engine/selfcheck/messages/stream-events.ts';
import type { Ask } from '../../engine/selfcheck/subject.ts';
import { buffersInBlocks, buffersWhole, compresses, passesOn } from '../support/proxies/behaviours.ts';
import { type Behaviour, startProxy } from '../support/proxies/proxy.ts';
import { times } from '../support/times.ts';
import { asMade, throughBuffer } from './streams/simulated-stream.ts';
import { listen, makeCheck, subjectAt } from './support.ts';

const EVENT_STREAM = { 'content-type': 'text/event-stream; charset=utf-8' };

function assertFound(result: CheckResult, verdict: Verdict, found: RegExp, remedy: RegExp = /./): void {
  const told = JSON.stringify(result, null, 1);
  assert.equal(result.verdict, verdict, told);
  assert.match(result.found, found, told);
  if (verdict === 'failed' || verdict === 'warning') assert.match(result.remedy ?? '', remedy, told);
}

/** The events of a stream as a good gateway sends them. */
function events(pieces = 4): string[] {
  return VOICES.messages.events({ model: 'coder-1', answer: { text: 'word '.repeat(pieces), pieces } });
}

type Arrived = Pick<Exchange, 'body' | 'arrivals' | 'total_ms'>;

/** A stream whose events are made every so many milliseconds, after a time of thinking. */
function made(given: { pieces: number; every_ms: number; thinking_ms?: number }): Arrived {
  const { pieces, every_ms, thinking_ms = 0 } = given;
  return asMade(events(pieces).map((text, index) => ({ text, at_ms: thinking_ms + index * every_ms })));
}

/** Makes a check with answers that are given, the last of them again and again, in place of a gateway. */
async function checkWith(
  id: 'stream' | 'stream_arrival',
  ...answers: (Partial<Exchange> & Arrived)[]
): Promise<{ readonly result: CheckResult; readonly asks: readonly Ask[] }> {
  const asks: Ask[] = [];
  const ask = async (given: Ask): Promise<Exchange> => {
    const answer = answers[Math.min(asks.push(given), answers.length) - 1]!;
    return { status: 200, headers: EVENT_STREAM, ending: 'whole', head_ms: 1, ...answer };
  };
  const subject = subjectAt('http://127.0.0.1:1', { ask });
  return { result: await makeCheck(STREAM_CHECKS, `messages.${id}`, subject), asks };
}

function textStream(text: string): Arrived {
  return asMade([{ text, at_ms: 10 }]);
}

describe('the events of a stream', () => {
  test('are as they should be, with unknown events and pings anywhere, and line ends of every kind', () => {
    const more = [
      'event: ping\ndata: {"type":"ping"}\n\n',
      'event: new_thing\ndata: {"type":"new_thing"}\n\n',
      ': comment\n\n',
    ];
    const places = fc.array(fc.tuple(fc.constantFrom(...more), fc.nat({ max: 7 })), { maxLength: 6 });
    fc.assert(
      fc.property(places, fc.constantFrom('\n', '\r\n', '\r'), (inserted, line_end) => {
        // Nothing but pings comes before message_start and behind message_stop.
        const stream = events();
        for (const [text, at] of inserted) stream.splice(1 + at, 0, text);
        const { faults, usage } = readStream(stream.slice(0, -1).join('').replaceAll('\n', line_end) + stream.at(-1));
        assert.deepEqual([faults, usage.output_tokens], [[], 5]);
      }),
      { numRuns: times(50) },
    );
  });

  test('are at fault when any of them is missing, comes twice or changes its place', () => {
    const whole = events(1);
    const is_structure = (index: number) => !/ping|_delta"?,"index/.test(whole[index]!);
    const structure = whole.map((_, index) => index).filter(is_structure);
    for (const index of structure) {
      const missing = whole.toSpliced(index, 1);
      assert.notDeepEqual(readStream(missing.join('')).faults, [], `without ${whole[index]}`);
      if (whole[index]!.includes('"message_delta"')) continue;
      const twice = whole.toSpliced(index, 0, whole[index]!);
      assert.notDeepEqual(readStream(twice.join('')).faults, [], `twice ${whole[index]}`);
      const reversed = whole.toSpliced(index, 1).toReversed();
      assert.notDeepEqual(readStream(reversed.join('')).faults, []);
    }
  });

  const faults: [string, (text: string) => string, RegExp][] = [
    ['no event lines', (text) => text.replace(/^event: .*\n/gm, ''), /data lines without event lines/],
    [
      'another event line',
      (text) => text.replace('event: message_stop', 'event: stop'),
      /an event stop with data of message_stop/,
    ],
    ['no JSON', (text) => text.replace(/data: .*/, 'data: hello'), /data that is no JSON object/],
    ['a [DONE]', (text) => `${text}data: [DONE]\n\n`, /\[DONE\] as chat completions have it/],
    ['no usage', (text) => text.replaceAll('"usage"', '"used"'), /no count in usage.input_tokens/],
    ['no stop_reason', (text) => text.replaceAll('"end_turn"', 'null'), /no message_delta with a stop_reason/],
    ['nothing', () => ': nothing\n\n', /no event/],
  ];
  for (const [what, change, found] of faults) {
    test(`are at fault with ${what}`, () => assert.match(readStream(change(events().join(''))).faults.join(), found));
  }

  test('give the usage that was told last', () => {
    const start =
      '{"type":"message_start","message":{"type":"message","model":"m","usage":{"input_tokens":0,"output_tokens":1}}}';
    const delta =
      '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":7,"output_tokens":9,"cache_read_input_tokens":null}}';
    const stream = `event: message_start\ndata: ${start}\n\nevent: message_delta\ndata: ${delta}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n`;
    const { faults, usage } = readStream(stream);
    assert.deepEqual([faults, usage.input_tokens, usage.output_tokens], [[], 7, 9]);
  });
});

describe('a streamed message', () => {
  test('is ok, also when it was compressed', async () => {
    const plain = events().join('');
    const { result } = await checkWith('stream', textStream(plain));
    assertFound(result, 'ok', /^9 events in \d+ ms, in their order and with usage$/);
    const body = gzipSync(plain);
    const compressed = { body, arrivals: [{ at_ms: 1, bytes: body.length }], total_ms: 1 };
    const headers = { ...EVENT_STREAM, 'content-encoding': 'gzip' };
    assertFound((await checkWith('stream', { ...compressed, headers })).result, 'ok', /9 events/);
  });

  const json = { 'content-type': 'application/json' };
  const cases: [string, string, Partial<Exchange>, RegExp, RegExp][] = [
    [
      'is whole JSON',
      '{"type":"message"}',
      { headers: json },
      /no stream came: the content type is "application\/json"/,
      /"stream" is true/,
    ],
    ['is called JSON', events().join(''), { headers: json }, /no stream came/, /content-type/],
    ['is a page', '<!doctype html><title>Hello</title>', { headers: { 'content-type': 'text/html' } }, /"Hello"/, /./],
    [
      'is an error',
      '{"type":"error","error":{"type":"overloaded_error","message":"no"}}',
      { status: 529, headers: json },
      /status 529: overloaded_error: no/,
      /logs/,
    ],
    [
      'breaks off',
      events().slice(0, 4).join(''),
      { ending: 'cut' },
      /broke off after 0.0 seconds/,
      /proxy_read_timeout/,
    ],
    ['is never over', events().slice(0, 4).join(''), { ending: 'too_late' }, /not over after/, /./],
    ['ends early', events().slice(0, -1).join(''), {}, /no message_stop at the end/, /translates/],
    [
      'ends with an error',
      `${events().slice(0, 4).join('')}event: error\ndata: {"type":"error","error":{"type":"api_error","message":"oops"}}\n\n`,
      {},
      /ended with an error: api_error: oops/,
      /logs/,
    ],
    ['is empty', '', {}, /no event/, /./],
  ];
  for (const [what, text, more, found, remedy] of cases) {
    test(`that ${what} fails`, async () =>
      assertFound((await checkWith('stream', { ...textStream(text), ...more })).result, 'failed', found, remedy));
  }

  test('is asked for as a stream', async () => {
    const { asks } = await checkWith('stream', textStream(events().join('')));
    assert.deepEqual(
      asks.map(({ path, json }) => [path, (json as { stream: unknown }).stream]),
      [['/v1/messages', true]],
    );
  });
});

describe('how events arrive', () => {
  const LONG = made({ pieces: 80, every_ms: 30, thinking_ms: 700 });
  const SHORT = made({ pieces: 2, every_ms: 30, thinking_ms: 300 });
  const held = (stream: Arrived) => throughBuffer(stream, 1_000_000);

  test('is ok when they come as they are made, with one request and the times', async () => {
    const { result, asks } = await checkWith('stream_arrival', LONG);
    assertFound(result, 'ok', /one by one/);
    assert.equal(asks.length, 1);
    assert.match(result.details!.join('\n'), /85 events: the first after 700 ms/);
  });

  test('fails when they come in blocks', async () => {
    const { result } = await checkWith('stream_arrival', throughBuffer(LONG, 4096));
    assertFound(result, 'failed', /in blocks/, /proxy_buffering off/);
  });

  test('fails when a long answer comes at once at its end, and a short one long before', async () => {
    const { result, asks } = await checkWith('stream_arrival', held(LONG), held(SHORT));
    assertFound(result, 'failed', /a long answer comes all at once at its end/, /pass streams on at once/);
    assert.equal(asks.length, 2);
    assert.match(result.details!.at(-1)!, /a short answer was over after \d+ ms/);
  });

  test('is left open when long and short answers come at once after the same time', async () => {
    const { result } = await checkWith('stream_arrival', held(LONG), { ...held(LONG) });
    assertFound(
      result,
      'warning',
      /either something holds streams back, or the model makes its whole answer/,
      /--echo/,
    );
  });

  test('is left open when the answer is short or quick', async () => {
    for (const stream of [SHORT, made({ pieces: 80, every_ms: 1 }), made({ pieces: 80, every_ms: 0 })])
      assertFound((await checkWith('stream_arrival', stream)).result, 'skipped', /can not be told/);
  });

  test('is left open when there is no stream', async () => {
    const page = { ...textStream('<html>'), headers: { 'content-type': 'text/html' } };
    assertFound((await checkWith('stream_arrival', page)).result, 'skipped', /can not be told: .*page/);
  });

  test('fails when the head says how long the stream is', async () => {
    const headers = { ...EVENT_STREAM, 'content-length': String(LONG.body.length) };
    const { result } = await checkWith('stream_arrival', { ...LONG, headers });
    assertFound(result, 'failed', /whole before its first byte was sent/);
  });

  test('names who holds back and what helps, where that shows', async () => {
    const block = throughBuffer(LONG, 4096);
    const nginx = await checkWith('stream_arrival', { ...block, headers: { ...EVENT_STREAM, server: 'nginx/1.26.3' } });
    assertFound(
      nginx.result,
      'failed',
      /blocks/,
      /\(nginx: proxy_buffering off for \/v1\/, and no proxy_ignore_headers/,
    );
    const body = gzipSync(LONG.body);
    const arrivals = [
      { at_ms: 1500, bytes: body.length - 200 },
      { at_ms: 3200, bytes: 200 },
    ];
    const headers = { ...EVENT_STREAM, 'content-encoding': 'gzip' };
    const compressed = await checkWith('stream_arrival', { body, arrivals, total_ms: 3200, headers }, held(SHORT));
    assertFound(compressed.result, 'failed', /./, /compresses streams/);
  });
});

describe('a stream over real connections', () => {
  test('is ok behind a proxy that passes it on, and not behind one that holds it back', async (t) => {
    let now_ms = 0;
    t.mock.method(performance, 'now', () => now_ms);
    /** Time goes on once what was sent has arrived, however busy the machine is. */
    const pause = async (milliseconds: number) => {
      for (let turns = 0; turns < 20; turns++) await nextTurn();
      now_ms += milliseconds;
    };
    /** A gateway whose streams have an event every 20 ms, seen through a proxy. */
    const arrivalBehind = async (behaviour: Behaviour): Promise<CheckResult> => {
      const gateway = await listen(async ({ body, res }) => {
        const { max_tokens } = JSON.parse(body.toString()) as { max_tokens: number };
        res.writeHead(200, { 'content-type': 'text/event-stream' });
        for (const event of events(max_tokens > 50 ? 40 : 2)) {
          res.write(event);
          await pause(20);
        }
        res.end();
      });
      const proxy = await startProxy(gateway.url, behaviour);
      try {
        return await makeCheck(STREAM_CHECKS, 'messages.stream_arrival', subjectAt(proxy.url));
      } finally {
        await Promise.all([proxy.close(), gateway.close()]);
      }
    };
    assertFound(await arrivalBehind(passesOn), 'ok', /one by one/);
    for (const behaviour of [buffersWhole, buffersInBlocks(1024), compresses])
      assertFound(await arrivalBehind(behaviour), 'failed', /./);
  });
});
