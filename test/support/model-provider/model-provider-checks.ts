/** Checks of requests as strict as the real APIs': a closed shape for everything, then what a shape can't say. */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';

/** A request the provider rejects. */
export class Refused extends Error {
  readonly param: string;

  constructor(param: string, message: string) {
    super(`${param}: ${message}`);
    this.param = param;
  }
}

/** Rejects unless this is true. */
export function demand(holds: unknown, param: string, message: string): asserts holds {
  if (!holds) throw new Refused(param, message);
}

/** JSON Schema. */
export type Shape = Readonly<Record<string, unknown>>;

type Shapes = Readonly<Record<string, Shape>>;

export const TEXT = { type: 'string' };
export const FULL_TEXT = { type: 'string', minLength: 1 };
export const FLAG = { type: 'boolean' };
export const COUNT = { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
export const ANY_OBJECT = { type: 'object' };
export const SCHEMA_OBJECT = { type: 'object', required: ['type'], properties: { type: { const: 'object' } } };
export const METADATA = { type: 'object', maxProperties: 16, additionalProperties: { type: 'string', maxLength: 512 } };

/** A number from `low` to `high`. */
export const between = (low: number, high: number): Shape => ({ type: 'number', minimum: low, maximum: high });

/** A text that matches. */
export const matching = (pattern: string): Shape => ({ type: 'string', pattern });

/** One of these texts. */
export const oneOf = (...values: readonly string[]): Shape => ({ enum: values });

/** A list of these. */
export const listOf = (items: Shape, more: object = {}): Shape => ({ type: 'array', items, ...more });

/** One of these shapes, grouped by their JSON type. */
export const either = (...shapes: readonly Shape[]): Shape => ({ anyOf: shapes });

/** This, or null. */
export const orNull = (shape: Shape): Shape => ({ anyOf: [{ type: 'null' }, shape] });

/** An object with these keys and no others. */
export function object(required: Shapes, optional: Shapes = {}): Shape {
  const properties = { ...required, ...optional };
  return { type: 'object', properties, required: Object.keys(required), additionalProperties: false };
}

/** An object with its variant in `tag`. */
export function kinds(tag: string, shapes: Shapes): Shape {
  return {
    type: 'object',
    required: [tag],
    discriminator: { propertyName: tag },
    oneOf: Object.entries(shapes).map(([name, shape]) => ({
      ...shape,
      properties: { [tag]: { const: name }, ...(shape.properties as object) },
    })),
  };
}

const ajv2020 = new Ajv2020({ strict: false, validateFormats: false, logger: false });
const ajv = new Ajv({ discriminator: true, strict: false, allowUnionTypes: true });

function placeOf({ instancePath, params }: ErrorObject): string {
  const extra = params.additionalProperty ?? params.missingProperty;
  const path = instancePath.slice(1).replaceAll('/', '.');
  return [path, extra].filter((part) => part !== undefined && part !== '').join('.') || 'body';
}

function wordsFor(error: ErrorObject): string {
  if (error.keyword === 'additionalProperties') return 'Extra inputs are not permitted';
  if (error.keyword === 'required') return 'Field required';
  return `Input should be valid: ${error.message} ${JSON.stringify(error.params)}`;
}

/** A check of a shape; rejects with the place of the first fault. */
export function checker(shape: Shape): (value: unknown) => void {
  let validate: ValidateFunction | undefined;
  return (value) => {
    validate ??= ajv.compile(shape);
    if (validate(value)) return;
    // The deepest fault is the one meant: those above it only say that no alternative fits.
    const errors = [...(validate.errors ?? [])].sort(
      (one, other) => placeOf(other).split('.').length - placeOf(one).split('.').length,
    );
    throw new Refused(placeOf(errors[0]!), wordsFor(errors[0]!));
  };
}

/** Whose rules for schemas: those of the Messages API, or those of functions in chat completions and Responses. */
export type SchemaApi = 'messages' | 'functions';

const KEYWORDS =
  'type title description enum const anyOf $ref properties required additionalProperties items minItems format';
const CONSTRAINTS = 'maxItems pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf';
const FORMATS = 'date-time time date duration email hostname ipv4 ipv6 uuid';
/** What the guides on structured outputs of both vendors, and the error messages of their APIs, say of schemas that are enforced. */
const ENFORCED: Readonly<Record<SchemaApi, { readonly keywords: string; readonly formats: string }>> = {
  messages: { keywords: KEYWORDS, formats: `${FORMATS} uri` },
  functions: { keywords: `${KEYWORDS} ${CONSTRAINTS}`, formats: FORMATS },
};

type Schema = Readonly<Record<string, unknown>>;
type Place = (schema: Schema, param: string) => void;

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Every schema in a schema, the definitions too. */
function visit(value: unknown, param: string, see: Place): void {
  if (!isSchema(value)) return;
  see(value, param);
  for (const key of ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'])
    visit(value[key], `${param}.${key}`, see);
  for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems'])
    if (Array.isArray(value[key])) for (const [i, one] of value[key].entries()) visit(one, `${param}.${key}.${i}`, see);
  for (const key of ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
    for (const [name, one] of Object.entries(isSchema(value[key]) ? value[key] : {}))
      visit(one, `${param}.${key}.${name}`, see);
}

const META_SCHEMA = 'https://json-schema.org/draft/2020-12/schema';

function checkDraft(schema: Schema, param: string): void {
  const is_valid = ajv2020.validateSchema({ ...schema, $schema: META_SCHEMA });
  demand(is_valid, param, 'JSON schema is invalid. It must match JSON Schema draft 2020-12');
}

/** Rejects a schema that the model shall follow where the API cannot enforce it. */
export function checkEnforcedSchema(root: unknown, param: string, api: SchemaApi): void {
  demand(isSchema(root), param, 'expected a schema');
  checkDraft(root, param);
  const keywords = new Set(ENFORCED[api].keywords.split(' '));
  const references = new Map<string, string[]>();
  visit(root, param, (schema, at) => {
    const { type, properties = {}, required = [], items, format, minItems } = schema;
    const inside = /\.(?:\$defs|definitions)\.[^.]+/.exec(at)?.[0] ?? '';
    for (const key of Object.keys(schema)) {
      if (schema === root && (key === '$defs' || key === 'definitions')) continue;
      demand(keywords.has(key), at, `For '${String(type)}' type, property '${key}' is not supported`);
    }
    if (schema.$ref !== undefined) {
      demand(Object.keys(schema).length === 1, at, `$ref cannot have keywords ${Object.keys(schema)}`);
      const name = /^#\/(?:\$defs|definitions)\/[^/]+$/.exec(String(schema.$ref))?.[0];
      demand(name !== undefined || (api === 'functions' && schema.$ref === '#'), at, 'external or odd $ref');
      if (name !== undefined)
        references.set(inside, [...(references.get(inside) ?? []), name.slice(1).replaceAll('/', '.')]);
      return;
    }
    const is_said = type !== undefined || schema.anyOf !== undefined || (api === 'messages' && 'enum' in schema);
    demand(is_said, at, "schema must have a 'type' key");
    if (Array.isArray(schema.enum)) {
      demand(schema.enum.length > 0, at, 'enum must not be empty');
      demand(!schema.enum.some((value) => typeof value === 'object' && value !== null), at, 'complex types in enum');
    }
    if (format !== undefined)
      demand(ENFORCED[api].formats.split(' ').includes(String(format)), at, `'${format}' is not a valid format`);
    if (api === 'messages')
      demand(minItems === undefined || minItems === 0 || minItems === 1, at, 'minItems other than 0 and 1');
    if (api === 'functions' && type === 'array') demand(isSchema(items), at, 'array schema missing items');
    if (type !== 'object') return;
    demand(schema.additionalProperties === false, at, "'additionalProperties' must be explicitly set to false");
    const keys = Object.keys(properties as object);
    const named = new Set(required as string[]);
    const is_known = [...named].every((key) => keys.includes(key));
    demand(is_known, at, 'required has a key that is no property');
    const missing = api === 'functions' ? keys.find((key) => !named.has(key)) : undefined;
    demand(missing === undefined, at, `'required' must include every key in properties. Missing '${missing}'`);
  });
  if (api === 'functions') {
    demand(root.type === 'object' && root.anyOf === undefined, param, 'schema must be of \'type: "object"\'');
    return;
  }
  const leads = (from: string, seen: readonly string[]): boolean =>
    (references.get(from) ?? []).some((name) => seen.includes(name) || leads(`.${name.slice(1)}`, [...seen, name]));
  demand(!leads('', []), param, 'Circular reference detected in schema definitions');
}

/** Rejects tool schemas that either API rejects, strict or not. */
export function checkToolSchema(schema: unknown, param: string, api: SchemaApi): void {
  demand(isSchema(schema) && schema.type === 'object', param, `schema must be of 'type: "object"'`);
  const refused = api === 'messages' ? ['oneOf', 'allOf', 'anyOf'] : ['oneOf', 'anyOf', 'allOf', 'enum', 'not'];
  const found = refused.filter((key) => Object.hasOwn(schema, key));
  demand(found.length === 0, param, `schema does not support ${found} at the top level`);
  checkDraft(schema, param);
  if (api === 'messages') {
    const odd = Object.keys(isSchema(schema.properties) ? schema.properties : {}).find(
      (name) => !/^[a-zA-Z0-9_.-]{1,64}$/.test(name),
    );
    demand(odd === undefined, `${param}.properties`, "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'");
    return;
  }
  demand(isSchema(schema.properties), param, 'In context=(), object schema missing properties');
  visit(schema, param, ({ type, items }, at) => {
    const is_list = type === 'array' || (Array.isArray(type) && type.includes('array'));
    demand(!is_list || items !== undefined, at, 'array schema missing items');
  });
}

/** Rejects tools of the same name, and the schemas of all that are no strict ones. */
export function checkTools(
  tools: readonly { readonly name: string; readonly schema: unknown; readonly strict: unknown }[],
  api: SchemaApi,
): void {
  const names = tools.map(({ name }) => name);
  demand(new Set(names).size === names.length, 'tools', 'Tool names must be unique.');
  for (const [index, { schema, strict }] of tools.entries()) {
    // A function without a schema has no arguments.
    if (api === 'functions' && (schema ?? undefined) === undefined) continue;
    checkToolSchema(schema, `tools.${index}`, api);
    if (strict === true) checkEnforcedSchema(schema, `tools.${index}`, api);
  }
}

/** Checks data in base64. */
export function checkBase64(data: string, param: string): void {
  demand(data.length > 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(data) && data.length % 4 === 0, param, 'Invalid base64 data');
}

/** Media type and data of a data: URL. Raises Refused. */
export function readDataUrl(url: string, param: string): { readonly media_type: string; readonly data: string } {
  const match = /^data:([a-z]+\/[a-z0-9.+-]+);base64,(.*)$/s.exec(url);
  demand(match !== null, param, 'Expected a base64-encoded data URL');
  checkBase64(match[2]!, param);
  return { media_type: match[1]!, data: match[2]! };
}

export const IMAGE_TYPES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'];
