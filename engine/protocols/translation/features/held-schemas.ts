/**
 * Schemas that the model is held to by the upstream: those of strict tools and of answers. Upstreams take a part of JSON Schema for
 * them and refuse the rest. What constrains values goes into the description, as the vendors' own SDKs do it; a schema that would
 * mean something else then is not made to fit.
 * @module
 */
import type { Protocol } from '../../../contract/protocol.ts';
import { isObject } from '../../read-json.ts';
import { ACCEPTED, type Accepted } from '../accepted.ts';
import type { Json } from '../adapter.ts';
import type { OutputFormat, Tool } from '../conversation.ts';
import type { Notes } from '../notes.ts';
import { described, hasAlternatives, keyOf, repairSchema, resolveReference, writeSchema } from './tool-schemas.ts';

/** The most parts of a schema, with those that references bring in; a larger one is not held to. */
const PARTS_MAX = 10_000;
const DEPTH_MAX = 64;

/** What a schema takes of what one request may have. */
interface Cost {
  readonly tools: number;
  readonly optional: number;
  readonly unions: number;
}

/** What uses a schema: a tool is called without being strict, but an answer without a schema is another answer. */
type Use = 'tool' | 'answer';

/** The schemas of one request that an upstream of this protocol is asked to hold the model to. */
export class HeldSet {
  readonly #to: Protocol;
  readonly #notes: Notes;
  readonly #left: { -readonly [K in keyof Cost]: Cost[K] };

  constructor(to: Protocol, notes: Notes) {
    this.#to = to;
    this.#notes = notes;
    this.#left = { ...ACCEPTED[to].held.most };
  }

