import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeRecord } from '../../../engine/cli/audit/record-text.ts';

const at = new Date('2026-11-24T12:32:11.988Z');

test('a record without a model tells the path where the protocol says nothing', () => {
  const record = { user: 'ann@example.com', status: 404, error: 'path_not_found', model: null, path: '/v1/image' };
  const [none] = describeRecord({ at, record: { ...record, protocol: 'none' } }, 80);
  assert.match(none!, / {2}404 {2}ann@example\.com {2}\/v1\/image$/);
  const [messages] = describeRecord({ at, record: { ...record, protocol: 'messages' } }, 80);
  assert.match(messages!, / {2}messages$/);
});

test('a path cannot command the terminal', () => {
  const record = { status: 404, protocol: 'none', model: null, path: '/v1/\u001b[31mred' };
  assert.ok(!describeRecord({ at, record }, 80).join('\n').includes('\u001b'));
});
