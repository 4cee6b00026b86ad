import { notStreamed, refusedOutcome } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { outcomeOfFaults } from '../compat-request.ts';
import type { Echo } from '../echo/echo.ts';
import { isOfNetwork, isTimeout } from '../no-answer.ts';
import { fieldsOf } from '../read-answer.ts';
import { type ReadEvent, readEvents } from '../read-events.ts';
import { judgeArrivals, tellArrivals } from '../streams/judge-arrivals.ts';
import type { Subject } from '../subject.ts';
import { type Forwarded, forward, notForwarded, servedPath } from './forward.ts';

/** Larger together than the buffers of proxies, which have up to 32 KiB. */
const PACE = { pieces: 60, piece_bytes: 600, pause_ms: 25 } as const;

const REMEDIES = {
  at_once:
    'something collects the whole answer: switch buffering off (nginx: proxy_buffering off), and have the gateway write each event when it arrives',
  in_blocks:
    'something passes full buffers on: switch buffering and compression of text/event-stream off (nginx: proxy_buffering off, gzip off)',
} as const;

/** The outcome where no stream came back; `undefined` where one did. */
function notBack(forwarded: Forwarded): SelfCheckOutcome | undefined {
  const missing = notForwarded(forwarded);
  if (missing !== undefined) return missing;
  if (forwarded.answer.status !== 200) return refusedOutcome(forwarded);
  return notStreamed(forwarded);
}

/** Whether events arrive as they are made; the upstream's pace is known, so that the answer is certain. */
export async function checkPace(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const forwarded = await forward(subject, echo, {
    path: await servedPath(subject, echo),
    fields: { stream: true },
    answer: PACE,
    note: `as a stream of an event every ${PACE.pause_ms} ms`,
  });
  const instead = notBack(forwarded);
  if (instead !== undefined) return instead;
  const arrived = { ...forwarded.answer, made_every_ms: PACE.pause_ms };
  const arriving = judgeArrivals(arrived);
  const details = tellArrivals(arrived);
  if (arriving === 'one_by_one')
    return { verdict: 'ok', found: 'events arrive one by one, as they are made', ...forwarded.travelled, details };
  if (arriving === 'unclear') {
    return {
      verdict: 'warning',
      found: "whether events arrive as they are made can't be told from these times",
      remedy:
        'make this check again while this machine and the gateway have less to do; if it ends the same, a proxy lets events wait for one another (HAProxy: option http-no-delay)',
      ...forwarded.travelled,
      details,
    };
  }
  return {
    verdict: 'failed',
    found: arriving === 'at_once' ? 'all events arrive at once, when the last was made' : 'events arrive in blocks',
    remedy: REMEDIES[arriving],
    ...forwarded.travelled,
    details,
  };
}

const TEXT = 'One, two, three, and a line\n with "quotes", \\ and é.';
const UNKNOWN = 'selfcheck_unknown';
const UNKNOWN_EVENT = `event: ${UNKNOWN}\ndata: {"type":"${UNKNOWN}","n":1}\n\n`;

/** Whether the events of a stream come back as the upstream sent them, also one that nobody knows. */
export async function checkEvents(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const forwarded = await forward(subject, echo, {
    fields: { stream: true },
    answer: { text: TEXT, pieces: 5, extra_events: UNKNOWN_EVENT },
    note: 'as a stream',
  });
  const instead = notBack(forwarded);
  if (instead !== undefined) return instead;
  const events = readEvents(forwarded.answer.text);
  const types = events.map(({ fields }) => String(fields.type));
  return outcomeOfFaults(forwarded, {
    good: `${events.length} events come back, with the same text and one that nobody knows`,
    faults: [
      ...(textOf(events) === TEXT ? [] : ['the text is not the one that the upstream sent']),
      ...orderFaults(types.filter((type) => type !== 'ping' && type !== UNKNOWN)),
      ...(forwarded.answer.fault === undefined ? [] : ['the stream broke off']),
    ],
    lesser: types.includes(UNKNOWN) ? [] : ['an event that the gateway does not know is left out'],
    remedy: 'have the gateway pass every event on as it came: APIs add kinds of events, and clients expect them',
  });
}

function textOf(events: readonly ReadEvent[]): string {
  return events
    .map(({ fields }) => fieldsOf(fields.delta).text)
    .filter((text) => typeof text === 'string')
    .join('');
}

const ORDER = [
  'message_start',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'message_delta',
  'message_stop',
];

function orderFaults(types: readonly string[]): string[] {
  const once = types.filter((type, index) => type !== types[index - 1]);
  const missing = ORDER.filter((type) => !once.includes(type));
  if (missing.length > 0) return [`no ${missing.join(', no ')}`];
  return once.join() === ORDER.join() ? [] : ['the events are in another order'];
}

const BUSY = 'busy: a self-check asked for this';
const ERROR_EVENT = `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message: BUSY } })}\n\n`;

/** Longest time in which a client has to be told that a stream broke off, in seconds. */
const BROKEN_SECONDS = 20;

/** Whether a client notices that a stream failed, or that its upstream broke it off. */
export async function checkStreamEnd(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const fields = { stream: true };
  const failing = await forward(subject, echo, {
    fields,
    answer: { extra_events: ERROR_EVENT },
    note: 'as a stream that fails, and one that breaks off',
  });
  const instead = notBack(failing);
  if (instead !== undefined) return instead;
  const errors = eventsOf(failing).filter(({ fields: { type } }) => type === 'error');
  const keeps_message = errors.some(({ fields: { error } }) => fieldsOf(error).message === BUSY);
  const broken = await forward(subject, echo, { fields, answer: { breaks_off: true }, seconds: BROKEN_SECONDS }).catch(
    whatBroke,
  );
  return outcomeOfFaults(failing, {
    good: 'an error within a stream comes back, and a stream that broke off is no whole one',
    faults: [...(errors.length > 0 ? [] : ['an error within a stream is left out']), ...brokenFaults(broken)],
    lesser: errors.length === 0 || keeps_message ? [] : ['the message of an error within a stream was replaced'],
    remedy:
      'have the gateway pass events of errors on, and close the connection, or end with an error, where its upstream breaks off',
  });
}

const eventsOf = ({ answer }: Forwarded) => readEvents(answer.text);

/** A connection that was closed tells a client enough. */
function whatBroke(error: unknown): 'closed' | 'waiting' {
  if (isTimeout(error)) return 'waiting';
  if (isOfNetwork(error)) return 'closed';
  throw error;
}

function brokenFaults(broken: Forwarded | 'closed' | 'waiting'): string[] {
  if (broken === 'closed') return [];
  if (broken === 'waiting' || broken.answer.fault === 'too_late')
    return ['where its upstream breaks a stream off, the gateway leaves the client waiting'];
  return eventsOf(broken).some(({ fields: { type } }) => type === 'message_stop')
    ? ['a stream that its upstream broke off ends like a whole one: clients keep half an answer']
    : [];
}
