import type { Health } from '../api.ts';
import type { Database } from './database.ts';

/** Longest a check may take before the part counts as down, in milliseconds: probes themselves wait only seconds. */
const PATIENCE_MS = 2000;

function withinPatience<T>(check: Promise<T>, otherwise: T): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(otherwise), PATIENCE_MS);
    check.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Readiness of what the gateway needs to serve requests. */
export function createHealth(database: Pick<Database, 'check'>): Health {
  return {
    async check() {
      const silent = { ok: false, detail: `no answer within ${PATIENCE_MS / 1000} seconds` };
      return { database: await withinPatience(database.check(), silent) };
    },
  };
}
