/** The package for developers, as they get it: by npx from the gateway, on their Node.js, without a registry. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { before, describe, test } from 'node:test';
import { type Ended, start } from '../../cli/support.ts';
import { freePort } from '../../support/free-port.ts';
import { startIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn, confirmInBrowser } from '../../support/identity/sign-in.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';

/** The PATH of a machine that has nothing of this repository. */
const PATH = (process.env.PATH ?? '')
  .split(delimiter)
  .filter((folder) => !folder.includes('node_modules'))
  .join(delimiter);

const directory = ownDirectory();
let env: NodeJS.ProcessEnv;

const provider = use(startIdentityProvider);
const gateway = use(() => bootSignIn({ provider }));
before(async () => {
  // A closed port: a request to a registry waits or fails.
  const npm_config_registry = `http://127.0.0.1:${await freePort()}/`;
  env = { PATH, HOME: directory, npm_config_registry, npm_config_fetch_retries: '0' };
});

async function run(file: string, arguments_: readonly string[], more: { exit_code?: number } = {}): Promise<Ended> {
  const ended = await start(file, arguments_, { cwd: directory, env }).ended;
  assert.equal(ended.exit_code, more.exit_code ?? 0, `${file} ${arguments_.join(' ')}: ${ended.stderr}${ended.stdout}`);
  return ended;
}

describe('by npx, with an empty home and no registry', () => {
  const npx = (...words: readonly string[]) => ['--yes', `${gateway.url}/client.tgz`, ...words];

  test('a user signs in, sees their identity, sets up a client whose key helper works without npx, and signs out', async () => {
    const signing_in = start('npx', npx('login'), { cwd: directory, env });
    const code = await until('the code is shown', () => {
      if (signing_in.process.exitCode !== null) throw new Error(signing_in.stderr());
      return /^ {2}([A-Z]{4}-[A-Z]{4})$/m.exec(signing_in.stderr())?.[1];
    });
    await confirmInBrowser(gateway.url, code, 'anna');
    const { exit_code, stderr } = await signing_in.ended;
    assert.equal(exit_code, 0, stderr);
    assert.match(stderr, /Signed in at http\S+ as anna@example\.com\./);
    assert.ok(stderr.includes(`npx --yes ${gateway.url}/client.tgz models `), 'hints name what can be pasted');

    assert.match((await run('npx', npx('whoami'))).stdout, /^anna@example\.com at http/);
    assert.match((await run('npx', npx('models'))).stdout, /^coder-1 /m);
    assert.match((await run('npx', npx('usage'))).stdout, /^Usage of anna@example\.com /);

    const made = await run('npx', npx('client', 'messages', '--key-helper', '--write'));
    const file = /\+\+\+ (\S+settings\.json)/.exec(made.stderr)![1]!;
    const { apiKeyHelper } = JSON.parse(await readFile(file, 'utf8'));
    await rm(join(directory, '.npm'), { recursive: true });
    const helped = await run('sh', ['-c', apiKeyHelper]);
    const headers = { authorization: `Bearer ${helped.stdout.trim()}` };
    const listModels = () => fetch(`${gateway.url}/v1/models`, { headers });
    assert.equal((await listModels()).status, 200);

    const credentials = await readFile(join(directory, '.config/appscli/credentials.json'), 'utf8');
    const { access_token, refresh_token } = JSON.parse(credentials).gateways[gateway.url];
    const ended = await run('npx', npx('logout'));
    assert.match(ended.stderr, /^Signed out of http/m);
    for (const secret of [access_token, refresh_token]) assert.ok(!`${ended.stdout}${ended.stderr}`.includes(secret));
    await until('the token is rejected', async () => (await listModels()).status === 401);
  });

  test("npm's cached copy is useless once the gateway serves another version", async () => {
    const settings = async () => {
      const words = ['client', 'messages', '--api-key-env', 'TOKEN', '--settings', '--print'];
      return run('npx', npx(...words));
    };
    const neutral = await settings();
    assert.match(neutral.stdout, /"VENDOR_BASE_URL"/);
    assert.match(neutral.stderr, /using neutral names/);
    const config = JSON.parse(await readFile(gateway.config_file, 'utf8'));
    await writeFile(
      join(directory, 'names.yaml'),
      'header_prefix: other\nclients: { messages: { variable_prefix: OTHER } }\n',
    );
    const server = { ...config.server, profile: join(directory, 'names.yaml') };
    await writeFile(gateway.config_file, JSON.stringify({ ...config, server }));
    await gateway.reload();
    const other = await settings();
    assert.match(other.stdout, /"OTHER_BASE_URL"/);
    assert.doesNotMatch(other.stderr, /using neutral names/);
  });
});

describe('alone in an empty directory', () => {
  // The oldest that is promised, where the machine has it, and the one that runs the gateway.
  const folder = PATH.split(delimiter).find((each) => existsSync(join(each, 'node')));
  const runtimes = [...(folder === undefined ? [] : [join(folder, 'node')]), process.execPath];

  for (const runtime of runtimes) {
    test(`it runs on ${runtime}`, async () => {
      const own = join(directory, `alone-${runtimes.indexOf(runtime)}`);
      await mkdir(own);
      const archive = join(own, 'client.tgz');
      const served = await fetch(`${gateway.url}/client.tgz`);
      await writeFile(archive, Buffer.from(await served.arrayBuffer()));
      await run('tar', ['xzf', archive, '-C', own]);
      const program = join(own, 'package', 'appscli.mjs');
      const { stdout, stderr } = await run(runtime, [program, '--help']);
      assert.match(stdout, /^Usage: npx --yes http\S+\/client\.tgz /);
      assert.equal(stderr, '');
      const home = { ...env, HOME: own };
      const signed_out = await start(runtime, [program, 'whoami'], { cwd: own, env: home }).ended;
      const login = `npx --yes ${gateway.url}/client.tgz login`;
      assert.equal(signed_out.stderr, `appscli: you are not signed in at ${gateway.url}. Run: ${login}\n`);
      assert.equal(signed_out.exit_code, 1);
      const looked = await start(runtime, [program, 'doctor', '--offline'], { cwd: own, env: home }).ended;
      assert.match(looked.stdout, /^skipped {2}coding clients: none configured/);
      assert.equal(looked.exit_code, 0, looked.stdout + looked.stderr);
      const printed = ['client', 'build-cli', '--model', 'coder-1', '--print', '--profile', 'shipped'];
      const shown = await start(runtime, [program, ...printed], { cwd: own, env: home }).ended;
      assert.match(shown.stdout, /^base_url = "http:\S+\/v1"$/m);
    });
  }
});
