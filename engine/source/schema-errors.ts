import type { JsonSchema } from '../contract/json-schema.ts';
import { closest, closestKey, listed } from '../kit/text/suggest.ts';
import { keyName } from './describe.ts';
import { isSecretKey, looksSecret } from './diagnostics/secrets.ts';
import type { Findings } from './findings.ts';
import { type Entry, entriesOf, entryOf, type Node, nodeAt, scalarsOf } from './node.ts';
import { withoutOtherBranches } from './schema-branches.ts';
import { alternativeKeys, inEnvironment, reportSchemaError } from './schema-wording.ts';
import { corrected, type Slip } from './slips.ts';
import type { SchemaError } from './validator.ts';
import { flow, listMeant } from './value-meant.ts';

type Schema = Record<string, unknown>;

/** Of several errors about one value the first of these is the mistake, the others follow from it. */
const PRECEDENCE = ['type', 'minLength', 'minItems', 'minProperties', 'enum', 'const', 'format', 'pattern'];

/** Keywords that miss a key. */
const REQUIRED = ['required', 'dependencies'];

function rank({ keyword }: SchemaError): number {
  const at = PRECEDENCE.indexOf(keyword);
  return at < 0 ? PRECEDENCE.length : at;
}

/** Where each key of a schema stands: `body_bytes` -> `server.limits`. */
function keyPaths(schema: Schema, path: readonly string[] = [], paths = new Map<string, string[]>()) {
  for (const [key, child] of Object.entries((schema.properties ?? {}) as Record<string, Schema>)) {
    paths.set(key, [...(paths.get(key) ?? []), path.join('.')]);
    keyPaths(child, [...path, key], paths);
    if (child.items !== undefined) keyPaths(child.items as Schema, [...path, `${key}[]`], paths);
  }
  return paths;
}

/**
 * Translates the validator's errors into diagnostics, one per mistake: a misspelt key is not also reported as missing,
 * and of several errors about one value only the first counts.
 * @returns the node with misspelt keys put right, so that later passes find what was meant.
 */
export function reportSchemaErrors(
  errors: readonly SchemaError[],
  schema: JsonSchema,
  root: Node,
  findings: Findings,
): Node {
  const own = withoutOtherBranches(errors, root);
  const reporter = new KeyReporter(own, schema, root, findings);
  const slips = reporter.report();
  const told = new Set<string>();
  for (const error of own.toSorted((a, b) => rank(a) - rank(b))) {
    if (error.keyword === 'additionalProperties' || error.keyword === 'propertyNames') continue;
    if (reporter.explains(error)) continue;
    // All keys that a mapping lacks are one mistake: often it is simply empty.
    const is_missing = error.keyword === 'required';
    const about = is_missing ? '(missing)' : (error.params.missingProperty ?? error.propertyName);
    const key = `${error.instancePath} ${about ?? ''}`;
    if (told.has(key)) continue;
    told.add(key);
    const lacks = own.filter((other) => other.keyword === 'required' && other.instancePath === error.instancePath);
    const missing = lacks.filter((other) => !reporter.explains(other));
    if (error.keyword === 'anyOf' && missing.length > 0) continue;
    const choices = own.filter((other) => other.keyword === 'anyOf' && other.instancePath === error.instancePath);
    const chosen = choices
      .filter((other) => !reporter.explains(other))
      .flatMap((other) => alternativeKeys(other)[0] ?? []);
    const keys = [...missing.map(({ params }) => String(params.missingProperty)), ...chosen];
    reportSchemaError(error, root, findings, is_missing ? keys : []);
  }
  const named = own.flatMap(({ keyword, instancePath, params, parentSchema }) => {
    const key = String(params.propertyName);
    const meant = key
      .trim()
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-');
    const pattern = (parentSchema?.propertyNames as { pattern?: string } | undefined)?.pattern;
    const fits = keyword === 'propertyNames' && pattern !== undefined && new RegExp(pattern).test(meant);
    return fits ? { owner: instancePath, key, meant } : [];
  });
  return [...slips, ...named].reduce(corrected, root);
}

