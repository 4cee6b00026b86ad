import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, describe, it } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { StoreTimeout } from '../../../engine/base/store/store-errors.ts';
import { SpoolingLedger, type SpoolingLedgerOptions } from '../../../engine/domain/budget/spool/spooling-ledger.ts';
import { away, byRequest, diskError, type FakeLedger, fakeLedger, faultyDisk } from '../../support/spool.ts';
import { quietLog, reservation, settlement } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const root = mkdtempSync(join(tmpdir(), 'appscli-spooling-'));
const opened: SpoolingLedger[] = [];
afterEach(async () => {
  for (const ledger of opened.splice(0)) await ledger.close();
});
after(() => rmSync(root, { recursive: true }));

const never = () => () => {};

async function openScene(more: Partial<SpoolingLedgerOptions> = {}) {
  const behind: FakeLedger = fakeLedger();
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const directory = mkdtempSync(join(root, 'spool-'));
  const logged: string[] = [];
  const log = { ...quietLog, info: note, warn: note, error: note };
  function note(_: object, text: string) {
    logged.push(text);
  }
  const open = async (other: typeof more = {}) => {
    const spool_dir = () => directory;
    const options = { ledger: behind, spool_dir, clock, log, every: never, ...more, ...other };
    const ledger = byRequest(new SpoolingLedger(options));
    // It was there once, so that it is known whose the files are.
    await ledger.adoptOrphans();
    opened.push(ledger);
    return ledger;
  };
  return { behind, clock, directory, logged, open, ledger: await open(), files: () => readdirSync(directory) };
}

const allowed = () => reservation({ on_store_error: 'allow' });
const unavailable = { name: 'StageError', code: 'store_unavailable' };

/** A promise that settles on demand. */
function gate(): { promise: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { promise, open: resolve };
}

describe('while the store works', () => {
  it('everything goes to the ledger, and nothing to the disk', async () => {
    const { ledger, behind, files } = await openScene();
    const request = allowed();
    assert.equal((await ledger.reserve(request)).unreserved, false);
    ledger.topUp(request.request_id, 5);
    await ledger.settle(settlement(request));
    const other = allowed();
    await ledger.reserve(other);
    await ledger.release(other.request_id);
    assert.equal(ledger.typicalCost('ana', 'coder-1'), 7);
    assert.deepEqual(await ledger.statuses([]), []);
    assert.deepEqual(
      [behind.reserved.length, behind.settled.length, behind.released, behind.topped_up],
      [2, 1, [other.request_id], [request.request_id]],
    );
    assert.deepEqual([files(), behind.kept.size], [[], 0]);
  });

  it('an error that is none of the store is passed on', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = new RangeError('no amount');
    await assert.rejects(ledger.reserve(allowed()), RangeError);
  });
});

describe('while the store is away', () => {
  it('it is known how much waits on the disk, and for how long nothing of it could be written', async () => {
    const { ledger, behind, clock } = await openScene();
    const { max_bytes, ...empty } = ledger.depth;
    assert.deepEqual(empty, { requests: 0, lag_ms: 0, records: 0, bytes: 0 });
    assert.equal(max_bytes, 256 * 1024 * 1024);
    behind.failure = away();
    clock.advance(60_000);
    await ledger.drain();
    const requests = [allowed(), allowed()];
    for (const request of requests) await ledger.reserve(request);
    for (const request of requests) await ledger.settle(settlement(request));
    await ledger.keepRecords(['{}']);
    clock.advance(5000);
    await ledger.drain();
    clock.advance(2000);
    const { bytes, ...depth } = ledger.depth;
    assert.deepEqual(depth, { requests: 2, lag_ms: 7000, records: 1, max_bytes });
    assert.ok(bytes > 100);
    behind.failure = undefined;
    await ledger.drain();
    assert.deepEqual([ledger.depth.requests, ledger.depth.lag_ms], [0, 0]);
  });

  it('a permitted request is forwarded, recorded before, and written once the store is back', async () => {
    const { ledger, behind, clock, files, logged } = await openScene();
    behind.failure = away();
    const request = allowed();
    const reserved = await ledger.reserve(request);
    const { reservation: _, ...decision } = reserved;
    assert.deepEqual(decision, { exceeded: [], shadows: [], statuses: [], unreserved: true });
    assert.equal(files().length, 1);
    assert.ok(behind.kept.has(request.request_id), 'its reservation may have been placed');
    ledger.topUp(request.request_id, 5);
    // Whatever the stage thinks it has.
    await ledger.settle(settlement(request, { reserved: true }));
    await ledger.drain();
    assert.equal(behind.rows.size, 0);
    behind.failure = undefined;
    await ledger.drain();
    assert.equal(behind.rows.get(request.request_id)!.settlement.cost_nano_usd, 60);
    assert.equal(behind.rows.get(request.request_id)!.at_ms, clock.now());
    assert.deepEqual([behind.settled, behind.topped_up, behind.kept.size, files()], [[], [], 0, []]);
    assert.deepEqual(logged, [
      'the database is unavailable; requests are forwarded without a reservation where limits allow it',
      'wrote spooled requests to the ledger',
    ]);
  });

  it('a request that never left after all leaves nothing', async () => {
    const { ledger, behind, files } = await openScene();
    behind.failure = away();
    const request = allowed();
    await ledger.reserve(request);
    await ledger.release(request.request_id);
    behind.failure = undefined;
    await ledger.drain();
    assert.deepEqual([behind.rows.size, behind.released, behind.kept.size, files()], [0, [], 0, []]);
  });

  it('and the disk fails too, the request is rejected with both reasons, and without a path', async () => {
    const disk = faultyDisk((operation) => (operation === 'write' ? { error: diskError('ENOSPC') } : undefined));
    const { ledger, behind } = await openScene({ disk });
    behind.failure = away();
    await assert.rejects(ledger.reserve(allowed()), {
      ...unavailable,
      message: 'The gateway cannot use its database, nor its spool: no space is left on its disk. Try again shortly.',
    });
    assert.equal(behind.kept.size, 0);
  });

  it('leftovers stay for the next start, and writable ones are written', async () => {
    const { ledger, behind, open, files } = await openScene();
    behind.failure = away();
    const requests = [allowed(), allowed()];
    for (const request of requests) await ledger.reserve(request);
    await ledger.settle(settlement(requests[0]!));
    await ledger.close();
    assert.equal(files().length, 1);
    behind.failure = undefined;
    const next = await open();
    await next.adoptOrphans();
    await next.close();
    assert.deepEqual([behind.rows.size, files()], [2, []]);
  });
});

