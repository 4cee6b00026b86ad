import { failed, ok, skipped } from '../../base/contract/checks.ts';
import { PROTOCOLS, type Protocol } from '../../base/contract/protocol.ts';
import { type Fields, fieldsOf } from '../../base/kit/json/fields.ts';
import { errorText, readEvents, shortText } from './answer.ts';
import { APIS, streamError, streamText, streamUsage } from './apis.ts';
import { classifyArrivals, describeArrivals } from './arrivals.ts';
import {
  NO_MODEL,
  nonApiOutcome,
  notServed,
  notStreamed,
  outcomeOf,
  type Reply,
  refusedOutcome,
  requestOf,
  type SelfCheck,
  type SelfCheckOutcome,
  SHORT,
  type Subject,
  sendRequest,
} from './check.ts';
import { compareBodies, PROBES } from './compare-bodies.ts';
import type { Echo, EchoAnswer, EchoedRequest } from './echo/open-echo.ts';

const HOW =
  'needs --echo with an address such as 127.0.0.1:4010, a gateway upstream with that address, and --model with a model routed to it';

/** A check of the request at the upstream; skipped if none arrives. */
interface EchoCheck extends Omit<SelfCheck, 'run' | 'skipped'> {
  /** Whether the check needs an untranslated Messages request. */
  readonly as_messages?: true;
  look(subject: Subject, echo: Echo, first: First): Promise<SelfCheckOutcome>;
}

const ECHO_CHECKS: readonly EchoCheck[] = [
  {
    id: 'forwarding.headers',
    title: 'Headers at the upstream',
    expected: "version headers, beta headers and the query arrive unchanged; the caller's token does not arrive.",
    as_messages: true,
    look: checkHeaders,
  },
  ...PROTOCOLS.map(
    (protocol): EchoCheck => ({
      id: `forwarding.${protocol}_body`,
      title: `A body of ${APIS[protocol].what} at the upstream`,
      expected: 'it arrives byte for byte except for the model name, including unknown fields.',
      ...(protocol === 'messages' && { as_messages: true }),
      look: (subject, echo) => checkBody(subject, echo, protocol),
    }),
  ),
  {
    id: 'forwarding.usage',
    title: 'Usage of the prompt cache',
    expected:
      "the upstream's usage is returned, with cache_creation_input_tokens, cache_read_input_tokens and both cache lifetimes.",
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
    title: 'An upstream stream that fails or breaks off',
    expected: 'all events are returned, also errors, and a stream that broke off does not look complete.',
    as_messages: true,
    look: checkStreamEnd,
  },
  // Last: it may trigger the backoff of a gateway.
  {
    id: 'forwarding.errors',
    title: 'Errors of the upstream',
    expected: 'status, type and message are returned unchanged, and retry-after for an overloaded upstream.',
    as_messages: true,
    look: checkErrors,
  },
];

