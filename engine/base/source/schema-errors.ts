import type { JsonSchema } from '../contract/json-schema.ts';
import { closest, closestKey, listed } from '../kit/text/suggest.ts';
import type { DiagnosticCode } from './diagnostics/codes.ts';
import { isSecretKey, looksSecret } from './diagnostics/secrets.ts';
import type { Details, Findings } from './findings.ts';
import {
  describe,
  type Entry,
  entriesOf,
  entryOf,
  keyName,
  type Mark,
  type Node,
  nodeAt,
  scalarsOf,
  textOf,
} from './node.ts';
import type { SchemaError } from './validate.ts';

const KIBI = 1024;

/** Factor from a written unit to the unit of a key: `bytes` -> `mb`. Bytes are binary: 1 KB is 1024 bytes. */
const UNITS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  bytes: {
    b: 1,
    k: KIBI,
    kb: KIBI,
    kib: KIBI,
    m: KIBI ** 2,
    mb: KIBI ** 2,
    mib: KIBI ** 2,
    g: KIBI ** 3,
    gb: KIBI ** 3,
    gib: KIBI ** 3,
  },
  seconds: { ms: 0.001, s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86_400 },
  minutes: { s: 1 / 60, m: 1, min: 1, h: 60, d: 1440 },
  usd: { usd: 1, $: 1 },
  percent: { '%': 1 },
  weight: { '%': 1 },
};

/**
 * The number that a text probably means: without quotes, digit separators and currency, in the unit at the end of the key's name.
 * `undefined` if unclear.
 */
function numberMeant(text: string, key: string): number | undefined {
  const [, sign = '', digits = '', unit = ''] = /^\s*(-?)\$?\s*([\d_]*\.?\d+)\s*([a-z$%]*);?\s*$/i.exec(text) ?? [];
  const number = Number(sign + digits.replaceAll('_', ''));
  if (digits === '' || !Number.isFinite(number)) return undefined;
  if (unit === '') return number;
  const units = UNITS[key.slice(key.lastIndexOf('_') + 1)] ?? UNITS.usd;
  const factor = units?.[unit.toLowerCase()];
  return factor === undefined ? undefined : number * factor;
}

/** A misspelt key, and the key that was probably meant. */
export interface Typo {
  /** JSON pointer of the mapping. */
  readonly owner: string;
  readonly key: string;
  readonly meant: string;
  /** Whether the meant key takes a list. */
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
  return replaced(root, target, { ...target, entries });
}

function replaced(node: Node, old: Node, fresh: Node): Node {
  if (node === old) return fresh;
  if (node.kind === 'list') return { ...node, items: node.items.map((item) => replaced(item, old, fresh)) };
  if (node.kind !== 'map') return node;
  return {
    ...node,
    entries: node.entries.map((entry) => ({ ...entry, value: replaced(entry.value, old, fresh) })),
  };
}

// Suggestions for a value of the wrong type.

const quoted = (text: string): string => (/^[\w./:-]+$/.test(text) ? text : JSON.stringify(text));

/** A value in YAML's flow style, such as { a: [1, b] }. */
export function flow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return typeof value === 'string' ? quoted(value) : String(value);
  return `{ ${Object.entries(value)
    .map(([key, item]) => `${key}: ${flow(item)}`)
    .join(', ')} }`;
}

/** A suggestion that can be pasted; `undefined` if unclear. */
function valueMeant(wanted: readonly string[], node: Node, key: string, schema: JsonSchema = {}): string | undefined {
  const wants = (type: string) => wanted.includes(type);
  const { examples, properties, items } = schema as {
    examples?: readonly unknown[];
    properties?: object;
    items?: JsonSchema & { readonly required?: readonly string[] };
  };
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
  if (typeof value === 'number' && wants('array')) return `write a list: [${value}]`;
  if (typeof value === 'number' || typeof value === 'boolean') return wants('string') ? `write "${value}"` : undefined;
  if (value === null) return undefined;
  const number = wants('number') || wants('integer') ? numberMeant(value, key) : undefined;
  if (number !== undefined) return `write ${number}`;
  if (wants('boolean') && /^(yes|on|true)$/i.test(value)) return 'write true';
  if (wants('boolean') && /^(no|off|false)$/i.test(value)) return 'write false';
  if (wants('object') && /^[\w-]+:\S/.test(value)) return 'put a space after the colon';
  const is_entry = properties !== undefined && 'stage' in properties;
  if (wants('object') && is_entry && /^[\w-]+$/.test(value)) return `write { stage: ${value} }`;
  if (!wants('array') || value === '') return undefined;
  return looksSecret(value) ? 'write a list' : `write a list: ${flow(listMeant(value, items))}`;
}

