import { StageError } from '../../contract/errors.ts';
import type {
  Clock,
  CounterName,
  Ledger,
  Log,
  Reservation,
  ReservationRequest,
  Settlement,
} from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { createGroupCommit, type GroupCommit } from '../../kit/group-commit.ts';
import { type GatewayProcess, ownProcess } from '../../kit/process/gateway-process.ts';
import { createRetryPause } from '../../kit/retry-pause.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import { asStoreError, isPermanent } from '../../store/store-errors.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createLedgerStatements, isCount, type LateSettlement, type LedgerStore } from './ledger-statements.ts';
import { readRecentCosts } from './recent-costs.ts';
import { assertReservable } from './reservable.ts';
import { createTypicalCosts } from './typical-cost.ts';
import { createUndecidedReservations } from './undecided-holds.ts';

/** The ledger of one process. Any number of them share a database. */
export interface OpenLedger extends Ledger {
  /**
   * Tells the other processes that this one lives. A timer calls it; so may a test. The first one records the orphans
   * of processes that have provably ended on this machine. Raises store_unavailable.
   */
  beat(): Promise<void>;
  /** Writes that this process lives, and nothing else. Raises store_unavailable. */
  sayAlive(): Promise<void>;
  /**
   * Records the orphans of processes that have not been heard of for 30 s: a ledger row at the amount reserved, an estimate.
   * @returns how many. Raises store_unavailable.
   */
  recover(): Promise<number>;
  /**
   * Writes the ledger row of a request that went out without a reservation, as of `at_ms` (since the epoch): its money counts on
   * these counters, in the windows of that time. Tried once. A reservation that was placed under its id after all is
   * settled instead. @returns false when the row was there already. Raises store_unavailable, also when the store is another
   * database than the one it belongs to.
   */
  settleAt(
    settlement: Settlement,
    counters: readonly CounterName[],
    at_ms: number,
    database_id: string,
  ): Promise<boolean>;
  /** Which database it is in. Raises store_unavailable. */
  databaseId(): Promise<string>;
  /**
   * Says that a request goes out although its reservation failed: if that turns out to have been placed, it is not given
   * back. To be called in the same turn in which `reserve` failed.
   */
  keep(request_id: string): void;
  /** Ends `keep`: what may still be placed under the id is given back. */
  forget(request_id: string): void;
  /** Writes what is still unwritten, for at most 3 seconds, and leaves. What can't be written becomes an orphan. */
  close(): Promise<void>;
}

const MAX_BATCH = 500;
/** So few that requests hardly wait for the counters of a batch. */
const MAX_LATE_BATCH = 500;
/** One waits for the disk while the other works. */
const LATE_LANES = 2;
const CLOSE_PATIENCE_MS = 3000;
const LEAVE_PATIENCE_MS = 500;
const RESERVE_TIMEOUT_MS = 5000;

/** A settlement that nobody can wait for waits this long for a reservation to share its statement with. */
const SETTLE_PATIENCE_MS = 10;
/** What is topped up within this time shares a statement. */
const TOP_UP_PATIENCE_MS = 20;

/** A reservation on its way; nobody waits for one that is given up, and it need not be placed any more. */
interface Wish {
  readonly reserve: ReservationRequest;
  given_up: boolean;
}
type Move = Wish | { readonly settle: Settlement };
/** For a reservation what came of it, for a settlement whether it was written. */
type MoveResult = Reservation | boolean;

/**
 * Opens the ledger; needs no database yet. Windows are calendar windows in `time_zone`, by the database's clock.
 * A request counts in the window it was reserved in, also when it is settled after the window's end.
 */