/** Checks of forwarding, with the echo upstream. */
export const FORWARDING_CHECKS: readonly SelfCheck[] = [
  {
    id: 'forwarding.reached',
    title: 'The echo upstream behind the gateway',
    expected: 'a request for the model reaches the echo upstream, and its response returns.',
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
  return skipped(`the gateway translates to ${APIS[protocol].what}, so the request cannot be compared`);
}

interface Probe {
  readonly path?: string;
  readonly fields?: Fields;
  /** Replaces the default body; must contain the text. */
  body?(text: string): string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly answer?: EchoAnswer;
  readonly note?: string;
  readonly seconds?: number;
}

interface Forwarded extends Reply {
  /** The first request that arrived; `undefined` without one. */
  readonly received: EchoedRequest | undefined;
  readonly count: number;
}

/** Sends a request to the echo upstream through the gateway. Rejects without a response. */
async function forward(subject: Subject, echo: Echo, protocol: Protocol, probe: Probe = {}): Promise<Forwarded> {
  const { path = APIS[protocol].path, fields = {}, headers = {}, note, seconds } = probe;
  const expected = echo.expect(probe.answer);
  const { text } = expected;
  const body = probe.body?.(text) ?? JSON.stringify({ ...requestOf(subject, protocol, text), ...fields });
  const reply = await sendRequest(subject, { path, body, headers, ...(seconds !== undefined && { seconds }) }, note);
  return { ...reply, received: expected.received(), count: expected.count() };
}

interface First extends Forwarded {
  /** The first protocol of `PROTOCOLS` that the gateway serves for the model. */
  readonly served: Protocol;
}

const firsts = new WeakMap<Subject, Promise<First>>();

/** The first forwarded request, sent once per subject: tries each protocol until one arrives. Rejects without a response. */
function firstForwarded(subject: Subject, echo: Echo): Promise<First> {
  const known = firsts.get(subject);
  if (known !== undefined) return known;
  const first = sendFirst(subject, echo);
  firsts.set(subject, first);
  // The next check retries a request without a response.
  first.catch(() => firsts.delete(subject));
  return first;
}

async function sendFirst(subject: Subject, echo: Echo): Promise<First> {
  let first: First | undefined;
  for (const served of PROTOCOLS) {
    const forwarded = { ...(await forward(subject, echo, served)), served };
    first ??= forwarded;
    if (forwarded.received !== undefined) return forwarded;
    // Another upstream responded, which may cost money: do not repeat it.
    if (forwarded.answer.status < 300) break;
  }
  return first!;
}

/** Whether the gateway forwards the model to the echo upstream. The checks report a missing response. */
export async function reachesEcho(subject: Subject, echo: Echo): Promise<boolean> {
  const first = await firstForwarded(subject, echo).catch(() => undefined);
  return first?.received !== undefined;
}

async function checkReached(subject: Subject): Promise<SelfCheckOutcome> {
  const echo = subject.echo!;
  const { model } = subject;
  const forwarded = await firstForwarded(subject, echo);
  const { received, answer, travelled, count } = forwarded;
  const foreign = nonApiOutcome(forwarded);
  if (foreign !== undefined && (received === undefined || answer.status === 200)) return foreign;
  const { status } = answer;
  if (received === undefined) {
    return failed(
      status === 200
        ? `another upstream responded for ${model}`
        : `no request arrived, and the gateway responded with status ${status}`,
      `configure a gateway upstream with ${echo.url}, route the model ${model} to it, and make sure that the gateway can reach it (--echo host:port sets the address)`,
      travelled,
    );
  }
  return outcomeOf(forwarded, {
    good: `requests for ${model} reach ${echo.url}`,
    faults: status === 200 ? [] : [`the request arrived and got a response, but the gateway returned status ${status}`],
    remedy: 'see the logs of the gateway for why it rejects the response of its upstream',
    details: count > 1 ? [`the gateway sent the request ${count} times`] : [],
  });
}

/** The outcome if this request did not arrive although others do; `undefined` if it did. */
function notForwarded(forwarded: Forwarded): SelfCheckOutcome | undefined {
  const { received, answer, travelled } = forwarded;
  if (received !== undefined) return undefined;
  return (
    nonApiOutcome(forwarded) ??
    failed(
      `the request did not reach the upstream; the gateway responded with status ${answer.status}`,
      'make the gateway forward unknown fields and headers: clients send new ones before gateways know them',
      travelled,
    )
  );
}

/** Whether the gateway itself rejected a request, and named the reason. */
function isRefusedByName({ received, answer }: Forwarded, name: RegExp): boolean {
  const is_refused = answer.status >= 400 && answer.status < 500 && answer.json !== undefined;
  return received === undefined && is_refused && name.test(answer.text);
}

/** Newer than any known version, to detect a gateway that always sends its own. */
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
    const note = `with version ${version} and unknown betas`;
    return forward(subject, echo, 'messages', { path, headers: Object.fromEntries(named), note });
  };
  const newest = await send(NEW_VERSION);
  const version = isRefusedByName(newest, /version/i) ? USUAL_VERSION : NEW_VERSION;
  const forwarded = version === NEW_VERSION ? newest : await send(version);
  if (isRefusedByName(forwarded, /beta/i)) return ok('unknown betas are rejected by name', forwarded.travelled);
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
        : [`${name} arrives as ${shortText(String(came), 60)} instead of ${sent}`];
    });
  const whole = prefixes.filter((prefix) => faultsOf(prefix).length === 0);
  const faults = prefixes.flatMap(faultsOf);
  // Clients use one prefix: if its headers arrive, the others do not matter.
  const passes = whole.length > 0 && faults.every((fault) => fault.endsWith(MISSING));
  return outcomeOf(forwarded, {
    good: `${whole.map((prefix) => `${prefix}-version and ${prefix}-beta`).join(', ')} arrive unchanged`,
    faults: [...(passes ? [] : faults), ...tokenFaults(subject, forwarded.received!)],
    lesser: path.endsWith(QUERY) ? [] : [`the query does not arrive unchanged: ${QUERY}`],
    remedy:
      "make the gateway forward version headers, beta headers and the query unchanged, and replace the caller's credential by its own",
    details: passes ? faults : [],
  });
}

