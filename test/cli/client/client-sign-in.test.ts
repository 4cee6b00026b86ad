import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { copyPackage } from '../../../engine/edge/cli/client.ts';
import { helperLine } from '../../../engine/edge/client-files/key-helper.ts';
import { parseToml } from '../../../engine/edge/client-files/toml-text.ts';
import { credentialsFor, keep, startScriptedGateway } from '../../client/scripted-gateway.ts';
import { startCli } from '../support.ts';
import { backend, buildCli, codingCli, home, messages, piped, put, read, remove, useBackend } from './set-up.ts';

const BASE = 'https://gateway.example.com/llm';
const PROGRAM = { runtime: '/opt/node 24/bin/node', script: "/home/o'neil/appscli.js" };
const MODEL = { model: 'coder-1', contextWindow: 200_000 };

useBackend({ program: PROGRAM });

const settings = () => JSON.parse(read('.client', 'settings.json'));

const parse = (text: string) => JSON.parse(JSON.stringify(parseToml(text)));

function managedProfile(): string {
  const files = (name: string) => `{ linux: "${home('etc', name)}", macos: "${home('etc', name)}" }`;
  put(
    `header_prefix: vendor
clients:
  messages: { managed_file: ${files('managed-settings.json')} }
  coding_cli: { managed_file: ${files('coding.toml')} }
  build_cli: { managed_file: ${files('build.toml')} }
`,
    'profile.yaml',
  );
  return home('profile.yaml');
}

describe('signing in at the gateway', () => {
  test('is written for the Messages client, and conflicting settings are removed', async () => {
    const before = `{
  "theme": "dark",
  "apiKeyHelper": "/usr/bin/old-helper",
  "env": {
    "VENDOR_AUTH_TOKEN": "planted",
    "MINE": "1",
    "VENDOR_BASE_URL": "https://old.example.com"
  }
}
`;
    put(before, '.client', 'settings.json');
    assert.equal(await messages({ baseUrl: BASE, signIn: true, write: true }), 0);
    assert.equal(
      read('.client', 'settings.json'),
      `{
  "theme": "dark",
  "env": {
    "MINE": "1"
  },
  "forceLoginMethod": "gateway",
  "forceLoginGatewayUrl": "${BASE}"
}
`,
    );
    assert.equal(read('.client', 'settings.json.backup-1'), before);
    assert.doesNotMatch(backend.info(), /planted/);
    assert.equal(await messages({ baseUrl: BASE, signIn: true }), 0, 'there is nothing left to write');
  });

  test('is compatible with models and discovery, without an address for a gateway without sign-in', async () => {
    const input = { baseUrl: BASE, signIn: true, model: 'coder-1', discovery: true, write: true } as const;
    await messages(input);
    assert.deepEqual(settings().forceLoginGatewayUrl, BASE);
    assert.equal(settings().env.VENDOR_MODEL, 'coder-1');
    assert.equal(settings().env.CLIENT_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY, '1');
    assert.equal(settings().env.VENDOR_BASE_URL, undefined);
  });

  test('warns of environment variables that override it', async () => {
    Object.assign(backend.env, { VENDOR_AUTH_TOKEN: 'planted', VENDOR_BASE_URL: 'https://old.example.com' });
    await messages({ baseUrl: BASE, signIn: true, print: true });
    assert.match(
      backend.info(),
      /VENDOR_AUTH_TOKEN is set in your environment: remove it, otherwise the client does not sign in/,
    );
    assert.match(backend.info(), /VENDOR_BASE_URL is set in your environment/);
    assert.doesNotMatch(backend.info(), /planted/);
  });

  test('is checked by probing whether the gateway offers it', async () => {
    const gateway = await startScriptedGateway();
    const input = { baseUrl: gateway.url, signIn: true, check: true, print: true } as const;
    await messages(input);
    assert.match(backend.info(), /supports sign-in from a terminal/);
    gateway.scripts.set('/.well-known/oauth-authorization-server', () => ({ status: 404, body: {} }));
    await assert.rejects(messages(input), { exit_code: 69, message: /cannot sign in at/ });
  });
});

