import { invalid, isObject } from '../translation/read-json.ts';
import { type FieldRule, fieldRule } from './field-rules.ts';
import type { Fields } from './fields.ts';

/** A field of a body that decides something, at its place. */
export interface DecisiveValue {
  /** Where it stands, such as `tools[0].model`. */
  readonly param: string;
  readonly rule: FieldRule;
  /** The name of a model, or what was chosen; absent where it has no form that can be checked, and where nothing is. */
  readonly value?: string;
}

/** The rule of tools that may ask models they do not name. */
const UNNAMED_MODEL: FieldRule = {
  name: 'tools[].type',
  decides: 'model',
  rule: 'check',
  meaning: 'a tool that may ask other models',
};

/** Most models that one request may name. */
const MODELS_MAX = 50;

/** Keys below which there is only what the model reads or writes, and names that clients make up. */
const CONTENT: ReadonlySet<string> = new Set([
  ...['system', 'instructions', 'metadata', 'client_metadata', 'prediction', 'documents', 'functions', 'tool_choice'],
  ...['prompt', 'logit_bias', 'stop', 'stop_sequences', 'tags', 'safeguards', 'schema', 'json_schema', 'input_schema'],
  ...['output_schema', 'input_examples', 'properties', '$defs', 'definitions', 'variables', 'arguments', 'output'],
]);

/** Conversations: only definitions of tools in them decide anything. */
const CONVERSATION: ReadonlySet<string> = new Set(['messages', 'input']);

/** Lists of tools and servers, whose accounts are those of the tool and not of the model. */
const TOOLS: ReadonlySet<string> = new Set(['tools', 'mcp_servers']);

/** Types of tools that the client runs; everything in them but their name is the client's. */
const CLIENT_TOOLS: ReadonlySet<unknown> = new Set([undefined, null, 'function', 'custom']);

/** Tools that a router runs without a model of its own. */
const ROUTER_TOOLS = /:(?:web_search|web_fetch|datetime|shell|bash|apply_patch|files|file_search|mcp)$/;

/** Parts of a conversation that may define tools; all others are content. */
const TOOL_CHANGES: ReadonlySet<unknown> = new Set(['tool_addition', 'tool_definition', 'compaction']);

/** Keys by which an object that stands for a model names it, the most telling first. */
const NAMES = ['model', 'id', 'name', 'slug'] as const;

interface Place {
  readonly value: object;
  readonly param: string;
  readonly in_tools: boolean;
}

/**
 * Every field beside `model` that decides over models, prices or accounts, wherever it stands in a body outside of content;
 * values that never cost more are left out. Raises invalid_request.
 */
export function readDecisive(body: Fields): readonly DecisiveValue[] {
  const found: DecisiveValue[] = [];
  // Not recursive: a body may nest very deep.
  const places: Place[] = [];
  for (const key in body) {
    const value = body[key];
    if (key === 'model' || isEmpty(value)) continue;
    if (CONVERSATION.has(key)) placesOfTools(value, key, places);
    else readField({ value: body, param: '', in_tools: false }, key, places, found, true);
  }
  for (let place = places.pop(); place !== undefined; place = places.pop()) {
    if (Array.isArray(place.value)) {
      for (const [index, item] of place.value.entries()) {
        if (typeof item === 'object' && item !== null)
          places.push({ ...place, value: item, param: `${place.param}[${index}]` });
      }
      continue;
    }
    const fields = place.value as Fields;
    if (place.in_tools && asksUnnamedModels(fields)) found.push({ param: place.param, rule: UNNAMED_MODEL });
    for (const key in fields) {
      if (key === 'parameters' && CLIENT_TOOLS.has(fields.type)) continue;
      readField(place, key, places, found, false);
    }
  }
  return found;
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '' || value === false) return true;
  if (typeof value !== 'object') return false;
  for (const _ in value) return false;
  return true;
}

function readField(place: Place, key: string, places: Place[], found: DecisiveValue[], is_top_level: boolean): void {
  const value = (place.value as Fields)[key];
  if (isEmpty(value) || CONTENT.has(key)) return;
  const param = is_top_level ? key : `${place.param}.${key}`;
  const rule = fieldRule(key, is_top_level);
  const in_tools = place.in_tools || (is_top_level && TOOLS.has(key));
  switch (rule?.rule) {
    case 'check':
      readModels(value, param, rule, { places, found, in_tools });
      return;
    case 'price':
      // Elsewhere a number may be anything, such as the speed of a voice.
      if (is_top_level || typeof value !== 'number') readPriced(value, param, rule, found);
      return;
    case 'refuse':
      if (in_tools) break;
      found.push({ param, rule });
      return;
  }
  if (typeof value === 'object') places.push({ value: value as object, param, in_tools });
}

function readModels(
  value: unknown,
  param: string,
  rule: FieldRule,
  { places, found, in_tools }: { places: Place[]; found: DecisiveValue[]; in_tools: boolean },
): void {
  if (typeof value === 'number' || typeof value === 'boolean') return;
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  for (const [index, item] of items.entries()) {
    const at = Array.isArray(value) ? `${param}[${index}]` : param;
    if (typeof item === 'string' && !(rule.name === 'fallbacks' && item === 'default')) {
      if (item !== '') found.push({ param: at, rule, value: item });
    } else {
      const by = isObject(item) ? NAMES.find((key) => typeof item[key] === 'string' && item[key] !== '') : undefined;
      if (by === undefined) {
        found.push({ param: at, rule });
        continue;
      }
      const { [by]: name, ...rest } = item as Fields;
      found.push({ param: `${at}.${by}`, rule, value: name as string });
      places.push({ value: rest, param: at, in_tools });
    }
    if (found.length > MODELS_MAX) throw invalid(param, `names too many models; ${MODELS_MAX} are the most`);
  }
}

function readPriced(value: unknown, param: string, rule: FieldRule, found: DecisiveValue[]): void {
  if (!Array.isArray(value)) {
    if (typeof value !== 'string') found.push({ param, rule });
    else if (!rule.harmless?.includes(value)) found.push({ param, rule, value });
    return;
  }
  for (const [index, item] of value.entries()) {
    if (typeof item !== 'string') found.push({ param: `${param}[${index}]`, rule });
    else if (!rule.harmless?.includes(item)) found.push({ param: `${param}[${index}]`, rule, value: item });
  }
}

function asksUnnamedModels({ type, model, parameters }: Fields): boolean {
  if (typeof type !== 'string' || !type.includes(':') || ROUTER_TOOLS.test(type)) return false;
  return isEmpty(model) && (!isObject(parameters) || isEmpty(parameters.model));
}

/** Tools that are defined in the middle of a conversation. */
function placesOfTools(conversation: unknown, key: string, places: Place[]): void {
  if (!Array.isArray(conversation)) return;
  for (let i = 0; i < conversation.length; i++) {
    const item = conversation[i];
    if (typeof item !== 'object' || item === null) continue;
    const { tools, content } = item as Fields;
    const param = `${key}[${i}]`;
    if (Array.isArray(tools)) places.push({ value: tools, param: `${param}.tools`, in_tools: true });
    if (!Array.isArray(content)) continue;
    for (let j = 0; j < content.length; j++) {
      const part = content[j];
      if (TOOL_CHANGES.has(part?.type)) places.push({ value: part, param: `${param}.content[${j}]`, in_tools: true });
    }
  }
}
