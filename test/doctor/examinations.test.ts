import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examineBuildCli } from '../../engine/doctor/clients/build-cli.ts';
import { examineCodingCli } from '../../engine/doctor/clients/coding-cli.ts';
import { examineMessages } from '../../engine/doctor/clients/messages.ts';
import { deskWith } from './support.ts';

test('a client that is not on the desk has nothing wrong with it', () => {
  for (const examine of [examineMessages, examineCodingCli, examineBuildCli]) {
    const { is_there, diagnoses, connection } = examine(deskWith());
    assert.equal(is_there, false);
    assert.deepEqual(diagnoses, []);
    assert.equal(connection, undefined);
  }
});
