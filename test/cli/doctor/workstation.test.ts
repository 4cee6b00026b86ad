import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { doctorWorkstation, type WorkstationOptions } from '../../../engine/edge/cli/doctor/workstation.ts';
import type { Input } from '../../../engine/edge/cli/terminal.ts';
import type { ClientKind } from '../../../engine/edge/client-files/clients.ts';
import { openWorkstation } from '../../../engine/edge/doctor/workstation.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { assertRefused } from '../at-gateway.ts';
import { typing } from '../client/set-up.ts';
import { cli, collectingTerminal } from '../support.ts';

const GATEWAY = 'http://127.0.0.1:9';
const TOKEN = 'gw_planted_token_1';
const OTHER = 'sk-planted-legacy-2';

let home: string;
beforeEach(() => {
  home = ownDirectory();
});

const at = (path: string) => join(home, path);
const read = (path: string) => readFileSync(at(path), 'utf8');
const modeOf = (path: string) => (statSync(at(path)).mode & 0o777).toString(8);

function put(path: string, text: string | object, mode = 0o600): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), typeof text === 'string' ? text : `${JSON.stringify(text, null, 2)}\n`);
  chmodSync(at(path), mode);
}

interface Asked {
  readonly client?: ClientKind;
  readonly given?: WorkstationOptions;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: Input;
}

/** Checks the workstation of this home, without a gateway, and asserts that no credential is shown. */
async function doctor({ client, given = {}, env = {}, input = typing() }: Asked = {}) {
  const { terminal, data, info } = collectingTerminal();
  const context = { terminal, env: { HOME: home, ...env }, stages: async () => [] };
  const exit_code = await doctorWorkstation(
    context,
    { offline: true, ...(client && { client }), ...given },
    {
      input,
      openWorkstation: (variables, names) => ({ ...openWorkstation(variables, names), folder: home }),
    },
  );
  for (const secret of [TOKEN, OTHER]) assert.ok(!(data() + info()).includes(secret), `${secret} is shown`);
  return { exit_code, stdout: data(), stderr: info() };
}

const SETTINGS = '.client/settings.json';
const FAULTY = {
  theme: 'dark',
  env: { VENDOR_BASE_URL: `${GATEWAY}/v1`, VENDOR_AUTH_TOKEN: TOKEN, VENDOR_API_KEY: OTHER, RELAY: TOKEN },
};
const MENDED = { theme: 'dark', env: { VENDOR_BASE_URL: GATEWAY, VENDOR_AUTH_TOKEN: TOKEN, RELAY: TOKEN } };

