import * as file_system from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Log } from '../../contract/services.ts';
import { type GatewayProcess, ownProcess } from '../../kit/process/gateway-process.ts';
import {
  createSpoolFile,
  type Disk,
  readSpoolFile,
  requestOf,
  type Span,
  type SpoolFile,
  type SpoolRecord,
} from './spool-file.ts';
import { ownerlessName, type SpoolFileId, SpoolNames } from './spool-names.ts';

/** A file of this process. */
export interface OwnedFile extends SpoolFileId {
  readonly path: string;
  readonly file: SpoolFile;
  requests: number;
}

/** A record in a file of this process. */
export interface Spooled {
  readonly owned: OwnedFile;
  readonly span: Span;
}

/** What waits in spool files, oldest first, by the database it belongs to: nothing is ever written to another. */
export class ByDatabase<Item extends { readonly owned: OwnedFile }> {
  readonly #waiting = new Map<string, Set<Item>>();

  /** How many wait, for any database. */
  get size(): number {
    let size = 0;
    for (const items of this.#waiting.values()) size += items.size;
    return size;
  }

  sizeOf(database_id: string | undefined): number {
    return database_id === undefined ? 0 : this.of(database_id).size;
  }

  /** What waits for a database. Going through it sees what is added and leaves out what is deleted meanwhile. */
  of(database_id: string): ReadonlySet<Item> {
    return this.#itemsOf(database_id);
  }

  has(item: Item): boolean {
    return this.#itemsOf(item.owned.database_id).has(item);
  }

  add(item: Item): void {
    this.#itemsOf(item.owned.database_id).add(item);
  }

  delete(item: Item): void {
    this.#itemsOf(item.owned.database_id).delete(item);
  }

  #itemsOf(database_id: string): Set<Item> {
    const known = this.#waiting.get(database_id);
    if (known !== undefined) return known;
    const items = new Set<Item>();
    this.#waiting.set(database_id, items);
    return items;
  }
}

/** A whole line of a file that was taken over. */
export interface Found {
  readonly what: SpoolRecord['what'];
  readonly request_id: string;
  readonly span: Span;
}

/** Takes the lines of a file that was taken over, and says how many requests in them count. */
export type Adopt = (owned: OwnedFile, lines: readonly Found[]) => number;

/** The spool can't take a request; the message says why, without naming a path. */
export class SpoolError extends Error {
  override name = 'SpoolError';
}

/** Whose rows would be in a file is only known by the database. */
const NEVER_REACHED = 'the database was not reached since the start';

/** What the files of a spool depend on. */
export interface SpoolFilesOptions {
  /** Absolute; asked each time, because a reload can change it. `undefined`: nothing can be spooled. */
  readonly spool_dir: () => string | undefined;
  /** The database that new files are for; `undefined` before it was reached: nothing can be spooled, nor taken over. */
  readonly database_id: () => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly process?: GatewayProcess;
  readonly disk?: Disk;
}

/** The spool files of a process: new ones while it needs them, and those it took over. Touches no disk before it is used. */
export class SpoolFiles {
  readonly #spool_dir: SpoolFilesOptions['spool_dir'];
  readonly #database_id: SpoolFilesOptions['database_id'];
  readonly #log: Log;
  readonly #disk: Disk;
  readonly #names: SpoolNames;
  readonly #files = new Map<string, OwnedFile>();
  readonly #appending = new Set<Promise<Span>>();
  /** Files that the log has named: of other databases, and those that can't be taken over. */
  readonly #told = new Set<string>();
  #current: OwnedFile | undefined;
  #opening: Promise<void> | undefined;
  #in_trouble = false;
  #touched_ms = 0;

  constructor({ spool_dir, database_id, clock, log, process = ownProcess(), disk = file_system }: SpoolFilesOptions) {
    this.#spool_dir = spool_dir;
    this.#database_id = database_id;
    this.#log = log;
    this.#disk = disk;
    this.#names = new SpoolNames(process, clock);
  }

