import { errorText, shortText } from '../answer-lines.ts';
import { APIS } from '../apis.ts';
import { askFor, foreignOutcome, notStreamed, refusedOutcome } from '../asked.ts';
import type { SelfCheck, SelfCheckOutcome } from '../check.ts';
import {
  outcomeOfFaults,
  PROMPT,
  refusesInCompatForm,
  SHORT_REQUEST,
  tellUsage,
  unservedOutcome,
  usageFaults,
} from '../compat-request.ts';
import { type Answer, fieldsOf } from '../read-answer.ts';
import { type ReadEvent, readEvents } from '../read-events.ts';
import type { Ask, Subject } from '../subject.ts';
import { withoutModel } from '../without-model.ts';

const API = APIS.responses;
const COUNTS = ['input_tokens', 'output_tokens'] as const;
const REMEDY = "have the gateway pass its upstream's events on as they come, or translate all of them";

/** Responses. */
export const RESPONSES_CHECKS: readonly SelfCheck[] = [
  {
    id: 'responses.error',
    title: 'Responses: errors',
    expected: 'a request that is wrong is refused with a status from 400 to 499 and {"error": {"message", "type"}}.',
    skipped: withoutModel,
    run: (subject) =>
      refusesInCompatForm(subject, { path: API.path, json: { model: subject.model, input: 7, stream: true } }, API),
  },
  {
    id: 'responses.json',
    title: 'Responses: a whole answer',
    expected: 'a JSON object "response" with a status, output and usage.',
    uses: SHORT_REQUEST,
    skipped: withoutModel,
    run: checkJson,
  },
  {
    id: 'responses.stream',
    title: 'Responses: a stream',
    expected: 'events from response.created to response.completed, with output items and usage.',
    uses: SHORT_REQUEST,
    skipped: withoutModel,
    run: checkStream,
  },
];

function ask(subject: Subject, stream: boolean): Ask {
  const { model } = subject;
  // The coding CLI sends its input as a list, and asks that nothing is kept.
  const input = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: PROMPT }] }];
  return { path: API.path, json: { model, input, max_output_tokens: SHORT_REQUEST.output, store: false, stream } };
}

async function checkJson(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await askFor(subject, ask(subject, false));
  const { answer, travelled } = asked;
  if (answer.status === 400 && /\bstream/i.test(errorText(answer.json) ?? '')) {
    return {
      verdict: 'skipped',
      found: `streams only: ${errorText(answer.json)}; that is all the coding CLI asks for`,
      ...travelled,
    };
  }
  if (answer.status !== 200) return unservedOutcome(asked, API) ?? refusedOutcome(asked);
  const foreign = foreignOutcome(asked);
  if (foreign !== undefined) return foreign;
  const response = fieldsOf(answer.json);
  return outcomeOfFaults(asked, {
    good: `an answer of ${modelOf(response)}, ${tellUsage(response.usage, COUNTS)}`,
    faults: responseFaults(response),
    lesser: response.object === 'response' ? [] : ['"object" is not "response"'],
    remedy: 'have the gateway pass the answers of its upstream on as they are, or translate all fields',
  });
}

function responseFaults({ status, output, usage, error }: Readonly<Record<string, unknown>>): string[] {
  if (status === 'failed') return [`the answer says that it failed: ${errorText({ error }) ?? 'without a reason'}`];
  return [
    ...(status === 'completed' || status === 'incomplete' ? [] : ['status is neither "completed" nor "incomplete"']),
    ...(Array.isArray(output) ? [] : ['there is no list "output"']),
    ...usageFaults(usage, COUNTS),
  ];
}

const modelOf = ({ model }: Readonly<Record<string, unknown>>) =>
  typeof model === 'string' ? shortText(model, 60) : 'a model that is not named';

async function checkStream(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await askFor(subject, ask(subject, true));
  const { answer } = asked;
  if (answer.status !== 200) return unservedOutcome(asked, API) ?? refusedOutcome(asked);
  const whole = notStreamed(asked);
  if (whole !== undefined) return whole;
  const events = readEvents(answer.text);
  const last = endOf(events);
  return outcomeOfFaults(asked, {
    good: `${events.length} events to ${shortText(String(last?.fields.type), 40)}, ${tellUsage(fieldsOf(last?.fields.response).usage, COUNTS)}`,
    faults: streamFaults(events, answer),
    lesser: lesserFaults(events),
    remedy: REMEDY,
  });
}

const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed']);
const endOf = (events: readonly ReadEvent[]) => events.findLast(({ fields }) => ENDS.has(String(fields.type)));

function streamFaults(events: readonly ReadEvent[], { fault }: Answer): string[] {
  const types = events.map(({ fields }) => String(fields.type));
  const failed = events.find(({ fields }) => fields.type === 'response.failed' || fields.type === 'error');
  if (failed !== undefined) {
    const { response, error, message } = failed.fields;
    const said = errorText({ error: fieldsOf(response).error ?? error, message });
    return [`the stream says that it failed: ${said ?? 'without a reason'}`];
  }
  const end = endOf(events);
  const response = fieldsOf(end?.fields.response);
  const says_text = types.includes('response.output_text.delta');
  return [
    ...(fault === undefined ? [] : [fault === 'cut' ? 'the stream broke off' : 'the stream did not end as it should']),
    ...(types[0] === 'response.created' ? [] : ['the first event is not response.created']),
    ...(says_text && !types.includes('response.output_item.done')
      ? ['response.output_item.done is missing, from which clients take the text']
      : []),
    ...(end === undefined ? ['response.completed is missing: clients take the stream for one that broke off'] : []),
    ...(end === undefined || typeof response.id === 'string' ? [] : ['response.id is missing in the last event']),
    ...(end === undefined ? [] : usageFaults(response.usage, COUNTS)),
  ];
}

function lesserFaults(events: readonly ReadEvent[]): string[] {
  const named = events.filter(({ data }) => data !== '[DONE]');
  const numbers = named.map(({ fields }) => fields.sequence_number);
  const rises = numbers.every(
    (number, index) => typeof number === 'number' && (index === 0 || number > Number(numbers[index - 1])),
  );
  return [
    ...(named.every(({ name, fields }) => name === undefined || name === fields.type)
      ? []
      : ['an event is called otherwise than its "type"']),
    ...(rises ? [] : ['sequence_number is missing or does not rise']),
  ];
}
