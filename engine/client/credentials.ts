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
import { StartError } from '../contract/start-error.ts';
import { withLock } from '../kit/files/file-lock.ts';
import { failFile, makeDirectory, PRIVATE_FILE } from '../kit/files/user-files.ts';
import { type Credentials, formatCredentials, parseCredentials } from './credentials-text.ts';

const FILE_BYTES_MAX = 1024 * 1024;
const OTHERS = 0o077;
/** Four requests at their slowest. */
const PATIENCE_SECONDS = 40;

/** The file that holds what `appscli login` was given, by address of the gateway. */
export interface CredentialsFile {
  readonly path: string;
  /** Everything in it; nothing where there is no file. Raises StartError for one that can't be read or understood. */
  read(): ReadonlyMap<string, Credentials>;
  /** Sets or removes what belongs to one gateway; the others stay. Hold the lock. Raises StartError; then nothing changed. */
  write(base_url: string, credentials: Credentials | undefined): void;
  /**
   * Runs something while no other process changes the file. Raises StartError when one keeps it for longer than this, or
   * when nothing can be written there. Without a number it is longer than any of ours can take.
   */
  locked<T>(run: () => Promise<T>, patience_seconds?: number): Promise<T>;
}

/** Where the file is: APPSCLI_CREDENTIALS, else below XDG_CONFIG_HOME, else below ~/.config. */
export function credentialsPath(env: NodeJS.ProcessEnv): string {
  const set = (name: string) => (env[name] === '' ? undefined : env[name]);
  const own = set('APPSCLI_CREDENTIALS');
  if (own !== undefined) return own;
  return join(set('XDG_CONFIG_HOME') ?? join(set('HOME') ?? homedir(), '.config'), 'appscli', 'credentials.json');
}

/** Opens the credentials file of a person. `warn` is told when others could read it, which is put right. */
export function openCredentials(env: NodeJS.ProcessEnv, warn: (text: string) => void = () => {}): CredentialsFile {
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
    read,
    write(base_url, credentials) {
      const all = new Map(read());
      if (credentials === undefined) all.delete(base_url);
      else all.set(base_url, credentials);
      try {
        replaceFile(path, formatCredentials(all));
      } catch (error) {
        failFile(path, 'written', error);
      }
    },
    async locked(run, patience_seconds = PATIENCE_SECONDS) {
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
