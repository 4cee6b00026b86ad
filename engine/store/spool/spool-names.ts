import { createHash } from 'node:crypto';
import type { Clock } from '../../contract/services.ts';
import type { GatewayProcess } from '../../kit/process/gateway-process.ts';
import { isRunning } from '../../kit/process/process-identity.ts';
import type { Disk } from './spool-file.ts';

/**
 * Whose a file in a spool directory is. Its name says it, so that taking it over is one renaming, which only one of
 * several processes can win, and which a crash leaves done or undone.
 */
export interface SpoolNames {
  /** Name of a file of this process. */
  own(file: SpoolFileId): string;
  /** A file that nobody minds any more; `undefined` for any other. Raises what `stat` raises. */
  abandoned(disk: Disk, name: string, path: string): Promise<ParsedName | undefined>;
  /** Forgets what was noticed about files that are not there any more. */
  keepOnly(names: readonly string[]): void;
}

/** Which file, and which database its rows and records belong to: nothing of it is ever written to another. */
export interface SpoolFileId {
  readonly id: string;
  readonly database_id: string;
}

/** How long the file of a process on another machine must not change until it counts as dead; see `TOUCH_MS`. */
const FOREIGN_PATIENCE_MS = 60_000;

/** `database.id.spool`, or with a living or dead owner `database.machine.process.id.spool`. */
const NAME = /^(?:([0-9a-f-]{36})\.)?(?:([0-9a-f]{16})\.([0-9a-z-]+)\.)?([0-9a-f-]{36})\.spool$/;

/** Name of a file that every gateway of its database may take over. */
export function ownerlessName({ id, database_id }: SpoolFileId): string {
  return `${database_id}.${id}.spool`;
}

interface ParsedName {
  readonly id: string;
  /** Absent from the names of earlier versions. */
  readonly database_id: string | undefined;
  /** Of its owner; both or none. */
  readonly machine: string | undefined;
  readonly identity: string | undefined;
}

/** What the name of a spool file says; `undefined` for the name of anything else. */
export function parseSpoolName(name: string): ParsedName | undefined {
  const [, database_id, machine, identity, id] = NAME.exec(name) ?? [];
  return id === undefined ? undefined : { id, database_id, machine, identity };
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
    own: ({ id, database_id }) => `${database_id}.${own_machine}.${process.identity}.${id}.spool`,
    async abandoned(disk, name, path) {
      const file = parseSpoolName(name);
      if (file === undefined) return undefined;
      const { machine, identity } = file;
      if (machine === undefined || identity === undefined) return file;
      if (machine === own_machine) return isRunning(identity) ? undefined : file;
      return (await isSilent(disk, name, path)) ? file : undefined;
    },
    keepOnly(names) {
      for (const name of seen.keys()) if (!names.includes(name)) seen.delete(name);
    },
  };
}
