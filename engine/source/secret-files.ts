import type { JsonSchema } from '../contract/json-schema.ts';
import { secretInFile, secretKeys } from '../kit/secret-names.ts';
import { pointerTokens } from './node.ts';
import type { Annotation } from './validator.ts';

type Schema = Record<string, unknown>;

const made = new WeakMap<JsonSchema, JsonSchema>();

/**
 * A schema in which each key that names the variable of a secret (`x-secret`) has a twin that names a file: `api_key_file` beside
 * `api_key_env`. Where the one is required, one of the two is.
 */
export function withSecretFiles(schema: JsonSchema): JsonSchema {
  const known = made.get(schema);
  if (known !== undefined) return known;
  const derived = derive(schema) as JsonSchema;
  made.set(schema, derived);
  made.set(derived, derived);
  return derived;
}

function derive(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(derive);
  if (typeof part !== 'object' || part === null) return part;
  const copy = Object.fromEntries(Object.entries(part).map(([key, each]) => [key, derive(each)]));
  const { properties } = copy as { properties?: Record<string, Schema> };
  if (typeof properties !== 'object') return copy;
  const names = Object.keys(properties).filter(
    (key) => key.endsWith('_env') && properties[key]?.['x-secret'] !== undefined,
  );
  return names.length === 0 ? copy : withTwins(copy, names);
}

function withTwins(schema: Schema, names: readonly string[]): Schema {
  const properties = Object.entries(schema.properties as Record<string, Schema>).flatMap(([key, property]) => {
    const [, twin] = secretKeys(key);
    const stays = [[key, property]] as const;
    if (!names.includes(key) || twin in (schema.properties as Schema)) return stays;
    return [...stays, [twin, fileProperty(key)] as const];
  });
  const { required = [], anyOf, ...rest } = schema as { required?: readonly string[]; anyOf?: readonly Schema[] };
  const owed = required.filter((key) => names.includes(key));
  const others = required.filter((key) => !names.includes(key));
  const choices = [
    ...(anyOf === undefined ? [] : [anyOf.flatMap((branch) => eitherOf(branch, names))]),
    ...owed.map((key) => secretKeys(key).map((name) => ({ required: [name] }))),
  ];
  return {
    ...rest,
    ...(others.length > 0 && { required: others }),
    ...(choices.length === 1 && { anyOf: choices[0] }),
    ...(choices.length > 1 && { allOf: choices.map((choice) => ({ properties: {}, anyOf: choice })) }),
    properties: Object.fromEntries(properties),
  };
}

/** An alternative that only says that such a key must be there is two. */
function eitherOf(branch: Schema, names: readonly string[]): readonly Schema[] {
  const [key, ...more] = (branch.required ?? []) as readonly string[];
  if (Object.keys(branch).join() !== 'required' || more.length > 0 || key === undefined || !names.includes(key)) {
    return [branch];
  }
  return secretKeys(key).map((name) => ({ required: [name] }));
}

function fileProperty(env_key: string): Schema {
  return {
    description: `Path of a file with the value, instead of ${env_key}; relative to this file. Read again at each reload.`,
    type: 'string',
    minLength: 1,
    'x-secret-file': env_key,
  };
}

/** Puts the names of secrets in files where those of variables stand, in a validated value. */
export function nameSecretFiles(root: unknown, annotations: readonly Annotation[]): void {
  for (const { kind, pointer, parameter, value } of annotations) {
    if (kind !== 'x-secret-file' || typeof value !== 'string') continue;
    const tokens = pointerTokens(pointer);
    const key = tokens.pop()!;
    let owner = root as Record<string, unknown>;
    for (const token of tokens) owner = owner[token] as Record<string, unknown>;
    delete owner[key];
    owner[String(parameter)] ??= secretInFile(value);
  }
}