/** Reports unknown keys, one mistake each, and knows which other errors follow from them. */
class KeyReporter {
  private readonly errors: readonly SchemaError[];
  private readonly schema: JsonSchema;
  private readonly root: Node;
  private readonly findings: Findings;
  /** What need not be reported: `<pointer> <key>` of missing keys, and pointers of values. */
  private readonly explained = new Set<string>();

  constructor(errors: readonly SchemaError[], schema: JsonSchema, root: Node, findings: Findings) {
    this.errors = errors;
    this.schema = schema;
    this.root = root;
    this.findings = findings;
  }

  report(): Slip[] {
    const unknown = this.errors.filter(({ keyword }) => keyword === 'additionalProperties');
    const owners = Map.groupBy(unknown, ({ instancePath }) => instancePath);
    return [...owners.values()].flatMap((of_owner) => this.keysOf(of_owner));
  }

  /** Whether an error says again what was said about an unknown key. */
  explains(error: SchemaError): boolean {
    const { instancePath: at } = error;
    if (REQUIRED.includes(error.keyword)) return this.explained.has(`${at} ${error.params.missingProperty}`);
    if (error.keyword === 'anyOf') {
      return alternativeKeys(error).some((key) => this.explained.has(`${at} ${key}`) || this.isOwed(at, key));
    }
    return this.explained.has(at);
  }

  /** Whether another key of the mapping asks for this one, which is then reported for that reason. */
  private isOwed(at: string, key: string): boolean {
    return this.errors.some(
      ({ keyword, instancePath, params }) =>
        keyword === 'dependencies' && instancePath === at && params.missingProperty === key,
    );
  }

  /** Reports the unknown keys of one mapping. */
  private keysOf(errors: readonly SchemaError[]): Slip[] {
    const [first] = errors;
    if (first === undefined) return [];
    const owner = nodeAt(this.root, first.instancePath);
    const properties = (first.parentSchema?.properties ?? {}) as Record<string, Schema>;
    const entries = errors.flatMap(({ params }) => entryOf(owner, String(params.additionalProperty)) ?? []);
    const strays = this.strays(entries, properties, first.instancePath, owner);
    const followers = entries.filter(isEmpty).flatMap((entry) => this.followers(entry, entries));
    const rest = entries.filter((entry) => !strays.includes(entry) && !followers.includes(entry));
    const moved = (first.parentSchema?.['x-moved'] ?? {}) as Readonly<Record<string, string>>;
    return rest.flatMap((entry) => {
      if (Object.hasOwn(moved, entry.key)) {
        this.findings.report('C3001', entry.key_mark, `unknown key ${keyName(entry.key)}`, { help: moved[entry.key] });
        return [];
      }
      const meant = this.unknownKey(entry, properties, owner, rest.length, first.instancePath);
      if (meant === undefined) return [];
      this.explained.add(`${first.instancePath} ${meant}`);
      return { owner: first.instancePath, key: entry.key, meant, is_list: properties[meant]?.type === 'array' };
    });
  }

  /** Reports keys that belong into a mapping of their owner and stand beside it: one finding per such mapping. */
  private strays(entries: readonly Entry[], properties: Record<string, Schema>, at: string, owner: Node): Entry[] {
    const home = ({ key }: Entry) => {
      const homes = Object.keys(properties).filter((name) => key in ((properties[name]?.properties ?? {}) as Schema));
      return homes.length === 1 ? homes[0] : undefined;
    };
    return [...Map.groupBy(entries, home)].flatMap(([name, inside]) => {
      const [first] = inside;
      if (name === undefined || first === undefined) return [];
      const keys = listed(inside.map(({ key }) => keyName(key))).replace(/ or ([^ ]+)$/, ' and $1');
      const is_many = inside.length > 1;
      this.findings.report('C3001', first.key_mark, `unknown key${is_many ? 's' : ''} ${keys}`, {
        help: `${is_many ? 'they belong' : 'it belongs'} under \`${[...pathOf(at), name].join('.')}\`, indented further`,
      });
      this.explained.add(`${at} ${name}`);
      for (const { key } of inside) this.explained.add(`${at}/${name} ${key}`);
      const beside = entryOf(owner, name)?.value;
      if (beside?.kind === 'scalar' && beside.value === null) this.explained.add(`${at}/${name}`);
      return inside;
    });
  }

