import { setTimeout as delay } from 'node:timers/promises';
import type {
  Clock,
  LimitStatus,
  Log,
  MoveDecision,
  ReservationDecision,
  ReservationRequest,
} from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import { createRetryPause } from '../../../base/kit/retry-pause.ts';
import type { Database } from '../../../base/store/database.ts';
import { counterName } from '../ledger/batch-request.ts';
import type { Heartbeat } from '../ledger/heartbeat.ts';
import { hasMoreRoom, type LeaseStatements } from './lease-statements.ts';
import {
  Crowd,
  type Ending,
  type Granted,
  LEASE_POLICY,
  LeasedRoom,
  type LeasePolicy,
  type Moment,
  type Part,
  type Placement,
  type Wish,
} from './leased-room.ts';
import { RowSender, type SentRow } from './row-sender.ts';

/** Where processes ask each other for leases, with the ids of counters. */
const LEASES_CHANNEL = 'appscli_leases';

const TICK_MS = 500;
/** Pauses before a limit that has leases is asked again; together what a refusal may wait for them. */
const RECALL_PAUSES_MS = [2, 5, 10, 20, 40, 80, 160, 320, 320];

/** What leases need. */
export interface LeasesOptions {
  readonly database: Pick<Database, 'lanes' | 'listen'>;
  readonly statements: LeaseStatements;
  readonly heartbeat: Pick<Heartbeat, 'isFresh' | 'databaseNow' | 'doubt' | 'sayAlive'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every: Every;
  /** Asked each time, because a reload can change it. */
  readonly is_on: () => boolean;
  /** Windows are in it. */
  readonly time_zone: () => string;
  readonly policy?: LeasePolicy | undefined;
  /** Does something while nothing is settled or reserved. */
  between(task: () => Promise<void>): Promise<void>;
  /** What was sent already, or store_unavailable when the database takes too long. */
  inTime<Answer>(sent: Promise<Answer>): Promise<Answer>;
}

/** A reservation that was placed in leases. */
export interface Leased extends SentRow {
  readonly statuses: readonly LimitStatus[];
}

/** How reservations were made, and what was done about leases, since the start. */
export interface LeaseCounts {
  leased: number;
  waited: number;
  taken: number;
  refused: number;
  recalled: number;
}

/** The leases of one process. */
export class Leases {
  readonly counts: LeaseCounts = { leased: 0, waited: 0, taken: 0, refused: 0, recalled: 0 };
  readonly #options: LeasesOptions;
  readonly #room: LeasedRoom;
  readonly #share: number;
  readonly #sender: RowSender;
  readonly #retry = createRetryPause();
  readonly #stopTimer: () => void;
  /** What is leased in the database is under this id. */
  #lease_id = crypto.randomUUID() as string;
  /** The leases of an id that is given up are on their way back. */
  #starting_anew: Promise<void> | undefined;
  #keeping: Promise<void> | undefined;
  #returning_others = false;
  #closed = false;
  readonly #crowd = new Crowd();
  /** Known once it is first asked: leases are opened before the configuration is in force. */
  #time_zone: string | undefined;

  constructor(options: LeasesOptions) {
    const { database, statements, log, every, policy = LEASE_POLICY } = options;
    this.#options = options;
    this.#room = new LeasedRoom(policy);
    this.#share = policy.share;
    const onFailure = (error: unknown) => this.#startAnew(error);
    const mayBeSent = () => options.heartbeat.isFresh();
    this.#sender = new RowSender({ lanes: database.lanes, statements, log, mayBeSent, onFailure });
    this.#stopTimer = every(TICK_MS, () => this.#tick());
    void database.listen(
      LEASES_CHANNEL,
      (ids) => this.#recall(ids.split(',').map(Number)),
      () => this.#giveBackAll(),
    );
  }