describe('a key helper', () => {
  test("is a command with absolute paths that the client's shell accepts, for the Messages client", async () => {
    put('{"forceLoginMethod": "gateway", "forceLoginGatewayUrl": "https://x.example.com"}', '.client', 'settings.json');
    await messages({ baseUrl: BASE, keyHelper: true, write: true });
    assert.deepEqual(settings(), {
      apiKeyHelper: `'/opt/node 24/bin/node' '/home/o'\\''neil/appscli.js' token --base-url ${BASE}`,
      env: { VENDOR_BASE_URL: BASE, CLIENT_CODE_API_KEY_HELPER_TTL_MS: '60000' },
    });
    assert.match(backend.info(), /you are not signed in at .* here: run appscli login --base-url/);
  });

  test('needs no shell in the coding CLI, and no other way to a credential stays beside it', async () => {
    put('[model_providers.custom]\nenv_key = "OURS"\nrequires_compat_auth = false\n', '.codingcli', 'config.toml');
    await codingCli({ ...MODEL, baseUrl: BASE, keyHelper: true, write: true });
    const { model_providers } = parse(read('.codingcli', 'config.toml'));
    assert.deepEqual(model_providers.custom, {
      name: 'custom',
      base_url: `${BASE}/v1`,
      wire_api: 'responses',
      supports_websockets: false,
      auth: {
        command: PROGRAM.runtime,
        args: [PROGRAM.script, 'token', '--base-url', BASE],
        timeout_ms: 30_000,
        refresh_interval_ms: 60_000,
      },
    });
    assert.ok(!existsSync(home('.codingcli', 'auth.json')));
    await codingCli({ ...MODEL, baseUrl: BASE, apiKeyEnv: 'OURS', write: true });
    assert.doesNotMatch(read('.codingcli', 'config.toml'), /auth\]|command/);
  });

  test('needs no shell in the build CLI either', async () => {
    put('[model.coder-1]\napi_key = "planted"\nenv_key = "X"\n', '.buildcli', 'config.toml');
    await buildCli({ ...MODEL, baseUrl: BASE, keyHelper: true, write: true });
    const { model, auth_provider } = parse(read('.buildcli', 'config.toml'));
    assert.deepEqual(
      [model['coder-1'].auth_provider, model['coder-1'].api_key, model['coder-1'].env_key],
      ['coder-1', undefined, undefined],
    );
    assert.deepEqual(auth_provider['coder-1'], {
      command: PROGRAM.runtime,
      args: [PROGRAM.script, 'token', '--base-url', BASE],
      timeout_secs: 30,
    });
  });

  test("is checked with the signed-in user's token", async () => {
    const gateway = await startScriptedGateway();
    gateway.scripts.set('/v1/models?limit=1000', ({ headers }) =>
      headers.authorization === 'Bearer access-0' ? { body: { data: [{ id: 'coder-1' }] } } : { status: 401, body: {} },
    );
    const input = { ...MODEL, baseUrl: gateway.url, keyHelper: true, check: true, print: true } as const;
    await assert.rejects(buildCli(input), { exit_code: 1, message: /not signed in/ });
    keep(backend, {
      [gateway.url]: credentialsFor(3000, { expires_at: new Date(Date.now() + 3_000_000).toISOString() }),
    });
    await buildCli(input);
    assert.match(backend.info(), /serves coder-1 to this token/);
  });

  test('written by the program itself prints a token from any directory, with an empty environment', async () => {
    const gateway = await startScriptedGateway();
    // With an empty environment it has the clock of the machine.
    keep(backend, { [gateway.url]: { ...credentialsFor(0), expires_at: '2126-01-01T00:00:00Z' } });
    const set_up = ['client', 'messages', '--base-url', gateway.url, '--key-helper', '--write'];
    // In this process the program that the helper names would be this file, which would run itself without end.
    assert.equal((await startCli(set_up, { env: backend.env }).ended).exit_code, 0);
    const { NODE_OPTIONS, APPSCLI_TEST_CLOCK_MS } = process.env;
    const env = { HOME: backend.home, NODE_OPTIONS, APPSCLI_TEST_CLOCK_MS };
    const printed = execFileSync('/bin/sh', ['-c', settings().apiKeyHelper], { cwd: '/', env });
    assert.equal(String(printed), 'access-0\n');
  });

  test('is set to another program, with a warning if that program may disappear', async () => {
    const input = { baseUrl: BASE, keyHelper: true, print: true } as const;
    await messages({ ...input, appscli: '/usr/local/bin/appscli' });
    assert.match(backend.data(), new RegExp(`"apiKeyHelper": "/usr/local/bin/appscli token --base-url ${BASE}"`));
    assert.doesNotMatch(backend.info(), /cache/);
    const program = { ...PROGRAM, script: '/home/a/.npm/_npx/0a1b/node_modules/appscli/engine/bin/appscli.js' };
    await messages(input, { program });
    assert.match(backend.info(), /cache that may be emptied: install it, or set its path with --appscli/);
  });

  test('may be a copy of its package, in which every file is replaced as a whole', () => {
    const [from, to] = [home('package'), home('copy', 'deep')];
    mkdirSync(join(from, 'engine'), { recursive: true });
    const file = join('engine', 'a.js');
    writeFileSync(join(from, file), 'old');
    copyPackage(to, from);
    const open = openSync(join(to, file), 'r');
    writeFileSync(join(from, file), 'new');
    copyPackage(to, from);
    assert.deepEqual([readFileSync(open, 'utf8'), readFileSync(join(to, file), 'utf8')], ['old', 'new']);
    closeSync(open);
    assert.deepEqual(readdirSync(join(to, 'engine')), ['a.js']);
    if (process.platform !== 'win32') assert.equal(statSync(to).mode & 0o777, 0o700);
  });

  test('is quoted for cmd on Windows, and rejected for a path that cmd would change', () => {
    const args = ['token', '--base-url', BASE];
    assert.equal(
      helperLine({ program: 'C:\\Program Files\\appscli.cmd', args }, 'windows'),
      `"C:\\Program Files\\appscli.cmd" token --base-url ${BASE}`,
    );
    assert.throws(() => helperLine({ program: 'C:\\100%\\appscli.cmd', args }, 'windows'), /without " and %/);
  });
});

