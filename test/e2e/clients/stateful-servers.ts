/**
 * Servers of chat completions that need their extra fields back, as they are on the wire. Each compares the messages
 * of the assistant with its own, and rejects a conversation in which anything is missing or changed.
 */
import { isDeepStrictEqual } from 'node:util';
import { type ConfigSections, ONE_ATTEMPT } from '../../support/gateway.ts';
import { answerChunks, answerJson, type Script } from '../../support/model-provider/scripted-upstream.ts';
import { nineConfig } from '../support/nine.ts';

// biome-ignore lint/suspicious/noExplicitAny: a server says whatever it likes
type Json = any;

/** A message of the assistant, and the deltas of its stream. */
export interface Said {
  readonly message: Json;
  readonly deltas: readonly Json[];
}

/** A server: its turns, the last of which calls no tool. */
export interface StatefulServer {
  readonly name: string;
  readonly turns: readonly Said[];
}

const ARGUMENTS = '{"city":"Bern"}';
const call = (id: string, more: Json = {}, inner: Json = {}) => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: ARGUMENTS, ...inner },
  ...more,
});

/** The deltas of a tool call: its head, with its extra fields, and its arguments in pieces. */
function callDeltas({ function: fn, ...head }: Json, index: number): Json[] {
  const { arguments: args, ...inner } = fn;
  const entry = (fields: Json) => ({ tool_calls: [{ index, ...fields }] });
  return [
    entry({ ...head, function: { ...inner, arguments: '' } }),
    entry({ function: { arguments: args.slice(0, 5) } }),
    entry({ function: { arguments: args.slice(5) } }),
  ];
}

const says = (fields: Json, deltas: readonly Json[]): Said => ({
  message: { role: 'assistant', content: null, ...fields },
  deltas,
});

/** Tool calls without anything else in the message; `fields` come first. */
const calling = (tool_calls: readonly Json[], fields: Json = {}, deltas: readonly Json[] = []): Said =>
  says({ ...fields, tool_calls }, [...deltas, ...tool_calls.flatMap(callDeltas)]);

const DONE = says({ content: 'Sunny.' }, [{ content: 'Sun' }, { content: 'ny.' }]);
const server = (name: string, ...turns: readonly Said[]): StatefulServer => ({ name, turns: [...turns, DONE] });

const SIGNATURE = `EpgB${'CpUB/AWk+'.repeat(40)}==`;
const google = (thought_signature: string) => ({ extra_content: { google: { thought_signature } } });

/** Gemini has whole calls in one delta without an index, and signs the first of those that are parallel. */
const gemini = (turn: number): Said => {
  const calls = [call(`function-call-${turn}1`, google(`${SIGNATURE}${turn}`)), call(`function-call-${turn}2`)];
  return says(
    { tool_calls: calls },
    calls.map((one) => ({ tool_calls: [one] })),
  );
};

const THOUGHT = 'The user asks about the weather, so I call the tool.';
const PIECES = [THOUGHT.slice(0, 9), THOUGHT.slice(9, 30), THOUGHT.slice(30)];
const pieces = (key: string) => PIECES.map((text) => ({ [key]: text }));

const claudeDetail = { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0 };
const encrypted = (id: string, data: string, index = 0) => {
  return { type: 'reasoning.encrypted', data, id, format: 'google-gemini-v1', index };
};
const summary = { type: 'reasoning.summary', format: 'openai-responses-v1', index: 0 };
const miniMax = (nth: 1 | 2, text: string) => {
  const detail = { type: 'reasoning.text', id: `reasoning-text-${nth}`, format: 'MiniMax-response-v1' };
  return { ...detail, index: nth - 1, text };
};
const details = (...reasoning_details: readonly Json[]) => ({ reasoning_details });
const thinkingBlock = (thinking: string, signature: string | null) => ({ type: 'thinking', thinking, signature });
const mistral = (text: string) => ({ type: 'thinking', thinking: [{ type: 'text', text }] });
const databricks = (text: string, signature: string) => ({
  type: 'reasoning',
  summary: [{ type: 'summary_text', text, signature }],
});

const liteCall = (turn: number, thought_signature: string) => {
  const fields = { provider_specific_fields: { thought_signature } };
  return call(`call_${turn}__thought__${thought_signature}`, fields, fields);
};

const LOOK = { type: 'text', text: 'I look.' };
const SECRET = { ...encrypted('rs_1', 'gAAA+/=='), index: 1 };
const MEMO = { 'x-y': ['gw', { deep: null, n: 1 }] };

