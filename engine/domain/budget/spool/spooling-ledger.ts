import { StageError } from '../../../base/contract/errors.ts';
import type {
  ChargedAttempt,
  CounterName,
  Ledger,
  LedgerIdentity,
  Provenance,
  Reservation,
  ReservationDecision,
  ReservationRequest,
  Settlement,
} from '../../../base/contract/services.ts';
import { type Every, everyInBackground } from '../../../base/kit/clock.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import {
  asSpoolError,
  type Found,
  type OwnedFile,
  type Span,
  SpoolError,
  type Spooled,
  type SpooledRequest,
  SpoolFiles,
  type SpoolFilesOptions,
  type SpoolRecord,
} from '../../../base/store/spool-files.ts';
import { createStoreBreaker, type StoreBreaker } from '../../../base/store/store-breaker.ts';
import { isPermanent, isUnavailable } from '../../../base/store/store-errors.ts';
import type { DatabaseLedger } from '../ledger/ledger.ts';
import type { LateSettlement } from '../ledger/ledger-statements.ts';
import { BookedReservation, type Books, ledgerIdentity, MOVED } from '../ledger/reservation.ts';
import { alwaysCounted } from '../limits/spend-limits.ts';
import { NO_TOKENS } from '../prices/prices.ts';

export type LedgerOfRows = Ledger & Pick<DatabaseLedger, 'settleAt' | 'databaseId' | 'keep' | 'forget'>;

const DRAIN_MS = 1000;
const ADOPTION_MS = 10_000;
/** The first drain precedes the recovery of reservations of ended processes. */
const FIRST_ADOPTION_MS = 10;
const CLOSE_TIMEOUT_MS = 2000;

export interface SpoolingLedgerOptions extends Omit<SpoolOptions, 'database_id'> {
  readonly ledger: LedgerOfRows;
  /** Whether some limits allow requests during a database outage; then the disk is probed at the start. */
  readonly needed?: () => boolean;
  readonly every?: Every;
  readonly writeRecords?: WriteRecords;
}

/**
 * A ledger with a spool in front of it. During a database outage it admits requests without a reservation if their limits allow it.
 * For such a request `reserve` raises store_unavailable only if the disk fails, too.
 */
export class SpoolingLedger implements Ledger {
  readonly #options: SpoolingLedgerOptions;
  readonly #spool: Spool;
  readonly #breaker: StoreBreaker;
  readonly #stopDraining: () => void;
  #stopAdopting: () => void;
  #database_id: string | undefined;
  #drain_is_due = false;
  #admitted_unreserved = 0;
  #written_at: number;
  #learning: Promise<string> | undefined;
  #draining: Promise<void> | undefined;
  #adopting: Promise<void> | undefined;

