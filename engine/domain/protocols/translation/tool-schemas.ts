import { percentDecoded } from '../../../base/kit/text/percent.ts';
import { invalid, isAbsent, isObject, itemsOf, kindOf, objectsIn, present } from '../read-json.ts';
import type { Json, OutputFormat, Tool } from './conversation.ts';
import type { Notes } from './rules.ts';

/** What upstreams of a protocol accept of schemas, tool names and stop sequences, as their vendor documents or enforces it. */
export interface Accepted {
  /** Keywords that must not stand at the top of a tool's schema; alternatives there become one object. */
  readonly refused_at_top: readonly string[];
  /** Whether objects at the top must have `properties`, and lists `items`, anywhere. */
  readonly explicit: boolean;
  /** Whether `$schema` may stay; some servers reject the name. */
  readonly dialect: boolean;
  /** What names of properties at the top look like; absent: anything. */
  readonly property_name?: RegExp;
  /** Keywords of a schema that upstreams enforce, for a strict tool or the output. */
  readonly held: {
    /** Keywords that constrain values and may stay; those of structure always do. */
    readonly keywords: ReadonlySet<string>;
    readonly formats: ReadonlySet<string>;
    readonly min_items_max: number;
    /** Whether `required` must name every property. */
    readonly all_required: boolean;
    /** Whether a definition may refer to itself. */
    readonly recursion: boolean;
    /** Whether a list of alternatives may stand at the top. */
    readonly alternatives_at_top: boolean;
    /** Whether `enum` and lists need a `type` or `items` beside them. */
    readonly fully_typed: boolean;
    /** The most of one request: strict tools, properties that may be left out, properties of several types. */
    readonly most: { readonly tools: number; readonly optional: number; readonly unions: number };
  };
  readonly tool_name_chars: number;
  /** How many stop sequences, and whether blank ones are among them. */
  readonly stops: { readonly most: number; readonly blank: boolean };
}

/** Values of `format` for texts that every protocol knows. */
export const STRING_FORMATS = ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'];

/** Functions of chat completions and Responses have the same rules: guides "Function calling" and "Structured outputs". */
export const FUNCTIONS: Omit<Accepted, 'stops'> = {
  refused_at_top: ['anyOf', 'oneOf', 'allOf', 'enum', 'const', 'not'],
  explicit: true,
  dialect: false,
  held: {
    keywords: new Set([
      ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
      ...['minLength', 'maxLength', 'pattern', 'format', 'minItems', 'maxItems'],
    ]),
    formats: new Set(STRING_FORMATS),
    min_items_max: Infinity,
    all_required: true,
    recursion: true,
    alternatives_at_top: false,
    fully_typed: true,
    most: { tools: Infinity, optional: 0, unions: Infinity },
  },
  tool_name_chars: 64,
};

/** Converts schemas: an invalid one would make upstreams reject every request of a session. */

const NO_PARAMETERS = { type: 'object', properties: {} } as const;

const REFERENCES_MAX = 16;

/** The schema of a tool; null, `true`, `false` or none constrain nothing. Raises invalid_request. */
export function readSchema(value: unknown, param: string): Json {
  if (isObject(value)) return value;
  if (isAbsent(value) || typeof value === 'boolean') return NO_PARAMETERS;
  throw invalid(param, `must be an object, not ${kindOf(value)}`);
}

/** A schema with removed keywords in its description, in the format of the vendors' SDKs. */
function described(schema: Json, moved: Readonly<Record<string, unknown>>): Json {
  const entries = Object.entries(moved);
  if (entries.length === 0) return schema;
  const words = `{${entries.map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join(', ')}}`;
  const { description } = schema;
  const before = typeof description === 'string' && description !== '' ? `${description}\n\n` : '';
  return { ...schema, description: before + words };
}

