import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { failed, ok, skipped, type Verdict, warning } from '../../base/contract/checks.ts';
import { COUNT_PATH, MAIN_PROTOCOL, PROTOCOLS, type Protocol } from '../../base/contract/protocol.ts';
import { type Fields, fieldsOf } from '../../base/kit/json/fields.ts';
import { isJson } from '../../base/kit/media-type.ts';
import { DEFINITIONS } from '../../domain/protocols/definitions.ts';
import { describeJson, errorText, readEvents, shortText } from './answer.ts';
import { formatUsage, isCount, streamError, streamFaults, streamText, streamUsage, usageFaults } from './apis.ts';
import { classifyArrivals, describeArrivals } from './arrivals.ts';
import {
  type CheckRequest,
  MODELS_PATH,
  nonApiOutcome,
  notServed,
  notStreamed,
  outcomeOf,
  PROMPT,
  type Reply,
  refusedOutcome,
  requestOf,
  type SelfCheck,
  type SelfCheckOutcome,
  SHORT,
  type Subject,
  sendRequest,
  withoutModel,
} from './check.ts';
import { CLIENT_CHECKS } from './clients.ts';
import { compareBodies } from './compare-bodies.ts';
import type { Echo, EchoAnswer, EchoedRequest } from './echo.ts';

const MAIN = DEFINITIONS[MAIN_PROTOCOL];

/** How long clients wait for the list before they continue without it. */
const CLIENT_TIMEOUT_MS = 3000;
const MODELS_SECONDS = 20;
const LONG_ANSWER_TOKENS = 120;
const LONG_PROMPT = 'Write the numbers from one to eighty as words, with commas between.';
const REFUSAL = 'status 401 or 403 with an error in JSON; never a page, a redirect or a sign-in.';

function checksOf(protocol: Protocol): SelfCheck[] {
  const { name, probe } = DEFINITIONS[protocol];
  const capital = name.charAt(0).toUpperCase() + name.slice(1);
  return [
    {
      id: `${protocol}.error`,
      title: `${capital}: an invalid request`,
      expected: `a status from 400 to 499 with ${probe.error_form} in JSON, which clients can show.`,
      skipped: withoutModel,
      run: (subject) => checkError(subject, protocol),
    },
    {
      id: `${protocol}.json`,
      title: `${capital}: a complete response`,
      expected: 'status 200 and JSON in the format of the API, with stop reason and usage; no page, no redirect.',
      uses: SHORT,
      skipped: withoutModel,
      run: (subject) => checkWhole(subject, protocol),
    },
    {
      id: `${protocol}.stream`,
      title: `${capital}: a stream`,
      expected: 'text/event-stream with the events of the API in order, a final event and usage.',
      uses: SHORT,
      skipped: withoutModel,
      run: (subject) => checkStream(subject, protocol),
    },
  ];
}

/** Skips a check whose request was rejected by its credential or limit, before its content was validated. */
function refusedAtTheDoor({ answer: { status, json }, travelled }: Reply): SelfCheckOutcome | undefined {
  if (![401, 402, 403, 429].includes(status) || json === undefined) return undefined;
  return skipped(`inconclusive: ${errorText(json) ?? `status ${status}`}`, travelled);
}

const wrongToken = () => `selfcheck-${randomUUID()}`;

function lateFault({ answer: { total_ms } }: Reply): string[] {
  if (total_ms <= CLIENT_TIMEOUT_MS) return [];
  return [`it took ${(total_ms / 1000).toFixed(1)} seconds: clients wait 3, then continue without a list`];
}

async function checkList(subject: Subject): Promise<SelfCheckOutcome> {
  const reply = await sendRequest(subject, { path: MODELS_PATH, seconds: MODELS_SECONDS });
  const refused = refusedOutcome(reply);
  // A clear 403 is a valid policy of a gateway.
  if (refused !== undefined)
    return reply.answer.status === 403 && reply.answer.json !== undefined
      ? { ...refused, verdict: 'warning' }
      : refused;
  const { answer } = reply;
  const { data } = fieldsOf(answer.json);
  const ids = Array.isArray(data) ? data.map((entry) => fieldsOf(entry).id) : undefined;
  const { model } = subject;
  return outcomeOf(reply, {
    good: `${ids?.length} model${ids?.length === 1 ? '' : 's'} after ${Math.round(answer.total_ms)} ms`,
    faults: [
      ...(ids === undefined ? [`expected a list "data", got ${describeJson(answer.json)}`] : []),
      ...(ids?.every((id) => typeof id === 'string' && id !== '') === false ? ['a model has no id'] : []),
      ...lateFault(reply),
    ],
    lesser: [
      ...(ids?.length === 0 ? ['the list is empty: this token may use no model'] : []),
      ...(isJson(answer.headers['content-type']) ? [] : ['its content type is not application/json']),
    ],
    remedy: 'make the gateway cache its list and return {"data":[{"id":"..."}]}; check the address',
    details:
      model === undefined || ids?.includes(model)
        ? []
        : [`the list lacks ${shortText(model, 80)}, which these checks use`],
  });
}

