import { ADMIN_API_DOCUMENT, ADMIN_OPERATIONS } from '../../engine/admin/description.ts';
import type { JsonSchema } from '../../engine/api.ts';
import { isSchema } from './schema.ts';
import { typeOf, typesOf } from './types.ts';

interface Document {
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedAnswers | undefined>>>>;
}

interface DescribedAnswers {
  readonly responses: Readonly<Record<string, { readonly $ref?: string; readonly content?: AnswerContent }>>;
}

interface AnswerContent {
  readonly 'application/json'?: { readonly schema: JsonSchema };
}

const DOCUMENT = ADMIN_API_DOCUMENT as unknown as Document & {
  readonly components: { readonly responses: Readonly<Record<string, { readonly content?: AnswerContent }>> };
};

/** What a browser may send leaves out whatever has a default. */
function withoutDefaults(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutDefaults);
  if (!isSchema(schema)) return schema;
  const kept = Object.entries(schema).filter(([key, value]) => key !== 'default' || isSchema(value));
  return Object.fromEntries(kept.map(([key, value]) => [key, withoutDefaults(value)]));
}

function answerType({ path, method, status }: { path: string; method: string; status: number }): string {
  const response = DOCUMENT.paths[path]![method.toLowerCase()]!.responses[status]!;
  const { content } = response.$ref === undefined ? response : DOCUMENT.components.responses[nameOf(response.$ref)]!;
  const schema = content?.['application/json']?.schema;
  return schema === undefined ? 'string' : typeOf(schema, '    ');
}

const nameOf = (reference: string) => reference.split('/').at(-1)!;

/** `engine/console/api/operations.ts`: the operations of the admin API as the console calls them, with their types. */
export function consoleOperations(): string {
  const operations = [...ADMIN_OPERATIONS.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const table = operations.map(({ name, method, path, query, body }) => {
    const in_query = Object.keys((query.properties as object | undefined) ?? {});
    const list = in_query.map((each) => `'${each}'`).join(', ');
    return `  ${name}: { method: '${method}', path: '${path}', query: [${list}], has_body: ${body !== undefined} },\n`;
  });
  const types = operations.map((operation) => {
    const parts = [
      ...operation.path_names.map((each) => `{ readonly ${each}: string }`),
      typeOf(withoutDefaults(operation.query) as JsonSchema, '    '),
      ...(operation.body === undefined ? [] : [typeOf(withoutDefaults(operation.body) as JsonSchema, '    ')]),
    ].filter((part) => part !== 'Readonly<Record<string, unknown>>');
    const input = parts.length === 0 ? 'Readonly<Record<never, never>>' : parts.join(' & ');
    return `  readonly ${operation.name}: {\n    readonly input: ${input};\n    readonly answer: ${answerType(operation)};\n  };\n`;
  });
  return [
    typesOf(Object.entries(DOCUMENT.components.schemas)),
    `/** How each operation is asked for. */\nexport const OPERATIONS = {\n${table.join('')}} as const;\n`,
    `/** What each operation takes and answers. */\nexport interface OperationTypes {\n${types.join('')}}\n`,
  ].join('\n');
}
