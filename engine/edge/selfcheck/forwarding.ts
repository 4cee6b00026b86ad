import { failed, ok, skipped } from '../../base/contract/checks.ts';
import { PROTOCOLS, type Protocol } from '../../base/contract/protocol.ts';
import { errorText, type Fields, fieldsOf, readEvents, shortText } from './answer.ts';
import { APIS, streamError, streamText, streamUsage } from './apis.ts';
import { judgeArrivals, tellArrivals } from './arrivals.ts';
import {
  type Asked,
  askFor,
  foreignOutcome,
  NO_MODEL,
  notServed,
  notStreamed,
  outcomeOf,
  refusedOutcome,
  requestOf,
  type SelfCheck,
  type SelfCheckOutcome,
  SHORT,
  type Subject,
} from './check.ts';
import { compareBodies, PROBES } from './compare-bodies.ts';
import type { Echo, EchoAnswer, EchoedRequest } from './echo/open-echo.ts';

const HOW =
  'needs --echo with an address such as 127.0.0.1:4010, an upstream of the gateway that points there, and with --model a model that goes to it';

/** A check of what reaches the upstream: it is skipped where nothing does. */
interface EchoCheck extends Omit<SelfCheck, 'run' | 'skipped'> {
  /** Whether what arrives has to be a request of Messages, as it was sent: a gateway that translates is not asked. */
  readonly as_messages?: true;
  look(subject: Subject, echo: Echo, first: First): Promise<SelfCheckOutcome>;
}

const ECHO_CHECKS: readonly EchoCheck[] = [
  {
    id: 'forwarding.headers',
    title: 'Headers at the upstream',
    expected: "version and beta headers and the query arrive as they were sent, and the caller's token does not.",
    as_messages: true,
    look: checkHeaders,
  },
  ...PROTOCOLS.map(
    (protocol): EchoCheck => ({
      id: `forwarding.${protocol}_body`,
      title: `A body of ${APIS[protocol].what} at the upstream`,
      expected: 'it arrives as it was sent, byte for byte but for the name of the model, also what nobody knows.',
      ...(protocol === 'messages' && { as_messages: true }),
      look: (subject, echo) => checkBody(subject, echo, protocol),
    }),
  ),
  {
    id: 'forwarding.usage',
    title: 'Usage of the prompt cache',
    expected:
      "the upstream's usage comes back, with cache_creation_input_tokens, cache_read_input_tokens and the parts of both lifetimes.",
    as_messages: true,
    look: checkUsage,
  },
  {
    id: 'forwarding.stream',
    title: 'The pace of a stream from the upstream',
    expected: 'each event arrives when it is made.',
    look: checkPace,
  },
  {
    id: 'forwarding.stream_end',
    title: 'A stream from the upstream that fails or breaks off',
    expected: 'all events come back, also of errors, and a stream that broke off does not look like a whole one.',
    as_messages: true,
    look: checkStreamEnd,
  },
  // Last: it may make a gateway wait.
  {
    id: 'forwarding.errors',
    title: 'Errors of the upstream',
    expected: 'status, type and message come back word for word, and retry-after where the upstream is overloaded.',
    as_messages: true,
    look: checkErrors,
  },
];

/** What reaches the upstream and comes back from it, seen by the echo upstream. */
export const FORWARDING_CHECKS: readonly SelfCheck[] = [
  {
    id: 'forwarding.reached',
    title: 'The echo upstream behind the gateway',
    expected: 'a request for the model arrives at the echo upstream, and its answer comes back.',
    uses: SHORT,
    skipped: withoutEcho,
    run: checkReached,
  },
  ...ECHO_CHECKS.map(({ look, as_messages, ...check }) => ({
    ...check,
    skipped: withoutEcho,
    async run(subject: Subject) {
      const echo = subject.echo!;
      const first = await firstForwarded(subject, echo);
      const { received, served } = first;
      if (received === undefined)
        return skipped('no request reaches the echo upstream: see the check forwarding.reached');
      if (as_messages && served !== 'messages') return skipped('the gateway does not serve Messages');
      return as_messages && received.protocol !== 'messages'
        ? translated(received.protocol)
        : look(subject, echo, first);
    },
  })),
];

function withoutEcho({ echo, model }: Subject): string | undefined {
  if (echo === undefined) return HOW;
  return model === undefined ? NO_MODEL : undefined;
}