  /** Size of all of them. */
  get bytes(): number {
    let bytes = 0;
    for (const { file } of this.#files.values()) bytes += file.bytes;
    return bytes;
  }

  /** Writes the first record of a request, which its file then counts. Durable when it resolves. Raises SpoolError, or what the disk raises. */
  async put(record: SpoolRecord): Promise<Spooled> {
    const owned = await this.#occupy();
    try {
      return { owned, span: await this.append(owned, record) };
    } catch (error) {
      await this.vacate(owned);
      throw error;
    }
  }

  /** Counts a request of a file no longer; a file without requests is removed. Never rejects. */
  async vacate(owned: OwnedFile): Promise<void> {
    if (--owned.requests > 0) return;
    this.#files.delete(owned.id);
    if (this.#current === owned) this.#current = undefined;
    try {
      await this.#disk.unlink(owned.path);
    } catch (error) {
      // All in it is in the ledger, where writing it once more changes nothing.
      this.#log.debug({ path: owned.path, err: error }, 'a spool file that is done cannot be removed');
    }
    await owned.file.close().catch(() => {});
  }

  /** Durable when it resolves. Raises what the disk raises, after logging it once per trouble. */
  async append({ file }: OwnedFile, record: SpoolRecord): Promise<Span> {
    const appended = file.append(record);
    this.#appending.add(appended);
    try {
      const span = await appended;
      if (this.#in_trouble) this.#log.info({ spool_dir: this.#spool_dir() }, 'the spool can be written to again');
      this.#in_trouble = false;
      return span;
    } catch (error) {
      throw this.#noteTrouble(error);
    } finally {
      this.#appending.delete(appended);
    }
  }

  /** Puts text that the ledger can't use into a file beside, and says so in the log. Raises what the disk raises. */
  async setAside({ id, path }: OwnedFile, text: string, why: object): Promise<void> {
    const aside = join(path, '..', `${id}.aside`);
    try {
      await this.#disk.appendFile(aside, `${text}\n`, { mode: 0o600, flush: true });
    } catch (error) {
      throw this.#noteTrouble(error);
    }
    this.#log.error({ path: aside, ...why }, 'a part of the spool cannot be put into the ledger; it is set aside');
  }

  /** Shows others that this process is alive. Never rejects. */
  async touch(): Promise<void> {
    // Never the same twice, however fast it is called or the clock is set back.
    this.#touched_ms = Math.max(Date.now(), this.#touched_ms + 1);
    for (const owned of this.#files.values()) {
      const now = new Date(this.#touched_ms);
      await this.#disk.utimes(owned.path, now, now).catch((error) => {
        // Another machine took this process for dead, and writes what is in the file. What comes needs a new one.
        if (isMissing(error) && this.#current === owned) this.#current = undefined;
      });
    }
  }

  /** Takes over the files of processes that are gone, as far as they are of this database. Never rejects. */
  async adoptOrphans(adopt: Adopt): Promise<void> {
    const directory = this.#spool_dir();
    try {
      if (directory === undefined || this.#database_id() === undefined) return;
      const found = await this.#disk.readdir(directory);
      this.#names.keepOnly(found);
      for (const name of this.#told) if (!found.includes(name)) this.#told.delete(name);
      for (const name of found) {
        await this.#takeOver(directory, name, adopt).catch((error) => {
          if (!isMissing(error)) this.#tellOnce(name, { err: error }, 'a spool cannot be taken over');
        });
      }
    } catch (error) {
      if (!isMissing(error))
        this.#log.debug({ spool_dir: directory, err: error }, 'the spool directory cannot be read');
    }
  }

  /** Leaves the files to whoever comes next. Never rejects. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#appending);
    this.#current = undefined;
    for (const owned of this.#files.values()) {
      const { path, file } = owned;
      await file.close().catch(() => {});
      await this.#disk.rename(path, join(path, '..', ownerlessName(owned))).catch(() => {});
    }
  }

  async #occupy(): Promise<OwnedFile> {
    // Nothing is wrong with the disk.
    if (this.#database_id() === undefined) throw new SpoolError(NEVER_REACHED);
    try {
      while (this.#current === undefined || this.#current.database_id !== this.#database_id()) {
        this.#opening ??= this.#open().finally(() => {
          this.#opening = undefined;
        });
        await this.#opening;
      }
    } catch (error) {
      throw this.#noteTrouble(error);
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

  async #takeOver(directory: string, name: string, adopt: Adopt): Promise<void> {
    const path = join(directory, name);
    const orphan = await this.#names.orphan(this.#disk, name, path);
    if (orphan === undefined || this.#files.has(orphan.id)) return;
    const { id, database_id } = orphan;
    const own_database = this.#database_id();
    if (own_database === undefined) return;
    if (database_id !== own_database) {
      const fields = { database_id: own_database, of_database_id: database_id };
      return this.#tellOnce(name, fields, 'a spool file of another database is left alone');
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

  #tellOnce(name: string, fields: object, message: string): void {
    if (this.#told.has(name)) return;
    this.#told.add(name);
    this.#log.warn({ spool_dir: this.#spool_dir(), name, ...fields }, message);
  }

  #noteTrouble(error: unknown): unknown {
    if (!this.#in_trouble)
      this.#log.error({ spool_dir: this.#spool_dir(), err: error }, 'the spool cannot be written to');
    this.#in_trouble = true;
    return error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'no space is left on its disk',
  EDQUOT: 'no space is left on its disk',
  EACCES: 'its directory may not be written to',
  EPERM: 'its directory may not be written to',
  EROFS: 'its disk is read-only',
  ENOTDIR: 'its directory is a file',
  EEXIST: 'its directory is a file',
};

/** What keeps a request out of the spool, as an error that names no path. */
export function asSpoolError(error: unknown): SpoolError {
  if (error instanceof SpoolError) return error;
  const { code = 'unknown' } = error as NodeJS.ErrnoException;
  return new SpoolError(REASONS[code] ?? `error ${code}`, { cause: error });
}