describe('a file for every machine', () => {
  test('is written where the client looks for it, readable by all users', {
    skip: process.platform === 'win32',
  }, async () => {
    const managed = { baseUrl: BASE, profile: managedProfile(), managed: true, write: true } as const;
    assert.equal(await messages({ ...managed, signIn: true }), 0);
    assert.equal(JSON.parse(read('etc', 'managed-settings.json')).forceLoginGatewayUrl, BASE);
    assert.equal(statSync(home('etc', 'managed-settings.json')).mode & 0o777, 0o644);
    assert.equal(statSync(home('etc')).mode & 0o777, 0o755);
    await codingCli({ ...MODEL, ...managed, keyHelper: true });
    await buildCli({ ...MODEL, ...managed, keyHelper: true, appscli: '/opt/appscli' });
    assert.match(read('etc', 'coding.toml'), /^command = "appscli"$/m);
    assert.match(read('etc', 'build.toml'), /^command = "\/opt\/appscli"$/m);
    assert.doesNotMatch(backend.info(), /not signed in/);
    assert.ok(!existsSync(home('.client')) && !existsSync(home('.codingcli')) && !existsSync(home('.buildcli')));
  });

  test('of another system is shown, and where it belongs', async () => {
    const other = process.platform === 'win32' ? 'linux' : 'windows';
    await messages({ baseUrl: BASE, keyHelper: true, managed: other, write: true });
    const { apiKeyHelper } = JSON.parse(backend.data());
    assert.equal(apiKeyHelper, `${other === 'windows' ? 'appscli.cmd' : 'appscli'} token --base-url ${BASE}`);
    assert.match(backend.info(), /Install the following as .*managed-settings\.json on each machine/);
    const build = { ...MODEL, baseUrl: BASE, keyHelper: true, managed: 'windows' } as const;
    await assert.rejects(buildCli(build), {
      exit_code: 64,
      message: /no managed file/,
    });
  });

  test('contains no token, with any options', async () => {
    for (const how of [{ apiKey: 'gw_planted_token_1' }, { tokenStdin: true }, {}] as const) {
      const input = { ...MODEL, ...how, baseUrl: BASE, managed: true } as const;
      await assert.rejects(codingCli(input), { exit_code: 64, message: /contain no token/ });
    }
  });
});

