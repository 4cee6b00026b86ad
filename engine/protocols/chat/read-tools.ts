import {
  flagAt,
  invalid,
  isAbsent,
  listAt,
  nameAt,
  noteOthers,
  objectAt,
  optional,
  present,
  textAt,
} from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { Conversation, Tool, ToolChoice } from '../translation/conversation.ts';
import { FREE_TEXT_PARAMETERS, withGrammar } from '../translation/features/free-text.ts';
import { readSchema } from '../translation/features/tool-schemas.ts';
import type { Notes } from '../translation/notes.ts';
import { cacheMark } from './read-content.ts';

/** What a request says about tools. */
export type ToolFields = Pick<Conversation, 'tools' | 'tool_choice' | 'parallel_tool_calls'>;

const FUNCTION_FIELDS = new Set(['name', 'description', 'parameters', 'strict', 'cache_control']);
const CUSTOM_FIELDS = new Set(['name', 'description', 'format']);
const TOOL_FIELDS = new Set(['type', 'function', 'custom', 'cache_control']);

/** Reads tools, tool_choice and parallel_tool_calls. Raises invalid_request and not_translatable. */
export function readTools(body: Json, notes: Notes): ToolFields {
  if (!isAbsent(body.functions)) notes.refuse('functions', 'functions');
  if (!isAbsent(body.function_call)) notes.refuse('functions', 'function_call');
  const all = (optional(body, 'tools', listAt) ?? []).map((tool, index) =>
    readTool(objectAt(tool, `tools.${index}`), `tools.${index}`, notes),
  );
  const own = all.filter((tool) => tool !== undefined);
  if (own.length < all.length || !isAbsent(body.web_search_options)) {
    if (own.length === 0) notes.refuse('only_provider_tools', all.length > 0 ? 'tools' : 'web_search_options');
    notes.note('provider_tool');
  }
  const parallel_tool_calls = optional(body, 'parallel_tool_calls', flagAt);
  return { ...readChoice(body.tool_choice, own, notes), ...present({ parallel_tool_calls }) };
}

function readTool(tool: Json, param: string, notes: Notes): Tool | undefined {
  const type = nameAt(tool.type ?? 'function', `${param}.type`);
  if (type === 'function') {
    noteOthers(tool, TOOL_FIELDS, notes);
    return readFunction(tool, objectAt(tool.function, `${param}.function`), param, notes);
  }
  if (type === 'custom') {
    noteOthers(tool, TOOL_FIELDS, notes);
    return readCustom(tool, objectAt(tool.custom, `${param}.custom`), param, notes);
  }
  return undefined;
}

function readFunction(tool: Json, fn: Json, param: string, notes: Notes): Tool {
  const path = `${param}.function.`;
  noteOthers(fn, FUNCTION_FIELDS, notes);
  return {
    name: nameAt(fn.name, `${path}name`),
    parameters: readSchema(fn.parameters, `${path}parameters`),
    ...present({
      description: optional(fn, 'description', textAt, path),
      strict: optional(fn, 'strict', flagAt, path),
    }),
    ...cacheMark(fn, `${param}.function`, notes),
    ...cacheMark(tool, param, notes),
  };
}

function readCustom(tool: Json, custom: Json, param: string, notes: Notes): Tool {
  const path = `${param}.custom.`;
  noteOthers(custom, CUSTOM_FIELDS, notes);
  const format = optional(custom, 'format', objectAt, path);
  const said = optional(custom, 'description', textAt, path);
  const grammar = format?.type === 'grammar' ? objectAt(format.grammar, `${path}format.grammar`) : undefined;
  const description = grammar ? withGrammar(said, grammar, `${path}format.grammar`, notes) : said;
  return {
    name: nameAt(custom.name, `${path}name`),
    parameters: FREE_TEXT_PARAMETERS,
    free_text: true,
    ...present({ description }),
    ...cacheMark(tool, param, notes),
  };
}

function readChoice(value: unknown, tools: Tool[], notes: Notes): Pick<ToolFields, 'tools' | 'tool_choice'> {
  if (isAbsent(value)) return { tools };
  if (value === 'auto' || value === 'none') return { tools, tool_choice: { kind: value } };
  if (value === 'required') return { tools, tool_choice: { kind: 'any' } };
  const choice = objectAt(value, 'tool_choice');
  switch (choice.type) {
    case 'function':
    case 'custom':
      return { tools, tool_choice: { kind: 'tool', name: namedBy(choice, 'tool_choice') } };
    case 'allowed_tools':
      return readAllowed(objectAt(choice.allowed_tools, 'tool_choice.allowed_tools'), tools, notes);
    default:
      throw invalid(
        'tool_choice',
        'must be none, auto, required, or an object of type function, custom or allowed_tools',
      );
  }
}

/** The name in `{type: 'function', function: {name}}` or `{type: 'custom', custom: {name}}`. */
function namedBy(choice: Json, param: string): string {
  const type = choice.type === 'custom' ? 'custom' : 'function';
  return nameAt(objectAt(choice[type], `${param}.${type}`).name, `${param}.${type}.name`);
}

function readAllowed(allowed: Json, tools: Tool[], notes: Notes): Pick<ToolFields, 'tools' | 'tool_choice'> {
  const path = 'tool_choice.allowed_tools';
  if (allowed.mode !== 'auto' && allowed.mode !== 'required') throw invalid(`${path}.mode`, 'must be auto or required');
  const names = new Set(
    listAt(allowed.tools, `${path}.tools`).map((tool, index) =>
      namedBy(objectAt(tool, `${path}.tools.${index}`), `${path}.tools.${index}`),
    ),
  );
  const left = tools.filter(({ name }) => names.has(name));
  if (left.length < tools.length) notes.note('allowed_tools');
  const tool_choice: ToolChoice = { kind: allowed.mode === 'auto' ? 'auto' : 'any' };
  return { tools: left, tool_choice };
}
