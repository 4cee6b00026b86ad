import * as file_system from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Log } from '../../contract/services.ts';
import { type GatewayProcess, ownProcess } from '../../kit/process/gateway-process.ts';
import {
  createSpoolFile,
  type Disk,
  type Place,
  readSpoolFile,
  requestOf,
  type SpoolFile,
  type SpoolRecord,
} from './spool-file.ts';
import { createSpoolNames, ownerlessName, type SpoolFileId } from './spool-names.ts';

/** A file of this process. */
export interface OwnedFile extends SpoolFileId {
  readonly path: string;
  readonly file: SpoolFile;
  /** Of its requests those that are not done. */
  requests: number;
}

/** The spool files of a process: new ones while it needs them, and those it took over. */
export interface SpoolFiles {
  /** Size of all of them. */
  readonly bytes: number;
  /** The file for one more request, which it then counts. Raises SpoolError, or what the disk raises. */
  occupy(): Promise<OwnedFile>;
  /** Counts a request of a file no longer; a file without requests is removed. Never rejects. */
  vacate(owned: OwnedFile): Promise<void>;
  /** Durable when it resolves. Raises what the disk raises, after logging it once per trouble. */
  append(owned: OwnedFile, record: SpoolRecord): Promise<Place>;
  /** Puts text that the ledger can't use into a file beside, and says so in the log. Raises what the disk raises. */
  setAside(owned: OwnedFile, text: string, why: object): Promise<void>;
  /** Shows others that this process is alive. Never rejects. */
  touch(): Promise<void>;
  /**
   * Takes over the files of processes that are gone, as far as they are of this database; `adopt` gets their lines and says how
   * many requests count. Never rejects.
   */
  takeOver(adopt: (owned: OwnedFile, lines: readonly Found[]) => number): Promise<void>;
  /** Leaves the files to whoever comes next. Never rejects. */
  close(): Promise<void>;
}

/** A whole line of a file that was taken over. */
export interface Found {
  readonly what: SpoolRecord['what'];
  readonly request_id: string;
  readonly place: Place;
}

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