/** The items of a list written as one text: separated by commas, or by spaces if no item can contain one. */
function listMeant(text: string, items: JsonSchema = {}): string[] {
  const { pattern } = items as { pattern?: string };
  const words = text.split(/[\s,]+/).filter((word) => word !== '');
  const fits = (word: string) => new RegExp(pattern ?? '').test(word);
  return pattern !== undefined && !fits(text) && words.every(fits) ? words : text.split(/,\s*/);
}

interface Wording {
  readonly code: DiagnosticCode;
  readonly mark: Mark;
  readonly message: string;
  readonly details?: Details;
}

type Explain = (error: SchemaError, node: Node, root: Node) => Wording;

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

/** @param join `or`: one of the keys is missing; `and`: all are. */
function missing(keys: readonly string[], owner: Node, error: SchemaError, join: 'or' | 'and' = 'or'): Wording {
  const properties = (error.parentSchema?.properties ?? {}) as Readonly<Record<string, JsonSchema>>;
  const names = listed(keys.map((key) => `\`${key}\``)).replace(/ or (\S+)$/, ` ${join} $1`);
  const many = join === 'or' && keys.length > PROPOSED_MAX;
  const proposals = (many ? keys.slice(0, 1) : keys).map((key) => proposal(key, properties[key]));
  const help = `${proposals.join(` ${join} `)}${many ? ', or one of the others' : ''}`;
  const message = join === 'and' ? `the keys ${names} are missing` : `the key ${names} is missing`;
  return { code: 'C3002', mark: owner.mark, message, details: { help: `add ${help}` } };
}

/** A key with a value to paste, or with its description. */
function proposal(key: string, schema: JsonSchema = {}): string {
  const {
    'x-secret': variable,
    examples,
    enum: allowed,
    description,
  } = schema as {
    'x-secret'?: unknown;
    examples?: readonly unknown[];
    enum?: readonly unknown[];
    description?: string;
  };
  const few = allowed !== undefined && allowed.length <= FEW_CHOICES ? allowed[0] : undefined;
  const example = typeof variable === 'string' ? variable : (examples?.[0] ?? few);
  if (example !== undefined) return `\`${key}: ${flow(example)}\``;
  return description === undefined ? `\`${key}:\`` : `\`${key}:\` (${description.replace(/\.$/, '')})`;
}

function wrongType(error: SchemaError, node: Node): Wording {
  const wanted = ([] as string[]).concat(error.params.type as string | string[]);
  const { examples } = (error.parentSchema ?? {}) as { examples?: readonly unknown[] };
  const [example] = wanted.includes('string') ? (examples ?? []) : [];
  const key = error.instancePath.slice(error.instancePath.lastIndexOf('/') + 1);
  const expected = listed(wanted.map((type) => TYPE_NAMES[type] ?? type));
  if (isEndless(node) && (wanted.includes('number') || wanted.includes('integer'))) {
    const details = { found: describe(node), expected: `${expected} below 1e+308` };
    return { code: 'C3005', mark: node.mark, message: 'the value is out of range', details };
  }
  const is_plain = node.kind === 'scalar' && (typeof node.value === 'number' || typeof node.value === 'boolean');
  const any_text = ['format', 'pattern', 'x-url'].every((keyword) => !(keyword in (error.parentSchema ?? {})));
  const help =
    example === undefined || (is_plain && any_text)
      ? valueMeant(wanted, node, key, error.parentSchema)
      : `write ${flow(example)}, for example`;
  const { 'x-secret': variable, 'x-several': several } = error.parentSchema ?? {};
  const hint =
    typeof variable === 'string'
      ? `write the name of a variable: \`${key}: ${variable}\``
      : typeof several === 'string' && node.kind === 'list'
        ? `for a list there is \`${several}\``
        : help;
  const details = { found: describe(node), expected, help: hint };
  return { code: 'C3003', mark: node.mark, message: `expected ${expected}`, details };
}

/** Whether the number exceeds the range of floating-point numbers, such as 1e400 or .inf. */
function isEndless(node: Node): boolean {
  return node.kind === 'scalar' && (node.value === Infinity || node.value === -Infinity);
}

const EMPTY = {
  minLength: ['text', 'character'],
  minItems: ['list', 'item'],
  minProperties: ['mapping', 'key'],
} as const;

function tooFew(error: SchemaError, node: Node): Wording {
  if ((error.params.limit as number) > 1) return outOfRange(error, node);
  const [what, part] = EMPTY[error.keyword as keyof typeof EMPTY];
  const details = { expected: `at least one ${part}`, help: 'write a value, or remove the key' };
  return { code: 'C3007', mark: node.mark, message: `the ${what} is empty`, details };
}

function notAllowed(error: SchemaError, node: Node): Wording {
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
  return {
    code: 'C3004',
    mark: node.mark,
    message: `${describe(node)} is not one of the allowed values`,
    details: { expected: listed(allowed, 40), help: meant === undefined ? whatItIs(error) : text },
  };
}

