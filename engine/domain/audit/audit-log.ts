import { type FileHandle, open } from 'node:fs/promises';
import type { AuditLog, AuditRecord, Clock, Log } from '../../base/contract/services.ts';
import { type Every, everyInBackground } from '../../base/kit/clock.ts';
import { storableJson } from '../../base/kit/storable.ts';
import { waitAtMost } from '../../base/kit/wait-at-most.ts';
import type { Database } from '../../base/store/database.ts';
import { isPermanent } from '../../base/store/store-errors.ts';

const MAX_WAITING = 10_000;

/** File of lines, for its owner only. While it cannot be written, 10,000 lines wait; each outage is logged once. */
class LineFile {
  readonly #path: string;
  readonly #log: Log;
  #waiting: string[] = [];
  /** Bytes of the write in progress. It ends before the next begins, so that no line is torn. */
  #begun: Buffer | undefined;
  #file: FileHandle | undefined;
  #writing: Promise<void> | undefined;
  #dropped = 0;
  #is_failing = false;

  constructor(path: string, log: Log) {
    this.#path = path;
    this.#log = log;
  }

  /** @param line without a line break. */
  append(line: string): void {
    this.#waiting.push(line);
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift();
      this.#dropped++;
    }
    this.#flush();
  }

  async close(): Promise<void> {
    await this.#flush();
    await this.#flush();
    const lines = this.#waiting.length + this.#dropped;
    if (lines > 0) this.#log.error({ path: this.#path, lines }, 'lost lines: this file could not be written');
    await this.#file?.close();
    this.#file = undefined;
  }

  #flush(): Promise<void> {
    if (this.#begun !== undefined || this.#waiting.length > 0) this.#writing ??= this.#write();
    return this.#writing ?? Promise.resolve();
  }

  async #write(): Promise<void> {
    const path = this.#path;
    try {
      await this.#writeAll();
      this.#writing = undefined;
      // Lines queued during the last write did not start one.
      this.#flush();
      if (this.#is_failing) this.#log.warn({ path, dropped: this.#dropped }, 'this file can be written again');
      this.#is_failing = false;
      this.#dropped = 0;
    } catch (err) {
      if (!this.#is_failing) this.#log.error({ path, err }, 'cannot write this file; lines wait in memory');
      this.#is_failing = true;
      await this.#file?.close().catch(() => {});
      this.#file = undefined;
      this.#writing = undefined;
    }
  }

  async #writeAll(): Promise<void> {
    while (this.#begun !== undefined || this.#waiting.length > 0) {
      if (this.#begun === undefined) {
        this.#begun = Buffer.from(`${this.#waiting.join('\n')}\n`);
        this.#waiting = [];
      }
      this.#file ??= await open(this.#path, 'a', 0o600);
      const { bytesWritten } = await this.#file.write(this.#begun);
      this.#begun = bytesWritten < this.#begun.length ? this.#begun.subarray(bytesWritten) : undefined;
    }
  }
}

const MAX_QUEUED = 10_000;
const MAX_BATCH = 500;
const FLUSH_MS = 50;
const CLOSE_TIMEOUT_MS = 1500;
const STANDARD_OUTPUT = '-';

/** Spool for records that the database does not accept now. */
interface RecordSpool {
  /** Whether it has records for the current database. */
  readonly has_records: boolean;
  /** Durable when it resolves. Raises the error of the disk. */
  keepRecords(texts: readonly string[]): Promise<void>;
}

export interface AuditLogOptions {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
  readonly standard_output?: { write(text: string): unknown };
  readonly spool?: RecordSpool;
}

/** Write-behind audit log of a process; during an outage of the database records wait in the spool, else in memory. */
export class OpenAuditLog implements AuditLog {
  readonly #options: AuditLogOptions;
  readonly #stopFlushing: () => void;
  readonly #files = new Map<string, LineFile>();
  /** Records as JSON: while they wait, a string costs the garbage collector less than thirty fields. */
  readonly #queue: string[] = [];
  /** Records of the statement in progress; its outcome may stay unknown. */
  #in_flight: readonly string[] = [];
  #writing: Promise<void> | undefined;
  #spilling = false;
  #last_failed = false;
  #dropped = 0;
  #lost = 0;

  constructor(options: AuditLogOptions) {
    this.#options = options;
    const { every = everyInBackground } = options;
    this.#stopFlushing = every(FLUSH_MS, () => this.flush());
  }

  get waiting(): number {
    return this.#queue.length + this.#in_flight.length;
  }

  get lost(): number {
    return this.#lost;
  }

