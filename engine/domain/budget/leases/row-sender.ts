import type { Log } from '../../../base/contract/services.ts';
import { createRetryPause } from '../../../base/kit/retry-pause.ts';
import type { Lanes, SentStatement } from '../../../base/store/lanes.ts';
import { isPermanent } from '../../../base/store/store-errors.ts';
import type { LeasedRow, LeaseStatements } from './lease-statements.ts';

/** A row that is on its way to the database, whatever becomes of this process. */
export interface SentRow {
  /** Whether all of it is known to be with the operating system. */
  readonly is_handed: boolean;
  /** Resolves with whether the row could be written; it is tried until it can. Never rejects. */
  readonly written: Promise<boolean>;
}

interface Waiting {
  readonly row: LeasedRow;
  /** Real time, also where the ledger's clock stands still. */
  readonly since: number;
  /** With nothing where the row could not be sent. */
  resolve(sent: SentRow | undefined): void;
}

interface Unwritten {
  readonly row: LeasedRow;
  readonly written: Promise<boolean>;
  end(written: boolean): void;
}

/** What a sender needs. */
export interface RowSenderOptions {
  /** Opened when they are first needed. */
  lanes(): Pick<Lanes, 'free'>;
  readonly statements: Pick<LeaseStatements, 'place' | 'placeAgain'>;
  readonly log: Log;
  /** Asked at the last moment before rows are sent: whether they may be. */
  mayBeSent(): boolean;
  /** Called when a statement failed. */
  onFailure(error: unknown): void;
}

/** Longest wait for a lane, and for an answer before nothing more is placed. */
const OVERDUE_MS = 250;
const MAX_ROWS = 500;
const MAX_AGAIN = 100;
/** While more rows than this are unanswered, what comes next waits for them and shares a statement. */
const FEW = 8;

/** Sends rows of reservations that were placed in leases, and sees to it that they are written. */
export class RowSender {
  readonly #options: RowSenderOptions;
  readonly #queue: Waiting[] = [];
  readonly #sent = new Set<{ readonly at: number }>();
  readonly #again: Unwritten[] = [];
  readonly #retry = createRetryPause();
  #unanswered = 0;
  #unwritten = 0;
  #scheduled = false;
  #patience: NodeJS.Timeout | undefined;
  #trying = false;

  constructor(options: RowSenderOptions) {
    this.#options = options;
  }

  /** Rows that were sent and are not known to be written. */
  get unwritten(): number {
    return this.#unwritten;
  }

  /** Whether rows are answered, so that more may be sent. */
  get is_well(): boolean {
    if (this.#again.length > 0) return false;
    const late = performance.now() - OVERDUE_MS;
    for (const { at } of this.#sent) if (at < late) return false;
    return this.#sent.size > 0 || this.#options.lanes().free() !== undefined;
  }

  /**
   * Resolves when the row is with the operating system or its connection broke on the way, or with nothing where no lane was free
   * for too long: then it is not sent any more.
   */
  send(row: LeasedRow): Promise<SentRow | undefined> {
    return new Promise((resolve) => {
      this.#queue.push({ row, since: performance.now(), resolve });
      this.#schedule();
    });
  }

  /** Sends nothing of what still waits. */
  giveUp(): void {
    for (const { resolve } of this.#queue.splice(0)) resolve(undefined);
  }

  /** Tries no more to write what could not be written. */
  end(): void {
    this.#retry.end();
    this.giveUp();
  }

  // Everything that arrives in one turn of the event loop shares a statement.
  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (!this.#options.mayBeSent()) this.giveUp();
    while (this.#queue.length > 0) {
      const lane = this.#unanswered > FEW ? undefined : this.#options.lanes().free();
      if (lane === undefined) {
        this.#watch();
        return;
      }
      const batch = this.#queue.splice(0, MAX_ROWS);
      const rows = batch.map(({ row }) => toWrite(row));
      this.#unwritten += rows.length;
      void this.#follow(
        this.#options.statements.place(
          lane,
          batch.map(({ row }) => row),
        ),
        batch,
        rows,
      );
    }
  }

  async #follow(statement: SentStatement, batch: readonly Waiting[], rows: readonly Unwritten[]): Promise<void> {
    const sent = { at: performance.now() };
    this.#sent.add(sent);
    this.#unanswered += rows.length;
    const tell = (is_handed: boolean) => {
      for (let i = 0; i < batch.length; i++) batch[i]!.resolve({ is_handed, written: rows[i]!.written });
    };
    let is_told = statement.handed === undefined;
    if (is_told) tell(true);
    else {
      statement.handed!.then(
        () => {
          is_told = true;
          tell(true);
        },
        () => {},
      );
    }
    try {
      await statement.answered;
      if (!is_told) tell(true);
      this.#written(rows);
    } catch (error) {
      // Whether all of it was sent is not known: it is written, and whoever waits for it takes it back.
      if (!is_told) tell(false);
      this.#options.onFailure(error);
      this.#again.push(...rows);
      void this.#tryAgain();
    } finally {
      this.#sent.delete(sent);
      this.#unanswered -= rows.length;
      this.#schedule();
    }
  }

  #written(rows: readonly Unwritten[]): void {
    this.#unwritten -= rows.length;
    for (const { end } of rows) end(true);
  }

  /** What waits for too long for a lane is not sent. */
  #watch(): void {
    this.#patience ??= setTimeout(() => {
      this.#patience = undefined;
      const late = performance.now() - OVERDUE_MS;
      while (this.#queue.length > 0 && this.#queue[0]!.since <= late) this.#queue.shift()!.resolve(undefined);
      if (this.#queue.length > 0) this.#watch();
    }, OVERDUE_MS);
  }

  async #tryAgain(): Promise<void> {
    if (this.#trying) return;
    this.#trying = true;
    while (this.#again.length > 0) {
      const { lease_id } = this.#again[0]!.row;
      const rows = this.#again.filter(({ row }) => row.lease_id === lease_id).slice(0, MAX_AGAIN);
      const gone = await this.#writeAgain(rows);
      for (const each of gone) this.#again.splice(this.#again.indexOf(each), 1);
      if (gone.length < rows.length) await this.#retry.wait();
    }
    this.#trying = false;
  }

  /** @returns those that need not be tried any more. */
  async #writeAgain(rows: readonly Unwritten[]): Promise<readonly Unwritten[]> {
    try {
      await this.#options.statements.placeAgain(rows.map(({ row }) => row));
      this.#retry.reset();
      this.#written(rows);
      return rows;
    } catch (error) {
      if (isPermanent(error) && rows.length > 1) {
        const gone: Unwritten[] = [];
        for (const each of rows) gone.push(...(await this.#writeAgain([each])));
        return gone;
      }
      if (!isPermanent(error) && !this.#retry.over) return [];
      this.#unwritten -= rows.length;
      for (const { row, end } of rows) {
        const { request_id } = row.placement.request;
        this.#options.log.error(
          { err: error, request_id },
          'the reservation of a forwarded request could not be written',
        );
        end(false);
      }
      return rows;
    }
  }
}

function toWrite(row: LeasedRow): Unwritten {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  return { row, written: promise, end: resolve };
}
