import type { JsonSchema } from '../../base/contract/json-schema.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { printable } from '../../base/kit/text/printable.ts';
import { sameOrigin } from './base-url.ts';
import { type HttpAnswer, sentence } from './http.ts';

const YEAR_SECONDS = 365 * 86_400;

/** What a sign-in or a refresh gives (RFC 6749 section 5.1). */
export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string | undefined;
  readonly email: string | undefined;
  readonly lifetime_seconds: number;
}

/** A device code and how to have it approved (RFC 8628 section 3.2). All texts are safe to show. */
export interface DeviceCode {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  /** The same with the code filled in. */
  readonly verification_uri_complete: string | undefined;
  readonly lifetime_seconds: number;
  readonly interval_seconds: number;
  readonly login_notice: string | undefined;
}

/** The longest a sign-in is waited for, and the longest between two questions, whatever the gateway asks for. */
const DEVICE_SECONDS_MAX = 1800;
const INTERVAL_SECONDS_MAX = 60;
const INTERVAL_SECONDS_DEFAULT = 5;
const NOTICE_LENGTH_MAX = 500;
const URL_LENGTH_MAX = 2000;

/** The object an answer is; no own properties when it is none. */
export function fieldsOf(body: unknown): Readonly<Record<string, unknown>> {
  return typeof body === 'object' && body !== null && !Array.isArray(body) ? (body as Record<string, unknown>) : {};
}

/** The OAuth error of an answer (RFC 6749 section 5.2): its code, and what it says for people. */
export function oauthError({ body }: HttpAnswer): { readonly code: string; readonly text: string | undefined } {
  const { error, error_description } = fieldsOf(body);
  return { code: typeof error === 'string' ? error : '', text: sentence(error_description) };
}

/** The error of an answer that was not expected, with what the gateway says about it. */
export function unexpected(what: string, answer: HttpAnswer): StartError {
  const { code, text } = oauthError(answer);
  const says = text ?? sentence(code) ?? (answer.kind === 'other' ? 'not in JSON' : 'without a reason');
  return new StartError(`${what} failed: the gateway answered with status ${answer.status}, ${says}`);
}

function malformed(what: string, field: string): StartError {
  return new StartError(`${what} failed: the gateway sent no valid "${field}"; is it the address of a gateway?`);
}

/** What goes into headers and onto standard output must be no more than a token. */
function isToken(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]{1,16384}$/.test(value);
}

function within(value: unknown, min: number, max: number): number | undefined {
  return typeof value === 'number' && value > 0 ? Math.min(Math.max(value, min), max) : undefined;
}

/** Reads the answer that holds tokens. Raises StartError that names the field that is wrong. */
export function readTokens(what: string, { body }: HttpAnswer): Tokens {
  const { access_token, token_type = 'Bearer', expires_in, refresh_token, email } = fieldsOf(body);
  if (!isToken(access_token)) throw malformed(what, 'access_token');
  if (String(token_type).toLowerCase() !== 'bearer') throw malformed(what, 'token_type');
  const lifetime_seconds = within(expires_in, 1, YEAR_SECONDS);
  if (lifetime_seconds === undefined) throw malformed(what, 'expires_in');
  if (refresh_token !== undefined && !isToken(refresh_token)) throw malformed(what, 'refresh_token');
  return { access_token, refresh_token, lifetime_seconds, email: sentence(email) };
}

/** Reads the answer to a device authorization request. Raises StartError that names the field that is wrong. */
export function readDeviceCode({ body }: HttpAnswer, base_url: string): DeviceCode {
  const what = 'sign-in';
  const fields = fieldsOf(body);
  const { device_code, user_code, expires_in, interval = INTERVAL_SECONDS_DEFAULT, login_notice } = fields;
  if (!isToken(device_code)) throw malformed(what, 'device_code');
  if (typeof user_code !== 'string' || !/^[A-Za-z0-9-]{4,32}$/.test(user_code)) throw malformed(what, 'user_code');
  const lifetime_seconds = within(expires_in, 1, DEVICE_SECONDS_MAX);
  if (lifetime_seconds === undefined) throw malformed(what, 'expires_in');
  const complete = fields.verification_uri_complete;
  return {
    device_code,
    user_code,
    lifetime_seconds,
    verification_uri: readPage(fields.verification_uri, 'verification_uri', base_url),
    verification_uri_complete:
      complete === undefined ? undefined : readPage(complete, 'verification_uri_complete', base_url),
    // Zero, or nonsense, asks for nothing in particular; once a second is often enough for everybody.
    interval_seconds: within(interval, 1, INTERVAL_SECONDS_MAX) ?? 1,
    login_notice: typeof login_notice === 'string' ? login_notice.slice(0, NOTICE_LENGTH_MAX) : undefined,
  };
}

/** A page of the gateway itself: anything else could be a copy of it. */
function readPage(value: unknown, field: string, base_url: string): string {
  if (typeof value !== 'string' || !sameOrigin(value, base_url)) throw malformed('sign-in', field);
  // Written anew, it holds nothing that a terminal would act upon.
  const { href } = new URL(value);
  if (href.length > URL_LENGTH_MAX) throw malformed('sign-in', field);
  return href;
}

const NESTING_MAX = 20;

/** An answer without what moves the cursor, and without what is nested deeper than anything a gateway says. */
export function safeToShow(value: unknown, levels = NESTING_MAX): unknown {
  if (typeof value === 'string') return printable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return null;
  if (Array.isArray(value)) return value.map((part) => safeToShow(part, levels - 1));
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [printable(key), safeToShow(part, levels - 1)]));
}

/**
 * An answer in the form its schema has, whatever was sent: what is missing or of another kind is `null` where that may be,
 * else empty; what the schema does not have is left out. Texts are safe to show.
 */
export function shapeAnswer(schema: JsonSchema, value: unknown): unknown {
  const types = [schema.type].flat();
  const { items, properties, additionalProperties, allOf } = schema as {
    readonly items?: JsonSchema;
    readonly properties?: object;
    readonly additionalProperties?: JsonSchema | boolean;
    readonly allOf?: object;
  };
  if (types.includes('null') && (value === null || value === undefined)) return null;
  if (types.includes('array')) return Array.isArray(value) ? value.map((each) => shapeAnswer(items ?? {}, each)) : [];
  if (properties !== undefined || allOf !== undefined) return shapeObject(schema, fieldsOf(value));
  if (types.includes('object')) {
    const each = typeof additionalProperties === 'object' ? additionalProperties : {};
    return Object.fromEntries(
      Object.entries(fieldsOf(value)).map(([key, one]) => [printable(key), shapeAnswer(each, one)]),
    );
  }
  if (types.includes('boolean')) return value === true;
  if (types.includes('number') || types.includes('integer'))
    return typeof value === 'number' ? value : emptyOf(types, 0);
  if (types.includes('string')) return typeof value === 'string' ? printable(value) : emptyOf(types, '');
  if (schema.enum !== undefined) return typeof value === 'string' ? printable(value) : (schema.enum as unknown[])[0];
  return safeToShow(value);
}

function emptyOf(types: readonly unknown[], empty: number | string): number | string | null {
  return types.includes('null') ? null : empty;
}

/** Of what need not be there only what is. */
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
