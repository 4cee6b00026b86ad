import type { JsonSchema } from '../contract/json-schema.ts';
import { closestKey, didYouMean, listed } from '../kit/text/suggest.ts';
import { isSecretKey, looksSecret } from './diagnostics/secrets.ts';
import type { Findings } from './findings.ts';
import { describe, type Entry, entryOf, keyName, type Node, nodeAt, replaceNode, scalarsOf, textOf } from './node.ts';
import type { SchemaError } from './validate.ts';

const quoted = (text: string): string => (/^[\w./:-]+$/.test(text) ? text : JSON.stringify(text));

/** A value in YAML's flow style, such as { a: [1, b] }. */
export function flow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return typeof value === 'string' ? quoted(value) : String(value);
  return `{ ${Object.entries(value)
    .map(([key, item]) => `${key}: ${flow(item)}`)
    .join(', ')} }`;
}

interface Described {
  readonly type?: string;
  readonly description?: string;
  readonly examples?: readonly unknown[];
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly required?: readonly string[];
  readonly anyOf?: readonly Pick<Described, 'required'>[];
  readonly properties?: Readonly<Record<string, Described>>;
  readonly items?: Described;
  readonly 'x-secret'?: unknown;
  readonly 'x-several'?: unknown;
  readonly 'x-empty'?: string;
}

const describedIn = ({ parentSchema = {} }: SchemaError) => parentSchema as Described;

/** A suggestion that can be pasted; `undefined` if unclear. */
function valueMeant(wanted: readonly string[], node: Node, { examples = [], items }: Described): string | undefined {
  const wants = (type: string) => wanted.includes(type);
  const example = examples.findLast((one) => Array.isArray(one));
  if (wants('array') && example !== undefined) return `write ${flow(example)}, for example`;
  if (node.kind !== 'scalar' || node.value === null) return undefined;
  const { value } = node;
  if (typeof value !== 'string') return wants('string') ? `write "${value}"` : undefined;
  if ((wants('number') || wants('integer')) && isNumeral(value)) return `write ${value}`;
  if (wants('boolean') && /^(yes|on|true)$/i.test(value)) return 'write true';
  if (wants('boolean') && /^(no|off|false)$/i.test(value)) return 'write false';
  if (!wants('array') || value === '' || looksSecret(value)) return undefined;
  return `write a list: ${flow(listMeant(value, items))}`;
}

/** The items of a list written as one text: separated by commas, or by spaces if no item can contain one. */
function listMeant(text: string, { pattern }: Described = {}): string[] {
  const words = text.split(/[\s,]+/).filter((word) => word !== '');
  const fits = (word: string) => pattern !== undefined && new RegExp(pattern).test(word);
  return !fits(text) && words.every(fits) ? words : text.split(/,\s*/);
}

type Explain = (error: SchemaError, node: Node, findings: Findings, root: Node) => void;

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping',
  null: 'nothing',
};

const FORMATS: Readonly<Record<string, string>> = {
  'listen-address': 'host:port, such as 127.0.0.1:8080, with a port up to 65535',
};

/** With at most this many choices the first one is a good example. */
const FEW_CHOICES = 3;

const RELATIONS: Readonly<Record<string, string>> = {
  '>=': 'at least',
  '<=': 'at most',
  '>': 'more than',
  '<': 'less than',
};

/** The keys of `anyOf: [{ required: [a] }, { required: [b] }]`; empty if the alternatives are values. */
function alternativeKeys(error: SchemaError): string[] {
  if (error.keyword !== 'anyOf') return [];
  const branches = (error.parentSchema?.anyOf ?? []) as { required?: string[]; type?: unknown }[];
  return branches.flatMap(({ required = [], type }) => (type === undefined ? required : []));
}

/** With more alternatives, the help proposes only the first. */
const PROPOSED_MAX = 3;

/** Reports missing keys. @param join `or`: one of the keys is missing; `and`: all are. */
function missing(
  keys: readonly string[],
  owner: Node,
  error: SchemaError,
  findings: Findings,
  join: 'or' | 'and' = 'or',
): void {
  const { properties = {} } = describedIn(error);
  const names = listed(keys.map((key) => `\`${key}\``)).replace(/ or (\S+)$/, ` ${join} $1`);
  const many = join === 'or' && keys.length > PROPOSED_MAX;
  const proposals = (many ? keys.slice(0, 1) : keys).map((key) => proposal(key, properties[key]));
  const help = `${proposals.join(` ${join} `)}${many ? ', or one of the others' : ''}`;
  const message = join === 'and' ? `the keys ${names} are missing` : `the key ${names} is missing`;
  findings.report('C3002', owner.mark, message, { help: `add ${help}` });
}

