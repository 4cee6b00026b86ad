import { errorText, shortText } from '../answer-lines.ts';
import type { Asked } from '../asked.ts';
import { errorFaults } from '../compat-request.ts';
import { type Answer, fieldsOf } from '../read-answer.ts';
import { readEvents } from '../read-events.ts';
import { findRefusalFacts, pastResets, REFUSAL_FACTS, SENTENCE } from './refusal-facts.ts';

/** Statuses that a refusal for a limit may have. */
const STATUSES = [402, 403, 429];

/** What is wrong with the refusal of a caller whose limit is used up. */
export interface Judgement {
  readonly faults: readonly string[];
  readonly lesser: readonly string[];
  /** Where it says what, a line each. */
  readonly details: readonly string[];
}

/** Judges the refusal of one request, whatever protocol it was in. */
export function judgeRefusal(
  { answer }: Asked,
  protocol: 'messages' | 'chat' | 'responses',
  now_ms: number,
): Judgement {
  const { status, headers, json } = answer;
  const places = findRefusalFacts(json, headers);
  const missing = REFUSAL_FACTS.filter((fact) => places[fact] === undefined);
  const in_words = REFUSAL_FACTS.filter((fact) => places[fact] === SENTENCE);
  const past = pastResets(json, headers, now_ms);
  return {
    faults: [
      ...(STATUSES.includes(status) ? [] : [`the status is ${status}`]),
      ...(protocol === 'messages' ? messagesErrorFaults(json) : errorFaults(json)),
      ...(missing.length === 0 ? [] : [`it does not say ${list(missing)}`]),
      ...waitFaults(answer),
    ],
    lesser: [
      ...(in_words.length === 0 ? [] : [`${list(in_words)} can be read in the sentence only, not by a program`]),
      ...(past.length === 0 ? [] : [`the time of ${past[0]} is over`]),
      ...retryFaults(answer),
    ],
    details: REFUSAL_FACTS.flatMap((fact) =>
      places[fact] === undefined ? [] : [`${fact}: ${shortText(places[fact], 120)}`],
    ),
  };
}

function list(facts: readonly string[]): string {
  const named = facts.map((fact) => `the ${fact}`);
  return named.length < 2 ? named.join() : `${named.slice(0, -1).join(', ')} and ${named.at(-1)}`;
}

function messagesErrorFaults(json: unknown): string[] {
  const { type, error } = fieldsOf(json);
  const { type: kind, message } = fieldsOf(error);
  return [
    ...(type === 'error' ? [] : ['"type" is not "error"']),
    ...(typeof kind === 'string' && kind !== '' ? [] : ['error.type is missing']),
    ...(typeof message === 'string' && message !== '' ? [] : ['error.message is missing']),
  ];
}

function waitFaults({ headers }: Answer): string[] {
  const wait = headers['retry-after'];
  return wait === undefined || /^\d+$/.test(wait)
    ? []
    : [`retry-after is ${shortText(wait, 40)}: clients read whole seconds only`];
}

/** Clients try a 429 again up to ten times unless they are told not to; 402 and 403 they do not. */
function retryFaults({ status, headers }: Answer): string[] {
  return status !== 429 || headers['x-should-retry'] === 'false'
    ? []
    : ['x-should-retry: false is missing: clients send the request again, and wait for nothing'];
}

/** What a caller got that should have been refused, in a sentence; `undefined` for a refusal. */
export function servedInstead({ answer }: Asked, model: string | undefined): string | undefined {
  const events = answer.json === undefined ? readEvents(answer.text) : [];
  const failed = events.find(({ fields }) => fields.type === 'error' || fieldsOf(fields.error).message !== undefined);
  if (answer.status >= 300) return undefined;
  if (failed !== undefined)
    return `the refusal came within a stream of status ${answer.status}: ${errorText(failed.fields) ?? 'without a reason'}`;
  const named = [
    fieldsOf(answer.json),
    ...events.flatMap(({ fields }) => [fields, fieldsOf(fields.message), fieldsOf(fields.response)]),
  ];
  const by = named.map((fields) => fields.model).find((name) => typeof name === 'string' && name !== '');
  if (by === undefined || by === model)
    return 'the request was answered: the limit of this token is not used up, or it is not enforced';
  return `the request was answered by ${shortText(String(by), 60)} in place of ${model}: is the limit used up, and another model put in its place?`;
}
