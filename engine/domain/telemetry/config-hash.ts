import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { CONFIGURATION_PATHS, MACHINE_KEYS } from '../../base/contract/machine-keys.ts';
import { secretFile, secretInFile } from '../../base/kit/secret-names.ts';

const known = new WeakMap<GatewayConfig, string>();
const HASH_CHARS = 12;

/** 12 hexadecimal digits that reveal nothing, and are equal for replicas that differ only in keys of the machine. */
export function configHash(config: GatewayConfig): string {
  const hash = known.get(config) ?? createHash('sha256').update(shared(config)).digest('hex').slice(0, HASH_CHARS);
  known.set(config, hash);
  return hash;
}

/** The part of a configuration that replicas share, as text. It includes the presence of machine keys, but not their values. */
function shared(config: GatewayConfig): string {
  const copy: unknown = JSON.parse(JSON.stringify(config, withoutDirectory));
  for (const keys of MACHINE_KEYS) change(copy, keys, () => '');
  for (const keys of CONFIGURATION_PATHS) change(copy, keys, basename);
  return JSON.stringify(copy);
}

/** Reduces the path of a secret file to its name, because directories differ between machines. */
function withoutDirectory(key: string, value: unknown): unknown {
  const file = key.endsWith('_env') && typeof value === 'string' ? secretFile(value) : undefined;
  return file === undefined ? value : secretInFile(basename(file));
}

function change(value: unknown, [key, ...rest]: readonly string[], to: (text: string) => string): void {
  if (typeof value !== 'object' || value === null || key === undefined) return;
  for (const each of key === '*' ? Object.keys(value) : [key]) {
    const owner = value as Record<string, unknown>;
    const member = Object.hasOwn(owner, each) ? owner[each] : undefined;
    if (rest.length > 0) change(member, rest, to);
    else if (typeof member === 'string') owner[each] = to(member);
  }
}
