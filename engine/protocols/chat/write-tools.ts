import type { Conversation, OutputFormat, Tool, ToolChoice } from '../translation/conversation.ts';
import { HeldSet, writeAnswerSchema } from '../translation/features/held-schemas.ts';
import type { Notes } from '../translation/notes.ts';

/** The name of an answer's schema where the client gave none; the protocol wants one. */
const SCHEMA_NAME = 'answer';

/** Writes what a conversation says about tools. */
export function writeTools(conversation: Conversation, notes: Notes): Record<string, unknown> {
  const { tools, tool_choice, parallel_tool_calls } = conversation;
  if (tools.length === 0) return {};
  const held = new HeldSet('chat', notes);
  return {
    tools: tools.map((tool) => writeTool(tool, held, notes)),
    ...(tool_choice !== undefined && { tool_choice: writeChoice(tool_choice) }),
    // True is the default, and not every server knows the field.
    ...(parallel_tool_calls === false && { parallel_tool_calls }),
  };
}

function writeTool(tool: Tool, held: HeldSet, notes: Notes): unknown {
  const { name, description, free_text, cache } = tool;
  if (free_text === true) notes.note('free_text_tool');
  if (cache !== undefined) notes.note('part_cache');
  const { schema: parameters, ...strictness } = held.tool(tool);
  return {
    type: 'function',
    function: {
      name,
      ...(description !== undefined && { description }),
      parameters,
      ...strictness,
    },
  };
}

function writeChoice(choice: ToolChoice): unknown {
  if (choice.kind === 'tool') return { type: 'function', function: { name: choice.name } };
  return choice.kind === 'any' ? 'required' : choice.kind;
}

/** Writes the shape that the answer must have. */
export function writeFormat(format: OutputFormat, notes: Notes): unknown {
  if (format.kind === 'json_object') return { type: 'json_object' };
  const { name = SCHEMA_NAME, description, strict } = format;
  const { schema, is_held } = writeAnswerSchema(format, 'chat', notes);
  return {
    type: 'json_schema',
    json_schema: {
      name,
      ...(description !== undefined && { description }),
      schema,
      ...((is_held || strict === false) && { strict }),
    },
  };
}
