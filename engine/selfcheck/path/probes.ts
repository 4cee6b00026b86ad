import {
  SELFCHECK_EVENTS,
  SELFCHECK_PATH,
  SELFCHECK_TICK_MS,
  SELFCHECK_TICKS,
} from '../../contract/selfcheck-endpoint.ts';
import { isPlain } from '../../kit/media-type.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { cameLine, shortText } from '../answer-lines.ts';
import { CLIENTS_TAKE } from '../apis.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { type Answer, readAnswer } from '../read-answer.ts';
import { type Arriving, judgeArrivals, tellArrivals } from '../streams/judge-arrivals.ts';
import type { Ask, Subject } from '../subject.ts';
import { changesOnTheWay, type SentOnTheWay } from './changes.ts';
import { lostItsCredential, notThere } from './not-there.ts';
import { readArrived, readStreamedArrived } from './read-arrived.ts';

/** Who is asked; a part of a subject. */
export type PathSubject = Pick<Subject, 'header_prefixes' | 'ask'>;

const SECONDS = 15;
const LARGE_BODY_SECONDS = 60;
/** More than proxies take as they come, less than coding clients send in a long session. */
const LARGE_BODY_BYTES = 2 * 1024 * 1024;

const TAKEN_OFF: SelfCheckOutcome = {
  verdict: 'failed',
  found: 'the token does not arrive: something on the way takes the Authorization header off',
  remedy:
    'let the proxy pass Authorization on to the gateway as it is; one that asks for a sign-in of its own with that header must leave /v1/ out',
};
/** What bodies of clients have and careless programs change: order, spaces, escapes, numbers. */
const BODY = `{"stream":false, "model":"self-check","unknown_field":{"b":1.0,"a":12345678901234567890},"system":[{"type":"text","text":"\\u00e9 \u00fc <b>&amp;</b> ../../etc"}]}`;
const QUERY = 'beta=true&check=a%20b%2Fc';

/** Whether headers, query and body reach the gateway as they were sent. */
export async function probeHeaders({ header_prefixes, ask }: PathSubject): Promise<SelfCheckOutcome> {
  const sent: SentOnTheWay = { headers: headersToSend(header_prefixes), query: QUERY, body: BODY };
  const answer = await readAnswer(await ask({ ...request(sent), seconds: SECONDS }));
  const arrived = readArrived(answer);
  const told = { sent: `POST ${SELFCHECK_PATH}?${QUERY}`, came: cameLine(answer) };
  if (arrived === undefined) return { ...(lostItsCredential(answer) ? TAKEN_OFF : notThere(answer)), ...told };
  const changes = changesOnTheWay(sent, arrived);
  const details = [
    `appscli ${shortText(arrived.version, 40)}, HTTP/${shortText(arrived.http, 8)}, ${arrived.forwarded.for_hops} addresses in X-Forwarded-For`,
  ];
  if (changes.length === 0)
    return { verdict: 'ok', found: 'headers, query and body arrive as they are sent', details, ...told };
  return {
    verdict: changes.every(({ harmless }) => harmless) ? 'warning' : 'failed',
    found: `on the way to the gateway ${changes[0]!.what}${changes.length > 1 ? `, and ${changes.length - 1} more` : ''}`,
    remedy: changes[0]!.remedy,
    details: [...changes.slice(1).map(({ what, remedy }) => `${what}: ${remedy}`), ...details],
    ...told,
  };
}

/** Random text shows that a header reached the gateway, and is not an answer from a cache. */
function headersToSend(prefixes: readonly string[]): Record<string, string> {
  const features = prefixes.flatMap((prefix) => [
    [`${prefix}-version`, '2023-06-01'],
    [`${prefix}-beta`, 'self-check-2026-01-01,unknown-feature-2026-02-02'],
  ]);
  const probe = Math.random().toString(36).slice(2);
  return {
    ...Object.fromEntries(features),
    'user-agent': 'appscli-selfcheck/1 (a-client; like no other)',
    'x-selfcheck-probe': probe,
    'x-selfcheck-long': `${probe}-`.repeat(200).slice(0, 2000),
  };
}

function request({ headers, query, body }: SentOnTheWay): Ask {
  return { method: 'POST', path: `${SELFCHECK_PATH}?${query}`, headers, body };
}

/** Whether events reach the client as they are made. It is known when they are, so the answer is certain. */
export async function probeStream({ ask }: PathSubject): Promise<SelfCheckOutcome> {
  const answer = await readAnswer(
    await ask({
      method: 'POST',
      path: SELFCHECK_PATH,
      body: '{"stream": true}',
      headers: { accept: 'text/event-stream', ...CLIENTS_TAKE },
      seconds: SECONDS,
    }),
  );
  const told = { sent: `POST ${SELFCHECK_PATH} {"stream": true}`, came: cameLine(answer) };
  if (readStreamedArrived(answer) === undefined) return { ...notThere(answer), ...told };
  return { ...judgeStream(answer), ...told };
}