  constructor(options: SpoolingLedgerOptions) {
    this.#options = options;
    this.#written_at = options.clock.monotonic();
    this.#spool = new Spool({ ...options, database_id: () => this.#database_id });
    this.#breaker = createStoreBreaker({
      clock: options.clock,
      onRecovered: () => void this.drain(),
      probe: () => options.ledger.databaseId(),
    });
    const { every = everyInBackground } = options;
    this.#stopDraining = every(DRAIN_MS, () => (this.#drain_is_due ? this.drain() : this.adoptOrphans()));
    this.#stopAdopting = every(FIRST_ADOPTION_MS, () => {
      this.#stopAdopting();
      this.#stopAdopting = every(ADOPTION_MS, () => this.adoptOrphans());
      void this.#begin();
    });
  }

  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    const admits_outage = request.on_store_error === 'allow';
    try {
      return await this.#breaker.run(() => this.#options.ledger.reserve(request), !admits_outage);
    } catch (error) {
      if (admits_outage && isUnavailable(error)) return this.#admitUnreserved(request);
      throw error;
    }
  }

  unreserved(identity: LedgerIdentity): Reservation {
    return this.#options.ledger.unreserved(identity);
  }

  typicalCost(...about: Parameters<Ledger['typicalCost']>): ReturnType<Ledger['typicalCost']> {
    return this.#options.ledger.typicalCost(...about);
  }

  statuses(demands: Parameters<Ledger['statuses']>[0]): ReturnType<Ledger['statuses']> {
    return this.#options.ledger.statuses(demands);
  }

  get depth() {
    const { due: requests, records, bytes, max_bytes } = this.#spool;
    const lag_ms = requests === 0 ? 0 : this.#options.clock.monotonic() - this.#written_at;
    return { requests, lag_ms, records, bytes, max_bytes };
  }

  get has_records(): boolean {
    return this.#spool.hasRecords(this.#database_id);
  }

  /** Spools audit records, in order. Raises SpoolError and errors of the disk. */
  keepRecords(texts: readonly string[]): Promise<void> {
    return this.#spool.keepRecords(texts);
  }

  probe(): Promise<boolean> {
    return this.#spool.probe();
  }

  /** Drains the spool into the ledger, as far as possible now. Called by a timer. Never rejects. */
  async drain(): Promise<void> {
    if (this.#spool.due === 0) this.#written_at = this.#options.clock.monotonic();
    if (this.#spool.due + this.#spool.records === 0) return;
    this.#draining ??= this.#drainNow().finally(() => {
      this.#draining = undefined;
    });
    await this.#draining;
  }

  adoptOrphans(): Promise<void> {
    this.#adopting ??= this.#adoptNow().finally(() => {
      this.#adopting = undefined;
    });
    return this.#adopting;
  }

  /** Drains for at most 2 seconds; the rest stays on disk. Leaves the wrapped ledger open. */
  async close(): Promise<void> {
    this.#stopDraining();
    this.#stopAdopting();
    if (!this.#breaker.broken) await waitAtMost(CLOSE_TIMEOUT_MS, this.drain());
    const waiting = await this.#spool.close();
    if (waiting > 0) this.#options.log.warn({ waiting }, 'spooled requests or audit records wait for the next start');
  }

  async #begin(): Promise<void> {
    await this.adoptOrphans();
    if (this.#options.needed?.() && this.#database_id !== undefined) void this.#spool.probe();
  }

  #drainSoon(): void {
    if (!this.#breaker.broken) void this.drain();
  }

  async #drainNow(): Promise<void> {
    try {
      const database_id = await this.#learnDatabase();
      const { requests, records } = this.#spool.waitingFor(database_id);
      if (requests > 0) {
        await this.#spool.drain(this.#writeRow);
        this.#options.log.info({ requests }, 'wrote spooled requests to the ledger');
      }
      this.#admitted_unreserved = 0;
      await this.#spool.drainRecords(this.#options.writeRecords ?? nobodyWrites, database_id);
      if (records > 0) this.#options.log.info({ records }, 'wrote spooled audit records to the audit log');
    } catch (error) {
      const waiting = { requests: this.#spool.due, records: this.#spool.records };
      this.#options.log.debug({ err: error, ...waiting }, 'the spool waits for the database');
    }
  }

  readonly #writeRow: WriteRow = async (settlement, ...row) => {
    await this.#options.ledger.settleAt(settlement, ...row);
    this.#written_at = this.#options.clock.monotonic();
    this.#breaker.recover();
    this.#options.ledger.forget(settlement.request_id);
  };

  readonly #spooled: Books = {
    topUp() {},
    move: async (request, held) => {
      try {
        await this.#spool.move(request, held);
      } catch (error) {
        throw spoolUnavailable(error);
      }
      return MOVED;
    },
    settle: async (settlement) => {
      await this.#spool.settle(settlement);
      this.#drainSoon();
    },
    release: async (request_id) => {
      await this.#spool.release(request_id);
      this.#options.ledger.forget(request_id);
    },
  };

  async #adoptNow(): Promise<void> {
    await this.#learnDatabase().catch((error) =>
      this.#options.log.debug({ err: error }, 'cannot read the id of the database'),
    );
    await this.#spool.adoptOrphans();
    this.#drainSoon();
  }

  /** Read repeatedly: the database may be replaced by another. */
  async #learnDatabase(): Promise<string> {
    this.#learning ??= this.#options.ledger.databaseId().finally(() => {
      this.#learning = undefined;
    });
    const database_id = await this.#learning;
    this.#drain_is_due = true;
    const before = this.#database_id;
    if (before !== undefined && before !== database_id) {
      const fields = { database_id, of_database_id: before, ...this.#spool.waitingFor(before) };
      this.#options.log.warn(
        fields,
        'the database was replaced by another; spooled entries of the former one wait for it',
      );
    }
    this.#database_id = database_id;
    return database_id;
  }

  async #admitUnreserved(request: ReservationRequest): Promise<ReservationDecision> {
    const { request_id } = request;
    this.#options.ledger.keep(request_id);
    try {
      await this.#spool.forward(request);
    } catch (error) {
      this.#options.ledger.forget(request_id);
      throw spoolUnavailable(error);
    }
    if (this.#admitted_unreserved++ === 0)
      this.#options.log.warn(
        {},
        'the database is unavailable; requests are forwarded without a reservation where limits allow it',
      );
    const reservation = new BookedReservation(this.#spooled, request, true);
    return { reservation, exceeded: [], shadows: [], statuses: [], unreserved: true };
  }
}

