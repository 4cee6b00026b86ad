import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import type { JsonSchema } from '../../base/contract/json-schema.ts';
import { OperationError } from '../../base/contract/operation-error.ts';
import type { Clock } from '../../base/contract/services.ts';
import { isTimeZone } from '../../base/kit/net/addresses.ts';
import { PACKAGE_ROOT } from '../../base/kit/package-root.ts';
import { isEmail } from '../../base/kit/text/email.ts';
import { isPrintableLine } from '../../base/kit/text/printable.ts';
import { didYouMean, listed } from '../../base/kit/text/suggest.ts';
import { parseDate } from '../../base/kit/times.ts';
import { startOfDate } from '../../base/kit/zoned-time.ts';
import { withoutReferences } from '../../base/source/schemas.ts';
import { requestErrors, type SchemaError } from '../../base/source/validate.ts';
import type { AdminAction } from '../../domain/audit/admin-changes.ts';
import type { ServiceScope } from '../../domain/identity/tokens/service-tokens.ts';

type Described = Readonly<Record<string, unknown>>;

/** An operation of `schemas/admin-api.openapi.json`. */
export interface DescribedOperation {
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly needs_admin: boolean;
  /** Scope that a service token needs; absent: service tokens are rejected. */
  readonly scope: ServiceScope | undefined;
  /** `admin_changes.action` of what the operation changes; absent for GET. */
  readonly action: AdminAction | undefined;
  readonly path_names: readonly string[];
  readonly query: JsonSchema;
  readonly body: JsonSchema | undefined;
  /** Success status, and schema of the response body: a text for a file. */
  readonly status: number;
  readonly answer: JsonSchema;
  /** Media type of a file response (`Download`); absent for JSON. */
  readonly file_type: string | undefined;
  readonly has_location: boolean;
}

const METHODS = ['get', 'post', 'put', 'delete'] as const;

/** The admin API: the prefix of its paths, the path of its public description (OpenAPI 3.1), and that description. */
export const ADMIN_API = {
  path: '/admin/api',
  description: '/admin/api/openapi.json',
  document: JSON.parse(readFileSync(join(PACKAGE_ROOT, 'schemas/admin-api.openapi.json'), 'utf8')) as {
    readonly info: object;
    readonly paths: Readonly<Record<string, Described>>;
  },
};

/** Every operation that requires a credential, by its `operationId`. */
export const ADMIN_OPERATIONS: ReadonlyMap<string, DescribedOperation> = new Map(
  Object.entries(ADMIN_API.document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method] !== undefined)
      .map((method) => describeOperation(path, method, item))
      .filter((operation) => operation !== undefined)
      .map((operation) => [operation.name, operation] as const),
  ),
);

/** The operation with a known name. */
export function operationOf(name: string): DescribedOperation {
  return ADMIN_OPERATIONS.get(name)!;
}

function describeOperation(path: string, method: string, item: Described): DescribedOperation | undefined {
  const {
    operationId,
    'x-action': action,
    security,
    parameters,
    requestBody,
    responses,
  } = resolve(item[method]) as {
    operationId: string;
    'x-action'?: AdminAction;
    security: readonly { readonly session?: readonly string[]; readonly service?: readonly ServiceScope[] }[];
    parameters?: readonly Parameter[];
    requestBody?: Content;
    responses: Readonly<Record<string, Content & { readonly headers?: { readonly location?: object } }>>;
  };
  if (security.length === 0) return undefined;
  const all = [...((resolve(item.parameters) as readonly Parameter[] | undefined) ?? []), ...(parameters ?? [])];
  const status = Object.keys(responses).find((each) => each.startsWith('2'))!;
  const [type, { schema }] = Object.entries(responses[status]!.content)[0]!;
  return {
    name: operationId,
    method: method.toUpperCase() as DescribedOperation['method'],
    path,
    needs_admin: security.some(({ session }) => session?.includes('admin')),
    scope: security.find(({ service }) => service !== undefined)?.service?.[0],
    action,
    path_names: all.filter((each) => each.in === 'path').map(({ name }) => name),
    query: querySchema(all.filter((each) => each.in === 'query')),
    body: requestBody?.content['application/json']?.schema,
    status: Number(status),
    answer: schema,
    file_type: type === 'application/json' ? undefined : type,
    has_location: responses[status]!.headers?.location !== undefined,
  };
}

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
}

