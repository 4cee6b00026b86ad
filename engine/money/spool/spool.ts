import { createSpooledRecords, type SpooledRecords } from '../../audit/spooled-records.ts';
import type { ReservationRequest, Settlement } from '../../contract/services.ts';
import type { Place, SpoolRecord } from '../../store/spool/spool-file.ts';
import {
  asSpoolError,
  createSpoolFiles,
  type Found,
  type OwnedFile,
  SpoolError,
  type SpoolFilesOptions,
} from '../../store/spool/spool-files.ts';
import { isPermanent } from '../../store/store-errors.ts';
import { type Row, rowOf, spooledRequest, type WriteRow } from './spool-rows.ts';

/** Requests that went out without a reservation, on the disk until their rows are in the ledger. */
export interface Spool {
  /** Whether a request is in it. */
  has(request_id: string): boolean;
  /** How many requests are over and not in the ledger yet. */
  readonly due: number;
  /** How many of them are of a database. */
  dueOf(database_id: string): number;
  /** Notes that a request goes out now; durable when it resolves. Raises SpoolError, and the request must not go out. */
  forward(request: ReservationRequest): Promise<void>;
  /** Notes what a request came to; durable when it resolves, unless the disk is in trouble: then kept in memory. */
  settle(settlement: Settlement): Promise<void>;
  /** Notes that a request did not go out after all. */
  release(request_id: string): Promise<void>;
  /** Audit records that wait for the database. */
  readonly records: SpooledRecords;
  /**
   * Writes the rows of all requests of the database in use that are over, several at a time. A row that the ledger
   * refuses for good is set aside. Raises what `write` raises for trouble that passes; the rest stays for the next time.
   */
  drain(write: WriteRow): Promise<void>;
  /** Writes to the disk and takes it back, so that trouble with it is in the log before anybody depends on it. Says whether it takes requests; never rejects. */
  tryOut(): Promise<boolean>;
  /** Takes over the files of processes that are gone, and shows others that this one is alive. Never rejects. */
  lookAround(): Promise<void>;
  /**
   * Leaves its files to whoever comes next, and says how many requests and records are in them. What is not over by then is recorded
   * as an estimate. Never rejects.
   */
  close(): Promise<number>;
}

const MIB = 1_048_576;
const DEFAULT_MAX_BYTES = 256 * MIB;
/** As many as make two whole batches in the ledger. */
const WRITERS = 1000;

interface Entry {
  readonly owned: OwnedFile;
  forwarded: Place | undefined;
  settled: Place | undefined;
  /** What could not be written to the disk. */
  unwritten: Extract<SpoolRecord, { what: 'settled' }> | undefined;
  over: boolean;
}

