import { OUTPUT_BOUND_MIN } from '../../contract/protocol.ts';
import { present } from '../read-json.ts';
import type { UpstreamTarget } from '../translation/adapter.ts';
import type { Conversation, OutputFormat, ReasoningWish, Tool } from '../translation/conversation.ts';
import { effortOf } from '../translation/features/efforts.ts';
import { shortUser } from '../translation/features/end-user.ts';
import { HeldSet, writeAnswerSchema } from '../translation/features/held-schemas.ts';
import { writePromptCache } from '../translation/features/prompt-cache.ts';
import type { Notes } from '../translation/notes.ts';
import { writeItems } from './write-items.ts';

const OUTPUT_TOKENS_MIN = OUTPUT_BOUND_MIN.responses!;

const TIERS: readonly string[] = ['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast'];

/** Writes a request for an upstream. Raises not_translatable by a rule. */
export function writeRequest(
  conversation: Conversation,
  target: UpstreamTarget,
  notes: Notes,
): Record<string, unknown> {
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

function writeTools({ tools, tool_choice, parallel_tool_calls }: Conversation, notes: Notes): Record<string, unknown> {
  if (tools.length === 0) return tool_choice?.kind === 'none' ? { tool_choice: 'none' } : {};
  const held = new HeldSet('responses', notes);
  return {
    tools: tools.map((tool) => writeTool(tool, held, notes)),
    tool_choice: writeToolChoice(tool_choice, tools),
    parallel_tool_calls,
  };
}

/** The protocol takes tools as strict unless told otherwise, and then refuses most schemas. */
function writeTool(tool: Tool, held: HeldSet, notes: Notes) {
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

/** Encrypted reasoning is asked for only where the client wants reasoning, as models without it refuse to be asked. */
function writeReasoning(wish: ReasoningWish | undefined, { thinking }: UpstreamTarget, notes: Notes) {
  if (thinking === 'none') {
    if (wish !== undefined && wish.effort !== 'none') notes.note('no_thinking');
    return {};
  }
  if (wish === undefined) return {};
  const include = wish.effort === 'none' ? undefined : ['reasoning.encrypted_content'];
  const summary = wish.show === true ? 'auto' : undefined;
  const effort = effortOf(wish, notes);
  if (effort === undefined && summary === undefined) return { include };
  return { reasoning: present({ effort, summary }), include };
}

function writeSettings(conversation: Conversation, notes: Notes) {
  const { max_output_tokens, user, service_tier, cache, output_format, verbosity } = conversation;
  const too_small = max_output_tokens !== undefined && max_output_tokens < OUTPUT_TOKENS_MIN;
  if (too_small) notes.note('small_output');
  const has_tier = service_tier !== undefined && TIERS.includes(service_tier);
  if (service_tier !== undefined && !has_tier) notes.note('service_tier');
  const format = output_format && writeFormat(output_format, notes);
  return {
    max_output_tokens: too_small ? OUTPUT_TOKENS_MIN : max_output_tokens,
    temperature: conversation.temperature,
    top_p: conversation.top_p,
    text: format === undefined && verbosity === undefined ? undefined : present({ format, verbosity }),
    metadata: conversation.metadata,
    user: user === undefined ? undefined : shortUser(user, notes),
    service_tier: has_tier ? service_tier : undefined,
    ...writePromptCache(cache),
    // Without it the provider keeps the answer, which no client of another protocol asked for.
    store: conversation.store ?? false,
  };
}

function writeFormat(format: OutputFormat, notes: Notes): Record<string, unknown> {
  if (format.kind === 'json_object') return { type: 'json_object' };
  const { name, description, strict } = format;
  const { schema, is_held } = writeAnswerSchema(format, 'responses', notes);
  return present({
    type: 'json_schema',
    name: name ?? 'answer',
    description,
    schema,
    strict: strict && is_held,
  });
}