/** Places where the caller's token leaks to the upstream. */
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
  const forwarded = await forward(subject, echo, protocol, { body, note: 'with unknown fields' });
  if (isRefusedByName(forwarded, /selfcheck_unknown/))
    return ok('unknown fields are rejected by name', forwarded.travelled);
  const missing = notServed(forwarded, protocol) ?? notForwarded(forwarded);
  if (missing !== undefined) return missing;
  const { body: came, protocol: spoken } = forwarded.received!;
  const token_faults = tokenFaults(subject, forwarded.received!);
  if (spoken !== protocol && token_faults.length === 0) return translated(spoken);
  const { same_bytes, differences, model_only } = compareBodies(sent, came);
  const lines = differences.map(({ path, is }) => `${path} ${is}`);
  // A gateway may rename the model; added top-level fields change no prompt.
  const isLesser = (_: string, index: number) => differences[index]!.is_lesser === true;
  const is_good = same_bytes || model_only;
  return outcomeOf(forwarded, {
    good: `${came.length} bytes arrive as they were sent${model_only ? ', except for the model name' : ''}`,
    faults: [...token_faults, ...lines.filter((each, index) => !isLesser(each, index)).slice(0, 5)],
    lesser: [
      ...lines.filter(isLesser).slice(0, 3),
      ...(is_good || lines.length > 0
        ? []
        : ['the content is equal, but serialised again: other key order, white space or escapes']),
    ],
    remedy:
      'make the gateway forward the bytes it received: clients send new fields, and a changed prompt misses the cache',
  });
}

/** Distinct counts, small enough to cost next to nothing if the gateway bills them. */
const COUNTS = { input: 13, output: 7, cache_read: 31, cache_write_5m: 17, cache_write_1h: 30 } as const;
/** The same in the protocol. */
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
  let last: Reply | undefined;
  for (const stream of [false, true]) {
    const forwarded = await forward(subject, echo, 'messages', { fields: { stream }, answer: { usage: COUNTS } });
    const missing = notForwarded(forwarded) ?? (stream ? notStreamed : refusedOutcome)(forwarded);
    if (missing !== undefined) return missing;
    last = forwarded;
    const { json, text } = forwarded.answer;
    const came = withParts(stream ? streamUsage(readEvents(text)) : fieldsOf(fieldsOf(json).usage));
    for (const [name, sent] of Object.entries(withParts(USAGE))) {
      if (name === 'cache_creation' || came[name] === sent) continue;
      const is = typeof came[name] === 'number' ? `is ${came[name]} instead of ${sent}` : 'is missing';
      faults.push(`${name} ${is} in ${stream ? 'a stream' : 'a complete response'}`);
    }
  }
  return outcomeOf(last!, {
    good: 'all fields are returned, also of both cache lifetimes',
    faults: faults.slice(0, 6),
    remedy: "make the gateway forward all of its upstream's usage: clients and bills use it for the prompt cache",
  });
}

/** Incompressible numbers, larger together than the buffers of proxies (up to 32 KiB). */
const NUMBERS = Array.from({ length: 5143 }, (_, index) => String(100_000 + ((index * 7919) % 900_000))).join(' ');
const PACE = { text: NUMBERS, pieces: 60, pause_ms: 25 } as const;

const ARRIVING = {
  one_by_one: ['ok', 'events arrive one by one, as they are made', ''],
  unclear: [
    'warning',
    'inconclusive: these times do not show whether events arrive as they are made',
    'repeat this check under less load; if it stays inconclusive, a proxy delays events (HAProxy: option http-no-delay)',
  ],
  at_once: [
    'failed',
    'all events arrive at once, after the last was made',
    'a proxy buffers the whole response: disable buffering and compression for streams (nginx: proxy_buffering off)',
  ],
  in_blocks: [
    'failed',
    'events arrive in blocks',
    'a proxy forwards full buffers: disable buffering and compression for streams (nginx: proxy_buffering off, gzip off)',
  ],
} as const;

