import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import type { Clock } from '../../contract/services.ts';
import type { GatewayProcess } from '../../kit/process/gateway-process.ts';
import { isRunning } from '../../kit/process/process-identity.ts';
import type { Disk } from './spool-file.ts';

/** Id of a spool file, and of its database; records are never written to another database. */
export interface SpoolFileId {
  readonly id: string;
  readonly database_id: string;
}

interface ParsedName extends SpoolFileId {
  /** Owner: machine and process; both or neither. */
  readonly machine: string | undefined;
  readonly identity: string | undefined;
}

/** A process on another machine counts as dead if its file has not changed for this long. */
const FOREIGN_TIMEOUT_MS = 60_000;

/** `database.id.spool`, or with an owner `database.machine.process.id.spool`. */
const NAME = /^([0-9a-f-]{36})\.(?:([0-9a-f]{16})\.([0-9a-z-]+)\.)?([0-9a-f-]{36})\.spool$/;

/** Name of a file without an owner; any gateway of its database may adopt it. */
export function ownerlessName({ id, database_id }: SpoolFileId): string {
  return `${database_id}.${id}.spool`;
}

function parseSpoolName(name: string): ParsedName | undefined {
  const [, database_id, machine, identity, id] = NAME.exec(name) ?? [];
  return id === undefined || database_id === undefined ? undefined : { id, database_id, machine, identity };
}

/** The spool files of other databases in a directory; empty for a missing directory. Raises errors of `readdir`. */
export async function listForeignSpools(
  directory: string,
  database_id: string,
): Promise<{ readonly name: string; readonly database_id: string }[]> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names.sort().flatMap((name) => {
    const file = parseSpoolName(name);
    return file === undefined || file.database_id === database_id ? [] : [{ name, database_id: file.database_id }];
  });
}

/**
 * The spool file names of one process. The name of a file contains its owner, so adoption is one atomic rename, which only one of
 * several processes can win.
 */
export class SpoolNames {
  readonly #process: GatewayProcess;
  readonly #clock: Clock;
  readonly #machine: string;
  /** When a file of another machine last changed, by the local monotonic clock. */
  readonly #seen = new Map<string, { readonly stamp: string; readonly since_ms: number }>();

  constructor(process: GatewayProcess, clock: Clock) {
    this.#process = process;
    this.#clock = clock;
    this.#machine = createHash('sha256').update(process.machine).digest('hex').slice(0, 16);
  }

  own({ id, database_id }: SpoolFileId): string {
    return `${database_id}.${this.#machine}.${this.#process.identity}.${id}.spool`;
  }

  /** The id of a file whose owner has ended; otherwise `undefined`. Raises errors of `stat`. */
  async orphan(disk: Disk, name: string, path: string): Promise<SpoolFileId | undefined> {
    const file = parseSpoolName(name);
    if (file === undefined) return undefined;
    const { machine, identity } = file;
    if (machine === undefined || identity === undefined) return file;
    if (machine === this.#machine) return isRunning(identity) ? undefined : file;
    return (await this.#isSilent(disk, name, path)) ? file : undefined;
  }

  /** Forgets files that no longer exist. */
  keepOnly(names: readonly string[]): void {
    for (const name of this.#seen.keys()) if (!names.includes(name)) this.#seen.delete(name);
  }

  async #isSilent(disk: Disk, name: string, path: string): Promise<boolean> {
    const { mtimeMs, size } = await disk.stat(path);
    const stamp = `${mtimeMs} ${size}`;
    const before = this.#seen.get(name);
    if (before?.stamp === stamp) return this.#clock.monotonic() - before.since_ms >= FOREIGN_TIMEOUT_MS;
    this.#seen.set(name, { stamp, since_ms: this.#clock.monotonic() });
    return false;
  }
}