/** Whether the model list is rejected without a token. Rejects without a response. */
export function checkWithoutToken(subject: Pick<Subject, 'ask'>): Promise<SelfCheckOutcome> {
  return checkRefusal(subject, { path: MODELS_PATH, token: null, seconds: MODELS_SECONDS });
}

async function checkRefusal(subject: Pick<Subject, 'ask'>, ask: CheckRequest): Promise<SelfCheckOutcome> {
  const reply = await sendRequest(subject, ask);
  const foreign = nonApiOutcome(reply);
  if (foreign !== undefined) return foreign;
  const { status, json } = reply.answer;
  const lists = ask.json === undefined;
  const text = errorText(json);
  return outcomeOf(reply, {
    good: `rejected with status ${status}: ${text}`,
    faults: [
      ...(status < 300 && !lists ? ['a model responded: the gateway does not check the token'] : []),
      ...(status >= 300 && status !== 401 && status !== 403 ? [`status ${status} instead of 401 or 403: ${text}`] : []),
      ...(lists ? lateFault(reply) : []),
    ],
    lesser: [
      ...(status < 300 && lists ? ['not rejected: clients cannot detect a wrong token from the model list'] : []),
      ...(status >= 300 && text === undefined ? ['the error does not explain the problem of the token'] : []),
    ],
    remedy:
      'make the gateway verify the token first, and reject it with status 401 and an error in JSON; no proxy may add a credential',
  });
}

async function checkError(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const { path, probe } = DEFINITIONS[protocol];
  const json = { ...requestOf(subject, protocol), ...probe.wrong };
  const reply = await sendRequest(subject, { path, json }, 'with a field of the wrong type');
  const instead = notServed(reply, protocol) ?? refusedAtTheDoor(reply) ?? nonApiOutcome(reply);
  if (instead !== undefined) return instead;
  const { status, json: error } = reply.answer;
  const is_refused = status >= 400 && status < 500;
  return outcomeOf(reply, {
    good: `rejected with status ${status}: ${errorText(error)}`,
    faults: [...(is_refused ? [] : [`the status is ${status}`]), ...(status < 400 ? [] : probe.errorFaults(error))],
    remedy: `make the gateway or its upstream reject invalid requests with a status from 400 to 499 and ${probe.error_form}`,
  });
}

const TRANSLATES =
  'make the gateway forward the responses of its upstream unchanged, or translate all fields and events';

function otherModel({ model }: Subject, answered: unknown): string[] {
  if (typeof answered !== 'string' || answered === model) return [];
  return [`${shortText(answered, 80)} responded; this is fine if the gateway maps model names`];
}

async function checkWhole(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const { path, probe } = DEFINITIONS[protocol];
  const reply = await sendRequest(subject, { path, json: requestOf(subject, protocol) }, 'a short question');
  const instead = notServed(reply, protocol) ?? refusedOutcome(reply);
  if (reply.answer.status === 400 && /\bstream/i.test(errorText(reply.answer.json) ?? '')) {
    return { ...instead!, verdict: 'skipped', found: `streams only: ${errorText(reply.answer.json)}` };
  }
  if (instead !== undefined) return instead;
  const fields = fieldsOf(reply.answer.json);
  return outcomeOf(reply, {
    good: `a response after ${Math.round(reply.answer.total_ms)} ms, ${formatUsage(fields.usage, probe)}`,
    faults: [...probe.wholeFaults(fields), ...usageFaults(fields.usage, probe)],
    lesser: isJson(reply.answer.headers['content-type']) ? [] : ['its content type is not application/json'],
    remedy: TRANSLATES,
    details: otherModel(subject, fields.model),
  });
}

