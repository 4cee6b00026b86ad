import type { UpstreamTarget } from '../translation/adapter.ts';
import type { Conversation, Tool } from '../translation/conversation.ts';
import { HeldSet } from '../translation/features/held-schemas.ts';
import { OPENING } from '../translation/features/turn-order.ts';
import type { Notes } from '../translation/notes.ts';
import { type Block, cacheControl, type Message, writeMessages, writeTexts } from './write-blocks.ts';
import { limitMarks, markPrompt } from './write-cache.ts';
import { writeThinking } from './write-thinking.ts';

/** Makes a model that has no JSON mode answer with JSON alone. */
const JSON_ONLY = 'Answer with one JSON object and nothing else: no words around it and no code fence.';

/** The same for a schema that the upstream does not take; the schema follows. */
const SCHEMA_ONLY =
  'Answer with one JSON value and nothing else: no words around it and no code fence. It must match this JSON Schema:';

/** Writes a request for an upstream. Raises not_translatable by a rule. */
export function writeRequest(
  conversation: Conversation,
  target: UpstreamTarget,
  notes: Notes,
): Record<string, unknown> {
  noteUnsaid(conversation, notes);
  const held = new HeldSet('messages', notes);
  const format = writeFormat(conversation, held, notes);
  const system = writeSystem(conversation, format !== undefined, notes);
  const messages = writeMessages(conversation.turns, notes);
  mendEnds(system, messages, notes);
  const tools = conversation.tools.map((tool) => writeTool(tool, held, notes));
  const called = tools.length === 0 ? calledTools(conversation, notes) : [];
  markPrompt(conversation.cache, { system, tools, messages }, notes);
  limitMarks({ system, tools, messages }, notes);
  const max_tokens = conversation.max_output_tokens ?? target.default_output_tokens ?? target.max_output_tokens;
  const { on, thinking, effort } = writeThinking(conversation, target, messages, max_tokens, notes);
  const output_config = { ...(effort !== undefined && { effort }), ...(format !== undefined && { format }) };
  return {
    model: conversation.model,
    max_tokens,
    ...(system.length > 0 && { system }),
    messages,
    ...(tools.length > 0 && { tools, ...writeChoice(conversation) }),
    ...(called.length > 0 && { tools: called, tool_choice: { type: 'none' } }),
    ...(thinking && { thinking }),
    ...(Object.keys(output_config).length > 0 && { output_config }),
    ...(conversation.user !== undefined && { metadata: { user_id: conversation.user } }),
    ...writeStops(conversation, notes),
    ...writeSampling(conversation, on, notes),
    ...writeTier(conversation, notes),
    stream: conversation.stream,
  };
}

function noteUnsaid(conversation: Conversation, notes: Notes): void {
  const { seed, frequency_penalty, presence_penalty, verbosity, store, metadata } = conversation;
  if (seed !== undefined) notes.note('seed');
  if ((frequency_penalty ?? 0) !== 0 || (presence_penalty ?? 0) !== 0) notes.note('penalties');
  if (verbosity !== undefined && verbosity !== 'medium') notes.note('verbosity');
  if (store === true) notes.note('store');
  if (metadata !== undefined && Object.keys(metadata).length > 0) notes.note('metadata');
}

/** An answer that the upstream cannot be asked to hold the model to is asked for in words. */
function writeSystem({ instructions, output_format }: Conversation, is_held: boolean, notes: Notes): Block[] {
  const system = writeTexts(instructions, notes);
  if (output_format === undefined || is_held) return system;
  const schema = output_format.kind === 'json_schema' ? output_format.schema : {};
  if (Object.keys(schema).length === 0) {
    notes.note('json_object_mode');
    return [...system, { type: 'text', text: JSON_ONLY }];
  }
  notes.note('output_schema');
  return [...system, { type: 'text', text: `${SCHEMA_ONLY}\n${JSON.stringify(schema)}` }];
}

