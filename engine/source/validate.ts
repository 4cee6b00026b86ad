import type { JsonSchema } from '../contract/json-schema.ts';
import type { Findings } from './findings.ts';
import { type Node, toValue } from './node.ts';
import { reportSchemaErrors } from './schema-errors.ts';
import { nameSecretFiles, withSecretFiles } from './secret-files.ts';
import { type Annotation, type SchemaError, type ValidationContext, validatorOf } from './validator.ts';

/** The outcome of validation. */
export interface Validated {
  /** The plain value with defaults filled in, paths absolute, and a secret in a file under the key for its variable (`secretInFile`). */
  readonly value: unknown;
  /** Whether the value fits its schema. */
  readonly ok: boolean;
  readonly annotations: readonly Annotation[];
  /** The validated node with misspelt keys put right; they were reported. */
  readonly node: Node;
}

/**
 * Validates a node against a schema: closed, without coercion, with defaults filled in. Reports one diagnostic per
 * mistake.
 * @param directory where relative paths in the value start.
 */
export function validate(given: JsonSchema, node: Node, directory: string, findings: Findings): Validated {
  const schema = withSecretFiles(given);
  const validator = validatorOf(schema);
  const value = toValue(node);
  const context: ValidationContext = { annotations: [], directory };
  const ok = validator.call(context, value) as boolean;
  const errors = (validator.errors ?? []) as SchemaError[];
  if (ok) nameSecretFiles(value, context.annotations);
  const corrected = ok ? node : reportSchemaErrors(errors, schema, node, findings);
  return { value, ok, annotations: context.annotations, node: corrected };
}
