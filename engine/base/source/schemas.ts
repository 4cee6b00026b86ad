import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonSchema } from '../contract/json-schema.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';

/** A part of a schema document with its references (`$ref: '#/...'`) resolved. */
export function withoutReferences(part: unknown, document: object): unknown {
  if (Array.isArray(part)) return part.map((each) => withoutReferences(each, document));
  if (typeof part !== 'object' || part === null) return part;
  const { $ref, ...own } = part as JsonSchema;
  const shared = typeof $ref === 'string' ? at(document, $ref) : {};
  const merged = Object.entries({ ...own, ...shared, ...own });
  return Object.fromEntries(merged.map(([key, each]) => [key, withoutReferences(each, document)]));
}

function at(document: object, pointer: string): object {
  const steps = pointer.split('/').slice(1);
  return steps.reduce((inner: unknown, step) => (inner as Record<string, unknown>)[step], document) as object;
}

/** Reads a schema, with its references resolved. */
function readSchema(name: string): JsonSchema {
  const file = join(PACKAGE_ROOT, 'schemas', `${name}.schema.json`);
  const { definitions, ...schema } = JSON.parse(readFileSync(file, 'utf8')) as JsonSchema;
  return withoutReferences(schema, { definitions }) as JsonSchema;
}

// Marked as pure, so that the bundle for developers contains only the schemas that it uses.

/** Schema of gateway.yaml. */
export const GATEWAY_SCHEMA = /* @__PURE__ */ readSchema('gateway');

/** Schema of a pipeline, with its fragments expanded. */
export const PIPELINE_SCHEMA = /* @__PURE__ */ readSchema('pipeline');

/** Schema of a file that extends pipelines. The added entries are checked as part of the pipelines. */
export const EXTENSION_SCHEMA = /* @__PURE__ */ readSchema('extension');

/** Schema of a fragment. */
export const FRAGMENT_SCHEMA = /* @__PURE__ */ readSchema('fragment');

/** Schema of a managed policy. */
export const POLICY_SCHEMA = /* @__PURE__ */ readSchema('policy');

/** Schema of a profile. */
export const PROFILE_SCHEMA = /* @__PURE__ */ readSchema('profile');

/** Schema of a pipeline test. */
export const PIPELINE_TEST_SCHEMA = /* @__PURE__ */ readSchema('pipeline-test');
