import type { ChargedAttempt, ReservationRequest, Settlement } from '../../../base/contract/services.ts';
import type { Span, SpoolRecord } from '../../../base/store/spool/spool-file.ts';
import {
  asSpoolError,
  ByDatabase,
  type Found,
  type OwnedFile,
  SpoolError,
  type Spooled,
  SpoolFiles,
  type SpoolFilesOptions,
} from '../../../base/store/spool/spool-files.ts';
import { isPermanent } from '../../../base/store/store-errors.ts';
import { movedRequest, type Row, rowOf, spooledRequest, type WriteRow } from './spool-rows.ts';

const MIB = 1_048_576;
const DEFAULT_MAX_BYTES = 256 * MIB;
/** As many as make two whole batches in the ledger. */
const WRITERS = 1000;
const MAX_RECORDS = 500;

/** Writes some audit records to the database they belong to, oldest first, each at most once however often it is tried. */
export type WriteRecords = (texts: readonly string[], database_id: string) => Promise<unknown>;

interface Entry {
  readonly request_id: string;
  readonly owned: OwnedFile;
  forwarded: Span | undefined;
  settled: Span | undefined;
  /** What could not be written to the disk. */
  unwritten: Extract<SpoolRecord, { what: 'settled' }> | undefined;
}

/** What a spool depends on. */
export interface SpoolOptions extends SpoolFilesOptions {
  /** From this size on it takes no more requests; 256 MiB unless told. */
  readonly max_bytes?: number;
}

/**
 * Requests that went out without a reservation, on the disk until their rows are in the ledger, and audit records that wait
 * for the database. Files appear when these do, and are removed when all in them are done.
 */
export class Spool {
  readonly #files: SpoolFiles;
  readonly #options: SpoolOptions;
  readonly #entries = new Map<string, Entry>();
  /** Those that are over and not in the ledger yet. */
  readonly #due = new ByDatabase<Entry>();
  /** Audit records that wait for the database, in their order. */
  readonly #records = new ByDatabase<Spooled>();
  #is_full = false;
  #draining: Promise<void> | undefined;

  constructor(options: SpoolOptions) {
    this.#files = new SpoolFiles(options);
    this.#options = options;
  }

  has(request_id: string): boolean {
    return this.#entries.has(request_id);
  }

  /** Size on the disk. */
  get bytes(): number {
    return this.#files.bytes;
  }

  /** From which size on it takes no more requests. */
  get max_bytes(): number {
    return this.#options.max_bytes ?? DEFAULT_MAX_BYTES;
  }

  /** How many requests are over and not in the ledger yet. */
  get due(): number {
    return this.#due.size;
  }

  /** How many of them are of a database. */
  dueOf(database_id: string): number {
    return this.#due.sizeOf(database_id);
  }

  get records(): number {
    return this.#records.size;
  }

  /** How many of them are of a database. */
  recordsOf(database_id: string | undefined): number {
    return this.#records.sizeOf(database_id);
  }

