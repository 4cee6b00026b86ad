import type { Protocol } from '../contract/protocol.ts';

/** What is put into the body of a probe. */
interface Given {
  readonly model: string;
  readonly text: string;
  /** Of the names of headers, which the attribution block begins with. */
  readonly prefix: string;
}

/**
 * A request of the Messages API with what gateways like to change: unknown fields at every level, two blocks of `system` that are
 * the same, keys and tools out of order, numbers and texts that can be written in several ways, white space.
 */
function messagesBody({ model, text, prefix }: Given): string {
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

const UNKNOWN = { list: ['b', 'a'], deep: { z: null, a: 1 } };
const TOOL = {
  name: 'zebra',
  description: 'A tool.',
  parameters: { type: 'object', properties: { z: { type: 'string' }, a: { type: 'integer' } }, required: ['z'] },
};

function chatBody({ model, text }: Given): string {
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

function responsesBody({ model, text }: Given): string {
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

/** A body of each protocol with fields nobody knows at every level. */
export const PROBES: Readonly<Record<Protocol, (given: Given) => string>> = {
  messages: messagesBody,
  chat: chatBody,
  responses: responsesBody,
};