function translated(protocol: Protocol): SelfCheckOutcome {
  return skipped(
    `the gateway asks the upstream in ${APIS[protocol].what}: what arrives can't be compared with what was sent`,
  );
}

interface Probe {
  readonly path?: string;
  /** Fields of the body besides the model, the bound and the prompt. */
  readonly fields?: Fields;
  /** In place of a usual body; is given the text that has to be in it. */
  body?(text: string): string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly answer?: EchoAnswer;
  readonly note?: string;
  readonly seconds?: number;
}

interface Forwarded extends Asked {
  /** The first that arrived; `undefined` where none did. */
  readonly received: EchoedRequest | undefined;
  readonly count: number;
}

/** Sends a request for the echo upstream. Rejects where the gateway does not answer. */
async function forward(subject: Subject, echo: Echo, protocol: Protocol, probe: Probe = {}): Promise<Forwarded> {
  const { path = APIS[protocol].path, fields = {}, headers = {}, note, seconds } = probe;
  const expected = echo.expect(probe.answer);
  const { text } = expected;
  const body = probe.body?.(text) ?? JSON.stringify({ ...requestOf(subject, protocol, text), ...fields });
  const asked = await askFor(subject, { path, body, headers, ...(seconds !== undefined && { seconds }) }, note);
  return { ...asked, received: expected.received(), count: expected.count() };
}

interface First extends Forwarded {
  /** What the gateway serves for the model; of several protocols the first one of `PROTOCOLS`. */
  readonly served: Protocol;
}

const firsts = new WeakMap<Subject, Promise<First>>();

/** Makes the first request once, in one protocol after the other until one is answered. Rejects where the gateway does not answer. */
function firstForwarded(subject: Subject, echo: Echo): Promise<First> {
  const known = firsts.get(subject);
  if (known !== undefined) return known;
  const first = sendFirst(subject, echo);
  firsts.set(subject, first);
  // What had no answer is tried anew by the next check.
  first.catch(() => firsts.delete(subject));
  return first;
}

async function sendFirst(subject: Subject, echo: Echo): Promise<First> {
  let first: First | undefined;
  for (const served of PROTOCOLS) {
    const forwarded = { ...(await forward(subject, echo, served)), served };
    first ??= forwarded;
    if (forwarded.received !== undefined) return forwarded;
    // Another upstream answered, which may cost something: it would do so again.
    if (forwarded.answer.status < 300) break;
  }
  return first!;
}

/** Whether the gateway forwards the model to the echo upstream. One that does not answer is told of by the checks. */
export async function reachesEcho(subject: Subject, echo: Echo): Promise<boolean> {
  const first = await firstForwarded(subject, echo).catch(() => undefined);
  return first?.received !== undefined;
}

async function checkReached(subject: Subject): Promise<SelfCheckOutcome> {
  const echo = subject.echo!;
  const { model } = subject;
  const forwarded = await firstForwarded(subject, echo);
  const { received, answer, travelled, count } = forwarded;
  const foreign = foreignOutcome(forwarded);
  if (foreign !== undefined && (received === undefined || answer.status === 200)) return foreign;
  const { status } = answer;
  if (received === undefined) {
    return failed(
      status === 200
        ? `another upstream answered for ${model}`
        : `nothing arrived, and the gateway answered with status ${status}`,
      `point an upstream of the gateway at ${echo.url}, send the model ${model} there, and see that the gateway's machine reaches that address (--echo host:port says where to listen)`,
      travelled,
    );
  }
  return outcomeOf(forwarded, {
    good: `requests for ${model} arrive at ${echo.url}`,
    faults:
      status === 200 ? [] : [`the request arrived and was answered, but the gateway answered with status ${status}`],
    remedy: 'look into the logs of the gateway: why does it not take the answer of its upstream?',
    details: count > 1 ? [`the gateway sent the request ${count} times`] : [],
  });
}

/** The outcome where this request did not arrive, although others do; `undefined` where it did. */
function notForwarded(forwarded: Forwarded): SelfCheckOutcome | undefined {
  const { received, answer, travelled } = forwarded;
  if (received !== undefined) return undefined;
  return (
    foreignOutcome(forwarded) ??
    failed(
      `the request did not reach the upstream; the gateway answered with status ${answer.status}`,
      'have the gateway pass on what it does not know: clients send new fields and headers before gateways know them',
      travelled,
    )
  );
}

