import type { Clock, Ledger, Log, ReservationRequest, Settlement } from '../api.ts';
import { type Every, everyInBackground } from './clock.ts';
import { type GatewayProcess, ownProcess } from './gateway-process.ts';
import { createGroupCommit } from './group-commit.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createLedgerStatements, isCount, type LedgerStore, type Verdict } from './ledger-statements.ts';
import { isStorable } from './storable.ts';
import { asStoreError, isPermanent } from './store-errors.ts';
import { waitAtMost } from './wait-at-most.ts';

/** The ledger of one process. Any number of them share a database. */
export interface OpenLedger extends Ledger {
  /**
   * Tells the other processes that this one lives. A timer calls it; so may a test. The first one records the orphans
   * of processes that have provably ended on this machine. Raises store_unavailable.
   */
  beat(): Promise<void>;
  /**
   * Records the orphans of processes that have not been heard of for 30 s: a ledger row at the amount held, an estimate.
   * @returns how many. Raises store_unavailable.
   */
  recover(): Promise<number>;
  /** Writes what is still unwritten, for at most 3 seconds, and leaves. What can't be written becomes an orphan. */
  close(): Promise<void>;
}

const MAX_BATCH = 500;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2000;
const CLOSE_PATIENCE_MS = 3000;
const LEAVE_PATIENCE_MS = 500;

/** A settlement waits this long for a reservation to share its statement with; nobody waits for a settlement. */
const SETTLE_PATIENCE_MS = 10;

type Move = { readonly reserve: ReservationRequest } | { readonly settle: Settlement };
/** For a reservation what came of it, for a settlement whether it was written. */
type MoveResult = Verdict | boolean;

/**
 * Opens the ledger; needs no database yet. Windows are calendar days and months in `time_zone`, by the database's clock.
 * A request counts in the window it was reserved in, also when it is settled after the window's end.
 */
export function openLedger(options: {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly log: Log;
  /** IANA name; `spend_limits.time_zone`. Asked each time, because a reload can change it. */
  readonly time_zone?: () => string;
  readonly process?: GatewayProcess;
  readonly every?: Every;
}): OpenLedger {
  const { database, clock, log, time_zone = () => 'UTC', process = ownProcess(), every = everyInBackground } = options;
  const process_id = crypto.randomUUID();
  const statements = createLedgerStatements({ database, clock, time_zone, process_id });
  /** Requests whose reservation row may exist and is still needed. No Set: see the engine's `Bag`. */
  const live: Record<string, true> = Object.create(null);
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
  });

  const moving = createGroupCommit<Move, MoveResult>({
    lanes: 1,
    max_items: MAX_BATCH,
    patience_ms: SETTLE_PATIENCE_MS,
    isolates: isPermanent,
    async execute(moves) {
      const settlements = moves.flatMap((move) => ('settle' in move ? [move.settle] : []));
      const reservations = moves.flatMap((move) => ('reserve' in move ? [move.reserve] : []));
      if (reservations.length > 0) await heartbeat.register();
      const { written, verdicts } = await statements.exchange(settlements, reservations);
      let [settled, reserved] = [0, 0];
      return moves.map((move) => ('settle' in move ? written[settled++]! : verdicts[reserved++]!));
    },
  });
  const releasing = createGroupCommit<string, void>({
    lanes: 1,
    max_items: MAX_BATCH,
    isolates: isPermanent,
    async execute(request_ids) {
      await statements.release(request_ids);
      return Array<void>(request_ids.length);
    },
  });

  const settleUntilWritten = async (settlement: Settlement): Promise<void> => {
    const { request_id } = settlement;
    for (;;) {
      try {
        const written = await moving.runSoon({ settle: settlement });
        retry.reset();
        delete live[request_id];
        if (!written)
          log.warn({ request_id }, 'this request was in the ledger already; what it reported now is dropped');
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

  return {
    beat: heartbeat.beat,
    recover: heartbeat.recover,
    async reserve(request, onShadow) {
      assertReservable(request);
      const { request_id } = request;
      live[request_id] = true;
      try {
        const { refusal, shadows } = (await moving.run({ reserve: request })) as Verdict;
        if (refusal !== undefined) delete live[request_id];
        if (onShadow !== undefined) for (const standing of shadows) onShadow(standing);
        return refusal;
      } catch (error) {
        delete live[request_id];
        // The statement may have been committed although nobody heard of it.
        if (!isPermanent(error)) heartbeat.doubt();
        throw asStoreError(error);
      }
    },
    async settle(settlement) {
      unwritten++;
      try {
        await settleUntilWritten(settlement);
      } finally {
        if (--unwritten === 0) onAllWritten();
      }
    },
    async release(request_id) {
      try {
        await releasing.run(request_id);
      } catch (error) {
        log.debug({ err: error, request_id }, 'a hold could not be released yet');
        heartbeat.doubt();
      } finally {
        delete live[request_id];
      }
    },
    async close() {
      heartbeat.stop();
      if (unwritten > 0) {
        const all_written = new Promise<void>((resolve) => {
          onAllWritten = resolve;
        });
        await waitAtMost(CLOSE_PATIENCE_MS, all_written);
      }
      retry.end();
      if (unwritten > 0) {
        log.error({ requests: unwritten }, 'some requests could not be settled; they will be recorded as estimates');
      }
      await waitAtMost(LEAVE_PATIENCE_MS, heartbeat.leave());
    },
  };
}

function assertReservable(request: ReservationRequest): void {
  const { request_id, amount_nano_usd, claims } = request;
  if (!isStorable(request_id)) throw new TypeError('a request id cannot hold NUL or half a surrogate pair');
  const amounts = [amount_nano_usd, ...claims.map((claim) => claim.limit_nano_usd ?? 0)];
  for (const amount of amounts) {
    if (!isCount(amount)) throw new RangeError(`an amount in nano-USD cannot be ${amount}`);
  }
}

/** A pause that everybody waiting for the store shares, so that they come back as one batch; longer each time. */
function createRetryPause() {
  let next_ms = FIRST_RETRY_MS;
  let pause: Promise<void> | undefined;
  let wake = () => {};
  let over = false;
  return {
    get over() {
      return over;
    },
    reset() {
      next_ms = FIRST_RETRY_MS;
    },
    wait(): Promise<void> {
      pause ??= new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, next_ms);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
        next_ms = Math.min(next_ms * 2, LAST_RETRY_MS);
      }).finally(() => {
        pause = undefined;
      });
      return pause;
    },
    /** No more pauses: whoever fails now gives up. */
    end() {
      over = true;
      wake();
    },
  };
}
