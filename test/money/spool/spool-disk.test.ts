import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { WriteRow } from '../../../engine/money/spool/spool-rows.ts';
import { away, deadProcess, diskError, type Fault, faultyDisk } from '../../support/spool.ts';
import { Scene } from '../../support/spool-scene.ts';
import { reservation, settlement } from '../../support/store.ts';

describe('a disk in trouble', () => {
  const failing = (operations: readonly string[], code: string, more: { bytes?: number } = {}) => {
    const state = { on: true };
    const fault: Fault = (operation) =>
      state.on && operations.includes(operation) ? { error: diskError(code), ...more } : undefined;
    return { state, disk: faultyDisk(fault) };
  };

  for (const [what, operations, code, message] of [
    ['cannot make the directory', ['mkdir'], 'EACCES', 'its directory may not be written to'],
    ['cannot make the file', ['open'], 'EROFS', 'its disk is read-only'],
    ['cannot make the name of the file durable', ['sync'], 'EIO', 'error EIO'],
    ['is full', ['write'], 'ENOSPC', 'no space is left on its disk'],
    ['cannot synchronise', ['datasync'], 'EIO', 'error EIO'],
    ['cannot even take back what it half wrote', ['write', 'truncate'], 'ENOSPC', 'no space is left on its disk'],
  ] as const) {
    it(`that ${what} keeps the request from going out, says so once, and is used again when it works`, async () => {
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
      const next = scene.open();
      await spool.close();
      await next.adoptOrphans();
      await next.drain(scene.write);
      assert.deepEqual(scene.ids, [request.request_id]);
      assert.ok(scene.logged.some(({ text }) => text === 'the spool can be written to again'));
    });
  }

  it('that has a file where the directory should be is told from others', async () => {
    const scene = new Scene();
    mkdirSync(join(scene.directory, '..'), { recursive: true });
    writeFileSync(scene.directory, '');
    const spool = scene.open();
    await assert.rejects(spool.forward(reservation()), { message: 'its directory is a file' });
    await spool.adoptOrphans();
  });

  it('that has no room for what is set aside is told of once, however often it is tried', async () => {
    const scene = new Scene();
    const { state, disk } = failing(['appendFile'], 'ENOSPC');
    const spool = scene.open({ disk });
    const request = reservation();
    await spool.forward(request);
    await spool.settle(settlement(request));
    const refuse: WriteRow = async () => {
      throw Object.assign(new Error('no partition'), { code: '23514' });
    };
    for (let attempt = 0; attempt < 3; attempt++) await spool.drain(refuse);
    assert.deepEqual(scene.errors(), ['the spool cannot be written to']);
    assert.equal(spool.due, 1, 'it waits');
    state.on = false;
    await spool.drain(refuse);
    assert.deepEqual(scene.errors().slice(1), ['a part of the spool cannot be put into the ledger; it is set aside']);
    assert.equal(spool.due, 0);
  });

  it('whose files cannot be taken over is told of once for each, and they are tried again', async () => {
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

  it('leaves no trace of what failed between others that did not', async () => {
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
    const next = scene.open();
    await next.adoptOrphans();
    await next.drain(scene.write);
    assert.deepEqual(scene.ids, kept.sort());
    assert.ok(!scene.errors().some((text) => text.includes('set aside')));
  });

  it('does not lose what a request came to: it is kept in memory, and written to the disk when that works', async () => {
    const scene = new Scene();
    const { state, disk } = failing(['write'], 'ENOSPC');
    state.on = false;
    const spool = scene.open({ disk, process: deadProcess() });
    const requests = [reservation(), reservation()];
    for (const request of requests) await spool.forward(request);
    state.on = true;
    for (const request of requests) await spool.settle(settlement(request, { cost_nano_usd: 5 }));
    let answers = 1;
    const once: WriteRow = async (...row) => {
      if (answers-- <= 0) throw away();
      await scene.write(...row);
    };
    state.on = false;
    await assert.rejects(spool.drain(once));
    const next = scene.open();
    await next.adoptOrphans();
    await next.drain(scene.write);
    assert.deepEqual(
      scene.rows.map((row) => row.settlement.cost_nano_usd),
      [5, 5],
    );
  });

  it('is not filled beyond a bound: then requests are refused, and what is under way is still noted', async () => {
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
        assert.match(refused.message, /^more than 1 MiB wait in it$/);
        break;
      }
      out.push(request);
    }
    assert.ok(out.length >= 2 && out.length < 10);
    await assert.rejects(spool.forward(reservation()));
    assert.deepEqual(scene.errors(), ['the spool is full; requests are refused']);
    for (const request of out) await spool.settle(settlement(request));
    await spool.drain(scene.write);
    assert.equal(scene.rows.length, out.length);
    await spool.forward(reservation());
  });

  it('is not asked for when no directory is configured', async () => {
    const spool = new Scene().open({ spool_dir: () => undefined });
    await spool.adoptOrphans();
    await assert.rejects(spool.forward(reservation()), { message: 'no directory is configured for it' });
  });
});
