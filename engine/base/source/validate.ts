import { resolve } from 'node:path';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import type { JsonSchema } from '../contract/json-schema.ts';
import { parseListenAddress } from '../kit/net/addresses.ts';
import { secretInFile, secretKeys } from '../kit/secret-names.ts';
import { isEmail } from '../kit/text/email.ts';
import { isPrintableLine } from '../kit/text/printable.ts';
import { parseDate } from '../kit/times.ts';
import type { Findings } from './findings.ts';
import { holderAt, type Node, toValue } from './node.ts';
import { reportSchemaErrors } from './schema-errors.ts';

/** An error of the validator. */
export type SchemaError = ErrorObject;

/** Custom schema keywords; validation collects the annotated values for later checks. */
export const ANNOTATIONS = [
  'x-rule',
  /** The name of an environment variable with a secret. */
  'x-secret',
  /** The path of a secret file, in place of the named key. */
  'x-secret-file',
  /** A reference by name: `upstream`, `model`, `token-group`, `error-code`. */
  'x-ref',
  /** A path relative to the file: `file`, `directory` and `module` must exist, `created` may be missing. */
  'x-path',
  /** An http(s) URL: `base` without a query, `endpoint` with an optional one, `origin` of web pages. */
  'x-url',
  /** An IP address or CIDR range; `single`: an address only. */
  'x-address',
  'x-time-zone',
  /** An amount that must be exact in its stored unit: `usd`, a `price` per million tokens, or a `fee` per 1,000 uses. */
  'x-amount',
] as const;

const PATHS: readonly (typeof ANNOTATIONS)[number][] = ['x-path', 'x-secret-file'];

/** An annotated value. */
export interface Annotation {
  readonly kind: (typeof ANNOTATIONS)[number];
  readonly parameter: unknown;
  /** JSON pointer of the value below the validated node. */
  readonly pointer: string;
  readonly value: unknown;
}

interface Parent {
  readonly instancePath: string;
  readonly parentData: Record<string | number, unknown>;
  readonly parentDataProperty: string | number;
}

/** Context of a validator run: it collects the annotations. */
export interface ValidationContext {
  readonly annotations: Annotation[];
  readonly directory: string;
}

function createAjv(): Ajv {
  const ajv = new Ajv({
    // Compiling the meta-schema is slower than all schemas here; `schemaProblem` does it for those of operators.
    validateSchema: false,
    // The optimiser costs more than it saves for a few files.
    code: { optimize: false },
    allErrors: true,
    verbose: true,
    useDefaults: true,
    passContext: true,
    allowUnionTypes: true,
    strictTypes: false,
    ownProperties: true,
  });
  for (const kind of ANNOTATIONS) {
    ajv.addKeyword({
      keyword: kind,
      modifying: PATHS.includes(kind),
      errors: false,
      validate(this: ValidationContext, parameter: unknown, value: unknown, _schema?: unknown, cxt?: Parent) {
        const parent = cxt!;
        let kept = value;
        if (PATHS.includes(kind) && typeof value === 'string') {
          kept = resolve(this.directory, value);
          parent.parentData[parent.parentDataProperty] = kept;
        }
        this.annotations.push({ kind, parameter, pointer: parent.instancePath, value: kept });
        return true;
      },
    });
  }
  for (const keyword of ['x-expected', 'x-also', 'x-several', 'x-moved', 'x-empty', 'x-unknown'])
    ajv.addKeyword(keyword);
  ajv.addFormat('listen-address', (text) => parseListenAddress(text) !== undefined);
  return ajv;
}

const ajv = createAjv();
const compiled = new WeakMap<JsonSchema, ValidateFunction>();

function validatorOf(schema: JsonSchema): ValidateFunction {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  const validator = ajv.compile(schema);
  compiled.set(schema, validator);
  return validator;
}

/** Why a schema is invalid; `undefined` if it is valid. */
export function schemaProblem(schema: JsonSchema): string | undefined {
  try {
    if (ajv.validateSchema(schema) !== true) return `schema is invalid: ${ajv.errorsText()}`;
    validatorOf(schema);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Validator of request values: OpenAPI vocabulary, fills in defaults. */
const requests = new Ajv({
  validateSchema: false,
  strict: false,
  code: { optimize: false },
  allErrors: true,
  verbose: true,
  useDefaults: true,
  ownProperties: true,
  formats: {
    line: isPrintableLine,
    email: (text: string) => isEmail(text) && isPrintableLine(text),
    'date-time': (text: string) => parseDate(text) !== undefined,
    date: (text: string) => text.length === 'YYYY-MM-DD'.length && parseDate(text) !== undefined,
  },
});

/** Validates a request value against a schema without references, and fills in defaults. Returns the errors. */
export function requestErrors(schema: JsonSchema, value: unknown): readonly SchemaError[] {
  const validator = compiled.get(schema) ?? requests.compile(schema);
  compiled.set(schema, validator);
  return validator(value) ? [] : (validator.errors ?? []);
}

type Schema = Record<string, unknown>;

const made = new WeakMap<JsonSchema, JsonSchema>();

/** A schema with a `_file` twin for each `_env` key of a secret (`x-secret`); of a required key, either of the two is. */
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

/** Splits an alternative that only requires such a key into two. */
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

function nameSecretFiles(root: unknown, annotations: readonly Annotation[]): void {
  for (const { kind, pointer, parameter, value } of annotations) {
    if (kind !== 'x-secret-file' || typeof value !== 'string') continue;
    const [owner, key] = holderAt(root, pointer);
    delete owner[key];
    owner[String(parameter)] ??= secretInFile(value);
  }
}

/** The outcome of validation. */
export interface Validated {
  /** The plain value with defaults and absolute paths; a secret file is under the key of its variable (`secretInFile`). */
  readonly value: unknown;
  readonly ok: boolean;
  readonly annotations: readonly Annotation[];
  /** The validated node with misspelt keys corrected; they were reported. */
  readonly node: Node;
}

/** Validates without coercion, and fills in defaults. One diagnostic per mistake. @param directory base of relative paths */
export function validate(plain: JsonSchema, node: Node, directory: string, findings: Findings): Validated {
  const schema = withSecretFiles(plain);
  const validator = validatorOf(schema);
  const value = toValue(node);
  const context: ValidationContext = { annotations: [], directory };
  const ok = validator.call(context, value) as boolean;
  const errors = (validator.errors ?? []) as SchemaError[];
  if (ok) nameSecretFiles(value, context.annotations);
  const corrected = ok ? node : reportSchemaErrors(errors, schema, node, findings);
  return { value, ok, annotations: context.annotations, node: corrected };
}
