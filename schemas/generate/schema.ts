import type { JsonSchema } from '../../engine/api.ts';
import type { Sources } from './editor.ts';
import { type SchemaRow, schemaRows } from './format-schema.ts';
import { code, page, prose, tableOf } from './markdown.ts';

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

/** Replaces the schemas directly below a schema; `keyword` is the keyword of each. */
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

/** Definitions with a table of their own. */
const OWN_TABLES = ['entry', 'clause'];

/** Follows references to the definitions of a schema, but not into those with a table of their own. */
function resolverOf(root: JsonSchema): (schema: JsonSchema) => JsonSchema {
  const definitions = Object.fromEntries(schemasIn(root, 'definitions'));
  return function resolve(schema: JsonSchema): JsonSchema {
    if (typeof schema.$ref !== 'string') return schema;
    const { $ref, ...own } = schema;
    const name = schema.$ref.replace('#/definitions/', '');
    if (OWN_TABLES.includes(name)) return { type: 'object', ...own };
    return { ...resolve(definitions[name] ?? {}), ...own };
  };
}

/** A table of keys; `title` names their kind. */
export function keysTable(rows: readonly SchemaRow[], title = 'Key'): string {
  return tableOf(rows, {
    [title]: ({ path }) => code(path),
    Type: ({ type }) => type,
    Default: ({ required, default: value }) => (required ? 'required' : value === undefined ? '' : code(value)),
    Meaning: ({ description }) => description,
  });
}

/** The page about gateway.yaml: a table per section. */
export function gatewayPage({ gateway }: Sources): string {
  const rows = schemaRows(gateway, resolverOf(gateway));
  const sections = Map.groupBy(rows, ({ path }) => /^\w+/.exec(path)![0]);
  return page('gateway.yaml', [
    prose(String(gateway.description)),
    'Without a section its defaults apply, or the feature is off. `[]` is an item of a list, `*` a name of your choice. `required`: if the mapping with the key is present.',
    ...[...sections].flatMap(([section, [head, ...keys]]) => [
      `## ${section}`,
      ...(keys.length === 0
        ? [keysTable([head!])]
        : [`${prose(head!.description)}${head!.required ? ' Required.' : ''}`, keysTable(keys)]),
    ]),
  ]);
}

/** The page about pipelines, fragments and tests. */
export function pipelinePage({ pipeline, extension, fragment, pipeline_test }: Sources): string {
  const about = (title: string, schema: JsonSchema, more = '') => [
    `## ${title}`,
    `${prose(String(schema.description))} ${more}`.trim(),
    keysTable(schemaRows(schema, resolverOf(schema.definitions === undefined ? pipeline : schema))),
  ];
  const { entry, clause } = Object.fromEntries(schemasIn(pipeline, 'definitions'));
  return page('Pipelines', [
    'One file per pipeline, named after it, in the directory of `pipelines:` in gateway.yaml. A pipeline replaces a shipped one of the same name.',
    ...about('Pipeline', pipeline),
    ...about(
      'Entry of stages and finally',
      entry!,
      'An entry has either `stage`, with `options`, or `use`, with `with`.',
    ),
    ...about('Clause of on_error', clause!),
    ...about('Extension', extension, 'A file with the key `extends` is an extension.'),
    ...about('Fragment', fragment, 'It stands in `fragments/` beside the pipelines.'),
    ...about('Test', pipeline_test, 'It stands beside its pipeline as `<name>.test.yaml`.'),
  ]);
}

/** The page about managed policies. */
export function policyPage({ policy }: Sources): string {
  return page('Managed policies', [
    prose(String(policy.description)),
    keysTable(schemaRows(policy, resolverOf(policy))),
    'Several policies for a person are merged, starting with the default policy, the highest priority last. Mappings merge key by key; lists and other values are replaced. Deny lists are united: lists under a key whose first or last word is deny, disallow, block, disable or forbid, or denied, disallowed, and so on.',
  ]);
}

const WIDTH = 120;

/** @param used characters of its line before and after it. */
function write(value: unknown, indent: string, used: number): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const list = Array.isArray(value);
  const name = (key: string) => (list ? '' : `${JSON.stringify(key)}: `);
  const join = (text: (item: unknown, key: string) => string) =>
    Object.entries(value).map(([key, item]) => `${name(key)}${text(item, key)}`);
  const flat = join((item) => write(item, '', Number.NEGATIVE_INFINITY)).join(', ');
  const one_line = list || flat === '' ? flat : ` ${flat} `;
  const [open, close] = list ? '[]' : '{}';
  if (one_line.length + 2 + used <= WIDTH) return `${open}${one_line}${close}`;
  const inner = `${indent}  `;
  const lines = join((item, key) => write(item, inner, inner.length + name(key).length + 1));
  return `${open}\n${inner}${lines.join(`,\n${inner}`)}\n${indent}${close}`;
}

/** JSON with each value on one line if it fits into 120 characters. */
export function json(value: unknown): string {
  return `${write(value, '', 0)}\n`;
}