const HELD_BACK: Readonly<Record<Exclude<Arriving, 'one_by_one' | 'unclear'>, string>> = {
  at_once: 'a proxy on the way keeps streams until they are complete',
  in_blocks: 'a proxy on the way keeps streams until a buffer of it is full',
};
const LET_THROUGH =
  'switch buffering of responses off for /v1/ (nginx: proxy_buffering off, and no proxy_ignore_headers X-Accel-Buffering); a scanner or TLS inspection has to leave this host out';

const DO_NOT_COMPRESS =
  'do not compress text/event-stream in the proxy (nginx: leave it out of gzip_types, or gzip off for /v1/)';

/** What a stream of known pace says about the way it came. */
export function judgeStream(answer: Answer): SelfCheckOutcome {
  const stream = { ...answer, made_every_ms: SELFCHECK_TICK_MS };
  const details = [`made: ${SELFCHECK_TICKS} events, one every ${SELFCHECK_TICK_MS} ms`, ...tellArrivals(stream)];
  if (answer.fault !== undefined || !answer.text.includes(`event: ${SELFCHECK_EVENTS.done}`)) {
    return {
      verdict: 'failed',
      found: `the stream broke off after ${Math.round(answer.total_ms)} ms, before its last event`,
      remedy: 'let the proxy wait for answers: its time limits for a response must be minutes, not seconds',
      details,
    };
  }
  const arriving = judgeArrivals(stream);
  const coding = answer.headers['content-encoding'];
  const is_compressed = !isPlain(coding);
  const compressed = is_compressed ? `event streams are compressed (${shortText(coding ?? '', 20)}) on the way` : '';
  if (arriving === 'one_by_one' && is_compressed) {
    const found = `${compressed}; events arrive as they are made all the same`;
    return { verdict: 'warning', found, remedy: DO_NOT_COMPRESS, details };
  }
  if (arriving === 'one_by_one') return { verdict: 'ok', found: 'events arrive one by one, as they are made', details };
  if (arriving === 'unclear') {
    return {
      verdict: 'warning',
      found: 'events arrive neither as they are made nor all at once',
      remedy: 'try it again: the network or this machine may be busy',
      details,
    };
  }
  if (is_compressed) {
    return { verdict: 'failed', found: `${compressed}, and held back for it`, remedy: DO_NOT_COMPRESS, details };
  }
  return { verdict: 'failed', found: HELD_BACK[arriving], remedy: LET_THROUGH, details };
}

/** Whether a request as large as those of long sessions gets through. */
export async function probeLargeBody({ ask }: PathSubject): Promise<SelfCheckOutcome> {
  const small = await readAnswer(await ask({ method: 'POST', path: SELFCHECK_PATH, body: '{}', seconds: SECONDS }));
  if (readArrived(small) === undefined)
    return { ...notThere(small), sent: `POST ${SELFCHECK_PATH}`, came: cameLine(small) };
  const body = JSON.stringify({ padding: 'self-check '.repeat(LARGE_BODY_BYTES / 11) });
  const sent = `POST ${SELFCHECK_PATH} with 2 MiB`;
  const remedy =
    'let the proxy take requests of 32 MiB (nginx: client_max_body_size 32m); long sessions and pictures need them';
  try {
    const answer = await readAnswer(
      await ask({ method: 'POST', path: SELFCHECK_PATH, body, seconds: LARGE_BODY_SECONDS }),
    );
    return { ...judgeLargeBody(answer, body, remedy), sent, came: cameLine(answer) };
  } catch (error) {
    const { seconds = LARGE_BODY_SECONDS } = error as { seconds?: number };
    const why = formatNetworkError(error, seconds);
    const is_slow = /no answer within/.test(why);
    return {
      verdict: is_slow ? 'warning' : 'failed',
      found: `a request of 2 MiB is not answered, a small one is: ${why}`,
      remedy: is_slow ? 'try it again over a faster network; clients send so much in long sessions' : remedy,
      sent,
    };
  }
}

function judgeLargeBody(answer: Answer, body: string, remedy: string): SelfCheckOutcome {
  const arrived = readArrived(answer);
  if (arrived !== undefined) {
    if (arrived.body.bytes === body.length) return { verdict: 'ok', found: `a request of 2 MiB arrives whole` };
    return { verdict: 'failed', found: `of ${body.length} bytes ${arrived.body.bytes} arrive`, remedy };
  }
  if (answer.status === 413 && /"body_too_large"/.test(answer.text)) {
    const own = 'raise server.limits.body_bytes of the gateway';
    return {
      verdict: 'failed',
      found: `the gateway itself refuses requests of 2 MiB as too large`,
      remedy: own,
    };
  }
  if (answer.status === 429 || answer.status === 503)
    return { verdict: 'skipped', found: `the gateway has no room for it now (status ${answer.status})` };
  if (answer.status === 413)
    return {
      verdict: 'failed',
      found: `something on the way refuses requests of 2 MiB with status 413`,
      remedy,
    };
  return {
    verdict: 'failed',
    found: `a request of 2 MiB is answered with status ${answer.status}, a small one with 200`,
    remedy: 'look for a limit or a scanner of requests in the proxy in front of the gateway',
  };
}
