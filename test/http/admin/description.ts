/** The written description of the admin API, checked against the gateway's requests and responses. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { PACKAGE_ROOT } from '../../../engine/base/kit/package-root.ts';

interface Content {
  readonly content?: {
    readonly [type: string]: {
      readonly schema: object;
      readonly examples?: Readonly<Record<string, { readonly value: object }>>;
      readonly example?: object;
    };
  };
}

/** One operation in the description. */
export interface Operation {
  readonly operationId: string;
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content & { readonly $ref?: string }>>;
}

/** `schemas/admin-api.openapi.json`. */
export const description = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'schemas/admin-api.openapi.json'), 'utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly responses: Readonly<Record<string, Content>>; readonly schemas: object };
};

const METHODS = ['get', 'post', 'put', 'delete'];
const ajv = new Ajv2020({ strict: false, allErrors: true });
ajv.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
for (const format of ['line', 'email']) ajv.addFormat(format, true);
ajv.addSchema({ $id: 'api', components: description.components });

/** Every operation, with its method in upper case and its path. */
export const operations = Object.entries(description.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method] !== undefined).map((method) => ({
    method: method.toUpperCase(),
    path,
    operation: item[method]!,
  })),
);

const compiled = new WeakMap<object, ValidateFunction>();

/** The errors of a value by a schema of the description; `undefined` when there is none. */
export function violation(schema: object, value: unknown): string | undefined {
  let fits = compiled.get(schema);
  if (fits === undefined) {
    fits = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/components/', '"api#/components/')));
    compiled.set(schema, fits);
  }
  return fits(value) ? undefined : ajv.errorsText(fits.errors);
}

/** Asserts that a response is one of the description for the request. */
export function assertDescribed(method: string, path: string, status: number, body: unknown): void {
  const found = operations.find(
    (each) => each.method === method && new RegExp(`^${each.path.replace(/\{\w+\}/g, '[^/]+')}$`).test(path),
  );
  // Undescribed paths and methods return only errors.
  if (found === undefined) return;
  const response = found.operation.responses[status];
  assert.ok(response !== undefined, `${method} ${found.path} answered ${status}, which is not described`);
  const { content } =
    response.$ref === undefined ? response : description.components.responses[response.$ref.split('/').at(-1)!]!;
  const { schema } = Object.values(content!)[0]!;
  assert.equal(violation(schema, body), undefined, `${method} ${found.path} ${status}`);
}
