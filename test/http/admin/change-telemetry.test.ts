/** Telemetry of changes through the admin API. */
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import type { Operation } from '../../../engine/base/contract/telemetry.ts';
import { ADMIN_ACTION_NAMES } from '../../../engine/domain/audit/admin-changes.ts';
import { ADMIN_OPERATIONS } from '../../../engine/edge/admin/description.ts';
import { REQUEST_ID_HEADER } from '../../../engine/pipeline/run/headers.ts';
import { adminBench } from './support.ts';

const bench = adminBench();
beforeEach(() => {
  bench.operations.length = 0;
});

/** Action, kind of caller, subject and reason of recorded changes. */
const recorded = () =>
  bench.operations.map(({ attributes: { 'gateway.admin.action': action, ...rest }, error_type }) => [
    action,
    rest['gateway.admin.actor_kind'],
    rest['gateway.admin.subject'],
    error_type,
  ]);

test('every changing operation has the name of a change', () => {
  for (const { name, method, action } of ADMIN_OPERATIONS.values()) {
    assert.equal(action !== undefined && ADMIN_ACTION_NAMES.includes(action), method !== 'GET', name);
  }
});

describe('telemetry of changes', () => {
  test('has each change by its action, and nothing of reads', async () => {
    const { body, headers } = await bench.ask('alice', 'POST', '/admin/api/tokens', { name: 'planted-name' });
    const [{ attributes, trace }] = bench.operations as [Operation];
    assert.equal(attributes['gateway.request_id'], headers.get(REQUEST_ID_HEADER));
    assert.match(String(trace?.trace_id), /^[0-9a-f]{32}$/);
    await bench.ask('alice', 'GET', '/admin/api/tokens');
    await bench.ask('root', 'DELETE', `/admin/api/tokens/${body.id}`);
    assert.deepEqual(recorded(), [
      ['token.create', 'person', body.id, undefined],
      ['token.revoke', 'person', body.id, undefined],
    ]);
    const text = JSON.stringify(bench.operations);
    for (const planted of [body.token, 'planted-name', 'alice']) assert.ok(!text.includes(planted), planted);
  });

  test('has rejections, with the reason', async () => {
    await bench.ask('alice', 'POST', '/admin/api/people/bob@example.com/deprovision', {});
    await bench.ask('root', 'DELETE', '/admin/api/tokens/tok_planted');
    await bench.send('POST', '/admin/api/tokens');
    assert.deepEqual(recorded(), [
      ['person.deprovision', 'person', undefined, 'forbidden'],
      ['token.revoke', 'person', undefined, 'not_found'],
      ['token.create', 'none', undefined, 'credential_missing'],
    ]);
    assert.doesNotMatch(JSON.stringify(bench.operations), /planted|bob/);
  });

  test('has a change that the database rejected', async () => {
    const { status } = await bench.withoutStore(() =>
      bench.ask('root', 'POST', '/admin/api/people/fay@example.com/deprovision', {}),
    );
    assert.equal(status, 503);
    const line = bench.logs.at(-1)!;
    const { attributes, trace } = bench.operations[0]!;
    assert.ok(line.includes(String(attributes['gateway.request_id'])) && line.includes(trace!.trace_id), line);
    assert.deepEqual(recorded(), [['person.deprovision', 'person', undefined, 'store_unavailable']]);
  });
});
