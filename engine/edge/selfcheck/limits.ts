import type { IncomingHttpHeaders } from 'node:http';
import { warning } from '../../base/contract/checks.ts';
import { PROTOCOLS, type Protocol } from '../../base/contract/protocol.ts';
import { type Fields, fieldsOf } from '../../base/kit/json/fields.ts';
import { errorText, shortText } from './answer.ts';
import { APIS } from './apis.ts';
import {
  NO_MODEL,
  nonApiOutcome,
  notServed,
  outcomeOf,
  type Reply,
  requestOf,
  type SelfCheck,
  type SelfCheckOutcome,
  SHORT,
  type Subject,
  sendRequest,
} from './check.ts';

const HOW = 'needs --limit-token-env with the name of a variable with a token whose limit is exhausted';
const REQUESTS = PROTOCOLS.length + 1;

/** Facts that an error must state, by words in its field names or message; retry-after may state the reset time. */
const FACTS: Readonly<Record<string, RegExp>> = {
  limit: /limit|budget|quota/i,
  window: /window|period|duration|dai?l?y|week|month/i,
  'reset time': /reset/i,
};

/** The error for a caller with an exhausted limit. */
export const LIMIT_CHECK: SelfCheck = {
  id: 'limits.refusal',
  title: 'An exhausted limit',
  expected:
    'in each protocol a JSON error with status 402, 403 or 429, in the same form each time, with limit, window and reset time; no response of another model.',
  // Upper limit: rejected requests cost nothing.
  uses: { requests: REQUESTS, input: SHORT.input * REQUESTS, output: SHORT.output * REQUESTS },
  skipped: ({ limit_token, model }) => (limit_token === undefined ? HOW : model === undefined ? NO_MODEL : undefined),
  run: checkLimit,
};

async function checkLimit(subject: Subject): Promise<SelfCheckOutcome> {
  const send = (protocol: Protocol) => {
    // Coding clients stream; the error must come before the stream.
    const json = { ...requestOf(subject, protocol), stream: true };
    return sendRequest(
      subject,
      { path: APIS[protocol].path, json, token: subject.limit_token! },
      'with the limit exhausted',
    );
  };
  const first = await send('messages');
  const instead = nonApiOutcome(first);
  if (instead !== undefined && first.answer.status >= 300) return instead;
  if (first.answer.status === 401) {
    return warning(
      `limits not checked: the token was rejected with status 401: ${errorText(first.answer.json) ?? 'no reason given'}`,
      'set the variable of --limit-token-env to a valid token',
      first.travelled,
    );
  }
  const again = await send('messages');
  const changes =
    formOf(again) === formOf(first)
      ? []
      : [`the second request is rejected in another form, with status ${again.answer.status}`];
  const faults = [...refusalFaults(first, 'messages', subject), ...changes];
  for (const protocol of PROTOCOLS.filter((each) => each !== 'messages')) {
    const reply = await send(protocol);
    if (notServed(reply, protocol) !== undefined) continue;
    const found = refusalFaults(reply, protocol, subject).map((fault) => `in ${APIS[protocol].what}: ${fault}`);
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
        : `it was answered by ${shortText(by, 60)} instead of ${model}`,
    ];
  }
  const error = fieldsOf(fieldsOf(json).error);
  const wait = headers['retry-after'];
  return [
    ...([402, 403, 429].includes(status) ? [] : [`the status is ${status}`]),
    ...APIS[protocol].errorFaults(json),
    ...Object.keys(FACTS)
      .filter((fact) => !saysFact(fact, error, headers))
      .map((fact) => `it does not say the ${fact}`),
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
