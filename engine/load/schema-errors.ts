import type { JsonSchema } from '../api.ts';
import { isSecretKey } from '../diagnostics/secrets.ts';
import { closest, listed } from '../diagnostics/suggest.ts';
import { keyName } from './describe.ts';
import type { Findings } from './findings.ts';
import { type Entry, entriesOf, entryOf, type Node, nodeAt } from './node.ts';
import { alternativeKeys, inEnvironment, reportSchemaError } from './schema-wording.ts';
import type { SchemaError } from './validate.ts';

type Schema = Record<string, unknown>;

/** Of several errors about one value the first of these is the mistake, the others follow from it. */
const PRECEDENCE = ['type', 'minLength', 'minItems', 'minProperties', 'enum', 'const', 'format', 'pattern'];

function rank({ keyword }: SchemaError): number {
  const at = PRECEDENCE.indexOf(keyword);
  return at < 0 ? PRECEDENCE.length : at;
}

/** Where each key of a schema stands: `body_bytes` -> `server.limits`. */
function keyPlaces(schema: Schema, path: readonly string[] = [], places = new Map<string, string[]>()) {
  for (const [key, child] of Object.entries((schema.properties ?? {}) as Record<string, Schema>)) {
    places.set(key, [...(places.get(key) ?? []), path.join('.')]);
    keyPlaces(child, [...path, key], places);
    if (child.items !== undefined) keyPlaces(child.items as Schema, [...path, `${key}[]`], places);
  }
  return places;
}

/**
 * Translates the validator's errors into diagnostics, one per mistake: a misspelt key is not also reported as missing,
 * and of several errors about one value only the first counts.
 */
export function reportSchemaErrors(
  errors: readonly SchemaError[],
  schema: JsonSchema,
  root: Node,
  findings: Findings,
): void {
  const branches = errors.filter(({ keyword }) => keyword === 'anyOf').map(({ schemaPath }) => `${schemaPath}/`);
  const own = errors.filter(({ schemaPath }) => !branches.some((branch) => schemaPath.startsWith(branch)));
  const unknown = own.filter(({ keyword }) => keyword === 'additionalProperties');
  const meant = new Set(
    unknown.map((error) => `${error.instancePath} ${reportUnknownKey(error, schema, root, findings)}`),
  );
  const told = new Set<string>();
  for (const error of own.toSorted((a, b) => rank(a) - rank(b))) {
    if (error.keyword === 'additionalProperties' || error.keyword === 'propertyNames') continue;
    const missing = error.keyword === 'required' ? [String(error.params.missingProperty)] : alternativeKeys(error);
    if (missing.some((key) => meant.has(`${error.instancePath} ${key}`))) continue;
    const about = error.keyword === 'required' ? missing[0] : error.propertyName;
    const key = `${error.instancePath} ${about ?? ''}`;
    if (told.has(key)) continue;
    told.add(key);
    reportSchemaError(error, root, findings);
  }
}

/** @returns the key that was probably meant. */
function reportUnknownKey(error: SchemaError, schema: JsonSchema, root: Node, findings: Findings): string | undefined {
  const key = String(error.params.additionalProperty);
  const owner = nodeAt(root, error.instancePath);
  const entry = entryOf(owner, key);
  if (entry === undefined) return undefined;
  const known = Object.keys((error.parentSchema?.properties ?? {}) as Schema);
  const env_key = [`${key}_env`, key.replace(/^.*?(api_key|auth_token)$/, '$1_env')].find((name) =>
    known.includes(name),
  );
  if (env_key !== undefined || isSecretKey(key)) {
    const env_keys = known.filter((name) => name.endsWith('_env'));
    const place = env_key ?? closest(`${key}_env`, env_keys) ?? (env_keys.length === 1 ? env_keys[0] : undefined);
    const schema_of_place = (error.parentSchema?.properties as Record<string, Schema>)?.[place ?? ''];
    reportSecretKey(entry, place, schema_of_place?.['x-secret'], findings);
    return env_key;
  }
  const taken = entriesOf(owner).map((other) => other.key);
  const free = known.filter((name) => !taken.includes(name));
  const meant = closest(key, free);
  findings.report('C3001', entry.key_mark, `unknown key ${keyName(key)}`, {
    expected: known.length === 0 ? 'no keys at all' : listed(known.toSorted(), 15),
    ...(meant === undefined ? otherPlace(key, schema) : { help: `did you mean \`${meant}\`?` }),
  });
  return meant;
}

function reportSecretKey(
  { key, key_mark, value }: Entry,
  env_key: string | undefined,
  example: unknown,
  findings: Findings,
): void {
  findings.hide(value);
  findings.report('C3009', key_mark, `${keyName(key)} would hold a secret in the file`, {
    help: inEnvironment(env_key, key, example),
  });
}

function otherPlace(key: string, schema: JsonSchema): { help?: string } {
  const places = keyPlaces(schema).get(key) ?? [];
  if (places.length === 0 || places.length > 2) return {};
  const names = places.map((place) => (place === '' ? 'the top of the file' : `\`${place}\``));
  return { help: `\`${key}\` belongs under ${names.join(' or ')}` };
}