function spoolUnavailable(error: unknown): StageError {
  const reason = error instanceof Error ? error.message : String(error);
  const message = `The gateway can use neither its database nor its spool (the disk buffer for outages): ${reason}. Try again shortly; if the error persists, tell an administrator.`;
  return new StageError('store_unavailable', message, { cause: error });
}

/** Without a writer, records of other processes stay. */
async function nobodyWrites(): Promise<never> {
  throw new Error('this process writes no audit records');
}

const MIB = 1_048_576;
const DEFAULT_MAX_BYTES = 256 * MIB;
const WRITERS = 1000;
const MAX_RECORDS = 500;

/** Writes a row to the ledger, like `settleAt`. */
export type WriteRow = (...row: Parameters<DatabaseLedger['settleAt']>) => Promise<unknown>;

type Row = Omit<LateSettlement, 'database_id'>;

/** Writes audit records to their database, oldest first. Idempotent per record. */
export type WriteRecords = (texts: readonly string[], database_id: string) => Promise<unknown>;

interface Entry {
  readonly request_id: string;
  readonly owned: OwnedFile;
  forwarded: Span | undefined;
  settled: Span | undefined;
  unwritten: Extract<SpoolRecord, { what: 'settled' }> | undefined;
}

export interface SpoolOptions extends SpoolFilesOptions {
  /** Capacity; beyond it requests are rejected. Default: 256 MiB. */
  readonly max_bytes?: number;
}

/**
 * Write-ahead files for a database outage: requests forwarded without a reservation, until their rows are in the ledger, and audit
 * records. A file is removed when all its entries are written.
 */
export class Spool {
  readonly #files: SpoolFiles;
  readonly #options: SpoolOptions;
  readonly #entries = new Map<string, Entry>();
  /** Ended requests that are not in the ledger yet, and audit records, in order; never written to another database. */
  readonly #due = new Set<Entry>();
  readonly #records = new Set<Spooled>();
  #is_full = false;
  #draining: Promise<void> | undefined;

  constructor(options: SpoolOptions) {
    this.#files = new SpoolFiles(options);
    this.#options = options;
  }

  has(request_id: string): boolean {
    return this.#entries.has(request_id);
  }

  get bytes(): number {
    return this.#files.bytes;
  }

  get max_bytes(): number {
    return this.#options.max_bytes ?? DEFAULT_MAX_BYTES;
  }

  get due(): number {
    return this.#due.size;
  }

  get records(): number {
    return this.#records.size;
  }