/** Checks for buffering at the known pace of the echo upstream. */
async function checkPace(subject: Subject, echo: Echo, { served }: First): Promise<SelfCheckOutcome> {
  const note = `as a stream of an event every ${PACE.pause_ms} ms`;
  const forwarded = await forward(subject, echo, served, { fields: { stream: true }, answer: PACE, note });
  const instead = notForwarded(forwarded) ?? notStreamed(forwarded);
  if (instead !== undefined) return instead;
  const arrived = { ...forwarded.answer, made_every_ms: PACE.pause_ms };
  const [verdict, found, remedy] = ARRIVING[classifyArrivals(arrived)];
  const details = describeArrivals(arrived);
  return { verdict, found, ...(remedy !== '' && { remedy }), ...forwarded.travelled, details };
}

const TEXT = 'One, two, three, and a line\n with "quotes", \\ and é.';
const UNKNOWN = 'selfcheck_unknown';
const BUSY = 'busy: a self-check asked for this';
const event = (type: string, fields: Fields) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const ERROR_EVENT = event('error', { error: { type: 'overloaded_error', message: BUSY } });
/** Time limit for a gateway to signal a broken stream to its client, in seconds. */
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
  const reported_error = streamError(readEvents(failing.answer.text));
  const broken = await stream({ breaks_off: true }, { seconds: BROKEN_SECONDS }).catch((error: unknown) => {
    // A closed connection is signal enough.
    if ((error as { code?: unknown }).code !== undefined) return undefined;
    throw error;
  });
  return outcomeOf(whole, {
    good: `${events.length} events are returned, also errors, and a stream that broke off looks incomplete`,
    faults: [
      ...(streamText(events) === TEXT ? [] : ["the text differs from the upstream's"]),
      ...APIS.messages.streamFaults(events),
      ...(reported_error === undefined ? ['an error within a stream is dropped'] : []),
      ...(broken !== undefined && /"message_stop"/.test(broken.answer.text)
        ? ['a stream that broke off at the upstream ends like a complete one: clients keep half a response']
        : []),
      ...(broken?.answer.fault === 'too_late'
        ? ['after its upstream breaks off, the gateway leaves the client waiting']
        : []),
    ],
    lesser: [
      ...(events.some(({ fields }) => fields.type === UNKNOWN) ? [] : ['an unknown event is dropped']),
      ...(reported_error === undefined || reported_error.includes(BUSY)
        ? []
        : ['the message of an error within a stream was replaced']),
    ],
    remedy: 'make the gateway forward every event unchanged, and close the connection when its upstream breaks off',
  });
}

/** On the first error clients compact the conversation; on the second they wait and retry. */
const ERRORS = [
  { status: 400, type: 'invalid_request_error', message: 'prompt is too long: 214315 tokens > 200000 maximum' },
  { status: 529, type: 'overloaded_error', message: 'Overloaded: a self-check asked for this', wait: '2' },
];

async function checkErrors(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const faults: string[] = [];
  const lesser: string[] = [];
  let last: Reply | undefined;
  for (const { status, type, message, wait } of ERRORS) {
    const body = JSON.stringify({ type: 'error', error: { type, message } });
    const headers: Record<string, string> = wait === undefined ? {} : { 'retry-after': wait };
    const forwarded = await forward(subject, echo, 'messages', { answer: { error: { status, headers, body } } });
    const instead = notForwarded(forwarded) ?? nonApiOutcome(forwarded);
    if (instead !== undefined) return instead;
    last = forwarded;
    const { answer } = forwarded;
    const error = fieldsOf(fieldsOf(answer.json).error);
    if (answer.status !== status) faults.push(`status ${status} became ${answer.status}`);
    if (error.type !== type) faults.push(`the type ${type} became ${shortText(String(error.type), 40)}`);
    if (!(errorText(answer.json) ?? '').includes(message)) faults.push('the message of the upstream was replaced');
    else if (error.message !== message) lesser.push('text was added to the message of the upstream');
    if (answer.headers['retry-after'] !== wait && wait !== undefined) lesser.push('retry-after is missing or changed');
  }
  return outcomeOf(last!, {
    good: 'status, type and message are returned unchanged',
    faults,
    lesser,
    remedy: "make the gateway forward its upstream's errors with status, type and message: clients react to them",
  });
}
