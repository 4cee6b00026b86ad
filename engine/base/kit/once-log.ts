import type { Log } from '../contract/services.ts';

const TOLD_MAX = 1000;

/** Warns of things that go on for as long as nobody changes the configuration: once of each that has the same fields. */
export function createOnceLog(
  log: Log,
): (fields: Readonly<Record<string, string | undefined>>, message: string) => void {
  const told = new Set<string>();
  return (fields, message) => {
    const name = JSON.stringify(fields);
    if (told.has(name) || told.size >= TOLD_MAX) return;
    told.add(name);
    log.warn(fields, message);
  };
}
