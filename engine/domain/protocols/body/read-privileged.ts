import { StageError } from '../../../base/contract/errors.ts';
import { invalid, isObject } from '../read-json.ts';
import { type Fields, isAudio, TOOL_DEFINITIONS } from './fields.ts';
import { type FieldRule, fieldRule, type KeyCount } from './privileged-fields.ts';

/** A field of a body that decides something, with its path. */
export interface PrivilegedValue {
  /** Where it stands, such as `tools[0].model`. */
  readonly param: string;
  readonly rule: FieldRule;
  /** The name of a model, or what was chosen; absent where it has no form that can be checked, and where nothing is. */
  readonly value?: string;
}

/** A privileged value as the fact `request.privileged_fields` has it, by its path. */
export interface PrivilegedChoice {
  readonly field: string;
  readonly value?: string;
}

const UNNAMED_MODEL: FieldRule = {
  name: 'tools[].type',
  decides: 'model',
  rule: 'check',
  meaning: 'a tool that may ask other models',
};

/** The rule that a field of a `PrivilegedChoice` comes under. Throws for what is none. */
export function ruleNamed(field: string): FieldRule {
  const own = [UNNAMED_MODEL, STRAY_MODEL].find(({ name }) => name === field);
  const rule = own ?? fieldRule(field, true);
  if (rule === undefined) throw new Error(`"${field}" is no privileged field`);
  return rule;
}

/** The rule of names of models where nobody expects one: they are told by what they say, not by where they stand. */
const STRAY_MODEL: FieldRule = { name: '*', decides: 'model', rule: 'check', meaning: 'a model of the gateway' };

/** Parts of a conversation that are billed as audio. */
const AUDIO: FieldRule = fieldRule('input_audio', true)!;

/** Most privileged fields of one request. */
const PRIVILEGED_MAX = 100;

/** Longest path: paths are made for each value below, and long keys would make them megabytes. */
const PATH_CHARS_MAX = 1000;

/** The path of a part inside another; it does not grow beyond the most, where `note` refuses what stands there. */
function below(param: string, more: string): string {
  return param.length >= PATH_CHARS_MAX ? param : param + more.slice(0, PATH_CHARS_MAX);
}

/** Most keys outside of content that no request had before. */
const UNKNOWN_KEYS_MAX = 20_000;

/** Keys below which there is only what the model reads or writes, and names that clients make up. */
const CONTENT: ReadonlySet<string> = new Set([
  ...['system', 'instructions', 'metadata', 'client_metadata', 'prediction', 'documents', 'description'],
  ...['logit_bias', 'stop', 'stop_sequences', 'tags', 'schema', 'json_schema', 'input_schema'],
  ...['output_schema', 'input_examples', 'properties', '$defs', 'definitions', 'variables', 'arguments', 'output'],
  ...['user', 'safety_identifier', 'prompt_cache_key', 'session_id'],
]);

/**
 * What is to be done about a parameter of a query or a form, by its name in each way in which servers take names apart: as a
 * whole, and as a path such as `model[]`, `extra[model]` or `options.model`.
 */
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

/** Fields whose shape no provider documents, though clients send them: only names of the gateway's models count in them. */
const UNDOCUMENTED = /^safeguards\b/;

/** Conversations: only definitions of tools in them decide anything. */
const CONVERSATION: ReadonlySet<string> = new Set(['messages', 'input']);

/** Lists of tools and servers, whose accounts are those of the tool and not of the model. */
const TOOLS: ReadonlySet<string> = new Set(['tools', 'functions', 'mcp_servers']);

/** Types of tools that the client runs; everything in them but their name is the client's. */
const CLIENT_TOOLS: ReadonlySet<unknown> = new Set([undefined, null, 'function', 'custom']);

/** Tools that a router runs without a model of its own. */
const ROUTER_TOOLS = /:(?:web_search|web_fetch|datetime|shell|bash|apply_patch|files|file_search|mcp)$/;

/** Tools that ask other models, by their names: one that names none asks one that nobody chose. */
const ASKING_TOOLS = /(?:^|[_:.-])(?:advisor|consultant|sub_?agent|fusion)(?:$|[_:.-])/;

/** Keys by which an object that stands for a model names it, the most telling first. */
const NAMES = ['model', 'id', 'name', 'slug'] as const;

interface Part {
  readonly value: object;
  /** Empty for the body itself. */
  readonly param: string;
  readonly in_tools: boolean;
}

