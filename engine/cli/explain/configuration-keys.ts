import type { JsonSchema } from '../../contract/json-schema.ts';
import {
  EXTENSION_SCHEMA,
  FRAGMENT_SCHEMA,
  GATEWAY_SCHEMA,
  PIPELINE_SCHEMA,
  PIPELINE_TEST_SCHEMA,
  POLICY_SCHEMA,
  PROFILE_SCHEMA,
  withoutReferences,
} from '../../source/schemas.ts';

/** A key of a configuration file. */
export interface ConfigurationKey {
  /** What kind of file: `gateway.yaml`, `a pipeline`. */
  readonly file: string;
  /** Dotted; `[]` stands for an item of a list, `*` for a name of one's own. */
  readonly path: string;
  /** The names along the path, without brackets. */
  readonly names: readonly string[];
  readonly schema: JsonSchema;
  readonly required: boolean;
}

const asObject = (value: unknown): JsonSchema | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonSchema) : undefined;

const resolved = (schema: JsonSchema): JsonSchema => withoutReferences(schema, schema) as JsonSchema;

const FILES: readonly (readonly [file: string, schema: JsonSchema])[] = [
  ['gateway.yaml', GATEWAY_SCHEMA],
  ['a pipeline', resolved(PIPELINE_SCHEMA)],
  ['an extension of pipelines', resolved(EXTENSION_SCHEMA)],
  ['a fragment', resolved(FRAGMENT_SCHEMA)],
  ['a test', resolved(PIPELINE_TEST_SCHEMA)],
  ['a policy', resolved(POLICY_SCHEMA)],
  ['a profile', resolved(PROFILE_SCHEMA)],
];

/** What stands in lists of stages, also of files whose schema leaves it to that of pipelines. */
const ENTRY = asObject(asObject(resolved(PIPELINE_SCHEMA).definitions)?.entry) ?? {};
const ENTRY_LISTS = /(?:^|\.)(?:stages|finally)$/;

/** Whether a list of this path has entries of stages. */
export function isEntries(path: string, items: JsonSchema): boolean {
  return ENTRY_LISTS.test(path) && (items.properties === undefined || items.properties === ENTRY.properties);
}

const namesOf = (path: string): string[] => path.replaceAll(/\[\d*\]/g, '').split('.');

/** Every key of a schema, outermost first. */
function keysOf(file: string, schema: JsonSchema, prefix = ''): ConfigurationKey[] {
  const required = (schema.required as readonly string[] | undefined) ?? [];
  const own = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>);
  const others = asObject(schema.additionalProperties);
  const named = others === undefined ? own : [...own, ['*', others] as const];
  const keys = named.flatMap(([name, child]) => {
    const path = `${prefix}${name}`;
    const key = { file, path, names: namesOf(path), schema: child, required: required.includes(name) };
    return [key, ...below(file, child, path)];
  });
  const chosen = ['anyOf', 'oneOf', 'allOf'].flatMap((word) =>
    ((schema[word] ?? []) as readonly JsonSchema[]).flatMap((branch) => keysOf(file, branch, prefix)),
  );
  return [...keys, ...chosen];
}

/** Keys of a value, of the items of a list, and of both where it may be either. */
function below(file: string, schema: JsonSchema, path: string): ConfigurationKey[] {
  const items = asObject(schema.items);
  const of_items = items === undefined ? [] : keysOf(file, isEntries(path, items) ? ENTRY : items, `${path}[].`);
  const of_lists = ((schema.anyOf ?? []) as readonly JsonSchema[]).flatMap((branch) => {
    const inner = asObject(branch.items);
    return inner === undefined ? [] : keysOf(file, inner, `${path}[].`);
  });
  return [...keysOf(file, schema, `${path}.`), ...of_items, ...of_lists];
}

let known: readonly ConfigurationKey[] | undefined;

/** Every key of every kind of file. */
export function configurationKeys(): readonly ConfigurationKey[] {
  known ??= FILES.flatMap(([file, schema]) => {
    const by_path = Map.groupBy(keysOf(file, schema), ({ path }) => path);
    return [...by_path.values()].map(([first]) => first!);
  });
  return known;
}

/**
 * The keys that a text names: by the whole path, with or without brackets, or by the end of it. Of several those whose whole path it is,
 * else all.
 */
export function findKeys(text: string): readonly ConfigurationKey[] {
  const asked = namesOf(text);
  const isWhole = ({ names }: ConfigurationKey) =>
    names.length === asked.length && names.every((name, i) => name === '*' || name === asked[i]);
  const isEnd = ({ names }: ConfigurationKey) =>
    names.length >= asked.length && asked.every((name, i) => name === names.at(i - asked.length));
  // A name of one's own says nothing where it is not known what it is a name of.
  const found = configurationKeys().filter((key) => isWhole(key) || isEnd(key));
  const whole = found.filter(isWhole);
  if (whole.length > 0 && asked.length > 1) return whole;
  return found.length > 0 ? found : byOtherName(asked);
}

/** Keys that people call by this name, although it is not theirs. */
function byOtherName(asked: readonly string[]): readonly ConfigurationKey[] {
  if (asked.length !== 1) return [];
  return configurationKeys().filter(({ schema }) => {
    const also = schema['x-also'];
    return Array.isArray(also) && also.includes(asked[0]);
  });
}

/** Names and paths to look for what was meant among. */
export function keyNames(): readonly string[] {
  const keys = configurationKeys();
  const paths = keys.map(({ path }) => path);
  const names = keys.map((key) => key.names.at(-1)!).filter((name) => name !== '*');
  return [...new Set([...names, ...paths.filter((path) => path.includes('.'))])];
}