  /** Takes note of a request, whichever way it goes. */
  note(parts: readonly Part[]): void {
    const now = this.#options.clock.monotonic();
    // Without a lane nothing can be placed: behind a connection pooler, or while the server has no connection to spare.
    if (!this.#is_usable || !this.#sender.is_well || this.#crowd.isThere(now)) return;
    this.#room.note(parts, now);
    if (this.#room.has_errands) this.#keepSoon();
  }

  /** Places a request in leases and sends its row; `undefined` where that cannot be: nothing has happened then. */
  async place(request: ReservationRequest, parts: readonly Part[]): Promise<Leased | undefined> {
    const is_crowded = this.#crowd.isThere(this.#options.clock.monotonic(), 1);
    const placement = is_crowded ? undefined : this.#place(request, parts);
    if (placement === undefined) {
      this.counts.waited++;
      return undefined;
    }
    const statuses = this.#room.statuses(placement);
    const lease_id = this.#lease_id;
    const sent = await this.#sender.send({ lease_id, placement });
    if (sent === undefined) {
      if (lease_id === this.#lease_id) this.#room.undo(placement);
      this.counts.waited++;
      return undefined;
    }
    const is_sure = sent.is_handed && this.#options.heartbeat.isFresh();
    if (!is_sure && (await this.#options.inTime(this.#takeBack(request, sent)))) {
      this.counts.waited++;
      return undefined;
    }
    this.counts.leased++;
    return { ...sent, statuses };
  }

  /**
   * The process slept while a row was sent, and others may have given its leases away before; or the row may not have been sent at
   * all. Where they recorded the request as one that nobody settles, its row had come before that. Raises store_unavailable.
   */
  async #takeBack({ request_id }: ReservationRequest, { written }: SentRow): Promise<boolean> {
    return (await written) && this.#options.statements.takeBack(request_id);
  }

  /** What the database told of limits, without what is leased here. */
  learn(statuses: readonly LimitStatus[]): readonly LimitStatus[] {
    return this.#room.is_empty ? statuses : this.#room.learn(statuses);
  }

  /** A reservation is over, which came to so much in the unit of each part; `ended` when that is written. */
  over(parts: readonly Part[], spent: readonly number[]): Ending {
    return this.#room.over(parts, spent);
  }

  /** The end of a reservation is written, or never will be. */
  ended(ending: Ending): void {
    this.#room.ended(ending);
  }

  /**
   * Asks for the leases on limits that had no room, and decides again: until there is room, or nobody keeps any, or it takes too
   * long. Raises store_unavailable.
   * @param is_moved whether what is told of the limits is without what the request has there, and can't be compared
   */
  async withoutLeases<Decision extends Pick<ReservationDecision & MoveDecision, 'exceeded'>>(
    first: Decision,
    decide: () => Promise<Decision>,
    is_moved: boolean,
  ): Promise<Decision> {
    let decision = first;
    // What others fill at once, whenever some of it is free, is no reason to decide for ever.
    let was_leased = true;
    for (const pause_ms of RECALL_PAUSES_MS) {
      const { exceeded } = decision;
      if (exceeded.length === 0) break;
      if (exceeded.some((limit) => this.#room.giveBack(counterName(limit), this.#options.clock.monotonic())))
        await this.#keep();
      const looked_at = await this.#options.statements.recall(exceeded);
      const is_leased = looked_at.some(({ leased }) => leased);
      const has_changed = is_moved || looked_at.some((counter, i) => hasMoreRoom(counter, exceeded[i]!));
      if (!is_leased && !(was_leased && has_changed)) break;
      was_leased = is_leased;
      this.counts.recalled++;
      if (is_leased) await delay(pause_ms);
      decision = await decide();
    }
    return decision;
  }

  /** Gives back what may have been leased under other ids; for times of doubt. */
  async returnOthers(): Promise<void> {
    this.#returning_others = true;
    try {
      await this.#options.statements.returnAll(this.#lease_id);
    } finally {
      this.#returning_others = false;
    }
  }

  /** The process was away for so long that others may have given its leases away. */
  lapse(): void {
    this.#startAnew(new Error('the database did not hear of this process for too long'));
  }

  /** Places nothing any more, and gives back everything. Rows are tried to the end of their writing. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#stopTimer();
    this.#sender.giveUp();
    this.#room.forget();
    await this.#keeping;
    await this.#options.statements.returnAll(null).catch(() => {});
  }

  /** Tries no more to write rows. */
  end(): void {
    this.#retry.end();
    this.#sender.end();
  }

  get #is_usable(): boolean {
    const { is_on, database } = this.#options;
    return this.#starting_anew === undefined && !this.#closed && is_on() && database.lanes().count > 0;
  }

  #place(request: ReservationRequest, parts: readonly Part[]): Placement | undefined {
    this.#noteTimeZone();
    if (!this.#is_usable || parts.length === 0 || this.#room.is_empty) return undefined;
    if (!this.#options.heartbeat.isFresh() || !this.#sender.is_well) return undefined;
    const at = this.#moment();
    return at && this.#room.place(request, parts, at);
  }

  /** In another time zone windows begin and end at other times: what was leased in them is of no use. */
  #noteTimeZone(): void {
    const time_zone = this.#options.time_zone();
    if (time_zone === this.#time_zone) return;
    const is_first = this.#time_zone === undefined;
    this.#time_zone = time_zone;
    if (!is_first) this.#room.giveBackAll();
  }

  #moment(): Moment | undefined {
    const database = this.#options.heartbeat.databaseNow();
    return database === undefined ? undefined : { database, monotonic: this.#options.clock.monotonic() };
  }

  #tick(): void {
    if (!this.#options.is_on()) this.#room.giveBackAll();
    this.#noteTimeZone();
    const at = this.#moment();
    if (at !== undefined) this.#room.giveBackIdle(at);
    if (this.#room.has_errands) this.#keepSoon();
  }

  #recall(ids: readonly number[]): void {
    this.#room.recall(ids, this.#options.clock.monotonic());
    if (this.#room.has_errands) this.#keepSoon();
  }

  /** Somebody may have asked, and was not heard. */
  #giveBackAll(): void {
    this.#room.giveBackAll();
    this.#keepSoon();
  }

  #keepSoon(): void {
    if (this.#keeping === undefined && this.#starting_anew === undefined) void this.#keep();
  }

  /** Gives back and takes what is to be; resolves when what was to be given back at this moment is. */
  async #keep(): Promise<void> {
    await this.#keeping;
    if (this.#starting_anew !== undefined || !this.#room.has_errands) return;
    this.#keeping ??= this.#keepNow().finally(() => {
      this.#keeping = undefined;
      if (this.#room.has_errands) this.#keepSoon();
    });
    await this.#keeping;
  }

  async #keepNow(): Promise<void> {
    const { statements, clock, between } = this.#options;
    try {
      await between(async () => {
        const lease_id = this.#lease_id;
        const { time_zone } = this.#options;
        const zone = time_zone();
        const returns = this.#room.takeReturns();
        const wishes = this.#room.takeWishes(clock.monotonic());
        if (returns.length + wishes.length === 0) return;
        const granted = await statements.keep(lease_id, returns, wishes, this.#share);
        // At once: what is settled next is no part of what was told.
        if (this.#starting_anew === undefined) this.#granted(wishes, granted);
        if (time_zone() !== zone) this.#room.giveBackAll();
      });
    } catch (error) {
      this.#startAnew(error);
    }
  }

  #granted(wishes: readonly Wish[], granted: readonly Granted[]): void {
    for (let i = 0; i < wishes.length; i++) {
      this.#room.granted(wishes[i]!, granted[i]!, this.#options.clock.monotonic());
      if (granted[i]!.taken) this.counts.taken++;
      else this.counts.refused++;
    }
  }

  /** What the database has of these leases is not known any more: they are given back, and others taken. */
  #startAnew(error: unknown): void {
    if (this.#starting_anew !== undefined || this.#closed) return;
    this.#options.log.debug({ err: error }, 'all leases are given back');
    this.#room.forget();
    this.#sender.giveUp();
    this.#options.heartbeat.doubt();
    this.#starting_anew = this.#returnAll().finally(() => {
      this.#starting_anew = undefined;
    });
  }

  async #returnAll(): Promise<void> {
    while (!this.#retry.over) {
      await this.#retry.wait();
      // Rows that were sent take their amounts from the leases they were placed in, and what returns others knows the id so far.
      if (this.#sender.unwritten > 0 || this.#keeping !== undefined || this.#returning_others) continue;
      try {
        await this.#options.heartbeat.sayAlive();
        await this.#options.statements.returnAll(null);
        this.#lease_id = crypto.randomUUID();
        this.#retry.reset();
        return;
      } catch (error) {
        this.#options.log.debug({ err: error }, 'leases could not be given back yet');
      }
    }
  }
}
