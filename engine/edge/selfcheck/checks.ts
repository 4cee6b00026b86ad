import { randomUUID } from 'node:crypto';
import { failed, ok, skipped, warning } from '../../base/contract/checks.ts';
import { PROTOCOLS, type Protocol } from '../../base/contract/protocol.ts';
import { isJson } from '../../base/kit/media-type.ts';
import { describeJson, errorText, fieldsOf, readEvents, shortText } from './answer.ts';
import { APIS, isCount, streamError, streamUsage, tellUsage, usageFaults } from './apis.ts';
import { judgeArrivals, tellArrivals } from './arrivals.ts';
import {
  type Ask,
  type Asked,
  askFor,
  foreignOutcome,
  notServed,
  notStreamed,
  outcomeOf,
  PROMPT,
  refusedOutcome,
  requestOf,
  type SelfCheck,
  type SelfCheckOutcome,
  SHORT,
  type Subject,
  withoutModel,
} from './check.ts';
import { CLIENT_CHECKS } from './clients.ts';
import { FORWARDING_CHECKS } from './forwarding.ts';
import { LIMIT_CHECK } from './limits.ts';
import { probeSignIn } from './sign-in-page.ts';

const MODELS_PATH = '/v1/models?limit=1000';
/** Clients wait so long for the list, and then go on without it. */
const PATIENCE_MS = 3000;
/** Long enough to say how slow it is. */
const MODELS_SECONDS = 20;
/** Long enough for a second or more of most models; all checks together stay below a cent. */
const LONG_ANSWER_TOKENS = 120;
const LONG_PROMPT = 'Write the numbers from one to eighty as words, with commas between.';
const REFUSAL = 'status 401 or 403 with an error in JSON; never a page, a redirect or a sign-in.';

/** All checks, in the order in which they are made: what costs nothing first. */
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
    run: (subject) => checkRefusal(subject, { path: MODELS_PATH, token: null, seconds: MODELS_SECONDS }),
  },
  {
    id: 'models.wrong_token',
    title: 'The list of models with a wrong token',
    expected: REFUSAL,
    run: (subject) => checkRefusal(subject, { path: MODELS_PATH, token: wrongToken(), seconds: MODELS_SECONDS }),
  },
  {
    id: 'console.sign_in',
    title: 'The sign-in page of the console',
    expected: 'a browser is led to the identity provider, and from there back to this address.',
    run: ({ root_url, ask }) =>
      probeSignIn({ root_url, get: (path) => ask({ path, token: null, headers: { accept: 'text/html' } }) }),
  },
  {
    id: 'messages.wrong_token',
    title: 'Messages with a wrong token',
    expected: 'status 401 or 403 with an error in JSON, and no answer of a model.',
    uses: SHORT,
    skipped: withoutModel,
    run: (subject) =>
      checkRefusal(subject, { path: APIS.messages.path, json: requestOf(subject, 'messages'), token: wrongToken() }),
  },
  {
    id: 'messages.count_tokens',
    title: 'Token counting',
    expected: 'a count that grows with the text, or an error in JSON that says it is not supported; nothing made up.',
    skipped: withoutModel,
    run: checkTokenCounting,
  },
  ...PROTOCOLS.flatMap(checksOf),
  {
    id: 'messages.stream_arrival',
    title: 'Events arrive as they are made',
    expected: 'event and data lines appear all the time while the model writes, the first of them at once.',
    // A second, short answer is asked for only where the first one leaves it open.
    uses: { requests: 2, input: 2 * SHORT.input, output: LONG_ANSWER_TOKENS + SHORT.output },
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
      title: `${capital}: a request that is wrong`,
      expected: `a status from 400 to 499 with ${error_form} in JSON, so that clients can show it.`,
      skipped: withoutModel,
      run: (subject) => checkError(subject, protocol),
    },
    {
      id: `${protocol}.json`,
      title: `${capital}: a whole answer`,
      expected: 'status 200 and JSON in the form of the API, with why it ended and usage; no page, no redirect.',
      uses: SHORT,
      skipped: withoutModel,
      run: (subject) => checkWhole(subject, protocol),
    },
    {
      id: `${protocol}.stream`,
      title: `${capital}: a stream`,
      expected: 'text/event-stream with the events of the API in their order, an end and usage.',
      uses: SHORT,
      skipped: withoutModel,
      run: (subject) => checkStream(subject, protocol),
    },
  ];
}

/** The outcome where a request was refused for whose it is, before anybody looked at what it says. */
function refusedAtTheDoor({ answer: { status, json }, travelled }: Asked): SelfCheckOutcome | undefined {
  if (![401, 402, 403, 429].includes(status) || json === undefined) return undefined;
  return skipped(`can not be told: ${errorText(json) ?? `status ${status}`}`, travelled);
}

const wrongToken = () => `selfcheck-${randomUUID()}`;