async function checkStream(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const { path, probe } = DEFINITIONS[protocol];
  const json = { ...requestOf(subject, protocol), stream: true, ...probe.stream_fields };
  const reply = await sendRequest(subject, { path, json }, 'as a stream');
  const instead = notServed(reply, protocol) ?? notStreamed(reply);
  if (instead !== undefined) return instead;
  const events = readEvents(reply.answer.text);
  const usage = streamUsage(events);
  const error = streamError(events);
  return outcomeOf(reply, {
    good: `${events.length} events in ${Math.round(reply.answer.total_ms)} ms, ${formatUsage(usage, probe)}`,
    faults:
      error === undefined
        ? [...streamFaults(events, probe), ...usageFaults(usage, probe)]
        : [`the stream failed: ${error}`],
    remedy:
      error === undefined ? TRANSLATES : 'see the logs of the gateway: it or its upstream failed during the stream',
  });
}

async function checkArrival(subject: Subject): Promise<SelfCheckOutcome> {
  const json = { ...requestOf(subject, MAIN_PROTOCOL, LONG_PROMPT, LONG_ANSWER_TOKENS), stream: true };
  const reply = await sendRequest(subject, { path: MAIN.path, json }, 'a long response as a stream');
  const instead = notStreamed(reply);
  if (instead !== undefined) return { ...instead, verdict: 'skipped', found: `inconclusive: ${instead.found}` };
  const outcome = arrivalOutcome(ARRIVING, reply);
  return reply.answer.headers['content-length'] === undefined
    ? outcome
    : failed('it was complete before its first byte was sent: it has a content-length', BUFFERING, outcome);
}

const BUFFERING =
  'make proxies and the gateway forward text/event-stream at once, without compression (nginx: proxy_buffering off, gzip off)';

type Arrivals = Readonly<
  Record<ReturnType<typeof classifyArrivals>, readonly [Verdict, found: string, remedy?: string]>
>;

const ONE_BY_ONE = ['ok', 'events arrive one by one, as they are made'] as const;

const ARRIVING: Arrivals = {
  one_by_one: ONE_BY_ONE,
  unclear: ['skipped', 'inconclusive: the response was too short or too fast; use --echo or a slower model'],
  at_once: [
    'warning',
    'all events arrived at once: either a proxy buffers streams, or the model completes its response first',
    `use --echo, or a model that streams, to find out; ${BUFFERING}`,
  ],
  in_blocks: ['failed', 'events arrive in blocks: a buffer on the way fills up', BUFFERING],
};

function arrivalOutcome(table: Arrivals, { answer, travelled }: Reply, made_every_ms?: number): SelfCheckOutcome {
  const arrived = { ...answer, ...(made_every_ms !== undefined && { made_every_ms }) };
  const [verdict, found, remedy] = table[classifyArrivals(arrived)];
  return { verdict, found, ...(remedy !== undefined && { remedy }), ...travelled, details: describeArrivals(arrived) };
}

const MADE_UP = 'count with the upstream, or return an error such as status 501: clients rely on the count';
const LONG_TEXT = Array.from({ length: 400 }, (_, index) => `word${index % 10}`).join(' ');

async function checkTokenCounting(subject: Subject): Promise<SelfCheckOutcome> {
  const counts: number[] = [];
  let reply: Reply | undefined;
  for (const content of [PROMPT, LONG_TEXT]) {
    const json = { model: subject.model, messages: [{ role: 'user', content }] };
    reply = await sendRequest(subject, { path: COUNT_PATH, json });
    const { status, json: came } = reply.answer;
    const refused = refusedAtTheDoor(reply) ?? nonApiOutcome(reply);
    // Many servers return 404 as plain text.
    if (refused !== undefined)
      return status === 404 && !/^\s*</.test(reply.answer.text) ? { ...refused, verdict: 'warning' } : refused;
    const text = errorText(came);
    if (status !== 200) {
      return outcomeOf(reply, {
        good: `not supported, reported with status ${status}: ${text}; clients estimate`,
        faults:
          text === undefined || (status >= 500 && status !== 501) ? [`status ${status} and ${describeJson(came)}`] : [],
        remedy: MADE_UP,
      });
    }
    const { input_tokens } = fieldsOf(came);
    counts.push(isCount(input_tokens) ? input_tokens : 0);
  }
  const [few = 0, many = 0] = counts;
  return outcomeOf(reply!, {
    good: `${few} tokens for a sentence, ${many} for 400 words`,
    faults:
      few > 0 && many - few >= 100
        ? []
        : [`${few} tokens for a sentence and ${many} for 400 words: the count is made up`],
    remedy: MADE_UP,
  });
}

const LIMIT_HOW = 'needs --limit-token-env with the name of a variable with a token whose limit is exhausted';
const REQUESTS = PROTOCOLS.length + 1;

