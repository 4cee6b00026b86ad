import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StartError } from '../../engine/contract/start-error.ts';
import { examineBuildCli } from '../../engine/doctor/clients/build-cli.ts';
import { examineCodingCli } from '../../engine/doctor/clients/coding-cli.ts';
import { examineMessages } from '../../engine/doctor/clients/messages.ts';
import { examineDesk } from '../../engine/doctor/examine-desk.ts';
import { deskWith } from './support.ts';

test('a client that is not on the desk has nothing wrong with it', () => {
  for (const examine of [examineMessages, examineCodingCli, examineBuildCli]) {
    const { is_there, diagnoses, connection } = examine(deskWith());
    assert.equal(is_there, false);
    assert.deepEqual(diagnoses, []);
    assert.equal(connection, undefined);
  }
});

test('a file that stayed in the usual folder is noticed where another folder is named, also one that cannot be read', () => {
  for (const [examine, folder, program] of [
    [examineCodingCli, 'CODINGCLI_HOME', 'codingcli'],
    [examineBuildCli, 'BUILDCLI_HOME', 'buildcli'],
  ] as const) {
    const desk = deskWith({ env: { [folder]: '/srv/tools' }, programs: [program] });
    const read = (path: string) => {
      if (path.startsWith('/home/ada/.')) throw new StartError(`${path} cannot be read`);
      return undefined;
    };
    const { diagnoses } = examine({ ...desk, read });
    assert.ok(
      diagnoses.some(({ id, where }) => id.endsWith('.folder') && where === folder),
      program,
    );
  }
});

test('a look that breaks is told, and the others are made', async () => {
  const desk = deskWith({ files: { '~/.buildcli/config.toml': '[models]\ndefault = "gw"\n' } });
  const read = (path: string) => {
    if (path.includes('codingcli')) throw new TypeError('a secret is in here');
    return desk.read(path);
  };
  const found: string[] = [];
  for await (const each of examineDesk({ desks: [{ ...desk, read }], is_offline: true })) {
    found.push(`${each.verdict} ${each.id}: ${each.found}`);
  }
  assert.ok(
    found.some((line) => line.startsWith('warning coding_cli.files: this look broke (TypeError)')),
    found.join('\n'),
  );
  assert.ok(found.some((line) => line.includes(' build_cli')));
  assert.ok(!found.join().includes('secret'));
});
