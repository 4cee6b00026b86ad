import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonSchema } from '../contract/stage.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';

function readSchema(name: string): JsonSchema {
  return JSON.parse(readFileSync(join(PACKAGE_ROOT, 'schemas', `${name}.schema.json`), 'utf8')) as JsonSchema;
}

/** A schema with its definitions in place of the references to them: what explains keys need not know where they are shared. */
function withoutReferences({ definitions, ...schema }: JsonSchema): JsonSchema {
  const named = definitions as Readonly<Record<string, JsonSchema>>;
  const inPlace = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inPlace);
    if (typeof value !== 'object' || value === null) return value;
    const { $ref, ...own } = value as JsonSchema;
    const shared = typeof $ref === 'string' ? named[$ref.replace('#/definitions/', '')] : undefined;
    return Object.fromEntries(Object.entries({ ...own, ...shared, ...own }).map(([key, each]) => [key, inPlace(each)]));
  };
  return inPlace(schema) as JsonSchema;
}

/** Schema of gateway.yaml. */
export const GATEWAY_SCHEMA = withoutReferences(readSchema('gateway'));

/** Schema of a pipeline after its fragments were put in. */
export const PIPELINE_SCHEMA = readSchema('pipeline');

/** Schema of a fragment. */
export const FRAGMENT_SCHEMA = readSchema('fragment');

/** Schema of a managed policy. */
export const POLICY_SCHEMA = readSchema('policy');

/** Schema of a profile. */
export const PROFILE_SCHEMA = readSchema('profile');

/** Schema of a pipeline test. */
export const PIPELINE_TEST_SCHEMA = readSchema('pipeline-test');