  /** The schema of a tool, and whether it is strict, where the client says anything about that. */
  tool({ parameters, strict }: Tool): { readonly schema: Json; readonly strict?: boolean } {
    const held = strict === true ? this.#hold(parameters, 'tool') : undefined;
    if (held !== undefined) return { schema: held, strict: true };
    // Alternatives at the top are noted themselves.
    if (strict === true && !hasAlternatives(parameters)) this.#notes.note('strict_schema');
    const schema = writeSchema(parameters, this.#to, this.#notes);
    return strict === false ? { schema, strict } : { schema };
  }

  /** The schema of an answer; `undefined`, which the caller notes, where the model cannot be held to it. */
  answer({ schema }: Extract<OutputFormat, { kind: 'json_schema' }>): Json | undefined {
    return this.#hold(schema, 'answer');
  }

  #hold(schema: Json, use: Use): Json | undefined {
    const fitting = new Fitting(repairSchema(schema, this.#to, this.#notes), ACCEPTED[this.#to], use);
    const fitted = fitting.fit();
    if (fitted === undefined) return undefined;
    const cost: Cost = { tools: use === 'tool' ? 1 : 0, optional: fitting.optional, unions: fitting.unions };
    const keys = Object.keys(cost) as (keyof Cost)[];
    if (keys.some((key) => cost[key] > this.#left[key])) return undefined;
    for (const key of keys) this.#left[key] -= cost[key];
    if (fitting.has_moved) this.#notes.note('schema_constraints');
    if (fitting.has_closed) this.#notes.note('schema_closed');
    return fitted;
  }
}

/** The schema of an answer as chat completions and Responses have it, and whether the upstream holds the model to it. */
export function writeAnswerSchema(
  format: Extract<OutputFormat, { kind: 'json_schema' }>,
  to: Protocol,
  notes: Notes,
): { readonly schema: Json; readonly is_held: boolean } {
  const held = format.strict === true ? new HeldSet(to, notes).answer(format) : undefined;
  if (held !== undefined) return { schema: held, is_held: true };
  if (format.strict === true) notes.note('strict_schema');
  return { schema: repairSchema(format.schema, to, notes), is_held: false };
}

/** Says nothing about values, or only to people. */
const ANNOTATIONS = new Set(['$schema', '$id', '$comment', '$anchor', 'readOnly', 'writeOnly', 'deprecated']);

/** Keywords that this looks at itself. */
const STRUCTURE = new Set([
  ...['$ref', '$defs', 'definitions', 'type', 'title', 'description', 'enum', 'const', 'anyOf', 'oneOf', 'allOf'],
  ...['properties', 'required', 'additionalProperties', 'patternProperties', 'items', 'prefixItems'],
]);

/** Keywords that only mean something for values of one type. */
const OF_TYPE: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties', 'patternProperties', 'minProperties', 'maxProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems', 'uniqueItems', 'contains'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
};

const TYPED = new Set(Object.values(OF_TYPE).flat());

/** Keywords that allow some values and not others. */
const CONSTRAINTS = new Set([...TYPED, 'not', 'if', 'then', 'else']);

const WORDS = new Set(['title', 'description']);

/** A reference to a definition, which may stay one. */
const DEFINITION = /^#\/(\$defs|definitions)\/([^/]+)$/;

/** A schema cannot be brought to what the upstream takes. */
class Unfit extends Error {}

class Fitting {
  has_moved = false;
  has_closed = false;
  /** Properties that may be left out. */
  optional = 0;
  /** Places with several types. */
  unions = 0;
  readonly #root: Json;
  readonly #accepted: Accepted;
  readonly #use: Use;
  #parts = 0;
  /** Definitions that are referred to, by their reference, with those that each refers to. */
  readonly #referred = new Map<string, Set<string>>();
  /** What the definition that is being looked at refers to. */
  #edges = new Set<string>();

  constructor(root: Json, accepted: Accepted, use: Use) {
    this.#root = root;
    this.#accepted = accepted;
    this.#use = use;
  }

  /** The schema as the upstream takes it; `undefined` where that would mean something else. */
  fit(): Json | undefined {
    const { held, property_name } = this.#accepted;
    try {
      const schema = this.#whole();
      const is_tool = this.#use === 'tool';
      if (!held.alternatives_at_top && Object.hasOwn(schema, 'anyOf')) return undefined;
      if ((is_tool || held.fully_typed) && schema.type !== 'object') return undefined;
      if (held.all_required && this.optional > 0) return undefined;
      const names = is_tool && property_name !== undefined ? Object.keys(schema.properties as Json) : [];
      return names.every((name) => property_name!.test(name)) ? schema : undefined;
    } catch (error) {
      if (error instanceof Unfit) return undefined;
      throw error;
    }
  }

  /** With the definitions that it needs. */
  #whole(): Json {
    const schema = this.#part(this.#root, 0, []);
    const maps: Record<string, [string, Json][]> = {};
    this.#referred.set('', this.#edges);
    const waiting = [...this.#edges];
    for (let reference = waiting.pop(); reference !== undefined; reference = waiting.pop()) {
      if (this.#referred.has(reference)) continue;
      this.#edges = new Set();
      this.#referred.set(reference, this.#edges);
      const [, container, name] = DEFINITION.exec(reference)!;
      maps[container!] ??= [];
      maps[container!]!.push([keyOf(name!), this.#part(resolveReference(this.#root, reference), 1, [])]);
      waiting.push(...this.#edges);
    }
    if (!this.#accepted.held.recursion && this.#isRecursive()) throw new Unfit();
    const entries = Object.entries(maps).map(([container, list]) => [container, Object.fromEntries(list)] as const);
    return { ...schema, ...Object.fromEntries(entries) };
  }

  /** Whether a definition leads to itself. */
  #isRecursive(): boolean {
    const done = new Set<string>();
    const open = new Set<string>();
    const stack: { readonly reference: string; readonly edges: Iterator<string> }[] = [];
    const enter = (reference: string): void => {
      open.add(reference);
      stack.push({ reference, edges: this.#referred.get(reference)!.values() });
    };
    for (enter(''); stack.length > 0; ) {
      const { reference, edges } = stack.at(-1)!;
      const next = edges.next();
      if (next.done === true) {
        stack.pop();
        open.delete(reference);
        done.add(reference);
      } else if (open.has(next.value)) return true;
      else if (!done.has(next.value)) enter(next.value);
    }
    return false;
  }

  /** Counts what is looked at or made, so that no schema takes long. */
  #count(parts: number): void {
    this.#parts += parts;
    if (this.#parts > PARTS_MAX) throw new Unfit();
  }

  #areEqual(one: unknown, other: unknown): boolean {
    const [first, second] = [JSON.stringify(one), JSON.stringify(other)];
    this.#count(Math.ceil((first.length + second.length) / 256));
    return first === second;
  }

  /** `path` has the references that led here by what they point to being put in their place. */
  #part(value: unknown, depth: number, path: readonly string[]): Json {
    this.#count(1);
    if (!isObject(value) || depth > DEPTH_MAX) throw new Unfit();
    if (Object.hasOwn(value, '$ref')) return this.#reference(value, depth, path);
    if (Array.isArray(value.allOf)) return this.#part(this.#joined(value, depth), depth + 1, path);
    const [key, list] = Array.isArray(value.anyOf) ? ['anyOf', value.anyOf] : ['oneOf', value.oneOf];
    if (Array.isArray(list) && list.length > 0) return this.#alternatives(value, key as string, list, depth, path);
    return this.#plain(value, depth, path);
  }

  #reference(schema: Json, depth: number, path: readonly string[]): Json {
    const reference = schema.$ref;
    const target = resolveReference(this.#root, reference);
    if (typeof reference !== 'string' || !isObject(target)) throw new Unfit();
    const others = Object.entries(schema).filter(
      ([key]) => key !== '$ref' && key !== '$defs' && key !== 'definitions' && !ANNOTATIONS.has(key),
    );
    if (others.length === 0 && depth > 0) {
      const is_definition = DEFINITION.test(reference);
      if (is_definition) this.#edges.add(reference);
      if (is_definition || (reference === '#' && this.#accepted.held.recursion)) return { $ref: reference };
    }
    // No upstream takes other keywords beside a reference, so what it points to stands there itself.
    if (path.includes(reference)) throw new Unfit();
    return this.#part(this.#both(Object.fromEntries(others), target), depth + 1, [...path, reference]);
  }

  /** A schema and all those that must hold with it, as one. */
  #joined({ allOf, ...own }: Json, depth: number): Json {
    if (depth > DEPTH_MAX) throw new Unfit();
    let joined: Json = own;
    for (const branch of allOf as readonly unknown[]) {
      let part = branch;
      for (let followed = 0; isObject(part) && Object.hasOwn(part, '$ref'); followed++) {
        const { $ref, ...rest } = part as Record<string, unknown>;
        const target = resolveReference(this.#root, $ref);
        if (!isObject(target) || followed > DEPTH_MAX) throw new Unfit();
        part = { ...target, ...rest };
      }
      this.#count(1);
      if (part === true) continue;
      if (!isObject(part)) throw new Unfit();
      if (Array.isArray(part.allOf)) part = this.#joined(part, depth + 1);
      joined = this.#both(joined, part as Json);
    }
    return joined;
  }

  /** What two schemas allow that both must hold; what differs of the second is moved. */
  #both(one: Json, other: Json): Json {
    this.#count(Object.keys(other).length);
    const both: Record<string, unknown> = { ...one };
    const moved: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(other)) {
      const own = one[key];
      if (own === undefined || (key === 'additionalProperties' && value === false)) both[key] = value;
      else if (key === 'required') both.required = [...new Set([...namesIn(own), ...namesIn(value)])];
      else if (key === 'properties' && isObject(own) && isObject(value))
        both.properties = this.#bothProperties(own, value);
      else if (key === 'type') both.type = commonType(own, value);
      else if (key !== 'title' && key !== 'description' && !this.#areEqual(own, value)) moved[key] = value;
    }
    return this.#describe(both, moved);
  }

  #bothProperties(one: Json, other: Json): Json {
    const names = [...new Set([...Object.keys(one), ...Object.keys(other)])];
    this.#count(names.length);
    const merge = (name: string): unknown => {
      if (!Object.hasOwn(one, name)) return other[name];
      if (!Object.hasOwn(other, name) || this.#areEqual(one[name], other[name])) return one[name];
      return { allOf: [one[name], other[name]] };
    };
    return Object.fromEntries(names.map((name) => [name, merge(name)]));
  }

  #alternatives(schema: Json, key: string, list: readonly unknown[], depth: number, path: readonly string[]): Json {
    const beside: Record<string, unknown> = {};
    const moved: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(schema)) {
      if (name === key || WORDS.has(name) || ANNOTATIONS.has(name)) continue;
      (STRUCTURE.has(name) || CONSTRAINTS.has(name) ? beside : moved)[name] = value;
    }
    const has_more = Object.keys(beside).length > 0;
    // What holds for all of them holds for each.
    const fitted = list.map((one) => this.#part(has_more ? { allOf: [beside, one] } : one, depth + 1, path));
    const [only] = fitted;
    const is_one = fitted.length === 1 && !Object.hasOwn(only!, '$ref');
    if (!is_one) this.unions += 1;
    return this.#describe({ ...(is_one ? only : { anyOf: fitted }), ...wordsOf(schema) }, moved);
  }

  #plain(schema: Json, depth: number, path: readonly string[]): Json {
    const literal = literalOf(schema);
    const type = literal === undefined ? typeOf(schema) : undefined;
    if (Array.isArray(type) && type.some((one) => one === 'object' || one === 'array')) {
      const each = type.map((one) => ({ type: one, ...ofType(schema, one) }));
      const others = Object.entries(schema).filter(([key]) => key !== 'type' && !TYPED.has(key));
      return this.#alternatives({ ...Object.fromEntries(others), anyOf: each }, 'anyOf', each, depth, path);
    }
    const fitted: Record<string, unknown> = {};
    const moved: Record<string, unknown> = {};
    if (literal !== undefined) Object.assign(fitted, this.#literal(schema, literal));
    else {
      fitted.type = type;
      if (Array.isArray(type)) this.unions += 1;
      if (type === 'object') Object.assign(fitted, this.#object(schema, depth, path, moved));
      if (type === 'array') Object.assign(fitted, this.#list(schema, depth, path, moved));
    }
    if (Array.isArray(schema.enum) && literal === undefined) moved.enum = schema.enum;
    if (Object.hasOwn(schema, 'const') && literal === undefined) moved.const = schema.const;
    for (const [key, value] of Object.entries(schema)) {
      if (STRUCTURE.has(key) || ANNOTATIONS.has(key)) continue;
      if (literal === undefined && this.#keeps(key, value, type)) fitted[key] = value;
      else moved[key] = value;
    }
    return this.#describe({ ...fitted, ...wordsOf(schema) }, moved);
  }

  #keeps(key: string, value: unknown, type: unknown): boolean {
    const { keywords, formats, min_items_max } = this.#accepted.held;
    if (!keywords.has(key)) return false;
    if (key === 'format') return type === 'string' && formats.has(String(value));
    return key !== 'minItems' || (typeof value === 'number' && value <= min_items_max);
  }

  #literal({ type, ...schema }: Json, values: readonly unknown[]): Json {
    const types = [...new Set(values.map(jsonType))];
    const said = typeof type === 'string' ? type : undefined;
    const fits = said !== undefined && types.every((one) => one === said || (one === 'integer' && said === 'number'));
    // Without one type for all, the values say enough; some upstreams want it all the same.
    const own = fits ? said : types.length === 1 ? types[0] : this.#accepted.held.fully_typed ? types : undefined;
    return {
      ...(own !== undefined && { type: own }),
      ...(Object.hasOwn(schema, 'const') ? { const: values[0] } : { enum: values }),
    };
  }

  #object(schema: Json, depth: number, path: readonly string[], moved: Record<string, unknown>): Json {
    const given = isObject(schema.properties) ? schema.properties : {};
    const { additionalProperties, patternProperties } = schema;
    const names = Object.keys(given);
    const is_open = additionalProperties !== undefined && additionalProperties !== false;
    const is_map = is_open || (isObject(patternProperties) && Object.keys(patternProperties).length > 0);
    // Closed, a map would always be empty, and so would an object that may have anything.
    const is_tool = this.#use === 'tool';
    const is_free = names.length === 0 && additionalProperties === undefined && !(is_tool && depth === 0);
    if (is_free || (is_map && (names.length === 0 || is_tool))) throw new Unfit();
    if (is_open) moved.additionalProperties = additionalProperties;
    if (is_map && patternProperties !== undefined) moved.patternProperties = patternProperties;
    if (additionalProperties !== false) this.has_closed = true;
    const required = [...new Set(namesIn(schema.required))];
    const known = required.filter((name) => Object.hasOwn(given, name));
    if (known.length < required.length) moved.required = required.filter((name) => !Object.hasOwn(given, name));
    this.optional += names.length - known.length;
    const properties = names.map((name) => [name, this.#part(given[name], depth + 1, path)] as const);
    const is_said = known.length > 0 || Array.isArray(schema.required) || this.#accepted.held.all_required;
    return {
      properties: Object.fromEntries(properties),
      ...(is_said && { required: known }),
      additionalProperties: false,
    };
  }

  #list(schema: Json, depth: number, path: readonly string[], moved: Record<string, unknown>): Json {
    const { items, prefixItems } = schema;
    const places = Array.isArray(prefixItems) ? prefixItems : [];
    if (places.length > 0) moved.prefixItems = prefixItems;
    const is_free = items === undefined || items === true || (isObject(items) && Object.keys(items).length === 0);
    if (is_free) {
      if (this.#accepted.held.fully_typed) throw new Unfit();
      return {};
    }
    const kinds = [...places, ...(items === false ? [] : [items])];
    const each = kinds.length === 1 ? kinds[0] : { anyOf: kinds };
    return { items: this.#part(each, depth + 1, path) };
  }

  #describe(schema: Json, moved: Readonly<Record<string, unknown>>): Json {
    if (Object.keys(moved).length > 0) this.has_moved = true;
    return described(schema, moved);
  }
}

function wordsOf({ title, description }: Json): Json {
  return { ...(typeof title === 'string' && { title }), ...(typeof description === 'string' && { description }) };
}

function namesIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : [];
}

function jsonType(value: unknown): string {
  if (value === null) return 'null';
  return typeof value === 'number' ? (Number.isInteger(value) ? 'integer' : 'number') : typeof value;
}

/** The few values that a schema allows, where they are no lists or objects. Raises Unfit where it allows none. */
function literalOf(schema: Json): readonly unknown[] | undefined {
  const values = Object.hasOwn(schema, 'const') ? [schema.const] : schema.enum;
  if (!Array.isArray(values) || values.length === 0) return undefined;
  if (!values.every((value) => value === null || typeof value !== 'object')) return undefined;
  const { type } = schema;
  const types = Array.isArray(type) ? type : typeof type === 'string' ? [type] : undefined;
  const possible = types === undefined ? values : values.filter((value) => isOf(types, jsonType(value)));
  if (possible.length === 0) throw new Unfit();
  return possible;
}

const isOf = (types: readonly unknown[], type: string): boolean =>
  types.includes(type) || (type === 'integer' && types.includes('number'));

/** The type or types that a schema states, or that its keywords are about. */
function typeOf(schema: Json): string | readonly string[] {
  const { type } = schema;
  if (typeof type === 'string') return type;
  if (Array.isArray(type) && type.length > 0) return type.length === 1 ? type[0] : type;
  const about = Object.entries(OF_TYPE).filter(([, keys]) => keys.some((key) => Object.hasOwn(schema, key)));
  if (about.length !== 1) throw new Unfit();
  return about[0]![0];
}

/** What a schema says about values of one type alone. */
function ofType(schema: Json, type: string): Json {
  const own = OF_TYPE[type === 'integer' ? 'number' : type] ?? [];
  return Object.fromEntries(Object.entries(schema).filter(([key]) => own.includes(key)));
}

/** The types that both of these have. */
function commonType(one: unknown, other: unknown): unknown {
  const [first, second] = [one, other].map((type) => (Array.isArray(type) ? type : [type]));
  const common = first!.filter((type) => second!.includes(type) || (type === 'integer' && second!.includes('number')));
  if (common.length === 0 && second!.includes('integer') && first!.includes('number')) return 'integer';
  if (common.length === 0) throw new Unfit();
  return common.length === 1 ? common[0] : common;
}