/** Whether the gateway refused a request by itself, and named what it does not take. */
function isRefusedByName({ received, answer }: Forwarded, name: RegExp): boolean {
  const is_refused = answer.status >= 400 && answer.status < 500 && answer.json !== undefined;
  return received === undefined && is_refused && name.test(answer.text);
}

/** Newer than any that a gateway may have been made for, so that one that always sends the same is noticed. */
const NEW_VERSION = '2026-11-01';
const USUAL_VERSION = '2023-06-01';
const BETAS = 'selfcheck-one-2026-11-01,selfcheck-two-2026-11-02';
const QUERY = '?beta=true&selfcheck=1';
const MISSING = 'does not arrive';

async function checkHeaders(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const { header_prefixes: prefixes } = subject;
  const send = (version: string) => {
    const named = prefixes.flatMap((prefix) => [
      [`${prefix}-version`, version],
      [`${prefix}-beta`, BETAS],
    ]);
    const path = `${APIS.messages.path}${QUERY}`;
    const note = `with version ${version} and betas nobody knows`;
    return forward(subject, echo, 'messages', { path, headers: Object.fromEntries(named), note });
  };
  const newest = await send(NEW_VERSION);
  const version = isRefusedByName(newest, /version/i) ? USUAL_VERSION : NEW_VERSION;
  const forwarded = version === NEW_VERSION ? newest : await send(version);
  if (isRefusedByName(forwarded, /beta/i))
    return ok('betas that are not known are refused, and said to be', forwarded.travelled);
  const missing = notForwarded(forwarded);
  if (missing !== undefined) return missing;
  const { headers, path } = forwarded.received!;
  const faultsOf = (prefix: string) =>
    [
      { name: `${prefix}-version`, sent: version },
      { name: `${prefix}-beta`, sent: BETAS },
    ].flatMap(({ name, sent }) => {
      const came = headers[name];
      if (came === undefined) return [`${name} ${MISSING}`];
      return String(came).replaceAll(' ', '') === sent
        ? []
        : [`${name} arrives as ${shortText(String(came), 60)} in place of ${sent}`];
    });
  const whole = prefixes.filter((prefix) => faultsOf(prefix).length === 0);
  const faults = prefixes.flatMap(faultsOf);
  // Clients use the names of one prefix: where those pass, the others are nobody's.
  const passes = whole.length > 0 && faults.every((fault) => fault.endsWith(MISSING));
  return outcomeOf(forwarded, {
    good: `${whole.map((prefix) => `${prefix}-version and ${prefix}-beta`).join(', ')} arrive as they were sent`,
    faults: [...(passes ? [] : faults), ...tokenFaults(subject, forwarded.received!)],
    lesser: path.endsWith(QUERY) ? [] : [`the query does not arrive as it was sent: ${QUERY}`],
    remedy:
      "have the gateway pass version and beta headers and the query on unchanged, and a credential of its own in place of the caller's",
    details: passes ? faults : [],
  });
}

/** Where the caller's token reaches the upstream, which could use it. */
function tokenFaults(subject: Subject, { raw_headers, path, body }: EchoedRequest): string[] {
  const names = raw_headers.filter((_, index) => index % 2 === 0 && subject.holdsToken(raw_headers[index + 1] ?? ''));
  const places = [
    ...names.map((name) => `in the header ${shortText(name.toLowerCase(), 60)}`),
    ...(subject.holdsToken(path) ? ['in the path'] : []),
    ...(subject.holdsToken(body) ? ['in the body'] : []),
  ];
  return places.map((place) => `the upstream gets the caller's token ${place}`);
}

