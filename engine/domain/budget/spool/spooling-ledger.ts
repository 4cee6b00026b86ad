import { StageError } from '../../../base/contract/errors.ts';
import type {
  Clock,
  Ledger,
  LedgerIdentity,
  Log,
  Reservation,
  ReservationDecision,
  ReservationRequest,
} from '../../../base/contract/services.ts';
import { type Every, everyInBackground } from '../../../base/kit/clock.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import { createStoreBreaker, type StoreBreaker } from '../../../base/store/store-breaker.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';
import type { DatabaseLedger } from '../ledger/ledger.ts';
import { BookedReservation, type Books, MOVED } from '../ledger/reservation.ts';
import { Spool, type SpoolOptions, type WriteRecords, type WriteRow } from './spool.ts';

/** The ledger that it wraps. */
export type LedgerOfRows = Ledger & Pick<DatabaseLedger, 'settleAt' | 'databaseId' | 'keep' | 'forget'>;

const DRAIN_MS = 1000;
const ADOPTION_MS = 10_000;
/** The first drain precedes the recovery of reservations of ended processes. */
const FIRST_ADOPTION_MS = 10;
const CLOSE_TIMEOUT_MS = 2000;

/** Options of a spooling ledger. */
export interface SpoolingLedgerOptions extends Omit<SpoolOptions, 'database_id'> {
  readonly ledger: LedgerOfRows;
  /** Whether some limits allow requests during a database outage; then the disk is probed at the start. */
  readonly needed?: () => boolean;
  readonly every?: Every;
  /** Writes spooled audit records. Raises store_unavailable. */
  readonly writeRecords?: WriteRecords;
}

/**
 * A ledger with a spool in front of it. During a database outage it admits requests without a reservation if their limits allow it.
 * For such a request `reserve` raises store_unavailable only if the disk fails, too.
 */
export class SpoolingLedger implements Ledger {
  readonly #ledger: LedgerOfRows;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #needed: () => boolean;
  readonly #every: Every;
  readonly #writeRecords: WriteRecords;
  readonly #spool: Spool;
  readonly #breaker: StoreBreaker;
  readonly #stopDraining: () => void;
  #stopAdopting: () => void;
  #database_id: string | undefined;
  /** Whether the id of the database was read. */
  #drain_is_due = false;
  /** Requests admitted since the spool was last empty. */
  #let_out = 0;
  /** Monotonic time when a row was last drained, or the spool was empty. */
  #written_at: number;
  #learning: Promise<string> | undefined;
  #draining: Promise<void> | undefined;
  #adopting: Promise<void> | undefined;

