import { fieldsOf } from '../../../base/kit/json/fields.ts';
import {
  errorFaults,
  isFilledList,
  isText,
  messagesRequest,
  type ProbeInput,
  type ProtocolProbe,
  when,
} from '../probe.ts';

const EVENTS =
  /^(?:message_start|content_block_start|content_block_delta|content_block_stop|message_delta|message_stop)$/;
/** The order of events: content blocks in sequence. Unknown events and pings are filtered out before. */
const ORDER =
  /^message_start( content_block_start( content_block_delta)* content_block_stop)*( message_delta)+ message_stop$/;

/** A Messages request with everything that gateways tend to change: unknown fields, equal blocks, order, notations. */
function messagesBody({ model, text, prefix }: ProbeInput): string {
  const attribution = JSON.stringify(`x-${prefix}-billing-header: cc_version=2.1.0; cc_entrypoint=cli;`);
  return `{ "model": ${JSON.stringify(model)}, "stream":false,
  "max_tokens": 16, "temperature": 1.0,
  "system": [
    {"type":"text","text":${attribution}},
    {"type":"text","text":"You are part of a self-check.","cache_control":{"type":"ephemeral","ttl":"1h"},"selfcheck_unknown":{"b":[],"a":null}},
    {"text":"Z \\u00e9 \\/ \\u2028 é","type":"text"},
    {"type":"text","text":"the same"},{"type":"text","text":"the same"}
  ],
  "tools": [
    {"name":"zebra","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer","minimum":0}},"required":["z","a"]},"description":"","selfcheck_unknown":true},
    {"name":"apple","description":"d","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}
  ],
  "tool_choice": {"type":"auto","disable_parallel_tool_use":true},
  "messages": [
    {"role":"user","content":[
      {"type":"text","text":"${text}","selfcheck_unknown":{"deep":[{"er":[1.50,12345678901234567890,1e-7]}]}},
      {"cache_control":{"type":"ephemeral"},"type":"text","text":"And go on."}
    ]},
    {"role":"assistant","content":"yes"},
    {"role":"user","content":"go on "}
  ],
  "metadata": {"user_id":"{\\"session_id\\":\\"of-a-self-check\\"}"},
  "output_config": {"effort":"low","selfcheck_unknown":1},
  "selfcheck_unknown": {"list":["b","a",{}],"text":"\\ud83d\\ude00","zero":-0.0}
}`;
}

export const probe: ProtocolProbe = {
  clients: 'the Messages client',
  request: messagesRequest,
  body: messagesBody,
  wrong: { messages: 'not a list' },
  stream_fields: {},
  error_form: '{"type":"error","error":{"type","message"}}',
  errorFaults: (json) => [...when(fieldsOf(json).type !== 'error', '"type" is not "error"'), ...errorFaults(json)],
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
    const types = events.map(({ fields }) => String(fields.type)).filter((type) => EVENTS.test(type));
    const stop_reason = events.map(({ fields }) => fieldsOf(fields.delta).stop_reason).findLast(isText);
    return [
      ...when(
        events.some(({ data }) => data === '[DONE]'),
        'a [DONE], which only chat completions have',
      ),
      ...(types.at(-1) === 'message_stop'
        ? when(!ORDER.test(types.join(' ')), 'events missing or out of order')
        : ['no message_stop at the end']),
      ...when(stop_reason === undefined, 'no message_delta with a stop_reason'),
    ];
  },
  has_event_names: true,
  counts: ['input_tokens', 'output_tokens'],
  requestFault({ messages, max_tokens }, counts_only) {
    if (!isFilledList(messages)) return 'messages: Input should be a valid list';
    return counts_only || (Number.isInteger(max_tokens) && Number(max_tokens) > 0)
      ? undefined
      : 'max_tokens: Field required';
  },
};
