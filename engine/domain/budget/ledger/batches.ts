import { setTimeout as delay } from 'node:timers/promises';
import type { Clock, ReservationDecision, ReservationRequest, Settlement } from '../../../base/contract/services.ts';
import { createGroupCommit, type GroupCommit } from '../../../base/kit/group-commit.ts';
import { isPermanent, StoreTimeout } from '../../../base/store/store-errors.ts';
import type { Heartbeat } from './heartbeat.ts';
import type { BatchResult, LedgerStatements } from './ledger-statements.ts';

const MAX_BATCH = 500;
/** A settlement that nobody can wait for waits this long for a reservation to share its statement with. */
const SETTLE_PATIENCE_MS = 10;

/** A reservation on its way; nobody waits for one that is given up, and it need not be made any more. */
interface Wish {
  readonly reserve: ReservationRequest;
  given_up: boolean;
}
/** Something else that is done while nothing is settled or reserved; it never rejects. */
interface Errand {
  run(): Promise<void>;
}
interface SettleEntry {
  readonly settle: Settlement;
  readonly ending: Sendable | undefined;
}
type Entry = Wish | SettleEntry | Errand;
/** For a reservation what was decided, for a settlement whether it was written. */
type EntryResult = ReservationDecision | boolean;

/** Whether a settlement was sent, so that what the database tells from now on includes it. */
export interface Sendable {
  sent: boolean;
}

/** Nothing was reserved, and nothing will be. */
const LATE: ReservationDecision = { exceeded: [], shadows: [], statuses: [], unreserved: true };
/** Nobody looks at it. */
const GIVEN_UP: ReservationDecision = { ...LATE };

/** What reservations and settlements need on their way to the database. */
export interface BatchesOptions {
  readonly statements: Pick<LedgerStatements, 'batch'>;
  readonly heartbeat: Pick<Heartbeat, 'register' | 'sayAlive' | 'databaseTimeOf'>;
  readonly clock: Clock;
  readonly reserve_timeout_ms: () => number;
  /** Called with what was reserved after all, when nobody waited for it any more. */
  giveBack(request_id: string): Promise<void>;
}

/** Longer than most waits for a reservation, and shorter than a gateway that stops waits for its ledger. */
const PATIENCE_MS = 6500;
const STEP_MS = 50;

