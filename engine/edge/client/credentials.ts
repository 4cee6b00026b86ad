import { randomBytes } from 'node:crypto';
import { chmodSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Clock } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { withLock } from '../../base/kit/files/file-lock.ts';
import {
  failFile,
  makeDirectory,
  PRIVATE_FILE,
  readRegularFile,
  writeNewFile,
} from '../../base/kit/files/user-files.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { oauthError, readTokens, type Tokens, unexpected } from './answers.ts';
import { parseBaseUrl } from './base-url.ts';
import { discover, pause } from './device-sign-in.ts';
import { type Ask, type HttpAnswer, notSignedIn, SignInOver, signInOver, Unreachable } from './http.ts';

const OTHERS = 0o077;
/** Longest time that a process of this program holds the lock: four requests with timeouts. */
const LOCK_TIMEOUT_SECONDS = 40;

/** Path of the credentials file: APPSCLI_CREDENTIALS, else below XDG_CONFIG_HOME, else below ~/.config. */
export function credentialsPath(env: NodeJS.ProcessEnv): string {
  const set = (name: string) => (env[name] === '' ? undefined : env[name]);
  const own = set('APPSCLI_CREDENTIALS');
  if (own !== undefined) return own;
  return join(set('XDG_CONFIG_HOME') ?? join(set('HOME') ?? homedir(), '.config'), 'appscli', 'credentials.json');
}

/** Opens the user's credentials file. Makes a readable file private, and calls `warn`. */
export function openCredentials(env: NodeJS.ProcessEnv, warn: (text: string) => void = () => {}) {
  const path = credentialsPath(env);
  function read(): ReadonlyMap<string, Credentials> {
    try {
      const text = readPrivate(path, warn);
      return text === undefined ? new Map() : parseCredentials(text, path);
    } catch (error) {
      return failFile(path, 'read', error);
    }
  }

  return {
    path,
    /** All credentials by gateway; empty without a file. Raises StartError for an unreadable or invalid file. */
    read,
    /** Sets or removes the credentials of one gateway. The caller must hold the lock. Raises StartError without a change. */
    write(base_url: string, credentials: Credentials | undefined): void {
      const all = new Map(read());
      if (credentials === undefined) all.delete(base_url);
      else all.set(base_url, credentials);
      try {
        replaceFile(path, formatCredentials(all));
      } catch (error) {
        failFile(path, 'written', error);
      }
    },
    /** Runs `run` under an exclusive lock. Raises StartError after the timeout, which exceeds any run. */
    async locked<T>(run: () => Promise<T>, lock_timeout_seconds = LOCK_TIMEOUT_SECONDS): Promise<T> {
      let within: unknown;
      try {
        makeDirectory(dirname(path));
        return await withLock(`${path}.lock`, lock_timeout_seconds, () =>
          run().catch((error) => {
            within = error;
            throw error;
          }),
        );
      } catch (error) {
        if (error === within) throw error;
        return failFile(path, 'written', error);
      }
    },
  };
}

/** The file with the credentials of `appscli login`, by gateway address. */
export type CredentialsFile = ReturnType<typeof openCredentials>;

