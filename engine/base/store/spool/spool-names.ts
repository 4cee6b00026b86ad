import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import type { Clock } from '../../contract/services.ts';
import type { GatewayProcess } from '../../kit/process/gateway-process.ts';
import { isRunning } from '../../kit/process/process-identity.ts';
import type { Disk } from './spool-file.ts';

/** Which file, and which database its rows and records belong to: nothing of it is ever written to another. */
export interface SpoolFileId {
  readonly id: string;
  readonly database_id: string;
}

interface ParsedName extends SpoolFileId {
  /** Of its owner; both or none. */
  readonly machine: string | undefined;
  readonly identity: string | undefined;
}

/** How long the file of a process on another machine must not change until it counts as dead. */
const FOREIGN_PATIENCE_MS = 60_000;

/** `database.id.spool`, or with a living or dead owner `database.machine.process.id.spool`. */
const NAME = /^([0-9a-f-]{36})\.(?:([0-9a-f]{16})\.([0-9a-z-]+)\.)?([0-9a-f-]{36})\.spool$/;

/** Name of a file that every gateway of its database may take over. */
export function ownerlessName({ id, database_id }: SpoolFileId): string {
  return `${database_id}.${id}.spool`;
}

function parseSpoolName(name: string): ParsedName | undefined {
  const [, database_id, machine, identity, id] = NAME.exec(name) ?? [];
  return id === undefined || database_id === undefined ? undefined : { id, database_id, machine, identity };
}

/**
 * The files in a spool directory that no gateway of a database takes over, because they belong to another; none where there is
 * no directory. Raises what `readdir` raises.
 */
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
 * Names of one process. Whose a file in a spool directory is, its name says, so that taking it over is one renaming, which only
 * one of several processes can win, and which a crash leaves done or undone.
 */
export class SpoolNames {
  readonly #process: GatewayProcess;
  readonly #clock: Clock;
  readonly #machine: string;
  /** When a file of another machine was last seen to change; no clocks are compared. */
  readonly #seen = new Map<string, { readonly stamp: string; readonly since_ms: number }>();

  constructor(process: GatewayProcess, clock: Clock) {
    this.#process = process;
    this.#clock = clock;
    this.#machine = createHash('sha256').update(process.machine).digest('hex').slice(0, 16);
  }

  own({ id, database_id }: SpoolFileId): string {
    return `${database_id}.${this.#machine}.${this.#process.identity}.${id}.spool`;
  }

  /** A file whose owner has ended; `undefined` for any other. Raises what `stat` raises. */
  async orphan(disk: Disk, name: string, path: string): Promise<SpoolFileId | undefined> {
    const file = parseSpoolName(name);
    if (file === undefined) return undefined;
    const { machine, identity } = file;
    if (machine === undefined || identity === undefined) return file;
    if (machine === this.#machine) return isRunning(identity) ? undefined : file;
    return (await this.#isSilent(disk, name, path)) ? file : undefined;
  }

  /** Forgets what was noticed about files that are not there any more. */
  keepOnly(names: readonly string[]): void {
    for (const name of this.#seen.keys()) if (!names.includes(name)) this.#seen.delete(name);
  }

  async #isSilent(disk: Disk, name: string, path: string): Promise<boolean> {
    const { mtimeMs, size } = await disk.stat(path);
    const stamp = `${mtimeMs} ${size}`;
    const before = this.#seen.get(name);
    if (before?.stamp === stamp) return this.#clock.monotonic() - before.since_ms >= FOREIGN_PATIENCE_MS;
    this.#seen.set(name, { stamp, since_ms: this.#clock.monotonic() });
    return false;
  }
}
