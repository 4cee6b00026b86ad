import type { JsonSchema } from '../contract/json-schema.ts';
import { closest, listed } from '../kit/text/suggest.ts';
import { describe, keyName } from './describe.ts';
import type { DiagnosticCode } from './diagnostics/codes.ts';
import type { Details, Findings } from './findings.ts';
import { entryOf, type Mark, type Node, nodeAt } from './node.ts';
import type { SchemaError } from './validator.ts';
import { flow, valueMeant } from './value-meant.ts';

/** A diagnostic that is yet to be reported. */
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

/** So many choices still make their first a fair example. */
const FEW_CHOICES = 3;

const RELATIONS: Readonly<Record<string, string>> = {
  '>=': 'at least',
  '<=': 'at most',
  '>': 'more than',
  '<': 'less than',
};

/** The keys of `anyOf: [{ required: [a] }, { required: [b] }]`; none where the alternatives are values. */
export function alternativeKeys(error: SchemaError): string[] {
  const branches = (error.parentSchema?.anyOf ?? []) as { required?: string[]; type?: unknown }[];
  return branches.flatMap(({ required = [], type }) => (type === undefined ? required : []));
}

/** Of more alternatives only the first is proposed. */
const PROPOSED_MAX = 3;

/** @param join whether the mapping lacks one of the keys, or each. */
function missing(keys: readonly string[], owner: Node, error: SchemaError, join: 'or' | 'and' = 'or'): Wording {
  const properties = (error.parentSchema?.properties ?? {}) as Readonly<Record<string, JsonSchema>>;
  const names = listed(keys.map((key) => `\`${key}\``)).replace(/ or (\S+)$/, ` ${join} $1`);
  const many = join === 'or' && keys.length > PROPOSED_MAX;
  const proposals = (many ? keys.slice(0, 1) : keys).map((key) => proposal(key, properties[key]));
  const help = `${proposals.join(` ${join} `)}${many ? ', or one of the others' : ''}`;
  const message = join === 'and' ? `the keys ${names} are missing` : `the key ${names} is missing`;
  return { code: 'C3002', mark: owner.mark, message, details: { help: `add ${help}` } };
}

/** A key with a value that is ready to paste, or else with what it means. */
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

/** Whether it is a number larger than any that programs calculate with, such as 1e400 or .inf. */
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
  const details = { expected: `at least one ${part}`, help: 'fill it in, or leave the key out if nothing is meant' };
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

/** Longest description of a key that helps to choose a word, in characters. */
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
  return { code: 'C3006', mark: node.mark, message: `${describe(node)} has the wrong form`, details: { expected } };
}

function keyForm(error: SchemaError, owner: Node, key: string): Wording {
  const mark = entryOf(owner, key)?.key_mark ?? owner.mark;
  const message = `the key ${keyName(key)} has the wrong form`;
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
 * Reports one error of the validator in the words of this language.
 * @param keys all keys that the same mapping lacks, where the error is one of them.
 */
export function reportSchemaError(error: SchemaError, root: Node, findings: Findings, keys: readonly string[]): void {
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
 * How to get a secret out of the file.
 * @param example what the schema's `x-secret` says: the name of a variable, or `true`.
 */
export function inEnvironment(env_key: string | undefined, key: string, example?: unknown): string {
  const variable = typeof example === 'string' ? example : key.replace(/_env$/, '').toUpperCase();
  const set = `put the secret into the environment (export ${variable}=...)`;
  return env_key === undefined
    ? `${set} and give its name to a key that ends in _env`
    : `${set} and write \`${env_key}: ${variable}\``;
}

/** Reports a value that stands where the name of an environment variable belongs, without showing it. */
export function reportLiteralSecret(node: Node, example: unknown, findings: Findings): void {
  findings.hide(node);
  const key = node.mark.pointer.slice(node.mark.pointer.lastIndexOf('/') + 1);
  const reference = node.kind === 'scalar' ? /^\$\{?([A-Z_][A-Z0-9_]*)\}?$/.exec(String(node.value))?.[1] : undefined;
  if (reference !== undefined) {
    findings.report('C3008', node.mark, 'this must be the name of an environment variable, as it is', {
      help: `write \`${key}: ${reference}\``,
    });
    return;
  }
  findings.report('C3008', node.mark, 'this must be the name of an environment variable, not the secret itself', {
    found: 'something that cannot be a name (not shown: it may be a secret)',
    expected: `a name such as ${typeof example === 'string' ? example : 'UPSTREAM_KEY'}`,
    help: inEnvironment(key, key, example),
  });
}
