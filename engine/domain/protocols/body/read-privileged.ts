import { StageError } from '../../../base/contract/errors.ts';
import { invalid, isObject } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';
import { isAudio, TOOL_DEFINITIONS } from './fields.ts';
import { type FieldRule, fieldRule, type KeyCount } from './privileged-fields.ts';

/** A privileged field of a body, with its path. */
export interface PrivilegedValue {
  readonly param: string;
  readonly rule: FieldRule;
  /** The model or the chosen value; absent if it cannot be checked, or if there is none. */
  readonly value?: string;
}

/** A privileged value in the fact `request.privileged_fields`, by its path. */
export interface PrivilegedChoice {
  readonly field: string;
  readonly value?: string;
}

const UNNAMED_MODEL: FieldRule = {
  name: 'tools[].type',
  decides: 'model',
  rule: 'check',
  meaning: 'a tool that may call other models',
};

/** The rule of a field of a `PrivilegedChoice`. Throws for other fields. */
export function ruleNamed(field: string): FieldRule {
  const own = [UNNAMED_MODEL, STRAY_MODEL].find(({ name }) => name === field);
  const rule = own ?? fieldRule(field, true);
  if (rule === undefined) throw new Error(`"${field}" is not a privileged field`);
  return rule;
}

/** The rule of model names in unknown fields, recognised by their value. */
const STRAY_MODEL: FieldRule = { name: '*', decides: 'model', rule: 'check', meaning: 'a model of the gateway' };

const AUDIO: FieldRule = fieldRule('input_audio', true)!;

const PRIVILEGED_MAX = 100;

/** Longest path: every value has one, and with long keys they would take megabytes. */
const PATH_CHARS_MAX = 1000;

/** The path of a nested part, truncated above the maximum; `note` rejects fields with such a path. */
function below(param: string, more: string): string {
  return param.length >= PATH_CHARS_MAX ? param : param + more.slice(0, PATH_CHARS_MAX);
}

const UNKNOWN_KEYS_MAX = 20_000;

/** Keys of content: text that the model reads or writes, and names that clients choose. */
const CONTENT: ReadonlySet<string> = new Set([
  ...['system', 'instructions', 'metadata', 'client_metadata', 'prediction', 'documents', 'description'],
  ...['logit_bias', 'stop', 'stop_sequences', 'tags', 'schema', 'json_schema', 'input_schema'],
  ...['output_schema', 'input_examples', 'properties', '$defs', 'definitions', 'variables', 'arguments', 'output'],
  ...['user', 'safety_identifier', 'prompt_cache_key', 'session_id'],
]);

/** The rule for a parameter of a query or form, in all ways that servers read names: `model[]`, `options.model`. */
export function parameterRule(name: string): FieldRule | undefined {
  const whole = fieldRule(name, true);
  if (whole !== undefined) return whole;
  const keys = name.normalize('NFKC').split(/[^\p{L}\p{N}_$-]+/u);
  const path = keys.map((key) => key.replace(/^[-_]+|[-_]+$/g, '')).filter((key) => key !== '');
  if (CONTENT.has(path[0]!)) return undefined;
  for (const [index, key] of path.entries()) {
    const rule = fieldRule(key, index === 0);
    if (rule !== undefined) return rule;
  }
  return undefined;
}

/** Json whose shape no provider documents, though clients send them: only names of the gateway's models count in them. */
const UNDOCUMENTED = /^safeguards\b/;

/** Conversations: only tool definitions in them are privileged. */
const CONVERSATION: ReadonlySet<string> = new Set(['messages', 'input']);

const TOOLS: ReadonlySet<string> = new Set(['tools', 'functions', 'mcp_servers']);

const CLIENT_TOOLS: ReadonlySet<unknown> = new Set([undefined, null, 'function', 'custom']);

const ROUTER_TOOLS = /:(?:web_search|web_fetch|datetime|shell|bash|apply_patch|files|file_search|mcp)$/;

