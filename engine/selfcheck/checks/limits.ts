import { errorText } from '../answer-lines.ts';
import { APIS } from '../apis.ts';
import { type Asked, askFor, foreignOutcome } from '../asked.ts';
import type { SelfCheck, SelfCheckOutcome } from '../check.ts';
import { outcomeOfFaults, PROMPT, SHORT_REQUEST, unservedOutcome } from '../compat-request.ts';
import { judgeRefusal, servedInstead } from '../limits/judge-refusal.ts';
import { formOf } from '../limits/refusal-facts.ts';
import type { Ask, Subject } from '../subject.ts';
import { NO_MODEL } from '../without-model.ts';

const HOW = 'needs --limit-token-env with the name of a variable that holds a token whose limit is used up';
const REMEDY =
  'have the gateway refuse with 402, 403 or 429 and an error that has the limit, its window and its reset time as fields, and x-should-retry: false';
const EXPECTED =
  'a JSON error with status 402, 403 or 429, the same each time, with limit, window and reset time; and no answer of another model.';

const messages = [{ role: 'user', content: PROMPT }];
const max_tokens = SHORT_REQUEST.output;

/** The requests of a caller whose limit is used up, in each protocol. */
const REQUESTS = {
  messages: ({ model }: Subject): Ask => ({ path: APIS.messages.path, json: { model, max_tokens, messages } }),
  stream: ({ model }: Subject): Ask => ({
    path: APIS.messages.path,
    json: { model, max_tokens, messages, stream: true },
  }),
  chat: ({ model }: Subject): Ask => ({
    path: APIS.chat.path,
    json: { model, max_tokens, messages, stream: true },
  }),
  responses: ({ model }: Subject): Ask => ({
    path: APIS.responses.path,
    json: { model, max_output_tokens: max_tokens, input: PROMPT, store: false, stream: true },
  }),
};

/** The refusal of a caller whose limit is used up. */
export const LIMIT_CHECKS: readonly SelfCheck[] = [
  limitCheck('messages', 'A limit that is used up', { requests: 2 }),
  limitCheck('stream', 'A limit that is used up, where a stream was asked for', { requests: 1 }),
  limitCheck('chat', 'A limit that is used up, in chat completions', { requests: 1 }),
  limitCheck('responses', 'A limit that is used up, in Responses', { requests: 1 }),
];

function limitCheck(
  name: keyof typeof REQUESTS,
  title: string,
  { requests }: { readonly requests: number },
): SelfCheck {
  return {
    id: `limits.${name}`,
    title,
    expected: EXPECTED,
    // Nothing where it is refused, as it should be.
    uses: { requests, input: SHORT_REQUEST.input * requests, output: SHORT_REQUEST.output * requests },
    skipped: ({ limit_token, model }) => (limit_token === undefined ? HOW : model === undefined ? NO_MODEL : undefined),
    run: (subject) => checkLimit(subject, name, requests),
  };
}

async function checkLimit(subject: Subject, name: keyof typeof REQUESTS, requests: number): Promise<SelfCheckOutcome> {
  const send = () =>
    askFor(
      subject,
      { ...REQUESTS[name](subject), token: subject.limit_token! },
      'with the token whose limit is used up',
    );
  const first = await send();
  const instead = notRefused(first, subject, name);
  if (instead !== undefined) return instead;
  const { faults, lesser, details } = judgeRefusal(first, name === 'stream' ? 'messages' : name, Date.now());
  const changes = requests === 1 ? [] : changed(first, await send());
  return outcomeOfFaults(first, {
    good: `refused with status ${first.answer.status}${requests === 1 ? '' : ' twice in the same form'}, with limit, window and reset time`,
    faults: [...faults, ...changes],
    lesser,
    remedy: REMEDY,
    details,
  });
}

/** The outcome where what came is no refusal that can be judged; `undefined` where it is one. */
function notRefused(asked: Asked, subject: Subject, name: keyof typeof REQUESTS): SelfCheckOutcome | undefined {
  const { answer, travelled } = asked;
  const served = servedInstead(asked, subject.model);
  if (served !== undefined) {
    const remedy =
      'use up the limit of the token first; else have the gateway refuse before it asks a model, and never another one';
    return { verdict: 'failed', found: served, remedy, ...travelled };
  }
  if (name === 'chat' || name === 'responses') {
    const unserved = unservedOutcome(asked, APIS[name]);
    if (unserved !== undefined) return unserved;
  }
  const foreign = foreignOutcome(asked);
  if (foreign !== undefined) return foreign;
  if (answer.status !== 401) return undefined;
  return {
    verdict: 'warning',
    found: `nothing can be told of limits: the token was refused with status 401: ${errorText(answer.json) ?? 'without a reason'}`,
    remedy: 'is the variable that --limit-token-env names set to a valid token?',
    ...travelled,
  };
}

function changed(first: Asked, second: Asked): string[] {
  const [before, after] = [first, second].map(({ answer }) => formOf(answer.status, answer.json));
  if (before === after) return [];
  return first.answer.status === second.answer.status
    ? ['the same request was refused in another form the second time']
    : [`the same request was answered with status ${second.answer.status} the second time`];
}
