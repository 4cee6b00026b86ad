import {
  eachAt,
  flagAt,
  invalid,
  isAbsent,
  isObject,
  noteOthers,
  objectAt,
  optional,
  own,
  present,
  textAt,
} from '../read-json.ts';
import type { Conversation, Json, OutputFormat, Tool, ToolChoice } from './conversation.ts';
import type { Notes } from './rules.ts';

/** Tool choices and response formats, which chat completions and Responses share. */

const SCHEMA_FIELDS = new Set(['name', 'description', 'schema', 'strict']);

/** Reads the response format; `inner` is the field with the fields of the schema, if they are nested. Raises invalid_request. */
export function readAnswerFormat(value: unknown, path: string, notes: Notes, inner?: string): OutputFormat | undefined {
  const format = isAbsent(value) ? undefined : objectAt(value, path);
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') return { kind: 'json_object' };
  if (format.type !== 'json_schema') throw invalid(`${path}.type`, 'must be text, json_object or json_schema');
  const at = inner === undefined ? path : `${path}.${inner}`;
  const fields = inner === undefined ? format : objectAt(format[inner], at);
  if (inner !== undefined) noteOthers(fields, SCHEMA_FIELDS, notes);
  return present({
    kind: 'json_schema',
    schema: inner !== undefined && isAbsent(fields.schema) ? {} : objectAt(fields.schema, `${at}.schema`),
    name: optional(fields, 'name', textAt, `${at}.`),
    description: optional(fields, 'description', textAt, `${at}.`),
    strict: optional(fields, 'strict', flagAt, `${at}.`),
  });
}

const CHOICES: Readonly<Record<string, ToolChoice>> = {
  auto: { kind: 'auto' },
  none: { kind: 'none' },
  required: { kind: 'any' },
};

/** The differences between the tool choices of the two protocols. */
interface ChoiceForm {
  /** The name of a chosen or allowed tool; `undefined` for an allowed tool of the provider. */
  nameOf(choice: Json, param: string): string | undefined;
  /** The object with `mode` and `tools` of allowed tools, and its path. */
  allowedIn(choice: Json): readonly [allowed: Json, param: string];
  /** Raises the error for another choice. */
  reject(choice: unknown): never;
  /** Whether to reject a choice that requires a tool when none is left. */
  readonly rejects_none: boolean;
}

/** Reads a tool choice, and the tools that the choice allows. Raises invalid_request, not_translatable. */
export function readToolChoice(
  value: unknown,
  tools: readonly Tool[],
  form: ChoiceForm,
  notes: Notes,
): Pick<Conversation, 'tools' | 'tool_choice'> {
  if (isAbsent(value)) return { tools };
  const plain = typeof value === 'string' ? own(CHOICES, value) : undefined;
  if (plain !== undefined) return { tools, tool_choice: plain };
  const choice = isObject(value) ? value : form.reject(value);
  const { type } = choice;
  if (type !== 'allowed_tools') {
    const name = type === 'function' || type === 'custom' ? form.nameOf(choice, 'tool_choice') : undefined;
    return { tools, tool_choice: { kind: 'tool', name: name ?? form.reject(choice) } };
  }
  const [{ mode, tools: allowed }, param] = form.allowedIn(choice);
  const names = new Set(eachAt(allowed, `${param}.tools`, form.nameOf));
  const left = tools.filter(({ name }) => names.has(name));
  if (left.length < tools.length) notes.note('allowed_tools');
  if (mode === 'required' && left.length === 0 && form.rejects_none) form.reject(choice);
  return { tools: left, tool_choice: { kind: mode === 'required' ? 'any' : 'auto' } };
}