/** The part of a schema that a reference like `#/$defs/name` points to; `undefined` where there is none. RFC 6901. */
function resolveReference(root: Json, reference: unknown): unknown {
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
  // Not all generators of references escape a percent sign.
  return percentDecoded(step).replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The schema of a tool's arguments as an upstream accepts it. */
export function writeSchema(parameters: Json, accepted: Accepted, notes: Notes): Json {
  const { explicit, dialect, property_name } = accepted;
  const repair = new Repair(explicit);
  let schema = repair.schema(parameters, 0);
  if (!dialect && Object.hasOwn(schema, '$schema')) schema = without(schema, ['$schema']);
  schema = withoutAlternatives(withoutReference(schema, repair), accepted, notes);
  schema = ofObject(schema, repair);
  if (explicit && !isObject(schema.properties)) schema = { ...schema, properties: {} };
  if (property_name !== undefined) schema = withNames(schema, property_name, notes);
  if (repair.has_changed) notes.note('tool_schema');
  return schema;
}

function repairSchema(schema: Json, { explicit }: Accepted, notes: Notes): Json {
  const repair = new Repair(explicit);
  const repaired = repair.schema(schema, 0);
  if (repair.has_changed) notes.note('tool_schema');
  return repaired;
}

function hasAlternatives(schema: Json): boolean {
  return ALTERNATIVES.some((key) => Object.hasOwn(schema, key));
}

const ALTERNATIVES = ['anyOf', 'oneOf', 'allOf'];

function without(schema: Json, keys: readonly string[]): Json {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !keys.includes(key)));
}

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

