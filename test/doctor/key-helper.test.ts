import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { tryHelper } from '../../engine/doctor/clients/key-helper.ts';
import type { HelperCommand } from '../../engine/doctor/diagnosis.ts';

const desk = { env: { PATH: process.env.PATH } };
const run = (command: HelperCommand['command'], seconds?: number) =>
  tryHelper(desk, { client: 'coding-cli', helper: { command, where: 'config.toml:3' } }, seconds);

describe('a key helper that is tried', { skip: process.platform === 'win32' && 'the lines are for sh' }, () => {
  test('gives its token, and says where it is named', async () => {
    const { token, diagnosis } = await run({ program: 'printf', args: [' gw_token \\n'] });
    assert.equal(token, 'gw_token');
    assert.deepEqual(diagnosis, {
      id: 'coding_cli.key_helper',
      title: 'key helper',
      where: 'config.toml:3',
      verdict: 'ok',
      found: 'it prints a token',
    });
  });

  for (const [what, line, found, seconds] of [
    ['does not end', 'sleep 600', /not done after 0.1 seconds/, 0.1],
    ['prints without end', 'yes', /far more than a token/],
    ['prints what is no header', "printf 'gw_\\001'", /no HTTP header can carry/],
    ['may not be run', '/etc/passwd', /may not be run/],
    ['no shell can run', 'echo a\0b', /no shell can run it/],
    ['is ended by a signal', 'kill -9 $$', /ended by a signal/],
  ] as const) {
    test(`that ${what} gives none, and says what to do`, async () => {
      const { token, diagnosis } = await run({ line }, seconds);
      assert.equal(token, undefined);
      assert.equal(diagnosis.verdict, 'failed');
      assert.match(diagnosis.found, found);
      assert.ok(diagnosis.remedy);
    });
  }
});