interface Content {
  readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

function resolve(part: unknown): unknown {
  return withoutReferences(part, ADMIN_API.document);
}

function querySchema(parameters: readonly Parameter[]): JsonSchema {
  return {
    type: 'object',
    additionalProperties: false,
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
    properties: Object.fromEntries(
      parameters.map(({ name, schema, description = schema.description }) => [name, { ...schema, description }]),
    ),
  };
}

/** Input of a request, by its place. */
export interface Sent {
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

type Values = Readonly<Record<string, unknown>>;

/** Splits input into path parameters, query parameters and body. */
export function splitInput({ path_names, query, body }: DescribedOperation, input: Values): Sent {
  const entries = Object.entries(input).filter(([, value]) => value !== undefined);
  const some = (test: (name: string) => boolean) => Object.fromEntries(entries.filter(([name]) => test(name)));
  const in_path = (name: string) => path_names.includes(name);
  const in_query = (name: string) => body === undefined || Object.hasOwn(propertiesOf(query), name);
  return {
    path: some(in_path) as Record<string, string>,
    query: some((name) => !in_path(name) && in_query(name)),
    body: body === undefined ? undefined : some((name) => !in_path(name) && !in_query(name)),
  };
}

/**
 * Validates and merges path, query and body: trims texts, lowercases e-mail addresses, fills in defaults. Raises OperationError
 * for the first problem.
 */
export function checkInput({ query, body }: DescribedOperation, sent: Sent): Values {
  const parameters = check(query, typed(query, sent.query), 'parameter');
  return { ...(body === undefined ? {} : check(body, sent.body, 'field')), ...parameters, ...sent.path };
}

function check(schema: JsonSchema, input: unknown, what: 'field' | 'parameter'): Values {
  const value = normalized(schema, input);
  const errors = requestErrors(schema, value).filter(({ schemaPath }) => !/\/oneOf\/./.test(schemaPath));
  const rank = ({ keyword }: SchemaError) => FIRST.indexOf(keyword) >>> 0;
  const [error] = errors.toSorted((a, b) => rank(a) - rank(b));
  if (error !== undefined) throw new OperationError(describeError(error, schema, what));
  return value;
}

/** Unknown names first: one is often the misspelling of a missing name. */
const FIRST = ['additionalProperties', 'required', 'oneOf'];

function normalized(schema: JsonSchema, input: unknown): Values {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw new OperationError('the body must be a JSON object');
  }
  const known = propertiesOf(schema);
  // Clients in typed languages send null for absent fields.
  const isPresent = (name: string, value: unknown) =>
    value !== null || !Object.hasOwn(known, name) || [known[name]!.type].flat().includes('null');
  const normalize = (name: string, value: unknown) => {
    if (typeof value !== 'string') return value;
    const text = value.trim();
    return known[name]?.format === 'email' ? text.toLowerCase() : text;
  };
  const present = Object.entries(input).filter(([name, value]) => isPresent(name, value));
  return Object.fromEntries(present.map(([name, value]) => [name, normalize(name, value)]));
}

const NUMBERS: Readonly<Record<string, RegExp>> = { integer: /^\d{1,15}$/, number: /^\d{1,15}(?:\.\d{1,9})?$/ };

function typed(schema: JsonSchema, parameters: Values): Values {
  const entries = Object.entries(parameters).map(([name, value]) => {
    const form = NUMBERS[String(propertiesOf(schema)[name]?.type)];
    const is_number = form?.test(String(value)) === true;
    return [name, is_number ? Number(value) : value];
  });
  return Object.fromEntries(entries);
}

function propertiesOf(schema: JsonSchema): Readonly<Record<string, JsonSchema | undefined>> {
  return schema.properties as Readonly<Record<string, JsonSchema>>;
}

function describeError(error: SchemaError, schema: JsonSchema, what: 'field' | 'parameter'): string {
  const { keyword, params, instancePath } = error;
  const known = Object.keys(propertiesOf(schema));
  if (keyword === 'additionalProperties') {
    const there_are = known.length === 0 ? `this operation has no ${what}s` : `expected ${listed(known)}`;
    const name = params.additionalProperty as string;
    return `unknown ${what} ${showName(name)}: ${didYouMean(name, known, there_are)}`;
  }
  if (keyword === 'required') {
    const name = params.missingProperty as string;
    const property = propertiesOf(schema)[name]!;
    const has_choices = property.enum !== undefined || property.items !== undefined;
    return `the ${what} "${name}" is missing${has_choices ? `: expected ${describeExpected(property, error)}` : ''}`;
  }
  if (keyword === 'oneOf') {
    const names = (error.schema as { required: string[] }[]).flatMap(({ required }) => required);
    return `send one of ${listed(names.map((name) => `"${name}"`)).replace(/ or (\S+)$/, ' and $1')}`;
  }
  const name = instancePath.split('/')[1]!;
  return `the ${what} "${name}" is wrong: expected ${describeExpected(propertiesOf(schema)[name]!, error)}`;
}

function describeExpected(schema: JsonSchema, { data, keyword, params }: SchemaError): string {
  const { type, enum: choices, items, minimum, exclusiveMinimum, maximum, format } = schema;
  if (items !== undefined) return `one or more of ${((items as JsonSchema).enum as string[]).join(', ')}`;
  if (choices !== undefined) return listed(choices as string[]);
  if (type === 'integer') return `a whole number from ${minimum} to ${maximum}`;
  if (type === 'number') {
    const from = exclusiveMinimum === undefined ? `from ${minimum}` : `above ${exclusiveMinimum} and`;
    return `a number ${from} up to ${maximum}`;
  }
  if (format === 'date') return 'a date such as 2027-01-31';
  if (format === 'date-time') return 'a time such as 2027-01-31T18:00:00Z';
  if (typeof data !== 'string') return 'a string';
  if (data === '') return 'a non-empty string';
  if (keyword === 'maxLength') return `a string of at most ${params.limit} characters`;
  return isPrintableLine(data) ? 'an e-mail address' : 'a string of printable characters';
}

/** Quotes a name from a request; a name that is not a short word is never repeated. */
export function showName(name: string): string {
  return /^[\w.-]{1,40}$/.test(name) ? `"${name}"` : 'with an invalid name';
}

/** Expiry of a request, absolute or relative. */
export interface ExpiryInput {
  readonly expires_at?: string | null;
  readonly expires_in_seconds?: number;
}

/**
 * The time of `expires_at` or `expires_in_seconds`; `null` for no expiry, `undefined` if absent. Raises OperationError for both at
 * once, a time in the past, and one later than `max_seconds` from now.
 */
export function expiryOf(
  { expires_at, expires_in_seconds }: ExpiryInput,
  clock: Pick<Clock, 'now'>,
  max_seconds: number,
): Date | null | undefined {
  const now = clock.now();
  if (expires_in_seconds !== undefined) {
    if (expires_at !== undefined) throw new OperationError('send "expires_at" or "expires_in_seconds", not both');
    return new Date(now + expires_in_seconds * 1000);
  }
  if (typeof expires_at !== 'string') return expires_at;
  const at = new Date(expires_at);
  if (at.getTime() <= now) throw new OperationError('"expires_at" is in the past');
  if (at.getTime() > now + max_seconds * 1000) {
    const last = new Date(now + max_seconds * 1000).toISOString();
    throw new OperationError(`"expires_at" is too late: expected ${last} at the latest`);
  }
  return at;
}

/** Validates an id in a path. Raises OperationError. */
export function requireId(id: string, what: string): string {
  // Never repeats a credential that was sent by mistake.
  const is_id = /^[\w-]{1,64}$/.test(id) && !/^(?:gw[rs]?_|eyJ)/.test(id);
  if (is_id) return id;
  throw new OperationError(`there is no ${what} with this id`, 'missing');
}

/** An e-mail address in a path, in lower case; `undefined` if it is invalid. */
export function emailInPath(text: string): string | undefined {
  return text.length <= 254 && isEmail(text) && isPrintableLine(text) ? text.toLowerCase() : undefined;
}

const A_ZONE = 'the name of a time zone, such as UTC or Europe/Berlin';

/** Time zone of dates: the parameter, else `spend_limits.time_zone`, else UTC. Raises OperationError. */
export function timeZoneParameter(
  time_zone: string | undefined,
  { spend_limits }: Pick<GatewayConfig, 'spend_limits'>,
): string {
  const zone = time_zone ?? spend_limits?.time_zone ?? 'UTC';
  if (!isTimeZone(zone)) throw new OperationError(`the parameter "time_zone" is wrong: expected ${A_ZONE}`);
  return zone;
}

/** Parses a date or time parameter; a date stays a text, as it depends on a time zone. Raises OperationError. */
export function dateParameter(name: string, text: string | undefined): Date | string | undefined {
  if (text === undefined) return undefined;
  const moment = parseDate(text);
  if (moment === undefined || moment.getUTCFullYear() < 1970) {
    const expected = 'a date such as 2027-01-31, or a time such as 2027-01-31T18:00:00Z';
    throw new OperationError(`the parameter "${name}" is wrong: expected ${expected}`);
  }
  return text.includes('T') ? moment : text;
}

/** Parameters of a period. */
export type PeriodQuery = { readonly [Key in 'since' | 'until' | 'time_zone']?: string | undefined };

/** The period of a list; a date is midnight in the time zone. Raises OperationError unless it begins before it ends. */
export function periodOf(
  { since, until, time_zone }: PeriodQuery,
  config: Pick<GatewayConfig, 'spend_limits'>,
): { readonly since: Date | undefined; readonly until: Date | undefined } {
  const zone = timeZoneParameter(time_zone, config);
  const [from, to] = [dateParameter('since', since), dateParameter('until', until)].map((at) =>
    typeof at === 'string' ? startOfDate(at, zone) : at,
  );
  if (from !== undefined && to !== undefined && from >= to) {
    throw new OperationError('the parameter "until" must be after "since"');
  }
  return { since: from, until: to };
}