async function checkBody(subject: Subject, echo: Echo, protocol: Protocol): Promise<SelfCheckOutcome> {
  let sent = '';
  const body = (text: string) => {
    sent = PROBES[protocol]({ model: subject.model ?? '', text, prefix: subject.header_prefixes.at(-1) ?? 'vendor' });
    return sent;
  };
  const forwarded = await forward(subject, echo, protocol, { body, note: 'with fields nobody knows' });
  if (isRefusedByName(forwarded, /selfcheck_unknown/))
    return ok('fields that are not known are refused by name', forwarded.travelled);
  const missing = notServed(forwarded, protocol) ?? notForwarded(forwarded);
  if (missing !== undefined) return missing;
  const { body: came, protocol: spoken } = forwarded.received!;
  const token_faults = tokenFaults(subject, forwarded.received!);
  if (spoken !== protocol && token_faults.length === 0) return translated(spoken);
  const { same_bytes, differences, model_only } = compareBodies(sent, came);
  const told = differences.map(({ path, is }) => `${path} ${is}`);
  // A gateway may call a model otherwise at its upstream; what it puts in on top changes no prompt.
  const isLesser = (_: string, index: number) => differences[index]!.is_lesser === true;
  const is_good = same_bytes || model_only;
  return outcomeOf(forwarded, {
    good: `${came.length} bytes arrive as they were sent${model_only ? ', but for the name of the model' : ''}`,
    faults: [...token_faults, ...told.filter((each, index) => !isLesser(each, index)).slice(0, 5)],
    lesser: [
      ...told.filter(isLesser).slice(0, 3),
      ...(is_good || told.length > 0
        ? []
        : ['the content is the same, but it was written anew: keys in another order, white space or escapes']),
    ],
    remedy:
      'have the gateway forward the bytes it received: clients send fields that no gateway knows yet, and a changed prompt is not found in the cache',
  });
}

/** Small enough to cost next to nothing where the gateway counts them, and no two the same. */
const USAGE = {
  input_tokens: 13,
  cache_creation_input_tokens: 47,
  cache_read_input_tokens: 31,
  cache_creation: { ephemeral_5m_input_tokens: 17, ephemeral_1h_input_tokens: 30 },
  output_tokens: 7,
} as const;

const withParts = (usage: Fields): Fields => ({ ...usage, ...fieldsOf(usage.cache_creation) });

async function checkUsage(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const faults: string[] = [];
  let last: Asked | undefined;
  for (const stream of [false, true]) {
    const forwarded = await forward(subject, echo, 'messages', { fields: { stream }, answer: { usage: USAGE } });
    const missing = notForwarded(forwarded) ?? (stream ? notStreamed : refusedOutcome)(forwarded);
    if (missing !== undefined) return missing;
    last = forwarded;
    const { json, text } = forwarded.answer;
    const came = withParts(stream ? streamUsage(readEvents(text)) : fieldsOf(fieldsOf(json).usage));
    for (const [name, sent] of Object.entries(withParts(USAGE))) {
      if (name === 'cache_creation' || came[name] === sent) continue;
      const is = typeof came[name] === 'number' ? `is ${came[name]} in place of ${sent}` : 'is missing';
      faults.push(`${name} ${is} in ${stream ? 'a stream' : 'a whole answer'}`);
    }
  }
  return outcomeOf(last!, {
    good: 'all fields come back, also of caches of five minutes and of an hour',
    faults: faults.slice(0, 6),
    remedy: "have the gateway pass all of its upstream's usage on: clients and bills count the prompt cache by it",
  });
}

/** Numbers that are no repetition, larger together than the buffers of proxies, which have up to 32 KiB. */
const NUMBERS = Array.from({ length: 5143 }, (_, index) => String(100_000 + ((index * 7919) % 900_000))).join(' ');
const PACE = { text: NUMBERS, pieces: 60, pause_ms: 25 } as const;

const ARRIVING = {
  one_by_one: ['ok', 'events arrive one by one, as they are made', ''],
  unclear: [
    'warning',
    "whether events arrive as they are made can't be told from these times",
    'make this check again while machines have less to do; if it ends the same, a proxy lets events wait for one another (HAProxy: option http-no-delay)',
  ],
  at_once: [
    'failed',
    'all events arrive at once, when the last was made',
    'something collects the whole answer: switch buffering and compression off for streams (nginx: proxy_buffering off)',
  ],
  in_blocks: [
    'failed',
    'events arrive in blocks',
    'something passes full buffers on: switch buffering and compression off for streams (nginx: proxy_buffering off, gzip off)',
  ],
} as const;

/** Whether events arrive as they are made; the upstream's pace is known, so that the answer is certain. */
async function checkPace(subject: Subject, echo: Echo, { served }: First): Promise<SelfCheckOutcome> {
  const note = `as a stream of an event every ${PACE.pause_ms} ms`;
  const forwarded = await forward(subject, echo, served, { fields: { stream: true }, answer: PACE, note });
  const instead = notForwarded(forwarded) ?? notStreamed(forwarded);
  if (instead !== undefined) return instead;
  const arrived = { ...forwarded.answer, made_every_ms: PACE.pause_ms };
  const [verdict, found, remedy] = ARRIVING[judgeArrivals(arrived)];
  const details = tellArrivals(arrived);
  return { verdict, found, ...(remedy !== '' && { remedy }), ...forwarded.travelled, details };
}