/** Facts that an error must state, by words in its field names or message; retry-after may state the reset time. */
const FACTS: Readonly<Record<string, RegExp>> = {
  limit: /limit|budget|quota/i,
  window: /window|period|duration|dai?l?y|week|month/i,
  'reset time': /reset/i,
};

export const LIMIT_CHECK: SelfCheck = {
  id: 'limits.refusal',
  title: 'An exhausted limit',
  expected:
    'in each protocol a JSON error with status 402, 403 or 429, in the same form each time, with limit, window and reset time; no response of another model.',
  uses: { requests: REQUESTS, input: SHORT.input * REQUESTS, output: SHORT.output * REQUESTS },
  skipped: ({ limit_token, model }) => (limit_token === undefined ? LIMIT_HOW : withoutModel({ model })),
  run: checkLimit,
};

async function checkLimit(subject: Subject): Promise<SelfCheckOutcome> {
  const send = (protocol: Protocol) => {
    // Coding clients stream; the error must come before the stream.
    const json = { ...requestOf(subject, protocol), stream: true };
    return sendRequest(
      subject,
      { path: DEFINITIONS[protocol].path, json, token: subject.limit_token! },
      'with the limit exhausted',
    );
  };
  const first = await send(MAIN_PROTOCOL);
  const instead = nonApiOutcome(first);
  if (instead !== undefined && first.answer.status >= 300) return instead;
  if (first.answer.status === 401) {
    return warning(
      `limits not checked: the token was rejected with status 401: ${errorText(first.answer.json) ?? 'no reason given'}`,
      'set the variable of --limit-token-env to a valid token',
      first.travelled,
    );
  }
  const again = await send(MAIN_PROTOCOL);
  const changes =
    formOf(again) === formOf(first)
      ? []
      : [`the second request is rejected in another form, with status ${again.answer.status}`];
  const faults = [...refusalFaults(first, MAIN_PROTOCOL, subject), ...changes];
  for (const protocol of PROTOCOLS.slice(1)) {
    const reply = await send(protocol);
    if (notServed(reply, protocol) !== undefined) continue;
    const found = refusalFaults(reply, protocol, subject).map((fault) => `in ${DEFINITIONS[protocol].name}: ${fault}`);
    faults.push(...found.filter((fault) => !faults.some((known) => fault.endsWith(known))));
  }
  const { status, headers } = first.answer;
  return outcomeOf(first, {
    good: `rejected with status ${status} in the same form each time, with limit, window and reset time`,
    faults,
    // Clients retry a 429 up to ten times without this header, but not a 402 or 403.
    lesser:
      status === 429 && headers['x-should-retry'] !== 'false'
        ? ['x-should-retry: false is missing: clients retry in vain']
        : [],
    remedy:
      'exhaust the limit of the token; then make the gateway return 402, 403 or 429 with limit, window and reset time in the error, and x-should-retry: false',
  });
}

function refusalFaults({ answer }: Reply, protocol: Protocol, { model }: Subject): string[] {
  const { status, json, text, headers } = answer;
  if (status < 300) {
    const by = /"model"\s*:\s*"([^"]{1,200})"/.exec(text)?.[1];
    return [
      by === undefined || by === model
        ? `it got status ${status}: the limit is not exhausted, or not enforced before the response begins`
        : `the response is from ${shortText(by, 60)} instead of ${model}`,
    ];
  }
  const error = fieldsOf(fieldsOf(json).error);
  const wait = headers['retry-after'];
  return [
    ...([402, 403, 429].includes(status) ? [] : [`the status is ${status}`]),
    ...DEFINITIONS[protocol].probe.errorFaults(json),
    ...Object.keys(FACTS)
      .filter((fact) => !saysFact(fact, error, headers))
      .map((fact) => `it lacks the ${fact}`),
    ...(wait === undefined || /^\d+$/.test(wait)
      ? []
      : ['retry-after is not a number: clients read whole seconds only']),
  ];
}

function saysFact(fact: string, error: Fields, headers: IncomingHttpHeaders): boolean {
  const words = FACTS[fact]!;
  const is_said = Object.entries(error).some(([name, value]) =>
    name === 'message'
      ? words.test(String(value))
      : name !== 'type' && name !== 'code' && words.test(name) && value !== null,
  );
  return is_said || (fact === 'reset time' && headers['retry-after'] !== undefined);
}

