import type { JsonSchema } from '../contract/json-schema.ts';
import { closest, closestKey, listed } from '../kit/text/suggest.ts';
import { isSecretKey, looksSecret } from './diagnostics/secrets.ts';
import type { Findings } from './findings.ts';
import {
  childOf,
  describe,
  type Entry,
  entriesOf,
  entryOf,
  keyName,
  type Node,
  nodeAt,
  replaceNode,
  scalarsOf,
  textOf,
} from './node.ts';
import type { SchemaError } from './validate.ts';

/** Factor from a written unit to the unit at the end of a key's name. Bytes are binary: 1 KB is 1024 bytes. */
const UNITS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  bytes: {
    b: 1,
    k: 1024,
    kb: 1024,
    kib: 1024,
    m: 2 ** 20,
    mb: 2 ** 20,
    mib: 2 ** 20,
    g: 2 ** 30,
    gb: 2 ** 30,
    gib: 2 ** 30,
  },
  seconds: { ms: 0.001, s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86_400 },
  minutes: { m: 1, min: 1, h: 60, d: 1440 },
  usd: { usd: 1 },
  percent: { '%': 1 },
};

/** The number that a text probably means, in the unit of its key; `undefined` if unclear. */
function numberMeant(text: string, key: string): number | undefined {
  const [, digits, unit = ''] = /^\s*\$?\s*(-?[\d_]*\.?\d+)\s*([a-z%]*)\s*$/i.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const factor = unit === '' ? 1 : UNITS[key.slice(key.lastIndexOf('_') + 1)]?.[unit.toLowerCase()];
  return factor === undefined ? undefined : Number(digits.replaceAll('_', '')) * factor;
}

/** A misspelt key, and the key that was probably meant. */
export interface Typo {
  /** JSON pointer of the mapping. */
  readonly owner: string;
  readonly key: string;
  readonly meant: string;
  readonly is_list?: boolean;
}

/** A node with one key renamed. */
export function corrected(root: Node, { owner, key, meant, is_list }: Typo): Node {
  const target = nodeAt(root, owner);
  if (target.kind !== 'map') return root;
  // `method: POST` in place of `methods: [POST]` is one mistake, not two.
  const inList = (value: Node): Node => ({ kind: 'list', items: [value], mark: value.mark });
  const entries = target.entries.map((entry) => {
    if (entry.key !== key) return entry;
    return {
      ...entry,
      key: meant,
      value: is_list && entry.value.kind === 'scalar' ? inList(entry.value) : entry.value,
    };
  });
  return replaceNode(root, target, { ...target, entries });
}

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
  readonly properties?: Readonly<Record<string, Described>>;
  readonly items?: Described;
  readonly 'x-secret'?: unknown;
  readonly 'x-several'?: unknown;
}

const describedIn = ({ parentSchema = {} }: SchemaError) => parentSchema as Described;

/** A suggestion that can be pasted; `undefined` if unclear. */
function valueMeant(wanted: readonly string[], node: Node, key: string, schema: Described): string | undefined {
  const wants = (type: string) => wanted.includes(type);
  const { examples, properties, items } = schema;
  if (node.kind === 'list') {
    const is_split = wants('object') && node.items.length > 0 && node.items.every(({ kind }) => kind === 'map');
    return is_split ? 'remove the dashes: they begin the items of a list' : undefined;
  }
  if (node.kind === 'map') {
    if (!wants('array')) return undefined;
    const example = examples?.findLast((one) => Array.isArray(one));
    if (example !== undefined) return `write ${flow(example)}, for example`;
    const [name] = items?.required ?? [];
    if (name === undefined) return undefined;
    const is_one = node.entries.some((entry) => entry.key === name);
    return is_one ? `begin the item with a dash: \`- ${name}:\`` : `begin each item with a dash: \`- ${name}: ...\``;
  }
  const { value } = node;
  if (typeof value === 'number' || typeof value === 'boolean') return wants('string') ? `write "${value}"` : undefined;
  if (value === null) return undefined;
  const number = wants('number') || wants('integer') ? numberMeant(value, key) : undefined;
  if (number !== undefined) return `write ${number}`;
  if (wants('boolean') && /^(yes|on|true)$/i.test(value)) return 'write true';
  if (wants('boolean') && /^(no|off|false)$/i.test(value)) return 'write false';
  const is_entry = properties !== undefined && 'stage' in properties;
  if (wants('object') && is_entry && /^[\w-]+$/.test(value)) return `write { stage: ${value} }`;
  if (!wants('array') || value === '') return undefined;
  return looksSecret(value) ? 'write a list' : `write a list: ${flow(listMeant(value, items))}`;
}