const TEXT = 'One, two, three, and a line\n with "quotes", \\ and é.';
const UNKNOWN = 'selfcheck_unknown';
const BUSY = 'busy: a self-check asked for this';
const event = (type: string, fields: Fields) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const ERROR_EVENT = event('error', { error: { type: 'overloaded_error', message: BUSY } });
/** Longest time in which a client has to be told that a stream broke off, in seconds. */
const BROKEN_SECONDS = 20;

async function checkStreamEnd(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const stream = (answer: EchoAnswer, more: Probe = {}) =>
    forward(subject, echo, 'messages', { fields: { stream: true }, answer, note: 'as a stream', ...more });
  const whole = await stream({ text: TEXT, pieces: 5, extra_events: event(UNKNOWN, {}) });
  const failing = await stream({ extra_events: ERROR_EVENT });
  for (const each of [whole, failing]) {
    const instead = notForwarded(each) ?? notStreamed(each);
    if (instead !== undefined) return instead;
  }
  const events = readEvents(whole.answer.text);
  const said = streamError(readEvents(failing.answer.text));
  const broken = await stream({ breaks_off: true }, { seconds: BROKEN_SECONDS }).catch((error: unknown) => {
    // A connection that was closed tells a client enough.
    if ((error as { code?: unknown }).code !== undefined) return undefined;
    throw error;
  });
  return outcomeOf(whole, {
    good: `${events.length} events come back, those of an error as well, and a stream that broke off is no whole one`,
    faults: [
      ...(streamText(events) === TEXT ? [] : ['the text is not the one that the upstream sent']),
      ...APIS.messages.streamFaults(events),
      ...(said === undefined ? ['an error within a stream is left out'] : []),
      ...(broken !== undefined && /"message_stop"/.test(broken.answer.text)
        ? ['a stream that its upstream broke off ends like a whole one: clients keep half an answer']
        : []),
      ...(broken?.answer.fault === 'too_late'
        ? ['where its upstream breaks a stream off, the client is left waiting']
        : []),
    ],
    lesser: [
      ...(events.some(({ fields }) => fields.type === UNKNOWN)
        ? []
        : ['an event that the gateway does not know is left out']),
      ...(said === undefined || said.includes(BUSY) ? [] : ['the message of an error within a stream was replaced']),
    ],
    remedy: 'have the gateway pass every event on as it came, and close the connection where its upstream breaks off',
  });
}

/** Clients compact a conversation when they read the first, and wait and try again with the second. */
const ERRORS = [
  { status: 400, type: 'invalid_request_error', message: 'prompt is too long: 214315 tokens > 200000 maximum' },
  { status: 529, type: 'overloaded_error', message: 'Overloaded: a self-check asked for this', wait: '2' },
];

async function checkErrors(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const faults: string[] = [];
  const lesser: string[] = [];
  let last: Asked | undefined;
  for (const { status, type, message, wait } of ERRORS) {
    const body = JSON.stringify({ type: 'error', error: { type, message } });
    const headers: Record<string, string> = wait === undefined ? {} : { 'retry-after': wait };
    const forwarded = await forward(subject, echo, 'messages', { answer: { error: { status, headers, body } } });
    const instead = notForwarded(forwarded) ?? foreignOutcome(forwarded);
    if (instead !== undefined) return instead;
    last = forwarded;
    const { answer } = forwarded;
    const told = fieldsOf(fieldsOf(answer.json).error);
    if (answer.status !== status) faults.push(`status ${status} became ${answer.status}`);
    if (told.type !== type) faults.push(`the type ${type} became ${shortText(String(told.type), 40)}`);
    if (!(errorText(answer.json) ?? '').includes(message)) faults.push('the message of the upstream was replaced');
    else if (told.message !== message) lesser.push('something was put around the message of the upstream');
    if (answer.headers['retry-after'] !== wait && wait !== undefined) lesser.push('retry-after is missing or another');
  }
  return outcomeOf(last!, {
    good: 'status, type and message come back as the upstream sent them',
    faults,
    lesser,
    remedy:
      "have the gateway pass its upstream's errors on with status, type and wording: clients decide by them what to do",
  });
}
