import type { JsonSchema } from '../../base/contract/json-schema.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { printable } from '../../base/kit/text/printable.ts';
import { sameOrigin } from './base-url.ts';
import { type HttpAnswer, sentence } from './http.ts';

const YEAR_SECONDS = 365 * 86_400;

/** Token response of a sign-in or refresh (RFC 6749 section 5.1). */
export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string | undefined;
  readonly email: string | undefined;
  readonly lifetime_seconds: number;
}

/** Device authorization response (RFC 8628 section 3.2). All texts are safe to print. */
export interface DeviceCode {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  /** The verification URI with the code filled in. */
  readonly verification_uri_complete: string | undefined;
  readonly lifetime_seconds: number;
  readonly interval_seconds: number;
  readonly login_notice: string | undefined;
}

/** Upper limits of the code's lifetime and the polling interval, whatever the gateway requests. */
const DEVICE_SECONDS_MAX = 1800;
const INTERVAL_SECONDS_MAX = 60;
const INTERVAL_SECONDS_DEFAULT = 5;
const NOTICE_LENGTH_MAX = 500;
const URL_LENGTH_MAX = 2000;

/** The OAuth error of a response (RFC 6749 section 5.2): its code and description. */
export function oauthError({ body }: HttpAnswer): { readonly code: string; readonly text: string | undefined } {
  const { error, error_description } = fieldsOf(body);
  return { code: typeof error === 'string' ? error : '', text: sentence(error_description) };
}

/** The error of an unexpected response, with the gateway's reason. */
export function unexpected(what: string, answer: HttpAnswer): StartError {
  const { code, text } = oauthError(answer);
  const says = text ?? sentence(code) ?? (answer.kind === 'other' ? 'not in JSON' : 'no reason given');
  return new StartError(`${what} failed: the gateway responded with status ${answer.status}, ${says}`);
}

function malformedError(what: string, field: string): StartError {
  return new StartError(`${what} failed: the response has no valid "${field}"; check the address of the gateway`);
}

/** Whether a value is a token, which is safe in headers and on standard output. */
function isToken(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]{1,16384}$/.test(value);
}

function within(value: unknown, min: number, max: number): number | undefined {
  return typeof value === 'number' && value > 0 ? Math.min(Math.max(value, min), max) : undefined;
}

/** Reads a token response. Raises StartError that names the invalid field. */
export function readTokens(what: string, { body }: HttpAnswer): Tokens {
  const { access_token, token_type = 'Bearer', expires_in, refresh_token, email } = fieldsOf(body);
  if (!isToken(access_token)) throw malformedError(what, 'access_token');
  if (String(token_type).toLowerCase() !== 'bearer') throw malformedError(what, 'token_type');
  const lifetime_seconds = within(expires_in, 1, YEAR_SECONDS);
  if (lifetime_seconds === undefined) throw malformedError(what, 'expires_in');
  if (refresh_token !== undefined && !isToken(refresh_token)) throw malformedError(what, 'refresh_token');
  return { access_token, refresh_token, lifetime_seconds, email: sentence(email) };
}

/** Reads a device authorization response. Raises StartError that names the invalid field. */
export function readDeviceCode({ body }: HttpAnswer, base_url: string): DeviceCode {
  const what = 'sign-in';
  const fields = fieldsOf(body);
  const { device_code, user_code, expires_in, interval = INTERVAL_SECONDS_DEFAULT, login_notice } = fields;
  if (!isToken(device_code)) throw malformedError(what, 'device_code');
  if (typeof user_code !== 'string' || !/^[A-Za-z0-9-]{4,32}$/.test(user_code)) throw malformedError(what, 'user_code');
  const lifetime_seconds = within(expires_in, 1, DEVICE_SECONDS_MAX);
  if (lifetime_seconds === undefined) throw malformedError(what, 'expires_in');
  const complete = fields.verification_uri_complete;
  return {
    device_code,
    user_code,
    lifetime_seconds,
    verification_uri: readPage(fields.verification_uri, 'verification_uri', base_url),
    verification_uri_complete:
      complete === undefined ? undefined : readPage(complete, 'verification_uri_complete', base_url),
    // An invalid interval becomes one second.
    interval_seconds: within(interval, 1, INTERVAL_SECONDS_MAX) ?? 1,
    login_notice: typeof login_notice === 'string' ? login_notice.slice(0, NOTICE_LENGTH_MAX) : undefined,
  };
}

/** A page URL with the gateway's own origin: another origin could be phishing. */
function readPage(value: unknown, field: string, base_url: string): string {
  if (typeof value !== 'string' || !sameOrigin(value, base_url)) throw malformedError('sign-in', field);
  // The normalised URL contains no control characters.
  const { href } = new URL(value);
  if (href.length > URL_LENGTH_MAX) throw malformedError('sign-in', field);
  return href;
}

const NESTING_MAX = 20;

/** A response without control characters, cut at `levels` of nesting. */
export function safeToShow(value: unknown, levels = NESTING_MAX): unknown {
  if (typeof value === 'string') return printable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return null;
  if (Array.isArray(value)) return value.map((part) => safeToShow(part, levels - 1));
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [printable(key), safeToShow(part, levels - 1)]));
}

const EMPTY: Readonly<Record<string, unknown>> = { boolean: false, number: 0, integer: 0, string: '' };

/** Coerces a response to its schema: mistyped values become `null` or empty. Texts are safe to print. */
export function shapeAnswer(schema: JsonSchema, value: unknown): unknown {
  const { items, properties, additionalProperties, allOf } = schema as {
    readonly items?: JsonSchema;
    readonly properties?: object;
    readonly additionalProperties?: JsonSchema | boolean;
    readonly allOf?: object;
  };
  const types = [schema.type].flat();
  const type = types.find((each) => each !== 'null') as string | undefined;
  const is_nullable = types.includes('null');
  if (is_nullable && (value ?? null) === null) return null;
  if (type === 'array') return Array.isArray(value) ? value.map((each) => shapeAnswer(items ?? {}, each)) : [];
  if (properties !== undefined || allOf !== undefined) return shapeObject(schema, fieldsOf(value));
  if (type === 'object') {
    const each = typeof additionalProperties === 'object' ? additionalProperties : {};
    return Object.fromEntries(
      Object.entries(fieldsOf(value)).map(([key, one]) => [printable(key), shapeAnswer(each, one)]),
    );
  }
  if (type === undefined && schema.enum === undefined) return safeToShow(value);
  if (typeof value === 'string' && (type ?? 'string') === 'string') return printable(value);
  if (typeof value === (type === 'integer' ? 'number' : type)) return value;
  if (is_nullable) return null;
  return type === undefined ? (schema.enum as unknown[])[0] : EMPTY[type];
}

/** The object's fields by its schema; absent optional fields stay absent. */
function shapeObject(schema: JsonSchema, fields: Readonly<Record<string, unknown>>): object {
  const {
    properties = {},
    required = [],
    allOf = [],
  } = schema as {
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
    readonly allOf?: readonly JsonSchema[];
  };
  const own = Object.entries(properties)
    .filter(([name]) => required.includes(name) || fields[name] !== undefined)
    .map(([name, each]) => [name, shapeAnswer(each, fields[name])]);
  return Object.assign({}, ...allOf.map((each) => shapeObject(each, fields)), Object.fromEntries(own));
}
