/**
 * A long conversation of a coding agent in the shapes that the three kinds of client send: 60 KB of system prompt in blocks,
 * 40 tools with deep schemas, some 200 messages with parallel calls, images, documents, failures and thoughts.
 * @module
 */
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { seal, sign } from '../../support/model-provider/model-provider-script.ts';
import { PDF, PIXEL } from './agent-model.ts';

const ROUNDS = 50;
const PARAGRAPH =
  'You are a careful engineer. Prefer “small” steps, and say — briefly — why.\n\t• Never guess; look.\n';

/** Blocks of a system prompt, 60 KB together; the first is the kind that identifies a client. */
export const SYSTEM: readonly string[] = [
  'x-client-attribution: version=2.1.0; entrypoint=cli;',
  PARAGRAPH.repeat(Math.ceil(20_000 / PARAGRAPH.length)),
  PARAGRAPH.repeat(Math.ceil(40_000 / PARAGRAPH.length)),
];

function schema(depth: number): Record<string, unknown> {
  if (depth === 0) return { type: 'string', description: 'Ein Wert — 値', enum: ['a', 'b', 'c'] };
  return {
    type: 'object',
    description: `Level ${depth}`,
    properties: {
      name: { type: ['string', 'null'] },
      items: { type: 'array', items: schema(depth - 1) },
      'ref.like-0': { type: 'number', minimum: 0 },
    },
    required: ['items'],
  };
}

/** Forty tools; every tenth with a name as long as those of remote servers are, where the API takes such names. */
export function toolsOf(spoken: Protocol) {
  return Array.from({ length: 40 }, (_, index) => {
    const long = `mcp__a_server_with_a_long_name__and_a_tool_with_a_long_name_${index}_x`.padEnd(70, 'y');
    const name = index % 10 === 9 ? long.slice(0, spoken === 'messages' ? 70 : 64) : `tool_${index}`;
    return { name, description: `Does thing ${index}. `.repeat(20), schema: schema(4) };
  });
}

/** What one round of the conversation has. */
export interface Round {
  readonly ask: string;
  readonly thought: string;
  readonly say: string;
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly input: object;
    readonly result: string;
  }[];
  readonly image: boolean;
  readonly document: boolean;
  readonly failed: boolean;
}

/** The rounds; the last one's results are still unanswered. */
export function roundsOf(spoken: Protocol): Round[] {
  const tools = toolsOf(spoken);
  return Array.from({ length: ROUNDS }, (_, index) => ({
    ask: `Step ${index}: please look at file ${index}.`,
    thought: `For step ${index} I need two files.`,
    say: `I look at step ${index}.`,
    calls: [0, 1].map((call) => ({
      id: `call_Ab${index}x${call}`,
      name: tools[(index * 2 + call) % tools.length]!.name,
      input: { path: `/src/ü-${index}.ts`, lines: [index, call], deep: { a: { b: [null, true, 1.5] } } },
      result: `result ${index}.${call}\n${'x'.repeat(200)}`,
    })),
    image: index % 10 === 3,
    document: index % 25 === 7,
    failed: index % 10 === 5,
  }));
}

const text = (type: string, said: string) => ({ type, text: said });

/** What a Messages client was given as the signature of a thought. */
const SIGNATURES: Readonly<Record<Protocol, (thought: string) => string>> = {
  messages: (thought) => sign('messages', thought),
  chat: () => '',
  responses: (thought) => `gw:responses:encrypted:rs_x:${seal(thought)}`,
};

function messagesBody(upstream: Protocol) {
  const messages = roundsOf('messages').flatMap(({ ask, thought, say, calls, image, document, failed }, index) => [
    {
      role: 'user',
      content: [
        text('text', ask),
        ...(image ? [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } }] : []),
        ...(document
          ? [{ type: 'document', title: 'a.pdf', source: { type: 'base64', media_type: 'application/pdf', data: PDF } }]
          : []),
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: thought, signature: SIGNATURES[upstream](thought) },
        text('text', say),
        ...calls.map(({ id, name, input }) => ({ type: 'tool_use', id, name, input })),
      ],
    },
    {
      role: 'user',
      content: calls.map(({ id, result }, at) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: at === 0 ? result : [text('text', result)],
        ...(failed && at === 1 && { is_error: true }),
        ...(index === ROUNDS - 1 && at === 1 && { cache_control: { type: 'ephemeral' } }),
      })),
    },
    ...(index === ROUNDS - 1 ? [] : [{ role: 'assistant', content: [text('text', `Done with step ${index}.`)] }]),
  ]);
  return {
    max_tokens: 32_000,
    messages,
    system: SYSTEM.map((block, index) => ({
      ...text('text', block),
      ...(index > 0 && { cache_control: { type: 'ephemeral', ttl: '1h' } }),
    })),
    tools: toolsOf('messages').map(({ name, description, schema: input_schema }) => ({
      name,
      description,
      input_schema,
    })),
    metadata: { user_id: JSON.stringify({ device_id: 'd'.repeat(64), account_uuid: '', session_id: 's'.repeat(36) }) },
    thinking: { type: 'adaptive' },
    stream: true,
  };
}

