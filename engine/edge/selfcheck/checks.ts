import { randomUUID } from 'node:crypto';
import { failed, skipped } from '../../base/contract/checks.ts';
import { PROTOCOLS, type Protocol } from '../../base/contract/protocol.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { isJson } from '../../base/kit/media-type.ts';
import { describeJson, errorText, readEvents, shortText } from './answer.ts';
import { APIS, formatUsage, isCount, streamError, streamUsage, usageFaults } from './apis.ts';
import { classifyArrivals, describeArrivals } from './arrivals.ts';
import {
  type CheckRequest,
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
import { FORWARDING_CHECKS } from './forwarding.ts';
import { LIMIT_CHECK } from './limits.ts';

const MODELS_PATH = '/v1/models?limit=1000';
/** How long clients wait for the list before they continue without it. */
const CLIENT_TIMEOUT_MS = 3000;
/** Long enough to measure a slow list. */
const MODELS_SECONDS = 20;
/** A second or more of output of most models; all checks together still cost less than a cent. */
const LONG_ANSWER_TOKENS = 120;
const LONG_PROMPT = 'Write the numbers from one to eighty as words, with commas between.';
const REFUSAL = 'status 401 or 403 with an error in JSON; never a page, a redirect or a sign-in.';

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
      checkRefusal(subject, { path: APIS.messages.path, json: requestOf(subject, 'messages'), token: wrongToken() }),
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

function checksOf(protocol: Protocol): SelfCheck[] {
  const { what, error_form } = APIS[protocol];
  const capital = what.charAt(0).toUpperCase() + what.slice(1);
  return [
    {
      id: `${protocol}.error`,
      title: `${capital}: an invalid request`,
      expected: `a status from 400 to 499 with ${error_form} in JSON, which clients can show.`,
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
      ...(status < 300 && !lists ? ['a model answered: the gateway does not check the token'] : []),
      ...(status >= 300 && status !== 401 && status !== 403 ? [`status ${status} instead of 401 or 403: ${text}`] : []),
      ...(lists ? lateFault(reply) : []),
    ],
    lesser: [
      ...(status < 300 && lists ? ['not rejected: clients cannot detect a wrong token by it'] : []),
      ...(status >= 300 && text === undefined ? ['the error does not say what is wrong with the token'] : []),
    ],
    remedy:
      'make the gateway verify the token first, and reject it with status 401 and an error in JSON; no proxy may add a credential',
  });
}

async function checkError(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const { path, wrong, errorFaults, error_form } = APIS[protocol];
  const json = { ...requestOf(subject, protocol), ...wrong };
  const reply = await sendRequest(subject, { path, json }, 'with a field of the wrong type');
  const instead = notServed(reply, protocol) ?? refusedAtTheDoor(reply) ?? nonApiOutcome(reply);
  if (instead !== undefined) return instead;
  const { status, json: error } = reply.answer;
  const is_refused = status >= 400 && status < 500;
  return outcomeOf(reply, {
    good: `rejected with status ${status}: ${errorText(error)}`,
    faults: [...(is_refused ? [] : [`the status is ${status}`]), ...(status < 400 ? [] : errorFaults(error))],
    remedy: `make the gateway or its upstream reject invalid requests with a status from 400 to 499 and ${error_form}`,
  });
}

const TRANSLATES =
  'make the gateway forward the responses of its upstream unchanged, or translate all fields and events';

/** A note if the response names another model than the request. */
function otherModel({ model }: Subject, answered: unknown): string[] {
  if (typeof answered !== 'string' || answered === model) return [];
  return [`${shortText(answered, 80)} answered; this is fine if the gateway maps model names`];
}