/** Opens a spool. Files appear when requests do, and are removed when all in them are done. */
export function openSpool(
  options: SpoolFilesOptions & {
    /** From this size on it takes no more requests; 256 MiB unless told. */
    readonly max_bytes?: number;
  },
): Spool {
  const { spool_dir, database_id, clock, log, max_bytes = DEFAULT_MAX_BYTES } = options;
  const files = createSpoolFiles(options);
  const entries = new Map<string, Entry>();
  /** By database. */
  const due = new Map<string, number>();
  let is_full = false;
  let draining: Promise<void> | undefined;

  const assertRoom = () => {
    const { bytes } = files;
    const was_full = is_full;
    is_full = bytes >= max_bytes;
    if (!is_full) return;
    if (!was_full) log.error({ spool_dir: spool_dir(), bytes }, 'the spool is full; requests are refused');
    throw new SpoolError(`more than ${Math.ceil(max_bytes / MIB)} MiB wait in it`);
  };
  const records = createSpooledRecords(files, () => {
    if (spool_dir() === undefined) throw new SpoolError('no directory is configured for it');
    assertRoom();
  });
  const mark = (entry: Entry, over: boolean) => {
    const { database_id } = entry.owned;
    if (entry.over !== over) due.set(database_id, (due.get(database_id) ?? 0) + (over ? 1 : -1));
    entry.over = over;
  };
  /** The last request of a file that is in the ledger needs no mark: should the file outlast its removal, it is only written once more. */
  const finish = async (request_id: string, entry: Entry, is_written: boolean): Promise<void> => {
    const { owned } = entry;
    entries.delete(request_id);
    mark(entry, false);
    if (owned.requests > 1 || !is_written) await files.append(owned, { what: 'done', request_id }).catch(() => {});
    await files.vacate(owned);
  };
  const persist = async (entry: Entry): Promise<void> => {
    if (entry.unwritten === undefined) return;
    try {
      entry.settled = await files.append(entry.owned, entry.unwritten);
      entry.unwritten = undefined;
    } catch {
      // It waits in memory; the trouble is in the log.
    }
  };

  const readRow = async ({ owned: { file }, unwritten, settled, forwarded }: Entry): Promise<Row> => {
    const end = unwritten ?? (settled && (await file.read(settled)));
    return rowOf(forwarded && (await file.read(forwarded)), end);
  };
  /** Returns the trouble that keeps the row out of the ledger for now, if there is any. */
  const drainOne = async (request_id: string, entry: Entry, write: WriteRow): Promise<unknown> => {
    let row: Row;
    try {
      row = await readRow(entry);
    } catch (error) {
      const { path } = entry.owned;
      log.error({ path, request_id, err: error }, 'a spooled request cannot be read; it stays in its file');
      mark(entry, false);
      return undefined;
    }
    try {
      await write(row.settlement, row.counters, row.at_ms, entry.owned.database_id);
    } catch (error) {
      if (!isPermanent(error)) return error;
      try {
        await files.setAside(entry.owned, JSON.stringify(row), { err: error, request_id });
      } catch {
        return undefined;
      }
    }
    await finish(request_id, entry, true);
    return undefined;
  };
  const drainAll = async (write: WriteRow): Promise<void> => {
    const now = database_id();
    // Shared by all writers, and not a copy: there may be hundreds of thousands.
    const all = entries.entries();
    let failure: unknown;
    const work = async (most: number) => {
      let done = 0;
      for (const [request_id, entry] of all) {
        if (!entry.over || entry.owned.database_id !== now) continue;
        const trouble = await drainOne(request_id, entry, write);
        failure ??= trouble;
        if (failure !== undefined || ++done === most) return;
      }
    };
    // One finds out whether the ledger is there.
    await work(1);
    if (failure === undefined) await Promise.all(Array.from({ length: WRITERS }, () => work(Number.POSITIVE_INFINITY)));
    if (failure === undefined) return;
    for (const entry of entries.values()) if (entry.over && entry.unwritten !== undefined) await persist(entry);
    throw failure;
  };

  return {
    records,
    has: (request_id) => entries.has(request_id),
    get due() {
      let all = 0;
      for (const some of due.values()) all += some;
      return all;
    },
    dueOf: (database_id) => due.get(database_id) ?? 0,
    async forward(request) {
      assertRoom();
      let owned: OwnedFile | undefined;
      try {
        owned = await files.occupy();
        const record = { what: 'forwarded', at_ms: clock.now(), request: spooledRequest(request) } as const;
        const forwarded = await files.append(owned, record);
        entries.set(request.request_id, { owned, forwarded, settled: undefined, unwritten: undefined, over: false });
      } catch (error) {
        if (owned !== undefined) await files.vacate(owned);
        throw asSpoolError(error);
      }
    },
    async settle(settlement) {
      const entry = entries.get(settlement.request_id);
      if (entry === undefined || entry.over || entry.unwritten !== undefined) return;
      entry.unwritten = { what: 'settled', at_ms: clock.now(), settlement };
      await persist(entry);
      // Only now: a row that is in the ledger lets go of the file.
      mark(entry, true);
    },
    async release(request_id) {
      const entry = entries.get(request_id);
      if (entry !== undefined && !entry.over) await finish(request_id, entry, false);
    },
    drain(write) {
      draining ??= drainAll(write).finally(() => {
        draining = undefined;
      });
      return draining;
    },
    async tryOut() {
      let owned: OwnedFile | undefined;
      try {
        assertRoom();
        owned = await files.occupy();
        await files.append(owned, { what: 'done', request_id: '' });
        return true;
      } catch {
        return false;
      } finally {
        if (owned !== undefined) await files.vacate(owned);
      }
    },
    async lookAround() {
      await files.touch();
      await files.takeOver((owned, lines) => {
        const found = entriesOf(owned, lines);
        const audits = lines.filter(({ what }) => what === 'audit');
        for (const { place } of audits) records.adopt(owned, place);
        for (const [request_id, entry] of found) {
          entries.set(request_id, entry);
          mark(entry, true);
        }
        return found.size + audits.length;
      });
    },
    async close() {
      await draining?.catch(() => {});
      await files.close();
      return entries.size + records.count;
    },
  };
}

/** The requests in a file that are not done. */
function entriesOf(owned: OwnedFile, lines: readonly Found[]): Map<string, Entry> {
  const found = new Map<string, Entry>();
  const entryOf = (request_id: string): Entry => {
    const known = found.get(request_id);
    if (known !== undefined) return known;
    const entry = { owned, forwarded: undefined, settled: undefined, unwritten: undefined, over: false };
    found.set(request_id, entry);
    return entry;
  };
  for (const { what, request_id, place } of lines) {
    if (what === 'done') found.delete(request_id);
    else if (what !== 'audit') entryOf(request_id)[what] = place;
  }
  return found;
}