const dataUrl = (type: string, data: string) => `data:${type};base64,${data}`;

function chatBody() {
  const messages = roundsOf('chat').flatMap(({ ask, thought, say, calls, image, document, failed }, index) => [
    {
      role: 'user',
      content: [
        text('text', ask),
        ...(image ? [{ type: 'image_url', image_url: { url: dataUrl('image/png', PIXEL) } }] : []),
        ...(document
          ? [{ type: 'file', file: { filename: 'a.pdf', file_data: dataUrl('application/pdf', PDF) } }]
          : []),
      ],
    },
    {
      role: 'assistant',
      content: say,
      reasoning_content: thought,
      tool_calls: calls.map(({ id, name, input }) => ({
        id,
        type: 'function',
        function: { name, arguments: JSON.stringify(input) },
      })),
    },
    ...calls.map(({ id, result }, at) => ({
      role: 'tool',
      tool_call_id: id,
      content: failed && at === 1 ? `Error: ${result}` : result,
    })),
    ...(index === ROUNDS - 1 ? [] : [{ role: 'assistant', content: `Done with step ${index}.` }]),
  ]);
  return {
    messages: [...SYSTEM.map((content) => ({ role: 'system', content })), ...messages],
    tools: toolsOf('chat').map(({ name, description, schema: parameters }) => ({
      type: 'function',
      function: { name, description, parameters },
    })),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function responsesBody(upstream: Protocol) {
  const proof = (thought: string) =>
    upstream === 'messages' ? `gw:messages:signature::${sign('messages', thought)}` : seal(thought);
  const items = roundsOf('responses').flatMap(({ ask, thought, say, calls, image, document, failed }, index) => [
    {
      type: 'message',
      role: 'user',
      content: [
        text('input_text', ask),
        ...(image ? [{ type: 'input_image', image_url: dataUrl('image/png', PIXEL) }] : []),
        ...(document ? [{ type: 'input_file', filename: 'a.pdf', file_data: dataUrl('application/pdf', PDF) }] : []),
      ],
    },
    {
      type: 'reasoning',
      id: `rs_${index}`,
      summary: [text('summary_text', thought)],
      encrypted_content: proof(thought),
    },
    { type: 'message', role: 'assistant', content: [text('output_text', say)] },
    ...calls.map(({ id, name, input }) => ({
      type: 'function_call',
      call_id: id,
      name,
      arguments: JSON.stringify(input),
    })),
    ...calls.map(({ id, result }, at) => ({
      type: 'function_call_output',
      call_id: id,
      output: failed && at === 1 ? `Error: ${result}` : result,
    })),
    ...(index === ROUNDS - 1
      ? []
      : [{ type: 'message', role: 'assistant', content: [text('output_text', `Done with step ${index}.`)] }]),
  ]);
  return {
    instructions: SYSTEM[0],
    input: [
      { type: 'message', role: 'developer', content: SYSTEM.slice(1).map((block) => text('input_text', block)) },
      ...items,
    ],
    tools: toolsOf('responses').map(({ name, description, schema: parameters }) => ({
      type: 'function',
      name,
      description,
      strict: false,
      parameters,
    })),
    tool_choice: 'auto',
    parallel_tool_calls: true,
    reasoning: { effort: 'medium', summary: 'auto' },
    store: false,
    stream: true,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'a-session',
    ...(upstream !== 'responses' && { client_metadata: { 'x-installation': 'i' } }),
  };
}

/** The body that a client of this protocol sends for a model of that upstream, with the proofs of thoughts it got through the gateway. */
export function recordedBody(spoken: Protocol, upstream: Protocol, model: string): Record<string, unknown> {
  const body = { messages: messagesBody, chat: chatBody, responses: responsesBody }[spoken](upstream);
  return { model, ...body };
}
