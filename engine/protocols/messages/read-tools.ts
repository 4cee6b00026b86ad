import {
  flagAt,
  invalid,
  isAbsent,
  isObject,
  listAt,
  nameAt,
  noteOthers,
  objectAt,
  optional,
  textAt,
} from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { Conversation, Tool, ToolChoice } from '../translation/conversation.ts';
import { readSchema } from '../translation/features/tool-schemas.ts';
import type { Notes } from '../translation/notes.ts';
import { readCache } from './read-blocks.ts';

const TOOL_FIELDS: ReadonlySet<string> = new Set(
  [
    ['type', 'name', 'description', 'input_schema', 'cache_control', 'strict'],
    ['input_examples', 'defer_loading', 'eager_input_streaming', 'allowed_callers'],
  ].flat(),
);

/** Tools of the client and which of them the model may call. Raises invalid_request, and not_translatable by a rule. */
export function readTools(
  body: Json,
  notes: Notes,
): Pick<Conversation, 'tools' | 'tool_choice' | 'parallel_tool_calls'> {
  const entries = (optional(body, 'tools', listAt) ?? []).map((tool, index) => objectAt(tool, `tools.${index}`));
  const listed = entries.flatMap((tool, index) => (isProviders(tool) ? [] : [readTool(tool, `tools.${index}`, notes)]));
  const added = new Map(addedTools(body, notes).map((tool) => [tool.name, tool]));
  for (const { name } of listed) added.delete(name);
  const tools = [...listed, ...added.values()];
  const servers = optional(body, 'mcp_servers', listAt) ?? [];
  const provider_entry = entries.findIndex(isProviders);
  if (provider_entry !== -1 || servers.length > 0) {
    if (tools.length === 0) {
      notes.refuse('only_provider_tools', provider_entry === -1 ? 'mcp_servers' : `tools.${provider_entry}`);
    }
    notes.note('provider_tool');
  }
  const provider_names = new Set(entries.filter(isProviders).map(({ name }) => name));
  return { tools, ...readChoice(body, provider_names, notes) };
}

/** Tools that are defined by blocks in the middle of the conversation; `readContent` checks what else is in messages. */
function addedTools({ messages }: Json, notes: Notes): Tool[] {
  if (!Array.isArray(messages)) return [];
  return messages.flatMap((message, at) => {
    const content = isObject(message) && Array.isArray(message.content) ? message.content : [];
    return content.flatMap((block, index) => {
      const tool = isObject(block) && block.type === 'tool_addition' && isObject(block.tool) ? block.tool : {};
      if (tool.type !== 'tool_definition') return [];
      const path = `messages.${at}.content.${index}.tool.definition`;
      const definition = objectAt(tool.definition, path);
      return isProviders(definition) ? [] : [readTool(definition, path, notes)];
    });
  });
}

const isProviders = ({ type }: Json): boolean => !isAbsent(type) && type !== 'custom';

function readTool(tool: Json, path: string, notes: Notes): Tool {
  noteOthers(tool, TOOL_FIELDS, notes);
  noteSettings(tool, notes);
  const description = optional(tool, 'description', textAt, `${path}.`);
  const strict = optional(tool, 'strict', flagAt, `${path}.`);
  return {
    name: nameAt(tool.name, `${path}.name`),
    ...(description && { description }),
    parameters: readSchema(tool.input_schema, `${path}.input_schema`),
    ...(strict !== undefined && { strict }),
    ...readCache(tool, path, notes),
  };
}

function noteSettings(
  { input_examples, defer_loading, eager_input_streaming, allowed_callers }: Json,
  notes: Notes,
): void {
  if (Array.isArray(input_examples) && input_examples.length > 0) notes.note('tool_examples');
  if (defer_loading === true) notes.note('tool_loading');
  if (eager_input_streaming === true) notes.note('tool_streaming');
  if (Array.isArray(allowed_callers) && allowed_callers.some((caller) => caller !== 'direct'))
    notes.note('tool_callers');
}

const CHOICE_FIELDS: ReadonlySet<string> = new Set(['type', 'name', 'disable_parallel_tool_use']);

function readChoice(
  body: Json,
  provider_names: ReadonlySet<unknown>,
  notes: Notes,
): Pick<Conversation, 'tool_choice' | 'parallel_tool_calls'> {
  const choice = optional(body, 'tool_choice', objectAt);
  if (!isObject(choice)) return {};
  noteOthers(choice, CHOICE_FIELDS, notes);
  const single = optional(choice, 'disable_parallel_tool_use', flagAt, 'tool_choice.');
  const parallel = single === undefined ? {} : { parallel_tool_calls: !single };
  // A tool that is left out cannot be forced.
  if (choice.type === 'tool' && provider_names.has(choice.name)) return parallel;
  return { tool_choice: choiceOf(choice), ...parallel };
}

function choiceOf({ type, name }: Json): ToolChoice {
  if (type === 'auto' || type === 'any' || type === 'none') return { kind: type };
  if (type === 'tool') return { kind: 'tool', name: nameAt(name, 'tool_choice.name') };
  throw invalid('tool_choice.type', 'must be auto, any, none or tool');
}
