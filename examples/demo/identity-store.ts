import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Adapter, AdapterPayload } from 'oidc-provider';

/** State that survives a restart of the demo, so that users stay signed in. */
const KEPT: readonly string[] = ['RefreshToken', 'Grant'];

function isAlive({ exp }: AdapterPayload): boolean {
  return exp === undefined || exp > Date.now() / 1000;
}

function read(file: string): Map<string, AdapterPayload> {
  try {
    return new Map(Object.entries(JSON.parse(readFileSync(file, 'utf8')) as Record<string, AdapterPayload>));
  } catch {
    return new Map();
  }
}

/** Storage of the demo's identity provider: in memory, with the lasting part in a file that only the owner can read. */
export function openIdentityStore(file: string): (model: string) => Adapter {
  const payloads = read(file);
  function change(model: string, work: () => void): void {
    work();
    for (const [key, payload] of payloads) if (!isAlive(payload)) payloads.delete(key);
    if (!KEPT.includes(model)) return;
    const kept = [...payloads].filter(([key]) => KEPT.includes(key.slice(0, key.indexOf(':'))));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, JSON.stringify(Object.fromEntries(kept)), { mode: 0o600 });
  }
  return (model) => {
    const keyOf = (id: string) => `${model}:${id}`;
    const findBy = async (field: 'uid' | 'userCode', value: string) =>
      [...payloads].find(([key, payload]) => key.startsWith(keyOf('')) && payload[field] === value)?.[1];
    return {
      upsert: async (id, payload) => change(model, () => payloads.set(keyOf(id), payload)),
      find: async (id) => payloads.get(keyOf(id)),
      findByUid: (uid) => findBy('uid', uid),
      findByUserCode: (code) => findBy('userCode', code),
      consume: async (id) =>
        change(model, () => {
          const payload = payloads.get(keyOf(id));
          if (payload !== undefined) payloads.set(keyOf(id), { ...payload, consumed: Math.floor(Date.now() / 1000) });
        }),
      destroy: async (id) => change(model, () => payloads.delete(keyOf(id))),
      revokeByGrantId: async (grant) =>
        change('Grant', () => {
          for (const [key, { grantId }] of payloads) if (grantId === grant) payloads.delete(key);
        }),
    };
  };
}