/** Prepares the files of a process; touches no disk before it is used. */
export function createSpoolFiles(options: SpoolFilesOptions): SpoolFiles {
  const { spool_dir, database_id, clock, log, process = ownProcess(), disk = file_system } = options;
  const names = createSpoolNames(process, clock);
  const files = new Map<string, OwnedFile>();
  const appending = new Set<Promise<Place>>();
  let current: OwnedFile | undefined;
  let opening: Promise<void> | undefined;
  let in_trouble = false;
  let touched_ms = 0;
  /** Files that the log has named: of other databases, and those that can't be taken over. */
  const told = new Set<string>();

  const noteTrouble = (error: unknown): unknown => {
    if (!in_trouble) log.error({ spool_dir: spool_dir(), err: error }, 'the spool cannot be written to');
    in_trouble = true;
    return error;
  };
  const noteSuccess = () => {
    if (in_trouble) log.info({ spool_dir: spool_dir() }, 'the spool can be written to again');
    in_trouble = false;
  };

  const open = async () => {
    const directory = spool_dir();
    const database = database_id();
    if (directory === undefined) throw new SpoolError('no directory is configured for it');
    if (database === undefined) throw new SpoolError(NEVER_REACHED);
    await disk.mkdir(directory, { recursive: true, mode: 0o700 });
    const named = { id: crypto.randomUUID(), database_id: database };
    const path = join(directory, names.own(named));
    current = { ...named, path, file: await createSpoolFile(disk, path), requests: 0 };
    files.set(named.id, current);
  };
  const vacate = async (owned: OwnedFile): Promise<void> => {
    if (--owned.requests > 0) return;
    files.delete(owned.id);
    if (current === owned) current = undefined;
    try {
      await disk.unlink(owned.path);
    } catch (error) {
      // All in it is in the ledger, where writing it once more changes nothing.
      log.debug({ path: owned.path, err: error }, 'a spool file that is done cannot be removed');
    }
    await owned.file.close().catch(() => {});
  };
  const setAside = async ({ id, path }: OwnedFile, text: string, why: object): Promise<void> => {
    const aside = join(path, '..', `${id}.aside`);
    try {
      await disk.appendFile(aside, `${text}\n`, { mode: 0o600, flush: true });
    } catch (error) {
      throw noteTrouble(error);
    }
    log.error({ path: aside, ...why }, 'a part of the spool cannot be put into the ledger; it is set aside');
  };

  const read = async (
    named: SpoolFileId,
    path: string,
    adopt: Parameters<SpoolFiles['takeOver']>[0],
  ): Promise<void> => {
    const found: Found[] = [];
    const broken: Buffer[] = [];
    const file = await readSpoolFile(disk, path, ({ place, line, record }) => {
      if (record === undefined) broken.push(line);
      else found.push({ what: record.what, request_id: requestOf(record), place });
    });
    const owned: OwnedFile = { ...named, path, file, requests: 1 };
    try {
      if (broken.length > 0) await setAside(owned, broken.join('\n'), { lines: broken.length });
    } catch (error) {
      await file.close();
      throw error;
    }
    files.set(owned.id, owned);
    const requests = adopt(owned, found);
    owned.requests += requests;
    log.warn({ requests }, 'took over the spool of a gateway that ended');
    await vacate(owned);
  };
  const takeOne = async (directory: string, name: string, adopt: Parameters<typeof read>[2]): Promise<void> => {
    const path = join(directory, name);
    const left = await names.abandoned(disk, name, path);
    if (left === undefined || files.has(left.id)) return;
    const database = database_id();
    if (database === undefined) return;
    const { id } = left;
    if (left.database_id !== database)
      return tellOnce(name, left.database_id, ownerlessName({ id, database_id: database }));
    const named = { id, database_id: database };
    const own = join(directory, names.own(named));
    await disk.rename(path, own);
    await read(named, own, adopt).catch(async (error) => {
      await disk.rename(own, join(directory, ownerlessName(named)));
      throw error;
    });
  };
  const tellOnce = (name: string, of: string | undefined, rename_to: string) => {
    if (told.has(name)) return;
    told.add(name);
    const fields = { spool_dir: spool_dir(), name, database_id: database_id() };
    if (of === undefined) {
      log.warn(
        { ...fields, rename_to },
        'a spool file of an earlier version names no database and is left alone; rename it if it belongs to this one',
      );
    } else log.warn({ ...fields, of_database_id: of }, 'a spool file of another database is left alone');
  };

  return {
    get bytes() {
      let bytes = 0;
      for (const { file } of files.values()) bytes += file.bytes;
      return bytes;
    },
    async occupy() {
      // Nothing is wrong with the disk.
      if (database_id() === undefined) throw new SpoolError(NEVER_REACHED);
      try {
        while (current === undefined || current.database_id !== database_id()) {
          opening ??= open().finally(() => {
            opening = undefined;
          });
          await opening;
        }
      } catch (error) {
        throw noteTrouble(error);
      }
      current.requests++;
      return current;
    },
    vacate,
    async append({ file }, record) {
      const appended = file.append(record);
      appending.add(appended);
      try {
        const place = await appended;
        noteSuccess();
        return place;
      } catch (error) {
        throw noteTrouble(error);
      } finally {
        appending.delete(appended);
      }
    },
    setAside,
    async touch() {
      // Never the same twice, however fast it is called or the clock is set back.
      touched_ms = Math.max(Date.now(), touched_ms + 1);
      for (const owned of files.values()) {
        const now = new Date(touched_ms);
        await disk.utimes(owned.path, now, now).catch((error) => {
          // Another machine took this process for dead. What is in the file is in good hands; what comes needs a new one.
          if (isMissing(error) && current === owned) current = undefined;
        });
      }
    },
    async takeOver(adopt) {
      const directory = spool_dir();
      try {
        if (directory === undefined || database_id() === undefined) return;
        const found = await disk.readdir(directory);
        names.keepOnly(found);
        for (const name of told) if (!found.includes(name)) told.delete(name);
        for (const name of found) {
          await takeOne(directory, name, adopt).catch((error) => {
            if (isMissing(error) || told.has(name)) return;
            told.add(name);
            log.warn({ spool_dir: directory, name, err: error }, 'a spool cannot be taken over');
          });
        }
      } catch (error) {
        if (!isMissing(error)) log.debug({ spool_dir: directory, err: error }, 'the spool directory cannot be read');
      }
    },
    async close() {
      await Promise.allSettled(appending);
      current = undefined;
      for (const owned of files.values()) {
        const { path, file } = owned;
        await file.close().catch(() => {});
        await disk.rename(path, join(path, '..', ownerlessName(owned))).catch(() => {});
      }
    },
  };
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
