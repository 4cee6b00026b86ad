import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientNames } from '../../engine/client-files/names.ts';
import { examineBuildCli } from '../../engine/doctor/clients/build-cli.ts';
import { examineCodingCli } from '../../engine/doctor/clients/coding-cli.ts';
import { examineMessages } from '../../engine/doctor/clients/messages.ts';
import type { Desk } from '../../engine/doctor/desk.ts';

test('a client that is not on the desk has nothing wrong with it', () => {
  const desk: Desk = {
    env: { HOME: '/home/nobody' },
    platform: 'linux',
    names: clientNames(undefined),
    read: () => undefined,
    find: () => undefined,
    now: () => Date.parse('2026-11-23T09:00:00Z'),
  };
  for (const examine of [examineMessages, examineCodingCli, examineBuildCli]) {
    const { is_there, diagnoses, connection } = examine(desk);
    assert.equal(is_there, false);
    assert.deepEqual(diagnoses, []);
    assert.equal(connection, undefined);
  }
});
