import assert from 'node:assert/strict';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { AuditRecord } from '../../engine/api.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { type AuditLogOptions, OpenAuditLog } from '../../engine/domain/audit/audit-log.ts';
import { recordsAfter } from '../../engine/domain/audit/request-records.ts';
import { ownDirectory } from '../support/own-directory.ts';
import { quietLog, spoiltStore, type TestStore, useTestStore } from '../support/store.ts';

const clock = frozenClock('2026-03-10T12:00:00Z');
const directory = ownDirectory();

const { store } = useTestStore();

function open(more: Partial<AuditLogOptions> = {}) {
  return new OpenAuditLog({ database: store.database, clock, log: quietLog, every: () => () => {}, ...more });
}

function keepingLog() {
  const kept: { message: string; fields: object }[] = [];
  const keep = (fields: object, message: string) => kept.push({ message, fields });
  return { kept, log: { debug() {}, info() {}, warn: keep, error: keep } };
}

async function stored(prefix: string): Promise<AuditRecord[]> {
  const rows = await recordsAfter(store.database, 0, 50_000);
  return rows.map(({ record }) => record).filter(({ request_id }) => String(request_id).startsWith(prefix));
}

describe('the audit table', () => {
  it('gets every record in order, many in one statement', async () => {
    let statements = 0;
    const database: Pick<TestStore['database'], 'query'> = {
      query(...statement) {
        statements++;
        return store.database.query(...statement);
      },
    };
    const audit = open({ database });
    const records = Array.from({ length: 300 }, (_, n) => ({ request_id: `order-${n}`, n }));
    for (const record of records) audit.write(record);
    await audit.flush();
    assert.deepEqual(await stored('order-'), records);
    assert.equal(statements, 1);
  });

  it('writes the queue when the log closes', async () => {
    const audit = open();
    audit.write({ request_id: 'closing', at: '2026-03-10T12:00:00.000Z' });
    await audit.close();
    assert.equal((await stored('closing')).length, 1);
    const rows = await recordsAfter(store.database, 0, 50_000);
    assert.deepEqual(rows.at(-1)?.at, new Date('2026-03-10T12:00:00Z'));
  });

  it('writes records of an outage once, also when only the response was lost', async () => {
    for (const moment of ['before', 'after'] as const) {
      const audit = open({ database: spoiltStore(store.database, 'audit_append', 1, moment) });
      audit.write({ request_id: `away-${moment}-1` });
      await audit.flush();
      audit.write({ request_id: `away-${moment}-2` });
      await audit.flush();
      assert.deepEqual(await stored(`away-${moment}`), [
        { request_id: `away-${moment}-1` },
        { request_id: `away-${moment}-2` },
      ]);
    }
  });

  it('drops the oldest of too many, and reports how many', async () => {
    const { log, kept } = keepingLog();
    const audit = open({ database: spoiltStore(store.database, 'audit_append', 1, 'before'), log });
    for (let n = 0; n < 10_005; n++) audit.write({ request_id: `flood-${n}` });
    await audit.flush();
    await audit.flush();
    await audit.close();
    const records = await stored('flood-');
    assert.equal(records.length, 10_000);
    assert.deepEqual(records[0], { request_id: 'flood-5' });
    assert.deepEqual([audit.lost, audit.waiting], [5, 0]);
    assert.deepEqual(kept.at(-1), {
      message: 'lost audit records while the database was unavailable',
      fields: { records: 5 },
    });
  });

  it('stores text that PostgreSQL rejects as closely as possible, and loses only what cannot be stored at all', async () => {
    const audit = open();
    audit.write({ request_id: 'odd-1', text: 'nul\0 \ud83d' });
    audit.write({ request_id: 'odd-2', number: 1n as unknown as number });
    audit.write({ request_id: 'odd-3', text: "'; drop table audit_log; --" });
    assert.equal(audit.waiting, 2);
    await audit.flush();
    assert.deepEqual([audit.lost, audit.waiting], [1, 0]);
    const texts = (await stored('odd-')).map(({ text }) => text);
    assert.deepEqual(texts, ['nul\ufffd \ufffd', "'; drop table audit_log; --"]);
  });
});

describe('a file of JSON lines', () => {
  it('gets one line per record in order, with any content, readable only by its owner', async () => {
    const path = join(directory, 'audit.jsonl');
    const records = Array.from({ length: 200 }, (_, n) => ({
      n,
      text: 'two\nlines "quoted" \u2028 \r\n{"forged":true}',
    }));
    for (const part of [records.slice(0, 100), records.slice(100)]) {
      const audit = open();
      for (const record of part) audit.appendLine(path, record);
      await audit.close();
    }
    const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
    const written = lines.map((line) => JSON.parse(line));
    assert.deepEqual(written, records);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
  });

  it('is written once possible, and the failure is logged once', async () => {
    const { log, kept } = keepingLog();
    const path = join(directory, 'later', 'audit.jsonl');
    const audit = open({ log });
    for (const n of [1, 2]) audit.appendLine(path, { n });
    await audit.close();
    assert.equal(kept.filter(({ message }) => message.includes('lines wait in memory')).length, 1);

    const again = open({ log });
    again.appendLine(path, { n: 3 });
    await mkdir(join(directory, 'later'));
    again.appendLine(path, { n: 4 });
    await again.close();
    const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
    const written = lines.map((line) => JSON.parse(line));
    assert.deepEqual(written, [{ n: 3 }, { n: 4 }]);
  });

  it('may be the standard output', async () => {
    const written: string[] = [];
    const audit = open({ standard_output: { write: (text) => written.push(text) } });
    audit.appendLine('-', { n: 1 });
    await audit.close();
    assert.deepEqual(written, ['{"n":1}\n']);
  });
});
