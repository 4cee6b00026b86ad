import { present } from '../read-json.ts';
import type {
  Conversation,
  DocumentPart,
  ImagePart,
  Json,
  OutputFormat,
  Part,
  ReasoningPart,
  ReasoningRequest,
  Recall,
  TextPart,
  Tool,
  ToolCallPart,
  ToolChoice,
  ToolResultPart,
  Turn,
  UpstreamTarget,
} from '../translation/conversation.ts';
import { asError, effortOf, lateInstructions, OPENING, RESULTS_SEEN, writeAccount } from '../translation/features.ts';
import { DOCUMENT_NAME, documentText, takenImage, urlOf } from '../translation/files.ts';
import type { Notes } from '../translation/rules.ts';
import {
  type Accepted,
  createStrictSchemas,
  FUNCTIONS,
  type StrictSchemas,
  writeAnswerFormat,
} from '../translation/tool-schemas.ts';
import { ReturnedState } from './call-memory.ts';

/** Schemas, tool names and stop sequences that upstreams accept. */
export const accepted: Accepted = { ...FUNCTIONS, stops: { most: 4, blank: true } };

interface ContentPart {
  readonly type: 'text' | 'image_url' | 'file';
  readonly [field: string]: unknown;
}

function joinedContent(parts: readonly ContentPart[]): string | readonly ContentPart[] {
  const [first] = parts;
  if (first === undefined) return '';
  return parts.length === 1 && typeof first.text === 'string' ? first.text : parts;
}

function writePart(part: TextPart | ImagePart | DocumentPart, param: string, notes: Notes): ContentPart {
  if (part.cache !== undefined) notes.note('part_cache');
  switch (part.kind) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image': {
      const taken = takenImage(part, notes);
      if (taken.kind === 'text') return { type: 'text', text: taken.text };
      return { type: 'image_url', image_url: present({ url: urlOf(taken.source), detail: taken.detail }) };
    }
    case 'document':
      return writeDocument(part, param, notes);
  }
}

function writeDocument({ source, name }: DocumentPart, param: string, notes: Notes): ContentPart {
  if (source.kind === 'url') return notes.reject('document_url', param);
  if (source.kind === 'text') return { type: 'text', text: documentText(source.text, name, notes) };
  return { type: 'file', file: { filename: name ?? DOCUMENT_NAME, file_data: urlOf(source) } };
}

const RANKS: Readonly<Record<Part['kind'], number>> = {
  reasoning: 0,
  text: 1,
  image: 1,
  document: 1,
  refusal: 2,
  tool_call: 3,
  tool_result: 4,
};

function writeMessages(
  instructions: readonly TextPart[],
  turns: readonly Turn[],
  { strict_turns = false, recall }: Pick<UpstreamTarget, 'strict_turns' | 'recall'>,
  notes: Notes,
): Json[] {
  const state = new ReturnedState();
  const spoken = speeches(turns).flatMap(({ first, group }) =>
    group[0]!.role === 'assistant'
      ? assistantMessage(group, state, recall, notes)
      : clientMessages(group, first, state, notes),
  );
  const spoken_parts = strict_turns ? inTurns(spoken, notes) : spoken;
  if (instructions.length === 0) return spoken_parts;
  // Role system, as every server knows it; developer is known to few.
  return [
    { role: 'system', content: joinedContent(instructions.map((text) => writePart(text, 'system', notes))) },
    ...spoken_parts,
  ];
}

/** With the messages that templates want between results and the user, and before an assistant who speaks first. */
function inTurns(messages: readonly Json[], notes: Notes): Json[] {
  return messages.flatMap((message, index) => {
    if (index === 0 && message.role === 'assistant') {
      notes.note('assistant_first');
      return [{ role: 'user', content: OPENING }, message];
    }
    if (message.role !== 'user' || messages[index - 1]?.role !== 'tool') return [message];
    notes.note('user_after_results');
    return [{ role: 'assistant', content: RESULTS_SEEN }, message];
  });
}

function speeches(turns: readonly Turn[]): { readonly first: number; readonly group: Turn[] }[] {
  const found: { first: number; group: Turn[] }[] = [];
  for (const [first, turn] of turns.entries()) {
    const last = found.at(-1)?.group;
    if (last !== undefined && (last[0]!.role === 'assistant') === (turn.role === 'assistant')) last.push(turn);
    else found.push({ first, group: [turn] });
  }
  return found;
}