describe('appscli doctor', () => {
  test('reports a fault with its line, remedy and whether it is fixable, or a missing client, and changes nothing', async () => {
    const missing = await doctor({ client: 'build-cli' });
    assert.equal(missing.exit_code, 1);
    assert.match(missing.stdout, /build CLI: not found/);
    put(SETTINGS, FAULTY, 0o644);
    const { exit_code, stdout, stderr } = await doctor();
    assert.equal(exit_code, 1);
    assert.match(stdout, /^failed +address of the Messages client: VENDOR_BASE_URL is/m);
    assert.ok(stdout.includes(`${at(SETTINGS)}:4`), stdout);
    assert.match(stderr, /1 file can be fixed: appscli doctor --fix/);
    assert.deepEqual(JSON.parse(read(SETTINGS)), FAULTY);
    assert.equal(modeOf(SETTINGS), '644');
    for (const line of stdout.split('\n')) assert.ok(line.length <= 80 || !line.includes(' ', 20), line);
  });

  test('finds clients by the names that ship with it as by neutral ones, and by no others with --profile', async () => {
    put('.claude/settings.json', { env: { ANTHROPIC_BASE_URL: `${GATEWAY}/v1`, ANTHROPIC_AUTH_TOKEN: TOKEN } });
    assert.match((await doctor()).stdout, /the client appends \/v1/);
    const { exit_code, stdout } = await doctor({ given: { profile: 'neutral' } });
    assert.equal(exit_code, 0, stdout);
    assert.match(stdout, /none configured/);
    // One letter is no secret: hiding it everywhere would leave nothing to read.
    put('.claude/settings.json', { env: { ANTHROPIC_BASE_URL: `${GATEWAY}/v1`, ANTHROPIC_AUTH_TOKEN: 'e' } });
    const { stderr } = await doctor({ given: { fix: true } });
    assert.match(stderr, /"ANTHROPIC_BASE_URL"/);
    assert.match(stderr, /"ANTHROPIC_AUTH_TOKEN": "<hidden>"/);
  });

  test('prints no command for a target that only a file of the folder names', async () => {
    const env = { HOME: at('other') };
    put('other/.client/settings.json', { env: { VENDOR_AUTH_TOKEN: TOKEN, VENDOR_MODEL: 'coder-1' } });
    put(SETTINGS, { env: { VENDOR_BASE_URL: 'https://evil.example.com' } });
    const { stdout } = await doctor({ env });
    assert.match(stdout, /the doctor did not send it/);
    assert.doesNotMatch(stdout.replace(/\s+/g, ' '), /--base-url https:\/\/evil/);
  });

  test('reports a client that uses another gateway than intended', async () => {
    put(SETTINGS, MENDED);
    const { stdout } = await doctor({ given: { baseUrl: 'https://gw.example.com/v1' } });
    assert.match(stdout.replace(/\s+/g, ' '), /uses http:\/\/127.0.0.1:9 instead of https:\/\/gw.example.com /);
  });

  test('shows no misplaced credential, nor terminal escapes of a file', async () => {
    const env = { VENDOR_BASE_URL: `https://\u001b[31m${TOKEN}`, VENDOR_AUTH_TOKEN: OTHER };
    put(SETTINGS, { env: { ...env, CLIENT_CODE_MAX_CONTEXT_TOKENS: TOKEN } });
    const { stdout, stderr } = await doctor({ given: { fix: true } });
    assert.ok(!(stdout + stderr).includes('\u001b'));
  });
});