function lateFault({ answer: { total_ms } }: Asked): string[] {
  if (total_ms <= PATIENCE_MS) return [];
  return [`it took ${(total_ms / 1000).toFixed(1)} seconds: clients wait 3 and then go on without a list`];
}

async function checkList(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await askFor(subject, { path: MODELS_PATH, seconds: MODELS_SECONDS });
  const refused = refusedOutcome(asked);
  // Nothing is wrong with a gateway that says clearly who may not see its list.
  if (refused !== undefined)
    return asked.answer.status === 403 && asked.answer.json !== undefined
      ? { ...refused, verdict: 'warning' }
      : refused;
  const { answer } = asked;
  const { data } = fieldsOf(answer.json);
  const ids = Array.isArray(data) ? data.map((entry) => fieldsOf(entry).id) : undefined;
  const { model } = subject;
  return outcomeOf(asked, {
    good: `${ids?.length} model${ids?.length === 1 ? '' : 's'} after ${Math.round(answer.total_ms)} ms`,
    faults: [
      ...(ids === undefined ? [`there is no list "data", but ${describeJson(answer.json)}`] : []),
      ...(ids?.every((id) => typeof id === 'string' && id !== '') === false ? ['a model has no id'] : []),
      ...lateFault(asked),
    ],
    lesser: [
      ...(ids?.length === 0 ? ['the list is empty: this token may use no model'] : []),
      ...(isJson(answer.headers['content-type']) ? [] : ['its content type is not application/json']),
    ],
    remedy: 'have the gateway keep a list at hand and answer {"data":[{"id":"..."}]}; is the address right?',
    details:
      model === undefined || ids?.includes(model) ? [] : [`${shortText(model, 80)}, which is asked here, is not in it`],
  });
}

async function checkRefusal(subject: Subject, ask: Ask): Promise<SelfCheckOutcome> {
  const asked = await askFor(subject, ask);
  const foreign = foreignOutcome(asked);
  if (foreign !== undefined) return foreign;
  const { status, json } = asked.answer;
  const lists = ask.json === undefined;
  const text = errorText(json);
  return outcomeOf(asked, {
    good: `refused with status ${status}: ${text}`,
    faults: [
      ...(status < 300 && !lists ? ['a model answered: the gateway does not check the token'] : []),
      ...(status >= 300 && status !== 401 && status !== 403
        ? [`status ${status} in place of 401 or 403: ${text}`]
        : []),
      ...(lists ? lateFault(asked) : []),
    ],
    lesser: [
      ...(status < 300 && lists ? ['it was not refused: nobody sees by it that a token is wrong'] : []),
      ...(status >= 300 && text === undefined ? ['the error does not say what is wrong with the token'] : []),
    ],
    remedy: 'have the gateway check the token before anything else, and refuse with status 401 and an error in JSON',
  });
}

async function checkError(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const { path, wrong, errorFaults, error_form } = APIS[protocol];
  const json = { ...requestOf(subject, protocol), ...wrong };
  const asked = await askFor(subject, { path, json }, 'with a field of the wrong kind');
  const instead = notServed(asked, protocol) ?? refusedAtTheDoor(asked) ?? foreignOutcome(asked);
  if (instead !== undefined) return instead;
  const { status, json: error } = asked.answer;
  const is_refused = status >= 400 && status < 500;
  return outcomeOf(asked, {
    good: `refused with status ${status}: ${errorText(error)}`,
    faults: [...(is_refused ? [] : [`the status is ${status}`]), ...(status < 400 ? [] : errorFaults(error))],
    remedy: `have the gateway, or its upstream, refuse what is wrong with a status from 400 to 499 and ${error_form}`,
  });
}

const TRANSLATES =
  'have the gateway pass the answers of its upstream on as they come, or translate all fields and events';

/** Which model says that it answered, where it is not by the name that was asked for. */
function otherModel({ model }: Subject, answered: unknown): string[] {
  if (typeof answered !== 'string' || answered === model) return [];
  return [`${shortText(answered, 80)} answered, which is no fault where the gateway maps names of models`];
}

async function checkWhole(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const api = APIS[protocol];
  const asked = await askFor(subject, { path: api.path, json: requestOf(subject, protocol) }, 'a short question');
  const instead = notServed(asked, protocol) ?? refusedOutcome(asked);
  if (asked.answer.status === 400 && /\bstream/i.test(errorText(asked.answer.json) ?? '')) {
    return { ...instead!, verdict: 'skipped', found: `streams only: ${errorText(asked.answer.json)}` };
  }
  if (instead !== undefined) return instead;
  const fields = fieldsOf(asked.answer.json);
  return outcomeOf(asked, {
    good: `an answer after ${Math.round(asked.answer.total_ms)} ms, ${tellUsage(fields.usage, api)}`,
    faults: [...api.wholeFaults(fields), ...usageFaults(fields.usage, api)],
    lesser: isJson(asked.answer.headers['content-type']) ? [] : ['its content type is not application/json'],
    remedy: TRANSLATES,
    details: otherModel(subject, fields.model),
  });
}