/** Knows how long the database may still make reservations that this process, which sends one batch at a time, has not heard of. */
export class UndecidedReservations {
  readonly #clock: Pick<Clock, 'monotonic' | 'frozen'>;
  #until = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonic' | 'frozen'>) {
    this.#clock = clock;
  }

  /**
   * Sends a batch, and notes until when it may reserve something where no answer comes.
   * @param valid_until by the monotonic clock
   */
  async await<Answer>(valid_until: number, send: () => Promise<Answer>): Promise<Answer> {
    const former = this.#until;
    this.#until = Math.max(former, valid_until);
    const answer = await send();
    this.#until = former;
    return answer;
  }

  /** Resolves when nothing can be reserved any more, whether the database answers or not; at the latest after its patience. */
  async over(): Promise<void> {
    const clock = this.#clock;
    // A stopped clock never gets there.
    if (clock.frozen) return;
    const patience_ends = clock.monotonic() + PATIENCE_MS;
    while (clock.monotonic() < Math.min(this.#until, patience_ends)) await delay(STEP_MS);
  }
}

/** Reservations and settlements of one process on their way to the database, in batches, one at a time. */
export class Batches {
  readonly #options: BatchesOptions;
  readonly #undecided: UndecidedReservations;
  readonly #entries: GroupCommit<Entry, EntryResult>;

  constructor(options: BatchesOptions) {
    this.#options = options;
    this.#undecided = new UndecidedReservations(options.clock);
    this.#entries = createGroupCommit({
      lanes: 1,
      max_items: MAX_BATCH,
      patience_ms: SETTLE_PATIENCE_MS,
      isolates: isPermanent,
      execute: (entries) => this.#execute(entries),
    });
  }

  /** Raises store_unavailable when the database takes too long; what is reserved all the same is given back. */
  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    const wish: Wish = { reserve: request, given_up: false };
    const decided = this.#entries.run(wish) as Promise<ReservationDecision>;
    const giveUp = () => {
      wish.given_up = true;
      decided.then((decision) => this.#giveBack(request, decision)).catch(() => {});
    };
    const decision = await this.inTime(decided, giveUp);
    if (decision === LATE) throw new StoreTimeout();
    return decision;
  }

  /** What was sent already, or store_unavailable when the database takes too long. */
  async inTime<Answer>(sent: Promise<Answer>, onGivenUp = () => {}): Promise<Answer> {
    const { promise: too_late, reject } = Promise.withResolvers<never>();
    let over = false;
    const giveUp = () => {
      if (over) return;
      onGivenUp();
      reject(new StoreTimeout());
    };
    // An answer that is here already and waits to be read, because this process is the slow one, is not late.
    const timer = this.#options.clock.after(this.#options.reserve_timeout_ms(), () => setImmediate(giveUp));
    try {
      return await Promise.race([sent, too_late]);
    } finally {
      over = true;
      timer.close();
    }
  }

  /** Tries once. @returns whether the row was written; false for one that was there. */
  settle(settle: Settlement, at_once: boolean, ending?: Sendable): Promise<boolean> {
    const entry: SettleEntry = { settle, ending };
    return (at_once ? this.#entries.run(entry) : this.#entries.runSoon(entry)) as Promise<boolean>;
  }

  /** Does something while nothing is settled or reserved: what the database tells of counters then is in the order of all else. */
  async between(task: () => Promise<void>): Promise<void> {
    let failure: { readonly error: unknown } | undefined;
    const run = async () => {
      try {
        await task();
      } catch (error) {
        failure = { error };
      }
    };
    await this.#entries.run({ run });
    if (failure !== undefined) throw failure.error;
  }

  /** Resolves when nothing that this process asked for can be reserved any more. */
  over(): Promise<void> {
    return this.#undecided.over();
  }

  async #execute(entries: readonly Entry[]): Promise<readonly EntryResult[]> {
    for (const entry of entries) if ('run' in entry) await entry.run();
    const ended = entries.filter((entry) => 'settle' in entry);
    const wanted = () => entries.flatMap((entry) => ('reserve' in entry && !entry.given_up ? [entry] : []));
    if (wanted().length > 0) await this.#options.heartbeat.register();
    const wishes = wanted();
    if (ended.length + wishes.length === 0) return entries.map(() => GIVEN_UP);
    const { written, decisions } = await this.#settleAndReserve(ended, wishes);
    let [settled, reserved] = [0, 0];
    return entries.map((entry) => {
      if ('settle' in entry) return written[settled++]!;
      if (entry !== wishes[reserved]) return GIVEN_UP;
      reserved++;
      return decisions?.[reserved - 1] ?? LATE;
    });
  }

  async #settleAndReserve(ended: readonly SettleEntry[], wishes: readonly Wish[]): Promise<BatchResult> {
    const note = (sent: boolean) => {
      for (const { ending } of ended) if (ending !== undefined) ending.sent = sent;
    };
    note(true);
    try {
      return await this.#executeInTime(
        ended.map(({ settle }) => settle),
        wishes,
      );
    } catch (error) {
      note(false);
      throw error;
    }
  }

  async #executeInTime(settlements: readonly Settlement[], wishes: readonly Wish[]): Promise<BatchResult> {
    const requests = wishes.map(({ reserve }) => reserve);
    if (requests.length === 0) return this.#options.statements.batch(settlements, requests);
    const valid_until = this.#options.clock.monotonic() + this.#options.reserve_timeout_ms();
    const database_time = this.#options.heartbeat.databaseTimeOf(valid_until);
    const send = () => this.#options.statements.batch(settlements, requests, database_time);
    const result = await this.#undecided.await(valid_until, send);
    // The database's clock may have been set; the next ones then go by the new time.
    if (result.decisions === undefined) this.#options.heartbeat.sayAlive().catch(() => {});
    return result;
  }

  /** What was reserved when nobody waited for it any more. */
  async #giveBack({ request_id }: ReservationRequest, decision: ReservationDecision): Promise<void> {
    if (decision !== LATE && decision.exceeded.length === 0) await this.#options.giveBack(request_id);
  }
}
