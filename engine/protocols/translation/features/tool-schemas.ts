/**
 * Schemas of tools as upstreams take them. One schema that breaks JSON Schema, or a rule of the protocol, would otherwise have every
 * request of a session refused. What can be said in another way is; what cannot goes into the description.
 * @module
 */
import type { Protocol } from '../../../contract/protocol.ts';
import { percentDecoded } from '../../../kit/text/percent.ts';
import { invalid, isAbsent, isObject, kindOf } from '../../read-json.ts';
import { ACCEPTED } from '../accepted.ts';
import type { Json } from '../adapter.ts';
import type { Notes } from '../notes.ts';

/** The schema of a tool without arguments. */
const NO_PARAMETERS = { type: 'object', properties: {} } as const;

/** Below this depth, schemas are left as they are. */
const DEPTH_MAX = 64;

/** References at the top that are followed, one after the other. */
const REFERENCES_MAX = 16;

/**
 * The schema of a tool as a client gives it; one that is missing, null, `true` or `false` says nothing about the arguments. Raises
 * invalid_request.
 */
export function readSchema(value: unknown, param: string): Json {
  if (isObject(value)) return value;
  if (isAbsent(value) || typeof value === 'boolean') return NO_PARAMETERS;
  throw invalid(param, `must be an object, not ${kindOf(value)}`);
}

/** A schema whose description also says what the schema itself cannot, in the words of the vendors' own SDKs. */
export function described(schema: Json, moved: Readonly<Record<string, unknown>>): Json {
  const entries = Object.entries(moved);
  if (entries.length === 0) return schema;
  const words = `{${entries.map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join(', ')}}`;
  const { description } = schema;
  const before = typeof description === 'string' && description !== '' ? `${description}\n\n` : '';
  return { ...schema, description: before + words };
}

/** The part of a schema that a reference like `#/$defs/name` points to; `undefined` where there is none. RFC 6901. */
export function resolveReference(root: Json, reference: unknown): unknown {
  if (typeof reference !== 'string' || !/^#(?:\/|$)/.test(reference)) return undefined;
  let part: unknown = root;
  for (const step of reference.split('/').slice(1)) {
    const key = keyOf(step);
    if (typeof part !== 'object' || part === null || !Object.hasOwn(part, key)) return undefined;
    part = (part as Json)[key];
  }
  return part;
}

/** The key that a step of a reference names. RFC 6901, section 6. */
export function keyOf(step: string): string {
  // Not every writer of references escapes a percent sign.
  return percentDecoded(step).replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The schema of a tool's arguments for an upstream of this protocol. */
export function writeSchema(parameters: Json, to: Protocol, notes: Notes): Json {
  const { explicit, dialect, property_name } = ACCEPTED[to];
  const repair = new Repair(explicit);
  let schema = repair.schema(parameters, 0);
  if (!dialect && Object.hasOwn(schema, '$schema')) schema = without(schema, ['$schema']);
  schema = withoutAlternatives(withoutReference(schema, repair), to, notes);
  schema = ofObject(schema, repair);
  if (explicit && !isObject(schema.properties)) schema = { ...schema, properties: {} };
  if (property_name !== undefined) schema = withNames(schema, property_name, notes);
  if (repair.has_changed) notes.note('tool_schema');
  return schema;
}

/** The schema of an answer, as far as it must be JSON Schema at all. */
export function repairSchema(schema: Json, to: Protocol, notes: Notes): Json {
  const repair = new Repair(ACCEPTED[to].explicit);
  const repaired = repair.schema(schema, 0);
  if (repair.has_changed) notes.note('tool_schema');
  return repaired;
}

/** Whether a schema says at its top that one or all of several others hold. */
export function hasAlternatives(schema: Json): boolean {
  return ALTERNATIVES.some((key) => Object.hasOwn(schema, key));
}

const ALTERNATIVES = ['anyOf', 'oneOf', 'allOf'];

function without(schema: Json, keys: readonly string[]): Json {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !keys.includes(key)));
}

/** What a reference at the top points to stands there itself. */
function withoutReference(root: Json, repair: Repair): Json {
  let schema = root;
  for (let followed = 0; Object.hasOwn(schema, '$ref'); followed++) {
    const target = followed < REFERENCES_MAX ? resolveReference(root, schema.$ref) : undefined;
    const rest = without(schema, ['$ref']);
    if (!isObject(target) || target === schema) {
      repair.has_changed = true;
      return described(rest, { $ref: schema.$ref });
    }
    schema = { ...target, ...rest };
  }
  return schema;
}