async function checkStream(subject: Subject, protocol: Protocol): Promise<SelfCheckOutcome> {
  const api = APIS[protocol];
  const json = { ...requestOf(subject, protocol), stream: true, ...api.stream_fields };
  const asked = await askFor(subject, { path: api.path, json }, 'as a stream');
  const instead = notServed(asked, protocol) ?? notStreamed(asked);
  if (instead !== undefined) return instead;
  const events = readEvents(asked.answer.text);
  const usage = streamUsage(events);
  const error = streamError(events);
  return outcomeOf(asked, {
    good: `${events.length} events in ${Math.round(asked.answer.total_ms)} ms, ${tellUsage(usage, api)}`,
    faults:
      error === undefined ? [...api.streamFaults(events), ...usageFaults(usage, api)] : [`the stream failed: ${error}`],
    remedy:
      error === undefined ? TRANSLATES : 'look into the logs of the gateway: it or its upstream failed on the way',
  });
}

async function checkArrival(subject: Subject): Promise<SelfCheckOutcome> {
  const { path } = APIS.messages;
  const ask = (prompt: string, most: number, note: string) =>
    askFor(subject, { path, json: { ...requestOf(subject, 'messages', prompt, most), stream: true } }, note);
  const long = await ask(LONG_PROMPT, LONG_ANSWER_TOKENS, 'a long answer as a stream');
  const instead = notStreamed(long);
  if (instead !== undefined) return { ...instead, verdict: 'skipped', found: `can not be told: ${instead.found}` };
  const { travelled, answer } = long;
  const told = { ...travelled, details: tellArrivals(answer) };
  const { 'content-length': length } = answer.headers;
  const arriving = length === undefined ? judgeArrivals(answer) : 'whole';
  if (arriving === 'one_by_one') return ok('events arrive one by one, as they are made', told);
  if (arriving === 'unclear')
    return skipped('can not be told: the answer was too short or too quick; --echo or a slower model tells', told);
  if (arriving === 'at_once' && !(await waitsForTheEnd(long, () => ask(PROMPT, SHORT.output, 'a short one')))) {
    return warning(
      'all events came at once: either something holds streams back, or the model makes its whole answer first',
      `find out which with --echo, or with a model that streams; ${BUFFERING}`,
      told,
    );
  }
  const found = {
    whole: 'it was whole before its first byte was sent: its head has a content-length',
    in_blocks: 'events arrive in blocks, as a buffer on the way gets full',
    at_once: 'a long answer comes all at once at its end, a short one much earlier',
  };
  return failed(found[arriving], BUFFERING, told);
}

const BUFFERING =
  'have proxies on the way, or the gateway, pass text/event-stream on at once and without compression (nginx: proxy_buffering off, gzip off)';

/** A longer answer takes longer before its text comes only where somebody waits for its end. */
async function waitsForTheEnd(long: Asked, askShort: () => Promise<Asked>): Promise<boolean> {
  const { total_ms } = (await askShort()).answer;
  return long.answer.total_ms - total_ms >= 500 && long.answer.total_ms >= 2 * total_ms;
}

const MADE_UP = 'count with the upstream, or answer with an error such as status 501: clients rely on a count';
const LONG_TEXT = Array.from({ length: 400 }, (_, index) => `word${index % 10}`).join(' ');

/** Counts a short and a long text, and compares. Costs nothing. */
async function checkTokenCounting(subject: Subject): Promise<SelfCheckOutcome> {
  const counts: number[] = [];
  let asked: Asked | undefined;
  for (const content of [PROMPT, LONG_TEXT]) {
    const json = { model: subject.model, messages: [{ role: 'user', content }] };
    asked = await askFor(subject, { path: `${APIS.messages.path}/count_tokens`, json });
    const { status, json: came } = asked.answer;
    const refused = refusedAtTheDoor(asked) ?? foreignOutcome(asked);
    // Many servers say in plain text that there is nothing at a path.
    if (refused !== undefined)
      return status === 404 && !/^\s*</.test(asked.answer.text) ? { ...refused, verdict: 'warning' } : refused;
    const text = errorText(came);
    if (status !== 200) {
      return outcomeOf(asked, {
        good: `not supported, and it says so with status ${status}: ${text}; clients estimate`,
        faults:
          text === undefined || (status >= 500 && status !== 501) ? [`status ${status} and ${describeJson(came)}`] : [],
        remedy: MADE_UP,
      });
    }
    const { input_tokens } = fieldsOf(came);
    counts.push(isCount(input_tokens) ? input_tokens : 0);
  }
  const [few = 0, many = 0] = counts;
  return outcomeOf(asked!, {
    good: `${few} tokens for a sentence, ${many} for 400 words`,
    // 400 words are never less than some hundred tokens more, whatever the tokeniser.
    faults:
      few > 0 && many - few >= 100
        ? []
        : [`${few} tokens for a sentence and ${many} for 400 words: the count is made up`],
    remedy: MADE_UP,
  });
}