  /** Keeps audit records, durable when it resolves. Raises SpoolError, and what the disk raises; then none of them is kept. */
  async keepRecords(texts: readonly string[]): Promise<void> {
    if (this.#options.spool_dir() === undefined) throw new SpoolError('no directory is configured for it');
    this.#assertRoom();
    // One synchronisation for all of them.
    const put = await Promise.allSettled(texts.map((text) => this.#files.put({ what: 'audit', request_id: '', text })));
    const spooled = put.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const failed = put.find((each) => each.status === 'rejected');
    if (failed !== undefined) {
      for (const { owned } of spooled) await this.#files.vacate(owned);
      throw failed.reason;
    }
    for (const each of spooled) this.#records.add(each);
  }

  /** Writes all audit records of a database. Raises what `write` raises; the rest stays for the next time. */
  async drainRecords(write: WriteRecords, database_id: string): Promise<void> {
    for (;;) {
      const batch: Spooled[] = [];
      for (const kept of this.#records.of(database_id)) if (batch.push(kept) === MAX_RECORDS) break;
      if (batch.length === 0) return;
      await write(await Promise.all(batch.map(readRecord)), database_id);
      // No marks: should the file outlast its removal, they are written once more, which changes nothing.
      for (const kept of batch) {
        this.#records.delete(kept);
        await this.#files.vacate(kept.owned);
      }
    }
  }

  /** Notes that a request goes out now; durable when it resolves. Raises SpoolError, and the request must not go out. */
  async forward(request: ReservationRequest): Promise<void> {
    this.#assertRoom();
    const { request_id } = request;
    const record = { what: 'forwarded', at_ms: this.#options.clock.now(), request: spooledRequest(request) } as const;
    try {
      const { owned, span: forwarded } = await this.#files.put(record);
      this.#entries.set(request_id, { request_id, owned, forwarded, settled: undefined, unwritten: undefined });
    } catch (error) {
      throw asSpoolError(error);
    }
  }

  /** Notes that a request goes to another upstream; durable when it resolves. Raises SpoolError. */
  async move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<void> {
    const entry = this.#entries.get(request.request_id);
    if (entry?.forwarded === undefined) return;
    this.#assertRoom();
    try {
      const { file } = entry.owned;
      const before = await file.read(entry.forwarded);
      if (before?.what !== 'forwarded') return;
      entry.forwarded = await this.#files.append(entry.owned, {
        ...before,
        request: movedRequest(before.request, request, held),
      });
    } catch (error) {
      throw asSpoolError(error);
    }
  }

  /** Notes what a request came to; durable when it resolves, unless the disk is in trouble: then kept in memory. */
  async settle(settlement: Settlement): Promise<void> {
    const entry = this.#entries.get(settlement.request_id);
    if (entry === undefined || this.#due.has(entry) || entry.unwritten !== undefined) return;
    entry.unwritten = { what: 'settled', at_ms: this.#options.clock.now(), settlement };
    await this.#persist(entry);
    // Only now: a row that is in the ledger lets go of the file.
    this.#due.add(entry);
  }

  /** Notes that a request did not go out after all. */
  async release(request_id: string): Promise<void> {
    const entry = this.#entries.get(request_id);
    if (entry !== undefined && !this.#due.has(entry)) await this.#finish(entry, false);
  }

  /**
   * Writes the rows of all requests of the database in use that are over, several at a time. A row that the ledger
   * refuses for good is set aside. Raises what `write` raises for trouble that passes; the rest stays for the next time.
   */
  drain(write: WriteRow): Promise<void> {
    this.#draining ??= this.#drainAll(write).finally(() => {
      this.#draining = undefined;
    });
    return this.#draining;
  }

  /**
   * Writes to the disk and takes it back, so that trouble with it is in the log before anybody depends on it. Says whether
   * it takes requests; never rejects.
   */
  async probe(): Promise<boolean> {
    try {
      this.#assertRoom();
      const { owned } = await this.#files.put({ what: 'done', request_id: '' });
      await this.#files.vacate(owned);
      return true;
    } catch {
      return false;
    }
  }

  /** Takes over the files of processes that are gone, and shows others that this one is alive. Never rejects. */
  async adoptOrphans(): Promise<void> {
    await this.#files.touch();
    await this.#files.adoptOrphans((owned, lines) => {
      const found = entriesOf(owned, lines);
      const audits = lines.filter(({ what }) => what === 'audit');
      for (const { span } of audits) this.#records.add({ owned, span });
      for (const entry of found) {
        this.#entries.set(entry.request_id, entry);
        this.#due.add(entry);
      }
      return found.length + audits.length;
    });
  }

  /**
   * Leaves its files to whoever comes next, and says how many requests and records are in them. What is not over by then is
   * recorded as an estimate. Never rejects.
   */
  async close(): Promise<number> {
    await this.#draining?.catch(() => {});
    await this.#files.close();
    return this.#entries.size + this.records;
  }

  #assertRoom(): void {
    const { bytes, max_bytes } = this;
    const { spool_dir, log } = this.#options;
    const was_full = this.#is_full;
    this.#is_full = bytes >= max_bytes;
    if (!this.#is_full) return;
    if (!was_full) log.error({ spool_dir: spool_dir(), bytes }, 'the spool is full; requests are refused');
    throw new SpoolError(`more than ${Math.ceil(max_bytes / MIB)} MiB wait in it`);
  }

  /** The last request of a file that is in the ledger needs no mark: should the file outlast its removal, it is only written once more. */
  async #finish(entry: Entry, is_written: boolean): Promise<void> {
    const { request_id, owned } = entry;
    this.#entries.delete(request_id);
    this.#due.delete(entry);
    if (owned.requests > 1 || !is_written)
      await this.#files.append(owned, { what: 'done', request_id }).catch(() => {});
    await this.#files.vacate(owned);
  }

  async #persist(entry: Entry): Promise<void> {
    if (entry.unwritten === undefined) return;
    try {
      entry.settled = await this.#files.append(entry.owned, entry.unwritten);
      entry.unwritten = undefined;
    } catch {
      // It waits in memory; the trouble is in the log.
    }
  }

