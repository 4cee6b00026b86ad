/**
 * Checks of requests as strict as the real APIs': a closed shape for everything, then what a shape can't say.
 * @module
 */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';

/** A request the provider refuses. */
export class Refused extends Error {
  readonly param: string;

  constructor(param: string, message: string) {
    super(`${param}: ${message}`);
    this.param = param;
  }
}

/** Refuses unless this holds. */
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

/** An object whose `tag` says which of these it is. */
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

/** A check of a shape; refuses with the place of the first fault. */
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

/** Checks a schema that shall be obeyed to the letter: closed objects, and all of their keys required where asked. */
export function checkStrictSchema(schema: unknown, param: string, all_required: boolean): void {
  if (Array.isArray(schema)) for (const one of schema) checkStrictSchema(one, param, all_required);
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return;
  const { type, properties, required, additionalProperties } = schema as Record<string, unknown>;
  if (type === 'object') {
    demand(additionalProperties === false, param, "'additionalProperties' is required to be supplied and to be false");
    const keys = Object.keys((properties as object | undefined) ?? {});
    const named = new Set(Array.isArray(required) ? required : []);
    const missing = all_required ? keys.find((key) => !named.has(key)) : undefined;
    demand(missing === undefined, param, `'required' must include every key in properties. Missing '${missing}'`);
  }
  for (const value of Object.values(schema)) checkStrictSchema(value, param, all_required);
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