  constructor(options: SpoolingLedgerOptions) {
    this.#ledger = options.ledger;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#needed = options.needed ?? (() => false);
    this.#every = options.every ?? everyInBackground;
    this.#writeRecords = options.writeRecords ?? nobodyWrites;
    this.#written_at = options.clock.monotonic();
    this.#spool = new Spool({ ...options, database_id: () => this.#database_id });
    this.#breaker = createStoreBreaker({
      clock: options.clock,
      onRecovered: () => void this.drain(),
      probe: () => this.#ledger.databaseId(),
    });
    this.#stopDraining = this.#every(DRAIN_MS, () => (this.#drain_is_due ? this.drain() : this.adoptOrphans()));
    this.#stopAdopting = this.#every(FIRST_ADOPTION_MS, () => this.#begin());
  }

  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    const may_go_out = request.on_store_error === 'allow';
    try {
      return await this.#breaker.run(() => this.#ledger.reserve(request), !may_go_out);
    } catch (error) {
      if (may_go_out && isUnavailable(error)) return this.#letOut(request);
      throw error;
    }
  }

  unreserved(identity: LedgerIdentity): Reservation {
    return this.#ledger.unreserved(identity);
  }

  typicalCost(...about: Parameters<Ledger['typicalCost']>): ReturnType<Ledger['typicalCost']> {
    return this.#ledger.typicalCost(...about);
  }

  statuses(demands: Parameters<Ledger['statuses']>[0]): ReturnType<Ledger['statuses']> {
    return this.#ledger.statuses(demands);
  }

  get depth() {
    const { due: requests, records, bytes, max_bytes } = this.#spool;
    const lag_ms = requests === 0 ? 0 : this.#clock.monotonic() - this.#written_at;
    return { requests, lag_ms, records, bytes, max_bytes };
  }

  /** Whether it has audit records for the current database. */
  get has_records(): boolean {
    return this.#spool.hasRecords(this.#database_id);
  }

  /** Spools audit records, in order. Raises SpoolError and errors of the disk. */
  keepRecords(texts: readonly string[]): Promise<void> {
    return this.#spool.keepRecords(texts);
  }

  /** Whether the disk accepts requests. Never rejects. */
  probe(): Promise<boolean> {
    return this.#spool.probe();
  }

  /** Drains the spool into the ledger, as far as possible now. Called by a timer. Never rejects. */
  async drain(): Promise<void> {
    if (this.#spool.due === 0) this.#written_at = this.#clock.monotonic();
    if (this.#spool.due + this.#spool.records === 0) return;
    this.#draining ??= this.#drainNow().finally(() => {
      this.#draining = undefined;
    });
    await this.#draining;
  }

  /** Takes over the files of ended processes. Called by a timer. Never rejects. */
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
    if (waiting > 0) this.#log.warn({ waiting }, 'spooled requests or audit records wait for the next start');
  }

  #begin(): void {
    this.#stopAdopting();
    this.#stopAdopting = this.#every(ADOPTION_MS, () => this.adoptOrphans());
    void this.adoptOrphans().then(() => {
      if (this.#needed() && this.#database_id !== undefined) void this.#spool.probe();
    });
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
        this.#log.info({ requests }, 'wrote spooled requests to the ledger');
      }
      this.#let_out = 0;
      await this.#spool.drainRecords(this.#writeRecords, database_id);
      if (records > 0) this.#log.info({ records }, 'wrote spooled audit records to the audit log');
    } catch (error) {
      const waiting = { requests: this.#spool.due, records: this.#spool.records };
      this.#log.debug({ err: error, ...waiting }, 'the spool waits for the database');
    }
  }

  readonly #writeRow: WriteRow = async (settlement, ...row) => {
    await this.#ledger.settleAt(settlement, ...row);
    this.#written_at = this.#clock.monotonic();
    this.#breaker.mended();
    this.#ledger.forget(settlement.request_id);
  };

  /** Settlements of requests without a reservation. */
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
      this.#ledger.forget(request_id);
    },
  };

  async #adoptNow(): Promise<void> {
    await this.#learnDatabase().catch((error) => this.#log.debug({ err: error }, 'cannot read the id of the database'));
    await this.#spool.adoptOrphans();
    this.#drainSoon();
  }

  /** Read repeatedly: the database may be replaced by another. */
  async #learnDatabase(): Promise<string> {
    this.#learning ??= this.#ledger.databaseId().finally(() => {
      this.#learning = undefined;
    });
    const database_id = await this.#learning;
    this.#drain_is_due = true;
    const before = this.#database_id;
    if (before !== undefined && before !== database_id) {
      const fields = { database_id, of_database_id: before, ...this.#spool.waitingFor(before) };
      this.#log.warn(fields, 'the database was replaced by another; spooled entries of the former one wait for it');
    }
    this.#database_id = database_id;
    return database_id;
  }

  async #letOut(request: ReservationRequest): Promise<ReservationDecision> {
    const { request_id } = request;
    this.#ledger.keep(request_id);
    try {
      await this.#spool.forward(request);
    } catch (error) {
      this.#ledger.forget(request_id);
      throw spoolUnavailable(error);
    }
    if (this.#let_out++ === 0)
      this.#log.warn(
        {},
        'the database is unavailable; requests are forwarded without a reservation where limits allow it',
      );
    const reservation = new BookedReservation(this.#spooled, request, true);
    return { reservation, exceeded: [], shadows: [], statuses: [], unreserved: true };
  }
}

function spoolUnavailable(error: unknown): StageError {
  const reason = error instanceof Error ? error.message : String(error);
  const message = `The gateway cannot use its database, nor its spool: ${reason}. Try again shortly.`;
  return new StageError('store_unavailable', message, { cause: error });
}

/** Without a writer, records of other processes stay. */
async function nobodyWrites(): Promise<never> {
  throw new Error('this process writes no audit records');
}
