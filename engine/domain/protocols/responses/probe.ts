import {
  errorFaults,
  isFilledList,
  isText,
  type ProbeInput,
  type ProtocolProbe,
  TOOL,
  UNKNOWN,
  when,
} from '../probe.ts';

function responsesBody({ model, text }: ProbeInput): string {
  return JSON.stringify({
    model,
    input: [
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'You are part of a self-check.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text, selfcheck_unknown: true }] },
    ],
    tools: [{ type: 'function', ...TOOL, strict: false, selfcheck_unknown: 1 }],
    parallel_tool_calls: false,
    store: false,
    stream: false,
    max_output_tokens: 16,
    client_metadata: { selfcheck_unknown: 'yes' },
    selfcheck_unknown: UNKNOWN,
  });
}

export const probe: ProtocolProbe = {
  clients: 'the coding CLI and similar clients',
  // As the coding CLI does: input as a list, and store: false.
  request: (text, most) => ({
    max_output_tokens: most,
    store: false,
    input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text }] }],
  }),
  body: responsesBody,
  wrong: { input: 7 },
  stream_fields: {},
  error_form: '{"error":{"message","type"}}',
  errorFaults,
  wholeFaults: ({ status, output }) => [
    ...when(status !== 'completed' && status !== 'incomplete', '"status" is neither "completed" nor "incomplete"'),
    ...when(!Array.isArray(output), '"output" is not a list'),
  ],
  streamFaults(events) {
    const types = events.map(({ fields }) => String(fields.type));
    const says_text = types.includes('response.output_text.delta');
    return [
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
  has_event_names: false,
  counts: ['input_tokens', 'output_tokens'],
  requestFault: ({ input }) =>
    isText(input) || isFilledList(input) ? undefined : 'input: expected a string or a list of items',
};
