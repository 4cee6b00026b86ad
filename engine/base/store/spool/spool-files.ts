import { createHash } from 'node:crypto';
import * as file_system from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Log } from '../../contract/services.ts';
import { type GatewayProcess, ownProcess } from '../../kit/process/gateway-process.ts';
import { isRunning } from '../../kit/process/process-identity.ts';
import {
  createSpoolFile,
  type Disk,
  readSpoolFile,
  requestOf,
  type Span,
  type SpoolFile,
  type SpoolRecord,
} from './spool-file.ts';

/** Id of a spool file, and of its database; records are never written to another database. */
interface SpoolFileId {
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
function ownerlessName({ id, database_id }: SpoolFileId): string {
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
  const names = await file_system.readdir(directory).catch((error: NodeJS.ErrnoException) => {
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
class SpoolNames {
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

/** A spool file of this process. */
export interface OwnedFile extends SpoolFileId {
  readonly path: string;
  readonly file: SpoolFile;
  requests: number;
}

/** A record in a spool file of this process. */
export interface Spooled {
  readonly owned: OwnedFile;
  readonly span: Span;
}

/** A valid line of an adopted file. */
export interface Found {
  readonly what: SpoolRecord['what'];
  readonly request_id: string;
  readonly span: Span;
}

/** Receives the lines of an adopted file, and returns the number of pending requests in them. */
type Adopt = (owned: OwnedFile, lines: readonly Found[]) => number;

/** The spool cannot accept a request. The message says why, without a path. */
export class SpoolError extends Error {
  override name = 'SpoolError';
}

/** Without the id of the database, a file cannot be assigned to it. */
const NEVER_REACHED = 'the database has not been reached since the start';

/** Options of `SpoolFiles`. */
export interface SpoolFilesOptions {
  /** Absolute path; read each time, because a reload can change it. `undefined`: spooling is off. */
  readonly spool_dir: () => string | undefined;
  /** Id of the database; `undefined` until it was reached: no spooling and no adoption. */
  readonly database_id: () => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly process?: GatewayProcess;
  readonly disk?: Disk;
}

/** The spool files of a process: its own and adopted ones. No disk access before the first use. */
export class SpoolFiles {
  readonly #spool_dir: SpoolFilesOptions['spool_dir'];
  readonly #database_id: SpoolFilesOptions['database_id'];
  readonly #log: Log;
  readonly #disk: Disk;
  readonly #names: SpoolNames;
  readonly #files = new Map<string, OwnedFile>();
  readonly #appending = new Set<Promise<Span>>();
  /** Files that were already logged: of other databases, and those that cannot be adopted. */
  readonly #logged = new Set<string>();
  #current: OwnedFile | undefined;
  #opening: Promise<void> | undefined;
  #is_failing = false;
  #touched_ms = 0;

  constructor({ spool_dir, database_id, clock, log, process = ownProcess(), disk = file_system }: SpoolFilesOptions) {
    this.#spool_dir = spool_dir;
    this.#database_id = database_id;
    this.#log = log;
    this.#disk = disk;
    this.#names = new SpoolNames(process, clock);
  }

  get bytes(): number {
    let bytes = 0;
    for (const { file } of this.#files.values()) bytes += file.bytes;
    return bytes;
  }

  /** Writes the first record of a request and counts the request in its file. Durable when it resolves. Raises SpoolError and disk errors. */
  async put(record: SpoolRecord): Promise<Spooled> {
    const owned = await this.#openCurrent();
    try {
      return { owned, span: await this.append(owned, record) };
    } catch (error) {
      await this.vacate(owned);
      throw error;
    }
  }

  /** Ends a request of a file; removes a file without requests. Never rejects. */
  async vacate(owned: OwnedFile): Promise<void> {
    if (--owned.requests > 0) return;
    this.#files.delete(owned.id);
    if (this.#current === owned) this.#current = undefined;
    try {
      await this.#disk.unlink(owned.path);
    } catch (error) {
      // All its records are in the ledger, and writing them again has no effect.
      this.#log.debug({ path: owned.path, err: error }, 'a completed spool file cannot be removed');
    }
    await owned.file.close().catch(() => {});
  }

  /** Durable when it resolves. Raises disk errors; logs once per outage. */
  async append({ file }: OwnedFile, record: SpoolRecord): Promise<Span> {
    const appended = file.append(record);
    this.#appending.add(appended);
    try {
      const span = await appended;
      if (this.#is_failing) this.#log.info({ spool_dir: this.#spool_dir() }, 'the spool can be written to again');
      this.#is_failing = false;
      return span;
    } catch (error) {
      throw this.#recordFailure(error);
    } finally {
      this.#appending.delete(appended);
    }
  }

  /** Quarantines lines that the ledger cannot use in a file `.aside`, and logs it. Raises disk errors. */
  async setAside({ id, path }: OwnedFile, text: string, why: object): Promise<void> {
    const aside = join(path, '..', `${id}.aside`);
    try {
      await this.#disk.appendFile(aside, `${text}\n`, { mode: 0o600, flush: true });
    } catch (error) {
      throw this.#recordFailure(error);
    }
    this.#log.error({ path: aside, ...why }, 'a part of the spool cannot be written to the ledger; it was set aside');
  }

  /** Heartbeat: touches the files, so that other machines see that this process is alive. Never rejects. */
  async touch(): Promise<void> {
    // Strictly increasing, even with fast calls or a clock that is set back.
    this.#touched_ms = Math.max(Date.now(), this.#touched_ms + 1);
    for (const owned of this.#files.values()) {
      const now = new Date(this.#touched_ms);
      await this.#disk.utimes(owned.path, now, now).catch((error) => {
        // Another machine considered this process dead and adopted the file. New records need a new file.
        if (isMissing(error) && this.#current === owned) this.#current = undefined;
      });
    }
  }

  /** Adopts the files of dead processes for this database. Never rejects. */
  async adoptOrphans(adopt: Adopt): Promise<void> {
    const directory = this.#spool_dir();
    try {
      if (directory === undefined || this.#database_id() === undefined) return;
      const found = await this.#disk.readdir(directory);
      this.#names.keepOnly(found);
      for (const name of this.#logged) if (!found.includes(name)) this.#logged.delete(name);
      for (const name of found) {
        await this.#adopt(directory, name, adopt).catch((error) => {
          if (!isMissing(error)) this.#logOnce(name, { err: error }, 'a spool cannot be taken over');
        });
      }
    } catch (error) {
      if (!isMissing(error))
        this.#log.debug({ spool_dir: directory, err: error }, 'the spool directory cannot be read');
    }
  }

  /** Closes the files and gives up ownership, so that any process can adopt them. Never rejects. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#appending);
    this.#current = undefined;
    for (const owned of this.#files.values()) {
      const { path, file } = owned;
      await file.close().catch(() => {});
      await this.#disk.rename(path, join(path, '..', ownerlessName(owned))).catch(() => {});
    }
  }

  async #openCurrent(): Promise<OwnedFile> {
    // Not a disk failure.
    if (this.#database_id() === undefined) throw new SpoolError(NEVER_REACHED);
    try {
      while (this.#current === undefined || this.#current.database_id !== this.#database_id()) {
        this.#opening ??= this.#open().finally(() => {
          this.#opening = undefined;
        });
        await this.#opening;
      }
    } catch (error) {
      throw this.#recordFailure(error);
    }
    this.#current.requests++;
    return this.#current;
  }

  async #open(): Promise<void> {
    const directory = this.#spool_dir();
    const database_id = this.#database_id();
    if (directory === undefined) throw new SpoolError('no directory is configured for it');
    if (database_id === undefined) throw new SpoolError(NEVER_REACHED);
    await this.#disk.mkdir(directory, { recursive: true, mode: 0o700 });
    const named = { id: crypto.randomUUID(), database_id };
    const path = join(directory, this.#names.own(named));
    this.#current = { ...named, path, file: await createSpoolFile(this.#disk, path), requests: 0 };
    this.#files.set(named.id, this.#current);
  }

  async #adopt(directory: string, name: string, adopt: Adopt): Promise<void> {
    const path = join(directory, name);
    const orphan = await this.#names.orphan(this.#disk, name, path);
    if (orphan === undefined || this.#files.has(orphan.id)) return;
    const { id, database_id } = orphan;
    const own_database = this.#database_id();
    if (own_database === undefined) return;
    if (database_id !== own_database) {
      const fields = { database_id: own_database, of_database_id: database_id };
      return this.#logOnce(name, fields, 'a spool file belongs to another database; it is not read');
    }
    const named = { id, database_id };
    const own = join(directory, this.#names.own(named));
    await this.#disk.rename(path, own);
    await this.#read(named, own, adopt).catch(async (error) => {
      await this.#disk.rename(own, join(directory, ownerlessName(named)));
      throw error;
    });
  }

  async #read(named: SpoolFileId, path: string, adopt: Adopt): Promise<void> {
    const found: Found[] = [];
    const broken: Buffer[] = [];
    const file = await readSpoolFile(this.#disk, path, ({ span, line, record }) => {
      if (record === undefined) broken.push(line);
      else found.push({ what: record.what, request_id: requestOf(record), span });
    });
    const owned: OwnedFile = { ...named, path, file, requests: 1 };
    try {
      if (broken.length > 0) await this.setAside(owned, broken.join('\n'), { lines: broken.length });
    } catch (error) {
      await file.close();
      throw error;
    }
    this.#files.set(owned.id, owned);
    const requests = adopt(owned, found);
    owned.requests += requests;
    this.#log.warn({ requests }, 'took over the spool of a gateway that ended');
    await this.vacate(owned);
  }

  #logOnce(name: string, fields: object, message: string): void {
    if (this.#logged.has(name)) return;
    this.#logged.add(name);
    this.#log.warn({ spool_dir: this.#spool_dir(), name, ...fields }, message);
  }

  #recordFailure(error: unknown): unknown {
    if (!this.#is_failing)
      this.#log.error({ spool_dir: this.#spool_dir(), err: error }, 'the spool cannot be written to');
    this.#is_failing = true;
    return error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'no space is left on its disk',
  EDQUOT: 'no space is left on its disk',
  EACCES: 'its directory is not writable',
  EPERM: 'its directory is not writable',
  EROFS: 'its disk is read-only',
  ENOTDIR: 'its directory is a file',
  EEXIST: 'its directory is a file',
};

/** Converts a disk error into a SpoolError without a path. */
export function asSpoolError(error: unknown): SpoolError {
  if (error instanceof SpoolError) return error;
  const { code = 'unknown' } = error as NodeJS.ErrnoException;
  return new SpoolError(REASONS[code] ?? `error ${code}`, { cause: error });
}
