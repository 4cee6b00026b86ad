import type { Loaded } from '../load/spec.ts';
import { EXIT_CONFIGURATION, StartError } from './start-error.ts';

/** Every environment variable a configuration refers to, by the key that does: those that end in `_env`, at any depth. */
export function namedSecrets(node: unknown): { readonly key: string; readonly name: string }[] {
  if (typeof node !== 'object' || node === null) return [];
  return Object.entries(node).flatMap(([key, value]) =>
    key.endsWith('_env') && typeof value === 'string' ? [{ key, name: value }] : namedSecrets(value),
  );
}

/** Keys whose secret is sent as the value of an HTTP header. */
const HEADER_KEYS: readonly string[] = ['api_key_env', 'auth_token_env', 'token_env'];
/** Visible ASCII characters, with spaces only between them. */
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/**
 * The values of the environment variables that gateway.yaml and the options of stages name, and of no others. Each value
 * is given to `hide` first.
 * Raises StartError, naming the variable and never its value, when one can't be sent in a header.
 */
export function createSecrets(
  { config, pipelines }: Pick<Loaded, 'config' | 'pipelines'>,
  env: NodeJS.ProcessEnv,
  hide: (secret: string) => void,
): (name: string) => string {
  const values = new Map<string, string>();
  const entries = pipelines.flatMap((pipeline) => [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally]);
  for (const { key, name } of namedSecrets([config, entries.map(({ options }) => options)])) {
    const value = env[name];
    if (value === undefined) continue;
    if (HEADER_KEYS.includes(key) && !HEADER_VALUE.test(value)) {
      throw new StartError(
        `the value of the environment variable ${name} begins or ends with a space or holds a line break or another character that no credential has; set it again without`,
        { exit_code: EXIT_CONFIGURATION },
      );
    }
    hide(value);
    values.set(name, value);
  }
  return (name) => {
    const value = values.get(name);
    if (value === undefined) throw new Error(`no environment variable ${name} is named in the configuration and set`);
    return value;
  };
}
