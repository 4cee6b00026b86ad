import type { Protocol } from '../../base/contract/protocol.ts';
import { type Fields, fieldsOf } from '../../base/kit/json/fields.ts';
import { errorText, type ReadEvent, shortText } from './answer.ts';

export interface Api {
  readonly path: string;
  readonly what: string;
  readonly clients: string;
  request(prompt: string, most: number): Fields;
  readonly wrong: Fields;
  readonly stream_fields: Fields;
  readonly error_form: string;
  errorFaults(json: unknown): string[];
  wholeFaults(json: Fields): string[];
  streamFaults(events: readonly ReadEvent[]): string[];
  readonly counts: readonly [input: string, output: string];
}

/** Whether a value is a number of tokens. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}

const isText = (value: unknown) => typeof value === 'string' && value.trim() !== '';
const when = (is_fault: boolean, fault: string) => (is_fault ? [fault] : []);
const chatMessages = (content: string) => ({ messages: [{ role: 'user', content }] });

export function streamUsage(events: readonly ReadEvent[]): Fields {
  const usages = events.flatMap(({ fields: { usage, message, response } }) => [
    fieldsOf(fieldsOf(message).usage),
    fieldsOf(usage),
    fieldsOf(fieldsOf(response).usage),
  ]);
  return Object.fromEntries(usages.flatMap((usage) => Object.entries(usage).filter(([, value]) => value !== null)));
}

export function usageFaults(usage: unknown, { counts }: Pick<Api, 'counts'>): string[] {
  return counts.filter((name) => !isCount(fieldsOf(usage)[name])).map((name) => `no count in usage.${name}`);
}

export function formatUsage(usage: unknown, { counts: [input, output] }: Pick<Api, 'counts'>): string {
  const counts_of = fieldsOf(usage);
  return `${Number(counts_of[input])} tokens in and ${Number(counts_of[output])} out`;
}

export function streamError(events: readonly ReadEvent[]): string | undefined {
  const failed = events.find(
    ({ fields: { type, error } }) =>
      type === 'error' || type === 'response.failed' || (error ?? undefined) !== undefined,
  );
  if (failed === undefined) return undefined;
  const { response, error, message } = failed.fields;
  return errorText({ error: fieldsOf(response).error ?? error, message }) ?? 'without a reason';
}

/** Faults in the form of events: data that is not a JSON object, and event names that contradict their data. */
function formFaults(events: readonly ReadEvent[], needs_names: boolean): string[] {
  const json_events = events.filter(({ data }) => data !== '[DONE]');
  const odd = json_events.find(({ name, fields }) => name !== undefined && name !== fields.type);
  return [
    ...when(events.length === 0, 'no event'),
    ...when(
      json_events.some(({ fields }) => Object.keys(fields).length === 0),
      'an event whose data is not a JSON object',
    ),
    ...when(needs_names && json_events.some(({ name }) => name === undefined), 'data lines without event lines'),
    ...(odd === undefined
      ? []
      : [`an event ${shortText(odd.name!, 40)} with data of ${shortText(String(odd.fields.type), 40)}`]),
  ];
}

const MESSAGES_EVENTS =
  /^(?:message_start|content_block_start|content_block_delta|content_block_stop|message_delta|message_stop)$/;
/** The order of events: content blocks in sequence. Unknown events and pings are filtered out before. */
const MESSAGES_ORDER =
  /^message_start( content_block_start( content_block_delta)* content_block_stop)*( message_delta)+ message_stop$/;

const compatErrorFaults = (json: unknown): string[] => {
  const { message, type } = fieldsOf(fieldsOf(json).error);
  return [...when(!isText(message), 'error.message is missing'), ...when(!isText(type), 'error.type is missing')];
};