/** Tools that call other models; without a model in the request, the router chooses one. */
const ASKING_TOOLS = /(?:^|[_:.-])(?:advisor|consultant|sub_?agent|fusion)(?:$|[_:.-])/;

const NAMES = ['model', 'id', 'name', 'slug'] as const;

interface Part {
  readonly value: object;
  readonly param: string;
  readonly in_tools: boolean;
}

interface Reading extends KeyCount {
  readonly found: PrivilegedValue[];
  readonly isModel: (text: string) => boolean;
  /** Parts to read. Not recursive, because a body may nest very deep. */
  readonly parts: Part[];
}

/** Privileged fields outside of content, and fields with the name of a model; none harmless. Raises invalid_request. */
export function readPrivileged(
  body: Json,
  isModel: (text: string) => boolean = () => false,
): readonly PrivilegedValue[] {
  const reading: Reading = { found: [], parts: [], unknown_keys: 0, isModel };
  const { parts } = reading;
  const top: Part = { value: body, param: '', in_tools: false };
  for (const key in body) {
    if (key === 'model') continue;
    if (CONVERSATION.has(key)) readConversation(body[key], key, reading);
    else readField(top, key, reading);
  }
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    if (Array.isArray(part.value)) partsOfList(part.value, part, reading);
    else readObject(part, reading);
  }
  return reading.found;
}

function partsOfList(list: readonly unknown[], { param, in_tools }: Part, reading: Reading): void {
  for (let i = 0; i < list.length; i++) {
    readUnruled(list[i], () => below(param, `[${i}]`), in_tools, reading);
  }
}

function readUnruled(value: unknown, paramOf: () => string, in_tools: boolean, reading: Reading): void {
  if (typeof value === 'object' && value !== null) reading.parts.push({ value, param: paramOf(), in_tools });
  else if (typeof value === 'string' && reading.isModel(value))
    note(reading, { param: paramOf(), rule: STRAY_MODEL, value });
}

function readObject(part: Part, reading: Reading): void {
  const fields = part.value as Json;
  if (part.in_tools && asksUnnamedModels(fields)) note(reading, { param: part.param, rule: UNNAMED_MODEL });
  for (const key in fields) {
    if (key === 'parameters' && CLIENT_TOOLS.has(fields.type)) continue;
    readField(part, key, reading);
  }
}

function note({ found }: Reading, value: PrivilegedValue): void {
  if (value.param.length >= PATH_CHARS_MAX) {
    throw invalid(`${value.param.slice(0, 60)}...`, 'is a privileged field below keys that are too long');
  }
  if (found.length >= PRIVILEGED_MAX) {
    throw invalid(value.param, `is one of more than ${PRIVILEGED_MAX} privileged fields, the maximum`);
  }
  found.push(value);
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '' || value === false) return true;
  if (typeof value !== 'object') return false;
  for (const _ in value) return false;
  return true;
}

function readField(part: Part, key: string, reading: Reading): void {
  const value = (part.value as Json)[key];
  // A prompt that is a text is content; one that is an object refers to it.
  if (CONTENT.has(key) || (key === 'prompt' && typeof value === 'string')) return;
  const is_top_level = part.param === '';
  const in_tools = part.in_tools || (is_top_level && TOOLS.has(key));
  const rule = UNDOCUMENTED.test(part.param) ? undefined : fieldRule(key, is_top_level, reading);
  if (reading.unknown_keys > UNKNOWN_KEYS_MAX) {
    throw new StageError(
      'invalid_request',
      `The body has more than ${UNKNOWN_KEYS_MAX} different keys outside of content.`,
    );
  }
  const param = () => below(part.param, is_top_level ? key : `.${key.slice(0, PATH_CHARS_MAX)}`);
  if (
    rule !== undefined &&
    !isEmpty(value) &&
    readRuled(value, { param: param(), rule, in_tools, is_top_level }, reading)
  )
    return;
  readUnruled(value, param, in_tools, reading);
}

interface Found {
  readonly param: string;
  readonly rule: FieldRule;
  readonly in_tools: boolean;
}

