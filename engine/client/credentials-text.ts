import { StartError } from '../contract/start-error.ts';
import { fieldsOf, type Tokens } from './answers.ts';
import { parseBaseUrl } from './base-url.ts';

const VERSION = 1;

/** What a person holds for one gateway. */
export interface Credentials {
  readonly access_token: string;
  /** By the clock of this machine, ISO 8601. */
  readonly expires_at: string;
  /** How long it was good for when it was given. */
  readonly lifetime_seconds: number;
  /** `undefined` when the gateway gave none: the sign-in then ends with the access token. */
  readonly refresh_token?: string;
  readonly email?: string;
}

/** Credentials from tokens that have just come; a refresh that names no new refresh token or e-mail leaves them as they were. */
export function credentialsFrom(tokens: Tokens, now_ms: number, before?: Credentials): Credentials {
  const { access_token, lifetime_seconds } = tokens;
  const refresh_token = tokens.refresh_token ?? before?.refresh_token;
  const email = tokens.email ?? before?.email;
  return {
    access_token,
    expires_at: new Date(now_ms + lifetime_seconds * 1000).toISOString(),
    lifetime_seconds,
    ...(refresh_token === undefined ? {} : { refresh_token }),
    ...(email === undefined ? {} : { email }),
  };
}

/** The text of a credentials file. */
export function formatCredentials(all: ReadonlyMap<string, Credentials>): string {
  return `${JSON.stringify({ version: VERSION, gateways: Object.fromEntries(all) }, null, 2)}\n`;
}

/** Reads the text of a credentials file. Raises StartError that says where the file is wrong, without repeating any of it. */
export function parseCredentials(text: string, path: string): Map<string, Credentials> {
  const wrong = (what: string): never => {
    throw new StartError(`${path} is not a credentials file of appscli: ${what}; move it away and sign in again`);
  };
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    return wrong('it is not JSON');
  }
  const { version, gateways } = fieldsOf(content);
  if (typeof version === 'number' && version > VERSION) return wrong('a newer version of appscli wrote it');
  if (version !== VERSION) return wrong('it has no version');
  if (typeof gateways !== 'object' || gateways === null) return wrong('it has no gateways');
  const all = new Map<string, Credentials>();
  for (const [base_url, value] of Object.entries(gateways)) {
    const credentials = isBaseUrl(base_url) ? readCredentials(value) : undefined;
    if (credentials === undefined) return wrong('the entry of a gateway is damaged');
    all.set(base_url, credentials);
  }
  return all;
}

/** Anything else would be asked over and over, or get the refresh token in the clear. */
function isBaseUrl(text: string): boolean {
  try {
    return parseBaseUrl(text) === text;
  } catch {
    return false;
  }
}

function readCredentials(value: unknown): Credentials | undefined {
  const fields = fieldsOf(value);
  const { access_token, expires_at, lifetime_seconds, refresh_token, email } = fields;
  // They become header values.
  const isToken = (text: unknown): text is string => typeof text === 'string' && /^[\x21-\x7e]+$/.test(text);
  if (!isToken(access_token) || typeof expires_at !== 'string' || Number.isNaN(Date.parse(expires_at)))
    return undefined;
  if (typeof lifetime_seconds !== 'number') return undefined;
  if (refresh_token !== undefined && !isToken(refresh_token)) return undefined;
  if (email !== undefined && typeof email !== 'string') return undefined;
  return {
    access_token,
    expires_at,
    lifetime_seconds,
    ...(refresh_token === undefined ? {} : { refresh_token }),
    ...(email === undefined ? {} : { email }),
  };
}
