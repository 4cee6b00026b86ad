import { createHash } from 'node:crypto';
import type { Clock } from '../api.ts';
import type { GatewayProcess } from './gateway-process.ts';
import { isRunning } from './process-identity.ts';
import type { Disk } from './spool-file.ts';

/**
 * Whose a file in a spool directory is. Its name says it, so that taking it over is one renaming, which only one of
 * several processes can win, and which a crash leaves done or undone.
 */
export interface SpoolNames {
  /** Name of a file of this process. */
  own(id: string): string;
  /** Id of a file that nobody minds any more; `undefined` for any other. Raises what `stat` raises. */
  abandoned(disk: Disk, name: string, path: string): Promise<string | undefined>;
  /** Forgets what was noticed about files that are not there any more. */
  keepOnly(names: readonly string[]): void;
}

/** How long the file of a process on another machine must not change until it counts as dead; see `TOUCH_MS`. */
const FOREIGN_PATIENCE_MS = 60_000;

/** `id.spool`, or with a living or dead owner `machine.process.id.spool`. */
const NAME = /^(?:([0-9a-f]{16})\.([0-9a-z-]+)\.)?([0-9a-f-]{36})\.spool$/;

/** Name of a file that anybody may take over. */
export function ownerlessName(id: string): string {
  return `${id}.spool`;
}

/** Names of one process. */
export function createSpoolNames(process: GatewayProcess, clock: Clock): SpoolNames {
  const own_machine = createHash('sha256').update(process.machine).digest('hex').slice(0, 16);
  /** When a file of another machine was last seen to change; no clocks are compared. */
  const seen = new Map<string, { readonly stamp: string; readonly since_ms: number }>();

  const isSilent = async (disk: Disk, name: string, path: string): Promise<boolean> => {
    const { mtimeMs, size } = await disk.stat(path);
    const stamp = `${mtimeMs} ${size}`;
    const before = seen.get(name);
    if (before?.stamp === stamp) return clock.monotonic() - before.since_ms >= FOREIGN_PATIENCE_MS;
    seen.set(name, { stamp, since_ms: clock.monotonic() });
    return false;
  };

  return {
    own: (id) => `${own_machine}.${process.identity}.${id}.spool`,
    async abandoned(disk, name, path) {
      const [, machine, identity, id] = NAME.exec(name) ?? [];
      if (id === undefined || machine === undefined || identity === undefined) return id;
      if (machine === own_machine) return isRunning(identity) ? undefined : id;
      return (await isSilent(disk, name, path)) ? id : undefined;
    },
    keepOnly(names) {
      for (const name of seen.keys()) if (!names.includes(name)) seen.delete(name);
    },
  };
}
