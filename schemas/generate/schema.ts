import type { JsonSchema } from '../../engine/api.ts';

const MAPS = ['properties', 'definitions'];
const SCHEMAS = ['items', 'additionalProperties', 'propertyNames', 'not', 'if', 'then', 'else'];
const LISTS = ['anyOf', 'allOf', 'oneOf'];

/** Whether a value is a schema with keywords, and not `true`, `false` or a list. */
export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The named schemas below a keyword such as `properties`. */
export function schemasIn(schema: JsonSchema, keyword: string): [name: string, schema: JsonSchema][] {
  const value = schema[keyword];
  return isSchema(value) ? (Object.entries(value) as [string, JsonSchema][]) : [];
}

/** Replaces the schemas directly below a schema; `keyword` says where each of them stands. */
export function mapChildren(
  schema: JsonSchema,
  change: (child: JsonSchema, keyword: string) => JsonSchema,
): Record<string, unknown> {
  const one = (value: unknown, keyword: string) => (isSchema(value) ? change(value, keyword) : value);
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => {
      if (MAPS.includes(keyword) && isSchema(value)) {
        return [keyword, Object.fromEntries(Object.entries(value).map(([name, child]) => [name, one(child, keyword)]))];
      }
      if (SCHEMAS.includes(keyword)) return [keyword, one(value, keyword)];
      if (LISTS.includes(keyword)) return [keyword, (value as unknown[]).map((child) => one(child, keyword))];
      return [keyword, value];
    }),
  );
}
