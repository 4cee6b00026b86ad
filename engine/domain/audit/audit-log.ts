import { type FileHandle, open } from 'node:fs/promises';
import type { AuditLog, AuditRecord, Clock, Log } from '../../base/contract/services.ts';
import { type Every, everyInBackground } from '../../base/kit/clock.ts';
import { storableJson } from '../../base/kit/storable.ts';
import { waitAtMost } from '../../base/kit/wait-at-most.ts';
import type { Database } from '../../base/store/database.ts';
import { isPermanent } from '../../base/store/store-errors.ts';

const MAX_WAITING = 10_000;

/**
 * A file that lines are appended to, in order, without waiting; readable by its owner only. While it can't be written to,
 * lines wait for the next one that comes; the oldest are dropped beyond 10,000. The log says so once per trouble.
 */
class LineFile {
  readonly #path: string;
  readonly #log: Log;
  #waiting: string[] = [];
  /** Bytes whose writing began; they end before anything else begins, so that no line is ever torn. */
  #begun: Buffer | undefined;
  #file: FileHandle | undefined;
  #writing: Promise<void> | undefined;
  #dropped = 0;
  #in_trouble = false;

  constructor(path: string, log: Log) {
    this.#path = path;
    this.#log = log;
  }

  /** @param line holds no line break. */
  append(line: string): void {
    this.#waiting.push(line);
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift();
      this.#dropped++;
    }
    this.#flush();
  }

  /** Resolves when what was appended is written, or can't be. */
  async close(): Promise<void> {
    await this.#flush();
    await this.#flush();
    const lines = this.#waiting.length + this.#dropped;
    if (lines > 0) {
      this.#log.error({ path: this.#path, lines }, 'lines were lost because this file could not be written to');
    }
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
      // What came between the last look and now did not start a writing of its own.
      this.#flush();
      if (this.#in_trouble) this.#log.warn({ path, dropped: this.#dropped }, 'lines can be written to this file again');
      this.#in_trouble = false;
      this.#dropped = 0;
    } catch (error) {
      if (!this.#in_trouble) {
        this.#log.error({ path, err: error }, 'lines cannot be written to this file; they wait in memory');
      }
      this.#in_trouble = true;
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
const CLOSE_PATIENCE_MS = 1500;
const STANDARD_OUTPUT = '-';

/** A record as the JSON text it will be sent as: a text costs the garbage collector less than thirty fields while it waits. */
type Queued = string;

/** Where records are kept that the store doesn't take now, and how many are. */
export interface RecordSpool {
  readonly records: number;
  /** Durable when it resolves. Raises what keeps it from that. */
  keepRecords(texts: readonly string[]): Promise<void>;
}

/** What an audit log depends on. */
export interface AuditLogOptions {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
  readonly standard_output?: { write(text: string): unknown };
  readonly spool?: RecordSpool;
}

/**
 * The audit log of one process; needs no database yet. While the store is away records are kept in the spool, and written in
 * their order when it is back. Where that can't be, 10,000 of them are kept in memory, then the oldest are dropped.
 */
export class OpenAuditLog implements AuditLog {
  readonly #database: Pick<Database, 'query'>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #standard_output: { write(text: string): unknown };
  readonly #spool: RecordSpool | undefined;
  readonly #stopFlushing: () => void;
  readonly #files = new Map<string, LineFile>();
  readonly #queue: Queued[] = [];
  /** What a statement is writing now; whether it did may stay unknown. */
  #in_flight: readonly Queued[] = [];
  #writing: Promise<void> | undefined;
  #spilling = false;
  #last_failed = false;
  #dropped = 0;
  #lost = 0;

  constructor(options: AuditLogOptions) {
    this.#database = options.database;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#standard_output = options.standard_output ?? process.stdout;
    this.#spool = options.spool;
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
    const request_id = requestIdOf(record);
    try {
      this.#queue.push(storableJson({ at_ms: this.#clock.now(), request_id, record }));
    } catch (error) {
      this.#lost++;
      this.#log.error({ err: error, request_id }, 'an audit record cannot be stored');
    }
    // A silent database keeps the statement before this one waiting.
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
      this.#standard_output.write(`${line}\n`);
      return;
    }
    let file = this.#files.get(path);
    if (file === undefined) {
      file = new LineFile(path, this.#log);
      this.#files.set(path, file);
    }
    file.append(line);
  }

  /** Writes what is queued, as far as possible now. A timer calls it; so may a test. Never rejects. */
  flush(): Promise<void> {
    if (this.#queue.length > 0) {
      this.#writing ??= this.#writeQueue().finally(() => {
        this.#writing = undefined;
      });
    }
    return this.#writing ?? Promise.resolve();
  }

  /**
   * Writes records that were kept elsewhere; one that is there already changes nothing. Raises store_unavailable, and the
   * database's error when it is another one than they belong to.
   */
  async writeAgain(texts: readonly string[], database_id: string): Promise<void> {
    const text = 'select audit_append($1, true) where is_database($2)';
    await this.#insertAll(texts, async (some) => {
      await this.#database.query('audit_append_again', text, [`[${some.join(',')}]`, database_id]);
    });
  }

  /** Writes what is queued, for at most 1.5 seconds; keeps the rest in the spool, where there is one. */
  async close(): Promise<void> {
    this.#stopFlushing();
    await waitAtMost(CLOSE_PATIENCE_MS, this.#flushUntilEmpty());
    this.#putBack();
    if (this.#queue.length > 0) await waitAtMost(CLOSE_PATIENCE_MS, this.#spill());
    const records = this.#queue.length + this.#dropped;
    if (records > 0) this.#log.error({ records }, 'audit records were lost because the database is away');
    await Promise.all([...this.#files.values()].map((file) => file.close()));
  }

  async #flushUntilEmpty(): Promise<void> {
    do await this.flush();
    while (this.#queue.length > 0 && !this.#last_failed);
  }

  async #writeQueue(): Promise<void> {
    while (this.#queue.length > 0) {
      // What came before is on the disk still, and is written first.
      if (this.#spool !== undefined && this.#spool.records > 0 && (await this.#spill())) return;
      const batch = this.#queue.splice(0, MAX_BATCH);
      try {
        this.#in_flight = batch;
        await this.#insertAll(batch, (some) => this.#insert(some, this.#last_failed || some !== batch));
        this.#in_flight = [];
      } catch (error) {
        this.#putBack();
        await this.#wait(error);
        return;
      }
      if (this.#dropped > 0) {
        this.#log.error({ records: this.#dropped }, 'audit records were lost while the database was away');
      }
      this.#last_failed = false;
      this.#dropped = 0;
    }
  }

  async #wait(error: unknown): Promise<void> {
    if (await this.#spill()) {
      this.#log.warn({ err: error }, 'audit records wait in the spool until the database is back');
      return;
    }
    if (!this.#last_failed) this.#log.warn({ err: error }, 'audit records wait in memory until the database is back');
    this.#last_failed = true;
  }

  #putBack(): void {
    this.#queue.unshift(...this.#in_flight);
    this.#in_flight = [];
  }

  async #insert(batch: readonly Queued[], again: boolean): Promise<void> {
    await this.#database.query('audit_append', 'select audit_append($1, $2)', [`[${batch.join(',')}]`, again]);
  }

  async #insertAll(batch: readonly Queued[], insert: (some: readonly Queued[]) => Promise<void>): Promise<void> {
    try {
      await insert(batch);
    } catch (error) {
      if (!isPermanent(error)) throw error;
      for (const text of batch) {
        await insert([text]).catch((error) => {
          if (!isPermanent(error)) throw error;
          this.#lost++;
          this.#log.error({ err: error, request_id: JSON.parse(text).request_id }, 'an audit record cannot be stored');
        });
      }
    }
  }

  /** Whether the spool took what is queued. */
  async #spill(): Promise<boolean> {
    if (this.#spool === undefined || this.#spilling) return false;
    const batch = this.#queue.splice(0);
    this.#spilling = true;
    try {
      await this.#spool.keepRecords(batch);
      return true;
    } catch (error) {
      this.#queue.unshift(...batch);
      this.#log.debug({ err: error }, 'audit records cannot be kept on the disk');
      return false;
    } finally {
      this.#spilling = false;
    }
  }
}

function requestIdOf({ request_id }: AuditRecord): string | null {
  return typeof request_id === 'string' ? request_id : null;
}
