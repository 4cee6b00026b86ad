import { statSync } from 'node:fs';
import { networkInterfaces } from 'node:os';

/** The machine of a gateway, as far as checks look at it; nothing of it is changed. Tests put another in its place. */
export interface Machine {
  /** Of its network interfaces. */
  readonly addresses: readonly string[];
  /** When a file was changed, in milliseconds since the epoch; `undefined` where it can't be looked at. */
  changedAt(path: string): number | undefined;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** The machine this runs on. */
export function thisMachine(): Machine {
  return {
    addresses: Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []),
    changedAt: (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs,
    now: () => Date.now(),
  };
}
