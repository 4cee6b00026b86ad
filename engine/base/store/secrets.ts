import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { proxyLogin } from '../kit/net/tunnel.ts';
import { parseProxy, proxyProblem, proxyVariables } from '../kit/net/way.ts';
import {
  readSecretFile,
  type SecretFileError,
  type SecretSource,
  secretFile,
  secretHolder,
  secretIn,
} from '../kit/secret-names.ts';
import type { Loaded } from '../source/spec.ts';

/** The name of every secret a configuration refers to, by the key that does: those that end in `_env`, at any depth. */
export function namedSecrets(node: unknown): { readonly key: string; readonly name: string }[] {
  if (typeof node !== 'object' || node === null) return [];
  return Object.entries(node).flatMap(([key, value]) =>
    key.endsWith('_env') && typeof value === 'string' ? [{ key, name: value }] : namedSecrets(value),
  );
}

/** A configuration that names secrets. Without `secret_files` each path is taken for one that a key for a file gave. */
type Naming = Pick<Loaded, 'config' | 'pipelines'> & Partial<Pick<Loaded, 'secret_files'>>;

function namedIn({ config, pipelines, secret_files }: Naming): ReturnType<typeof namedSecrets> {
  const entries = pipelines.flatMap((pipeline) => [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally]);
  // A text that only looks like the name of a file, such as the value of an attribute, lets nobody have a file read.
  return namedSecrets([config, entries.map(({ options }) => options)]).filter(({ name }) => {
    const file = secretFile(name);
    return file === undefined || secret_files === undefined || secret_files.includes(file);
  });
}

/**
 * What the secret files of a configuration hold now, by the names of the secrets. Raises StartError, naming the file and never
 * what it holds, when one can't be used.
 */
export function readSecretFiles(loaded: Naming): Readonly<Record<string, string>> {
  const read: Record<string, string> = {};
  for (const { name } of namedIn(loaded)) {
    const file = secretFile(name);
    if (file === undefined || name in read) continue;
    try {
      read[name] = readSecretFile(file);
    } catch (error) {
      const { message, help } = error as SecretFileError;
      throw new StartError(`the secret in ${file} cannot be read: ${message}; ${help}`, {
        exit_code: EXIT_CONFIGURATION,
      });
    }
  }
  return read;
}

/** Keys whose secret is sent as the value of an HTTP header. */
const HEADER_KEYS: readonly string[] = ['api_key_env', 'auth_token_env', 'token_env', 'value_env'];
/** Visible ASCII characters, with spaces only between them. */
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Members of a JSON Web Key that are secret (RFC 7518 section 6). */
const PRIVATE_MEMBERS: readonly string[] = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k'];
/** Shorter lines of a key hold too little of it, and may well occur elsewhere. */
const SHORTEST_LINE = 16;

/** The texts that would give a secret away: itself, as a form holds it, and the lines or members of a key. */
function tellingParts(value: string): string[] {
  const lines = value.split(/\r?\n|\\n/).filter((line) => line.length >= SHORTEST_LINE && !line.startsWith('-----'));
  return [...new Set([value, encodeURIComponent(value.toWellFormed()), ...lines, ...privateMembers(value)])];
}

const isProxy = (address: string) => proxyProblem(address) === undefined;

/** The texts that would give away the password in the address of a proxy; none where it has none. */
function passwordOf(address: string): string[] {
  const login = isProxy(address) ? proxyLogin(parseProxy(address, '')) : undefined;
  if (login === undefined) return [];
  const [, password = ''] = /:(.*)$/s.exec(Buffer.from(login, 'base64').toString()) ?? [];
  return [login, password, encodeURIComponent(password.toWellFormed())].filter((part) => part !== '');
}

function privateMembers(value: string): string[] {
  try {
    const key = JSON.parse(value) as Readonly<Record<string, unknown>> | null;
    return PRIVATE_MEMBERS.flatMap((name) => {
      const member = key?.[name];
      return typeof member === 'string' ? member : [];
    });
  } catch {
    return [];
  }
}

/**
 * The secrets that gateway.yaml and the options of stages name, and no others. Each is given to `hide` first, and so are the
 * parts of it that would give it away.
 * Raises StartError, naming the variable or file and never its value, when one can't be sent in a header.
 */
export function createSecrets(
  loaded: Naming,
  env: SecretSource,
  hide: (secret: string) => void,
): (name: string) => string {
  const values = new Map<string, string>();
  // Host and port of a proxy are no secret.
  const proxies = new Set(
    (loaded.config?.upstreams ?? []).flatMap(({ proxy }) => (typeof proxy === 'object' ? proxy.url_env : [])),
  );
  for (const { key, name } of namedIn(loaded)) {
    const value = secretIn(name, env);
    if (value === undefined) continue;
    if (HEADER_KEYS.includes(key) && !HEADER_VALUE.test(value)) {
      throw new StartError(
        `the value of ${secretHolder(name)} begins or ends with a space or holds a line break or another character that no credential has; set it again without`,
        { exit_code: EXIT_CONFIGURATION },
      );
    }
    const is_proxy = proxies.has(name) && isProxy(value);
    for (const part of is_proxy ? passwordOf(value) : tellingParts(value)) hide(part);
    values.set(name, value);
  }
  // Servers that no key names a proxy for are reached through these.
  for (const name of [...proxyVariables('https:'), ...proxyVariables('http:')]) {
    for (const part of passwordOf(env[name] ?? '')) hide(part);
  }
  return (name) => {
    const value = values.get(name);
    if (value === undefined) throw new Error(`the configuration names no secret ${name} that is there`);
    return value;
  };
}