export const APIS: Readonly<Record<Protocol, Api>> = {
  messages: {
    path: '/v1/messages',
    what: 'Messages',
    clients: 'the Messages client',
    request: (prompt, most) => ({ max_tokens: most, ...chatMessages(prompt) }),
    wrong: { messages: 'not a list' },
    stream_fields: {},
    error_form: '{"type":"error","error":{"type","message"}}',
    errorFaults: (json) => [
      ...when(fieldsOf(json).type !== 'error', '"type" is not "error"'),
      ...compatErrorFaults(json),
    ],
    wholeFaults: ({ type, id, role, content, stop_reason }) =>
      type !== 'message'
        ? ['"type" is not "message"']
        : [
            ...when(!isText(id), '"id" is missing'),
            ...when(role !== 'assistant', '"role" is not "assistant"'),
            ...when(
              !Array.isArray(content) || !content.every((block) => isText(fieldsOf(block).type)),
              '"content" is not a list of blocks with a type',
            ),
            ...when(!isText(stop_reason), 'stop_reason is missing'),
          ],
    streamFaults(events) {
      const types = events.map(({ fields }) => String(fields.type)).filter((type) => MESSAGES_EVENTS.test(type));
      const stop_reason = events.map(({ fields }) => fieldsOf(fields.delta).stop_reason).findLast(isText);
      return [
        ...formFaults(events, true),
        ...when(
          events.some(({ data }) => data === '[DONE]'),
          'a [DONE], which only chat completions have',
        ),
        ...(types.at(-1) === 'message_stop'
          ? when(!MESSAGES_ORDER.test(types.join(' ')), 'events missing or out of order')
          : ['no message_stop at the end']),
        ...when(stop_reason === undefined, 'no message_delta with a stop_reason'),
      ];
    },
    counts: ['input_tokens', 'output_tokens'],
  },
  chat: {
    path: '/v1/chat/completions',
    what: 'chat completions',
    clients: 'the build CLI and similar clients',
    request: (prompt, most) => ({ max_tokens: most, ...chatMessages(prompt) }),
    wrong: { messages: 'not a list' },
    stream_fields: { stream_options: { include_usage: true } },
    error_form: '{"error":{"message","type"}}',
    errorFaults: compatErrorFaults,
    wholeFaults({ choices }) {
      const { message, finish_reason } = fieldsOf(Array.isArray(choices) ? choices[0] : undefined);
      return [
        ...when(fieldsOf(message).content === undefined, 'no choice has a message with content'),
        ...when(!isText(finish_reason), 'finish_reason is missing'),
      ];
    },
    streamFaults(events) {
      const choices = events.flatMap(({ fields }) =>
        (Array.isArray(fields.choices) ? fields.choices : []).map(fieldsOf),
      );
      return [
        ...formFaults(events, false),
        ...when(!choices.some(({ delta }) => Object.keys(fieldsOf(delta)).length > 0), 'no event with a delta'),
        ...when(!choices.some(({ finish_reason }) => isText(finish_reason)), 'no event with a finish_reason'),
        ...when(events.at(-1)?.data !== '[DONE]', 'no [DONE] at the end'),
      ];
    },
    counts: ['prompt_tokens', 'completion_tokens'],
  },
  responses: {
    path: '/v1/responses',
    what: 'Responses',
    clients: 'the coding CLI and similar clients',
    // As the coding CLI does: input as a list, and store: false.
    request: (text, most) => ({
      max_output_tokens: most,
      store: false,
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text }] }],
    }),
    wrong: { input: 7 },
    stream_fields: {},
    error_form: '{"error":{"message","type"}}',
    errorFaults: compatErrorFaults,
    wholeFaults: ({ status, output }) => [
      ...when(status !== 'completed' && status !== 'incomplete', '"status" is neither "completed" nor "incomplete"'),
      ...when(!Array.isArray(output), '"output" is not a list'),
    ],
    streamFaults(events) {
      const types = events.map(({ fields }) => String(fields.type));
      const says_text = types.includes('response.output_text.delta');
      return [
        ...formFaults(events, false),
        ...when(types[0] !== 'response.created', 'the first event is not response.created'),
        ...when(
          says_text && !types.includes('response.output_item.done'),
          'no response.output_item.done, from which clients read the text',
        ),
        ...when(
          !types.includes('response.completed') && !types.includes('response.incomplete'),
          'no response.completed: clients treat the stream as broken off',
        ),
      ];
    },
    counts: ['input_tokens', 'output_tokens'],
  },
};

export function streamText(events: readonly ReadEvent[]): string {
  return events
    .map(({ fields }) => fieldsOf(fields.delta).text)
    .filter((text) => typeof text === 'string')
    .join('');
}