interface Reading extends KeyCount {
  readonly found: PrivilegedValue[];
  readonly isModel: (text: string) => boolean;
  /** What is still to be looked into. Not a recursion: a body may nest very deep. */
  readonly parts: Part[];
}

/**
 * Every field beside `model` that decides over models, prices or accounts, wherever it stands in a body outside of content, and
 * every other that says the name of a model; values that never cost more are left out. Raises invalid_request.
 */
export function readPrivileged(
  body: Fields,
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
    const value = list[i];
    if (typeof value === 'object' && value !== null)
      reading.parts.push({ value, param: below(param, `[${i}]`), in_tools });
    else if (typeof value === 'string' && reading.isModel(value)) {
      note(reading, { param: below(param, `[${i}]`), rule: STRAY_MODEL, value });
    }
  }
}

function readObject(part: Part, reading: Reading): void {
  const fields = part.value as Fields;
  if (part.in_tools && asksUnnamedModels(fields)) note(reading, { param: part.param, rule: UNNAMED_MODEL });
  for (const key in fields) {
    if (key === 'parameters' && CLIENT_TOOLS.has(fields.type)) continue;
    readField(part, key, reading);
  }
}

function note({ found }: Reading, value: PrivilegedValue): void {
  if (value.param.length >= PATH_CHARS_MAX) {
    throw invalid(
      `${value.param.slice(0, 60)}...`,
      'names a model, a price or an account below keys that are too long',
    );
  }
  if (found.length >= PRIVILEGED_MAX) {
    throw invalid(value.param, `is one of more than ${PRIVILEGED_MAX} fields that name models, prices or accounts`);
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
  const value = (part.value as Fields)[key];
  // A prompt that is a text is content; one that is an object says where to find it.
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
  if (typeof value === 'object' && value !== null) reading.parts.push({ value, param: param(), in_tools });
  else if (typeof value === 'string' && reading.isModel(value)) {
    note(reading, { param: param(), rule: STRAY_MODEL, value });
  }
}

interface Found {
  readonly param: string;
  readonly rule: FieldRule;
  readonly in_tools: boolean;
}

/** Whether that was all there is to say about the field. */
function readRuled(value: unknown, found: Found & { readonly is_top_level: boolean }, reading: Reading): boolean {
  const { param, rule, in_tools, is_top_level } = found;
  switch (rule.rule) {
    case 'check':
      readModels(value, found, reading);
      return true;
    case 'price':
      // Elsewhere a number may be anything, such as the speed of a voice.
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
    // The word by which a request leaves the choice to the upstream.
    const is_named = rule.name !== 'fallbacks' || item !== 'default';
    note(reading, { param, rule, ...(is_named && { value: item }) });
    return;
  }
  const by = isObject(item) ? NAMES.find((key) => typeof item[key] === 'string' && item[key] !== '') : undefined;
  if (by === undefined) {
    note(reading, { param, rule });
    return;
  }
  const { [by]: name, ...rest } = item as Fields;
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

function asksUnnamedModels({ type, model, parameters }: Fields): boolean {
  if (typeof type !== 'string' || !(ASKING_TOOLS.test(type) || (type.includes(':') && !ROUTER_TOOLS.test(type)))) {
    return false;
  }
  return isEmpty(model) && (!isObject(parameters) || isEmpty(parameters.model));
}

/** Tools that are defined in the middle of a conversation, and its first audio. */
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
    const { tools, content, audio, output } = item as Fields;
    const param = `${key}[${i}]`;
    if (Array.isArray(output) && output.some(isAudio)) noteAudio(`${param}.output`);
    // What the model said before, by an identifier.
    if (audio != null) noteAudio(`${param}.audio`);
    if (Array.isArray(tools)) parts.push({ value: tools, param: `${param}.tools`, in_tools: true });
    if (!Array.isArray(content)) continue;
    for (let j = 0; j < content.length; j++) {
      const part = content[j];
      if (typeof part !== 'object' || part === null) continue;
      const { type } = part as Fields;
      if (type !== 'text' && type !== 'input_text' && isAudio(part)) noteAudio(`${param}.content[${j}]`);
      for (const name of TOOL_DEFINITIONS) {
        const value = (part as Fields)[name];
        if (typeof value !== 'object' || value === null) continue;
        parts.push({ value, param: `${param}.content[${j}].${name}`, in_tools: true });
      }
    }
  }
}