/** The table: a server each, with the form in which it keeps its state. */
export const STATEFUL_SERVERS: readonly StatefulServer[] = [
  server('Gemini: extra_content of the first of parallel calls', gemini(1), gemini(2)),
  server(
    'Gemini: extra_content of a text, before calls',
    says({ content: 'I look.', tool_calls: [call('c1', google('b+/='))], ...google('a+/=') }, [
      { content: 'I look.', ...google('a+/=') },
      ...callDeltas(call('c1', google('b+/=')), 0),
    ]),
  ),
  server(
    'OpenRouter: reasoning and reasoning_details in pieces, with a signature',
    calling(
      [call('toolu_1'), call('toolu_2')],
      { reasoning: THOUGHT, ...details({ ...claudeDetail, text: THOUGHT, signature: SIGNATURE }) },
      [
        ...PIECES.map((text) => ({ reasoning: text, ...details({ ...claudeDetail, text }) })),
        details({ ...claudeDetail, signature: SIGNATURE }),
      ],
    ),
    calling([call('toolu_3')]),
  ),
  server(
    'OpenRouter: encrypted reasoning_details that come after the calls',
    says(
      {
        ...details(encrypted('c1', SIGNATURE), encrypted('c2', 'B+/=')),
        tool_calls: [call('c1'), call('c2')],
      },
      [
        ...[call('c1'), call('c2')].flatMap(callDeltas),
        { content: '', ...details(encrypted('c1', SIGNATURE)) },
        { content: '', ...details(encrypted('c2', 'B+/=')) },
      ],
    ),
  ),
  server(
    'OpenRouter: a summary that stands only in reasoning_details, beside encrypted reasoning',
    calling([call('c1')], details({ ...summary, summary: THOUGHT }, SECRET), [
      ...PIECES.map((text) => details({ ...summary, summary: text })),
      details(SECRET),
    ]),
  ),
  server(
    'DeepSeek, Moonshot, Zhipu, Qwen: reasoning_content',
    calling([call('call_00_a')], { reasoning_content: THOUGHT }, pieces('reasoning_content')),
    calling([call('call_00_b')], { reasoning_content: '' }, [{ content: null, reasoning_content: '' }]),
  ),
  server(
    'Groq, Cerebras, Ollama: reasoning',
    calling([call('c1')], { reasoning: THOUGHT }, pieces('reasoning')),
    calling([call('c2')]),
  ),
  server(
    'servers that say a thought under two names, before and after a text',
    says(
      {
        content: 'I look.',
        reasoning: `${THOUGHT}Again.`,
        reasoning_content: `${THOUGHT}Again.`,
        tool_calls: [call('c1')],
      },
      [
        ...PIECES.map((text) => ({ reasoning: text, reasoning_content: text })),
        { content: 'I look.' },
        { reasoning: 'Again.', reasoning_content: 'Again.' },
        ...callDeltas(call('c1'), 0),
      ],
    ),
  ),
  server(
    'LiteLLM: signatures in identifiers and in provider_specific_fields',
    calling([liteCall(1, SIGNATURE), liteCall(2, 'a+/=')]),
    calling([call('call_3__thought__b+/='), call(`call_4__thought__${SIGNATURE}`)]),
  ),
  server(
    'LiteLLM: thinking_blocks without an index',
    calling([call('toolu_1')], { reasoning_content: THOUGHT, thinking_blocks: [thinkingBlock(THOUGHT, SIGNATURE)] }, [
      ...PIECES.map((text) => ({ reasoning_content: text, thinking_blocks: [thinkingBlock(text, null)] })),
      { reasoning_content: '', thinking_blocks: [thinkingBlock('', SIGNATURE)] },
    ]),
  ),
  server(
    'GitHub Copilot: reasoning_text and reasoning_opaque',
    calling([call('c1')], { reasoning_text: THOUGHT, reasoning_opaque: SIGNATURE }, [
      ...pieces('reasoning_text'),
      { reasoning_opaque: SIGNATURE },
    ]),
  ),
  server(
    'MiniMax: reasoning_details of two thoughts',
    calling([call('c1')], details(miniMax(1, THOUGHT), miniMax(2, 'Yes.')), [
      ...PIECES.map((text) => details(miniMax(1, text))),
      details(miniMax(2, 'Yes.')),
    ]),
  ),
  server(
    'Mistral: thoughts as parts of the content',
    says({ content: [mistral(THOUGHT), LOOK], tool_calls: [call('aB3xY7pQ1')] }, [
      ...PIECES.map((text) => ({ content: [mistral(text)] })),
      { content: 'I ' },
      { content: 'look.' },
      ...callDeltas(call('aB3xY7pQ1'), 0),
    ]),
  ),
  server(
    'Databricks: summaries with signatures as parts of the content',
    says({ content: [databricks(THOUGHT, SIGNATURE), LOOK], tool_calls: [call('toolu_1')] }, [
      ...PIECES.map((text) => ({ content: [databricks(text, '')] })),
      { content: [databricks('', SIGNATURE)] },
      { content: 'I look.' },
      ...callDeltas(call('toolu_1'), 0),
    ]),
  ),
  server(
    'relays: thought_signature at the call, at its function, and after its arguments',
    calling([
      call('c1', { thought_signature: 'a+/=' }),
      call('c2', {}, { thought_signature: 'b+/=', thoughtSignature: 'c' }),
    ]),
    says({ tool_calls: [call('c3', google('late+/=')), call('c4')] }, [
      ...[call('c3'), call('c4')].flatMap(callDeltas),
      { tool_calls: [{ index: 0, ...google('late+/='), function: { arguments: '' } }] },
    ]),
  ),
  server(
    'an unknown server, with a state of its own',
    calling([call('c1')], { continuation: MEMO, __memo: 'abc' }, [{ continuation: MEMO }, { __memo: 'abc' }]),
  ),
];

