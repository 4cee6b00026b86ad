import type { WriteRecords } from '../../audit/spooled-records.ts';
import { StageError } from '../../contract/errors.ts';
import type { Clock, Ledger, Log, Reservation, ReservationRequest } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { SpoolFilesOptions } from '../../store/spool/spool-files.ts';
import { createStoreBreaker } from '../../store/store-breaker.ts';
import { isUnavailable } from '../../store/store-errors.ts';
import type { OpenLedger } from '../ledger/ledger.ts';
import { openSpool } from './spool.ts';
import type { WriteRow } from './spool-rows.ts';

/** What it needs of the ledger of its process. */
export type LedgerOfRows = Ledger & Pick<OpenLedger, 'settleAt' | 'databaseId' | 'keep' | 'forget'>;

/** A ledger that lets requests out without a reservation while the store is away, where their limits allow it. */
export interface SpoolingLedger extends Ledger {
  /** Writes what is on the disk to the ledger, as far as possible now. A timer calls it; so may a test. Never rejects. */
  drain(): Promise<void>;
  /** How many audit records of the database in use are on the disk. */
  readonly records: number;
  /** Keeps audit records on the disk until the database takes them, in their order. Raises SpoolError and what the disk raises. */
  keepRecords(texts: readonly string[]): Promise<void>;
  /** Whether the disk would take requests now. Never rejects. */
  tryOut(): Promise<boolean>;
  /** Takes over what processes left that are gone. A timer calls it; so may a test. Never rejects. */
  lookAround(): Promise<void>;
  /** Writes what it can for at most 2 seconds; the rest stays on the disk. Leaves the ledger behind it open. */
  close(): Promise<void>;
}

const DRAIN_MS = 1000;
const LOOK_AROUND_MS = 10_000;
/** The first look comes before the ledger records reservations of processes that ended as estimates. */
const FIRST_LOOK_MS = 10;
const CLOSE_PATIENCE_MS = 2000;

const UNRESERVED: Reservation = { exceeded: [], shadows: [], statuses: [], unreserved: true };

/**
 * Opens a spool before a ledger. `reserve` raises store_unavailable for a request that may go out while the store is away
 * only if the disk cannot take it either.
 */
