import { setTimeout as delay } from 'node:timers/promises';
import type { Clock, ReservationDecision, ReservationRequest, Settlement } from '../../../base/contract/services.ts';
import { createGroupCommit, type GroupCommit } from '../../../base/kit/group-commit.ts';
import { isPermanent, StoreTimeout } from '../../../base/store/store-errors.ts';
import type { Ending } from '../leases/leased-room.ts';
import type { Leases } from '../leases/leases.ts';
import type { Heartbeat } from './heartbeat.ts';
import type { BatchResult, LedgerStatements } from './ledger-statements.ts';

const MAX_BATCH = 500;
/** How long entries without a waiting client, such as settlements, wait to share a statement. */
const DELAY_MS = 25;
/** Longer than the usual reservation timeout, and shorter than the time a stopping gateway waits for its ledger. */
const CLOSE_TIMEOUT_MS = 6500;
const STEP_MS = 50;

/** A request waiting for its reservation; `given_up` after the timeout, so that it is left out of the next batch. */
interface Waiting {
  readonly reserve: ReservationRequest;
  given_up: boolean;
}
interface SettleEntry {
  readonly settle: Settlement;
  readonly ending: Ending | undefined;
}
/** Every batch carries lease changes; this entry only triggers a batch. */
const LEASE_CHANGES = { lease_changes: true } as const;
type Entry = Waiting | SettleEntry | typeof LEASE_CHANGES;
/** The decision of a reservation, or whether a settlement was written. */
type EntryResult = ReservationDecision | boolean;

/** The reservation came after its deadline: nothing is reserved. */
const LATE: ReservationDecision = { exceeded: [], shadows: [], statuses: [], unreserved: true };
/** Placeholder of entries without a result. */
const NOTHING: ReservationDecision = { ...LATE };

/** Dependencies of the batches. */
export interface BatchesOptions {
  readonly statements: Pick<LedgerStatements, 'spend'>;
  readonly heartbeat: Pick<Heartbeat, 'register' | 'sayAlive' | 'databaseTimeOf'>;
  readonly leases: Pick<Leases, 'changes' | 'learn' | 'done' | 'failed'> | undefined;
  readonly clock: Clock;
  readonly time_zone: () => string;
  readonly reserve_timeout_ms: () => number;
  /** Releases a reservation that was made after its caller timed out. */
  releaseLate(request_id: string): Promise<void>;
}

/**
 * The group commit of one process: settlements, lease changes and reservations in batches, one statement at a time, so that
 * counters arrive in commit order.
 */
export class Batches {
  readonly #options: BatchesOptions;
  readonly #entries: GroupCommit<Entry, EntryResult>;
  /** Until this monotonic time the database may still make reservations without this process knowing. */
  #undecided_until = Number.NEGATIVE_INFINITY;

  constructor(options: BatchesOptions) {
    this.#options = options;
    this.#entries = createGroupCommit({
      lanes: 1,
      max_items: MAX_BATCH,
      patience_ms: DELAY_MS,
      isolates: isPermanent,
      execute: (entries) => this.#execute(entries),
    });
  }

  /** Reserves. Raises store_unavailable on timeout; a reservation that is made later is released. */
  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    const waiting: Waiting = { reserve: request, given_up: false };
    const decided = this.#entries.run(waiting) as Promise<ReservationDecision>;
    const decision = await this.inTime(decided, () => {
      waiting.given_up = true;
      decided
        .then(async (late) => {
          if (late !== LATE && late !== NOTHING && late.exceeded.length === 0)
            await this.#options.releaseLate(request.request_id);
        })
        .catch(() => {});
    });
    if (decision === LATE) throw new StoreTimeout();
    return decision;
  }

  /** Waits for a sent statement. Raises store_unavailable on timeout. */
  async inTime<Answer>(sent: Promise<Answer>, onGivenUp = () => {}): Promise<Answer> {
    const { promise: too_late, reject } = Promise.withResolvers<never>();
    let over = false;
    const giveUp = () => {
      if (over) return;
      onGivenUp();
      reject(new StoreTimeout());
    };
    // setImmediate: a reply that has arrived but is not processed yet, because this process is busy, is not late.
    const timer = this.#options.clock.after(this.#options.reserve_timeout_ms(), () => setImmediate(giveUp));
    try {
      return await Promise.race([sent, too_late]);
    } finally {
      over = true;
      timer.close();
    }
  }

  /** Settles, without retries. @returns whether the row was written; false if it existed. */
  settle(settle: Settlement, at_once: boolean, ending?: Ending): Promise<boolean> {
    const entry: SettleEntry = { settle, ending };
    return (at_once ? this.#entries.run(entry) : this.#entries.runSoon(entry)) as Promise<boolean>;
  }

  /** Sends the lease changes. Raises store_unavailable. */
  async sendChanges(when: 'now' | 'soon'): Promise<void> {
    await (when === 'now' ? this.#entries.run(LEASE_CHANGES) : this.#entries.runSoon(LEASE_CHANGES));
  }

  /** Resolves when no reservation can be made any more: all deadlines have passed, or the maximum wait is over. */
  async over(): Promise<void> {
    const { clock } = this.#options;
    // A frozen clock never reaches the deadline.
    if (clock.frozen) return;
    const close_deadline = clock.monotonic() + CLOSE_TIMEOUT_MS;
    while (clock.monotonic() < Math.min(this.#undecided_until, close_deadline)) await delay(STEP_MS);
  }

  async #execute(entries: readonly Entry[]): Promise<readonly EntryResult[]> {
    const ended = entries.filter((entry) => 'settle' in entry);
    const wanted = () => entries.filter((entry) => 'reserve' in entry).filter(({ given_up }) => !given_up);
    if (wanted().length > 0) await this.#options.heartbeat.register();
    const waiting = wanted();
    const { written, decisions } = await this.#spend(ended, waiting);
    let [settled, reserved] = [0, 0];
    return entries.map((entry) => {
      if ('settle' in entry) return written[settled++]!;
      if (entry !== waiting[reserved]) return NOTHING;
      reserved++;
      return decisions?.[reserved - 1] ?? LATE;
    });
  }

  async #spend(ended: readonly SettleEntry[], waiting: readonly Waiting[]): Promise<BatchResult> {
    const { statements, heartbeat, leases, clock, time_zone, reserve_timeout_ms } = this.#options;
    const changes = leases?.changes();
    if (ended.length + waiting.length === 0 && changes === undefined) return { written: [], decisions: [] };
    const valid_until = waiting.length > 0 ? clock.monotonic() + reserve_timeout_ms() : Number.NEGATIVE_INFINITY;
    const undecided_until = this.#undecided_until;
    this.#undecided_until = Math.max(undecided_until, valid_until);
    for (const { ending } of ended) if (ending !== undefined) ending.sent = true;
    const zone = time_zone();
    const batch = {
      settlements: ended.map(({ settle }) => settle),
      requests: waiting.map(({ reserve }) => reserve),
      ...(waiting.length > 0 && { valid_until: heartbeat.databaseTimeOf(valid_until) }),
      ...changes,
    };
    try {
      const result = await statements.spend(
        batch,
        leases && ((names, news) => leases.learn(names, news, changes?.lots)),
      );
      this.#undecided_until = undecided_until;
      if (changes !== undefined) leases!.done(zone);
      // The database's clock may have been changed: a heartbeat measures it again.
      if (result.decisions === undefined) heartbeat.sayAlive().catch(() => {});
      return result;
    } catch (error) {
      for (const { ending } of ended) if (ending !== undefined) ending.sent = false;
      if (changes !== undefined) leases!.failed(error);
      throw error;
    }
  }
}
