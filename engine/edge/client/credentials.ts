import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { StartError } from '../../base/contract/start-error.ts';
import { withLock } from '../../base/kit/files/file-lock.ts';
import { failFile, makeDirectory, PRIVATE_FILE } from '../../base/kit/files/user-files.ts';
import { fieldsOf, type Tokens } from './answers.ts';
import { parseBaseUrl } from './base-url.ts';

const FILE_BYTES_MAX = 1024 * 1024;
const OTHERS = 0o077;
/** Four requests at their slowest. */
const PATIENCE_SECONDS = 40;

/** Where the file is: APPSCLI_CREDENTIALS, else below XDG_CONFIG_HOME, else below ~/.config. */
export function credentialsPath(env: NodeJS.ProcessEnv): string {
  const set = (name: string) => (env[name] === '' ? undefined : env[name]);
  const own = set('APPSCLI_CREDENTIALS');
  if (own !== undefined) return own;
  return join(set('XDG_CONFIG_HOME') ?? join(set('HOME') ?? homedir(), '.config'), 'appscli', 'credentials.json');
}

/** Opens the credentials file of a person. `warn` is told when others could read it, which is put right. */
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
    /** Everything in it; nothing where there is no file. Raises StartError for one that can't be read or understood. */
    read,
    /** Sets or removes what belongs to one gateway; the others stay. Hold the lock. Raises StartError; then nothing changed. */
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
     * Runs something while no other process changes the file. Raises StartError when one keeps it for longer than this, or
     * when nothing can be written there. Without a number it is longer than any of ours can take.
     */
    async locked<T>(run: () => Promise<T>, patience_seconds = PATIENCE_SECONDS): Promise<T> {
      let within: unknown;
      try {
        makeDirectory(dirname(path));
        return await withLock(`${path}.lock`, patience_seconds, () =>
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

/** The file that holds what `appscli login` was given, by address of the gateway. */
export type CredentialsFile = ReturnType<typeof openCredentials>;

/** The text of a file; `undefined` where there is none. One that others may read becomes private. */
function readPrivate(path: string, warn: (text: string) => void): string | undefined {
  let file: number;
  try {
    // Without NONBLOCK a named pipe in its place would keep us waiting for ever.
    file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new StartError(`${path} is no file: move it away and sign in again`);
    if (stat.size > FILE_BYTES_MAX) throw new StartError(`${path} is larger than 1 MiB, so it is no credentials file`);
    if (process.platform !== 'win32' && (stat.mode & OTHERS) !== 0) protect(path, warn);
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

function protect(path: string, warn: (text: string) => void): void {
  try {
    chmodSync(path, PRIVATE_FILE);
    warn(`other users could read ${path}; it is private now, but sign in again if one of them may have`);
  } catch {
    warn(`other users can read ${path}, and it can't be made private: chmod 600 it`);
  }
}

/** Puts a new file in the place of the old one in one step, so that nobody ever sees half of it; a link is replaced, not followed. */
function replaceFile(path: string, text: string): void {
  const draft = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    const file = openSync(draft, 'wx', PRIVATE_FILE);
    try {
      writeFileSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

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