export function openSpoolingLedger(
  options: Omit<SpoolFilesOptions, 'database_id'> & {
    readonly ledger: LedgerOfRows;
    readonly clock: Clock;
    readonly log: Log;
    readonly max_bytes?: number;
    /** Whether some limit lets requests go out while the store is away; the disk is then tried out at the start. */
    readonly needed?: () => boolean;
    readonly every?: Every;
    /** Writes audit records that were kept. Raises store_unavailable. */
    readonly writeRecords?: WriteRecords;
  },
): SpoolingLedger {
  const { ledger, clock, log, needed = () => false, every = everyInBackground } = options;
  const { writeRecords = nobodyWrites } = options;
  let database_id: string | undefined;
  const spool = openSpool({ ...options, database_id: () => database_id });
  const breaker = createStoreBreaker(clock, () => void drain());
  /** Requests let out since the last time that all were in the ledger. */
  let let_out = 0;

  const writeRow: WriteRow = async (settlement, ...row) => {
    await ledger.settleAt(settlement, ...row);
    breaker.mended();
    ledger.forget(settlement.request_id);
  };
  let learning: Promise<string> | undefined;
  /** Asked again and again: another database may be put in the place of this one. */
  const learnDatabase = async (): Promise<string> => {
    learning ??= ledger.databaseId().finally(() => {
      learning = undefined;
    });
    const now = await learning;
    if (database_id !== undefined && database_id !== now) {
      const waiting = { requests: spool.dueOf(database_id), records: spool.records.countOf(database_id) };
      const fields = { database_id: now, of_database_id: database_id, ...waiting };
      log.warn(fields, 'this is another database than before; what the spool holds for that one waits for it');
    }
    database_id = now;
    return now;
  };
  let draining: Promise<void> | undefined;
  const drain = async (): Promise<void> => {
    if (spool.due + spool.records.count === 0) return;
    draining ??= drainNow().finally(() => {
      draining = undefined;
    });
    await draining;
  };
  const drainNow = async (): Promise<void> => {
    const { records } = spool;
    try {
      const database_id = await learnDatabase();
      const due = spool.dueOf(database_id);
      const count = records.countOf(database_id);
      if (due > 0) await spool.drain(writeRow);
      if (due > 0) log.info({ requests: due }, 'requests that went out without a reservation are in the ledger now');
      let_out = 0;
      await records.drain(writeRecords, database_id);
      if (count > 0) log.info({ records: count }, 'audit records that waited on the disk are in the audit log now');
    } catch (error) {
      const waiting = { requests: spool.due, records: records.count };
      log.debug(
        { err: error, ...waiting },
        'what went out without a reservation, or its record, waits for the database',
      );
    }
  };
  const drainSoon = () => {
    if (!breaker.broken) void drain();
  };
  let looking: Promise<void> | undefined;
  const lookAround = () => {
    looking ??= lookNow().finally(() => {
      looking = undefined;
    });
    return looking;
  };
  const lookNow = async () => {
    await learnDatabase().catch((error) => log.debug({ err: error }, 'which database it is could not be asked'));
    await spool.lookAround();
    drainSoon();
  };

  const letOut = async (request: ReservationRequest): Promise<Reservation> => {
    const { request_id } = request;
    ledger.keep(request_id);
    try {
      await spool.forward(request);
    } catch (error) {
      ledger.forget(request_id);
      const reason = error instanceof Error ? error.message : String(error);
      const message = `The gateway cannot use its database, nor its spool: ${reason}. Try again shortly.`;
      throw new StageError('store_unavailable', message, { cause: error });
    }
    if (let_out++ === 0)
      log.warn({}, 'the database is away; requests whose limits allow it go out without a reservation');
    return UNRESERVED;
  };

  const stopDraining = every(DRAIN_MS, () => (database_id === undefined ? lookAround() : drain()));
  let stopLooking = every(FIRST_LOOK_MS, () => {
    stopLooking();
    stopLooking = every(LOOK_AROUND_MS, lookAround);
    void lookAround().then(() => {
      if (needed() && database_id !== undefined) void spool.tryOut();
    });
  });

  return {
    drain,
    tryOut: spool.tryOut,
    get records() {
      return spool.records.countOf(database_id);
    },
    keepRecords: (texts) => spool.records.keep(texts),
    lookAround,
    async reserve(request) {
      const may_go_out = request.on_store_error === 'allow';
      try {
        return await breaker.run(() => ledger.reserve(request), !may_go_out);
      } catch (error) {
        if (may_go_out && isUnavailable(error)) return letOut(request);
        throw error;
      }
    },
    topUp(request_id, amount_nano_usd) {
      if (!spool.has(request_id)) ledger.topUp(request_id, amount_nano_usd);
    },
    async settle(settlement) {
      if (!spool.has(settlement.request_id)) return ledger.settle(settlement);
      await spool.settle(settlement);
      drainSoon();
    },
    async release(request_id) {
      if (!spool.has(request_id)) return ledger.release(request_id);
      await spool.release(request_id);
      ledger.forget(request_id);
    },
    typicalCost: (user, model) => ledger.typicalCost(user, model),
    statuses: (demands) => ledger.statuses(demands),
    async close() {
      stopDraining();
      stopLooking();
      if (!breaker.broken) await waitAtMost(CLOSE_PATIENCE_MS, drain());
      const left = await spool.close();
      if (left > 0) log.warn({ waiting: left }, 'requests or audit records stay in the spool until the next start');
    },
  };
}

/** Records that were taken over where nothing writes them stay. */
async function nobodyWrites(): Promise<never> {
  throw new Error('nothing writes audit records here');
}