/** Merges top-level alternatives into one object; other keywords not allowed there go into the description. */
function withoutAlternatives(schema: Json, { refused_at_top }: Accepted, notes: Notes): Json {
  const refused = refused_at_top.filter((key) => Object.hasOwn(schema, key));
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
    objectsIn(list).map((one) => (Object.hasOwn(one, '$ref') ? resolvedOnce(schema, one) : one));
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

function requiredBy({ required }: Json): string[] {
  return itemsOf(required).filter((key) => typeof key === 'string');
}

function requiredByEach(alternatives: readonly Json[]): string[] {
  // Alternatives may be equal.
  const lists = [...new Set(alternatives.map(({ required }) => required))];
  const [first, ...rest] = lists.map((required) => new Set(requiredBy({ required })));
  return [...(first ?? [])].filter((key) => rest.every((keys) => keys.has(key)));
}

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

function ofObject(schema: Json, repair: Repair): Json {
  const { type } = schema;
  if (type === 'object') return schema;
  if (type === undefined) return { type: 'object', ...schema };
  if (Array.isArray(type) && type.includes('object')) return { ...schema, type: 'object' };
  repair.has_changed = true;
  return described({ ...without(schema, ['type']), type: 'object' }, { type });
}

/** Properties with invalid names become name patterns; the description has their names. */
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

/** The type of a keyword's value, by the meta-schema of draft 2020-12. */
type Kind = 'schema' | 'schemas' | 'schema_map' | 'number' | 'count' | 'text' | 'flag' | 'names' | 'values' | 'pattern';

/** Keywords whose values are checked. `type`, `items` and exclusive bounds have their own rules. */
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

const OF_SCHEMAS: ReadonlySet<Kind | undefined> = new Set<Kind>(['schema', 'schemas', 'schema_map']);

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

function typeNamed(name: unknown): string | undefined {
  if (name === null) return 'null';
  return typeof name === 'string' ? TYPES.get(name.toLowerCase()) : undefined;
}

const PLAIN: Readonly<Partial<Record<Kind, (value: unknown) => boolean>>> = {
  number: (value) => typeof value === 'number',
  count: (value) => Number.isInteger(value) && (value as number) >= 0,
  text: (value) => typeof value === 'string',
  flag: (value) => typeof value === 'boolean',
  pattern: (value) => typeof value === 'string' && isPattern(value),
};

/** Converts a schema to draft 2020-12. Valid parts stay as they are. */
class Repair {
  has_changed = false;
  readonly #explicit: boolean;

  constructor(explicit: boolean) {
    this.#explicit = explicit;
  }

  schema(schema: Json, depth: number): Json {
    if (depth > DEPTH_MAX) return schema;
    const entries = Object.entries(schema).map(([key, value]) => [key, value, this.#value(key, value, depth)] as const);
    if (entries.every(([, value, other]) => value === other) && !this.#lacksItems(schema)) return schema;
    const repaired: Record<string, unknown> = {};
    const moved: Record<string, unknown> = {};
    for (const [key, value, other] of entries) {
      if (other !== undefined) set(repaired, key, other);
      else if (isTelling(value) && !OF_SCHEMAS.has(KINDS.get(key))) moved[key] = value;
    }
    this.#bounds(schema, repaired);
    this.#required(schema, repaired);
    this.#lists(schema, repaired, depth);
    // Keywords of older drafts that are converted here need no description.
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

  #part(value: unknown, depth: number): unknown {
    if (isObject(value)) return this.schema(value, depth + 1);
    if (typeof value === 'boolean') return value;
    this.has_changed = true;
    const type = value === null ? undefined : typeNamed(value);
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
    const isRight = PLAIN[kind];
    if (isRight !== undefined) return isRight(value) ? value : undefined;
    if (kind === 'schema') return isAbsent(value) ? undefined : this.#part(value, depth);
    if (kind === 'schema_map') return isObject(value) ? this.#map(value, depth) : undefined;
    if (kind === 'names') return this.#names(value);
    if (kind === 'values') return this.#values(value);
    if (!Array.isArray(value) || value.length === 0) return undefined;
    const parts = value.map((one) => this.#part(one, depth));
    return parts.every((one, index) => one === value[index]) ? value : parts;
  }

  #changed<T>(value: T): T {
    this.has_changed = true;
    return value;
  }

  #map(map: Json, depth: number): Json {
    const parts = Object.entries(map).map(([name, one]) => [name, this.#part(one, depth)] as const);
    return parts.every(([name, one]) => one === map[name]) ? map : Object.fromEntries(parts);
  }

  #names(value: unknown): unknown {
    if (!Array.isArray(value)) return typeof value === 'string' ? [value] : undefined;
    const names = [...new Set(value)].filter((name) => typeof name === 'string');
    return names.length === value.length ? value : this.#changed(names);
  }

  #values(value: unknown): unknown {
    if (!Array.isArray(value)) return typeof value === 'string' || typeof value === 'number' ? [value] : undefined;
    if (value.length === 0) return undefined;
    const different = [...new Map(value.map((one) => [JSON.stringify(one), one])).values()];
    return different.length === value.length ? value : this.#changed(different);
  }

  #type(value: unknown): unknown {
    const declared_types: readonly unknown[] = Array.isArray(value) ? value : [value];
    const types = new Set(declared_types.map(typeNamed));
    // A list with an unknown type may mean any type.
    if (types.size === 0 || types.has(undefined)) return this.#changed(undefined);
    const known = [...types];
    if (known.length === declared_types.length && known.every((type, index) => type === declared_types[index]))
      return value;
    return this.#changed(Array.isArray(value) ? known : known[0]);
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

  /** In draft 3, the property itself has `required`. */
  #required(schema: Json, repaired: Record<string, unknown>): void {
    if (!isObject(schema.properties)) return;
    const named = Object.entries(schema.properties).flatMap(([name, property]) =>
      isObject(property) && property.required === true ? name : [],
    );
    if (named.length > 0) repaired.required = [...new Set([...requiredBy(schema), ...named])];
  }

  /** Until draft 2019-09, `items` may be a list of schemas, one for each position. */
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

function isTelling(value: unknown): boolean {
  if (isAbsent(value) || value === false || value === '') return false;
  return Array.isArray(value) ? value.length > 0 : value !== 'any';
}

/** Sets a property, even for a key like `__proto__`. */
function set(object: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
}

/** Whether it is a valid regular expression; upstreams check that. */
function isPattern(text: string): boolean {
  return ['u', ''].some((flags) => {
    try {
      return new RegExp(text, flags) !== undefined;
    } catch {
      return false;
    }
  });
}

/**
 * Schemas that the upstream enforces: of strict tools and of responses. Upstreams accept a subset of JSON Schema for them.
 * Unsupported constraints go into the description, as in the vendors' SDKs. A schema whose meaning would change is not
 * converted.
 */

/** Bound on the parts of a strict schema, including references; larger schemas are not strict. */
const PARTS_MAX = 10_000;
const DEPTH_MAX = 64;

type Cost = Accepted['held']['most'];

/** The use of a schema: a tool works without strictness, but a response without a schema would differ. */
type Use = 'tool' | 'answer';

export type StrictSchemas = ReturnType<typeof createStrictSchemas>;

/** Creates the schemas of one request that the upstream enforces: strict tools, and the response. */
export function createStrictSchemas(accepted: Accepted, notes: Notes) {
  const left: { -readonly [K in keyof Cost]: Cost[K] } = { ...accepted.held.most };

  const hold = (schema: Json, use: Use): Json | undefined => {
    const fitting = new Fitting(repairSchema(schema, accepted, notes), accepted, use);
    const fitted = fitting.fit();
    if (fitted === undefined) return undefined;
    const cost: Cost = { tools: use === 'tool' ? 1 : 0, optional: fitting.optional, unions: fitting.unions };
    const keys = Object.keys(cost) as (keyof Cost)[];
    if (keys.some((key) => cost[key] > left[key])) return undefined;
    for (const key of keys) left[key] -= cost[key];
    if (fitting.has_moved) notes.note('schema_constraints');
    if (fitting.has_closed) notes.note('schema_closed');
    return fitted;
  };

  return {
    /** The schema of a tool, and `strict` if the client sets it. */
    tool({ parameters, strict }: Tool): { readonly schema: Json; readonly strict?: boolean } {
      const held = strict === true ? hold(parameters, 'tool') : undefined;
      if (held !== undefined) return { schema: held, strict: true };
      // Top-level alternatives have their own note.
      if (strict === true && !hasAlternatives(parameters)) notes.note('strict_schema');
      const schema = writeSchema(parameters, accepted, notes);
      return strict === false ? { schema, strict } : { schema };
    },
    /** The schema of the response; `undefined`, which the caller notes, if the upstream cannot enforce it. */
    answer: ({ schema }: Extract<OutputFormat, { kind: 'json_schema' }>) => hold(schema, 'answer'),
  };
}

/** The response schema of chat completions and Responses. @param unenforced `strict` where the upstream cannot enforce it */
export function writeAnswerFormat(
  format: Extract<OutputFormat, { kind: 'json_schema' }>,
  accepted: Accepted,
  notes: Notes,
  unenforced?: false,
) {
  const { name = 'answer', description, strict } = format;
  const held = strict === true ? createStrictSchemas(accepted, notes).answer(format) : undefined;
  const is_lost = strict === true && held === undefined;
  if (is_lost) notes.note('strict_schema');
  const schema = held ?? repairSchema(format.schema, accepted, notes);
  return present({ name, description, schema, strict: is_lost ? unenforced : strict });
}

/** Keywords that do not constrain values. */
const ANNOTATIONS = new Set(['$schema', '$id', '$comment', '$anchor', 'readOnly', 'writeOnly', 'deprecated']);

const ASIDE = ['$defs', 'definitions', ...ANNOTATIONS];

const STRUCTURE = new Set([
  ...['$ref', '$defs', 'definitions', 'type', 'title', 'description', 'enum', 'const', 'anyOf', 'oneOf', 'allOf'],
  ...['properties', 'required', 'additionalProperties', 'patternProperties', 'items', 'prefixItems'],
]);

const OF_TYPE: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties', 'patternProperties', 'minProperties', 'maxProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems', 'uniqueItems', 'contains'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
};

const TYPED = new Set(Object.values(OF_TYPE).flat());

const CONSTRAINTS = new Set([...TYPED, 'not', 'if', 'then', 'else']);

const WORDS = new Set(['title', 'description']);

const DEFINITION = /^#\/(\$defs|definitions)\/([^/]+)$/;

class Unfit extends Error {}

class Fitting {
  has_moved = false;
  has_closed = false;
  optional = 0;
  unions = 0;
  readonly #root: Json;
  readonly #accepted: Accepted;
  readonly #use: Use;
  #parts = 0;
  /** Converted definitions by reference; `undefined` while one is being converted. */
  readonly #definitions = new Map<string, Json | undefined>();

  constructor(root: Json, accepted: Accepted, use: Use) {
    this.#root = root;
    this.#accepted = accepted;
    this.#use = use;
  }

  /** The converted schema; `undefined` if its meaning would change. */
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

  #whole(): Json {
    const schema = this.#part(this.#root, 0);
    const maps: Record<string, [string, unknown][]> = {};
    for (const [reference, definition] of this.#definitions) {
      const [, container, name] = DEFINITION.exec(reference)!;
      maps[container!] ??= [];
      maps[container!]!.push([keyOf(name!), definition]);
    }
    const entries = Object.entries(maps).map(([container, list]) => [container, Object.fromEntries(list)] as const);
    return { ...schema, ...Object.fromEntries(entries) };
  }

  /** Counts processed parts, which bounds the time. */
  #count(parts: number): void {
    this.#parts += parts;
    if (this.#parts > PARTS_MAX) throw new Unfit();
  }

  #part(value: unknown, depth: number): Json {
    this.#count(1);
    if (!isObject(value) || depth > DEPTH_MAX) throw new Unfit();
    if (Object.hasOwn(value, '$ref')) return this.#reference(value, depth);
    if (Array.isArray(value.allOf)) {
      const [only, ...more] = value.allOf;
      if (more.length > 0) throw new Unfit();
      return this.#part(this.#beside(only, without(value, ['allOf'])), depth + 1);
    }
    const [key, list] = Array.isArray(value.anyOf) ? ['anyOf', value.anyOf] : ['oneOf', value.oneOf];
    if (Array.isArray(list) && list.length > 0) return this.#alternatives(value, key as string, list, depth);
    return this.#plain(value, depth);
  }

  #reference(schema: Json, depth: number): Json {
    const { recursion } = this.#accepted.held;
    const reference = schema.$ref;
    const target = resolveReference(this.#root, reference);
    const rest = without(schema, ['$ref', ...ASIDE]);
    if (typeof reference !== 'string' || !isObject(target)) throw new Unfit();
    // No upstream accepts keywords beside a reference, so the target replaces it, unless it is recursive.
    if (depth === 0 || Object.keys(rest).length > 0) return this.#part(this.#beside(target, rest), depth + 1);
    if (reference === '#' && recursion) return { $ref: reference };
    if (!DEFINITION.test(reference)) return this.#part(target, depth + 1);
    if (!this.#definitions.has(reference)) {
      this.#definitions.set(reference, undefined);
      this.#definitions.set(reference, this.#part(target, depth + 1));
    } else if (this.#definitions.get(reference) === undefined && !recursion) throw new Unfit();
    return { $ref: reference };
  }

  #beside(schema: unknown, rest: Json): Json {
    if (!isObject(schema)) throw new Unfit();
    this.#count(Object.keys(schema).length);
    const both: Record<string, unknown> = { ...schema };
    for (const [key, value] of Object.entries(rest)) {
      if (ASIDE.includes(key)) continue;
      const is_free = WORDS.has(key) || (both[key] === undefined && (key === 'type' || !STRUCTURE.has(key)));
      if (is_free) set(both, key, value);
      else if (both[key] !== value) throw new Unfit();
    }
    return both;
  }

  #alternatives(schema: Json, key: string, list: readonly unknown[], depth: number): Json {
    const beside: Record<string, unknown> = {};
    const moved: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(schema)) {
      if (name === key || WORDS.has(name) || ASIDE.includes(name)) continue;
      (STRUCTURE.has(name) || CONSTRAINTS.has(name) ? beside : moved)[name] = value;
    }
    // Constraints beside alternatives apply to each of them.
    const fitted = list.map((one) => this.#part(this.#beside(one, beside), depth + 1));
    const [only] = fitted;
    const is_one = fitted.length === 1 && !Object.hasOwn(only!, '$ref');
    if (!is_one) this.unions += 1;
    return this.#describe({ ...(is_one ? only : { anyOf: fitted }), ...wordsOf(schema) }, moved);
  }

  #plain(schema: Json, depth: number): Json {
    const literal = literalOf(schema);
    const type = literal === undefined ? typeOf(schema) : undefined;
    if (Array.isArray(type) && type.some((one) => one === 'object' || one === 'array')) {
      const each = type.map((one) => ({ type: one, ...ofType(schema, one) }));
      const others = Object.entries(schema).filter(([key]) => key !== 'type' && !TYPED.has(key));
      return this.#alternatives({ ...Object.fromEntries(others), anyOf: each }, 'anyOf', each, depth);
    }
    const fitted: Record<string, unknown> = {};
    const moved: Record<string, unknown> = {};
    if (literal !== undefined) Object.assign(fitted, this.#literal(schema, literal));
    else {
      fitted.type = type;
      if (Array.isArray(type)) this.unions += 1;
      if (type === 'object') Object.assign(fitted, this.#object(schema, depth, moved));
      if (type === 'array') Object.assign(fitted, this.#list(schema, depth));
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
    // The values imply their type, but some upstreams require it.
    const own = fits ? said : types.length === 1 ? types[0] : this.#accepted.held.fully_typed ? types : undefined;
    return {
      ...(own !== undefined && { type: own }),
      ...(Object.hasOwn(schema, 'const') ? { const: values[0] } : { enum: values }),
    };
  }

  #object(schema: Json, depth: number, moved: Record<string, unknown>): Json {
    const declared_properties = isObject(schema.properties) ? schema.properties : {};
    const { additionalProperties, patternProperties } = schema;
    const names = Object.keys(declared_properties);
    const is_open = additionalProperties !== undefined && additionalProperties !== false;
    const is_map = is_open || (isObject(patternProperties) && Object.keys(patternProperties).length > 0);
    // A closed map would always be empty, and so would an object without declared properties.
    const is_tool = this.#use === 'tool';
    const is_free = names.length === 0 && additionalProperties === undefined && !(is_tool && depth === 0);
    if (is_free || (is_map && (names.length === 0 || is_tool))) throw new Unfit();
    if (is_open) moved.additionalProperties = additionalProperties;
    if (is_map && patternProperties !== undefined) moved.patternProperties = patternProperties;
    if (additionalProperties !== false) this.has_closed = true;
    const required = [...new Set(requiredBy(schema))];
    const known = required.filter((name) => Object.hasOwn(declared_properties, name));
    if (known.length < required.length)
      moved.required = required.filter((name) => !Object.hasOwn(declared_properties, name));
    this.optional += names.length - known.length;
    const properties = names.map((name) => [name, this.#part(declared_properties[name], depth + 1)] as const);
    const is_said = known.length > 0 || Array.isArray(schema.required) || this.#accepted.held.all_required;
    return {
      properties: Object.fromEntries(properties),
      ...(is_said && { required: known }),
      additionalProperties: false,
    };
  }

  #list({ items, prefixItems }: Json, depth: number): Json {
    if (prefixItems !== undefined) throw new Unfit();
    const is_free = items === undefined || items === true || (isObject(items) && Object.keys(items).length === 0);
    if (!is_free) return { items: this.#part(items, depth + 1) };
    if (this.#accepted.held.fully_typed) throw new Unfit();
    return {};
  }

  #describe(schema: Json, moved: Readonly<Record<string, unknown>>): Json {
    if (Object.keys(moved).length > 0) this.has_moved = true;
    return described(schema, moved);
  }
}

function wordsOf({ title, description }: Json): Json {
  return { ...(typeof title === 'string' && { title }), ...(typeof description === 'string' && { description }) };
}

function jsonType(value: unknown): string {
  if (value === null) return 'null';
  return typeof value === 'number' ? (Number.isInteger(value) ? 'integer' : 'number') : typeof value;
}

/** The few scalar values that a schema allows. Raises Unfit where it allows none. */
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

function typeOf(schema: Json): string | readonly string[] {
  const { type } = schema;
  if (typeof type === 'string') return type;
  if (Array.isArray(type) && type.length > 0) return type.length === 1 ? type[0] : type;
  const about = Object.entries(OF_TYPE).filter(([, keys]) => keys.some((key) => Object.hasOwn(schema, key)));
  if (about.length !== 1) throw new Unfit();
  return about[0]![0];
}

function ofType(schema: Json, type: string): Json {
  const own = OF_TYPE[type === 'integer' ? 'number' : type] ?? [];
  return Object.fromEntries(Object.entries(schema).filter(([key]) => own.includes(key)));
}
