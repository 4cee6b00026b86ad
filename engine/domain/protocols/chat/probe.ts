import { fieldsOf } from '../../../base/kit/json/fields.ts';
import {
  errorFaults,
  isFilledList,
  isText,
  messagesRequest,
  type ProbeInput,
  type ProtocolProbe,
  TOOL,
  UNKNOWN,
  when,
} from '../probe.ts';

function chatBody({ model, text }: ProbeInput): string {
  return JSON.stringify({
    model,
    max_tokens: 16,
    stream: false,
    messages: [
      { role: 'system', content: 'You are part of a self-check.' },
      { role: 'user', content: [{ type: 'text', text, selfcheck_unknown: true }], selfcheck_unknown: UNKNOWN },
    ],
    tools: [{ type: 'function', function: { ...TOOL, selfcheck_unknown: 1 } }],
    selfcheck_unknown: UNKNOWN,
  });
}

export const probe: ProtocolProbe = {
  clients: 'the build CLI and similar clients',
  request: messagesRequest,
  body: chatBody,
  wrong: { messages: 'not a list' },
  stream_fields: { stream_options: { include_usage: true } },
  error_form: '{"error":{"message","type"}}',
  errorFaults,
  wholeFaults({ choices }) {
    const { message, finish_reason } = fieldsOf(Array.isArray(choices) ? choices[0] : undefined);
    return [
      ...when(fieldsOf(message).content === undefined, 'no choice has a message with content'),
      ...when(!isText(finish_reason), 'finish_reason is missing'),
    ];
  },
  streamFaults(events) {
    const choices = events.flatMap(({ fields }) => (Array.isArray(fields.choices) ? fields.choices : []).map(fieldsOf));
    return [
      ...when(!choices.some(({ delta }) => Object.keys(fieldsOf(delta)).length > 0), 'no event with a delta'),
      ...when(!choices.some(({ finish_reason }) => isText(finish_reason)), 'no event with a finish_reason'),
      ...when(events.at(-1)?.data !== '[DONE]', 'no [DONE] at the end'),
    ];
  },
  has_event_names: false,
  counts: ['prompt_tokens', 'completion_tokens'],
  requestFault: ({ messages }) => (isFilledList(messages) ? undefined : 'messages: Input should be a valid list'),
};