  async #drainAll(write: WriteRow): Promise<void> {
    const database_id = this.#options.database_id();
    if (database_id === undefined) return;
    // Shared by all writers, and not a copy: there may be hundreds of thousands.
    const due = this.#due.of(database_id).values();
    let failure: unknown;
    const work = async (most: number) => {
      let done = 0;
      for (const entry of due) {
        const trouble = await this.#drainOne(entry, write);
        failure ??= trouble;
        if (failure !== undefined || ++done === most) return;
      }
    };
    // One finds out whether the ledger is there.
    await work(1);
    if (failure === undefined) await Promise.all(Array.from({ length: WRITERS }, () => work(Number.POSITIVE_INFINITY)));
    if (failure === undefined) return;
    for (const entry of this.#entries.values()) if (this.#due.has(entry)) await this.#persist(entry);
    throw failure;
  }

  /** Returns the trouble that keeps the row out of the ledger for now, if there is any. */
  async #drainOne(entry: Entry, write: WriteRow): Promise<unknown> {
    const { request_id, owned } = entry;
    let row: Row;
    try {
      row = await readRow(entry);
    } catch (error) {
      const { path } = owned;
      this.#options.log.error(
        { path, request_id, err: error },
        'a spooled request cannot be read; it stays in its file',
      );
      this.#due.delete(entry);
      return undefined;
    }
    try {
      await write(row.settlement, row.counters, row.at_ms, owned.database_id);
    } catch (error) {
      if (!isPermanent(error)) return error;
      try {
        await this.#files.setAside(owned, JSON.stringify(row), { err: error, request_id });
      } catch {
        return undefined;
      }
    }
    await this.#finish(entry, true);
    return undefined;
  }
}

async function readRow({ owned: { file }, unwritten, settled, forwarded }: Entry): Promise<Row> {
  const end = unwritten ?? (settled && (await file.read(settled)));
  return rowOf(forwarded && (await file.read(forwarded)), end);
}

async function readRecord({ owned: { file }, span }: Spooled): Promise<string> {
  const record = await file.read(span);
  if (record.what !== 'audit') throw new Error('a spooled audit record is something else by now');
  return record.text;
}

/** The requests in a file that are not done. */
function entriesOf(owned: OwnedFile, lines: readonly Found[]): Entry[] {
  const found = new Map<string, Entry>();
  const entryOf = (request_id: string): Entry => {
    let entry = found.get(request_id);
    if (entry === undefined) {
      entry = { request_id, owned, forwarded: undefined, settled: undefined, unwritten: undefined };
      found.set(request_id, entry);
    }
    return entry;
  };
  for (const { what, request_id, span } of lines) {
    if (what === 'done') found.delete(request_id);
    else if (what !== 'audit') entryOf(request_id)[what] = span;
  }
  return [...found.values()];
}