/** One message for neighbouring turns of the assistant, since results must follow the calls at once. */
function assistantMessage(
  turns: readonly Turn[],
  state: ReturnedState,
  recall: Recall | undefined,
  notes: Notes,
): Json[] {
  const parts = turns.flatMap((turn) => turn.parts).filter((part) => isKept(part, notes));
  const worded = parts.filter((part) => part.kind !== 'reasoning' || part.text !== '');
  if (worded.some((part, index) => index > 0 && RANKS[part.kind] < RANKS[worded[index - 1]!.kind])) {
    notes.note('part_order');
  }
  const texts = parts.filter((part) => part.kind === 'text');
  const calls = parts.filter((part) => part.kind === 'tool_call');
  const refusal = parts.flatMap((part) => (part.kind === 'refusal' ? [part.text] : [])).join('');
  for (const part of parts) if (part.kind === 'reasoning') readThought(part, state, notes);
  if (recall !== undefined) state.addKept(calls, recall);
  const { fields, parts: thoughts } = state.takeMessage();
  if (worded.length === 0 && thoughts.length === 0 && Object.keys(fields).length === 0) return [];
  const content = texts.length > 0 ? joinedContent(texts.map((text) => writePart(text, 'messages', notes))) : undefined;
  const tool_calls = calls.map((call) => writeCall(call, state, notes));
  state.forget(calls.map(({ id }) => id));
  return [
    {
      role: 'assistant',
      content: thoughts.length > 0 ? [...thoughts, ...asParts(content)] : (content ?? emptyContent(fields, calls)),
      ...fields,
      ...(refusal !== '' && { refusal }),
      ...(calls.length > 0 && { tool_calls }),
    },
  ];
}

function emptyContent(fields: Json, calls: readonly unknown[]): '' | null {
  return Object.keys(fields).length > 0 && calls.length === 0 ? '' : null;
}

function asParts(content: string | readonly unknown[] | undefined): readonly unknown[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
}

/** Reasoning parts of one response are joined; other reasoning is separated by a blank line. */
function readThought({ text, proof }: ReasoningPart, state: ReturnedState, notes: Notes): void {
  if (proof?.kind === 'state') {
    if (state.add(proof.value, text)) return;
    notes.note('foreign_state');
  }
  if (text !== '') state.addText(text, proof === undefined ? '\n\n' : '');
}

/** Whether an assistant part can be sent: reasoning only without a proof of another protocol. */
function isKept(part: Part, notes: Notes): boolean {
  if (part.kind !== 'reasoning') return true;
  if (part.proof === undefined || part.proof.kind === 'none') return part.text !== '';
  if (part.proof.kind === 'state') return true;
  notes.note('foreign_reasoning');
  return false;
}

function writeCall({ id, name, arguments: text, cache }: ToolCallPart, state: ReturnedState, notes: Notes): unknown {
  if (cache !== undefined) notes.note('part_cache');
  const { call, function: inner } = state.stateOf(id);
  return {
    id: state.idOf(id),
    type: 'function',
    function: { name, arguments: text === '' ? '{}' : text, ...inner },
    ...call,
  };
}

/**
 * Results of all these turns come first: nothing may be between calls and their results. The texts become one message, because
 * many templates reject two consecutive user messages, and the Messages API joins them as well.
 */
function clientMessages(turns: readonly Turn[], first: number, state: ReturnedState, notes: Notes): Json[] {
  const results = turns.flatMap(({ parts }) => parts.filter((part) => part.kind === 'tool_result'));
  const attached = results.flatMap((result) => attachments(result, notes));
  const content = [
    ...attached,
    ...turns.flatMap((turn, index) => spokenParts(turn, `messages.${first + index}`, notes)),
  ];
  // Without an empty message, the upstream would respond to the previous one.
  const is_empty = results.length === 0 && turns.some(({ role, parts }) => role === 'user' && parts.length === 0);
  return [
    ...results.map((result) => resultMessage(result, state, notes)),
    ...(content.length > 0 || is_empty ? [{ role: 'user', content: joinedContent(content) }] : []),
  ];
}

function spokenParts(turn: Turn, param: string, notes: Notes): ContentPart[] {
  const parts = turn.role === 'instructions' ? lateInstructions(turn, notes) : turn.parts;
  return parts.flatMap((part) =>
    part.kind === 'text' || part.kind === 'image' || part.kind === 'document' ? [writePart(part, param, notes)] : [],
  );
}

function resultMessage({ call_id, parts, is_error, cache }: ToolResultPart, state: ReturnedState, notes: Notes): Json {
  const texts = parts.filter((part) => part.kind === 'text');
  if (cache !== undefined || texts.some((text) => text.cache !== undefined)) notes.note('part_cache');
  if (texts.length > 1) notes.note('result_texts');
  const spoken_parts =
    texts.length === 0 && parts.length > 0 ? [{ kind: 'text', text: 'See the next message.' } as const] : texts;
  const content_parts: readonly TextPart[] = is_error ? asError(spoken_parts, notes) : spoken_parts;
  return { role: 'tool', tool_call_id: state.idOf(call_id), content: content_parts.map(({ text }) => text).join('\n') };
}

