import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import { Spool, type SpoolOptions, type WriteRow } from '../../../engine/domain/budget/spool/spooling-ledger.ts';
import { atFileEnd } from '../../support/file-end.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import {
  away,
  deadProcess,
  diskError,
  type Fault,
  faultyDisk,
  SOME_DATABASE,
  type WrittenRow,
} from '../../support/spool.ts';
import { quietLog, reservation, settlement, teamDemand, userDemand } from '../../support/store.ts';
import { times } from '../../support/times.ts';

/** The time of a scene's stopped clock. */
const start = '2026-03-10T12:00:00Z';
const root = ownDirectory();
const opened: Spool[] = [];
atFileEnd(async () => {
  for (const spool of opened.splice(0)) await spool.close();
});
let directories = 0;

/** A directory, the time, and the records that reached the ledger. */
class Scene {
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

  /** Another process takes over what is there, and writes it. */
  async takeOver(): Promise<Spool> {
    const successor = this.open();
    await successor.adoptOrphans();
    await successor.drain(this.write);
    return successor;
  }

  get costs(): number[] {
    return this.rows.map(({ settlement }) => settlement.cost_nano_usd);
  }

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

/** A request that went out and is over. */
async function sent(spool: Spool, outcome: Parameters<typeof settlement>[1] = {}) {
  const request = reservation();
  await spool.forward(request);
  await spool.settle(settlement(request, outcome));
  return request;
}

describe('a request that went out without a reservation', () => {
  it('is written once it is over, with the counters of money it counts on and the time it went out', async () => {
    const scene = new Scene();
    const spool = scene.open();
    const demands = [
      userDemand('ana', 500),
      { ...userDemand('ana', 400), shadow: true },
      teamDemand('core', null),
      { ...userDemand('ana', 3), window: 'open', unit: 'requests' } as const,
      { ...userDemand('ana', 3000), window: 'minute', unit: 'tokens' } as const,
    ];
    const request = reservation({ user: 'ana', team: 'core', demands, on_store_error: 'allow' });
    await spool.forward(request);
    assert.ok(spool.has(request.request_id));
    scene.clock.advance(3_600_000);
    assert.equal(spool.due, 0);
    const outcome = settlement(request, { server_tools: { web_search: 2 } });
    await spool.settle(outcome);
    assert.equal(spool.due, 1);
    await spool.drain(scene.write);
    await spool.drain(scene.write);
    assert.deepEqual(scene.rows, [
      {
        settlement: { ...outcome, reserved: false },
        counters: [
          { scope: 'user', key: 'ana', window: 'day', unit: 'nano_usd' },
          { scope: 'team', key: 'core', window: 'month', unit: 'nano_usd' },
        ],
        at_ms: Date.parse(start),
      },
    ]);
    assert.ok(!spool.has(request.request_id));
    assert.deepEqual(scene.files, []);
  });

  it('counts the first settlement; later ones are ignored', async () => {
    const scene = new Scene();
    const spool = scene.open();
    const request = reservation();
    await spool.forward(request);
    await Promise.all([
      spool.settle(settlement(request, { cost_nano_usd: 1 })),
      spool.settle(settlement(request, { cost_nano_usd: 2 })),
    ]);
    await spool.release(request.request_id);
    await spool.drain(scene.write);
    assert.deepEqual(scene.costs, [1]);
  });

  it('stays on the disk while the ledger is away, and is written in order', async () => {
    const scene = new Scene();
    const spool = scene.open();
    const requests = Array.from({ length: 200 }, () => reservation());
    await Promise.all(requests.map((request) => spool.forward(request)));
    await Promise.all(requests.map((request) => spool.settle(settlement(request))));
    let responses = 50;
    const failing: WriteRow = async (...row) => {
      if (responses-- <= 0) throw away();
      await scene.write(...row);
    };
    await assert.rejects(spool.drain(failing), { code: 'store_unavailable' });
    assert.equal(spool.due, 150);
    await spool.drain(scene.write);
    assert.deepEqual(scene.ids, requests.map(({ request_id }) => request_id).sort());
    assert.deepEqual(scene.files, []);
  });

  it('is quarantined and reported when the ledger will never accept it', async () => {
    const scene = new Scene();
    const spool = scene.open();
    const [bad, good] = [await sent(spool), await sent(spool)];
    await spool.drain(async (settlement, ...rest) => {
      if (settlement.request_id === bad.request_id) throw Object.assign(new Error('no partition'), { code: '23514' });
      await scene.write(settlement, ...rest);
    });
    assert.deepEqual(scene.ids, [good.request_id]);
    assert.equal(spool.due, 0);
    assert.equal(JSON.parse(readFileSync(scene.file, 'utf8')).settlement.request_id, bad.request_id);
    assert.match(scene.file, /\.aside$/);
    assert.equal(scene.logged.at(-1)!.path, scene.file);
  });

  it('is in a private file, without any request content', async () => {
    const scene = new Scene();
    const spool = scene.open();
    await spool.forward(reservation());
    assert.equal(statSync(scene.file).mode & 0o777, 0o600);
    assert.equal(statSync(scene.directory).mode & 0o777, 0o700);
  });
});

describe('the spool of a process that ended', () => {
  it('is taken over: finished requests are written unchanged, the rest at their maximum cost', async () => {
    const scene = new Scene();
    const doomed = scene.doomed();
    const [over, open, released] = [reservation(), reservation({ most_nano_usd: 900 }), reservation()];
    for (const request of [over, open, released]) await doomed.forward(request);
    await doomed.settle(settlement(over, { cost_nano_usd: 12 }));
    await doomed.release(released.request_id);
    await scene.takeOver();
    const by_id = new Map(scene.rows.map((row) => [row.settlement.request_id, row]));
    assert.deepEqual([...by_id.keys()].sort(), [over.request_id, open.request_id].sort());
    assert.equal(by_id.get(over.request_id)!.settlement.cost_nano_usd, 12);
    const { settlement: estimate, at_ms, counters } = by_id.get(open.request_id)!;
    assert.deepEqual(
      [estimate.cost_nano_usd, estimate.status, estimate.aborted, estimate.reserved, estimate.provenance.cost],
      [900, null, true, false, 'estimate'],
    );
    assert.deepEqual([at_ms, counters.length], [Date.parse(start), 1]);
    assert.deepEqual(scene.files, []);
  });

  it('is taken over by one of several gateways that find it', async () => {
    const scene = new Scene();
    const doomed = scene.doomed();
    for (let i = 0; i < 20; i++) await doomed.forward(reservation());
    const finders = Array.from({ length: 5 }, () => scene.open());
    await Promise.all(finders.map((spool) => spool.adoptOrphans()));
    await Promise.all(finders.map((spool) => spool.drain(scene.write)));
    assert.equal(scene.rows.length, 20);
    assert.deepEqual(scene.files, []);
  });

  it('is left alone while the process lives, also by another gateway in the same process', async () => {
    const scene = new Scene();
    await scene.open().forward(reservation());
    const other = scene.open();
    await other.adoptOrphans();
    scene.clock.advance(3_600_000);
    await other.adoptOrphans();
    assert.equal(other.due, 0);
  });

  it('on another machine counts as ended when its file has not changed for a minute', async () => {
    const scene = new Scene();
    const distant = scene.doomed('elsewhere');
    await distant.forward(reservation());
    const near = scene.open();
    await near.adoptOrphans();
    for (let seconds = 0; seconds < 300; seconds += 10) {
      scene.clock.advance(10_000);
      await distant.adoptOrphans();
      await near.adoptOrphans();
    }
    assert.equal(near.due, 0, 'its process is marked as alive');
    scene.clock.advance(59_000);
    await near.adoptOrphans();
    assert.equal(near.due, 0);
    scene.clock.advance(1000);
    await near.adoptOrphans();
    assert.equal(near.due, 1);
    // It was only cut off, and continues in a file of its own.
    await distant.adoptOrphans();
    const later = await sent(distant);
    await distant.drain(scene.write);
    assert.deepEqual(scene.ids, [later.request_id]);
    await near.drain(scene.write);
    assert.equal(scene.rows.length, 2);
    assert.deepEqual(scene.files, []);
  });

  it('that closed in order is taken over at once by any machine', async () => {
    const scene = new Scene();
    const leaving = scene.doomed('elsewhere');
    const request = reservation();
    await leaving.forward(request);
    void leaving.settle(settlement(request, { cost_nano_usd: 5 }));
    assert.equal(await leaving.close(), 1);
    await scene.takeOver();
    assert.deepEqual(scene.costs, [5]);
  });

  it('may end in a torn line, which is dropped; a broken line before is set aside, and the others count', async () => {
    const scene = new Scene();
    const doomed = scene.doomed();
    const requests = [reservation(), reservation(), reservation(), reservation()];
    for (const request of requests) await doomed.forward(request);
    const lines = readFileSync(scene.file, 'utf8').split('\n');
    lines[1] = lines[1]!.replace('coder-1', 'coder-2');
    lines[3] = lines[3]!.slice(0, 50);
    writeFileSync(scene.file, lines.slice(0, 4).join('\n'));
    await scene.takeOver();
    assert.deepEqual(scene.ids, [requests[0]!.request_id, requests[2]!.request_id].sort());
    assert.match(scene.file, /\.aside$/);
    assert.equal(readFileSync(scene.file, 'utf8'), `${lines[1]}\n`);
    assert.deepEqual(scene.errors(), ['a part of the spool cannot be written to the ledger; it was set aside']);
  });

  it('counts a request with a corrupt start record on the shared counters', async () => {
    const scene = new Scene();
    const doomed = scene.doomed();
    const request = reservation({ user: 'ben', team: 'core', demands: [] });
    await doomed.forward(request);
    await doomed.settle(settlement(request));
    const [beginning, end] = readFileSync(scene.file, 'utf8').split('\n');
    writeFileSync(scene.file, `x${beginning}\n${end}\n`);
    await scene.takeOver();
    assert.deepEqual(
      scene.rows[0]!.counters.map(({ scope, key, window }) => [scope, key, window]),
      [
        ['user', 'ben', 'day'],
        ['team', 'core', 'month'],
      ],
    );
  });

  it('ignores anything else beside: strange names, directories, megabytes without a line, nothing at all', async () => {
    const scene = new Scene();
    mkdirSync(scene.directory, { recursive: true });
    const id = () => crypto.randomUUID();
    const name = () => `${SOME_DATABASE}.${id()}.spool`;
    mkdirSync(join(scene.directory, name()));
    writeFileSync(join(scene.directory, name()), '');
    writeFileSync(join(scene.directory, name()), Buffer.alloc(3_000_000));
    writeFileSync(join(scene.directory, 'notes.spool'), 'x');
    writeFileSync(join(scene.directory, `${id()}.aside`), 'x');
    const spool = scene.open();
    await spool.adoptOrphans();
    assert.equal(spool.due, 0);
    const kept = scene.files.filter((name) => !/^[-0-9a-f]{36}\.aside$/.test(name));
    assert.equal(kept.length, 2, `the directory and the notes, not ${kept}`);
  });
});

describe('a failing disk', () => {
  const failing = (operations: readonly string[], code: string, more: { bytes?: number } = {}) => {
    const state = { on: true };
    const fault: Fault = (operation) =>
      state.on && operations.includes(operation) ? { error: diskError(code), ...more } : undefined;
    return { state, disk: faultyDisk(fault) };
  };

  for (const [what, operations, code, message] of [
    ['cannot make the directory', ['mkdir'], 'EACCES', 'its directory is not writable'],
    ['cannot make the file', ['open'], 'EROFS', 'its disk is read-only'],
    ['cannot make the name of the file durable', ['sync'], 'EIO', 'error EIO'],
    ['is full', ['write'], 'ENOSPC', 'no space is left on its disk'],
    ['cannot synchronise', ['datasync'], 'EIO', 'error EIO'],
    ['cannot even take back what it half wrote', ['write', 'truncate'], 'ENOSPC', 'no space is left on its disk'],
  ] as const) {
    it(`that ${what} stops the request, reports it once, and is used again after recovery`, async () => {
      const scene = new Scene();
      const { state, disk } = failing(operations, code, { bytes: 20 });
      const spool = scene.open({ disk });
      for (let attempt = 0; attempt < 3; attempt++) {
        await assert.rejects(spool.forward(reservation()), { name: 'SpoolError', message });
      }
      assert.deepEqual(scene.errors(), ['the spool cannot be written to']);
      state.on = false;
      const request = reservation();
      await spool.forward(request);
      await spool.close();
      await scene.takeOver();
      assert.deepEqual(scene.ids, [request.request_id]);
      assert.ok(scene.logged.some(({ text }) => text === 'the spool can be written to again'));
    });
  }

  it('distinguishes a file in place of the directory', async () => {
    const scene = new Scene();
    mkdirSync(join(scene.directory, '..'), { recursive: true });
    writeFileSync(scene.directory, '');
    const spool = scene.open();
    await assert.rejects(spool.forward(reservation()), { message: 'its directory is a file' });
    await spool.adoptOrphans();
  });

  it('reports a full quarantine once, however often it retries', async () => {
    const scene = new Scene();
    const { state, disk } = failing(['appendFile'], 'ENOSPC');
    const spool = scene.open({ disk });
    await sent(spool);
    const refuse: WriteRow = async () => {
      throw Object.assign(new Error('no partition'), { code: '23514' });
    };
    for (let attempt = 0; attempt < 3; attempt++) await spool.drain(refuse);
    assert.deepEqual(scene.errors(), ['the spool cannot be written to']);
    assert.equal(spool.due, 1, 'it waits');
    state.on = false;
    await spool.drain(refuse);
    assert.deepEqual(scene.errors().slice(1), [
      'a part of the spool cannot be written to the ledger; it was set aside',
    ]);
    assert.equal(spool.due, 0);
  });

  it('reports each file that cannot be taken over once, and retries', async () => {
    const scene = new Scene();
    const doomed = scene.doomed();
    await doomed.forward(reservation());
    const { state, disk } = failing(['rename'], 'EROFS');
    const next = scene.open({ disk });
    for (let attempt = 0; attempt < 3; attempt++) await next.adoptOrphans();
    assert.equal(scene.logged.filter(({ text }) => text === 'a spool cannot be taken over').length, 1);
    state.on = false;
    await next.adoptOrphans();
    assert.equal(next.due, 1);
  });

  it('leaves no trace of a failed write between others', async () => {
    const scene = new Scene();
    const { state, disk } = failing(['write'], 'ENOSPC', { bytes: 30 });
    const spool = scene.open({ disk, process: deadProcess() });
    const kept: string[] = [];
    for (let i = 0; i < 10; i++) {
      state.on = i % 2 === 1;
      const request = reservation();
      if (state.on) await assert.rejects(spool.forward(request));
      else {
        await spool.forward(request);
        kept.push(request.request_id);
      }
    }
    await scene.takeOver();
    assert.deepEqual(scene.ids, kept.sort());
    assert.ok(!scene.errors().some((text) => text.includes('set aside')));
  });

  it('keeps the outcome of a request in memory, and writes it to the disk after recovery', async () => {
    const scene = new Scene();
    const { state, disk } = failing(['write'], 'ENOSPC');
    state.on = false;
    const spool = scene.open({ disk, process: deadProcess() });
    const requests = [reservation(), reservation()];
    for (const request of requests) await spool.forward(request);
    state.on = true;
    for (const request of requests) await spool.settle(settlement(request, { cost_nano_usd: 5 }));
    let responses = 1;
    const once: WriteRow = async (...row) => {
      if (responses-- <= 0) throw away();
      await scene.write(...row);
    };
    state.on = false;
    await assert.rejects(spool.drain(once));
    await scene.takeOver();
    assert.deepEqual(scene.costs, [5, 5]);
  });

  it('is bounded: beyond that requests are rejected, and those in flight are still recorded', async () => {
    const scene = new Scene();
    const spool = scene.open({ max_bytes: 2000 });
    const out: ReturnType<typeof reservation>[] = [];
    for (;;) {
      const request = reservation();
      const refused = await spool.forward(request).then(
        () => undefined,
        (error: Error) => error,
      );
      if (refused !== undefined) {
        assert.match(refused.message, /^the spool is full \(1 MiB\)$/);
        break;
      }
      out.push(request);
    }
    assert.ok(out.length >= 2 && out.length < 10);
    await assert.rejects(spool.forward(reservation()));
    assert.deepEqual(scene.errors(), ['the spool is full; requests are rejected until the database is available']);
    for (const request of out) await spool.settle(settlement(request));
    await spool.drain(scene.write);
    assert.equal(scene.rows.length, out.length);
    await spool.forward(reservation());
  });

  it('is unused without a configured directory', async () => {
    const spool = new Scene().open({ spool_dir: () => undefined });
    await spool.adoptOrphans();
    await assert.rejects(spool.forward(reservation()), { message: 'no directory is configured for it' });
  });
});

const damage = fc.oneof(
  fc.record({ how: fc.constant('overwrite' as const), at: fc.nat(), bytes: fc.uint8Array({ minLength: 1 }) }),
  fc.record({ how: fc.constant('insert' as const), at: fc.nat(), bytes: fc.uint8Array({ minLength: 1 }) }),
  fc.record({ how: fc.constant('cut' as const), at: fc.nat(), bytes: fc.uint8Array({ minLength: 1 }) }),
);

function apply(file: Buffer, { how, at, bytes }: typeof damage extends fc.Arbitrary<infer D> ? D : never): Buffer {
  const place = at % (file.length + 1);
  const after = how === 'insert' ? place : Math.min(file.length, place + bytes.length);
  return Buffer.concat([file.subarray(0, place), how === 'cut' ? '' : bytes, file.subarray(after)].map(Buffer.from));
}

it('however a file is damaged, its whole records are written unchanged, and nothing is invented', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 8 }), fc.array(damage, { maxLength: 4 }), async (count, damages) => {
      const scene = new Scene();
      const doomed = scene.doomed();
      const requests = Array.from({ length: count }, () => reservation({ amount_nano_usd: 500 }));
      for (const request of requests) await doomed.forward(request);
      for (const request of requests.slice(0, count / 2))
        await doomed.settle(settlement(request, { cost_nano_usd: 7 }));
      const path = scene.file;
      const whole = readFileSync(path);
      const damaged = damages.reduce(apply, whole);
      writeFileSync(path, damaged);

      const next = await scene.takeOver();

      const lines = new Set(damaged.toString('latin1').split('\n').slice(0, -1));
      const left = whole
        .toString('latin1')
        .split('\n')
        .filter((line) => line !== '' && lines.has(line));
      const costs = new Map<string, number>();
      for (const line of left) {
        const record = JSON.parse(line.slice(line.indexOf(' ')));
        if (record.what === 'settled') costs.set(record.settlement.request_id, 7);
        else if (!costs.has(record.request.request_id)) costs.set(record.request.request_id, 500);
      }
      const written = scene.rows.map((row) => [row.settlement.request_id, row.settlement.cost_nano_usd] as const);
      assert.deepEqual(new Map(written), costs);
      assert.equal(written.length, costs.size);
      assert.equal(next.due, 0);
      await Promise.all([doomed.close(), next.close()]);
    }),
    { numRuns: times(80) },
  );
});