function proposal(key: string, schema: Described = {}): string {
  const { 'x-secret': variable, examples, enum: allowed, description } = schema;
  const few = allowed !== undefined && allowed.length <= FEW_CHOICES ? allowed[0] : undefined;
  const example = typeof variable === 'string' ? variable : (examples?.[0] ?? few);
  if (example !== undefined) return `\`${key}: ${flow(example)}\``;
  return description === undefined ? `\`${key}:\`` : `\`${key}:\` (${description.replace(/\.$/, '')})`;
}

/** The key of a list item that was written as its value alone: `- forward` in place of `- stage: forward`. */
function keyOfItem(error: SchemaError, node: Node): string | undefined {
  const { required, anyOf } = describedIn(error);
  const keys = required ?? anyOf?.[0]?.required ?? [];
  const is_text = node.kind === 'scalar' && typeof node.value === 'string' && !looksSecret(node.value);
  return is_text && keys.length === 1 && /\/\d+$/.test(error.instancePath) ? keys[0] : undefined;
}

function wrongType(error: SchemaError, node: Node, findings: Findings): void {
  const wanted = ([] as string[]).concat(error.params.type as string | string[]);
  const schema = describedIn(error);
  const { examples, 'x-secret': variable, 'x-several': several } = schema;
  const own_key = wanted.includes('object') ? keyOfItem(error, node) : undefined;
  const [example] = wanted.includes('string') ? (examples ?? []) : [];
  const key = error.instancePath.slice(error.instancePath.lastIndexOf('/') + 1);
  const expected = listed(wanted.map((type) => TYPE_NAMES[type] ?? type));
  const is_plain = node.kind === 'scalar' && (typeof node.value === 'number' || typeof node.value === 'boolean');
  const any_text = ['format', 'pattern', 'x-url'].every((keyword) => !(keyword in schema));
  const help =
    example === undefined || (is_plain && any_text)
      ? valueMeant(wanted, node, schema)
      : `write ${flow(example)}, for example`;
  const hint =
    typeof variable === 'string'
      ? `write the name of a variable: \`${key}: ${variable}\``
      : typeof several === 'string' && node.kind === 'list'
        ? `for a list there is \`${several}\``
        : own_key === undefined
          ? help
          : `write \`${own_key}: ${flow(textOf(node))}\``;
  findings.report('C3003', node.mark, `expected ${expected}`, { found: describe(node), expected, help: hint });
}

const EMPTY = {
  minLength: ['string', 'character'],
  minItems: ['list', 'item'],
  minProperties: ['mapping', 'key'],
} as const;

function tooFew(error: SchemaError, node: Node, findings: Findings): void {
  if ((error.params.limit as number) > 1) return void outOfRange(error, node, findings);
  const [what, part] = EMPTY[error.keyword as keyof typeof EMPTY];
  const { 'x-empty': help = 'write a value, or remove the key' } = describedIn(error);
  findings.report('C3007', node.mark, `the ${what} is empty`, { expected: `at least one ${part}`, help });
}

function notAllowed(error: SchemaError, node: Node, findings: Findings): void {
  const values = ([] as unknown[]).concat(error.params.allowedValues ?? error.params.allowedValue);
  const allowed = values.map((one) => (typeof one === 'string' && isNumeral(one) ? JSON.stringify(one) : String(one)));
  const value = node.kind === 'scalar' ? node.value : undefined;
  const same = values.find((one) => String(one) === String(value));
  const message = `${describe(node)} is not one of the allowed values`;
  const help =
    same === undefined
      ? didYouMean(textOf(node) ?? '', values.map(String), whatItIs(error))
      : typeof same === 'string'
        ? `write "${same}" in quotes`
        : `write ${same} without quotes`;
  findings.report('C3004', node.mark, message, { expected: listed(allowed, 40), help });
}

const DESCRIPTION_CHARS_MAX = 160;

function whatItIs(error: SchemaError): string | undefined {
  const { description } = describedIn(error);
  return description !== undefined && description.length <= DESCRIPTION_CHARS_MAX ? description : undefined;
}

/** Whether YAML would read the text as a number without quotes. */
function isNumeral(text: string): boolean {
  return text.trim() !== '' && Number.isFinite(Number(text));
}

