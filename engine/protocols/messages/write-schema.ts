import { isObject } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { Notes } from '../translation/notes.ts';

/** Keys for alternatives and conjunctions, which the protocol takes anywhere but at the top. */
const AT_THE_TOP = ['anyOf', 'oneOf', 'allOf'] as const;

/** Whether a schema says at its top that one or all of several others hold. */
export function hasAlternatives(schema: Json): boolean {
  return AT_THE_TOP.some((key) => Object.hasOwn(schema, key));
}

/** The schema of a tool's arguments as the protocol takes it: of an object, without alternatives at the top, which become one object. */
export function writeSchema(parameters: Json, notes: Notes): Json {
  const schema = parameters.type === undefined ? { type: 'object', ...parameters } : parameters;
  if (!hasAlternatives(schema)) return schema;
  notes.note('schema_alternatives');
  const { anyOf, oneOf, allOf, ...own } = schema as Record<string, unknown>;
  const all = [own, ...schemasIn(allOf)];
  const alternatives = [schemasIn(anyOf), schemasIn(oneOf)];
  const properties = mergedProperties([...all, ...alternatives.flat()]);
  const required = new Set([...all.flatMap(requiredBy), ...alternatives.flatMap(requiredByEach)]);
  return {
    ...own,
    ...(properties !== undefined && { properties }),
    ...(required.size > 0 && { required: [...required] }),
  };
}

function schemasIn(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function requiredBy({ required }: Json): string[] {
  return Array.isArray(required) ? required.filter((key) => typeof key === 'string') : [];
}

/** What is required whichever of these holds. */
function requiredByEach(alternatives: readonly Json[]): string[] {
  const [first, ...rest] = alternatives.map((schema) => new Set(requiredBy(schema)));
  return [...(first ?? [])].filter((key) => rest.every((keys) => keys.has(key)));
}

/** Every property that one of these has; where they differ, each of its forms may be meant. */
function mergedProperties(schemas: readonly Json[]): Json | undefined {
  const forms = new Map<string, Map<string, unknown>>();
  for (const { properties } of schemas) {
    for (const [key, schema] of Object.entries(isObject(properties) ? properties : {})) {
      const known = forms.get(key) ?? new Map<string, unknown>();
      forms.set(key, known.set(JSON.stringify(schema), schema));
    }
  }
  if (forms.size === 0) return undefined;
  return Object.fromEntries(
    [...forms].map(([key, known]) => [key, known.size === 1 ? [...known.values()][0] : { anyOf: [...known.values()] }]),
  );
}
