import { errorText, shortText } from '../answer-lines.ts';
import { APIS } from '../apis.ts';
import { type Asked, askFor, foreignOutcome, notStreamed, refusedOutcome } from '../asked.ts';
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
import { fieldsOf } from '../read-answer.ts';
import { type ReadEvent, readEvents } from '../read-events.ts';
import type { Subject } from '../subject.ts';
import { withoutModel } from '../without-model.ts';

const API = APIS.chat;
const COUNTS = ['prompt_tokens', 'completion_tokens'] as const;

/** Chat completions. */
export const CHAT_CHECKS: readonly SelfCheck[] = [
  {
    id: 'chat.models',
    title: 'List of models for clients of chat completions',
    expected: 'GET /v1/models answers {"object": "list", "data": [{"id"}]}.',
    run: checkModels,
  },
  {
    id: 'chat.error',
    title: 'Chat completions: errors',
    expected: 'a request that is wrong is refused with a status from 400 to 499 and {"error": {"message", "type"}}.',
    skipped: withoutModel,
    run: (subject) =>
      refusesInCompatForm(
        subject,
        { path: API.path, json: { model: subject.model, max_tokens: 16, messages: 'not a list' } },
        API,
      ),
  },
  {
    id: 'chat.json',
    title: 'Chat completions: a whole answer',
    expected: 'a JSON object with choices, in each a message and why it ended, and usage.',
    uses: SHORT_REQUEST,
    skipped: withoutModel,
    run: checkJson,
  },
  {
    id: 'chat.stream',
    title: 'Chat completions: a stream',
    expected:
      'events of chat.completion.chunk with a finish_reason, one with usage where it was asked for, and [DONE].',
    uses: SHORT_REQUEST,
    skipped: withoutModel,
    run: checkStream,
  },
];

async function checkModels(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await askFor(subject, { method: 'GET', path: '/v1/models' });
  const { answer } = asked;
  if (answer.status !== 200)
    return unservedOutcome(asked, { ...API, what: 'lists of models' }) ?? refusedOutcome(asked);
  const foreign = foreignOutcome(asked);
  if (foreign !== undefined) return foreign;
  const { data } = fieldsOf(answer.json);
  const ids = Array.isArray(data) ? data.map((entry) => fieldsOf(entry).id) : undefined;
  return outcomeOfFaults(asked, {
    good: ids?.length === 1 ? 'one model' : `${ids?.length} models`,
    faults: [
      ...(ids === undefined ? ['there is no list "data"'] : []),
      ...(ids?.every((id) => typeof id === 'string' && id !== '') === false ? ['an entry of "data" has no id'] : []),
    ],
    remedy: 'have GET /v1/models answer {"object": "list", "data": [{"id": "...", "object": "model"}]}',
  });
}

/** Asks for a short answer; once more with the newer name of its bound where a model takes no other. */
async function ask(subject: Subject, more: Readonly<Record<string, unknown>>): Promise<Asked & { is_newer: boolean }> {
  const json = { model: subject.model, messages: [{ role: 'user', content: PROMPT }], ...more };
  const first = await askFor(subject, { path: API.path, json: { ...json, max_tokens: SHORT_REQUEST.output } });
  if (first.answer.status !== 400 || !/max_tokens/.test(errorText(first.answer.json) ?? ''))
    return { ...first, is_newer: false };
  const max_completion_tokens = SHORT_REQUEST.output;
  const second = await askFor(subject, { path: API.path, json: { ...json, max_completion_tokens } });
  return second.answer.status === 200 ? { ...second, is_newer: true } : { ...first, is_newer: false };
}

const NEWER = 'the model takes max_completion_tokens only, and clients of chat completions send max_tokens';

async function checkJson(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await ask(subject, {});
  const { answer, is_newer } = asked;
  if (answer.status !== 200) return unservedOutcome(asked, API) ?? refusedOutcome(asked);
  const foreign = foreignOutcome(asked);
  if (foreign !== undefined) return foreign;
  const { choices, usage, object, id } = fieldsOf(answer.json);
  const first = fieldsOf(Array.isArray(choices) ? choices[0] : undefined);
  const message = fieldsOf(first.message);
  const has_message =
    typeof message.content === 'string' || message.content === null || Array.isArray(message.tool_calls);
  return outcomeOfFaults(asked, {
    good: `an answer of ${shortText(String(fieldsOf(answer.json).model ?? 'a model that is not named'), 60)}, ${tellUsage(usage, COUNTS)}`,
    faults: [
      ...(Array.isArray(choices) && choices.length > 0 ? [] : ['there are no choices']),
      ...(has_message || choices === undefined ? [] : ['the first choice has no message with content']),
      ...(typeof first.finish_reason === 'string' || choices === undefined ? [] : ['finish_reason is missing']),
      ...usageFaults(usage, COUNTS),
    ],
    lesser: [
      ...(object === 'chat.completion' ? [] : ['"object" is not "chat.completion"']),
      ...(typeof id === 'string' ? [] : ['"id" is missing']),
      ...(is_newer ? [NEWER] : []),
    ],
    remedy: is_newer
      ? 'have the gateway translate max_tokens'
      : 'have the gateway pass the answers of its upstream on as they are, or translate all fields',
  });
}

async function checkStream(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await ask(subject, { stream: true, stream_options: { include_usage: true } });
  const { answer } = asked;
  if (answer.status !== 200) return unservedOutcome(asked, API) ?? refusedOutcome(asked);
  const whole = notStreamed(asked);
  if (whole !== undefined) return whole;
  const events = readEvents(answer.text);
  return outcomeOfFaults(asked, {
    good: `${events.length} events, ${tellUsage(events.map(({ fields }) => fields.usage).findLast(isUsage), COUNTS)}, and an end`,
    faults: streamFaults(events, answer.fault),
    lesser: events.some(
      ({ data, fields }) =>
        data !== '[DONE]' && fields.error === undefined && fields.object !== 'chat.completion.chunk',
    )
      ? ['an event is no "chat.completion.chunk"']
      : [],
    remedy: 'have the gateway pass events on as they come, ask its upstream for usage, and end with data: [DONE]',
  });
}

const isUsage = (value: unknown) => typeof value === 'object' && value !== null;

function streamFaults(events: readonly ReadEvent[], fault: string | undefined): string[] {
  const error = events.find(({ fields }) => fields.error !== undefined && fields.error !== null);
  if (error !== undefined) return [`the stream says that it failed: ${errorText(error.fields) ?? 'without a reason'}`];
  const chunks = events.filter(({ data }) => data !== '[DONE]');
  const choices = chunks.flatMap(({ fields }) => (Array.isArray(fields.choices) ? fields.choices : []).map(fieldsOf));
  const usage = chunks.map(({ fields }) => fields.usage).findLast(isUsage);
  return [
    ...(fault === undefined ? [] : [fault === 'cut' ? 'the stream broke off' : 'the stream did not end as it should']),
    ...(chunks.every(({ is_json }) => is_json) ? [] : ['an event is no JSON']),
    ...(choices.some(({ delta }) => typeof delta === 'object' && delta !== null) ? [] : ['no event has a delta']),
    ...(choices.some(({ finish_reason }) => typeof finish_reason === 'string') ? [] : ['no event has a finish_reason']),
    ...(usage === undefined ? ['no event has usage, although include_usage asked for it'] : usageFaults(usage, COUNTS)),
    ...(events.at(-1)?.data === '[DONE]' ? [] : ['the last event is not [DONE]']),
  ];
}