function repeated(error: SchemaError, _list: Node, findings: Findings, root: Node): void {
  const { i, j } = error.params as { i: number; j: number };
  const node = nodeAt(root, `${error.instancePath}/${Math.max(i, j)}`);
  findings.report('C3010', node.mark, `${describe(node)} is listed twice`, { help: 'remove one of the two' });
}

function wrongForm(error: SchemaError, node: Node, findings: Findings): void {
  const expected = FORMATS[error.params.format as string] ?? expectation(error);
  findings.report('C3006', node.mark, `${describe(node)} has the wrong format`, { expected });
}

function expectation(error: SchemaError): string {
  const stated = error.parentSchema?.['x-expected'];
  return typeof stated === 'string' ? stated : `a string that matches ${error.params.pattern ?? 'the schema'}`;
}

function outOfRange(error: SchemaError, node: Node, findings: Findings): void {
  const { keyword, params } = error;
  const unit = /Length$/.test(keyword) ? ' characters' : /Items$/.test(keyword) ? ' items' : '';
  const relation = RELATIONS[params.comparison as string] ?? (keyword.startsWith('max') ? 'at most' : 'at least');
  const expected =
    params.limit === undefined ? (error.message ?? 'another value') : `${relation} ${params.limit}${unit}`;
  const found = unit === '' ? { found: describe(node) } : {};
  findings.report('C3005', node.mark, 'the value is out of range', { ...found, expected });
}

const EXPLANATIONS: Readonly<Record<string, Explain>> = {
  required: (error, node, findings) => missing([error.params.missingProperty as string], node, error, findings),
  dependencies: (error, node, findings) => missing([error.params.missingProperty as string], node, error, findings),
  anyOf: (error, node, findings) => missing(alternativeKeys(error), node, error, findings),
  type: wrongType,
  minLength: tooFew,
  minItems: tooFew,
  minProperties: tooFew,
  enum: notAllowed,
  const: notAllowed,
  uniqueItems: repeated,
  pattern: wrongForm,
  format: wrongForm,
};

/** Reports one error of the validator. @param keys all missing keys of the mapping, if the error is about one */
function reportSchemaError(error: SchemaError, root: Node, findings: Findings, keys: readonly string[]): void {
  const node = nodeAt(root, error.instancePath);
  const is_empty = node.kind === 'scalar' && (node.value === null || node.value === '');
  const key = error.propertyName;
  if (error.parentSchema?.['x-secret'] !== undefined && !is_empty) {
    reportLiteralSecret(node, error.parentSchema['x-secret'], findings);
  } else if (keys.length > 1) {
    missing(keys, node, error, findings, 'and');
  } else if (key !== undefined) {
    const mark = entryOf(node, key)?.key_mark ?? node.mark;
    const expected = expectation(error);
    findings.report('C3006', mark, `the key ${keyName(key)} has the wrong format`, { expected });
  } else {
    (EXPLANATIONS[error.keyword] ?? outOfRange)(error, node, findings, root);
  }
}

/** Help that moves a secret into the environment. @param example `x-secret` of the schema: a variable, or `true` */
function inEnvironment(env_key: string | undefined, key: string, example?: unknown): string {
  const variable = typeof example === 'string' ? example : key.replace(/_env$/, '').toUpperCase();
  const set = `put the secret into the environment (export ${variable}=...)`;
  const write =
    env_key === undefined
      ? 'write the name of the variable into a key that ends in _env'
      : `write \`${env_key}: ${variable}\``;
  return `${set}, and ${write}; if others have read the file, replace the secret where it was issued`;
}

function kindOfSecret(node: Node): string {
  if (node.kind !== 'scalar') return describe(node);
  return typeof node.value === 'string' ? 'a string that is no valid name' : `a ${typeof node.value}`;
}

/** Reports a value in place of the name of an environment variable, without showing it. */
export function reportLiteralSecret(node: Node, example: unknown, findings: Findings): void {
  findings.hide(node);
  const key = node.mark.pointer.slice(node.mark.pointer.lastIndexOf('/') + 1);
  const reference = node.kind === 'scalar' ? /^\$\{?([A-Z_][A-Z0-9_]*)\}?$/.exec(String(node.value))?.[1] : undefined;
  if (reference !== undefined) {
    findings.report('C3008', node.mark, 'this must be the plain name of an environment variable', {
      help: `write \`${key}: ${reference}\``,
    });
    return;
  }
  findings.report('C3008', node.mark, 'this must be the name of an environment variable, not the secret itself', {
    found: `${kindOfSecret(node)} (hidden, because it may be a secret)`,
    expected: `a name such as ${typeof example === 'string' ? example : 'UPSTREAM_KEY'}`,
    help: inEnvironment(key, key, example),
  });
}

