import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BrokenFile } from '../../engine/edge/client-files/broken-file.ts';
import { tryHelper } from '../../engine/edge/doctor/clients/sign-in.ts';
import { withWholeCommand } from '../../engine/edge/doctor/diagnose-workstation.ts';
import { composeFixes } from '../../engine/edge/doctor/fixes.ts';
import type { Fix, HelperCommand } from '../../engine/edge/doctor/workstation.ts';
import { workstationWith } from './support.ts';

const PATH = '/home/ada/file';
const fix = (change: Fix['change'], more: Partial<Fix> = {}): Fix => ({ path: PATH, change, secret: false, ...more });
const adding = (text: string, more: Partial<Fix> = {}) => fix((before) => before + text, more);
const compose = (text: string | undefined, ...fixes: Fix[]) =>
  composeFixes(workstationWith(text === undefined ? {} : { files: { [PATH]: text } }), [{ fixes }, {}]);

describe('fixes of a workstation', () => {
  test('leave a file that cannot be changed as a whole, with the reason, and fix the others', () => {
    const broken = fix(() => {
      throw new BrokenFile('it is not JSON', 3);
    });
    const { changes, failures } = compose('a', adding('b'), broken, { ...adding('x'), path: '/other' });
    const paths = changes.map(({ path }) => path);
    assert.deepEqual(paths, ['/other']);
    assert.deepEqual(failures, [`${PATH}: it is not JSON`]);
  });

  test('name values to hide: their own secrets, and keys anywhere in the file', () => {
    const key = 'sk-planted1234567890';
    const { hides } = compose(`note = "${key}"\nmodel = "coder-1-2026-large"`, adding('b', { hides: ['hidden'] }));
    assert.deepEqual([...new Set(hides)], ['hidden', key]);
  });
});

const FACTS = {
  client: 'coding-cli',
  root_url: 'https://gw.corp.test',
  model: 'coder-1',
  profile: '/opt/my names.yaml',
} as const;

test('a remedy names a command that can be pasted: with the gateway, the model and the names of the client', () => {
  const shipped = { ...FACTS, profile: undefined };
  const unknown = { client: 'coding-cli', root_url: undefined, model: undefined, profile: undefined } as const;
  const example = 'appscli client coding-cli --base-url https://gateway.example.com --model MODEL sets it up';
  const coding = 'appscli client coding-cli --base-url https://gw.corp.test';
  for (const [remedy, facts, completed] of [
    ['appscli client coding-cli it', FACTS, `${coding} --model coder-1 --profile '/opt/my names.yaml' it`],
    [
      'set it up again with appscli client',
      { ...shipped, client: 'messages' },
      'set it up again with appscli client messages --base-url https://gw.corp.test',
    ],
    // Replaces examples by known values, adds no option twice, and changes no other remedy.
    [example, shipped, `${coding} --model coder-1 sets it up`],
    [example, unknown, example],
    ['appscli client coding-cli --model other --check does', shipped, `${coding} --model other --check does`],
    ['chmod 600 it', FACTS, 'chmod 600 it'],
  ] as const)
    assert.equal(withWholeCommand(remedy, facts), completed);
});

const workstation = { env: { PATH: process.env.PATH } };
const run = (command: HelperCommand['command'], seconds?: number) =>
  tryHelper(workstation, { client: 'coding-cli', helper: { command, where: 'config.toml:3' } }, seconds);

describe('a key helper that is tried', { skip: process.platform === 'win32' && 'the lines are for sh' }, () => {
  test('returns its token, and where it is named', async () => {
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
    ['does not end', 'sleep 600', /timed out after 0.1 seconds/, 0.1],
    ['prints without end', 'yes', /far longer than a token/],
    ['prints what is no header', "printf 'gw_\\001'", /HTTP headers cannot carry/],
    ['may not be run', '/etc/passwd', /not executable/],
    ['no shell can run', 'echo a\0b', /no shell can run it/],
    ['is not there', '/nowhere/helper', /program not found/],
    ['prints nothing', 'true', /no output/],
    ['prints more than a token', 'echo key: gw_token', /it printed more than one word/],
    ['is ended by a signal', 'kill -9 $$', /killed by a signal/],
  ] as const) {
    test(`that ${what} returns none, with a remedy`, async () => {
      const { token, diagnosis } = await run({ line }, seconds);
      assert.deepEqual([token, diagnosis.verdict], [undefined, 'failed']);
      assert.match(diagnosis.found, found);
      assert.ok(diagnosis.remedy);
    });
  }
});