/** The items of a list written as one text: separated by commas, or by spaces if no item can contain one. */
function listMeant(text: string, { pattern }: Described = {}): string[] {
  const words = text.split(/[\s,]+/).filter((word) => word !== '');
  const fits = (word: string) => new RegExp(pattern ?? '').test(word);
  return pattern !== undefined && !fits(text) && words.every(fits) ? words : text.split(/,\s*/);
}

type Explain = (error: SchemaError, node: Node, findings: Findings, root: Node) => void;

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a text',
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

function wrongType(error: SchemaError, node: Node, findings: Findings): void {
  const wanted = ([] as string[]).concat(error.params.type as string | string[]);
  const schema = describedIn(error);
  const { examples, 'x-secret': variable, 'x-several': several } = schema;
  const [example] = wanted.includes('string') ? (examples ?? []) : [];
  const key = error.instancePath.slice(error.instancePath.lastIndexOf('/') + 1);
  const expected = listed(wanted.map((type) => TYPE_NAMES[type] ?? type));
  const is_plain = node.kind === 'scalar' && (typeof node.value === 'number' || typeof node.value === 'boolean');
  const any_text = ['format', 'pattern', 'x-url'].every((keyword) => !(keyword in schema));
  const help =
    example === undefined || (is_plain && any_text)
      ? valueMeant(wanted, node, key, schema)
      : `write ${flow(example)}, for example`;
  const hint =
    typeof variable === 'string'
      ? `write the name of a variable: \`${key}: ${variable}\``
      : typeof several === 'string' && node.kind === 'list'
        ? `for a list there is \`${several}\``
        : help;
  findings.report('C3003', node.mark, `expected ${expected}`, { found: describe(node), expected, help: hint });
}

const EMPTY = {
  minLength: ['text', 'character'],
  minItems: ['list', 'item'],
  minProperties: ['mapping', 'key'],
} as const;

function tooFew(error: SchemaError, node: Node, findings: Findings): void {
  if ((error.params.limit as number) > 1) return void outOfRange(error, node, findings);
  const [what, part] = EMPTY[error.keyword as keyof typeof EMPTY];
  const details = { expected: `at least one ${part}`, help: 'write a value, or remove the key' };
  findings.report('C3007', node.mark, `the ${what} is empty`, details);
}

function notAllowed(error: SchemaError, node: Node, findings: Findings): void {
  const values = ([] as unknown[]).concat(error.params.allowedValues ?? error.params.allowedValue);
  const allowed = values.map((one) => (typeof one === 'string' && isNumeral(one) ? JSON.stringify(one) : String(one)));
  const value = node.kind === 'scalar' ? node.value : undefined;
  const as_text = values.find((one) => typeof one === 'string' && typeof value === 'number' && Number(one) === value);
  const meant = typeof value === 'string' ? closest(value, values.map(String)) : as_text;
  const text =
    as_text !== undefined
      ? `write "${as_text}", in quotes`
      : meant === value
        ? `write ${meant}, without quotes`
        : `did you mean \`${meant}\`?`;
  const help = meant === undefined ? whatItIs(error) : text;
  const message = `${describe(node)} is not one of the allowed values`;
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
  return typeof stated === 'string' ? stated : `text that matches ${error.params.pattern ?? 'the schema'}`;
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
  return env_key === undefined
    ? `${set}, and write its name into a key that ends in _env`
    : `${set}, and write \`${env_key}: ${variable}\``;
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
    found: 'a text that is no valid name (hidden, because it may be a secret)',
    expected: `a name such as ${typeof example === 'string' ? example : 'UPSTREAM_KEY'}`,
    help: inEnvironment(key, key, example),
  });
}

