import type { CheckOutcome } from '../../contract/checks.ts';
import { isEventStream, isPlain } from '../../kit/media-type.ts';
import { shortText } from '../answer-lines.ts';
import { makerOf } from '../products.ts';
import type { Answer } from '../read-answer.ts';
import { arrivedEvents } from '../streams/arrived-events.ts';
import { type Arriving, judgeArrivals, tellArrivals } from '../streams/judge-arrivals.ts';
import { type Problem, refusal } from './refusals.ts';
import { readStream, type StreamReading } from './stream-events.ts';

/** Why an answer is no stream of the Messages API, or what it says where it is one. */
export function judgeStream(answer: Answer): Problem | StreamReading {
  if (answer.status !== 200 || !isEventStream(answer.headers['content-type'])) return notAStream(answer);
  if (answer.fault !== undefined) return brokenOff(answer, answer.fault);
  const reading = readStream(answer.text);
  if (reading.error !== undefined)
    return {
      found: `the stream ended with an error: ${reading.error}`,
      remedy: 'the upstream or the gateway failed on the way: look into the logs of the gateway',
    };
  if (reading.faults.length === 0) return reading;
  return {
    found: `the stream has ${reading.faults.join(', ')}`,
    remedy:
      'what made this stream does not speak the Messages API: look at how the gateway translates, and what filters it',
  };
}

function notAStream(answer: Answer): Problem {
  const problem = refusal(answer);
  if (problem !== undefined && !/^(event|data):/m.test(answer.text.slice(0, 10_000))) return problem;
  const type = shortText(answer.headers['content-type'] ?? '', 60);
  return {
    found: `no stream came: the content type is ${JSON.stringify(type)}, not text/event-stream`,
    remedy: 'have the gateway stream where "stream" is true, and proxies leave content-type as it is',
  };
}

function brokenOff(answer: Answer, fault: NonNullable<Answer['fault']>): Problem {
  const seconds = (answer.total_ms / 1000).toFixed(1);
  if (fault === 'cut')
    return {
      found: `the stream broke off after ${seconds} seconds`,
      remedy:
        'raise the time limits of proxies on the way to ten minutes (nginx: proxy_read_timeout 600s; HAProxy: timeout server 10m)',
    };
  if (fault === 'too_late')
    return {
      found: `the stream was not over after ${seconds} seconds`,
      remedy: 'does the upstream still send, and does the gateway pass its end on?',
    };
  return refusal({ ...answer, json: undefined, fault })!;
}

/** What is said of a long stream that was held back or not, next to a short one where that was needed. */
export function judgeContinuity(long: Answer, short: Answer | undefined): CheckOutcome {
  const details = tellArrivals(long);
  const { 'content-length': length, 'content-encoding': encoding } = long.headers;
  if (length !== undefined)
    return held(
      long,
      `it was whole before its first byte was sent: its head says content-length ${shortText(length, 20)}`,
      details,
    );
  const arriving = judgeArrivals(long);
  if (arriving === 'one_by_one') {
    const note = isPlain(encoding) ? [] : [`compressed (${shortText(encoding ?? '', 20)}), and passed on all the same`];
    return { verdict: 'ok', found: 'events arrive one by one, as they are made', details: [...details, ...note] };
  }
  if (arriving === 'in_blocks') return held(long, 'events arrive in blocks, as a buffer on the way gets full', details);
  if (short === undefined) return untold(long, arriving, details);
  return compare({ long, short, arriving, details });
}

/** A longer answer takes longer before its text comes only where somebody waits for its end. */
function compare(given: {
  readonly long: Answer;
  readonly short: Answer;
  readonly arriving: Arriving;
  readonly details: readonly string[];
}): CheckOutcome {
  const { long, short, arriving } = given;
  const text_ms = textTime(long);
  const line = `a short answer was over after ${Math.round(short.total_ms)} ms`;
  const details = [...given.details, line];
  const waited_longer = text_ms - short.total_ms >= 500 && text_ms >= 2 * short.total_ms;
  if (arriving === 'at_once' && waited_longer && text_ms >= long.total_ms * 0.9)
    return held(long, 'a long answer comes all at once at its end, a short one much earlier', details);
  return untold(long, arriving, details);
}

/** When the text began to come: events before it may have been made by somebody on the way. */
function textTime({ body, arrivals, total_ms }: Answer): number {
  const events = arrivedEvents(body, arrivals);
  return events[Math.floor(events.length / 10)]?.at_ms ?? total_ms;
}

function untold(answer: Answer, arriving: Arriving, details: readonly string[]): CheckOutcome {
  if (arriving === 'at_once') {
    const is_compressed = !isPlain(answer.headers['content-encoding']);
    return {
      verdict: 'warning',
      found:
        'all events came at once: either something holds streams back, or the model makes its whole answer before it sends any',
      remedy: `find out which with --echo, or with a model that streams; ${is_compressed ? COMPRESSES : 'a proxy has to pass streams on at once (nginx: proxy_buffering off)'}`,
      details,
    };
  }
  return {
    verdict: 'skipped',
    found: 'can not be told: the answer was too short or too quick; --echo or a slower model tells',
    details,
  };
}

function held(answer: Answer, found: string, details: readonly string[]): CheckOutcome {
  return { verdict: 'failed', found, remedy: remedyFor(answer), details };
}

const BUFFERS: Readonly<Record<string, string>> = {
  nginx: 'nginx: proxy_buffering off for /v1/, and no proxy_ignore_headers X-Accel-Buffering',
  Apache: 'Apache: flushpackets=on for its ProxyPass, and no mod_deflate for text/event-stream',
  HAProxy: 'HAProxy: no compression for text/event-stream',
  Envoy: 'Envoy: no buffer and no compressor filter for /v1/',
};

const COMPRESSES =
  'something on the way compresses streams and holds them back for that: leave text/event-stream out (nginx: gzip_types, gzip off for /v1/)';

function remedyFor(answer: Answer): string {
  const { headers } = answer;
  if (!isPlain(headers['content-encoding'])) return COMPRESSES;
  const known = BUFFERS[makerOf(answer)?.name ?? ''];
  if (known !== undefined) return `have proxies pass streams on at once (${known})`;
  return 'have proxies and scanners on the way pass streams on at once (nginx: proxy_buffering off for /v1/), or the gateway, if it collects them itself';
}
