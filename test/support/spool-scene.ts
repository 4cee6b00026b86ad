/** A spool directory of its own, a stopped clock, and the records that reached the ledger from there. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FrozenClock, frozenClock } from '../../engine/base/kit/clock.ts';
import { Spool, type SpoolOptions, type WriteRow } from '../../engine/domain/budget/spool/spool.ts';
import { atFileEnd } from './file-end.ts';
import { deadProcess, SOME_DATABASE, type WrittenRow } from './spool.ts';
import { quietLog } from './store.ts';

/** The time of a scene's stopped clock. */
export const start = '2026-03-10T12:00:00Z';
const root = mkdtempSync(join(tmpdir(), 'appscli-spool-'));
const opened: Spool[] = [];
atFileEnd(async () => {
  for (const spool of opened.splice(0)) await spool.close();
  rmSync(root, { recursive: true, force: true });
});
let directories = 0;

/** A directory, the time, and the records that reached the ledger. */
export class Scene {
  readonly directory = join(root, `${++directories}`, 'spool');
  readonly clock: FrozenClock = frozenClock(start);
  readonly rows: WrittenRow[] = [];
  readonly logged: { readonly level: string; readonly text: string; readonly path?: string }[] = [];

  open(more: Partial<SpoolOptions> = {}): Spool {
    const at = (level: string) => (fields: object, text: string) => void this.logged.push({ level, text, ...fields });
    const log = { ...quietLog, info: at('info'), warn: at('warn'), error: at('error') };
    const spool = new Spool({
      spool_dir: () => this.directory,
      database_id: () => SOME_DATABASE,
      clock: this.clock,
      log,
      ...more,
    });
    opened.push(spool);
    return spool;
  }

  /** A spool of a process that others find to have ended. */
  doomed(machine?: string): Spool {
    return this.open({ process: deadProcess(machine) });
  }

  readonly write: WriteRow = async (settlement, counters, at_ms) => {
    this.rows.push({ settlement, counters, at_ms });
  };

  get ids(): string[] {
    return this.rows.map(({ settlement }) => settlement.request_id).sort();
  }

  get files(): string[] {
    return readdirSync(this.directory);
  }

  get file(): string {
    assert.equal(this.files.length, 1);
    return join(this.directory, this.files[0]!);
  }

  errors(): string[] {
    return this.logged.filter(({ level }) => level === 'error').map(({ text }) => text);
  }
}
