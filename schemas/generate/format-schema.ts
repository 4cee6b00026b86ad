import type { JsonSchema } from '../../engine/base/contract/json-schema.ts';
import { flow } from '../../engine/base/source/schema-errors.ts';

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'number',
  integer: 'whole number',
  boolean: 'true or false',
  array: 'list',
  object: 'mapping',
  null: 'nothing',
};

const BY_ANNOTATION: Readonly<Record<string, string>> = {
  'x-rule': 'condition',
  'x-secret': 'name of an environment variable',
  'x-secret-file': 'path',
  'x-url': 'URL',
  'x-address': 'IP address or range',
  'x-time-zone': 'time zone',
};

const either = (words: readonly string[]) =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;

function bounds({ minimum, exclusiveMinimum, maximum }: JsonSchema): string {
  const low = minimum === undefined ? exclusiveMinimum !== undefined && `above ${exclusiveMinimum}` : `from ${minimum}`;
  const parts = [low, maximum !== undefined && `up to ${maximum}`].filter(Boolean);
  return parts.length === 0 ? '' : `, ${parts.join(' ')}`;
}

/** What a value may be, for people: `text`, `list of texts`, `whole number, from 1 up to 1000`, `full or nothing`. */
function schemaType(schema: JsonSchema): string {
  const annotation = Object.keys(BY_ANNOTATION).find((key) => key in schema);
  if (annotation !== undefined) return BY_ANNOTATION[annotation]!;
  if (schema['x-ref'] !== undefined) return String(schema['x-ref']).replaceAll('-', ' ');
  if (typeof schema['x-path'] === 'string') return schema['x-path'] === 'directory' ? 'directory' : 'path';
  if (Array.isArray(schema.enum)) return either(schema.enum.map(flow));
  if ('const' in schema) return flow(schema.const);
  const alternatives = alternativesOf(schema);
  if (alternatives.length > 0) return either(alternatives.map(schemaType));
  const types = [schema.type ?? []].flat() as string[];
  if (types.length === 0) return 'any value';
  if (types.length === 1 && types[0] === 'array') return listType(schema.items as JsonSchema | undefined);
  return `${either(types.map((type) => TYPES[type] ?? type))}${bounds(schema)}`;
}

/** The values a schema has a choice of; none if it only lists required keys. */
function alternativesOf({ anyOf = [] }: JsonSchema): readonly JsonSchema[] {
  return (anyOf as readonly JsonSchema[]).filter((branch) => Object.keys(branch).some((key) => key !== 'required'));
}

function listType(items: JsonSchema | undefined): string {
  if (items === undefined) return 'list';
  const type = schemaType(items);
  if (items.enum !== undefined) return `list of ${type.replace(/ or (?=[^ ]+$)/, ' and ')}`;
  if (alternativesOf(items).length > 0) return `list, each ${type}`;
  const plural: Readonly<Record<string, string>> = { 'IP address or range': 'IP addresses or ranges' };
  return `list of ${plural[type] ?? `${type}s`}`;
}

/** One option of a stage or key of a file, ready for a table. */
export interface SchemaRow {
  /** Dotted path; `[]` stands for an item of a list, `*` for a name of one's own. */
  readonly path: string;
  readonly type: string;
  readonly required: boolean;
  /** In YAML's flow style. */
  readonly default: string | undefined;
  readonly description: string;
}

/** The values a schema describes, outermost first; `resolve` returns the schema of a reference. */
export function schemaRows(
  schema: JsonSchema,
  resolve: (schema: JsonSchema) => JsonSchema = (found) => found,
  prefix = '',
): SchemaRow[] {
  const required = (schema.required as readonly string[] | undefined) ?? [];
  const named = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>);
  const others = schema.additionalProperties;
  const free = typeof others === 'object' && others !== null ? [['*', others as JsonSchema] as const] : [];
  const chosen = alternativesOf(schema).flatMap((branch) => schemaRows(branch, resolve, prefix));
  const rows = [...named, ...free].flatMap(([key, found]) => {
    const child = resolve(found);
    const path = `${prefix}${key}`;
    const is_list = child.type === 'array';
    const inner: JsonSchema = is_list ? resolve((child.items ?? {}) as JsonSchema) : child;
    const below = schemaRows(inner, resolve, `${path}${is_list ? '[]' : ''}.`);
    if (key === '*' && child.description === undefined) return below;
    const row: SchemaRow = {
      path,
      type: schemaType(is_list ? { ...child, items: inner } : child),
      required: required.includes(key),
      default: plainDefault(child),
      description: String(child.description ?? ''),
    };
    return [row, ...below];
  });
  return [...rows, ...chosen];
}

/** The default of a value in YAML's flow style; `undefined` where there is none, or the keys below have their own. */
function plainDefault({ default: value }: JsonSchema): string | undefined {
  return value === undefined || JSON.stringify(value) === '{}' ? undefined : flow(value);
}
