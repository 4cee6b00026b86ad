import type { AuditLog, AuditRecord, Clock, Log } from '../contract/services.ts';
import { type Every, everyInBackground } from '../kit/clock.ts';
import { type LineFile, openLineFile } from '../kit/files/line-file.ts';
import { storableJson } from '../kit/storable.ts';
import { waitAtMost } from '../kit/wait-at-most.ts';
import type { Database } from '../store/database.ts';
import { isPermanent } from '../store/store-errors.ts';

/** The audit log of one process. */
export interface OpenAuditLog extends AuditLog {
  /** Writes what is queued, as far as possible now. A timer calls it; so may a test. Never rejects. */
  flush(): Promise<void>;
  /**
   * Writes records that were kept elsewhere; one that is there already changes nothing. Raises store_unavailable, and the
   * database's error when it is another one than they belong to.
   */
  writeAgain(texts: readonly string[], database_id: string): Promise<void>;
  /** Writes what is queued, for at most 1.5 seconds; keeps the rest in the spool, where there is one. */
  close(): Promise<void>;
}

const MAX_QUEUED = 10_000;
const MAX_BATCH = 500;
const FLUSH_MS = 50;
const CLOSE_PATIENCE_MS = 1500;
const STANDARD_OUTPUT = '-';

/** A record as the JSON text it will be sent as: a text costs the garbage collector less than thirty fields while it waits. */
type Queued = string;

function queued(at_ms: number, record: AuditRecord): Queued {
  return storableJson({ at_ms, request_id: requestIdOf(record), record });
}

/** Where records are kept that the store doesn't take now, and how many are. */
export interface RecordSpool {
  readonly records: number;
  /** Durable when it resolves. Raises what keeps it from that. */
  keepRecords(texts: readonly string[]): Promise<void>;
}

/**
 * Opens the audit log; needs no database yet. While the store is away records are kept in the spool, and written in their
 * order when it is back. Where that can't be, 10,000 of them are kept in memory, then the oldest are dropped.
 */
export function openAuditLog(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
  readonly standard_output?: { write(text: string): unknown };
  readonly spool?: RecordSpool;
}): OpenAuditLog {
  const { database, clock, log, every = everyInBackground, standard_output = process.stdout, spool } = options;
  const files = new Map<string, LineFile>();
  const queue: Queued[] = [];
  let writing: Promise<void> | undefined;
  let dropped = 0;
  let last_failed = false;
  /** What a statement is writing now; whether it did may stay unknown. */
  let in_flight: readonly Queued[] = [];
  let spilling = false;

  const insert = async (batch: readonly Queued[], again: boolean) => {
    await database.query('audit_append', 'select audit_append($1, $2)', [`[${batch.join(',')}]`, again]);
  };
  const insertIn = (database_id: string) => async (batch: readonly Queued[]) => {
    const text = 'select audit_append($1, true) where is_database($2)';
    await database.query('audit_append_again', text, [`[${batch.join(',')}]`, database_id]);
  };
  const insertAll = async (batch: readonly Queued[], insertSome: (some: readonly Queued[]) => Promise<void>) => {
    try {
      await insertSome(batch);
    } catch (error) {
      if (!isPermanent(error)) throw error;
      for (const text of batch) {
        await insertSome([text]).catch((error) => {
          if (!isPermanent(error)) throw error;
          log.error({ err: error, request_id: JSON.parse(text).request_id }, 'an audit record cannot be stored');
        });
      }
    }
  };
  /** Whether the spool took what is queued. */
  const spill = async (): Promise<boolean> => {
    if (spool === undefined || spilling) return false;
    const batch = queue.splice(0);
    spilling = true;
    try {
      await spool.keepRecords(batch);
      return true;
    } catch (error) {
      queue.unshift(...batch);
      log.debug({ err: error }, 'audit records cannot be kept on the disk');
      return false;
    } finally {
      spilling = false;
    }
  };
  const writeQueue = async () => {
    while (queue.length > 0) {
      // What came before is on the disk still, and is written first.
      if (spool !== undefined && spool.records > 0 && (await spill())) return;
      const batch = queue.splice(0, MAX_BATCH);
      try {
        in_flight = batch;
        await insertAll(batch, (some) => insert(some, last_failed || some !== batch));
        in_flight = [];
      } catch (error) {
        queue.unshift(...in_flight);
        in_flight = [];
        if (await spill()) {
          log.warn({ err: error }, 'audit records wait in the spool until the database is back');
          return;
        }
        if (!last_failed) log.warn({ err: error }, 'audit records wait in memory until the database is back');
        last_failed = true;
        return;
      }
      if (dropped > 0) log.error({ records: dropped }, 'audit records were lost while the database was away');
      last_failed = false;
      dropped = 0;
    }
  };
  const flush = () => {
    if (queue.length > 0) {
      writing ??= writeQueue().finally(() => {
        writing = undefined;
      });
    }
    return writing ?? Promise.resolve();
  };
  const stopFlushing = every(FLUSH_MS, flush);

  const fileAt = (path: string): LineFile => {
    let file = files.get(path);
    if (file === undefined) {
      file = openLineFile(path, log);
      files.set(path, file);
    }
    return file;
  };

  return {
    write(record) {
      try {
        queue.push(queued(clock.now(), record));
      } catch (error) {
        log.error({ err: error, request_id: requestIdOf(record) }, 'an audit record cannot be stored');
      }
      // A silent database keeps the statement before this one waiting.
      if (queue.length === MAX_QUEUED / 2) void spill();
      if (queue.length > MAX_QUEUED) {
        queue.shift();
        dropped++;
      }
    },
    appendLine(path, record) {
      const line = JSON.stringify(record);
      if (path === STANDARD_OUTPUT) standard_output.write(`${line}\n`);
      else fileAt(path).append(line);
    },
    flush,
    writeAgain: (texts, database_id) => insertAll(texts, insertIn(database_id)),
    async close() {
      stopFlushing();
      await waitAtMost(
        CLOSE_PATIENCE_MS,
        flushUntilEmpty(() => queue.length === 0 || last_failed, flush),
      );
      queue.unshift(...in_flight);
      in_flight = [];
      if (queue.length > 0) await waitAtMost(CLOSE_PATIENCE_MS, spill());
      const left = queue.length + dropped;
      if (left > 0) log.error({ records: left }, 'audit records were lost because the database is away');
      await Promise.all([...files.values()].map((file) => file.close()));
    },
  };
}

async function flushUntilEmpty(isDone: () => boolean, flush: () => Promise<void>): Promise<void> {
  do await flush();
  while (!isDone());
}

function requestIdOf({ request_id }: AuditRecord): string | null {
  return typeof request_id === 'string' ? request_id : null;
}