/** Removes errors of alternatives not meant: by key, only the missing key counts; by value, only the branch of its kind. */
function withoutOtherBranches(errors: readonly SchemaError[], root: Node): SchemaError[] {
  const alternatives = errors.filter(({ keyword }) => keyword === 'anyOf');
  const by_value = alternatives.filter((error) => alternativeKeys(error).length === 0);
  const others = alternatives.flatMap((error) => {
    const { instancePath: at, schemaPath } = error;
    if (!by_value.includes(error)) return { at, path: `${schemaPath}/` };
    const branches = (error.parentSchema?.anyOf ?? []) as readonly Branch[];
    const meant = branchFor(nodeAt(root, at), branches);
    return branches.flatMap((_, i) => (i === meant ? [] : { at, path: `${schemaPath}/${i}/` }));
  });
  // Items of one list share a schema, but each may mean another branch.
  const isOther = ({ instancePath, schemaPath }: SchemaError) =>
    others.some(({ at, path }) => schemaPath.startsWith(path) && `${instancePath}/`.startsWith(`${at}/`));
  return errors.filter((error) => !by_value.includes(error) && !isOther(error));
}

interface Branch {
  readonly type?: string;
  readonly enum?: readonly unknown[];
}

function branchFor(node: Node, branches: readonly Branch[]): number {
  const fitting = branches.filter(({ type }) => kindOf(type) === node.kind);
  const words = textOf(node) === undefined ? undefined : fitting.find((branch) => branch.enum !== undefined);
  return Math.max(branches.indexOf(words ?? fitting[0] ?? branches[0]!), 0);
}

/** The node kind of a JSON Schema type; everything except arrays and objects is a scalar. */
function kindOf(type: string | undefined): Node['kind'] {
  return type === 'array' ? 'list' : type === 'object' ? 'map' : 'scalar';
}

type Schema = Record<string, unknown>;

/** Priority of errors about one value: the first is the mistake, the others follow from it. */
const PRECEDENCE = ['type', 'minLength', 'minItems', 'minProperties', 'enum', 'const', 'format', 'pattern'];

function rank({ keyword }: SchemaError): number {
  const at = PRECEDENCE.indexOf(keyword);
  return at < 0 ? PRECEDENCE.length : at;
}

/** Whether an error is about a missing key of the mapping. */
const isMissing = (error: SchemaError): boolean =>
  ['required', 'dependencies'].includes(error.keyword) || alternativeKeys(error).length > 0;

const isEmpty = (node: Node | undefined): boolean => node?.kind === 'scalar' && node.value === null;

/** Reports one diagnostic per mistake. @returns the node with misspelt keys corrected, for later passes */
export function reportSchemaErrors(
  errors: readonly SchemaError[],
  schema: JsonSchema,
  root: Node,
  findings: Findings,
): Node {
  const own = withoutOtherBranches(errors, root);
  const unknown = Map.groupBy(
    own.filter(({ keyword }) => keyword === 'additionalProperties'),
    ({ instancePath }) => instancePath,
  );
  const explained = new Set<string>();
  const typos = [...unknown].flatMap(([at, of_owner]) =>
    reportUnknownKeys(at, of_owner, schema, root, findings, explained),
  );
  /** Whether the report of an unknown key covers this: the key that was meant, or the empty section it belongs under. */
  const isExplained = (error: SchemaError) => {
    const { keyword, instancePath: at, params } = error;
    if (isMissing(error)) {
      const keys = keyword === 'anyOf' ? alternativeKeys(error) : [params.missingProperty];
      return explained.has(`${at}/*`) || keys.some((key) => explained.has(`${at}/${key}`));
    }
    return isEmpty(nodeAt(root, at)) && (explained.has(at) || explained.has(`${at.slice(0, at.lastIndexOf('/'))}/*`));
  };
  const reported = new Set<string>();
  for (const error of own.toSorted((a, b) => rank(a) - rank(b))) {
    const { keyword, instancePath: at, params } = error;
    if (keyword === 'additionalProperties' || keyword === 'propertyNames' || isExplained(error)) continue;
    // All missing keys of a mapping are one mistake: often the mapping is empty.
    const is_required = keyword === 'required';
    const about = is_required ? '(missing)' : (params.missingProperty ?? error.propertyName);
    const key = `${at} ${about ?? ''}`;
    if (reported.has(key)) continue;
    reported.add(key);
    const beside = own.filter((other) => other.instancePath === at && !isExplained(other));
    const missing = beside.flatMap((other) =>
      other.keyword === 'required' ? String(other.params.missingProperty) : [],
    );
    const is_owed = beside.some((other) => other.keyword === 'dependencies');
    if (keyword === 'anyOf' && (missing.length > 0 || is_owed)) continue;
    const chosen = beside.flatMap((other) => alternativeKeys(other)[0] ?? []);
    reportSchemaError(error, root, findings, is_required ? [...missing, ...chosen] : []);
  }
  return typos.reduce(corrected, root);
}