function attachments({ call_id, parts }: ToolResultPart, notes: Notes): ContentPart[] {
  const files = parts.filter((part) => part.kind !== 'text');
  if (files.length === 0) return [];
  notes.note('result_attachments');
  const title: ContentPart = { type: 'text', text: `Part of the result of tool call ${call_id}:` };
  return [title, ...files.map((file) => writePart(file, `the result of tool call ${call_id}`, notes))];
}

function writeTools(conversation: Conversation, notes: Notes): Json {
  const { tools, tool_choice, parallel_tool_calls } = conversation;
  if (tools.length === 0) return {};
  const held = createStrictSchemas(accepted, notes);
  return {
    tools: tools.map((tool) => writeTool(tool, held, notes)),
    ...(tool_choice !== undefined && { tool_choice: writeChoice(tool_choice) }),
    // True is the default, and not every server knows the field.
    ...(parallel_tool_calls === false && { parallel_tool_calls }),
  };
}

function writeTool(tool: Tool, held: StrictSchemas, notes: Notes): unknown {
  const { name, description, free_text, cache } = tool;
  if (free_text === true) notes.note('free_text_tool');
  if (cache !== undefined) notes.note('part_cache');
  const { schema: parameters, ...strictness } = held.tool(tool);
  return { type: 'function', function: present({ name, description, parameters, ...strictness }) };
}

function writeChoice(choice: ToolChoice): unknown {
  if (choice.kind === 'tool') return { type: 'function', function: { name: choice.name } };
  return choice.kind === 'any' ? 'required' : choice.kind;
}

function writeFormat(format: OutputFormat, notes: Notes): unknown {
  if (format.kind === 'json_object') return { type: 'json_object' };
  return { type: 'json_schema', json_schema: writeAnswerFormat(format, accepted, notes) };
}

const TIERS = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast']);

/** Writes a request that nearly every server of this protocol accepts. Raises not_translatable by a rule. */
export function writeRequest(conversation: Conversation, target: UpstreamTarget, notes: Notes): Json {
  const { model, instructions, turns, output_format, verbosity, stream } = conversation;
  return {
    model,
    messages: writeMessages(instructions, turns, target, notes),
    ...writeTools(conversation, notes),
    ...writeBound(conversation, target),
    ...writeSampling(conversation, notes),
    ...writeReasoning(conversation.reasoning, target, notes),
    ...(output_format !== undefined && { response_format: writeFormat(output_format, notes) }),
    ...writeStorage(conversation, notes),
    ...present({ verbosity, ...writeAccount(conversation, TIERS, notes) }),
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  };
}

/**
 * The output bound: max_completion_tokens for reasoning models, whose best-known vendor rejects max_tokens; otherwise
 * max_tokens, because some servers ignore the newer field. The setting in gateway.yaml takes precedence.
 */
function writeBound({ max_output_tokens: bound }: Conversation, target: UpstreamTarget): Json {
  if (bound === undefined) return {};
  const usual = target.thinking === 'none' ? 'max_tokens' : 'max_completion_tokens';
  return { [target.max_tokens_field ?? usual]: bound };
}

function writeSampling(conversation: Conversation, notes: Notes): Json {
  const { temperature, top_p, top_k, frequency_penalty, presence_penalty, seed, stop } = conversation;
  if (top_k !== undefined) notes.note('top_k');
  const { most } = accepted.stops;
  if (stop !== undefined && stop.length > most) notes.note('many_stops');
  return present({ temperature, top_p, frequency_penalty, presence_penalty, seed, stop: stop?.slice(0, most) });
}

function writeReasoning(requested: ReasoningRequest | undefined, target: UpstreamTarget, notes: Notes): Json {
  if (requested === undefined) return {};
  if (requested.show !== undefined) notes.note('reasoning_display');
  const effort = effortOf(requested, notes);
  if (effort === undefined) return {};
  if (target.thinking !== 'none') return { reasoning_effort: effort };
  if (effort !== 'none') notes.note('no_thinking');
  return {};
}

/** Upstreams reject metadata of responses that they do not store. */
function writeStorage({ metadata, store }: Conversation, notes: Notes): Json {
  if (store === true) return present({ metadata, store });
  if (metadata !== undefined) notes.note('unstored_metadata');
  return {};
}
