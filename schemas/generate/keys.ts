import type { JsonSchema } from '../../engine/api.ts';
import { type SchemaRow, schemaRows } from '../../engine/cli/explain/format-schema.ts';
import type { Sources } from './editor.ts';
import { code, page, prose, table } from './markdown.ts';
import { schemasIn } from './schema.ts';

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

function keysTable(rows: readonly SchemaRow[]): string {
  return table(
    ['Key', 'Type', 'Default', 'Meaning'],
    rows.map(({ path, type, required, default: value, description }) => [
      code(path),
      type,
      required ? 'required' : value === undefined ? '' : code(value),
      description,
    ]),
  );
}

/** The page about gateway.yaml: a table per section. */
export function gatewayPage({ gateway }: Sources): string {
  const rows = schemaRows(gateway, resolverOf(gateway));
  const sections = Map.groupBy(rows, ({ path }) => /^\w+/.exec(path)![0]);
  return page('gateway.yaml', [
    prose(String(gateway.description)),
    'Without a section its defaults apply, or the feature is off. `[]` means an item of a list, `*` a name of yours. `required` means: where the mapping around the key is present.',
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
  const resolve = resolverOf(pipeline);
  const { entry, clause } = Object.fromEntries(schemasIn(pipeline, 'definitions'));
  return page('Pipelines', [
    'One file per pipeline, named after it, in the directory that `pipelines:` in gateway.yaml names. A pipeline of the same name as a shipped one replaces it.',
    '## Pipeline',
    prose(String(pipeline.description)),
    keysTable(schemaRows(pipeline, resolve)),
    '## Entry of stages and finally',
    `${prose(String(entry!.description))} An entry has either \`stage\`, with \`options\`, or \`use\`, with \`with\`.`,
    keysTable(schemaRows(entry!, resolve)),
    '## Clause of on_error',
    prose(String(clause!.description)),
    keysTable(schemaRows(clause!, resolve)),
    '## Extension',
    `${prose(String(extension.description))} A file is an extension when it has the key \`extends\`.`,
    keysTable(schemaRows(extension, resolverOf(extension))),
    '## Fragment',
    `${prose(String(fragment.description))} It stands in \`fragments/\` beside the pipelines.`,
    keysTable(schemaRows(fragment, resolverOf(fragment))),
    '## Test',
    `${prose(String(pipeline_test.description))} It stands beside its pipeline as \`<name>.test.yaml\`.`,
    keysTable(schemaRows(pipeline_test, resolverOf(pipeline_test))),
  ]);
}

/** The page about managed policies. */
export function policyPage({ policy }: Sources): string {
  return page('Managed policies', [
    prose(String(policy.description)),
    keysTable(schemaRows(policy, resolverOf(policy))),
    'Of several policies that are meant for somebody, the default policy is at the bottom and the one with the highest priority on top. Mappings merge key by key; lists and everything else are replaced; deny lists are united: lists under a key whose first or last word is deny, disallow, block, disable or forbid, or denied, disallowed, and so on.',
  ]);
}