/** Alternatives at the top become one object; other keywords that are refused there go into the description. */
function withoutAlternatives(schema: Json, to: Protocol, notes: Notes): Json {
  const refused = ACCEPTED[to].refused_at_top.filter((key) => Object.hasOwn(schema, key));
  if (refused.length === 0) return schema;
  const moved = refused.filter((key) => !ALTERNATIVES.includes(key));
  if (moved.length > 0) notes.note('schema_constraints');
  const { anyOf, oneOf, allOf, ...own } = described(
    without(schema, moved),
    Object.fromEntries(moved.map((key) => [key, schema[key]])),
  ) as Record<string, unknown>;
  if (!hasAlternatives(schema)) return own;
  notes.note('schema_alternatives');
  const resolved = (list: unknown): Json[] =>
    schemasIn(list).map((one) => (Object.hasOwn(one, '$ref') ? resolvedOnce(schema, one) : one));
  const all = [own, ...resolved(allOf)];
  const alternatives = [resolved(anyOf), resolved(oneOf)];
  const properties = mergedProperties([...all, ...alternatives.flat()]);
  const required = new Set([...all.flatMap(requiredBy), ...alternatives.flatMap(requiredByEach)]);
  return {
    ...own,
    ...(properties !== undefined && { properties }),
    ...(required.size > 0 && { required: [...required] }),
  };
}

function resolvedOnce(root: Json, { $ref, properties, required }: Json): Json {
  const target = resolveReference(root, $ref);
  const found = isObject(target) ? target : {};
  return { properties: properties ?? found.properties, required: required ?? found.required };
}

function schemasIn(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function requiredBy({ required }: Json): string[] {
  return Array.isArray(required) ? required.filter((key) => typeof key === 'string') : [];
}

/** What is required whichever of these holds. */
function requiredByEach(alternatives: readonly Json[]): string[] {
  // Alternatives may be one and the same.
  const lists = [...new Set(alternatives.map(({ required }) => required))];
  const [first, ...rest] = lists.map((required) => new Set(requiredBy({ required })));
  return [...(first ?? [])].filter((key) => rest.every((keys) => keys.has(key)));
}

/** Every property that one of these has; where they differ, each of its forms may be meant. */
function mergedProperties(schemas: readonly Json[]): Json | undefined {
  const first = new Map<string, unknown>();
  const forms = new Map<string, Map<string, unknown>>();
  for (const properties of new Set(schemas.map((schema) => schema.properties))) {
    for (const [key, schema] of Object.entries(isObject(properties) ? properties : {})) {
      if (!first.has(key)) first.set(key, schema);
      else {
        const known = forms.get(key) ?? new Map([[JSON.stringify(first.get(key)), first.get(key)]]);
        forms.set(key, known.set(JSON.stringify(schema), schema));
      }
    }
  }
  if (first.size === 0) return undefined;
  return Object.fromEntries(
    [...first].map(([key, schema]) => {
      const all = [...(forms.get(key)?.values() ?? [schema])];
      return [key, all.length === 1 ? schema : { anyOf: all }];
    }),
  );
}

/** Arguments are an object, whatever the schema says they are. */
function ofObject(schema: Json, repair: Repair): Json {
  const { type } = schema;
  if (type === 'object') return schema;
  if (type === undefined) return { type: 'object', ...schema };
  if (Array.isArray(type) && type.includes('object')) return { ...schema, type: 'object' };
  repair.has_changed = true;
  return described({ ...without(schema, ['type']), type: 'object' }, { type });
}

/**
 * Properties whose names are refused become patterns of names, which mean the same and may be anything. The description tells the
 * names as they are.
 */
function withNames(schema: Json, name_pattern: RegExp, notes: Notes): Json {
  if (!isObject(schema.properties)) return schema;
  const odd = Object.entries(schema.properties).filter(([name]) => !name_pattern.test(name));
  if (odd.length === 0) return schema;
  notes.note('property_name');
  const names = odd.map(([name]) => name);
  const patterns = Object.fromEntries(
    odd.map(([name, property]) => [`^${name.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')}$`, property]),
  );
  return described(
    {
      ...schema,
      properties: without(schema.properties, names),
      patternProperties: { ...patterns, ...(isObject(schema.patternProperties) && schema.patternProperties) },
    },
    { 'further properties': names },
  );
}

/** What the value of a keyword must be, as the meta-schema of draft 2020-12 has it. */
type Kind = 'schema' | 'schemas' | 'schema_map' | 'number' | 'count' | 'text' | 'flag' | 'names' | 'values' | 'pattern';

/** Keywords whose values are checked. `type`, `items` and exclusive bounds have rules of their own. */
const KINDS: ReadonlyMap<string, Kind> = new Map(
  (
    [
      ['schema', 'additionalProperties propertyNames contains not if then else unevaluatedItems unevaluatedProperties'],
      ['schemas', 'anyOf oneOf allOf prefixItems'],
      ['schema_map', 'properties patternProperties $defs definitions dependentSchemas'],
      ['number', 'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf'],
      ['count', 'minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains'],
      ['text', 'title description format $ref $schema $id $comment $anchor contentEncoding contentMediaType'],
      ['flag', 'uniqueItems readOnly writeOnly deprecated'],
      ['names', 'required'],
      ['values', 'enum examples'],
      ['pattern', 'pattern'],
    ] as const
  ).flatMap(([kind, keys]) => keys.split(' ').map((key) => [key, kind] as const)),
);

/** What is no list or map of schemas says nothing. */
const OF_SCHEMAS: ReadonlySet<Kind | undefined> = new Set<Kind>(['schema', 'schemas', 'schema_map']);

/** Types by the names that languages and other vendors have for them. */
const TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    string: 'string str text',
    number: 'number float double decimal',
    integer: 'integer int int32 int64 long',
    boolean: 'boolean bool',
    array: 'array list tuple set',
    object: 'object dict map record',
    null: 'null none nil',
  }).flatMap(([type, names]) => names.split(' ').map((name) => [name, type] as const)),
);

