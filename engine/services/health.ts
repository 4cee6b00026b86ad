import type { Health, HealthPart } from '../api.ts';
import type { Database } from './database.ts';

/** Longest a check may take before the part counts as down, in milliseconds: probes themselves wait only seconds. */
const PATIENCE_MS = 2000;

function withinPatience<T>(check: Promise<T>, otherwise: T): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(otherwise), PATIENCE_MS);
    check.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** How the configuration in force came about. Times are milliseconds since the epoch. */
export interface ReloadState {
  /** When the configuration in force was loaded. */
  readonly loaded_at: number;
  /** Reloads that succeeded, and that did not, since the start. */
  readonly reloads: number;
  readonly failed_reloads: number;
  /** Since when the files hold a configuration that can't be put in force. */
  readonly failing_since: number | undefined;
}

/** A gateway whose last reload failed still serves, so it is as ready as before; it only says so. */
function describeReloads({ loaded_at, reloads, failed_reloads, failing_since }: ReloadState): HealthPart {
  const failing = failing_since !== undefined;
  const told = { state: failing ? 'reload_failed' : 'ok', loaded_at: time(loaded_at), reloads, failed_reloads };
  return { ok: true, told: failing ? { ...told, failing_since: time(failing_since) } : told };
}

function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** Readiness of what the gateway needs to serve requests, and how its configuration came about. */
export function createHealth(database: Pick<Database, 'check'>, reloads: () => ReloadState): Health {
  return {
    async check() {
      const silent = { ok: false, detail: `no answer within ${PATIENCE_MS / 1000} seconds` };
      return {
        database: await withinPatience(database.check(), silent),
        configuration: describeReloads(reloads()),
      };
    },
  };
}