async function checkWhole(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const api = APIS[protocol];
  const reply = await sendRequest(subject, { path: api.path, json: requestOf(subject, protocol) }, 'a short question');
  const instead = notServed(reply, protocol) ?? refusedOutcome(reply);
  if (reply.answer.status === 400 && /\bstream/i.test(errorText(reply.answer.json) ?? '')) {
    return { ...instead!, verdict: 'skipped', found: `streams only: ${errorText(reply.answer.json)}` };
  }
  if (instead !== undefined) return instead;
  const fields = fieldsOf(reply.answer.json);
  return outcomeOf(reply, {
    good: `a response after ${Math.round(reply.answer.total_ms)} ms, ${formatUsage(fields.usage, api)}`,
    faults: [...api.wholeFaults(fields), ...usageFaults(fields.usage, api)],
    lesser: isJson(reply.answer.headers['content-type']) ? [] : ['its content type is not application/json'],
    remedy: TRANSLATES,
    details: otherModel(subject, fields.model),
  });
}

async function checkStream(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const api = APIS[protocol];
  const json = { ...requestOf(subject, protocol), stream: true, ...api.stream_fields };
  const reply = await sendRequest(subject, { path: api.path, json }, 'as a stream');
  const instead = notServed(reply, protocol) ?? notStreamed(reply);
  if (instead !== undefined) return instead;
  const events = readEvents(reply.answer.text);
  const usage = streamUsage(events);
  const error = streamError(events);
  return outcomeOf(reply, {
    good: `${events.length} events in ${Math.round(reply.answer.total_ms)} ms, ${formatUsage(usage, api)}`,
    faults:
      error === undefined ? [...api.streamFaults(events), ...usageFaults(usage, api)] : [`the stream failed: ${error}`],
    remedy:
      error === undefined ? TRANSLATES : 'see the logs of the gateway: it or its upstream failed during the stream',
  });
}

async function checkArrival(subject: Subject): Promise<SelfCheckOutcome> {
  const json = { ...requestOf(subject, 'messages', LONG_PROMPT, LONG_ANSWER_TOKENS), stream: true };
  const reply = await sendRequest(subject, { path: APIS.messages.path, json }, 'a long response as a stream');
  const instead = notStreamed(reply);
  if (instead !== undefined) return { ...instead, verdict: 'skipped', found: `inconclusive: ${instead.found}` };
  const { travelled, answer } = reply;
  const evidence = { ...travelled, details: describeArrivals(answer) };
  if (answer.headers['content-length'] !== undefined)
    return failed('it was complete before its first byte was sent: it has a content-length', BUFFERING, evidence);
  const [verdict, found, remedy] = ARRIVING[classifyArrivals(answer)];
  return { verdict, found, ...(remedy !== '' && { remedy }), ...evidence };
}

const BUFFERING =
  'make proxies and the gateway forward text/event-stream at once, without compression (nginx: proxy_buffering off, gzip off)';

const ARRIVING = {
  one_by_one: ['ok', 'events arrive one by one, as they are made', ''],
  unclear: ['skipped', 'inconclusive: the response was too short or too fast; use --echo or a slower model', ''],
  at_once: [
    'warning',
    'all events arrived at once: either a proxy buffers streams, or the model completes its response first',
    `use --echo, or a model that streams, to find out; ${BUFFERING}`,
  ],
  in_blocks: ['failed', 'events arrive in blocks: a buffer on the way fills up', BUFFERING],
} as const;

const MADE_UP = 'count with the upstream, or return an error such as status 501: clients rely on the count';
const LONG_TEXT = Array.from({ length: 400 }, (_, index) => `word${index % 10}`).join(' ');

/** Counts a short and a long text, and compares. Costs nothing. */
async function checkTokenCounting(subject: Subject): Promise<SelfCheckOutcome> {
  const counts: number[] = [];
  let reply: Reply | undefined;
  for (const content of [PROMPT, LONG_TEXT]) {
    const json = { model: subject.model, messages: [{ role: 'user', content }] };
    reply = await sendRequest(subject, { path: `${APIS.messages.path}/count_tokens`, json });
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
    // In any tokeniser 400 words have at least 100 tokens more than a sentence.
    faults:
      few > 0 && many - few >= 100
        ? []
        : [`${few} tokens for a sentence and ${many} for 400 words: the count is made up`],
    remedy: MADE_UP,
  });
}