/** Longest description that serves as help, in characters. */
const DESCRIPTION_CHARS_MAX = 160;

function whatItIs({ parentSchema }: SchemaError): string | undefined {
  const { description } = (parentSchema ?? {}) as { description?: string };
  return description !== undefined && description.length <= DESCRIPTION_CHARS_MAX ? description : undefined;
}

/** Whether YAML would read the text as a number without quotes. */
function isNumeral(text: string): boolean {
  return text.trim() !== '' && Number.isFinite(Number(text));
}

function repeated(error: SchemaError, _list: Node, root: Node): Wording {
  const { i, j } = error.params as { i: number; j: number };
  const node = nodeAt(root, `${error.instancePath}/${Math.max(i, j)}`);
  const details = { help: 'remove one of the two' };
  return { code: 'C3010', mark: node.mark, message: `${describe(node)} is listed twice`, details };
}

function wrongForm(error: SchemaError, node: Node): Wording {
  const expected = FORMATS[error.params.format as string] ?? expectation(error);
  return { code: 'C3006', mark: node.mark, message: `${describe(node)} has the wrong format`, details: { expected } };
}

function keyForm(error: SchemaError, owner: Node, key: string): Wording {
  const mark = entryOf(owner, key)?.key_mark ?? owner.mark;
  const message = `the key ${keyName(key)} has the wrong format`;
  return { code: 'C3006', mark, message, details: { expected: expectation(error) } };
}

function expectation(error: SchemaError): string {
  const stated = error.parentSchema?.['x-expected'];
  return typeof stated === 'string' ? stated : `text that matches ${error.params.pattern ?? 'the schema'}`;
}

function outOfRange(error: SchemaError, node: Node): Wording {
  const { keyword, params } = error;
  const unit = /Length$/.test(keyword) ? ' characters' : /Items$/.test(keyword) ? ' items' : '';
  const relation = RELATIONS[params.comparison as string] ?? (keyword.startsWith('max') ? 'at most' : 'at least');
  const expected =
    params.limit === undefined ? (error.message ?? 'another value') : `${relation} ${params.limit}${unit}`;
  const found = unit === '' ? { found: describe(node) } : {};
  return { code: 'C3005', mark: node.mark, message: 'the value is out of range', details: { ...found, expected } };
}