  write(record: AuditRecord): void {
    const request_id = typeof record.request_id === 'string' ? record.request_id : null;
    try {
      this.#queue.push(storableJson({ at_ms: this.#options.clock.now(), request_id, record }));
    } catch (error) {
      this.#lost++;
      this.#options.log.error({ err: error, request_id }, 'cannot store an audit record');
    }
    // A database that does not respond keeps the previous statement waiting.
    if (this.#queue.length === MAX_QUEUED / 2) void this.#spill();
    if (this.#queue.length > MAX_QUEUED) {
      this.#queue.shift();
      this.#dropped++;
      this.#lost++;
    }
  }

  appendLine(path: string, record: AuditRecord): void {
    const line = JSON.stringify(record);
    if (path === STANDARD_OUTPUT) {
      (this.#options.standard_output ?? process.stdout).write(`${line}\n`);
      return;
    }
    const file = this.#files.get(path) ?? new LineFile(path, this.#options.log);
    this.#files.set(path, file);
    file.append(line);
  }

  /** Writes the queue, as far as possible now. Called by a timer. Never rejects. */
  flush(): Promise<void> {
    if (this.#queue.length > 0) {
      this.#writing ??= this.#writeQueue().finally(() => {
        this.#writing = undefined;
      });
    }
    return this.#writing ?? Promise.resolve();
  }

  /** Writes spooled records, each once. Raises store_unavailable, and an error for another database. */
  async writeAgain(texts: readonly string[], database_id: string): Promise<void> {
    const text = 'select audit_append($1, true) where is_database($2)';
    await this.#insertAll(texts, async (some) => {
      await this.#options.database.query('audit_append_again', text, [`[${some.join(',')}]`, database_id]);
    });
  }

  /** Writes the queue for at most 1.5 seconds, and the rest to the spool if there is one. */
  async close(): Promise<void> {
    this.#stopFlushing();
    await waitAtMost(CLOSE_TIMEOUT_MS, this.#flushUntilEmpty());
    this.#putBack();
    if (this.#queue.length > 0) await waitAtMost(CLOSE_TIMEOUT_MS, this.#spill());
    const records = this.#queue.length + this.#dropped;
    if (records > 0) this.#options.log.error({ records }, 'lost audit records: the database is unavailable');
    await Promise.all([...this.#files.values()].map((file) => file.close()));
  }

  async #flushUntilEmpty(): Promise<void> {
    do await this.flush();
    while (this.#queue.length > 0 && !this.#last_failed);
  }

  async #writeQueue(): Promise<void> {
    while (this.#queue.length > 0) {
      // Earlier records are still on disk and are written first.
      if (this.#options.spool?.has_records && (await this.#spill())) return;
      const batch = this.#queue.splice(0, MAX_BATCH);
      try {
        this.#in_flight = batch;
        await this.#insertAll(batch, (some) => this.#insert(some, this.#last_failed || some !== batch));
        this.#in_flight = [];
      } catch (error) {
        this.#putBack();
        await this.#spoolAfterFailure(error);
        return;
      }
      if (this.#dropped > 0) {
        this.#options.log.error({ records: this.#dropped }, 'lost audit records while the database was unavailable');
      }
      this.#last_failed = false;
      this.#dropped = 0;
    }
  }

  async #spoolAfterFailure(err: unknown): Promise<void> {
    const is_spooled = await this.#spill();
    const where = is_spooled ? 'in the spool' : 'in memory';
    if (is_spooled || !this.#last_failed)
      this.#options.log.warn({ err }, `the database is unavailable; audit records wait ${where}`);
    this.#last_failed ||= !is_spooled;
  }

  #putBack(): void {
    this.#queue.unshift(...this.#in_flight);
    this.#in_flight = [];
  }

  async #insert(batch: readonly string[], again: boolean): Promise<void> {
    await this.#options.database.query('audit_append', 'select audit_append($1, $2)', [`[${batch.join(',')}]`, again]);
  }

  async #insertAll(batch: readonly string[], insert: (some: readonly string[]) => Promise<void>): Promise<void> {
    try {
      await insert(batch);
    } catch (error) {
      if (!isPermanent(error)) throw error;
      for (const text of batch) {
        await insert([text]).catch((err) => {
          if (!isPermanent(err)) throw err;
          this.#lost++;
          const { request_id } = JSON.parse(text);
          this.#options.log.error({ err, request_id }, 'cannot store an audit record');
        });
      }
    }
  }

  async #spill(): Promise<boolean> {
    if (this.#options.spool === undefined || this.#spilling) return false;
    const batch = this.#queue.splice(0);
    this.#spilling = true;
    try {
      await this.#options.spool.keepRecords(batch);
      return true;
    } catch (error) {
      this.#queue.unshift(...batch);
      this.#options.log.debug({ err: error }, 'cannot spool audit records');
      return false;
    } finally {
      this.#spilling = false;
    }
  }
}