  hasRecords(database_id: string | undefined): boolean {
    for (const { owned } of this.#records) if (owned.database_id === database_id) return true;
    return false;
  }

  waitingFor(database_id: string): { readonly requests: number; readonly records: number } {
    return { requests: countOf(this.#due, database_id), records: countOf(this.#records, database_id) };
  }

  /** Stores audit records; durable when it resolves. All or none. Raises SpoolError and errors of the disk. */
  async keepRecords(texts: readonly string[]): Promise<void> {
    this.#assertCapacity();
    // One fsync for all.
    const put = await Promise.allSettled(texts.map((text) => this.#files.put({ what: 'audit', request_id: '', text })));
    const spooled = put.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const failed = put.find((each) => each.status === 'rejected');
    if (failed !== undefined) {
      for (const { owned } of spooled) await this.#files.vacate(owned);
      throw failed.reason;
    }
    for (const each of spooled) this.#records.add(each);
  }

  /** Writes all audit records of a database. Raises the errors of `write`; the rest stays for the next run. */
  async drainRecords(write: WriteRecords, database_id: string): Promise<void> {
    for (;;) {
      const batch: Spooled[] = [];
      for (const kept of this.#records)
        if (kept.owned.database_id === database_id && batch.push(kept) === MAX_RECORDS) break;
      if (batch.length === 0) return;
      await write(await Promise.all(batch.map(readRecord)), database_id);
      // Without marks: if the removal of the file is lost, they are written again, which changes nothing.
      for (const kept of batch) {
        this.#records.delete(kept);
        await this.#files.vacate(kept.owned);
      }
    }
  }

  /** Records that a request is forwarded; durable when it resolves. Raises SpoolError: the request must not be forwarded. */
  async forward(request: ReservationRequest): Promise<void> {
    this.#assertCapacity();
    const { request_id } = request;
    const record = { what: 'forwarded', at_ms: this.#options.clock.now(), request: spooledRequest(request) } as const;
    try {
      const { owned, span: forwarded } = await this.#files.put(record);
      this.#entries.set(request_id, { request_id, owned, forwarded, settled: undefined, unwritten: undefined });
    } catch (error) {
      throw asSpoolError(error);
    }
  }

  /** Records that a request moves to another upstream; durable when it resolves. Raises SpoolError. */
  async move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<void> {
    const entry = this.#entries.get(request.request_id);
    if (entry?.forwarded === undefined) return;
    this.#assertCapacity();
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

  /** Records the settlement of a request; durable when it resolves, or in memory if the disk fails. */
  async settle(settlement: Settlement): Promise<void> {
    const entry = this.#entries.get(settlement.request_id);
    if (entry === undefined || this.#due.has(entry) || entry.unwritten !== undefined) return;
    entry.unwritten = { what: 'settled', at_ms: this.#options.clock.now(), settlement };
    await this.#persist(entry);
    // Only now: a row in the ledger releases its file.
    this.#due.add(entry);
  }

  async release(request_id: string): Promise<void> {
    const entry = this.#entries.get(request_id);
    if (entry !== undefined && !this.#due.has(entry)) await this.#finish(entry, false);
  }

  /**
   * Writes the rows of all ended requests of the current database, several at a time. A row that the ledger rejects for good is set
   * aside. Raises transient errors of `write`; the rest stays for the next run.
   */
  drain(write: WriteRow): Promise<void> {
    this.#draining ??= this.#drainAll(write).finally(() => {
      this.#draining = undefined;
    });
    return this.#draining;
  }

  /**
   * Probes the disk, so that a failure is logged before a request depends on it. Returns whether it accepts requests; never rejects.
   */
  async probe(): Promise<boolean> {
    try {
      this.#assertCapacity();
      const { owned } = await this.#files.put({ what: 'done', request_id: '' });
      await this.#files.vacate(owned);
      return true;
    } catch {
      return false;
    }
  }

  /** Takes over the files of ended processes, and marks this process as alive. Never rejects. */
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
   * Leaves its files to the next process, and returns the numbers of requests and records in them. Requests in flight become
   * estimates. Never rejects.
   */
  async close(): Promise<number> {
    await this.#draining?.catch(() => {});
    await this.#files.close();
    return this.#entries.size + this.records;
  }

  #assertCapacity(): void {
    const { bytes, max_bytes } = this;
    const { spool_dir, log } = this.#options;
    const was_full = this.#is_full;
    this.#is_full = bytes >= max_bytes;
    if (!this.#is_full) return;
    if (!was_full)
      log.error(
        { spool_dir: spool_dir(), bytes },
        'the spool is full; requests are rejected until the database is available',
      );
    throw new SpoolError(`the spool is full (${Math.ceil(max_bytes / MIB)} MiB)`);
  }

  /** The last request of a file needs no `done` record: if the file is not removed, it is written twice, which is harmless. */
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
      // It waits in memory; the failure is logged.
    }
  }

  async #drainAll(write: WriteRow): Promise<void> {
    const database_id = this.#options.database_id();
    if (database_id === undefined) return;
    // Shared by all writers: a copy may have hundreds of thousands of entries.
    const due = this.#due.values();
    let failure: unknown;
    const work = async (most: number) => {
      let done = 0;
      for (const entry of due) {
        if (entry.owned.database_id !== database_id) continue;
        const problem = await this.#drainOne(entry, write);
        failure ??= problem;
        if (failure !== undefined || ++done === most) return;
      }
    };
    // The first one finds out whether the ledger is available.
    await work(1);
    if (failure === undefined) await Promise.all(Array.from({ length: WRITERS }, () => work(Number.POSITIVE_INFINITY)));
    if (failure === undefined) return;
    for (const entry of this.#entries.values()) if (this.#due.has(entry)) await this.#persist(entry);
    throw failure;
  }

  /** Returns the transient error that keeps the row out of the ledger, if any. */
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

function countOf(items: ReadonlySet<Pick<Spooled, 'owned'>>, database_id: string): number {
  let count = 0;
  for (const { owned } of items) if (owned.database_id === database_id) count++;
  return count;
}

async function readRow({ owned: { file }, unwritten, settled, forwarded }: Entry): Promise<Row> {
  const end = unwritten ?? (settled && (await file.read(settled)));
  return rowOf(forwarded && (await file.read(forwarded)), end);
}

async function readRecord({ owned: { file }, span }: Spooled): Promise<string> {
  const record = await file.read(span);
  if (record.what !== 'audit') throw new Error('not an audit record of the spool');
  return record.text;
}

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

const ESTIMATED: Readonly<Record<string, Provenance>> = Object.fromEntries(
  [...Object.keys(NO_TOKENS), 'cost'].map((number) => [number, 'estimate' as const]),
);

/** The parts of a reservation that its ledger row needs. Rate windows are over before the row is written. */
function spooledRequest(request: ReservationRequest): SpooledRequest {
  const counters = new Map<string, CounterName>();
  for (const { scope, key, window, unit } of request.demands) {
    if (unit === 'nano_usd') counters.set(`${scope} ${window} ${key}`, { scope, key, window, unit });
  }
  const { most_nano_usd } = request;
  return { ...ledgerIdentity(request), most_nano_usd, counters: [...counters.values()] };
}

/** A spooled request that moves to another upstream; earlier attempts keep their counters. */
function movedRequest(
  before: SpooledRequest,
  request: ReservationRequest,
  held: readonly ChargedAttempt[],
): SpooledRequest {
  const moved = spooledRequest(request);
  if (held.length === 0) return moved;
  const known = (n: number) => before.held?.find((attempt) => attempt.n === n);
  const place = (attempt: ChargedAttempt) =>
    attempt.cost_nano_usd === 0 ? attempt : { ...attempt, counters: before.counters };
  return { ...moved, held: held.map((attempt) => known(attempt.n) ?? place(attempt)) };
}

/**
 * The row of a request with a known beginning, end, or both. Without an end its cost is estimated at the maximum. Without a beginning
 * (only in a damaged file) it counts on the counters that always count.
 */
function rowOf(forwarded: SpoolRecord | undefined, settled: SpoolRecord | undefined): Row {
  const begun = forwarded?.what === 'forwarded' ? forwarded : undefined;
  if (settled?.what === 'settled') {
    const { settlement, at_ms } = settled;
    const { held } = begun?.request ?? {};
    const attempts =
      held && settlement.attempts?.map((attempt) => ({ ...attempt, counters: countersIn(held, attempt) }));
    return {
      settlement: { ...settlement, ...(attempts && { attempts }), reserved: false },
      counters: begun?.request.counters ?? alwaysCounted(settlement),
      at_ms: begun?.at_ms ?? at_ms,
    };
  }
  if (begun === undefined) throw new Error('a spooled request has neither beginning nor end');
  const { most_nano_usd, counters, held = [], ...identity } = begun.request;
  const possible = held.reduce((sum, { possibly_billed_nano_usd = 0 }) => sum + possibly_billed_nano_usd, 0);
  const settlement: Settlement = {
    ...identity,
    status: null,
    aborted: true,
    tokens: NO_TOKENS,
    cost_nano_usd: held.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, most_nano_usd),
    provenance: ESTIMATED,
    ...(possible > 0 && { possibly_billed_nano_usd: possible }),
    ...(held.length > 0 && { attempts: [...held, unheardOf(begun.request, held.at(-1)!.n + 1)] }),
    reserved: false,
  };
  return { settlement, counters, at_ms: begun.at_ms };
}

function countersIn(
  held: NonNullable<SpooledRequest['held']>,
  { n }: ChargedAttempt,
): readonly CounterName[] | undefined {
  return held.find((attempt) => attempt.n === n)?.counters;
}

function unheardOf({ upstream, upstream_model, most_nano_usd }: SpooledRequest, n: number): ChargedAttempt {
  const what = {
    certainty: 'possibly_accepted',
    status: null,
    outcome: 'unanswered',
    reason: 'gone',
    sends: 1,
  } as const;
  return { n, upstream, upstream_model, ...what, ms: 0, cost_nano_usd: most_nano_usd, provenance: 'estimate' };
}
