import type { Stats } from 'node:fs';
import { readBounded } from './files/user-files.ts';

/*
 * The name of a secret is an environment variable, or `file:` and the absolute path of a file. Loading turns
 * `api_key_file: keys/main` into `api_key_env: file:/etc/gateway/keys/main`, so that every reader handles both kinds.
 */

const FILE = 'file:';

const BYTES_MAX = 65_536;

/** Secrets by name: environment variables, and secret files as of the accepted configuration. */
export type SecretSource = Readonly<Record<string, string | undefined>>;

/** An unusable secret file. The message has the reason, `help` the remedy; neither contains the content. */
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

/** The path of a secret file; `undefined` for a variable. */
export function secretFile(name: string): string | undefined {
  return name.startsWith(FILE) ? name.slice(FILE.length) : undefined;
}

/** The variable or path, for a sentence such as "the secret in ...". */
export function secretPlace(name: string): string {
  return secretFile(name) ?? name;
}

/** The source of a secret in words: `the environment variable UPSTREAM_KEY`, `the file /run/secrets/upstream-key`. */
export function secretHolder(name: string): string {
  const file = secretFile(name);
  return file === undefined ? `the environment variable ${name}` : `the file ${file}`;
}

/** Both keys of a secret: `['api_key_env', 'api_key_file']`. */
export function secretKeys(env_key: string): readonly [string, string] {
  return [env_key, env_key.replace(/_env$/, '_file')];
}

/** The secret of a name; `undefined` if missing. A file is read only if the source, the accepted configuration, lacks it. */
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

/** Reads a secret file: UTF-8, without one line break at its end. Raises SecretFileError. */
export function readSecretFile(path: string): string {
  const text = decoded(readAtMost(path)).replace(/\r?\n$/, '');
  if (text.trim() === '') throw new SecretFileError('the file is empty', 'write the secret into it, and nothing else');
  return text;
}

const READS: Readonly<Record<string, readonly [problem: string, help: string]>> = {
  ENOENT: ['the file does not exist', 'write the secret into it, or mount it there'],
  ENOTDIR: ['the file does not exist', 'write the secret into it, or mount it there'],
  EACCES: ['the file cannot be read: permission denied', 'let the user of the gateway read it'],
  ELOOP: ['the file is a symbolic link to itself', 'correct the link'],
};

function rejected(stat: Stats): SecretFileError {
  if (stat.isDirectory()) return new SecretFileError('this is a directory', 'name a file in it');
  return stat.isFile()
    ? new SecretFileError(`the file is larger than ${BYTES_MAX} bytes`, 'name a file that contains only the secret')
    : new SecretFileError('this is not a regular file', 'write the secret into a file; each reload reads it again');
}

function readAtMost(path: string): Buffer {
  try {
    return readBounded(path, BYTES_MAX, rejected);
  } catch (error) {
    if (error instanceof SecretFileError) throw error;
    const { code = 'error' } = error as NodeJS.ErrnoException;
    const [problem, help] = READS[code] ?? [`the file cannot be read (${code})`, 'let the user of the gateway read it'];
    throw new SecretFileError(problem, help);
  }
}

function decoded(bytes: Buffer): string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new SecretFileError('the file is not UTF-8 text', 'save it as UTF-8');
  }
  if (!text.includes('\0')) return text;
  throw new SecretFileError('the file contains NUL bytes', 'write the secret into it as text, and nothing else');
}
