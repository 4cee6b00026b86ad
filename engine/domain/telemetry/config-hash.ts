import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { CONFIGURATION_PATHS, MACHINE_KEYS } from '../../base/contract/machine-keys.ts';
import { secretFile, secretInFile } from '../../base/kit/secret-names.ts';

const known = new WeakMap<GatewayConfig, string>();
const HASH_CHARS = 12;

/**
 * What tells two configurations apart, defaults filled in: 12 hexadecimal digits. It gives nothing of them away, and is the same
 * for replicas that differ in the keys of a machine.
 */
export function configHash(config: GatewayConfig): string {
  const hash = known.get(config) ?? createHash('sha256').update(shared(config)).digest('hex').slice(0, HASH_CHARS);
  known.set(config, hash);
  return hash;
}

/** What replicas of a configuration have in common, as text. That a machine has such a key at all is a part of it. */
function shared(config: GatewayConfig): string {
  const copy: unknown = JSON.parse(JSON.stringify(config, withoutDirectory));
  for (const keys of MACHINE_KEYS) change(copy, keys, () => '');
  for (const keys of CONFIGURATION_PATHS) change(copy, keys, basename);
  return JSON.stringify(copy);
}

/** A secret in a file is named by its absolute path, and machines have it below directories of their own. */
function withoutDirectory(key: string, value: unknown): unknown {
  const file = key.endsWith('_env') && typeof value === 'string' ? secretFile(value) : undefined;
  return file === undefined ? value : secretInFile(basename(file));
}

function change(value: unknown, [key, ...rest]: readonly string[], to: (text: string) => string): void {
  if (typeof value !== 'object' || value === null || key === undefined) return;
  for (const each of key === '*' ? Object.keys(value) : [key]) {
    const owner = value as Record<string, unknown>;
    const held = Object.hasOwn(owner, each) ? owner[each] : undefined;
    if (rest.length > 0) change(held, rest, to);
    else if (typeof held === 'string') owner[each] = to(held);
  }
}
