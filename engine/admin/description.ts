import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonSchema } from '../contract/json-schema.ts';
import type { ServiceScope } from '../identity/tokens/service-scopes.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';
import { withoutReferences } from '../source/schemas.ts';

type Described = Readonly<Record<string, unknown>>;

/** One operation as `schemas/admin-api.openapi.json` describes it. */
export interface DescribedOperation {
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** As OpenAPI writes it: `/admin/api/tokens/{id}`. */
  readonly path: string;
  /** Whether it is for administrators alone. */
  readonly needs_admin: boolean;
  /** What a service token needs for it; absent: none is enough. */
  readonly scope: ServiceScope | undefined;
  /** Names of the parts of the path that are given. */
  readonly path_names: readonly string[];
  /** An object with the parameters of the query. */
  readonly query: JsonSchema;
  /** The JSON body; absent where there is none. */
  readonly body: JsonSchema | undefined;
  /** Status and JSON body of the answer when all went well; a text where it is a file. */
  readonly status: number;
  readonly answer: JsonSchema;
  /** The media type of an answer that is a file (`Download`); absent for JSON. */
  readonly file_type: string | undefined;
  /** Whether the answer names the path of what was made. */
  readonly has_location: boolean;
}

/** Where everything of the admin API is. */
export const ADMIN_API_PATH = '/admin/api';
/** Where its description is, which anybody may read. */
export const ADMIN_API_DESCRIPTION = `${ADMIN_API_PATH}/openapi.json`;

const METHODS = ['get', 'post', 'put', 'delete'] as const;

/** The description of the admin API (OpenAPI 3.1). */
export const ADMIN_API_DOCUMENT = JSON.parse(
  readFileSync(join(PACKAGE_ROOT, 'schemas/admin-api.openapi.json'), 'utf8'),
) as { readonly info: object; readonly paths: Readonly<Record<string, Described>> };

/** Every operation that asks for a credential, by its `operationId`. */
export const ADMIN_OPERATIONS: ReadonlyMap<string, DescribedOperation> = new Map(
  Object.entries(ADMIN_API_DOCUMENT.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method] !== undefined)
      .map((method) => describeOperation(path, method, item))
      .filter((operation) => operation !== undefined)
      .map((operation) => [operation.name, operation] as const),
  ),
);

/** The operation of a name, which must be one of them. */
export function operationOf(name: string): DescribedOperation {
  return ADMIN_OPERATIONS.get(name)!;
}

function describeOperation(path: string, method: string, item: Described): DescribedOperation | undefined {
  const { operationId, security, parameters, requestBody, responses } = resolve(item[method]) as {
    operationId: string;
    security: readonly { readonly session?: readonly string[]; readonly service?: readonly ServiceScope[] }[];
    parameters?: readonly Parameter[];
    requestBody?: Content;
    responses: Readonly<Record<string, Content & { readonly headers?: { readonly location?: object } }>>;
  };
  if (security.length === 0) return undefined;
  const all = [...((resolve(item.parameters) as readonly Parameter[] | undefined) ?? []), ...(parameters ?? [])];
  const status = Object.keys(responses).find((each) => each.startsWith('2'))!;
  const [type, { schema }] = Object.entries(responses[status]!.content)[0]!;
  return {
    name: operationId,
    method: method.toUpperCase() as DescribedOperation['method'],
    path,
    needs_admin: security.some(({ session }) => session?.includes('admin')),
    scope: security.find(({ service }) => service !== undefined)?.service?.[0],
    path_names: all.filter((each) => each.in === 'path').map(({ name }) => name),
    query: querySchema(all.filter((each) => each.in === 'query')),
    body: requestBody?.content['application/json']?.schema,
    status: Number(status),
    answer: schema,
    file_type: type === 'application/json' ? undefined : type,
    has_location: responses[status]!.headers?.location !== undefined,
  };
}

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly required?: boolean;
  readonly schema: JsonSchema;
}

interface Content {
  readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

function resolve(part: unknown): unknown {
  return withoutReferences(part, ADMIN_API_DOCUMENT);
}

function querySchema(parameters: readonly Parameter[]): JsonSchema {
  return {
    type: 'object',
    additionalProperties: false,
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
    properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, schema])),
  };
}
