import { existsSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { ERRORS } from '../../base/contract/errors.ts';
import { feeToPico, priceToPico, usdToNano } from '../../base/kit/money.ts';
import { rangeProblem } from '../../base/kit/net/address-range.ts';
import { isTimeZone, originProblem, urlProblem } from '../../base/kit/net/addresses.ts';
import { readSecretFile, type SecretFileError, secretKeys } from '../../base/kit/secret-names.ts';
import { didYouMean, listed } from '../../base/kit/text/suggest.ts';
import type { Condition, ConditionChecker } from '../../base/rules/check.ts';
import { DIAGNOSTICS } from '../../base/source/diagnostics/codes.ts';
import { isEnvironmentName, looksSecret } from '../../base/source/diagnostics/secrets.ts';
import type { Findings } from '../../base/source/findings.ts';
import { childOf, entriesOf, holderAt, isWritten, keyName, type Node, nodeAt, quote } from '../../base/source/node.ts';
import { namesBeside } from '../../base/source/read-text.ts';
import { reportLiteralSecret } from '../../base/source/schema-errors.ts';
import type { Annotation, Validated } from '../../base/source/validate.ts';
import { reportExclusive, reportUnknown } from './link/link-keys.ts';

/** Names that values of a configuration may refer to, by their `x-ref` in the schemas. */
export interface KnownNames {
  readonly upstream: readonly string[] | undefined;
  readonly model: readonly string[] | undefined;
  readonly 'token-group': readonly string[] | undefined;
}

export interface AnnotationContext {
  readonly findings: Findings;
  readonly env: NodeJS.ProcessEnv;
  readonly environment: 'required' | 'ignored';
  /** Absent until the names are known; until then, references are not checked. */
  readonly names?: KnownNames;
  readonly conditions: ConditionChecker;
}

/** Checks every annotated value of a validated node: secrets, references, paths, URLs, conditions. */
export function checkAnnotations(node: Node, validated: Validated, context: AnnotationContext): void {
  for (const annotation of validated.annotations) {
    const at = nodeAt(node, annotation.pointer);
    // Defaults have no position, and are valid.
    if (!isWritten(node, annotation.pointer)) continue;
    checkOne(annotation, at, validated, context);
    if (annotation.kind !== 'x-secret-file') continue;
    const owner = nodeAt(node, annotation.pointer.replace(/\/[^/]*$/, ''));
    reportExclusive(owner, secretKeys(String(annotation.parameter)), context.findings);
  }
}

type Check = (annotation: Annotation, node: Node, context: AnnotationContext) => void;

/** The checks of annotated strings; a condition can have any type. */
const TEXT_CHECKS: Readonly<Record<Exclude<Annotation['kind'], 'x-rule' | 'x-amount'>, Check>> = {
  'x-secret': environmentVariable,
  'x-secret-file': secretInFile,
  'x-ref': reference,
  'x-path': path,
  'x-url': url,
  'x-address': address,
  'x-time-zone': timeZone,
};

function checkOne(annotation: Annotation, node: Node, validated: Validated, context: AnnotationContext): void {
  const { kind, pointer, value } = annotation;
  if (kind === 'x-rule') {
    const condition = context.conditions.check(node);
    if (condition === undefined) return;
    const [owner, key] = holderAt(validated.value, pointer);
    owner[key] = condition.logic;
    checkReads(condition, annotation.parameter, context);
  } else if (kind === 'x-amount') {
    checkAmount(annotation, node, context);
  } else if (value === '' || (node.kind === 'scalar' && node.value === '')) {
    context.findings.report('C3007', node.mark, 'the value is empty', {
      expected: 'at least one character',
      help: 'write a value, or remove the key',
    });
  } else if (typeof value === 'string') {
    TEXT_CHECKS[kind](annotation, node, context);
  }
}

const AMOUNTS: Readonly<Record<string, (amount: number) => number>> = {
  usd: usdToNano,
  price: priceToPico,
  fee: feeToPico,
};

function checkAmount({ parameter, value }: Annotation, node: Node, { findings }: AnnotationContext): void {
  // Validation has reported other values.
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) return;
  try {
    AMOUNTS[String(parameter)]!(value);
  } catch (error) {
    const { message } = error as Error;
    findings.report('C3005', node.mark, 'the amount cannot be represented exactly', { expected: message });
  }
}

/** @param known facts, or sections of facts, that exist when the condition is evaluated; `true` for all */
function checkReads(condition: Condition, known: unknown, { findings }: AnnotationContext): void {
  if (!Array.isArray(known)) return;
  const paths = known as readonly string[];
  for (const { path, mark } of condition.reads) {
    if (paths.some((there) => path === there || path.startsWith(`${there}.`))) continue;
    const known = paths.map((there) => (there.includes('.') ? there : `${there}.*`));
    findings.report('C6003', mark, `the fact ${path} is not yet known when this condition is evaluated`, {
      expected: `one of the facts ${listed(known, 20)}`,
    });
  }
}

function environmentVariable({ parameter, value }: Annotation, node: Node, context: AnnotationContext): void {
  const { findings, env, environment } = context;
  const name = String(value);
  if (!isEnvironmentName(name)) {
    reportLiteralSecret(node, parameter, findings);
    return;
  }
  if ((env[name] ?? '') !== '') return;
  const state = env[name] === undefined ? 'is not set' : 'is empty';
  const code = environment === 'required' ? 'C4011' : 'W7004';
  const key = node.mark.pointer.slice(node.mark.pointer.lastIndexOf('/') + 1);
  // Few variables have other names, many passwords do.
  const is_name = /^[A-Z][A-Z0-9_]*$/.test(name);
  if (!is_name) findings.hide(node);
  findings.report(code, node.mark, `the environment variable ${is_name ? name : 'named here'} ${state}`, {
    help: is_name
      ? `${keyName(key)} needs it: export ${name}=...`
      : `${keyName(key)} takes the name of a variable, such as UPSTREAM_KEY; if the secret itself is written here, replace the secret`,
    once: is_name,
  });
}