/** Brings a schema to draft 2020-12, where it is none of it or of an older draft. Parts that are right stay as they are. */
class Repair {
  /** Whether anything was not as JSON Schema has it. */
  has_changed = false;
  readonly #explicit: boolean;

  constructor(explicit: boolean) {
    this.#explicit = explicit;
  }

  schema(schema: Json, depth: number): Json {
    if (depth > DEPTH_MAX) return schema;
    const others = new Map<string, unknown>();
    for (const key of Object.keys(schema)) {
      const other = this.#value(key, schema[key], depth);
      if (other !== schema[key]) others.set(key, other);
    }
    if (others.size === 0 && !this.#lacksItems(schema)) return schema;
    const repaired: Record<string, unknown> = {};
    const moved: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(schema)) {
      const other = others.has(key) ? others.get(key) : value;
      if (other !== undefined) set(repaired, key, other);
      else if (isTelling(value) && !OF_SCHEMAS.has(KINDS.get(key))) moved[key] = value;
    }
    this.#bounds(schema, repaired);
    this.#required(schema, repaired);
    this.#lists(schema, repaired, depth);
    // Older drafts have words that are understood here, and those need no description.
    for (const key of ['exclusiveMinimum', 'exclusiveMaximum', 'required'] as const) {
      if (schema[key] === true) delete moved[key];
    }
    if (Array.isArray(schema.items)) delete moved.items;
    return described(repaired, moved);
  }

