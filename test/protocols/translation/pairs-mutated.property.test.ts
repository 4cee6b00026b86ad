/** Requests with something odd in them: whatever it is, they are refused in words, or said so that a strict upstream takes them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import { translateRequest } from '../../../engine/protocols/translation/translate.ts';
import { PDF, PIXEL } from '../../e2e/clients/agent-model.ts';
import { checkRequest } from '../../support/model-provider/model-provider.ts';
import { Refused } from '../../support/model-provider/model-provider-checks.ts';
import { seal, sign } from '../../support/model-provider/model-provider-script.ts';
import { times } from '../../support/times.ts';

const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false };
const text = (type: string, said: string) => ({ type, text: said });

/** A request with everything in it, as each protocol says it. */
const BODIES: Readonly<Record<Protocol, object>> = {
  messages: {
    model: 'm',
    max_tokens: 4000,
    system: [
      { ...text('text', 'Be kind.'), cache_control: { type: 'ephemeral', ttl: '1h' } },
      text('text', 'Be terse.'),
    ],
    messages: [
      {
        role: 'user',
        content: [
          text('text', 'Look.'),
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
          { type: 'document', title: 'a.pdf', source: { type: 'base64', media_type: 'application/pdf', data: PDF } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm.', signature: sign('messages', 'Hm.') },
          text('text', 'I call.'),
          { type: 'tool_use', id: 'toolu_1', name: 'read', input: { a: 'b' } },
          { type: 'tool_use', id: 'toolu_2', name: 'read', input: { a: 'c' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'toolu_1', content: 'one' },
          { type: 'tool_result', tool_use_id: 'toolu_2', content: [text('text', 'two')], is_error: true },
          text('text', 'Go on.'),
        ],
      },
    ],
    tools: [{ name: 'read', description: 'Reads', input_schema: schema, strict: true }],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    thinking: { type: 'adaptive' },
    output_config: { effort: 'high', format: { type: 'json_schema', schema } },
    metadata: { user_id: 'u' },
    stop_sequences: ['END'],
    stream: true,
  },
  chat: {
    model: 'm',
    max_completion_tokens: 4000,
    messages: [
      { role: 'system', content: 'Be kind.' },
      {
        role: 'user',
        content: [
          text('text', 'Look.'),
          { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}`, detail: 'low' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` } },
        ],
      },
      {
        role: 'assistant',
        content: 'I call.',
        reasoning_content: 'Hm.',
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{"a":"b"}' } },
          { id: 'call_2', type: 'function', function: { name: 'read', arguments: '{"a":"c"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'one' },
      { role: 'tool', tool_call_id: 'call_2', content: [text('text', 'two')] },
      { role: 'user', content: 'Go on.' },
    ],
    tools: [{ type: 'function', function: { name: 'read', description: 'Reads', parameters: schema, strict: true } }],
    tool_choice: 'required',
    parallel_tool_calls: false,
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    reasoning_effort: 'high',
    temperature: 1.5,
    stop: ['END'],
    user: 'u',
    prompt_cache_key: 'k',
    stream: true,
    stream_options: { include_usage: true },
  },
  responses: {
    model: 'm',
    instructions: 'Be kind.',
    input: [
      { type: 'message', role: 'developer', content: [text('input_text', 'Be terse.')] },
      {
        role: 'user',
        content: [
          text('input_text', 'Look.'),
          { type: 'input_image', image_url: `data:image/png;base64,${PIXEL}`, detail: 'low' },
          { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
        ],
      },
      { type: 'reasoning', id: 'rs_1', summary: [text('summary_text', 'Hm.')], encrypted_content: seal('Hm.') },
      { type: 'message', role: 'assistant', content: [text('output_text', 'I call.')] },
      { type: 'function_call', call_id: 'call_1', name: 'read', arguments: '{"a":"b"}' },
      { type: 'custom_tool_call', call_id: 'call_2', name: 'patch', input: '*** Begin' },
      { type: 'function_call_output', call_id: 'call_1', output: [text('input_text', 'one')] },
      { type: 'custom_tool_call_output', call_id: 'call_2', output: 'two' },
    ],
    tools: [
      { type: 'function', name: 'read', description: 'Reads', parameters: schema, strict: true },
      { type: 'custom', name: 'patch', description: 'Patches', format: { type: 'text' } },
    ],
    tool_choice: { type: 'function', name: 'read' },
    parallel_tool_calls: true,
    max_output_tokens: 4000,
    reasoning: { effort: 'high', summary: 'auto' },
    text: { verbosity: 'low', format: { type: 'json_schema', name: 'answer', schema, strict: true } },
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'k',
    store: false,
    stream: true,
  },
};

/** Where something can be put in the place of something else. */
function placesIn(value: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([key, child]) =>
    placesIn(child, [...path, Array.isArray(value) ? Number(key) : key]),
  );
  return path.length === 0 ? inner : [path, ...inner];
}

/** A copy in which another value stands at this place; `undefined` takes away what was there. */
function changed(body: object, path: readonly (string | number)[], value: unknown): object {
  const copy = structuredClone(body);
  // biome-ignore lint/suspicious/noExplicitAny: any JSON
  let at: any = copy;
  for (const key of path.slice(0, -1)) at = at[key];
  const last = path.at(-1)!;
  if (value !== undefined) at[last] = value;
  else if (Array.isArray(at)) at.splice(Number(last), 1);
  else delete at[last];
  return copy;
}

const odd = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    true,
    false,
    0,
    1,
    -1,
    2 ** 40,
    0.5,
    '',
    ' ',
    'x',
    'tool',
    'auto',
    'none',
    [],
    {},
    [null],
    [[]],
  ),
  fc.constantFrom<unknown>(
    [text('text', '')],
    [text('input_text', 'x')],
    { type: 'text' },
    { type: 'object' },
    { type: 'unheard_of' },
  ),
  fc.string(),
  fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<unknown>,
);

function isTaken(protocol: Protocol, body: unknown): string | undefined {
  try {
    checkRequest(protocol, body);
    return undefined;
  } catch (error) {
    if (error instanceof Refused) return error.message;
    throw error;
  }
}

for (const from of PROTOCOLS) {
  const places = placesIn(BODIES[from]);
  test(`the ${from} request that is made odd is one that its own protocol takes`, () => {
    assert.equal(isTaken(from, BODIES[from]), undefined);
  });

  for (const to of PROTOCOLS.filter((other) => other !== from)) {
    test(`odd requests of ${from} clients are refused in words, or taken by a strict ${to} upstream`, () => {
      fc.assert(
        fc.property(fc.constantFrom(...places), odd, (path, value) => {
          const body = changed(BODIES[from], path, value);
          const target = { max_output_tokens: 64_000, thinking: 'adaptive', sampling: true } as const;
          let json: string;
          try {
            ({ json } = translateRequest({
              from,
              to,
              body,
              upstream: 'u',
              upstream_model: 'm',
              target,
              request_id: 'r',
              created_at: 1,
            }));
          } catch (error) {
            assert.ok(error instanceof StageError, String((error as Error).stack));
            assert.match(error.code, /^(invalid_request|not_translatable)$/);
            assert.ok(isTaken(from, body) !== undefined || error.code === 'not_translatable', error.message);
            return;
          }
          // What its own protocol would refuse, another may refuse as well.
          if (isTaken(from, body) === undefined) assert.equal(isTaken(to, JSON.parse(json)), undefined, json);
        }),
        { numRuns: times(120) },
      );
    });
  }
}
