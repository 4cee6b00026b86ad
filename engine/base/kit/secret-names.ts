import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/*
 * A secret has one name wherever the configuration speaks of it: that of an environment variable, or `file:` and the absolute
 * path of a file. `api_key_file: keys/main` becomes `api_key_env: file:/etc/gateway/keys/main`, so that every reader of a secret
 * reads both kinds.
 */

const FILE = 'file:';

/** Larger files hold no key. */
const BYTES_MAX = 65_536;

/** Environment variables, and the content of secret files that a configuration was accepted with, by name. */
export type SecretSource = Readonly<Record<string, string | undefined>>;

/** A secret file that cannot be used. Its message names the file and what to do, and never what it holds. */
export class SecretFileError extends Error {
  override readonly name = 'SecretFileError';
  readonly help: string;

  constructor(problem: string, help: string) {
    super(problem);
    this.help = help;
  }
}

export function secretInFile(path: string): string {
  return FILE + path;
}

/** The path of the file that a name means; `undefined` for a variable. */
export function secretFile(name: string): string | undefined {
  return name.startsWith(FILE) ? name.slice(FILE.length) : undefined;
}

/** The variable or the file, after words such as "the secret in". */
export function secretPlace(name: string): string {
  return secretFile(name) ?? name;
}

/** What holds the secret: `the environment variable UPSTREAM_KEY`, `the file /run/secrets/upstream-key`. */
export function secretHolder(name: string): string {
  const file = secretFile(name);
  return file === undefined ? `the environment variable ${name}` : `the file ${file}`;
}

/** The keys for a secret, by the one that names its variable: `['api_key_env', 'api_key_file']`. */
export function secretKeys(env_key: string): readonly [string, string] {
  return [env_key, env_key.replace(/_env$/, '_file')];
}

/**
 * The secret of a name; `undefined` where there is none. What a running gateway accepted stays in force until it accepts
 * another: only a file that the source does not hold is read.
 */
export function secretIn(name: string, source: SecretSource): string | undefined {
  const value = source[name];
  const file = secretFile(name);
  if (value !== undefined || file === undefined) return value;
  try {
    return readSecretFile(file);
  } catch {
    return undefined;
  }
}

/** Reads a secret: UTF-8 without the one line end that editors and `echo` put at the end. Raises SecretFileError. */
export function readSecretFile(path: string): string {
  const text = decoded(readAtMost(path)).replace(/\r?\n$/, '');
  if (text.trim() === '') throw new SecretFileError('the file is empty', 'write the secret into it, and nothing else');
  return text;
}

const READS: Readonly<Record<string, readonly [problem: string, help: string]>> = {
  ENOENT: ['the file does not exist', 'write the secret into it, or mount it there'],
  ENOTDIR: ['the file does not exist', 'write the secret into it, or mount it there'],
  EACCES: ['the file cannot be read: permission denied', 'let the user of the gateway read it'],
  EISDIR: ['this is a directory', 'name a file in it'],
  ELOOP: ['the file is a symbolic link to itself', 'correct the link'],
};

function readAtMost(path: string): Buffer {
  let handle: number | undefined;
  try {
    // A pipe that nobody writes to would block for ever.
    handle = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = fstatSync(handle);
    if (stats.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' });
    if (!stats.isFile()) {
      throw new SecretFileError('this is no regular file', 'a reload reads it again: write the secret into a file');
    }
    const buffer = Buffer.alloc(BYTES_MAX + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = readSync(handle, buffer, length, buffer.length - length, null);
    }
    if (length <= BYTES_MAX) return buffer.subarray(0, length);
    throw new SecretFileError(
      `the file is larger than ${BYTES_MAX} bytes`,
      'name the file that holds the secret alone',
    );
  } catch (error) {
    if (error instanceof SecretFileError) throw error;
    const { code = 'error' } = error as NodeJS.ErrnoException;
    const [problem, help] = READS[code] ?? [`the file cannot be read (${code})`, 'let the user of the gateway read it'];
    throw new SecretFileError(problem, help);
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}

function decoded(bytes: Buffer): string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new SecretFileError('the file is no text in UTF-8', 'save it as UTF-8');
  }
  if (!text.includes('\0')) return text;
  throw new SecretFileError('the file holds NUL bytes', 'write the secret into it as text, and nothing else');
}
