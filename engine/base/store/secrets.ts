import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { parseProxy, proxyProblem, proxyVariables } from '../kit/net/proxy-route.ts';
import { proxyLogin } from '../kit/net/tunnel.ts';
import {
  readSecretFile,
  type SecretFileError,
  type SecretSource,
  secretFile,
  secretHolder,
  secretIn,
} from '../kit/secret-names.ts';
import type { Loaded } from '../source/spec.ts';

/** The keys ending in `_env` of a configuration, at any depth, with the names of their secrets. */
export function namedSecrets(node: unknown): { readonly key: string; readonly name: string }[] {
  if (typeof node !== 'object' || node === null) return [];
  return Object.entries(node).flatMap(([key, value]) =>
    key.endsWith('_env') && typeof value === 'string' ? [{ key, name: value }] : namedSecrets(value),
  );
}

/** A configuration that names secrets. Without `secret_files`, every file name counts as a secret file. */
type Naming = Pick<Loaded, 'config' | 'pipelines'> & Partial<Pick<Loaded, 'secret_files'>>;

function namedIn({ config, pipelines, secret_files }: Naming): ReturnType<typeof namedSecrets> {
  const entries = pipelines.flatMap((pipeline) => [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally]);
  // A text that only looks like a file name, such as the value of an attribute, must not make the gateway read a file.
  return namedSecrets([config, entries.map(({ options }) => options)]).filter(({ name }) => {
    const file = secretFile(name);
    return file === undefined || secret_files === undefined || secret_files.includes(file);
  });
}

/**
 * Reads the secret files of a configuration, by the names of the secrets. Raises StartError for an unusable file, without its
 * content.
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

/** Keys of secrets that are sent in an HTTP header. */
const HEADER_KEYS: readonly string[] = ['api_key_env', 'auth_token_env', 'token_env', 'value_env'];
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Secret members of a JSON Web Key (RFC 7518 section 6). */
const PRIVATE_MEMBERS: readonly string[] = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k'];
/** Shorter lines of a key reveal too little, and may occur elsewhere. */
const SHORTEST_LINE = 16;

/** The texts to redact for a secret: itself, its URL-encoded form, and the lines or members of a key. */
function revealingParts(value: string): string[] {
  const lines = value.split(/\r?\n|\\n/).filter((line) => line.length >= SHORTEST_LINE && !line.startsWith('-----'));
  return [...new Set([value, encodeURIComponent(value.toWellFormed()), ...lines, ...privateMembers(value)])];
}

const isProxy = (address: string) => proxyProblem(address) === undefined;

/** The texts to redact for the password in a proxy address; empty without one. */
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
 * A lookup of the secrets that gateway.yaml and the options of stages name. It first passes each secret and its revealing parts to
 * `hide`, for redaction in the log. Raises StartError for a secret that cannot be sent in a header, without its value.
 */
export function createSecrets(
  loaded: Naming,
  env: SecretSource,
  hide: (secret: string) => void,
): (name: string) => string {
  const values = new Map<string, string>();
  // Host and port of a proxy are not secret.
  const proxies = new Set(
    (loaded.config?.upstreams ?? []).flatMap(({ proxy }) => (typeof proxy === 'object' ? proxy.url_env : [])),
  );
  for (const { key, name } of namedIn(loaded)) {
    const value = secretIn(name, env);
    if (value === undefined) continue;
    if (HEADER_KEYS.includes(key) && !HEADER_VALUE.test(value)) {
      throw new StartError(
        `the value of ${secretHolder(name)} contains a character that no credential has, such as a line break or a space at its end; set it again without`,
        { exit_code: EXIT_CONFIGURATION },
      );
    }
    const is_proxy = proxies.has(name) && isProxy(value);
    for (const part of is_proxy ? passwordOf(value) : revealingParts(value)) hide(part);
    values.set(name, value);
  }
  // These proxies serve all servers without a configured proxy.
  for (const name of [...proxyVariables('https:'), ...proxyVariables('http:')]) {
    for (const part of passwordOf(env[name] ?? '')) hide(part);
  }
  return (name) => {
    const value = values.get(name);
    if (value === undefined) throw new Error(`the configuration names no secret ${name}, or its value is missing`);
    return value;
  };
}