describe('undoing it', () => {
  test('leaves the files as they were before', async () => {
    const [client, coding, build] = [
      '{\n  "theme": "dark"\n}\n',
      '# mine\napproval_policy = "never"\n\n[tui]\ntheme = "x"\n',
      '# mine\n[ui]\nscreen_mode = "minimal"\n',
    ];
    put(client, '.client', 'settings.json');
    put(coding, '.codingcli', 'config.toml');
    put(build, '.buildcli', 'config.toml');
    const write = { baseUrl: BASE, write: true } as const;
    await messages({ ...write, model: 'm', discovery: true, keyHelper: true });
    await codingCli({ ...MODEL, ...write, keyHelper: true });
    await buildCli({ ...MODEL, ...write, keyHelper: true });
    for (const kind of ['messages', 'coding-cli', 'build-cli'] as const) assert.equal(await remove(kind, BASE), 0);
    assert.equal(read('.client', 'settings.json'), client);
    assert.deepEqual(parse(read('.codingcli', 'config.toml')), parse(coding));
    assert.match(read('.codingcli', 'config.toml'), /^# mine$/m);
    assert.deepEqual(parse(read('.buildcli', 'config.toml')), parse(build));
    await messages({ ...write, signIn: true });
    await remove('messages', BASE);
    assert.equal(read('.client', 'settings.json'), client);
  });

  test('leaves no key behind that another way to a credential took the place of', async () => {
    const write = { ...MODEL, baseUrl: BASE, write: true } as const;
    await codingCli({ ...write, tokenStdin: true }, { input: piped('gw_planted_token_1') });
    put(read('.codingcli', 'auth.json').replace('{', '{ "last_refresh": "x",'), '.codingcli', 'auth.json');
    await codingCli({ ...write, apiKeyEnv: 'GATEWAY_TOKEN' });
    assert.deepEqual(JSON.parse(read('.codingcli', 'auth.json')), { last_refresh: 'x' });
    await remove('coding-cli', BASE);
    assert.deepEqual(JSON.parse(read('.codingcli', 'auth.json')), { last_refresh: 'x' });
    assert.doesNotMatch(backend.info(), /planted/);
  });

  test("leaves another gateway's settings alone, also the variables beside a sign-in", async () => {
    const env = { VENDOR_BASE_URL: 'https://other.example.com', VENDOR_AUTH_TOKEN: 'gw_of_other' };
    const sign_in = { forceLoginMethod: 'gateway', forceLoginGatewayUrl: BASE };
    put(JSON.stringify({ ...sign_in, env }), '.client', 'settings.json');
    await remove('messages', BASE);
    assert.deepEqual(JSON.parse(read('.client', 'settings.json')), { env });
    await messages({ baseUrl: 'https://other.example.com', signIn: true, write: true });
    const before = read('.client', 'settings.json');
    assert.equal(await remove('messages', BASE), 0);
    assert.equal(await remove('coding-cli', BASE), 0);
    assert.equal(read('.client', 'settings.json'), before);
    assert.match(backend.info(), /have no settings for/);
  });
});