/** Removes errors of alternatives not meant: by key, only the missing key counts; by value, only the branch of its kind. */
function withoutOtherBranches(errors: readonly SchemaError[], root: Node): SchemaError[] {
  const alternatives = errors.filter(({ keyword }) => keyword === 'anyOf');
  const by_value = alternatives.filter((error) => alternativeKeys(error).length === 0);
  const others = alternatives.flatMap((error): OtherBranch[] => {
    const { instancePath: at, schemaPath } = error;
    if (!by_value.includes(error)) return [{ at, path: `${schemaPath}/` }];
    const branches = (error.parentSchema?.anyOf ?? []) as readonly Branch[];
    const meant = branchFor(nodeAt(root, at), branches);
    const kept = `${schemaPath}/${meant}/`;
    return branches.flatMap(({ $ref }, i) =>
      i === meant ? [] : [$ref === undefined ? { at, path: `${schemaPath}/${i}/` } : { at, kept }],
    );
  });
  return errors.filter((error) => !by_value.includes(error) && !others.some((branch) => isOf(branch, error)));
}

interface OtherBranch {
  /** Pointer of the value. Items of one list share a schema, but each may mean another branch. */
  readonly at: string;
  /** Schema path of the branch; a definition has its own path instead. */
  readonly path?: string;
  readonly kept?: string;
}

/** Errors of a definition below the value may also concern items of the list that was meant. */
function isOf({ at, path, kept }: OtherBranch, { instancePath, schemaPath }: SchemaError): boolean {
  if (path === undefined) return instancePath === at && !schemaPath.startsWith(kept!);
  return schemaPath.startsWith(path) && `${instancePath}/`.startsWith(`${at}/`);
}

