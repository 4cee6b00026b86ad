import type { Json } from '../translation/adapter.ts';
import type { Conversation, OutputFormat, Tool, ToolChoice } from '../translation/conversation.ts';
import { canBeStrict } from '../translation/features/strict-schema.ts';
import type { Notes } from '../translation/notes.ts';

/** The name of an answer's schema where the client gave none; the protocol wants one. */
const SCHEMA_NAME = 'answer';

/** Writes what a conversation says about tools. */
export function writeTools(conversation: Conversation, notes: Notes): Record<string, unknown> {
  const { tools, tool_choice, parallel_tool_calls } = conversation;
  if (tools.length === 0) return {};
  return {
    tools: tools.map((tool) => writeTool(tool, notes)),
    ...(tool_choice !== undefined && { tool_choice: writeChoice(tool_choice) }),
    // True is the default, and not every server knows the field.
    ...(parallel_tool_calls === false && { parallel_tool_calls }),
  };
}

function writeTool({ name, description, parameters, strict, free_text, cache }: Tool, notes: Notes): unknown {
  if (free_text === true) notes.note('free_text_tool');
  if (cache !== undefined) notes.note('part_cache');
  return {
    type: 'function',
    function: {
      name,
      ...(description !== undefined && { description }),
      parameters: withProperties(parameters),
      ...strictness(strict, parameters, notes),
    },
  };
}

/** Upstreams refuse objects without properties, and schemas without a type. */
function withProperties(parameters: Json): Json {
  if (parameters.type === 'object' && parameters.properties !== undefined) return parameters;
  return { ...parameters, type: 'object', properties: parameters.properties ?? {} };
}

function strictness(strict: boolean | undefined, schema: Json, notes: Notes): { readonly strict?: boolean } {
  if (strict === undefined) return {};
  return strict && !canBeStrict(schema, notes) ? {} : { strict };
}

function writeChoice(choice: ToolChoice): unknown {
  if (choice.kind === 'tool') return { type: 'function', function: { name: choice.name } };
  return choice.kind === 'any' ? 'required' : choice.kind;
}

/** Writes the shape that the answer must have. */
export function writeFormat(format: OutputFormat, notes: Notes): unknown {
  if (format.kind === 'json_object') return { type: 'json_object' };
  const { schema, name = SCHEMA_NAME, description, strict } = format;
  return {
    type: 'json_schema',
    json_schema: {
      name,
      ...(description !== undefined && { description }),
      schema,
      ...strictness(strict, schema, notes),
    },
  };
}
