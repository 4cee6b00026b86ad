import type { Log } from '../contract/services.ts';

const LOGGED_MAX = 1000;

/** Logs warnings about the configuration once for each set of fields, instead of on every request. */
export function createOnceLog(
  log: Log,
): (fields: Readonly<Record<string, string | undefined>>, message: string) => void {
  const logged = new Set<string>();
  return (fields, message) => {
    const name = JSON.stringify(fields);
    if (logged.has(name) || logged.size >= LOGGED_MAX) return;
    logged.add(name);
    log.warn(fields, message);
  };
}
