import type { IncomingHttpHeaders } from 'node:http';
import { warning } from '../../base/contract/checks.ts';
import { PROTOCOLS, type Protocol } from '../../base/contract/protocol.ts';
import { errorText, type Fields, fieldsOf, shortText } from './answer.ts';
import { APIS } from './apis.ts';
import {
  type Asked,
  askFor,
  foreignOutcome,
  NO_MODEL,
  notServed,
  outcomeOf,
  requestOf,
  type SelfCheck,
  type SelfCheckOutcome,
  SHORT,
  type Subject,
} from './check.ts';

const HOW = 'needs --limit-token-env with the name of a variable that holds a token whose limit is used up';
const REQUESTS = PROTOCOLS.length + 1;

/** What a refusal has to say, by words of its fields or of its message; a client also takes the last from retry-after. */
const FACTS: Readonly<Record<string, RegExp>> = {
  limit: /limit|budget|quota/i,
  window: /window|period|duration|dai?l?y|week|month/i,
  'reset time': /reset/i,
};

/** The refusal of a caller whose limit is used up. */
export const LIMIT_CHECK: SelfCheck = {
  id: 'limits.refusal',
  title: 'A limit that is used up',
  expected:
    'in each protocol a JSON error with status 402, 403 or 429, the same each time, with limit, window and reset time; and no answer of another model.',
  // Nothing where it is refused, as it should be.
  uses: { requests: REQUESTS, input: SHORT.input * REQUESTS, output: SHORT.output * REQUESTS },
  skipped: ({ limit_token, model }) => (limit_token === undefined ? HOW : model === undefined ? NO_MODEL : undefined),
  run: checkLimit,
};

async function checkLimit(subject: Subject): Promise<SelfCheckOutcome> {
  const send = (protocol: Protocol) => {
    // Coding clients stream; a refusal comes before the stream.
    const json = { ...requestOf(subject, protocol), stream: true };
    return askFor(
      subject,
      { path: APIS[protocol].path, json, token: subject.limit_token! },
      'where the limit is used up',
    );
  };
  const first = await send('messages');
  const instead = foreignOutcome(first);
  if (instead !== undefined && first.answer.status >= 300) return instead;
  if (first.answer.status === 401) {
    return warning(
      `nothing can be told of limits: the token was refused with status 401: ${errorText(first.answer.json) ?? 'without a reason'}`,
      'is the variable that --limit-token-env names set to a valid token?',
      first.travelled,
    );
  }
  const again = await send('messages');
  const changes =
    formOf(again) === formOf(first)
      ? []
      : [`the second time it is refused otherwise, with status ${again.answer.status}`];
  const faults = [...refusalFaults(first, 'messages', subject), ...changes];
  for (const protocol of PROTOCOLS.filter((each) => each !== 'messages')) {
    const asked = await send(protocol);
    if (notServed(asked, protocol) !== undefined) continue;
    const found = refusalFaults(asked, protocol, subject).map((fault) => `in ${APIS[protocol].what}: ${fault}`);
    faults.push(...found.filter((fault) => !faults.some((known) => fault.endsWith(known))));
  }
  const { status, headers } = first.answer;
  return outcomeOf(first, {
    good: `refused with status ${status} in the same form each time, with limit, window and reset time`,
    faults,
    // Clients try a 429 again up to ten times unless they are told not to; 402 and 403 they do not.
    lesser:
      status === 429 && headers['x-should-retry'] !== 'false'
        ? ['x-should-retry: false is missing: clients send the request again, and wait for nothing']
        : [],
    remedy:
      'use up the limit of the token; then have the gateway refuse with 402, 403 or 429, limit, window and reset time in the error, and x-should-retry: false',
  });
}

function refusalFaults({ answer }: Asked, protocol: Protocol, { model }: Subject): string[] {
  const { status, json, text, headers } = answer;
  if (status < 300) {
    const by = /"model"\s*:\s*"([^"]{1,200})"/.exec(text)?.[1];
    return [
      by === undefined || by === model
        ? `it was answered with status ${status}: the limit is not used up, or not enforced before the answer begins`
        : `it was answered by ${shortText(by, 60)} in place of ${model}`,
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
    ...(wait === undefined || /^\d+$/.test(wait) ? [] : ['retry-after is no number: clients read whole seconds only']),
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

/** What of a refusal has to stay the same: status, names of fields, type and code. Numbers, times and wording may change. */
function formOf({ answer: { status, json } }: Asked): string {
  const { type, code, ...error } = fieldsOf(fieldsOf(json).error);
  return JSON.stringify([status, type, code, Object.keys(error)]);
}