describe('appscli doctor --fix', () => {
  test('shows the difference, asks, keeps a backup, makes the file private, and leaves nothing to do', async () => {
    put(SETTINGS, FAULTY, 0o644);
    const input = typing('y');
    const { exit_code, stdout, stderr } = await doctor({ given: { fix: true }, input });
    assert.equal(exit_code, 0, stdout + stderr);
    assert.deepEqual(input.asked, ['Write these changes? [y/N] ']);
    assert.match(stderr, /^-.*VENDOR_BASE_URL.*\/v1"/m);
    assert.match(stderr, /^-.*"VENDOR_API_KEY": "<hidden>"/m);
    assert.deepEqual(JSON.parse(read(SETTINGS)), MENDED);
    assert.deepEqual(JSON.parse(read(`${SETTINGS}.backup-1`)), FAULTY);
    assert.deepEqual([modeOf(SETTINGS), modeOf(`${SETTINGS}.backup-1`)], ['600', '600']);

    const again = await doctor({ given: { fix: true, write: true } });
    assert.equal(again.exit_code, 0);
    assert.match(again.stderr, /--fix found nothing to change/);
    assert.deepEqual(readdirSync(at('.client')).sort(), ['settings.json', 'settings.json.backup-1']);
  });

  test('writes nothing when the reply is no, or when it cannot prompt', async () => {
    for (const input of [typing('n'), typing()]) {
      put(SETTINGS, FAULTY);
      const { exit_code, stderr } = await doctor({ given: { fix: true }, input });
      assert.equal(exit_code, 1);
      assert.match(stderr, /settings\.json was not written/);
      assert.deepEqual(JSON.parse(read(SETTINGS)), FAULTY);
      assert.deepEqual(readdirSync(at('.client')), ['settings.json']);
    }
  });

  test('reports the remaining faults and the result for each file to programs', async () => {
    put(SETTINGS, { env: { ...FAULTY.env, VENDOR_MODEL: 'coder-1' } });
    const { exit_code, stdout } = await doctor({ given: { fix: true, write: true, json: true } });
    const { checks, files } = JSON.parse(stdout);
    assert.equal(exit_code, 0);
    const left = checks.map(({ verdict, id }: { verdict: string; id: string }) => `${verdict} ${id}`);
    assert.deepEqual(left, ['ok messages', 'warning messages.context_window']);
    assert.deepEqual(files, [{ path: at(SETTINGS), change: 'written', backup: `${at(SETTINGS)}.backup-1` }]);
  });

  test('leaves unfixable faults to users: a broken file, a variable of the shell', async () => {
    put(SETTINGS, '{ "env": { ');
    const env = { VENDOR_BASE_URL: `${GATEWAY}/v1`, VENDOR_AUTH_TOKEN: TOKEN };
    const { exit_code, stdout } = await doctor({ given: { fix: true, write: true }, env });
    assert.equal(exit_code, 1);
    assert.match(stdout, /export VENDOR_BASE_URL=http:\/\/127\.0\.0\.1:9\n/);
    assert.equal(read(SETTINGS), '{ "env": { ');
  });
});

describe('a key helper', { skip: process.platform === 'win32' && 'the lines are for sh' }, () => {
  const online = { offline: false } as unknown as WorkstationOptions;
  const withHelper = (line: string) => put(SETTINGS, { apiKeyHelper: line, env: { VENDOR_BASE_URL: GATEWAY } });

  test('is run, and what it printed is not shown', async () => {
    withHelper(`echo ${TOKEN}`);
    assert.match((await doctor({ given: online })).stdout, /it prints a token/);
    withHelper(`echo ${TOKEN} >&2; exit 3`);
    assert.match((await doctor({ given: online })).stdout, /exited with code 3/);
  });

  test('is not run offline, and its sign-in is looked at all the same', async () => {
    withHelper(`touch ${at('ran')}; appscli token --base-url ${GATEWAY}`);
    const { exit_code, stdout } = await doctor();
    assert.equal(exit_code, 1);
    assert.match(stdout, /not signed in at http:\/\/127\.0\.0\.1:9 here/);
    assert.ok(!existsSync(at('ran')));
  });

  test('of appscli uses a sign-in, and its end is shown', async () => {
    withHelper(`appscli token --base-url ${GATEWAY}`);
    const signedIn = (expires_at: string, more = {}) =>
      put('.config/appscli/credentials.json', {
        version: 1,
        gateways: { [GATEWAY]: { access_token: TOKEN, expires_at, lifetime_seconds: 3600, ...more } },
      });
    signedIn('2020-01-01T00:00:00Z');
    assert.match((await doctor()).stdout, /failed +sign-in of appscli: expired at 2020/);
    signedIn('2020-01-01T00:00:00Z', { refresh_token: OTHER });
    assert.match((await doctor()).stdout, /ok +sign-in of appscli: expired; renewed at the next use/);
    signedIn(new Date(Date.now() + 1_800_000).toISOString());
    assert.match((await doctor()).stdout, /ok +sign-in of appscli: valid for 30 more minutes/);
    put('.config/appscli/credentials.json', '{');
    assert.match((await doctor()).stdout, /failed +sign-in of appscli:.* not JSON/s);
  });
});

describe('the usage of appscli doctor', () => {
  test('rejects what does not go together', async () => {
    put('gateway.yaml', '');
    const run = (...words: readonly string[]) => cli(['doctor', ...words], { env: { HOME: home }, cwd: home });
    await assertRefused(run, [
      ['--write', /--write needs --fix/],
      ['--timeout 5', /--timeout needs --config/],
      ['--config nothing.yaml', /nothing\.yaml does not exist/, 78],
      ['--config gateway.yaml --fix', /'--fix' cannot be used with option '--config <file>'/],
      ['messages --config gateway.yaml', /leave out messages/],
      ['nobody', /messages, coding-cli, build-cli/],
    ]);
  });

  test('are enough to look at an empty home', async () => {
    const { exit_code, stdout } = await cli(['doctor', '--offline'], { env: { HOME: home, PATH: '' }, cwd: home });
    assert.equal(exit_code, 0);
    assert.match(stdout, /none configured.*appscli client/s);
    assert.deepEqual(readdirSync(home), []);
  });
});