const EXPLANATIONS: Readonly<Record<string, Explain>> = {
  required: (error, node) => missing([error.params.missingProperty as string], node, error),
  dependencies: (error, node) => missing([error.params.missingProperty as string], node, error),
  anyOf: (error, node) => missing(alternativeKeys(error), node, error),
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

/**
 * Reports one error of the validator as a diagnostic.
 * @param keys all missing keys of the mapping, if the error is about a missing key.
 */
function reportSchemaError(error: SchemaError, root: Node, findings: Findings, keys: readonly string[]): void {
  const node = nodeAt(root, error.instancePath);
  const is_empty = node.kind === 'scalar' && (node.value === null || node.value === '');
  if (error.parentSchema?.['x-secret'] !== undefined && !is_empty) {
    reportLiteralSecret(node, error.parentSchema['x-secret'], findings);
    return;
  }
  if (keys.length > 1) {
    const { code, mark, message, details } = missing(keys, node, error, 'and');
    findings.report(code, mark, message, details);
    return;
  }
  const explain = EXPLANATIONS[error.keyword] ?? outOfRange;
  const { code, mark, message, details } =
    error.propertyName === undefined ? explain(error, node, root) : keyForm(error, node, error.propertyName);
  findings.report(code, mark, message, details);
}

/**
 * The help text that moves a secret into the environment.
 * @param example `x-secret` of the schema: the name of a variable, or `true`.
 */
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

/**
 * Removes the errors of alternatives that were not meant. For alternatives by key, only the missing key counts. For alternatives by
 * value, only the branch of the same kind counts: list, mapping, or words for a text.
 */
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
  /** Schema path of the branch that was meant. */
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

/** Index of the alternative that was probably meant. */
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

/**
 * Converts the errors of the validator into diagnostics, one per mistake. A misspelt key is not also reported as missing, and only
 * the first of several errors about one value counts.
 * @returns the node with misspelt keys corrected, for later passes.
 */
export function reportSchemaErrors(
  errors: readonly SchemaError[],
  schema: JsonSchema,
  root: Node,
  findings: Findings,
): Node {
  const own = withoutOtherBranches(errors, root);
  const reporter = new KeyReporter(own, schema, root, findings);
  const typos = reporter.report();
  const reported = new Set<string>();
  for (const error of own.toSorted((a, b) => rank(a) - rank(b))) {
    if (error.keyword === 'additionalProperties' || error.keyword === 'propertyNames') continue;
    if (reporter.explains(error)) continue;
    // All missing keys of a mapping are one mistake: often the mapping is empty.
    const is_missing = error.keyword === 'required';
    const about = is_missing ? '(missing)' : (error.params.missingProperty ?? error.propertyName);
    const key = `${error.instancePath} ${about ?? ''}`;
    if (reported.has(key)) continue;
    reported.add(key);
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
  return typos.reduce(corrected, root);
}

/** Reports unknown keys as one mistake each, and knows which other errors follow from them. */
class KeyReporter {
  private readonly errors: readonly SchemaError[];
  private readonly schema: JsonSchema;
  private readonly root: Node;
  private readonly findings: Findings;
  /** Errors that follow from a reported key: `<pointer> <key>` of missing keys, and pointers of values. */
  private readonly explained = new Set<string>();

  constructor(errors: readonly SchemaError[], schema: JsonSchema, root: Node, findings: Findings) {
    this.errors = errors;
    this.schema = schema;
    this.root = root;
    this.findings = findings;
  }

  report(): Typo[] {
    const unknown = this.errors.filter(({ keyword }) => keyword === 'additionalProperties');
    const owners = Map.groupBy(unknown, ({ instancePath }) => instancePath);
    return [...owners.values()].flatMap((of_owner) => this.keysOf(of_owner));
  }

  /** Whether an error follows from a reported key. */
  explains(error: SchemaError): boolean {
    const { instancePath: at } = error;
    if (REQUIRED.includes(error.keyword)) return this.explained.has(`${at} ${error.params.missingProperty}`);
    if (error.keyword === 'anyOf') {
      return alternativeKeys(error).some((key) => this.explained.has(`${at} ${key}`) || this.isOwed(at, key));
    }
    return this.explained.has(at);
  }

  /** Whether another key of the mapping requires this one; that error reports it. */
  private isOwed(at: string, key: string): boolean {
    return this.errors.some(
      ({ keyword, instancePath, params }) =>
        keyword === 'dependencies' && instancePath === at && params.missingProperty === key,
    );
  }

  private keysOf(errors: readonly SchemaError[]): Typo[] {
    const [first] = errors;
    if (first === undefined) return [];
    const owner = nodeAt(this.root, first.instancePath);
    const properties = (first.parentSchema?.properties ?? {}) as Record<string, Schema>;
    const entries = errors.flatMap(({ params }) => entryOf(owner, String(params.additionalProperty)) ?? []);
    const misplaced = this.misplaced(entries, properties, first.instancePath, owner);
    const followers = entries.filter(isEmpty).flatMap((entry) => this.followers(entry, entries));
    const rest = entries.filter((entry) => !misplaced.includes(entry) && !followers.includes(entry));
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

  /** Reports keys that belong in a mapping beside them: one finding for each such mapping. */
  private misplaced(entries: readonly Entry[], properties: Record<string, Schema>, at: string, owner: Node): Entry[] {
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

  /** Keys that belong under an empty key beside them; the report of that key covers them. */
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
    // A key that only shares a word is likely only if no key is missing.
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
    if (instead !== undefined) return { help: `\`${instead}\` is missing here: did you mean that?` };
    return otherPath(key, this.schema);
  }

  /** The only missing key of a mapping; of alternatives the first. */
  private onlyMissing(at: string): string | undefined {
    const missing = this.errors.flatMap((error) => {
      if (error.instancePath !== at) return [];
      if (REQUIRED.includes(error.keyword)) return [String(error.params.missingProperty)];
      return error.keyword === 'anyOf' ? alternativeKeys(error).slice(0, 1) : [];
    });
    return missing.length === 1 ? missing[0] : undefined;
  }
}

const isEmpty = ({ value }: Entry): boolean => value.kind === 'scalar' && value.value === null;

/** The properties of the first mapping called `key` in a schema. */
function propertiesOf(schema: Schema, key: string): Schema {
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  const own = properties[key]?.properties;
  if (own !== undefined) return own as Schema;
  const found = Object.values(properties).map((child) => propertiesOf(child, key));
  return found.find((inside) => Object.keys(inside).length > 0) ?? {};
}

/** The names in a JSON pointer, without list indexes. */
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
  findings.report('C3009', key_mark, `${keyName(key)} would store a secret in the file`, {
    help: inEnvironment(env_key, key, example),
  });
}

function otherPath(key: string, schema: JsonSchema): { help?: string } {
  const paths = keyPaths(schema).get(key) ?? [];
  if (paths.length === 0 || paths.length > 2) return {};
  const names = paths.map((path) => (path === '' ? 'at the top level' : `under \`${path}\``));
  return { help: `\`${key}\` belongs ${names.join(' or ')}` };
}
