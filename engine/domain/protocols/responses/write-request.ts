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
  TextPart,
  Tool,
  ToolCallPart,
  ToolResultPart,
  Turn,
  UpstreamTarget,
} from '../translation/conversation.ts';
import { asError, effortOf, writeAccount } from '../translation/features.ts';
import { DOCUMENT_NAME, documentText, takenImage, urlOf } from '../translation/files.ts';
import { freeTextOf, freeTextTools } from '../translation/free-text.ts';
import type { Notes } from '../translation/rules.ts';
import {
  type Accepted,
  createStrictSchemas,
  FUNCTIONS,
  type StrictSchemas,
  writeAnswerFormat,
} from '../translation/tool-schemas.ts';

/** Schemas, tool names and stop sequences that upstreams accept. */
export const accepted: Accepted = { ...FUNCTIONS, stops: { most: 0, blank: true } };

const ROLES = { user: 'user', assistant: 'assistant', instructions: 'developer' } as const;

/** Writes the conversation as `input`. Instructions are a developer message, as only that keeps them in separate blocks. */
function writeItems({ instructions, turns, tools }: Conversation, notes: Notes): Json[] {
  const items: Json[] = [];
  const free_text = freeTextTools(tools);
  /** Calls of free-text tools, whose results have their own type. */
  const custom_calls = new Set<string>();

  const noteCache = ({ cache }: { readonly cache?: unknown }) => {
    if (cache !== undefined) notes.note('part_cache');
  };

  const writeInput = (part: TextPart | ImagePart | DocumentPart): Json[] => {
    noteCache(part);
    if (part.kind === 'text') return part.text === '' ? [] : [{ type: 'input_text', text: part.text }];
    if (part.kind === 'document') return [writeDocument(part, notes)];
    const taken = takenImage(part, notes);
    if (taken.kind === 'text') return [{ type: 'input_text', text: taken.text }];
    return [{ type: 'input_image', image_url: urlOf(taken.source), detail: taken.detail ?? 'auto' }];
  };

  const writeContent = (role: string, part: Part): Json[] => {
    if (part.kind === 'refusal') {
      if (role !== 'assistant') return part.text === '' ? [] : [{ type: 'input_text', text: part.text }];
      return [{ type: 'refusal', refusal: part.text }];
    }
    if (part.kind !== 'text' && part.kind !== 'image' && part.kind !== 'document') return [];
    if (role !== 'assistant') return writeInput(part);
    if (part.kind === 'text') {
      noteCache(part);
      return part.text === '' ? [] : [{ type: 'output_text', text: part.text }];
    }
    notes.note('assistant_file');
    return [];
  };

  const writeMessage = (role: (typeof ROLES)[Turn['role']], parts: readonly Part[]) => {
    const content = parts.flatMap((part) => writeContent(role, part));
    if (content.length > 0) items.push({ type: 'message', role, content });
  };

  const writeCall = (part: ToolCallPart): Json => {
    const { id, name, arguments: args } = part;
    noteCache(part);
    if (!free_text.has(name)) return { type: 'function_call', call_id: id, name, arguments: args };
    custom_calls.add(id);
    return { type: 'custom_tool_call', call_id: id, name, input: freeTextOf(args) };
  };

  const writeResult = (part: ToolResultPart): Json => {
    const { call_id, parts, is_error } = part;
    noteCache(part);
    const content = (is_error ? asError(parts, notes) : parts).flatMap(writeInput);
    const only = content.length === 1 ? content[0]!.text : undefined;
    return {
      type: custom_calls.has(call_id) ? 'custom_tool_call_output' : 'function_call_output',
      call_id,
      output: content.length === 0 ? '' : (only ?? content),
    };
  };

  const ownItems = (part: Part): Json[] | undefined => {
    if (part.kind === 'tool_call') return [writeCall(part)];
    if (part.kind === 'tool_result') return [writeResult(part)];
    return part.kind === 'reasoning' ? writeThought(part, notes) : undefined;
  };

  writeMessage('developer', instructions);
  for (const { role, parts } of turns) {
    const before = items.length;
    // Consecutive message parts become one message; calls, results and reasoning are separate items.
    let said: Part[] = [];
    for (const part of parts) {
      const own = ownItems(part);
      if (own === undefined) {
        said.push(part);
        continue;
      }
      writeMessage(ROLES[role], said);
      said = [];
      items.push(...own);
    }
    writeMessage(ROLES[role], said);
    // Without an empty message, the upstream would respond to the previous one.
    if (role === 'user' && items.length === before)
      items.push({ type: 'message', role, content: [{ type: 'input_text', text: '' }] });
  }
  return withoutLone(items, notes);
}

function writeDocument({ source, name }: DocumentPart, notes: Notes): Json {
  if (source.kind === 'text') return { type: 'input_text', text: documentText(source.text, name, notes) };
  if (source.kind === 'url') return present({ type: 'input_file', filename: name, file_url: source.url });
  return { type: 'input_file', filename: name ?? DOCUMENT_NAME, file_data: urlOf(source) };
}

