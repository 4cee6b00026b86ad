import { resolve } from 'node:path';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import type { JsonSchema } from '../contract/json-schema.ts';
import { parseListenAddress } from '../kit/net/addresses.ts';
import { isEmail } from '../kit/text/email.ts';
import { isPrintableLine } from '../kit/text/printable.ts';
import { parseDate } from '../kit/times.ts';

/** An error of the validator. */
export type SchemaError = ErrorObject;

/** What a schema says about a value beyond its shape; each is acted on after validation. */
export const ANNOTATIONS = [
  /** A JSON-Logic condition. */
  'x-rule',
  /** The name of an environment variable that holds a secret. */
  'x-secret',
  /** The path of a file that holds a secret, instead of the key that it gives. */
  'x-secret-file',
  /** The name of something defined elsewhere: `upstream`, `model`, `token-group`, `error-code`. */
  'x-ref',
  /** A path relative to the file: `file`, `directory` and `module` must exist, `created` need not. */
  'x-path',
  /** An http(s) URL: `base` has no query, `endpoint` may; `origin`: that of pages. */
  'x-url',
  /** An IP address or CIDR range; `single`: an address. */
  'x-address',
  /** A time zone of the IANA database. */
  'x-time-zone',
] as const;

const PATHS: readonly (typeof ANNOTATIONS)[number][] = ['x-path', 'x-secret-file'];

/** A value that some later check is interested in. */
export interface Annotation {
  readonly kind: (typeof ANNOTATIONS)[number];
  /** What the schema gives the annotation. */
  readonly parameter: unknown;
  /** JSON pointer of the value below the validated node. */
  readonly pointer: string;
  readonly value: unknown;
}

/** Where a keyword is being evaluated. */
interface Parent {
  readonly instancePath: string;
  readonly parentData: Record<string | number, unknown>;
  readonly parentDataProperty: string | number;
}

/** What a validator is called with, and gathers. */
export interface ValidationContext {
  readonly annotations: Annotation[];
  readonly directory: string;
}

/** @param validateSchema whether schemas are checked themselves; compiling the schema of schemas takes longer than all of ours. */
function createAjv(validateSchema: boolean): Ajv {
  const ajv = new Ajv({
    validateSchema,
    // What the optimiser takes is never earned back by validating a few files.
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
  ajv.addKeyword('x-expected');
  ajv.addKeyword('x-also');
  ajv.addKeyword('x-several');
  ajv.addKeyword('x-moved');
  ajv.addFormat('listen-address', (text) => parseListenAddress(text) !== undefined);
  return ajv;
}

const ajv = createAjv(false);
let checking: Ajv | undefined;
const compiled = new WeakMap<JsonSchema, ValidateFunction>();

/** The validator of a schema, compiled once. */
export function validatorOf(schema: JsonSchema): ValidateFunction {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  const validator = ajv.compile(schema);
  compiled.set(schema, validator);
  return validator;
}

/** Why a schema cannot be used, or `undefined` when it can. */
export function schemaProblem(schema: JsonSchema): string | undefined {
  try {
    checking ??= createAjv(true);
    checking.compile(schema);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** For values that come in requests: the vocabulary of OpenAPI, and defaults filled in. */
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

/** What is wrong with a value that came in a request, by a schema without references; nothing when it fits. Fills in defaults. */
export function requestErrors(schema: JsonSchema, value: unknown): readonly SchemaError[] {
  const validator = compiled.get(schema) ?? requests.compile(schema);
  compiled.set(schema, validator);
  return validator(value) ? [] : (validator.errors ?? []);
}