/** The form of an error, which must be stable: status, field names, type and code. Numbers, times and wording may vary. */
function formOf({ answer: { status, json } }: Reply): string {
  const { type, code, ...error } = fieldsOf(fieldsOf(json).error);
  return JSON.stringify([status, type, code, Object.keys(error)]);
}

const ECHO_HOW =
  'needs --echo with an address such as 127.0.0.1:4010, a gateway upstream with that address, and --model with a model routed to it';

interface EchoCheck extends Omit<SelfCheck, 'run' | 'skipped'> {
  readonly is_of_main?: true;
  look(subject: Subject, echo: Echo, first: First): Promise<SelfCheckOutcome>;
}

const ECHO_CHECKS: readonly EchoCheck[] = [
  {
    id: 'forwarding.headers',
    title: 'Headers at the upstream',
    expected: "version headers, beta headers and the query arrive unchanged; the caller's token does not arrive.",
    is_of_main: true,
    look: checkHeaders,
  },
  ...PROTOCOLS.map(
    (protocol): EchoCheck => ({
      id: `forwarding.${protocol}_body`,
      title: `A body of ${DEFINITIONS[protocol].name} at the upstream`,
      expected: 'it arrives byte for byte except for the model name, including unknown fields.',
      ...(protocol === MAIN_PROTOCOL && { is_of_main: true }),
      look: (subject, echo) => checkBody(subject, echo, protocol),
    }),
  ),
  {
    id: 'forwarding.usage',
    title: 'Usage of the prompt cache',
    expected:
      "the upstream's usage is returned, with cache_creation_input_tokens, cache_read_input_tokens and both cache lifetimes.",
    is_of_main: true,
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
    is_of_main: true,
    look: checkStreamEnd,
  },
  // Last: it may trigger the backoff of a gateway.
  {
    id: 'forwarding.errors',
    title: 'Errors of the upstream',
    expected: 'status, type and message are returned unchanged, and retry-after for an overloaded upstream.',
    is_of_main: true,
    look: checkErrors,
  },
];

export const FORWARDING_CHECKS: readonly SelfCheck[] = [
  {
    id: 'forwarding.reached',
    title: 'The echo upstream behind the gateway',
    expected: 'a request for the model reaches the echo upstream, and its response returns.',
    uses: SHORT,
    skipped: withoutEcho,
    run: checkReached,
  },
  ...ECHO_CHECKS.map(({ look, is_of_main, ...check }) => ({
    ...check,
    skipped: withoutEcho,
    async run(subject: Subject) {
      const echo = subject.echo!;
      const first = await firstForwarded(subject, echo);
      const { received, served } = first;
      if (received === undefined)
        return skipped('no request reaches the echo upstream: see the check forwarding.reached');
      if (is_of_main && served !== MAIN_PROTOCOL) return skipped(`the gateway does not serve ${MAIN.name}`);
      return is_of_main && received.protocol !== MAIN_PROTOCOL
        ? translated(received.protocol)
        : look(subject, echo, first);
    },
  })),
];

function withoutEcho({ echo, model }: Subject): string | undefined {
  return echo === undefined ? ECHO_HOW : withoutModel({ model });
}

function translated(protocol: Protocol): SelfCheckOutcome {
  return skipped(`the gateway translates to ${DEFINITIONS[protocol].name}, so the request cannot be compared`);
}

interface Probe {
  readonly path?: string;
  readonly fields?: Fields;
  body?(text: string): string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly answer?: EchoAnswer;
  readonly note?: string;
  readonly seconds?: number;
}

interface Forwarded extends Reply {
  readonly received: EchoedRequest | undefined;
  readonly count: number;
}

