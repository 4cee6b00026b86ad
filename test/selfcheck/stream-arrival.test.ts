import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CheckResult, Verdict } from '../../engine/contract/checks.ts';
import type { Exchange } from '../../engine/kit/net/exchange.ts';
import type { Ask } from '../../engine/selfcheck/check.ts';
import { CHECKS } from '../../engine/selfcheck/checks.ts';
import { VOICES } from '../../engine/selfcheck/echo/answers.ts';
import { buffersInBlocks, buffersWhole, compresses, passesOn } from '../support/proxies/behaviours.ts';
import { type Behaviour, startProxy } from '../support/proxies/proxy.ts';
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
  ...answers: (Partial<Exchange> & Arrived)[]
): Promise<{ readonly result: CheckResult; readonly asks: readonly Ask[] }> {
  const asks: Ask[] = [];
  const ask = async (given: Ask): Promise<Exchange> => {
    const answer = answers[Math.min(asks.push(given), answers.length) - 1]!;
    return { status: 200, headers: EVENT_STREAM, ending: 'whole', head_ms: 1, ...answer };
  };
  const subject = subjectAt('http://127.0.0.1:1', { ask });
  return { result: await makeCheck(CHECKS, 'messages.stream_arrival', subject), asks };
}

function textStream(text: string): Arrived {
  return asMade([{ text, at_ms: 10 }]);
}

describe('how events arrive', () => {
  const LONG = made({ pieces: 80, every_ms: 30, thinking_ms: 700 });
  const SHORT = made({ pieces: 2, every_ms: 30, thinking_ms: 300 });
  const held = (stream: Arrived) => throughBuffer(stream, 1_000_000);

  test('is ok when they come as they are made, with one request and the times', async () => {
    const { result, asks } = await checkWith(LONG);
    assertFound(result, 'ok', /one by one/);
    assert.equal(asks.length, 1);
    assert.match(result.details!.join('\n'), /85 events: the first after 700 ms/);
  });

  test('fails when they come in blocks', async () => {
    const { result } = await checkWith(throughBuffer(LONG, 4096));
    assertFound(result, 'failed', /in blocks/, /proxy_buffering off/);
  });

  test('fails when a long answer comes at once at its end, and a short one long before', async () => {
    const { result, asks } = await checkWith(held(LONG), held(SHORT));
    assertFound(result, 'failed', /a long answer comes all at once at its end/, /pass text\/event-stream on at once/);
    assert.equal(asks.length, 2);
  });

  test('is left open when long and short answers come at once after the same time', async () => {
    const { result } = await checkWith(held(LONG), { ...held(LONG) });
    assertFound(
      result,
      'warning',
      /either something holds streams back, or the model makes its whole answer/,
      /--echo/,
    );
  });

  test('is left open when the answer is short or quick', async () => {
    for (const stream of [SHORT, made({ pieces: 80, every_ms: 1 }), made({ pieces: 80, every_ms: 0 })])
      assertFound((await checkWith(stream)).result, 'skipped', /can not be told/);
  });

  test('is left open when there is no stream', async () => {
    const page = { ...textStream('<html>'), headers: { 'content-type': 'text/html' } };
    assertFound((await checkWith(page)).result, 'skipped', /can not be told: .*page/);
  });

  test('fails when the head says how long the stream is', async () => {
    const headers = { ...EVENT_STREAM, 'content-length': String(LONG.body.length) };
    const { result } = await checkWith({ ...LONG, headers });
    assertFound(result, 'failed', /whole before its first byte was sent/);
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
        return await makeCheck(CHECKS, 'messages.stream_arrival', subjectAt(proxy.url));
      } finally {
        await Promise.all([proxy.close(), gateway.close()]);
      }
    };
    assertFound(await arrivalBehind(passesOn), 'ok', /one by one/);
    for (const behaviour of [buffersWhole, buffersInBlocks(1024), compresses])
      assertFound(await arrivalBehind(behaviour), 'failed', /./);
  });
});
