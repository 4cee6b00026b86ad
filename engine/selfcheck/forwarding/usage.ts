import { shortText } from '../answer-lines.ts';
import { type Asked, foreignOutcome, refusedOutcome } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { outcomeOfFaults } from '../compat-request.ts';
import type { Echo } from '../echo/echo.ts';
import { fieldsOf } from '../read-answer.ts';
import { readEvents } from '../read-events.ts';
import type { Subject } from '../subject.ts';
import { forward, isExplicitRefusal, notForwarded } from './forward.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Small enough to cost next to nothing where the gateway counts them, and no two the same. */
const USAGE = {
  input_tokens: 13,
  cache_creation_input_tokens: 47,
  cache_read_input_tokens: 31,
  cache_creation: { ephemeral_5m_input_tokens: 17, ephemeral_1h_input_tokens: 30 },
  output_tokens: 7,
  service_tier: 'standard',
} as const;

const REMEDY = "have the gateway pass all of its upstream's usage on: clients and bills count the prompt cache by it";

/** The usage of an answer, whole or as a stream: there the last that was said of each field. */
function usageOf({ answer }: Asked, is_stream: boolean): Fields {
  if (!is_stream) return fieldsOf(fieldsOf(answer.json).usage);
  const events = readEvents(answer.text).map(({ fields }) => fields);
  const parts = events.flatMap(({ usage, message }) => [fieldsOf(fieldsOf(message).usage), fieldsOf(usage)]);
  return Object.assign({}, ...parts);
}

function usageFaults(usage: Fields, where: string): string[] {
  const flat = (fields: Fields): Fields => ({ ...fields, ...fieldsOf(fields.cache_creation) });
  const came = flat(usage);
  const { cache_creation: _, service_tier: __, ...counts } = flat(USAGE);
  return Object.entries(counts).flatMap(([name, sent]) => {
    if (came[name] === sent) return [];
    const is = typeof came[name] === 'number' ? `is ${came[name]} in place of ${sent}` : 'is missing';
    return [`${name} ${is} in ${where}`];
  });
}

/** Whether the usage that the upstream tells comes back, with what the prompt cache did. */
export async function checkUsage(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const faults: string[] = [];
  let last: Asked | undefined;
  for (const stream of [false, true]) {
    const forwarded = await forward(subject, echo, { fields: { stream }, answer: { usage: USAGE } });
    const missing = notForwarded(forwarded);
    if (missing !== undefined) return missing;
    if (forwarded.answer.status !== 200) return refusedOutcome(forwarded);
    const foreign = stream ? undefined : foreignOutcome(forwarded);
    if (foreign !== undefined) return foreign;
    faults.push(...usageFaults(usageOf(forwarded, stream), stream ? 'a stream' : 'a whole answer'));
    last = forwarded;
  }
  return outcomeOfFaults(last!, {
    good: 'all fields come back, also of caches of five minutes and of an hour',
    faults: faults.slice(0, 6),
    remedy: REMEDY,
    details: faults.length > 6 ? [`and ${faults.length - 6} more`] : [],
  });
}

const HOUR = { type: 'ephemeral', ttl: '1h' } as const;

/** Whether a prompt cache of an hour is passed on or said to be shorter, and no hits are made up. */
export async function checkHourOfCache(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const betas = subject.header_prefixes.map((prefix) => [`${prefix}-beta`, 'extended-cache-ttl-2025-04-11']);
  const forwarded = await forward(subject, echo, {
    fields: {
      system: [
        { type: 'text', text: 'A self-check.' },
        { type: 'text', text: 'A part to keep.', cache_control: HOUR },
      ],
    },
    headers: Object.fromEntries(betas),
    note: 'with a prompt cache of an hour',
  });
  const { answer, travelled } = forwarded;
  if (isExplicitRefusal(forwarded) && /cache|ttl|1h/i.test(answer.text)) {
    return {
      verdict: 'warning',
      found: 'a prompt cache of an hour is refused',
      remedy: 'have the gateway ask for five minutes instead, and say so: clients that ask for an hour fail there',
      ...travelled,
    };
  }
  const missing = notForwarded(forwarded);
  if (missing !== undefined) return missing;
  if (answer.status !== 200) return refusedOutcome(forwarded);
  const { faults, lesser, good } = judgeLifetime(forwarded.received!.body, answer.headers);
  const { cache_read_input_tokens: hits } = usageOf(forwarded, false);
  return outcomeOfFaults(forwarded, {
    good,
    faults: [
      ...faults,
      ...(typeof hits === 'number' && hits > 0
        ? [`${hits} tokens are said to come from the cache, and the upstream said none`]
        : []),
    ],
    lesser,
    remedy: 'have the gateway pass cache_control on, or make it five minutes and say so in a header and in telemetry',
  });
}

function judgeLifetime(
  body: Buffer,
  headers: Asked['answer']['headers'],
): { good: string; faults: string[]; lesser: string[] } {
  const marked = cacheControlOf(body);
  if (marked === undefined)
    return { good: '', faults: ['cache_control does not arrive: nothing would be kept'], lesser: [] };
  if (marked.ttl === '1h')
    return { good: 'a prompt cache of an hour is asked of the upstream', faults: [], lesser: [] };
  const header = Object.entries(headers).find(
    ([name, value]) => /cache/.test(name) && /5m|downgrad|five/i.test(`${name} ${value}`),
  );
  if (header !== undefined) {
    const told = `${header[0]}: ${String(header[1])}`;
    return { good: `the hour is made five minutes, and ${shortText(told, 60)} says so`, faults: [], lesser: [] };
  }
  return {
    good: '',
    faults: [],
    lesser: [
      "the hour is made five minutes, and no header of the answer says so; whether telemetry does can't be told from here",
    ],
  };
}

/** The one mark of the request, wherever it is in `system`. */
function cacheControlOf(body: Buffer): Fields | undefined {
  try {
    const { system } = fieldsOf(JSON.parse(body.toString()));
    const marks = (Array.isArray(system) ? system : []).map((block) => fieldsOf(block).cache_control);
    const mark = marks.find((each) => typeof each === 'object' && each !== null);
    return mark === undefined ? undefined : fieldsOf(mark);
  } catch {
    return undefined;
  }
}
