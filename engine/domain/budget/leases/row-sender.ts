import type { Log } from '../../../base/contract/services.ts';
import { createRetryPause } from '../../../base/kit/retry-pause.ts';
import type { PipelinedConnections, SentStatement } from '../../../base/store/pipelined-connections.ts';
import { isPermanent } from '../../../base/store/store-errors.ts';
import type { LeasedRow, LedgerStatements } from '../ledger/ledger-statements.ts';

/** A row that reaches the database even if this process is killed. */
export interface SentRow {
  /** Whether the operating system has all of it. */
  readonly is_handed: boolean;
  /** Resolves with whether the row was written; retried until it is, or fails for good. Never rejects. */
  readonly written: Promise<boolean>;
}

interface Waiting {
  readonly row: LeasedRow;
  /** Milliseconds of `performance.now()`; the ledger's clock may be frozen. */
  readonly since: number;
  /** Called with `undefined` if the row was not sent. */
  resolve(sent: SentRow | undefined): void;
}

interface Unwritten {
  readonly row: LeasedRow;
  readonly written: Promise<boolean>;
  end(written: boolean): void;
}

interface RowSenderOptions {
  /** The pipelined connections, opened on first use. */
  lanes(): Pick<PipelinedConnections, 'free'>;
  readonly statements: Pick<LedgerStatements, 'place' | 'placeAgain'>;
  readonly log: Log;
  /** Checked right before rows are sent: whether this process may still use its leases. */
  mayBeSent(): boolean;
  /** Called after each failed statement. */
  onFailure(error: unknown): void;
}

/**
 * Milliseconds to wait for a free connection. Also the age of an unanswered statement at which leases are no longer used.
 */
const OVERDUE_MS = 250;
const MAX_ROWS = 500;
/** With more unanswered rows than this, new rows wait and share a statement. */
const FEW = 8;

/** Sends the rows of leased reservations over pipelined connections, and retries them until they are written. */
export class RowSender {
  readonly #options: RowSenderOptions;
  readonly #queue: Waiting[] = [];
  readonly #sent = new Set<{ readonly at: number }>();
  readonly #again: Unwritten[] = [];
  readonly #retry = createRetryPause();
  #unanswered = 0;
  #unwritten = 0;
  #scheduled = false;
  #timeout: NodeJS.Timeout | undefined;
  #trying = false;

  constructor(options: RowSenderOptions) {
    this.#options = options;
  }

  /** Sent rows without a confirmed write. */
  get unwritten(): number {
    return this.#unwritten;
  }

  /** Whether the database confirms rows in time, so that more may be sent. */
  get is_healthy(): boolean {
    if (this.#again.length > 0) return false;
    const late = performance.now() - OVERDUE_MS;
    for (const { at } of this.#sent) if (at < late) return false;
    return this.#sent.size > 0 || this.#options.lanes().free() !== undefined;
  }

  /**
   * Resolves when the operating system has the row, or its connection broke while sending. Resolves with `undefined` if no
   * connection was free in time: the row is then never sent.
   */
  send(row: LeasedRow): Promise<SentRow | undefined> {
    return new Promise((resolve) => {
      this.#queue.push({ row, since: performance.now(), resolve });
      this.#schedule();
    });
  }

  /** Drops the queue without sending it. */
  discardQueue(): void {
    for (const { resolve } of this.#queue.splice(0)) resolve(undefined);
  }

  /** Stops retries and drops the queue. */
  end(): void {
    this.#retry.end();
    this.discardQueue();
  }

  // Rows of one event-loop turn share a statement.
  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (!this.#options.mayBeSent()) this.discardQueue();
    while (this.#queue.length > 0) {
      const lane = this.#unanswered > FEW ? undefined : this.#options.lanes().free();
      if (lane === undefined) {
        this.#watch();
        return;
      }
      const batch = this.#queue.splice(0, MAX_ROWS);
      const sent = batch.map(({ row }) => row);
      this.#unwritten += sent.length;
      void this.#follow(this.#options.statements.place(lane, sent), batch, sent.map(toWrite));
    }
  }

  async #follow(statement: SentStatement, batch: readonly Waiting[], rows: readonly Unwritten[]): Promise<void> {
    const sent = { at: performance.now() };
    this.#sent.add(sent);
    this.#unanswered += rows.length;
    const report = (is_handed: boolean) => {
      for (let i = 0; i < batch.length; i++) batch[i]!.resolve({ is_handed, written: rows[i]!.written });
    };
    let is_reported = statement.handed === undefined;
    if (is_reported) report(true);
    statement.handed?.then(
      () => {
        is_reported = true;
        report(true);
      },
      () => {},
    );
    try {
      await statement.answered;
      if (!is_reported) report(true);
      this.#unwritten -= rows.length;
      for (const { end } of rows) end(true);
    } catch (error) {
      // The row may have been sent in part: it is retried, and the caller releases it.
      if (!is_reported) report(false);
      this.#options.onFailure(error);
      this.#again.push(...rows);
      void this.#tryAgain();
    } finally {
      this.#sent.delete(sent);
      this.#unanswered -= rows.length;
      this.#schedule();
    }
  }

  /** Drops rows that waited too long for a connection. */
  #watch(): void {
    this.#timeout ??= setTimeout(() => {
      this.#timeout = undefined;
      const late = performance.now() - OVERDUE_MS;
      while (this.#queue.length > 0 && this.#queue[0]!.since <= late) this.#queue.shift()!.resolve(undefined);
      if (this.#queue.length > 0) this.#watch();
    }, OVERDUE_MS);
  }

  /** Retries one row at a time: some may exist already, and one may be the cause of the error. */
  async #tryAgain(): Promise<void> {
    if (this.#trying) return;
    this.#trying = true;
    while (this.#again.length > 0) {
      const { row, end } = this.#again[0]!;
      try {
        await this.#options.statements.placeAgain(row);
        this.#retry.reset();
        end(true);
      } catch (err) {
        if (!isPermanent(err)) {
          if (!this.#retry.over) {
            await this.#retry.wait();
            continue;
          }
          // The row counts as unwritten, so that the lease is not returned and orphan recovery finds it.
          this.#unwritten++;
        }
        const { request_id } = row.placement.request;
        this.#options.log.error({ err, request_id }, 'the reservation of a forwarded request could not be written');
        end(false);
      }
      this.#again.shift();
      this.#unwritten--;
    }
    this.#trying = false;
  }
}

function toWrite(row: LeasedRow): Unwritten {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  return { row, written: promise, end: resolve };
}
