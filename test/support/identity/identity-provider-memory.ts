import type { Adapter, AdapterPayload } from 'oidc-provider';

/** The memory for tokens and sessions of a test's identity provider. Clients come from `findClient`. */
export function createMemoryAdapters(findClient: (id: string) => AdapterPayload | undefined): {
  create(model: string): Adapter;
  clear(): void;
} {
  const entries = new Map<string, AdapterPayload>();
  const create = (model: string): Adapter => {
    const key = (id: string) => `${model}:${id}`;
    const findWhere = async (field: 'uid' | 'userCode', value: string) =>
      [...entries].find(([name, payload]) => name.startsWith(key('')) && payload[field] === value)?.[1];
    return {
      upsert: async (id, payload) => void entries.set(key(id), payload),
      find: async (id) => (model === 'Client' ? findClient(id) : entries.get(key(id))),
      findByUid: (uid) => findWhere('uid', uid),
      findByUserCode: (code) => findWhere('userCode', code),
      async consume(id) {
        const payload = entries.get(key(id));
        if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1000);
      },
      destroy: async (id) => void entries.delete(key(id)),
      async revokeByGrantId(grant) {
        for (const [name, payload] of entries) if (payload.grantId === grant) entries.delete(name);
      },
    };
  };
  return { create, clear: () => entries.clear() };
}
