/**
 * A request of the Messages API with what gateways like to change: unknown fields at every level, two blocks of `system` that are
 * the same, keys and tools out of order, numbers and texts that can be written in several ways, white space.
 * @param prefix of the names of headers, which the attribution block begins with.
 */
export function probeBody({
  model,
  text,
  prefix,
}: {
  readonly model: string;
  readonly text: string;
  readonly prefix: string;
}): string {
  const attribution = JSON.stringify(`x-${prefix}-billing-header: cc_version=2.1.0; cc_entrypoint=cli;`);
  return `{ "model": ${JSON.stringify(model)}, "stream":false,
  "max_tokens": 16, "temperature": 1.0,
  "system": [
    {"type":"text","text":${attribution}},
    {"type":"text","text":"You are part of a self-check.","cache_control":{"type":"ephemeral"},"selfcheck_unknown":{"b":[],"a":null}},
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