/** Applies the rule of a field. @returns whether its value needs no further reading */
function readRuled(value: unknown, found: Found & { readonly is_top_level: boolean }, reading: Reading): boolean {
  const { param, rule, in_tools, is_top_level } = found;
  switch (rule.rule) {
    case 'check':
      readModels(value, found, reading);
      return true;
    case 'price':
      // Elsewhere a number may mean something else, such as the speed of a voice.
      if (!is_top_level && typeof value === 'number') return false;
      readPriced(value, found, reading);
      return true;
    case 'refuse':
      if (!in_tools) note(reading, { param, rule });
      return !in_tools;
    default:
      return false;
  }
}

function readModels(value: unknown, { param, rule, in_tools }: Found, reading: Reading): void {
  if (typeof value === 'number' || typeof value === 'boolean') return;
  if (!Array.isArray(value)) {
    readModel(value, { param, rule, in_tools }, reading);
    return;
  }
  for (const [index, item] of value.entries()) {
    if (!isEmpty(item)) readModel(item, { param: `${param}[${index}]`, rule, in_tools }, reading);
  }
}

function readModel(item: unknown, { param, rule, in_tools }: Found, reading: Reading): void {
  if (typeof item === 'string') {
    // With `default` the upstream chooses.
    const is_named = rule.name !== 'fallbacks' || item !== 'default';
    note(reading, { param, rule, ...(is_named && { value: item }) });
    return;
  }
  const by = isObject(item) ? NAMES.find((key) => typeof item[key] === 'string' && item[key] !== '') : undefined;
  if (by === undefined) {
    note(reading, { param, rule });
    return;
  }
  const { [by]: name, ...rest } = item as Json;
  note(reading, { param: `${param}.${by}`, rule, value: name as string });
  reading.parts.push({ value: rest, param, in_tools });
}

function readPriced(value: unknown, { param, rule }: Found, reading: Reading): void {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  for (const [index, item] of items.entries()) {
    const is_plain = typeof item === 'string' || typeof item === 'number';
    if (is_plain && rule.harmless?.includes(String(item))) continue;
    const at = items === value ? `${param}[${index}]` : param;
    note(reading, { param: at, rule, ...(is_plain && { value: String(item) }) });
  }
}

function asksUnnamedModels({ type, model, parameters }: Json): boolean {
  if (typeof type !== 'string' || !(ASKING_TOOLS.test(type) || (type.includes(':') && !ROUTER_TOOLS.test(type)))) {
    return false;
  }
  return isEmpty(model) && (!isObject(parameters) || isEmpty(parameters.model));
}

function readConversation(conversation: unknown, key: string, reading: Reading): void {
  if (!Array.isArray(conversation)) return;
  const { parts } = reading;
  let has_audio = false;
  const noteAudio = (param: string) => {
    if (!has_audio) note(reading, { param, rule: AUDIO, value: 'audio' });
    has_audio = true;
  };
  for (let i = 0; i < conversation.length; i++) {
    const item = conversation[i];
    if (typeof item !== 'object' || item === null) continue;
    const { tools, content, audio, output } = item as Json;
    const param = `${key}[${i}]`;
    if (Array.isArray(output) && output.some(isAudio)) noteAudio(`${param}.output`);
    // An earlier audio response, by its identifier.
    if (audio != null) noteAudio(`${param}.audio`);
    if (Array.isArray(tools)) parts.push({ value: tools, param: `${param}.tools`, in_tools: true });
    if (!Array.isArray(content)) continue;
    for (let j = 0; j < content.length; j++) {
      const part = content[j];
      if (typeof part !== 'object' || part === null) continue;
      const { type } = part as Json;
      if (type !== 'text' && type !== 'input_text' && isAudio(part)) noteAudio(`${param}.content[${j}]`);
      for (const name of TOOL_DEFINITIONS) {
        const value = (part as Json)[name];
        if (typeof value !== 'object' || value === null) continue;
        parts.push({ value, param: `${param}.content[${j}].${name}`, in_tools: true });
      }
    }
  }
}
