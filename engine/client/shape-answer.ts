import type { JsonSchema } from '../contract/json-schema.ts';
import { printable } from '../kit/text/printable.ts';
import { fieldsOf } from './answers.ts';

const NESTING_MAX = 20;

/** An answer without what moves the cursor, and without what is nested deeper than anything a gateway says. */
export function safeToShow(value: unknown, levels = NESTING_MAX): unknown {
  if (typeof value === 'string') return printable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return null;
  if (Array.isArray(value)) return value.map((part) => safeToShow(part, levels - 1));
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [printable(key), safeToShow(part, levels - 1)]));
}

/**
 * An answer in the form its schema has, whatever was sent: what is missing or of another kind is `null` where that may be,
 * else empty; what the schema does not have is left out. Texts are safe to show.
 */
export function shapeAnswer(schema: JsonSchema, value: unknown): unknown {
  const types = [schema.type].flat();
  const { items, properties, additionalProperties, allOf } = schema as {
    readonly items?: JsonSchema;
    readonly properties?: object;
    readonly additionalProperties?: JsonSchema | boolean;
    readonly allOf?: object;
  };
  if (types.includes('null') && (value === null || value === undefined)) return null;
  if (types.includes('array')) return Array.isArray(value) ? value.map((each) => shapeAnswer(items ?? {}, each)) : [];
  if (properties !== undefined || allOf !== undefined) return shapeObject(schema, fieldsOf(value));
  if (types.includes('object')) {
    const each = typeof additionalProperties === 'object' ? additionalProperties : {};
    return Object.fromEntries(
      Object.entries(fieldsOf(value)).map(([key, one]) => [printable(key), shapeAnswer(each, one)]),
    );
  }
  if (types.includes('boolean')) return value === true;
  if (types.includes('number') || types.includes('integer'))
    return typeof value === 'number' ? value : emptyOf(types, 0);
  if (types.includes('string')) return typeof value === 'string' ? printable(value) : emptyOf(types, '');
  if (schema.enum !== undefined) return typeof value === 'string' ? printable(value) : (schema.enum as unknown[])[0];
  return safeToShow(value);
}

function emptyOf(types: readonly unknown[], empty: number | string): number | string | null {
  return types.includes('null') ? null : empty;
}

/** Of what need not be there only what is. */
function shapeObject(schema: JsonSchema, fields: Readonly<Record<string, unknown>>): object {
  const {
    properties = {},
    required = [],
    allOf = [],
  } = schema as {
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
    readonly allOf?: readonly JsonSchema[];
  };
  const own = Object.entries(properties)
    .filter(([name]) => required.includes(name) || fields[name] !== undefined)
    .map(([name, each]) => [name, shapeAnswer(each, fields[name])]);
  return Object.assign({}, ...allOf.map((each) => shapeObject(each, fields)), Object.fromEntries(own));
}
