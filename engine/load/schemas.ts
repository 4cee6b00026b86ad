import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonSchema } from '../api.ts';
import { PACKAGE_ROOT } from '../package-root.ts';

function readSchema(name: string): JsonSchema {
  return JSON.parse(readFileSync(join(PACKAGE_ROOT, 'schemas', `${name}.schema.json`), 'utf8')) as JsonSchema;
}

/** Schema of gateway.yaml. */
export const GATEWAY_SCHEMA = readSchema('gateway');

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