/** A misspelt key, and the key that was probably meant. `owner`: JSON pointer of the mapping. */
interface Typo {
  readonly owner: string;
  readonly key: string;
  readonly meant: string;
}

function corrected(root: Node, { owner, key, meant }: Typo): Node {
  const target = nodeAt(root, owner);
  if (target.kind !== 'map') return root;
  const entries = target.entries.map((entry) => (entry.key === key ? { ...entry, key: meant } : entry));
  return replaceNode(root, target, { ...target, entries });
}

interface Keys {
  readonly properties?: Readonly<Record<string, Schema>>;
  /** Help for keys with a place elsewhere. */
  readonly 'x-moved'?: Readonly<Record<string, string>>;
  /** Help for keys that are unlike all known ones. */
  readonly 'x-unknown'?: string;
}

/** Help for a list item that begins with a name as its key: `- forward:` in place of `- stage: forward`. */
function nameAsKey(node: Node, errors: readonly SchemaError[]): string | undefined {
  if (node.kind !== 'map') return undefined;
  const [first, ...others] = node.entries;
  const { required, anyOf, properties = {} } = describedIn(errors[0]!);
  const wanted = required ?? (anyOf ?? []).flatMap((branch) => branch.required ?? []);
  const is_unknown = errors.some(({ params }) => params.additionalProperty === first?.key);
  if (first === undefined || !is_unknown || looksSecret(first.key)) return undefined;
  if (wanted.length === 0 || wanted.some((key) => entryOf(node, key) !== undefined)) return undefined;
  if (first.value.kind !== 'map' && !isEmpty(first.value)) return undefined;
  const has_options = first.value.kind === 'map' || others.some(({ key }) => !Object.hasOwn(properties, key));
  return `write \`- ${wanted[0]}: ${first.key}\`${has_options ? ', with its options under `options`' : ''}`;
}

/**
 * Reports the unknown keys of a mapping: those with the same help in one finding.
 * @param explained receives the pointers of keys whose absence or emptiness follows; `*` for all keys of a mapping
 * @returns the misspelt keys
 */
function reportUnknownKeys(
  owner: string,
  errors: readonly SchemaError[],
  schema: JsonSchema,
  root: Node,
  findings: Findings,
  explained: Set<string>,
): Typo[] {
  const node = nodeAt(root, owner);
  const keys = (errors[0]!.parentSchema ?? {}) as Keys;
  const { properties = {}, 'x-moved': moved = {} } = keys;
  const otherwise = keys['x-unknown'] && (nameAsKey(node, errors) ?? keys['x-unknown']);
  const known = Object.keys(properties);
  const free = known.filter((name) => entryOf(node, name) === undefined);
  const isAlso = (name: string, key: string) => (properties[name]!['x-also'] as string[] | undefined)?.includes(key);
  const entries = errors.flatMap(({ params }) => entryOf(node, String(params.additionalProperty)) ?? []);
  const about = ({ key, value }: Entry) => {
    const elsewhere = Object.hasOwn(moved, key) ? moved[key] : undefined;
    const home = elsewhere === undefined ? placeBelow(key, owner, schema) : undefined;
    const place = elsewhere ?? (home && `indent further, below \`${home}\``);
    const also = free.find((name) => isAlso(name, key));
    const meant = also ?? (place === undefined ? closestKey(key, free) : undefined);
    const covered = meant ?? home?.slice(home.lastIndexOf('.') + 1);
    if (covered !== undefined) explained.add(`${owner}/${covered}`).add(`${owner}/${covered}/${key}`);
    if (meant !== undefined) return { meant, help: `did you mean \`${meant}${asList(value, properties[meant])}\`?` };
    const help = place ?? placeElsewhere(key, schema);
    if (help === undefined && otherwise !== undefined) explained.add(`${owner}/*`);
    return { meant, help: help ?? otherwise };
  };
  const found = entries.flatMap((entry, index) => {
    if (isSecret(entry, properties)) {
      explained.add(`${owner}/${reportSecret(entry, properties, findings)}`);
      return [];
    }
    // The keys behind an empty section are probably its content, not indented.
    const owners = pathsTo(entry.key, schema).map((path) => path.slice(path.lastIndexOf('.') + 1));
    const isOwner = ({ key, value }: Entry, at: number) => at < index && isEmpty(value) && owners.includes(key);
    const section = owners.length === 0 ? undefined : entries.find(isOwner);
    if (section !== undefined) return { entry, meant: undefined, help: about(section).help };
    return { entry, ...about(entry) };
  });
  for (const [help, alike] of Map.groupBy(found, ({ entry, help = entry.key }) => help)) {
    const names = listed(alike.map(({ entry }) => keyName(entry.key))).replace(/ or ([^ ]+)$/, ' and $1');
    const message = `unknown key${alike.length > 1 ? 's' : ''} ${names}`;
    const expected = known.length === 0 ? 'no keys at all' : listed(known.toSorted(), 15);
    findings.report('C3001', alike[0]!.entry.key_mark, message, { expected, help: alike[0]!.help && help });
  }
  return found.flatMap(({ entry: { key }, meant }) => (meant === undefined ? [] : { owner, key, meant }));
}