/** `nineConfig` with the models `twin`, at an upstream of the same address and credential, and `other`, at one of another account. */
export function twinConfig(url: string): ConfigSections {
  const chat = { type: 'compat', protocols: ['chat'], ...ONE_ATTEMPT };
  const others = ['twin', 'other'];
  return nineConfig(url, {
    upstreams: [
      { ...chat, name: 'chat-twin' },
      { ...chat, name: 'chat-other', api_key_env: 'TEST_DATABASE_URL' },
    ],
    models: others.map((id) => ({ id })),
    rules: others.map((name) => ({ name, models: [name], upstream: `chat-${name}` })),
  });
}

/** The server with identifiers of calls that no other conversation has, as nearly all servers make them. */
export function withUniqueIds(server: StatefulServer, mark: string): StatefulServer {
  const ids = /"(c\d|toolu_\d|call_00_[ab]|function-call-\d+|aB3xY7pQ1|call_\d(?=__thought__))/g;
  const text = JSON.stringify(server).replace(ids, `"$1_${mark}`);
  return JSON.parse(text) as StatefulServer;
}

const head = (object: string) => ({ id: 'chatcmpl-1', object, created: 1, model: 'm' });
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

/** The bytes of a stream of these deltas. */
export function chatStream(deltas: readonly Json[], finish_reason: string): string {
  const chunk = (delta: Json, reason: string | null = null) => {
    const choices = [{ index: 0, delta, finish_reason: reason }];
    return `data: ${JSON.stringify({ ...head('chat.completion.chunk'), choices })}\n\n`;
  };
  const last = `data: ${JSON.stringify({ ...head('chat.completion.chunk'), choices: [], usage })}\n\ndata: [DONE]\n\n`;
  return [
    chunk({ role: 'assistant', content: '' }),
    ...deltas.map((delta) => chunk(delta)),
    chunk({}, finish_reason),
    last,
  ].join('');
}

/** A whole response with this message. */
export function chatDocument(said: Json): Json {
  const finish_reason = said.tool_calls === undefined ? 'stop' : 'tool_calls';
  return { ...head('chat.completion'), choices: [{ index: 0, message: said, finish_reason }], usage };
}

/** Plays a server; errors of a request go to `wrong`. Streams come in pieces of so many bytes. */
export function playing({ turns }: StatefulServer, wrong: string[], size = 4096): Script {
  return (exchange) => {
    const body = JSON.parse(exchange.received.body.toString());
    const said = body.messages.filter(({ role }: Json) => role === 'assistant');
    const input = turns.slice(0, said.length).map((turn) => turn.message);
    const results = body.messages.filter(({ role }: Json) => role === 'tool').map((one: Json) => one.tool_call_id);
    const calls = input.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }: Json) => id));
    if (!isDeepStrictEqual(said, input)) wrong.push(`${JSON.stringify(said)} instead of ${JSON.stringify(input)}`);
    if (!isDeepStrictEqual(results, calls)) wrong.push(`results of ${results} instead of ${calls}`);
    if (wrong.length > 0)
      return answerJson({ error: { message: 'Function call is missing a thought_signature' } }, 400)(exchange);
    const next = turns[said.length]!;
    const document = chatDocument(next.message);
    if (body.stream !== true) return answerJson(document)(exchange);
    const bytes = Buffer.from(chatStream(next.deltas, document.choices[0].finish_reason));
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
    return answerChunks(pieces)(exchange);
  };
}
