/** Clients of the three protocols that lead one conversation: they keep responses, and send them back unchanged. */
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { eventsIn } from '../streams/streams.ts';

// biome-ignore lint/suspicious/noExplicitAny: a client keeps whatever it is given
type Json = any;

/** The arguments of the tool of these clients. */
export const CITIES = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const } },
  required: ['city'] as const,
  additionalProperties: false as const,
};

/** One conversation as its client has it. */
export interface TalkingClient {
  /** The next request: it has results for the last tool calls, or asks a question where there were none. */
  ask(model: string, stream: boolean, question: string): string;
  /** Keeps a response. */
  take(text: string, stream: boolean): void;
}

/** The thinking option of a Messages client. */
export type Thinking = { readonly type: 'adaptive' } | { readonly type: 'enabled'; readonly budget_tokens: number };

function messagesClient(thinking: Thinking | undefined): TalkingClient {
  const messages: Json[] = [];
  return {
    ask(model, stream, question) {
      const last = messages.at(-1)?.content ?? [];
      const results = last
        .filter(({ type }: Json) => type === 'tool_use')
        .map(({ id }: Json) => ({ type: 'tool_result', tool_use_id: id, content: 'sunny' }));
      messages.push({ role: 'user', content: results.length > 0 ? results : question });
      const tools = [{ name: 'weather', input_schema: CITIES }];
      return JSON.stringify({ model, max_tokens: 4000, messages, tools, stream, ...(thinking && { thinking }) });
    },
    take(text, stream) {
      const content = stream ? contentOf(eventsIn(text).map(({ data }) => data)) : JSON.parse(text).content;
      messages.push({ role: 'assistant', content });
    },
  };
}

function contentOf(events: readonly Json[]): Json[] {
  const blocks: Json[] = [];
  for (const { type, index, content_block, delta } of events) {
    if (type === 'content_block_start') blocks[index] = { ...content_block };
    if (type !== 'content_block_delta') continue;
    const block = blocks[index];
    if (delta.type === 'text_delta') block.text += delta.text;
    else if (delta.type === 'thinking_delta') block.thinking += delta.thinking;
    else if (delta.type === 'signature_delta') block.signature = delta.signature;
    else block.json = (block.json ?? '') + delta.partial_json;
  }
  return blocks.map(({ json, ...block }) => (json === undefined ? block : { ...block, input: JSON.parse(json) }));
}

function responsesClient(): TalkingClient {
  const input: Json[] = [];
  return {
    ask(model, stream, question) {
      const answered = new Set(input.filter(({ output }) => output !== undefined).map(({ call_id }) => call_id));
      const open = input.filter(({ type, call_id }) => type === 'function_call' && !answered.has(call_id));
      for (const { call_id } of open) input.push({ type: 'function_call_output', call_id, output: 'sunny' });
      if (open.length === 0) input.push({ type: 'message', role: 'user', content: question });
      const tools = [{ type: 'function', name: 'weather', parameters: CITIES, strict: false }];
      const include = ['reasoning.encrypted_content'];
      return JSON.stringify({ model, input, tools, include, reasoning: { effort: 'low' }, store: false, stream });
    },
    take(text, stream) {
      const last = (events: readonly { data: Json }[]): Json => events.at(-1)!.data.response;
      input.push(...(stream ? last(eventsIn(text)) : JSON.parse(text)).output);
    },
  };
}

function chatClient(): TalkingClient {
  const messages: Json[] = [];
  return {
    ask(model, stream, question) {
      const calls = messages.at(-1)?.tool_calls ?? [];
      for (const { id } of calls) messages.push({ role: 'tool', tool_call_id: id, content: 'sunny' });
      if (calls.length === 0) messages.push({ role: 'user', content: question });
      const tools = [{ type: 'function', function: { name: 'weather', parameters: CITIES } }];
      return JSON.stringify({ model, messages, tools, reasoning_effort: 'low', stream });
    },
    take(text, stream) {
      const { tool_calls, content, ...more } = stream
        ? messageOf(eventsIn(text).map(({ data }) => data))
        : JSON.parse(text).choices[0].message;
      messages.push({ ...more, role: 'assistant', content, ...(tool_calls?.length > 0 && { tool_calls }) });
    },
  };
}

function messageOf(chunks: readonly Json[]): Json {
  const message: Json = { content: '', tool_calls: [] };
  for (const { choices } of chunks) {
    const { content, reasoning_content, tool_calls } = choices?.[0]?.delta ?? {};
    if (content) message.content += content;
    if (reasoning_content) message.reasoning_content = (message.reasoning_content ?? '') + reasoning_content;
    for (const { index, id, function: fn } of tool_calls ?? []) {
      // Some servers send whole calls without an index.
      const at = index ?? message.tool_calls.length;
      message.tool_calls[at] ??= { type: 'function', function: { name: '', arguments: '' } };
      const call = message.tool_calls[at];
      if (id) call.id = id;
      if (fn?.name) call.function.name = fn.name;
      call.function.arguments += fn?.arguments ?? '';
    }
  }
  return message;
}

/** A client of this protocol. */
export function talkingClient(spoken: Protocol, thinking?: Thinking): TalkingClient {
  return { messages: () => messagesClient(thinking), chat: chatClient, responses: responsesClient }[spoken]();
}