interface Branch {
  readonly $ref?: string;
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

const REQUIRED = ['required', 'dependencies'];

function rank({ keyword }: SchemaError): number {
  const at = PRECEDENCE.indexOf(keyword);
  return at < 0 ? PRECEDENCE.length : at;
}

/** The paths of each key of a schema: `body_bytes` -> `server.limits`. */
function keyPaths(schema: Schema, path: readonly string[] = [], paths = new Map<string, string[]>()) {
  for (const [key, child] of Object.entries((schema.properties ?? {}) as Record<string, Schema>)) {
    paths.set(key, [...(paths.get(key) ?? []), path.join('.')]);
    keyPaths(child, [...path, key], paths);
    if (child.items !== undefined) keyPaths(child.items as Schema, [...path, `${key}[]`], paths);
  }
  return paths;
}

/** Reports one diagnostic per mistake. @returns the node with misspelt keys corrected, for later passes */
export function reportSchemaErrors(
  errors: readonly SchemaError[],
  schema: JsonSchema,
  root: Node,
  findings: Findings,
): Node {
  const own = withoutOtherBranches(errors, root);
  const { typos, explains } = reportKeys(own, schema, root, findings);
  const reported = new Set<string>();
  for (const error of own.toSorted((a, b) => rank(a) - rank(b))) {
    if (error.keyword === 'additionalProperties' || error.keyword === 'propertyNames') continue;
    if (explains(error)) continue;
    // All missing keys of a mapping are one mistake: often the mapping is empty.
    const is_missing = error.keyword === 'required';
    const about = is_missing ? '(missing)' : (error.params.missingProperty ?? error.propertyName);
    const key = `${error.instancePath} ${about ?? ''}`;
    if (reported.has(key)) continue;
    reported.add(key);
    const lacks = own.filter((other) => other.keyword === 'required' && other.instancePath === error.instancePath);
    const missing = lacks.filter((other) => !explains(other));
    if (error.keyword === 'anyOf' && missing.length > 0) continue;
    const choices = own.filter((other) => other.keyword === 'anyOf' && other.instancePath === error.instancePath);
    const chosen = choices.filter((other) => !explains(other)).flatMap((other) => alternativeKeys(other)[0] ?? []);
    const keys = [...missing.map(({ params }) => String(params.missingProperty)), ...chosen];
    reportSchemaError(error, root, findings, is_missing ? keys : []);
  }
  return typos.reduce(corrected, root);
}

function reportKeys(errors: readonly SchemaError[], schema: JsonSchema, root: Node, findings: Findings) {
  /** `<pointer> <key>` of missing keys, and pointers of values, whose errors follow from a reported key. */
  const explained = new Set<string>();

  /** Whether another key of the mapping requires this one; that error reports it. */
  const isOwed = (at: string, key: string) =>
    errors.some(
      ({ keyword, instancePath, params }) =>
        keyword === 'dependencies' && instancePath === at && params.missingProperty === key,
    );

  /** The only missing key of a mapping; of alternatives the first. */
  function onlyMissing(at: string): string | undefined {
    const missing = errors.flatMap((error) => {
      if (error.instancePath !== at) return [];
      if (REQUIRED.includes(error.keyword)) return [String(error.params.missingProperty)];
      return error.keyword === 'anyOf' ? alternativeKeys(error).slice(0, 1) : [];
    });
    return missing.length === 1 ? missing[0] : undefined;
  }

  /** Reports keys that belong in a mapping beside them: one finding for each such mapping. */
  function misplaced(entries: readonly Entry[], properties: Record<string, Schema>, at: string, owner: Node): Entry[] {
    const home = ({ key }: Entry) => {
      const homes = Object.keys(properties).filter((name) => key in ((properties[name]?.properties ?? {}) as Schema));
      return homes.length === 1 ? homes[0] : undefined;
    };
    return [...Map.groupBy(entries, home)].flatMap(([name, inside]) => {
      if (name === undefined) return [];
      reportMisplaced(inside, [...pathOf(at), name].join('.'), findings);
      explained.add(`${at} ${name}`);
      for (const { key } of inside) explained.add(`${at}/${name} ${key}`);
      const beside = childOf(owner, name);
      if (beside?.kind === 'scalar' && beside.value === null) explained.add(`${at}/${name}`);
      return inside;
    });
  }

  /** @returns the key that was probably meant. */
  function unknownKey(
    { key, key_mark, value }: Entry,
    properties: Record<string, Schema>,
    owner: Node,
    instead: string | undefined,
  ): string | undefined {
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
      findings.hide(value);
      findings.report('C3009', key_mark, `${keyName(key)} would store a secret in the file`, {
        help: inEnvironment(right_key, key, properties[right_key ?? '']?.['x-secret']),
      });
      return env_key;
    }
    const also = free.find((name) => (properties[name]?.['x-also'] as string[] | undefined)?.includes(key));
    const alike = also ?? (instead?.slice(0, 3) === key.slice(0, 3) ? instead : closest(key, free));
    // A key that only shares a word is likely only if no key is missing.
    const meant = alike ?? (instead === undefined ? closestKey(key, free) : undefined);
    findings.report('C3001', key_mark, `unknown key ${keyName(key)}`, {
      expected: known.length === 0 ? 'no keys at all' : listed(known.toSorted(), 15),
      help:
        meant !== undefined
          ? `did you mean \`${meant}${asList(value, properties[meant])}\`?`
          : instead !== undefined
            ? `\`${instead}\` is missing here: did you mean that?`
            : otherPath(key, schema),
    });
    return meant ?? instead;
  }

