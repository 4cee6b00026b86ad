import { randomBytes } from 'node:crypto';
import { chmodSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
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
import type { Tokens } from './answers.ts';
import { parseBaseUrl } from './base-url.ts';

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
    /**
     * Runs `run` under an exclusive lock on the file. Raises StartError after the timeout, or if the directory is not writable.
     * The default timeout exceeds the longest run of this program.
     */
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

/** The text of a file; `undefined` if it does not exist. Makes a readable file private. */
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
    warn(`other users could read ${path}; it is private now; sign in again if somebody may have read it`);
  } catch {
    warn(`other users can read ${path}, and its mode cannot be changed: chmod 600 it`);
  }
}

/** Replaces a file atomically. Replaces a symbolic link instead of following it. */
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

/** The text of a credentials file. */
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