function writeThought({ text, proof }: ReasoningPart, notes: Notes): Json[] {
  if (proof?.protocol !== 'responses' || proof.kind === 'none') {
    notes.note('foreign_reasoning');
    return [];
  }
  const summary = text === '' ? [] : [{ type: 'summary_text', text }];
  return [present({ type: 'reasoning', id: proof.id, summary, encrypted_content: proof.value })];
}

/** The items without reasoning that led to nothing, as in a response that broke off: the protocol rejects it. */
function withoutLone(items: readonly Json[], notes: Notes): Json[] {
  const kept: Json[] = [];
  for (const item of items.toReversed()) {
    if (item.type !== 'reasoning' || isSaidByModel(kept.at(-1))) kept.push(item);
    else notes.note('lone_reasoning');
  }
  return kept.reverse();
}

function isSaidByModel(item: Json | undefined): boolean {
  const { type, role } = item ?? {};
  return role === 'assistant' || type === 'reasoning' || type === 'function_call' || type === 'custom_tool_call';
}

/** The smallest `max_output_tokens` that upstreams accept. */
export const OUTPUT_TOKENS_MIN = 16;

const TIERS = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast']);

export function writeRequest(conversation: Conversation, target: UpstreamTarget, notes: Notes): Json {
  const { stop, top_k, frequency_penalty, presence_penalty, seed } = conversation;
  if (stop !== undefined && stop.length > 0) notes.note('stop_sequences');
  if (top_k !== undefined) notes.note('top_k');
  if (frequency_penalty !== undefined || presence_penalty !== undefined) notes.note('penalties');
  if (seed !== undefined) notes.note('seed');
  return present({
    model: conversation.model,
    input: writeItems(conversation, notes),
    ...writeTools(conversation, notes),
    ...writeReasoning(conversation.reasoning, target, notes),
    ...writeSettings(conversation, notes),
    stream: conversation.stream,
  });
}

function writeTools({ tools, tool_choice, parallel_tool_calls }: Conversation, notes: Notes): Json {
  if (tools.length === 0) return tool_choice?.kind === 'none' ? { tool_choice: 'none' } : {};
  const held = createStrictSchemas(accepted, notes);
  return {
    tools: tools.map((tool) => writeTool(tool, held, notes)),
    tool_choice: writeToolChoice(tool_choice, tools),
    parallel_tool_calls,
  };
}

/** Tools are strict by default in this protocol, and strictness rejects most schemas. */
function writeTool(tool: Tool, held: StrictSchemas, notes: Notes) {
  const { name, description, free_text, cache } = tool;
  if (cache !== undefined) notes.note('part_cache');
  if (free_text === true) return present({ type: 'custom', name, description });
  const { schema: parameters, strict = false } = held.tool(tool);
  return present({ type: 'function', name, description, parameters, strict });
}

function writeToolChoice(choice: Conversation['tool_choice'], tools: readonly Tool[]): unknown {
  if (choice === undefined) return undefined;
  if (choice.kind !== 'tool') return choice.kind === 'any' ? 'required' : choice.kind;
  const free_text = tools.some(({ name, free_text: is_free }) => name === choice.name && is_free === true);
  return { type: free_text ? 'custom' : 'function', name: choice.name };
}

/** Requests encrypted reasoning only if the client wants reasoning, because other models reject the field. */
function writeReasoning(reasoning: ReasoningRequest | undefined, { thinking }: UpstreamTarget, notes: Notes) {
  if (thinking === 'none') {
    if (reasoning !== undefined && reasoning.effort !== 'none') notes.note('no_thinking');
    return {};
  }
  if (reasoning === undefined) return {};
  const include = reasoning.effort === 'none' ? undefined : ['reasoning.encrypted_content'];
  const summary = reasoning.show === true ? 'auto' : undefined;
  const effort = effortOf(reasoning, notes);
  if (effort === undefined && summary === undefined) return { include };
  return { reasoning: present({ effort, summary }), include };
}

function writeSettings(conversation: Conversation, notes: Notes) {
  const { max_output_tokens, output_format, verbosity } = conversation;
  const too_small = max_output_tokens !== undefined && max_output_tokens < OUTPUT_TOKENS_MIN;
  if (too_small) notes.note('small_output');
  const format = output_format && writeFormat(output_format, notes);
  return {
    max_output_tokens: too_small ? OUTPUT_TOKENS_MIN : max_output_tokens,
    temperature: conversation.temperature,
    top_p: conversation.top_p,
    text: format === undefined && verbosity === undefined ? undefined : present({ format, verbosity }),
    metadata: conversation.metadata,
    ...writeAccount(conversation, TIERS, notes),
    // Otherwise the provider would store the response, which clients of other protocols did not request.
    store: conversation.store ?? false,
  };
}

function writeFormat(format: OutputFormat, notes: Notes): Json {
  if (format.kind === 'json_object') return { type: 'json_object' };
  return { type: 'json_schema', ...writeAnswerFormat(format, accepted, notes, false) };
}