  const unknown = errors.filter(({ keyword }) => keyword === 'additionalProperties');
  const owners = [...Map.groupBy(unknown, ({ instancePath }) => instancePath)];
  const typos = owners.flatMap(([at, of_owner]) => {
    const owner = nodeAt(root, at);
    const { properties = {}, 'x-moved': moved = {} } = (of_owner[0]!.parentSchema ?? {}) as {
      readonly properties?: Record<string, Schema>;
      readonly 'x-moved'?: Readonly<Record<string, string>>;
    };
    const entries = of_owner.flatMap(({ params }) => entryOf(owner, String(params.additionalProperty)) ?? []);
    const elsewhere = misplaced(entries, properties, at, owner);
    // Keys that belong under an empty key beside them; the report of that key covers them.
    const inside = Object.assign({}, ...entries.filter(isEmpty).map(({ key }) => propertiesOf(schema, key)));
    const rest = entries.filter((entry) => !elsewhere.includes(entry) && (isEmpty(entry) || !(entry.key in inside)));
    const instead = rest.length === 1 ? onlyMissing(at) : undefined;
    return rest.flatMap((entry) => {
      const { key, key_mark } = entry;
      if (Object.hasOwn(moved, key)) {
        findings.report('C3001', key_mark, `unknown key ${keyName(key)}`, { help: moved[key] });
        return [];
      }
      const meant = unknownKey(entry, properties, owner, instead);
      if (meant === undefined) return [];
      explained.add(`${at} ${meant}`);
      return { owner: at, key, meant, is_list: properties[meant]?.type === 'array' };
    });
  });
  return {
    typos,
    explains(error: SchemaError): boolean {
      const { keyword, instancePath: at, params } = error;
      if (REQUIRED.includes(keyword)) return explained.has(`${at} ${params.missingProperty}`);
      if (keyword !== 'anyOf') return explained.has(at);
      return alternativeKeys(error).some((key) => explained.has(`${at} ${key}`) || isOwed(at, key));
    },
  };
}

/** Reports keys of one mapping that belong in another, indented further. @param home its path */
export function reportMisplaced(entries: readonly Entry[], home: string, findings: Findings): void {
  const keys = listed(entries.map(({ key }) => keyName(key))).replace(/ or ([^ ]+)$/, ' and $1');
  const is_many = entries.length > 1;
  findings.report('C3001', entries[0]!.key_mark, `unknown key${is_many ? 's' : ''} ${keys}`, {
    help: `${is_many ? 'they belong' : 'it belongs'} under \`${home}\`, indented further`,
  });
}

function asList(value: Node, schema: Described = {}): string {
  if (schema.type !== 'array' || value.kind !== 'scalar' || value.value === null) return '';
  const { value: text } = value;
  return `: ${flow(typeof text === 'string' ? listMeant(text, schema.items) : [text])}`;
}

const isEmpty = ({ value }: Entry): boolean => value.kind === 'scalar' && value.value === null;

function propertiesOf(schema: Described, key: string): object {
  const { properties = {} } = schema;
  const own = properties[key]?.properties;
  if (own !== undefined) return own;
  const found = Object.values(properties).map((child) => propertiesOf(child, key));
  return found.find((inside) => Object.keys(inside).length > 0) ?? {};
}

function pathOf(pointer: string): string[] {
  return pointer.split('/').filter((token) => token !== '' && !/^\d+$/.test(token));
}

function otherPath(key: string, schema: JsonSchema): string | undefined {
  const paths = keyPaths(schema).get(key) ?? [];
  if (paths.length === 0 || paths.length > 2) return undefined;
  const names = paths.map((path) => (path === '' ? 'at the top level' : `under \`${path}\``));
  return `\`${key}\` belongs ${names.join(' or ')}`;
}