describe('the wait for a store that is away', () => {
  it('delays one request at a time; other permitted ones go out at once', async () => {
    const { ledger, behind, clock } = await openScene();
    behind.failure = away();
    await ledger.reserve(allowed());
    const { promise, open } = gate();
    behind.onReserve = () => promise;
    const probe = ledger.reserve(allowed());
    const others = await Promise.all([ledger.reserve(allowed()), ledger.reserve(allowed())]);
    assert.ok(others.every(({ unreserved }) => unreserved));
    assert.equal(behind.reserved.length, 2);
    open();
    assert.ok((await probe).unreserved);
    assert.ok((await ledger.reserve(allowed())).unreserved);
    assert.equal(behind.reserved.length, 2, 'no retry within a second');
    clock.advance(1000);
    await ledger.reserve(allowed());
    assert.equal(behind.reserved.length, 3);
  });

  it('is skipped for a request that may not leave, once a retry has failed', async () => {
    const { ledger, behind, clock } = await openScene();
    behind.failure = away();
    for (let i = 0; i < 5; i++) await assert.rejects(ledger.reserve(reservation()), unavailable);
    assert.equal(behind.reserved.length, 2);
    clock.advance(1000);
    const { promise, open } = gate();
    behind.onReserve = () => promise;
    const probe = ledger.reserve(reservation());
    await assert.rejects(ledger.reserve(reservation()), { ...unavailable, message: away().message });
    behind.failure = undefined;
    open();
    await probe;
    await Promise.all([ledger.reserve(reservation()), ledger.reserve(reservation())]);
    assert.equal(behind.reserved.length, 5);
  });

  it('delays every request while the store is busy and answers other queries', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = new StoreTimeout();
    for (let i = 1; i <= 5; i++) {
      await assert.rejects(ledger.reserve(reservation()), unavailable);
      assert.equal(behind.reserved.length, i, 'it got a request');
    }
  });

  it('is skipped once a retry has failed after the first wait, while the store returns nothing at all', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = new StoreTimeout();
    behind.databaseId = () => new Promise(() => {});
    for (let i = 0; i < 5; i++) await assert.rejects(ledger.reserve(reservation()), unavailable);
    assert.equal(behind.reserved.length, 3, 'the first, one that shows it, and a retry');
    behind.failure = undefined;
  });

  it('is not extended by one lost connection: requests wait for the one that retries', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = away();
    await assert.rejects(ledger.reserve(reservation()), unavailable);
    behind.failure = undefined;
    const { promise, open } = gate();
    behind.onReserve = () => promise;
    const all = [1, 2, 3].map(() => ledger.reserve(reservation()));
    assert.equal(behind.reserved.length, 2);
    open();
    await Promise.all(all);
  });

  it('is over for all as soon as a row could be written', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = away();
    const request = allowed();
    await ledger.reserve(request);
    await ledger.reserve(allowed());
    await ledger.settle(settlement(request));
    behind.failure = undefined;
    await ledger.drain();
    assert.equal((await ledger.reserve(reservation())).unreserved, false);
  });

  it('does not restart for a request from before the store was back', async () => {
    const { ledger, behind } = await openScene();
    const { promise, open } = gate();
    behind.onReserve = () => promise;
    const old = ledger.reserve(allowed());
    behind.onReserve = async () => {};
    behind.failure = away();
    await ledger.reserve(allowed());
    behind.failure = undefined;
    await ledger.reserve(reservation());
    behind.failure = away();
    open();
    assert.ok((await old).unreserved);
    behind.failure = undefined;
    const { promise: blocked, open: letOn } = gate();
    behind.onReserve = () => blocked;
    const both = [ledger.reserve(reservation()), ledger.reserve(reservation())];
    assert.equal(behind.reserved.length, 5, 'both ask at once');
    letOn();
    await Promise.all(both);
  });
});

it('a disk that cannot be used is in the log from the start on, where it would be needed', async () => {
  for (const needed of [true, false]) {
    const { open, directory, logged, files } = await openScene();
    const ticks: (() => void)[] = [];
    const every = (_: number, task: () => void) => {
      ticks.push(task);
      return () => {};
    };
    const look = async (more: object) => {
      const ledger = await open({ every, needed: () => needed, ...more });
      ticks.at(-1)!();
      await ledger.close();
    };
    await look({});
    await until('it has been tried out', () => files().length === 0);
    assert.equal(logged.length, 0);
    await look({ spool_dir: () => join(directory, '\0') });
    if (needed) await until('it is in the log', () => logged.includes('the spool cannot be written to'));
    else assert.equal(logged.length, 0);
  }
});
