/** Audit records of requests that no pipeline takes, by a clock that stands still. */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { StageError } from '../../engine/base/contract/errors.ts';
import type { AuditRecord, Principal } from '../../engine/base/contract/services.ts';
import { createUnservedRecords } from '../../engine/edge/http/app.ts';
import { identityOf } from '../../engine/edge/http/request-identity.ts';
import { until } from '../support/until.ts';

const MINUTE_MS = 60_000;
const NOT_FOUND = new StageError('path_not_found', 'There is nothing at this path.');

function principal(id: string): Principal {
  const token = { id: 'token-1', name: 'laptop', group: 'all' };
  const person = { id, email: `${id}@example.com`, kind: 'access_token', team: undefined, project: undefined } as const;
  return { ...person, groups: ['all'], roles: [], token };
}

/** What a gateway records whose every credential is that of the person it names; `away` names nobody. */
function openRecords(finally_stages: readonly string[] = []) {
  const records: AuditRecord[] = [];
  const waits: (() => void)[] = [];
  const after = (_ms: number, done: () => void) => {
    waits.push(done);
    return { close() {}, unref() {} };
  };
  const clock = { at: 10 * MINUTE_MS, now: () => clock.at, monotonic: () => clock.at, after };
  const frozen = Promise.withResolvers<Principal>();
  const verify = (token: string) => {
    if (token === 'frozen') return frozen.promise;
    if (token === 'away') throw new StageError('store_unavailable', 'The database is away.');
    return principal(token);
  };
  const record = createUnservedRecords({
    config: { server: { trusted_proxies: [] } },
    services: { audit: { write: (entry: AuditRecord) => records.push(entry) }, clock, tokens: { verify } },
    other_requests: { finally: finally_stages.map((name) => ({ definition: { name } })) },
  } as never);
  const ask = async (token: string, path = '/v1/nowhere') => {
    const req = {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      socket: { remoteAddress: '192.0.2.1' },
    };
    const res = {} as ServerResponse;
    await record(req as unknown as IncomingMessage, res, path, NOT_FOUND);
    return identityOf(res);
  };
  return { records, clock, ask, waits, frozen };
}

describe('audit records of requests that no pipeline takes', () => {
  test('are 60 a minute for each caller, and the next one reports how many are missing', async () => {
    const { records, clock, ask } = openRecords();
    for (let i = 0; i < 100; i++) await ask('ann');
    assert.equal(records.length, 60);
    await ask('bob');
    assert.equal(records.at(-1)?.user, 'bob@example.com');
    assert.equal(records.at(-1)?.omitted, undefined);
    clock.at += MINUTE_MS;
    await ask('ann');
    await ask('ann');
    const omitted = records.slice(-2).map((record) => record.omitted);
    assert.deepEqual(omitted, [40, undefined]);
  });

  test('keep no more than the beginning of a path', async () => {
    const { records, ask } = openRecords();
    await ask('ann', `/${'a'.repeat(10_000)}`);
    assert.equal(String(records[0]?.path).length, 200);
  });

  test('are written by the stage audit if it runs for every request, and stages get the caller', async () => {
    const { records, ask } = openRecords(['audit']);
    assert.equal((await ask('ann')).person?.email, 'ann@example.com');
    assert.equal(records.length, 0);
    const others = openRecords(['deliver']);
    await others.ask('ann');
    assert.equal(others.records.length, 1);
  });

  test('are written late if the credential is slow to verify, and the response does not wait', async () => {
    const { records, ask, waits, frozen } = openRecords();
    const answered = ask('frozen');
    waits.at(-1)!();
    await answered;
    assert.equal(records.length, 0);
    frozen.resolve(principal('ann'));
    await until('the record is written', () => records.length === 1);
    assert.equal(records[0]?.address, '192.0.2.1');
  });

  test('are none while credentials cannot be verified', async () => {
    const { records, ask } = openRecords();
    await ask('away');
    assert.equal(records.length, 0);
  });
});
