import { randomUUID } from 'node:crypto';
import {
  forgetReplica,
  type LoadCause,
  type RecordedLoad,
  type ReplicaConfig,
  recordLoad,
  tellReplica,
  tidyLoads,
} from '../../audit/config-loads.ts';
import type { Clock, Log } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { programVersion } from '../../kit/package-root.ts';
import { replicaName } from '../../kit/process/replica-name.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { Database } from '../../store/database.ts';
import type { KeptConfiguration } from './keep-version.ts';

/** How a load ended. */
export interface EndedLoad {
  readonly cause: LoadCause;
  /** What was read; `undefined` where not even that worked. */
  readonly kept: KeptConfiguration | undefined;
  /** Names of files that differ from what was in force. */
  readonly changed: readonly string[];
  /** What is in force now; absent where the load failed. */
  readonly in_force?: { readonly config_hash: string; readonly needs_restart: readonly string[] };
  /** What failed where no finding says so. */
  readonly problem?: string;
}

/** Writes down what this gateway loads, and says again and again what it runs. */
export interface LoadRecord {
  /** Notes a load. It is written in the background, now or when the database is back. */
  note(load: EndedLoad): void;
  /** Writes what waits, as far as possible now. A timer calls it; so may a test. Never rejects. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

const SAY_AGAIN_MS = 30_000;
const TIDY_EVERY = 120;
/** While the database is away older loads are forgotten. */
const WAITING_MAX = 20;
const CLOSE_PATIENCE_MS = 500;

/** Opens the record of loads; needs no database yet. */
export function openLoadRecord(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  readonly every?: Every;
}): LoadRecord {
  const { database, clock, log, every = everyInBackground } = options;
  const [id, name, program] = [randomUUID(), replicaName(), programVersion()];
  const waiting: { readonly at: Date; readonly load: RecordedLoad }[] = [];
  let runs: Omit<ReplicaConfig, 'seen_at'> | undefined;
  let flushes = 0;
  let flushing: Promise<void> | undefined;
  let is_closed = false;

  function note({ cause, kept, changed, in_force, problem }: EndedLoad): void {
    const at = new Date(clock.now());
    const { version = null, files = [], findings = [], rules = null } = kept ?? {};
    const load: RecordedLoad = {
      ...{ replica: name, cause, failed: in_force === undefined, version, changed, program, files, findings, rules },
      config_hash: in_force?.config_hash ?? null,
      needs_restart: in_force?.needs_restart ?? [],
      problem: problem ?? null,
    };
    waiting.push({ at, load });
    if (waiting.length > WAITING_MAX) waiting.shift();
    if (in_force !== undefined && version !== null) {
      runs = { name, version, cause, loaded_at: at, failing_since: null, program };
    } else if (runs !== undefined) {
      runs = { ...runs, failing_since: runs.failing_since ?? at };
    }
    void flush();
  }

  async function write(): Promise<void> {
    try {
      for (let first = waiting[0]; first !== undefined && !is_closed; first = waiting[0]) {
        await recordLoad(database, first.at, first.load);
        if (waiting[0] === first) waiting.shift();
      }
      const now = new Date(clock.now());
      if (runs !== undefined && !is_closed) await tellReplica(database, id, { ...runs, seen_at: now });
      if (flushes++ % TIDY_EVERY === 0) await tidyLoads(database, now);
    } catch (error) {
      log.debug({ err: error }, 'what was loaded is written down later');
    }
  }

  async function flush(): Promise<void> {
    // A load that was noted after the list was looked at for the last time.
    while (flushing !== undefined) await flushing;
    if (is_closed) return;
    flushing = write().finally(() => {
      flushing = undefined;
    });
    await flushing;
  }

  const stop = every(SAY_AGAIN_MS, flush);
  return {
    note,
    flush,
    async close() {
      stop();
      is_closed = true;
      const forget = async () => {
        await flushing;
        await forgetReplica(database, id);
      };
      await waitAtMost(
        CLOSE_PATIENCE_MS,
        forget().catch(() => {}),
      );
    },
  };
}
