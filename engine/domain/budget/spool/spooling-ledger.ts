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
import { Spool, type SpoolOptions, type WriteRecords } from './spool.ts';
import type { WriteRow } from './spool-rows.ts';

/** What it needs of the ledger of its process. */
export type LedgerOfRows = Ledger & Pick<DatabaseLedger, 'settleAt' | 'databaseId' | 'keep' | 'forget'>;

const DRAIN_MS = 1000;
const ADOPTION_MS = 10_000;
/** The first time is before the ledger records reservations of processes that ended as estimates. */
const FIRST_ADOPTION_MS = 10;
const CLOSE_PATIENCE_MS = 2000;

/** What a spooling ledger depends on. */
export interface SpoolingLedgerOptions extends Omit<SpoolOptions, 'database_id'> {
  readonly ledger: LedgerOfRows;
  /** Whether some limit lets requests go out while the store is away; the disk is then probed at the start. */
  readonly needed?: () => boolean;
  readonly every?: Every;
  /** Writes audit records that were kept. Raises store_unavailable. */
  readonly writeRecords?: WriteRecords;
}

/**
 * A ledger that lets requests out without a reservation while the store is away, where their limits allow it: it has a spool
 * before the ledger of its process. `reserve` raises store_unavailable for a request that may go out while the store is away
 * only if the disk cannot take it either.
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
  /** Whether the database itself has said which one it is. */
  #is_asked = false;
  /** Requests let out since the last time that all were in the ledger. */
  #let_out = 0;
  /** When a row was last written from the disk, or nothing waited there; monotonic. */
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
      onMended: () => void this.drain(),
      probe: () => this.#ledger.databaseId(),
    });
    this.#stopDraining = this.#every(DRAIN_MS, () => (this.#is_asked ? this.drain() : this.adoptOrphans()));
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

  /** How many audit records of the database in use are on the disk. */
  get records(): number {
    return this.#spool.recordsOf(this.#database_id);
  }

  /** Keeps audit records on the disk until the database takes them, in their order. Raises SpoolError and what the disk raises. */
  keepRecords(texts: readonly string[]): Promise<void> {
    return this.#spool.keepRecords(texts);
  }

  /** Whether the disk would take requests now. Never rejects. */
  probe(): Promise<boolean> {
    return this.#spool.probe();
  }

  /** Writes what is on the disk to the ledger, as far as possible now. A timer calls it; so may a test. Never rejects. */
  async drain(): Promise<void> {
    if (this.#spool.due === 0) this.#written_at = this.#clock.monotonic();
    if (this.#spool.due + this.#spool.records === 0) return;
    this.#draining ??= this.#drainNow().finally(() => {
      this.#draining = undefined;
    });
    await this.#draining;
  }

  /** Takes over what processes left that are gone. A timer calls it; so may a test. Never rejects. */
  adoptOrphans(): Promise<void> {
    this.#adopting ??= this.#adoptNow().finally(() => {
      this.#adopting = undefined;
    });
    return this.#adopting;
  }

  /** Writes what it can for at most 2 seconds; the rest stays on the disk. Leaves the ledger behind it open. */
  async close(): Promise<void> {
    this.#stopDraining();
    this.#stopAdopting();
    if (!this.#breaker.broken) await waitAtMost(CLOSE_PATIENCE_MS, this.drain());
    const waiting = await this.#spool.close();
    if (waiting > 0) this.#log.warn({ waiting }, 'requests or audit records stay in the spool until the next start');
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
      const requests = this.#spool.dueOf(database_id);
      const count = this.#spool.recordsOf(database_id);
      if (requests > 0) {
        await this.#spool.drain(this.#writeRow);
        this.#log.info({ requests }, 'requests that went out without a reservation are in the ledger now');
      }
      this.#let_out = 0;
      await this.#spool.drainRecords(this.#writeRecords, database_id);
      if (count > 0) {
        this.#log.info({ records: count }, 'audit records that waited on the disk are in the audit log now');
      }
    } catch (error) {
      const waiting = { requests: this.#spool.due, records: this.#spool.records };
      this.#log.debug({ err: error, ...waiting }, 'what the spool holds waits for the database');
    }
  }

  readonly #writeRow: WriteRow = async (settlement, ...row) => {
    await this.#ledger.settleAt(settlement, ...row);
    this.#written_at = this.#clock.monotonic();
    this.#breaker.mended();
    this.#ledger.forget(settlement.request_id);
  };

  /** What becomes of requests that nothing is reserved for. */
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
    await this.#learnDatabase().catch((error) =>
      this.#log.debug({ err: error }, 'which database it is could not be asked'),
    );
    await this.#spool.adoptOrphans();
    this.#drainSoon();
  }

  /** Asked again and again: the database may be replaced by another one. */
  async #learnDatabase(): Promise<string> {
    this.#learning ??= this.#ledger.databaseId().finally(() => {
      this.#learning = undefined;
    });
    const database_id = await this.#learning;
    this.#is_asked = true;
    const before = this.#database_id;
    if (before !== undefined && before !== database_id) {
      const waiting = { requests: this.#spool.dueOf(before), records: this.#spool.recordsOf(before) };
      const fields = { database_id, of_database_id: before, ...waiting };
      this.#log.warn(fields, 'this is another database than before; what the spool holds for that one waits for it');
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
      this.#log.warn({}, 'the database is away; requests whose limits allow it go out without a reservation');
    const reservation = new BookedReservation(this.#spooled, request, true);
    return { reservation, exceeded: [], shadows: [], statuses: [], unreserved: true };
  }
}

function spoolUnavailable(error: unknown): StageError {
  const reason = error instanceof Error ? error.message : String(error);
  const message = `The gateway cannot use its database, nor its spool: ${reason}. Try again shortly.`;
  return new StageError('store_unavailable', message, { cause: error });
}

/** Records that were taken over where nothing writes them stay. */
async function nobodyWrites(): Promise<never> {
  throw new Error('nothing writes audit records here');
}
