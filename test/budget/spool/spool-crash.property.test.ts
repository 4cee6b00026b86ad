import assert from 'node:assert/strict';
import { existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { basename, join } from 'node:path';
import { before, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import type { ReservationRequest } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Disk } from '../../../engine/base/store/spool-files.ts';
import type { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { type LedgerOfRows, SpoolingLedger } from '../../../engine/domain/budget/spool/spooling-ledger.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { away, deadProcess, faultyDisk } from '../../support/spool.ts';
import { ledgerRowsOf, quietLog, reservation, settlement, stillLedger, useTestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

const root = ownDirectory();

const clock = frozenClock('2026-03-10T12:00:00Z');
const never = () => () => {};
let behind: DatabaseLedger;
const { database, ledgers } = useTestStore();
before(() => {
  behind = stillLedger(database, clock);
  ledgers.push(behind);
});

const MOST = 1000;

/** A request's script: after how many turns it arrives, after how many it ends, and how. */
const course = fc.record({
  comes_after: fc.nat(8),
  ends_after: fc.nat(8),
  end: fc.constantFrom('settled' as const, 'settled' as const, 'released' as const, 'open' as const),
  cost: fc.integer({ min: 0, max: MOST - 1 }),
});
const history = fc.record({
  courses: fc.array(course, { minLength: 1, maxLength: 12 }),
  /** After how many turns the database is back. */
  back_after: fc.nat(24),
  /** Steps after which one process after the other ends. */
  lives: fc.array(fc.nat(60), { minLength: 1, maxLength: 3 }),
  power: fc.boolean(),
  numbers: fc.infiniteStream(fc.nat(999)),
});

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await nextTurn();
}

/** What a process knew about a request before it ended. */
interface Known {
  readonly request: ReservationRequest;
  readonly cost: number;
  went_out: boolean;
  readonly meant: 'settled' | 'released' | 'open';
  ended: 'settled' | 'released' | 'open';
}

/** The ledger as a process sees it that ends when its disk does, before or after a statement is committed. */
function behindCrash(crashing: CrashingDisk, isAway: () => boolean): LedgerOfRows {
  return {
    reserve: (request) => (isAway() ? Promise.reject(away()) : behind.reserve(request)),
    unreserved: (identity) => behind.unreserved(identity),
    typicalCost: (user, model) => behind.typicalCost(user, model),
    statuses: (demands) => behind.statuses(demands),
    databaseId: () => behind.databaseId(),
    keep: (request_id) => behind.keep(request_id),
    forget: (request_id) => behind.forget(request_id),
    async settleAt(...row) {
      if (isAway()) throw away();
      crashing.step();
      const written = await behind.settleAt(...row);
      crashing.step();
      return written;
    },
  };
}

it('wherever a process ends, a forwarded request has one row, at its known cost or at the maximum', async () => {
  await fc.assert(
    fc.asyncProperty(history, async ({ courses, back_after, lives, power, numbers }) => {
      const directory = mkdtempSync(join(root, 'run-'));
      const user = `user ${crypto.randomUUID()}`;
      const random = () => numbers.next().value as number;
      const known: Known[] = courses.map(({ cost, end }) => ({
        request: reservation({ user, amount_nano_usd: MOST, on_store_error: 'allow' }),
        cost,
        went_out: false,
        meant: end,
        ended: 'open',
      }));
      let is_away = true;
      const start = (crashing: CrashingDisk): SpoolingLedger =>
        new SpoolingLedger({
          ledger: behindCrash(crashing, () => is_away),
          spool_dir: () => directory,
          clock,
          log: quietLog,
          every: never,
          process: deadProcess(),
          disk: crashing.disk,
        });

      const goThrough = async (ledger: SpoolingLedger, crashing: CrashingDisk, index: number) => {
        const { comes_after, ends_after, end, cost } = courses[index]!;
        const mine = known[index]!;
        const { request } = mine;
        await turns(comes_after);
        const reserved = await ledger.reserve(request).catch(() => undefined);
        if (reserved === undefined || crashing.crashed) return;
        // The database was back before: this one is none of the spool's.
        if (!reserved.unreserved) return behind.release(request.request_id);
        const reservation = reserved.reservation!;
        mine.went_out = true;
        await turns(ends_after);
        if (end === 'settled') await reservation.settle(settlement(request, { cost_nano_usd: cost }));
        if (end === 'released') await reservation.release();
        if (!crashing.crashed) mine.ended = end;
      };
      const bringBack = async (ledger: SpoolingLedger) => {
        await turns(back_after);
        is_away = false;
        for (let round = 0; round < 4; round++) await ledger.drain();
      };

      for (const [life, steps] of lives.entries()) {
        const crashing = new CrashingDisk(directory, steps, random);
        const ledger = start(crashing);
        if (life === 0) {
          await ledger.adoptOrphans();
          await Promise.all([...courses.map((_, index) => goThrough(ledger, crashing, index)), bringBack(ledger)]);
        } else {
          await ledger.adoptOrphans();
          await ledger.drain();
        }
        // It ends here at the latest; its pending work cannot do anything any more.
        while (!crashing.crashed) {
          try {
            crashing.step();
          } catch {}
        }
        await ledger.close();
        if (power) crashing.losePower();
        crashing.forget();
      }
      is_away = false;
      const last = start(new CrashingDisk(directory, Number.MAX_SAFE_INTEGER, random));
      await last.adoptOrphans();
      await last.drain();
      await last.close();

      const rows = await ledgerRowsOf(database, user);
      for (const { request, cost, went_out, meant, ended } of known) {
        const costs = rows
          .filter(({ request_id }) => request_id === request.request_id)
          .map((row) => row.cost_nano_usd);
        const summary = JSON.stringify({ went_out, ended, cost, costs });
        assert.ok(costs.length <= 1, `a request has several rows: ${summary}`);
        for (const found of costs) assert.ok(found === cost || found === MOST, `a row of another cost: ${summary}`);
        if (!went_out) continue;
        if (ended === 'settled') assert.deepEqual(costs, [cost], summary);
        else if (ended === 'released') assert.deepEqual(costs, [], summary);
        // One that was being released when the process ended may have been or not; it never left.
        else if (meant !== 'released') assert.equal(costs.length, 1, `a request that went out has no row: ${summary}`);
      }
      assert.deepEqual(readdirSync(directory), []);
    }),
    { numRuns: times(60) },
  );
  const { differences, repeated, uncounted } = await verifyLedger({ database, clock });
  for (const found of [differences, repeated, uncounted]) assert.deepEqual(found, { total: 0, first: [] });
});

/** A disk that counts the steps of a process, ends it in the middle of one of them, and may lose unsynchronised data. */
class CrashingDisk {
  readonly disk: Disk = faultyDisk((operation, path, to) => this.#step(operation, path, to));
  readonly #directory: string;
  readonly #grave: string;
  readonly #random: () => number;
  #steps_left: number;
  /** Bytes that are safe, by path. */
  readonly #synced = new Map<string, number>();
  /** Names that are safe. */
  #names = new Set<string>();

  /** @param random numbers from 0 to 999. */
  constructor(directory: string, steps: number, random: () => number) {
    this.#directory = directory;
    this.#grave = `${directory}-grave-${crypto.randomUUID()}`;
    mkdirSync(this.#grave, { recursive: true });
    this.#steps_left = steps;
    this.#random = random;
    // The files of predecessors have survived.
    for (const name of this.#list()) {
      this.#names.add(name);
      this.#synced.set(join(directory, name), statSync(join(directory, name)).size);
    }
  }

  get crashed(): boolean {
    return this.#steps_left < 0;
  }

  /** A step outside the disk, such as a statement. Raises store_unavailable once the process has ended. */
  step(): void {
    if (--this.#steps_left < 0) throw away();
  }

  #list(): string[] {
    return existsSync(this.#directory) ? readdirSync(this.#directory) : [];
  }

  #step(operation: string, path: string, to?: string) {
    if (--this.#steps_left < 0) {
      const just_now = this.#steps_left === -1;
      return { error: new Error('the process has ended'), bytes: just_now ? this.#random() : 0 };
    }
    if (operation === 'datasync') this.#synced.set(path, statSync(path, { throwIfNoEntry: false })?.size ?? 0);
    if (operation === 'sync') this.#names = new Set(this.#list());
    if (operation === 'unlink') linkSync(path, join(this.#grave, basename(path)));
    if (to !== undefined) {
      this.#synced.set(to, this.#synced.get(path) ?? 0);
      this.#names.add(basename(to));
    }
    return undefined;
  }

  /** Damages the files like a loss of power. */
  losePower(): void {
    for (const name of readdirSync(this.#grave)) {
      if (this.#random() < 500) continue;
      linkSync(join(this.#grave, name), join(this.#directory, name));
      this.#names.add(name);
    }
    for (const name of this.#list()) {
      const path = join(this.#directory, name);
      if (this.#names.has(name)) this.#truncate(path, this.#synced.get(path) ?? 0);
      else if (this.#random() < 500) rmSync(path);
      else this.#truncate(path, 0);
    }
  }

  #truncate(path: string, safe: number): void {
    const { size } = statSync(path);
    if (size > safe) truncateSync(path, safe + Math.floor(((size - safe) * this.#random()) / 1000));
  }

  /** Removes its files. */
  forget(): void {
    rmSync(this.#grave, { recursive: true, force: true });
  }
}