async function forward(subject: Subject, echo: Echo, protocol: Protocol, probe: Probe = {}): Promise<Forwarded> {
  const { path = DEFINITIONS[protocol].path, fields = {}, headers = {}, note, seconds } = probe;
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
    const path = `${MAIN.path}${QUERY}`;
    const note = `with version ${version} and unknown betas`;
    return forward(subject, echo, MAIN_PROTOCOL, { path, headers: Object.fromEntries(named), note });
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
    sent = DEFINITIONS[protocol].probe.body({
      model: subject.model ?? '',
      text,
      prefix: subject.header_prefixes.at(-1) ?? 'vendor',
    });
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
const USAGE = {
  input_tokens: COUNTS.input,
  cache_creation_input_tokens: COUNTS.cache_write_5m + COUNTS.cache_write_1h,
  cache_read_input_tokens: COUNTS.cache_read,
  ephemeral_5m_input_tokens: COUNTS.cache_write_5m,
  ephemeral_1h_input_tokens: COUNTS.cache_write_1h,
  output_tokens: COUNTS.output,
};

async function checkUsage(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const faults: string[] = [];
  let last: Reply | undefined;
  for (const stream of [false, true]) {
    const forwarded = await forward(subject, echo, MAIN_PROTOCOL, { fields: { stream }, answer: { usage: COUNTS } });
    const missing = notForwarded(forwarded) ?? (stream ? notStreamed : refusedOutcome)(forwarded);
    if (missing !== undefined) return missing;
    last = forwarded;
    const { json, text } = forwarded.answer;
    const usage = stream ? streamUsage(readEvents(text)) : fieldsOf(fieldsOf(json).usage);
    const came: Fields = { ...usage, ...fieldsOf(usage.cache_creation) };
    for (const [name, sent] of Object.entries(USAGE)) {
      if (came[name] === sent) continue;
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

const ARRIVING_AT_PACE: Arrivals = {
  one_by_one: ONE_BY_ONE,
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
};

async function checkPace(subject: Subject, echo: Echo, { served }: First): Promise<SelfCheckOutcome> {
  const note = `as a stream of an event every ${PACE.pause_ms} ms`;
  const forwarded = await forward(subject, echo, served, { fields: { stream: true }, answer: PACE, note });
  const instead = notForwarded(forwarded) ?? notStreamed(forwarded);
  return instead ?? arrivalOutcome(ARRIVING_AT_PACE, forwarded, PACE.pause_ms);
}

const TEXT = 'One, two, three, and a line\n with "quotes", \\ and é.';
const UNKNOWN = 'selfcheck_unknown';
const BUSY = 'busy: requested by a self-check';
const event = (type: string, fields: Fields) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const ERROR_EVENT = event('error', { error: { type: 'overloaded_error', message: BUSY } });
const BROKEN_SECONDS = 20;

async function checkStreamEnd(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const stream = (answer: EchoAnswer, more: Probe = {}) =>
    forward(subject, echo, MAIN_PROTOCOL, { fields: { stream: true }, answer, note: 'as a stream', ...more });
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
      ...streamFaults(events, MAIN.probe),
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
  { status: 529, type: 'overloaded_error', message: 'Overloaded: requested by a self-check', wait: '2' },
];

async function checkErrors(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const faults: string[] = [];
  const lesser: string[] = [];
  let last: Reply | undefined;
  for (const { status, type, message, wait } of ERRORS) {
    const body = JSON.stringify({ type: 'error', error: { type, message } });
    const headers: Record<string, string> = wait === undefined ? {} : { 'retry-after': wait };
    const forwarded = await forward(subject, echo, MAIN_PROTOCOL, { answer: { error: { status, headers, body } } });
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

/** All checks in order, free ones first. */
export const CHECKS: readonly SelfCheck[] = [
  {
    id: 'models.list',
    title: 'The list of models',
    expected: 'JSON with a list of models in "data" within 3 seconds; never a page, a redirect or a sign-in.',
    run: checkList,
  },
  {
    id: 'models.no_token',
    title: 'The list of models without a token',
    expected: REFUSAL,
    run: checkWithoutToken,
  },
  {
    id: 'models.wrong_token',
    title: 'The list of models with a wrong token',
    expected: REFUSAL,
    run: (subject) => checkRefusal(subject, { path: MODELS_PATH, token: wrongToken(), seconds: MODELS_SECONDS }),
  },
  {
    id: 'messages.wrong_token',
    title: 'Messages with a wrong token',
    expected: 'status 401 or 403 with an error in JSON, and no model response.',
    uses: SHORT,
    skipped: withoutModel,
    run: (subject) =>
      checkRefusal(subject, { path: MAIN.path, json: requestOf(subject, MAIN_PROTOCOL), token: wrongToken() }),
  },
  {
    id: 'messages.count_tokens',
    title: 'Token counting',
    expected: 'a count that grows with the text, or a JSON error that it is not supported; no invented count.',
    skipped: withoutModel,
    run: checkTokenCounting,
  },
  ...PROTOCOLS.flatMap(checksOf),
  {
    id: 'messages.stream_arrival',
    title: 'Events arrive as they are made',
    expected: 'event and data lines arrive continuously while the model writes, the first at once.',
    uses: { input: SHORT.input, output: LONG_ANSWER_TOKENS },
    skipped: withoutModel,
    run: checkArrival,
  },
  ...FORWARDING_CHECKS,
  LIMIT_CHECK,
  ...CLIENT_CHECKS,
];
