import { type Fields, fieldsOf } from './fields.ts';

/** Keys under which a part of a conversation defines tools, as additions to the list or as what a compaction keeps of it. */
export const TOOL_DEFINITIONS = ['tool', 'tools', 'definition', 'tool_changes'] as const;

/** Types of what stands around a definition, or in its place. */
const AROUND_TOOLS = /^(?:tool_addition|tool_removal|tool_definition|\w+_reference)$/;

const NO_TOOLS: readonly unknown[] = Object.freeze([]);

/** Tools that messages define on top of the request's, and those that the given parts of them do. */
export function definedTools(messages: readonly unknown[], parts = NO_TOOLS): readonly unknown[] {
  const open: unknown[] = [];
  for (const message of messages) {
    const { tools } = fieldsOf(message);
    if (Array.isArray(tools)) open.push(tools);
  }
  for (const part of parts) open.push(definitionsIn(part));
  if (open.length === 0) return NO_TOOLS;
  const tools: unknown[] = [];
  while (open.length > 0) {
    const value = open.pop();
    if (Array.isArray(value)) {
      for (const each of value) open.push(each);
      continue;
    }
    open.push(...definitionsIn(value));
    if (isTool(value)) tools.push(value);
  }
  return tools;
}

function definitionsIn(part: unknown): readonly unknown[] {
  const fields = fieldsOf(part);
  return TOOL_DEFINITIONS.map((key) => fields[key]).filter((value) => typeof value === 'object' && value !== null);
}

/** What is referred to is in the list of tools. */
function isTool(value: unknown): boolean {
  const { type }: Fields = fieldsOf(value);
  return typeof value === 'object' && value !== null && (typeof type !== 'string' || !AROUND_TOOLS.test(type));
}