  /** Keys that belong under an empty one beside them: with its place they have lost theirs. */
  private followers(section: Entry, entries: readonly Entry[]): readonly Entry[] {
    const inside = propertiesOf(this.schema, section.key);
    return entries.filter((entry) => entry !== section && entry.key in inside);
  }

  /** @returns the key that was probably meant. */
  private unknownKey(
    entry: Entry,
    properties: Record<string, Schema>,
    owner: Node,
    count: number,
    at: string,
  ): string | undefined {
    const { key, value } = entry;
    const known = Object.keys(properties);
    const taken = entriesOf(owner).map((other) => other.key);
    const free = known.filter((name) => !taken.includes(name));
    const env_key = [`${key}_env`, key.replace(/^.*?(api_key|auth_token)$/, '$1_env')].find((name) =>
      known.includes(name),
    );
    const is_text = value.kind !== 'scalar' || typeof value.value === 'string';
    const promises = isSecretKey(key) && is_text;
    if (env_key !== undefined || promises || scalarsOf(value).some(({ value: text }) => looksSecret(String(text)))) {
      const env_keys = known.filter((name) => name.endsWith('_env'));
      const right_key =
        env_key ?? closestKey(`${key}_env`, env_keys) ?? (env_keys.length === 1 ? env_keys[0] : undefined);
      reportSecretKey(entry, right_key, properties[right_key ?? '']?.['x-secret'], this.findings);
      return env_key;
    }
    const instead = count === 1 ? this.onlyMissing(at) : undefined;
    const also = free.find((name) => (properties[name]?.['x-also'] as string[] | undefined)?.includes(key));
    const alike = also ?? (instead?.slice(0, 3) === key.slice(0, 3) ? instead : closest(key, free));
    // A key that merely shares a word is the likelier one only where none is missing.
    const meant = alike ?? (instead === undefined ? closestKey(key, free) : undefined);
    this.findings.report('C3001', entry.key_mark, `unknown key ${keyName(key)}`, {
      expected: known.length === 0 ? 'no keys at all' : listed(known.toSorted(), 15),
      ...this.help(entry, meant, instead, properties[meant ?? '']),
    });
    return meant ?? instead;
  }

  private help(
    { key, value }: Entry,
    meant: string | undefined,
    instead: string | undefined,
    schema: Schema | undefined,
  ): { help?: string } {
    const text = value.kind === 'scalar' ? value.value : null;
    const items = typeof text === 'string' ? listMeant(text, schema?.items as JsonSchema | undefined) : [text];
    const list = schema?.type === 'array' && text !== null ? `: ${flow(items)}` : '';
    if (meant !== undefined) return { help: `did you mean \`${meant}${list}\`?` };
    if (instead !== undefined) return { help: `\`${instead}\` is missing here: is it this that is meant?` };
    return otherPath(key, this.schema);
  }

  /** The one key that is missing in a mapping; of alternatives the first. */
  private onlyMissing(at: string): string | undefined {
    const missing = this.errors.flatMap((error) => {
      if (error.instancePath !== at) return [];
      if (REQUIRED.includes(error.keyword)) return [String(error.params.missingProperty)];
      return error.keyword === 'anyOf' ? alternativeKeys(error).slice(0, 1) : [];
    });
    return missing.length === 1 ? missing[0] : undefined;
  }
}

function isEmpty({ value }: Entry): boolean {
  return value.kind === 'scalar' && value.value === null;
}

/** The properties of the first mapping called `key` in a schema. */
function propertiesOf(schema: Schema, key: string): Schema {
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  const own = properties[key]?.properties;
  if (own !== undefined) return own as Schema;
  const found = Object.values(properties).map((child) => propertiesOf(child, key));
  return found.find((inside) => Object.keys(inside).length > 0) ?? {};
}

/** A JSON pointer as names; indexes of lists are left out. */
function pathOf(pointer: string): string[] {
  return pointer.split('/').filter((token) => token !== '' && !/^\d+$/.test(token));
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

function otherPath(key: string, schema: JsonSchema): { help?: string } {
  const paths = keyPaths(schema).get(key) ?? [];
  if (paths.length === 0 || paths.length > 2) return {};
  const names = paths.map((path) => (path === '' ? 'at the top of the file' : `under \`${path}\``));
  return { help: `\`${key}\` belongs ${names.join(' or ')}` };
}