/** Whether the value of an unknown key is or looks like a secret. */
function isSecret({ key, value }: Entry, properties: Record<string, Schema>): boolean {
  const is_text = value.kind !== 'scalar' || typeof value.value === 'string';
  return (
    Object.hasOwn(properties, `${key}_env`) ||
    (isSecretKey(key) && is_text) ||
    scalarsOf(value).some(({ value: text }) => looksSecret(String(text)))
  );
}

/** @returns the key that was meant */
function reportSecret(
  { key, key_mark, value }: Entry,
  properties: Record<string, Schema>,
  findings: Findings,
): string | undefined {
  const env_keys = Object.keys(properties).filter((name) => name.endsWith('_env'));
  const env_key = closestKey(`${key}_env`, env_keys) ?? (env_keys.length === 1 ? env_keys[0] : undefined);
  findings.hide(value);
  findings.report('C3009', key_mark, `${keyName(key)} stores a secret in the file`, {
    help: inEnvironment(env_key, key, properties[env_key ?? '']?.['x-secret']),
  });
  return env_key;
}

type Paths = Map<string, string[]>;

const known_paths = new WeakMap<Schema, Paths>();

/** The paths of the mappings of a schema that have a key: `body_bytes` -> `server.limits`. */
function pathsTo(key: string, schema: Schema): readonly string[] {
  const paths = known_paths.get(schema) ?? collectPaths(schema, '', new Map());
  known_paths.set(schema, paths);
  return paths.get(key) ?? [];
}

function collectPaths(schema: Schema, path: string, paths: Paths): Paths {
  const { properties = {}, items } = schema as { properties?: Record<string, Schema>; items?: Schema };
  for (const [name, child] of Object.entries(properties)) {
    paths.set(name, [...(paths.get(name) ?? []), path]);
    collectPaths(child, path === '' ? name : `${path}.${name}`, paths);
  }
  return items === undefined ? paths : collectPaths(items, path, paths);
}

/** The path of the only mapping below a key's own that has it. */
function placeBelow(key: string, owner: string, schema: JsonSchema): string | undefined {
  const here = owner.split('/').filter((token) => token !== '' && !/^\d+$/.test(token));
  const parentOf = (path: string) => path.split('.').slice(0, -1).join('.');
  const [place, more] = pathsTo(key, schema).filter((path) => path !== '' && parentOf(path) === here.join('.'));
  return more === undefined ? place : undefined;
}

/** `: [a, b]` for a text in place of a list. */
function asList(value: Node, { type, items }: Described = {}): string {
  if (type !== 'array' || value.kind !== 'scalar' || value.value === null || looksSecret(String(value.value)))
    return '';
  return `: ${flow(typeof value.value === 'string' ? listMeant(value.value, items) : [value.value])}`;
}

function placeElsewhere(key: string, schema: JsonSchema): string | undefined {
  const paths = pathsTo(key, schema);
  if (paths.length === 0 || paths.length > 2) return undefined;
  const names = paths.map((path) => (path === '' ? 'at the top level' : `under \`${path}\``));
  return `\`${key}\` belongs ${names.join(' or ')}`;
}