function readPrivate(path: string, warn: (text: string) => void): string | undefined {
  try {
    return readRegularFile(path, ({ mode }) => {
      if (process.platform !== 'win32' && (mode & OTHERS) !== 0) protect(path, warn);
    }).toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function protect(path: string, warn: (text: string) => void): void {
  try {
    chmodSync(path, PRIVATE_FILE);
    warn(`other users could read ${path}; it is private now; sign in again if another user may have read it`);
  } catch {
    warn(`other users can read ${path}, and its mode cannot be changed: chmod 600 it`);
  }
}

function replaceFile(path: string, text: string): void {
  const draft = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    writeNewFile(draft, text);
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

const VERSION = 1;

/** The user's credentials for one gateway. */
export interface Credentials {
  readonly access_token: string;
  /** ISO 8601, by this machine's clock. */
  readonly expires_at: string;
  /** Lifetime of the access token at issue. */
  readonly lifetime_seconds: number;
  /** Without one the sign-in ends with the access token. */
  readonly refresh_token?: string;
  readonly email?: string;
}

/** Credentials from a token response. Keeps the previous refresh token and e-mail if the response omits them. */
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

export function formatCredentials(all: ReadonlyMap<string, Credentials>): string {
  return `${JSON.stringify({ version: VERSION, gateways: Object.fromEntries(all) }, null, 2)}\n`;
}

/** Parses a credentials file. Raises StartError with the problem, without quoting the file. */
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
    if (credentials === undefined) return wrong('the entry of a gateway is invalid');
    all.set(base_url, credentials);
  }
  return all;
}

/** Whether an address is normalised, and does not send the refresh token over plain http. */
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
  // Tokens become header values.
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

/** At most ten minutes. For the usual hour it is six minutes, longer than clients cache a key helper's output. */
const RENEWED_PART = 0.1;
const RENEWED_SECONDS_MAX = 600;
/** With more time left, do not wait for another process's refresh. */
const AMPLE_SECONDS = 30;
/** Largest clock correction after which a token's expiry still counts. */
const CLOCK_SECONDS_MAX = 60;
/** Longest retry-after of a gateway that is busy with another refresh of the same sign-in. */
const BUSY_SECONDS_MAX = 2;
const TRIES = 3;

interface Renewal {
  readonly credentials: CredentialsFile;
  readonly ask: Ask;
  readonly clock: Clock;
  readonly base_url: string;
  /** An access token that the gateway has just rejected, whatever its expiry. */
  readonly rejected?: string | undefined;
}

/** A valid access token, renewed by one process if it expires soon. Raises SignInOver; StartError (69) in an outage. */
export async function freshCredentials(renewal: Renewal): Promise<Credentials> {
  const { credentials, clock, base_url, rejected } = renewal;
  const stored = credentials.read().get(base_url);
  if (stored === undefined) throw notSignedIn(base_url);
  if (isFresh(stored, clock, rejected)) return stored;
  const left_seconds = stored.access_token === rejected ? 0 : secondsLeft(stored, clock);
  const lock_timeout_seconds = left_seconds > AMPLE_SECONDS ? 0 : undefined;
  try {
    return await credentials.locked(() => renewOnce(renewal), lock_timeout_seconds);
  } catch (error) {
    if (error instanceof SignInOver || !(error instanceof StartError)) throw error;
    if (left_seconds > 0) return stored;
    throw error instanceof Unreachable ? staysSignedIn(error) : error;
  }
}

/** Adds to the error of an outage that the sign-in is intact. Some clients otherwise advise to sign in again. */
function staysSignedIn(error: Unreachable): Unreachable {
  const end = /[.!?]$/.test(error.message) ? '' : '.';
  return new Unreachable(`${error.message}${end} You are still signed in: try again when the gateway is reachable.`, {
    cause: error,
  });
}

function secondsLeft({ expires_at }: Credentials, clock: Clock): number {
  return (Date.parse(expires_at) - clock.now()) / 1000;
}

function isFresh(stored: Credentials, clock: Clock, rejected: string | undefined): boolean {
  const wanted_seconds = Math.min(stored.lifetime_seconds * RENEWED_PART, RENEWED_SECONDS_MAX);
  const left_seconds = secondsLeft(stored, clock);
  // More than its full lifetime: it was issued while the clock was wrong.
  if (left_seconds > stored.lifetime_seconds + CLOCK_SECONDS_MAX) return false;
  return stored.access_token !== rejected && left_seconds > wanted_seconds;
}

/** Renews, unless another process has done so while this one waited for the lock. */
async function renewOnce(renewal: Renewal): Promise<Credentials> {
  const { credentials, clock, base_url, rejected } = renewal;
  const stored = credentials.read().get(base_url);
  if (stored === undefined) throw notSignedIn(base_url);
  if (isFresh(stored, clock, rejected)) return stored;
  const { refresh_token } = stored;
  if (refresh_token === undefined) {
    if (stored.access_token !== rejected && secondsLeft(stored, clock) > 0) return stored;
    return forget(renewal, 'it has no refresh token');
  }
  // Refresh tokens rotate on use: make sure that the file is writable before using this one.
  credentials.write(base_url, stored);
  const answer = await refresh(
    renewal,
    refresh_token,
    stored.access_token === rejected || secondsLeft(stored, clock) <= 0,
  );
  if (answer.status === 200) {
    const renewed = credentialsFrom(readTokens('renewing the sign-in', answer), clock.now(), stored);
    credentials.write(base_url, renewed);
    return renewed;
  }
  const { code, text } = oauthError(answer);
  if (code === 'invalid_grant') return forget(renewal, text ?? 'the gateway has ended it');
  const failure = unexpected(`renewing the sign-in at ${base_url}`, answer);
  throw answer.status >= 500 || answer.status === 429 ? new Unreachable(failure.message) : failure;
}

async function refresh({ ask, clock, base_url }: Renewal, refresh_token: string, urgent: boolean): Promise<HttpAnswer> {
  const { token } = await discover(ask, base_url);
  const form = { grant_type: 'refresh_token', refresh_token };
  for (let tries = 1; ; tries++) {
    const answer = await ask('POST', token, { form });
    const { status, retry_after_seconds = Number.POSITIVE_INFINITY } = answer;
    if (status !== 503 || !urgent || tries === TRIES || retry_after_seconds > BUSY_SECONDS_MAX) return answer;
    await pause(clock, retry_after_seconds * 1000);
  }
}

function forget({ credentials, base_url }: Renewal, because: string): never {
  credentials.write(base_url, undefined);
  throw signInOver(base_url, because);
}

/** Revokes a sign-in (RFC 7009): refresh token, then access token. Raises StartError without a response or support. */
export async function revokeCredentials(ask: Ask, base_url: string, stored: Credentials): Promise<void> {
  const { revocation } = await discover(ask, base_url);
  if (revocation === undefined) {
    throw new StartError(`${base_url} does not support revocation`);
  }
  const tokens: [string, string][] = [['access_token', stored.access_token]];
  if (stored.refresh_token !== undefined) tokens.unshift(['refresh_token', stored.refresh_token]);
  for (const [token_type_hint, token] of tokens) {
    const answer = await ask('POST', revocation, { form: { token, token_type_hint } });
    if (answer.status !== 200) throw unexpected(`ending the sign-in at ${base_url}`, answer);
  }
}