/** Upstreams want a message, the user's first, and no white space at the end of what the model shall continue. */
function mendEnds(system: Block[], messages: Message[], notes: Notes): void {
  if (messages.length === 0 && system.length > 0) {
    notes.note('instructions_only');
    messages.push({ role: 'user', content: [system.pop()!] });
  }
  if (messages[0]?.role === 'assistant') {
    notes.note('assistant_first');
    messages.unshift({ role: 'user', content: [{ type: 'text', text: OPENING }] });
  }
  const last = messages.at(-1);
  const end = last?.role === 'assistant' ? last.content.at(-1) : undefined;
  if (typeof end?.text === 'string' && /\s$/.test(end.text)) {
    notes.note('trailing_space');
    end.text = end.text.trimEnd();
  }
}

function writeTool(tool: Tool, held: HeldSet, notes: Notes): Block {
  const { name, description, free_text, cache } = tool;
  if (free_text) notes.note('free_text_tool');
  const { schema, strict } = held.tool(tool);
  return {
    name,
    ...(description && { description }),
    input_schema: schema,
    ...(strict && { strict }),
    ...(cache && { cache_control: cacheControl(cache) }),
  };
}

/** Tools that were called although the request has none, as in one that asks for a summary; upstreams want them named. */
function calledTools({ turns }: Conversation, notes: Notes): Block[] {
  const names = new Set(
    turns.flatMap(({ parts }) => parts.flatMap((part) => (part.kind === 'tool_call' ? part.name : []))),
  );
  if (names.size > 0) notes.note('tools_of_history');
  return [...names].map((name) => ({ name, input_schema: { type: 'object' } }));
}

function writeChoice({ tool_choice, parallel_tool_calls }: Conversation): Block {
  if (tool_choice?.kind === 'none') return { tool_choice: { type: 'none' } };
  const single = parallel_tool_calls === false;
  if (tool_choice === undefined && !single) return {};
  const { kind, ...named } = tool_choice ?? { kind: 'auto' };
  return { tool_choice: { type: kind, ...named, ...(single && { disable_parallel_tool_use: true }) } };
}

function writeFormat({ output_format }: Conversation, held: HeldSet, notes: Notes): Block | undefined {
  if (output_format?.kind !== 'json_schema') return undefined;
  if (output_format.name !== undefined || output_format.description !== undefined) notes.note('output_format_name');
  const schema = held.answer(output_format);
  return schema && { type: 'json_schema', schema };
}

function writeStops({ stop }: Conversation, notes: Notes): Block {
  const stop_sequences = (stop ?? []).filter((text) => text.trim() !== '');
  if (stop_sequences.length < (stop?.length ?? 0)) notes.note('blank_stop');
  return stop_sequences.length === 0 ? {} : { stop_sequences };
}

/** The smallest top_p that upstreams take while the model thinks. */
const TOP_P_WHILE_THINKING = 0.95;

function writeSampling({ temperature, top_p, top_k }: Conversation, thinking: boolean, notes: Notes): Block {
  if (thinking) {
    const keep_top_p = top_p !== undefined && top_p >= TOP_P_WHILE_THINKING;
    const loses = (temperature ?? 1) !== 1 || top_k !== undefined || (top_p !== undefined && !keep_top_p);
    if (loses) notes.note('sampling_while_thinking');
    return keep_top_p ? { top_p } : {};
  }
  if (temperature !== undefined && temperature > 1) notes.note('temperature_range');
  // One at its neutral value says nothing, and models refuse two.
  const both = temperature !== undefined && top_p !== undefined && top_p !== 1;
  if (both) notes.note('temperature_and_top_p');
  return {
    ...(temperature !== undefined && { temperature: Math.min(temperature, 1) }),
    ...(temperature === undefined && top_p !== undefined && { top_p }),
    ...(top_k !== undefined && { top_k }),
  };
}

function writeTier({ service_tier }: Conversation, notes: Notes): Block {
  if (service_tier === undefined || service_tier === 'auto') return {};
  if (service_tier === 'default') return { service_tier: 'standard_only' };
  notes.note('service_tier');
  return {};
}