  #lacksItems({ type, items }: Json): boolean {
    const is_list = type === 'array' || (Array.isArray(type) && type.includes('array'));
    return this.#explicit && is_list && items === undefined;
  }

  /** What stands at a place for a schema; `undefined` for what is none. */
  #part(value: unknown, depth: number): unknown {
    if (isObject(value)) return this.schema(value, depth + 1);
    if (typeof value === 'boolean') return value;
    this.has_changed = true;
    const type = typeof value === 'string' ? TYPES.get(value.toLowerCase()) : undefined;
    return type === undefined ? {} : { type };
  }

  #value(key: string, value: unknown, depth: number): unknown {
    if (key === 'type') return this.#type(value);
    if (key === 'items') return Array.isArray(value) ? undefined : this.#part(value, depth);
    const kind = KINDS.get(key);
    if (kind === undefined) return value;
    const repaired = this.#ofKind(kind, value, depth);
    if (repaired === undefined) this.has_changed = true;
    return repaired;
  }

  #ofKind(kind: Kind, value: unknown, depth: number): unknown {
    switch (kind) {
      case 'schema':
        return isAbsent(value) ? undefined : this.#part(value, depth);
      case 'schemas':
        return Array.isArray(value) && value.length > 0
          ? same(
              value,
              value.map((one) => this.#part(one, depth)),
            )
          : undefined;
      case 'schema_map':
        return isObject(value) ? this.#map(value, depth) : undefined;
      case 'number':
        return typeof value === 'number' ? value : undefined;
      case 'count':
        return Number.isInteger(value) && (value as number) >= 0 ? value : undefined;
      case 'text':
        return typeof value === 'string' ? value : undefined;
      case 'flag':
        return typeof value === 'boolean' ? value : undefined;
      case 'names':
        return this.#names(value);
      case 'values':
        return this.#values(value);
      case 'pattern':
        return typeof value === 'string' && isPattern(value) ? value : undefined;
    }
  }

  #map(map: Json, depth: number): Json {
    const others = new Map<string, unknown>();
    for (const name of Object.keys(map)) {
      const other = this.#part(map[name], depth);
      if (other !== map[name]) others.set(name, other);
    }
    if (others.size === 0) return map;
    return Object.fromEntries(Object.entries(map).map(([name, one]) => [name, others.get(name) ?? one]));
  }

  #names(value: unknown): unknown {
    if (!Array.isArray(value)) return typeof value === 'string' ? [value] : undefined;
    const names = [...new Set(value)].filter((name) => typeof name === 'string');
    if (names.length === value.length) return value;
    this.has_changed = true;
    return names;
  }

  #values(value: unknown): unknown {
    if (!Array.isArray(value)) return typeof value === 'string' || typeof value === 'number' ? [value] : undefined;
    if (value.length === 0) return undefined;
    const different = [...new Map(value.map((one) => [JSON.stringify(one), one])).values()];
    if (different.length === value.length) return value;
    this.has_changed = true;
    return different;
  }

  #type(value: unknown): unknown {
    const types = (Array.isArray(value) ? value : [value]).map((one) =>
      typeof one === 'string' ? TYPES.get(one.toLowerCase()) : one === null ? 'null' : undefined,
    );
    const known = [...new Set(types)].filter((type) => type !== undefined);
    // Of a list with something unknown in it, anything may be meant.
    if (known.length === 0 || known.length < new Set(types).size) {
      this.has_changed = true;
      return undefined;
    }
    if (Array.isArray(value) ? known.every((type, index) => type === value[index]) : known[0] === value) {
      if (!Array.isArray(value) || known.length === value.length) return value;
    }
    this.has_changed = true;
    return Array.isArray(value) ? known : known[0];
  }

  /** In draft 4, `exclusiveMinimum: true` makes `minimum` the bound. */
  #bounds(schema: Json, repaired: Record<string, unknown>): void {
    for (const [bound, exclusive] of [
      ['minimum', 'exclusiveMinimum'],
      ['maximum', 'exclusiveMaximum'],
    ] as const) {
      if (schema[exclusive] !== true || typeof schema[bound] !== 'number') continue;
      repaired[exclusive] = schema[bound];
      delete repaired[bound];
    }
  }

  /** In draft 3, a property says itself that it is required. */
  #required(schema: Json, repaired: Record<string, unknown>): void {
    if (!isObject(schema.properties)) return;
    const named = Object.entries(schema.properties).flatMap(([name, property]) =>
      isObject(property) && property.required === true ? name : [],
    );
    if (named.length > 0) repaired.required = [...new Set([...requiredBy(schema), ...named])];
  }

  /** Until draft 2019-09, `items` may be a list of schemas, one for each place. */
  #lists(schema: Json, repaired: Record<string, unknown>, depth: number): void {
    if (Array.isArray(schema.items)) {
      this.has_changed = true;
      if (schema.items.length > 0) repaired.prefixItems = schema.items.map((one) => this.#part(one, depth));
      if (!isAbsent(schema.additionalItems)) repaired.items = this.#part(schema.additionalItems, depth);
      delete repaired.additionalItems;
    }
    if (this.#lacksItems(repaired)) repaired.items = {};
  }
}

/** Whether a value that had to go says something about what the schema allows. */
function isTelling(value: unknown): boolean {
  if (isAbsent(value) || value === false || value === '') return false;
  return Array.isArray(value) ? value.length > 0 : value !== 'any';
}

/** Also for a key like `__proto__`. */
function set(object: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
}

function same(before: readonly unknown[], after: readonly unknown[]): readonly unknown[] {
  return after.every((one, index) => one === before[index]) ? before : after;
}

/** Whether it can be read as a regular expression; upstreams check that. */
function isPattern(text: string): boolean {
  return ['u', ''].some((flags) => {
    try {
      return new RegExp(text, flags) !== undefined;
    } catch {
      return false;
    }
  });
}