/** Whether a text is a path rather than the secret itself: many passwords are valid file names. */
function isPath(text: string, file: string): boolean {
  if (looksSecret(text)) return false;
  return /^\.{0,2}\//.test(text) || (text.includes('/') && existsSync(dirname(file)));
}

function secretInFile({ value }: Annotation, node: Node, { findings, environment }: AnnotationContext): void {
  const file = String(value);
  findings.readSecret(file);
  try {
    readSecretFile(file);
  } catch (error) {
    const { message, help } = error as SecretFileError;
    const key = keyName(node.mark.pointer.slice(node.mark.pointer.lastIndexOf('/') + 1));
    const code = environment === 'required' ? 'C4021' : 'W7007';
    const text = node.kind === 'scalar' ? String(node.value) : '';
    if (existsSync(file) || isPath(text, file)) {
      findings.report(code, node.mark, message, { expected: `a secret in the file ${file}`, help: `${key}: ${help}` });
      return;
    }
    findings.hide(node);
    findings.report(code, node.mark, 'there is no such file', {
      found: 'a value that is not the path of a file (hidden: it may be a secret)',
      expected: 'a path such as /run/secrets/upstream-key, or ./upstream-key beside this file',
      help: `put the secret into a file, and its path into ${key}`,
    });
  }
}

function reference({ parameter, value }: Annotation, node: Node, context: AnnotationContext): void {
  const kind = parameter as keyof KnownNames | 'error-code';
  const known = kind === 'error-code' ? Object.keys(ERRORS) : context.names?.[kind];
  const written = { text: String(value), mark: node.mark };
  if (known !== undefined) reportUnknown(written, kind.replace('-', ' '), known, context.findings);
}

/** Whether a file name ends like a module that can be imported. */
export function isModule(file: string): boolean {
  return /\.m?[jt]s$/.test(file);
}

function path({ parameter, value }: Annotation, node: Node, context: AnnotationContext): void {
  const { findings, environment } = context;
  const file = String(value);
  const exists = existsSync(file);
  if (parameter === 'directory' && !(exists && statSync(file).isDirectory())) {
    const help = exists ? 'name a directory' : didYouMean(basename(file), namesBeside(file, 'directories'));
    const message = exists ? `${keyName(basename(file))} is a file` : 'the directory does not exist';
    findings.report('C4015', node.mark, message, {
      expected: `a directory at ${file}`,
      help,
    });
  }
  if (parameter === 'module' && isModule(file) && !exists) {
    findings.report('C4012', node.mark, 'the stage module does not exist', {
      expected: `a file at ${file}`,
      help: didYouMean(basename(file), namesBeside(file, 'all').filter(isModule)),
    });
  }
  if (parameter === 'file' && !exists) {
    const code = environment === 'required' ? 'C4021' : 'W7007';
    findings.report(code, node.mark, 'the file does not exist', { expected: `a file at ${file}` });
  }
}

const URL_FORMS: Readonly<Record<string, string>> = {
  base: 'http(s)://host[:port][/path]',
  endpoint: 'http(s)://host[:port][/path][?query]',
  origin: 'scheme://host[:port] as browsers send it, such as https://chat.example.com',
};

function url({ parameter, value }: Annotation, node: Node, { findings }: AnnotationContext): void {
  const kind = String(parameter);
  const text = String(value);
  const of_origin = kind === 'origin' ? originProblem(text) : undefined;
  const problem = kind === 'origin' ? of_origin?.problem : urlProblem(text, kind);
  if (problem === undefined) return;
  if (text.includes('@')) findings.hide(node);
  const help = /contains credentials/.test(problem)
    ? 'put the credential into an environment variable, and name it in a key that ends in _env'
    : of_origin?.meant && `write ${of_origin.meant}`;
  const message = `the ${kind === 'origin' ? 'origin' : 'URL'} cannot be used: ${problem}`;
  findings.report('C4010', node.mark, message, { expected: URL_FORMS[kind], help });
}

function address({ parameter, value }: Annotation, node: Node, { findings }: AnnotationContext): void {
  const is_single = parameter === 'single';
  if (rangeProblem(String(value)) === undefined && !(is_single && String(value).includes('/'))) return;
  const expected = is_single ? 'an IP address' : 'an IP address or a range such as 10.0.0.0/8';
  findings.report('C3006', node.mark, `${quote(String(value))} is not an address`, { expected });
}

function timeZone({ value }: Annotation, node: Node, { findings }: AnnotationContext): void {
  if (isTimeZone(String(value))) return;
  const expected = 'a name of the IANA database, such as UTC or Europe/Berlin';
  const help = didYouMean(String(value), Intl.supportedValuesOf('timeZone'));
  findings.report('C3006', node.mark, `there is no time zone ${quote(String(value))}`, { expected, help });
}

/** Silences the warnings that a file allows under `allow:`. @param more files that it extends */
export function allowWarnings(root: Node, findings: Findings, more: readonly string[] = []): void {
  for (const { key, key_mark } of entriesOf(childOf(root, 'allow'))) {
    findings.allow(key_mark, key, more);
    // The schema rejects keys that are not of the form of a code.
    if (Object.hasOwn(DIAGNOSTICS, key) || !/^W\d{4}$/.test(key)) continue;
    findings.report('C3004', key_mark, `there is no warning ${keyName(key)}`, {
      expected: 'a code as the warning shows it, such as W7008',
    });
  }
}