export function openLedger(options: {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly log: Log;
  /** IANA name; `spend_limits.time_zone`. Asked each time, because a reload can change it. */
  readonly time_zone?: () => string;
  /** How long a reservation waits for the database at most; `spend_limits.store_timeout_seconds`. Asked each time. */
  readonly reserve_timeout_ms?: () => number;
  readonly process?: GatewayProcess;
  readonly every?: Every;
}): OpenLedger {
  const { database, clock, log, time_zone = () => 'UTC', process = ownProcess(), every = everyInBackground } = options;
  const { reserve_timeout_ms = () => RESERVE_TIMEOUT_MS } = options;
  const process_id = crypto.randomUUID();
  const statements = createLedgerStatements({ database, clock, time_zone, process_id });
  const costs = createTypicalCosts();
  /**
   * Requests whose reservation row may exist and is still needed, and whether a limit on requests at once is among its
   * own: then its end makes room for the next one, which may come at any moment. No Map: see the engine's `Bag`.
   */
  const live: Record<string, { readonly makes_room: boolean }> = Object.create(null);
  let unwritten = 0;
  let onAllWritten = () => {};
  const retry = createRetryPause();
  const heartbeat = createHeartbeat({
    database,
    clock,
    log,
    every,
    process_id,
    process,
    isLive: (request_id) => request_id in live,
    release: statements.release,
    async onFirstBeat() {
      for (const { user, model, cost_nano_usd } of await readRecentCosts(database, clock))
        costs.add(user, model, cost_nano_usd);
    },
  });

  const undecided = createUndecidedReservations(clock);
  const exchangeInTime = async (settlements: readonly Settlement[], wishes: readonly Wish[]) => {
    const requests = wishes.map(({ reserve }) => reserve);
    if (requests.length === 0) return statements.exchange(settlements, requests);
    const valid_until = clock.monotonic() + reserve_timeout_ms();
    const database_time = heartbeat.databaseTimeOf(valid_until);
    const exchange = () => statements.exchange(settlements, requests, database_time);
    const exchanged = await undecided.place(valid_until, exchange);
    // The database's clock may have been set; the next ones then go by the new time.
    if (exchanged.reservations === undefined) heartbeat.sayAlive().catch(() => {});
    return exchanged;
  };

  const moving = createGroupCommit<Move, MoveResult>({
    lanes: 1,
    max_items: MAX_BATCH,
    patience_ms: SETTLE_PATIENCE_MS,
    isolates: isPermanent,
    async execute(moves) {
      const settlements = moves.flatMap((move) => ('settle' in move ? [move.settle] : []));
      const wanted = () => moves.flatMap((move) => ('reserve' in move && !move.given_up ? [move] : []));
      if (wanted().length > 0) await heartbeat.register();
      const wishes = wanted();
      if (settlements.length + wishes.length === 0) return moves.map(() => GIVEN_UP);
      const { written, reservations } = await exchangeInTime(settlements, wishes);
      let [settled, reserved] = [0, 0];
      return moves.map((move) => {
        if ('settle' in move) return written[settled++]!;
        if (move !== wishes[reserved]) return GIVEN_UP;
        reserved++;
        return reservations?.[reserved - 1] ?? LATE;
      });
    },
  });
  const settlingLate = createGroupCommit<LateSettlement, boolean>({
    lanes: LATE_LANES,
    max_items: MAX_LATE_BATCH,
    isolates: isPermanent,
    execute: statements.settleLate,
  });
  const releasing = inBatches(statements.release);
  const toppingUp = inBatches(statements.topUp, TOP_UP_PATIENCE_MS);

  const release = async (request_id: string): Promise<void> => {
    try {
      await releasing.run(request_id);
    } catch (error) {
      log.debug({ err: error, request_id }, 'a reservation could not be released yet');
      heartbeat.doubt();
    } finally {
      delete live[request_id];
    }
  };

  const reserveInTime = async (wish: Wish): Promise<Reservation> => {
    const { request_id } = wish.reserve;
    const { promise: too_late, reject } = Promise.withResolvers<never>();
    let over = false;
    const giveUp = () => {
      if (over) return;
      wish.given_up = true;
      reject(new StageError('store_unavailable', TOO_SLOW));
    };
    // An answer that is here already and waits to be read, because this process is the slow one, is not late.
    const timer = clock.after(reserve_timeout_ms(), () => setImmediate(giveUp));
    const moved = moving.run(wish) as Promise<Reservation>;
    try {
      const reservation = await Promise.race([moved, too_late]);
      if (reservation === LATE) throw new StageError('store_unavailable', TOO_SLOW);
      return reservation;
    } catch (error) {
      if (wish.given_up) {
        const giveBack = async (reservation: Reservation) => {
          if (reservation === LATE) return;
          const { exceeded } = reservation;
          if (exceeded.length === 0 && !(request_id in live)) await release(request_id);
        };
        moved.then(giveBack).catch(() => {});
      }
      throw error;
    } finally {
      over = true;
      timer.close();
    }
  };

  const settleUntilWritten = async (settlement: Settlement): Promise<void> => {
    const { request_id } = settlement;
    for (;;) {
      try {
        const move = { settle: settlement };
        const written = await (live[request_id]?.makes_room ? moving.run(move) : moving.runSoon(move));
        retry.reset();
        delete live[request_id];
        if (written) learn(settlement);
        else log.warn({ request_id }, 'this request was in the ledger already; what it reported now is dropped');
        return;
      } catch (error) {
        if (isPermanent(error)) {
          // Its reservation stays, and becomes a ledger row when this process ends.
          log.error({ err: error, request_id }, 'the ledger refused to settle this request');
          throw error;
        }
        if (retry.over) throw asStoreError(error);
        await retry.wait();
      }
    }
  };
  const learn = ({ user, model, cost_nano_usd, provenance }: Settlement) => {
    // Counting tokens and errors of the upstream cost nothing, and say nothing about requests that do.
    if (provenance.cost === 'upstream' && isCount(cost_nano_usd) && cost_nano_usd > 0) {
      costs.add(user, model, cost_nano_usd);
    }
  };

  return {
    beat: heartbeat.beat,
    sayAlive: heartbeat.sayAlive,
    recover: heartbeat.recover,
    typicalCost: costs.typicalCost,
    async reserve(request) {
      assertReservable(request);
      const { request_id } = request;
      live[request_id] = { makes_room: request.demands.some(({ window }) => window === 'open') };
      try {
        const reservation = await reserveInTime({ reserve: request, given_up: false });
        if (reservation.exceeded.length > 0) delete live[request_id];
        return reservation;
      } catch (error) {
        delete live[request_id];
        // The statement may have been committed although nobody heard of it.
        if (!isPermanent(error)) heartbeat.doubt();
        throw asStoreError(error);
      }
    },
    topUp(request_id, amount_nano_usd) {
      if (!isCount(amount_nano_usd)) throw new RangeError(`an amount in nano-USD cannot be ${amount_nano_usd}`);
      toppingUp.runSoon({ request_id, amount_nano_usd }).catch((error) => {
        log.debug({ err: error, request_id }, 'a reservation could not be topped up');
      });
    },
    async settle(settlement) {
      unwritten++;
      try {
        await settleUntilWritten(settlement);
      } finally {
        if (--unwritten === 0) onAllWritten();
      }
    },
    release,
    databaseId: statements.databaseId,
    async settleAt(settlement, counters, at_ms, database_id) {
      try {
        const written = await settlingLate.run({ settlement, counters, at_ms, database_id });
        if (written) learn(settlement);
        return written;
      } catch (error) {
        throw asStoreError(error);
      }
    },
    keep(request_id) {
      live[request_id] = { makes_room: false };
    },
    forget(request_id) {
      delete live[request_id];
      heartbeat.doubt();
    },
    async statuses(demands) {
      try {
        return await statements.statuses(demands);
      } catch (error) {
        throw asStoreError(error);
      }
    },
    async close() {
      heartbeat.stop();
      const decided = undecided.over();
      if (unwritten > 0) {
        const all_written = new Promise<void>((resolve) => {
          onAllWritten = resolve;
        });
        await waitAtMost(CLOSE_PATIENCE_MS, all_written);
      }
      await decided;
      retry.end();
      if (unwritten > 0) {
        log.error({ requests: unwritten }, 'some requests could not be settled; they will be recorded as estimates');
      }
      await waitAtMost(LEAVE_PATIENCE_MS, heartbeat.leave());
    },
  };
}

/** Runs a statement that has nothing to tell for all that waits. */
function inBatches<Item>(execute: (items: readonly Item[]) => Promise<void>, patience_ms = 0): GroupCommit<Item, void> {
  return createGroupCommit<Item, void>({
    lanes: 1,
    max_items: MAX_BATCH,
    patience_ms,
    isolates: isPermanent,
    async execute(items) {
      await execute(items);
      return Array<void>(items.length);
    },
  });
}

const TOO_SLOW = 'The gateway cannot use its database: it did not answer in time. Try again shortly.';
/** Nothing was placed, and nothing will be. */
const LATE: Reservation = { exceeded: [], shadows: [], statuses: [], unreserved: true };
/** Nobody looks at it. */
const GIVEN_UP: Reservation = { exceeded: [], shadows: [], statuses: [], unreserved: true };
