import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { backend, buildCli, codingCli, home, messages, piped, put, read, typing, useBackend } from './set-up.ts';

const BASE = 'https://gateway.example.com';
const TOKEN = 'gw_planted_token_1';
const VENDOR_NAMES = join(import.meta.dirname, '..', '..', '..', 'examples', 'profiles', 'vendor-names.yaml');

useBackend();

const WINDOW = { contextWindow: 500_000 };

describe('the build CLI', () => {
  const options = { ...WINDOW, baseUrl: BASE, model: 'made/coder-1' };

  test('gets an entry for the gateway, which is its default, with the /v1 form of the address', async () => {
    assert.equal(await buildCli({ ...options, write: true }), 0);
    assert.equal(
      read('.buildcli', 'config.toml'),
      `[models]
default = "made-coder-1"
session_summary = "made-coder-1"
image_description = "made-coder-1"

[model.made-coder-1]
model = "made/coder-1"
base_url = "${BASE}/v1"
name = "made/coder-1"
context_window = 500000
env_key = "RELAY_API_KEY"
`,
    );
    assert.match(backend.info(), /reads its token from RELAY_API_KEY, which is not set/);
    assert.equal(backend.data(), '');
  });

  test('accepts the fields of a form, with any form of the address', async () => {
    const form = {
      ...options,
      baseUrl: `${BASE}/v1/`,
      alias: 'coder',
      displayName: 'Coder of ours',
      apiKeyEnv: 'OURS',
      contextWindow: 200_000,
    };
    await buildCli({ ...form, print: true });
    assert.match(backend.data(), /^default = "coder"$/m);
    assert.match(backend.data(), /^base_url = "https:\/\/gateway\.example\.com\/v1"$/m);
    assert.match(backend.data(), /^name = "Coder of ours"\ncontext_window = 200000\nenv_key = "OURS"$/m);
    assert.ok(!existsSync(home('.buildcli')), 'printing writes nothing');
  });

  test('asks with the difference in view, and writes only after a yes', async () => {
    put('# mine\n[models]\ndefault = "old"\n', '.buildcli', 'config.toml');
    for (const [response, exit_code] of [
      ['', 1],
      ['n', 1],
      ['Y', 0],
      ['never asked', 0],
    ] as const) {
      const input = typing(response);
      assert.equal(await buildCli(options, { input }), exit_code);
      assert.deepEqual(input.asked, response === 'never asked' ? [] : ['Write these changes? [y/N] ']);
    }
    assert.match(backend.info(), /-default = "old"\n\+default = "made-coder-1"/);
    assert.match(backend.info(), /is up to date/);
    assert.match(read('.buildcli', 'config.toml'), /^# mine\n\[models\]\ndefault = "made-coder-1"\n/);
    assert.equal(read('.buildcli', 'config.toml.backup-1'), '# mine\n[models]\ndefault = "old"\n');
    assert.deepEqual(readdirSync(home('.buildcli')).toSorted(), ['config.toml', 'config.toml.backup-1']);
  });

  test('is not written where it cannot prompt, and loses a literal key that it would prefer to the variable', async () => {
    assert.equal(await buildCli(options), 1);
    assert.match(backend.info(), /run this again with --write/);
    assert.ok(!existsSync(home('.buildcli')));
    put('[model.coder]\napi_key = "sk-planted"\nmodel = "x"\n', '.buildcli', 'config.toml');
    await buildCli({ ...options, alias: 'coder', write: true });
    assert.doesNotMatch(read('.buildcli', 'config.toml'), /api_key/);
    assert.doesNotMatch(backend.info(), /planted/);
  });
});

describe('the coding CLI', () => {
  const options = { ...WINDOW, baseUrl: BASE, model: 'coder-1' };

  test('gets its two files, the credential in one that only its user can read', async () => {
    const input = { ...options, tokenStdin: true, write: true } as const;
    assert.equal(await codingCli(input, { input: piped(`${TOKEN}\n`) }), 0);
    assert.equal(
      read('.codingcli', 'config.toml'),
      `model_provider = "custom"
model = "coder-1"
model_reasoning_effort = "none"
model_context_window = 500000
model_auto_compact_token_limit = 475000

[model_providers.custom]
name = "custom"
base_url = "${BASE}/v1"
wire_api = "responses"
requires_compat_auth = true
supports_websockets = false
`,
    );
    assert.deepEqual(JSON.parse(read('.codingcli', 'auth.json')), { COMPAT_API_KEY: TOKEN });
    assert.equal(statSync(home('.codingcli', 'auth.json')).mode & 0o777, 0o600);
    assert.doesNotMatch(backend.info() + backend.data(), /planted/);
  });

  test('requests the token without echo, and shows it nowhere', async () => {
    const input = typing(TOKEN, 'yes');
    assert.equal(await codingCli({ ...options, json: true }, { input }), 0);
    assert.deepEqual(input.asked, ['hidden Token for the gateway (not shown): ', 'Write these changes? [y/N] ']);
    const reported = JSON.parse(backend.data());
    assert.deepEqual(reported.files, [
      { path: home('.codingcli', 'auth.json'), change: 'written', backup: null },
      { path: home('.codingcli', 'config.toml'), change: 'written', backup: null },
    ]);
    assert.doesNotMatch(backend.info() + backend.data(), /planted/);
  });

  test('may read the token from a variable; then auth.json is not touched', async () => {
    const input = {
      ...options,
      apiKeyEnv: 'OURS',
      providerName: 'Our gateway',
      contextWindow: 200_000,
      write: true,
    } as const;
    await codingCli(input);
    const config = read('.codingcli', 'config.toml');
    assert.match(config, /^name = "Our gateway"$/m);
    assert.match(config, /^env_key = "OURS"$/m);
    assert.match(config, /^requires_compat_auth = false$/m);
    assert.match(config, /^model_auto_compact_token_limit = 190000$/m);
    assert.deepEqual(readdirSync(home('.codingcli')), ['config.toml']);
    await codingCli({ ...options, tokenStdin: true, write: true }, { input: piped(TOKEN) });
    assert.doesNotMatch(read('.codingcli', 'config.toml'), /env_key/, 'an unset variable would keep it from starting');
  });

  test('warns of settings that would override the gateway', async () => {
    put('profile = "work"\nmodel_catalog_json = "x"\n', '.codingcli', 'config.toml');
    put('{"tokens": {"id_token": "planted"}}', '.codingcli', 'auth.json');
    await codingCli({ ...options, tokenStdin: true, write: true }, { input: piped(TOKEN) });
    assert.match(backend.info(), /profile is set in .*config\.toml: remove it/);
    assert.match(backend.info(), /model_catalog_json is set in/);
    assert.match(backend.info(), /there is also a vendor sign-in/);
    assert.deepEqual(JSON.parse(read('.codingcli', 'auth.json')).tokens, { id_token: 'planted' });
  });
});

describe('a file that cannot be understood', () => {
  test('is named, whichever of the two it is, and neither is written', async () => {
    put('[models]\ndefault = "hunter2\n', '.buildcli', 'config.toml');
    const build = { ...WINDOW, baseUrl: BASE, model: 'coder-1', write: true } as const;
    await assert.rejects(buildCli(build), {
      message: /config\.toml:2: invalid TOML: (?:(?!hunter2).)*; nothing was written$/,
      exit_code: 78,
    });
    put('{"a": 1,\n}', '.codingcli', 'auth.json');
    const input = { ...WINDOW, baseUrl: BASE, model: 'coder-1', tokenStdin: true, write: true } as const;
    await assert.rejects(codingCli(input, { input: piped(TOKEN) }), {
      message: /auth\.json:2: invalid JSON; .*; nothing was written$/,
      exit_code: 78,
    });
    assert.deepEqual(readdirSync(home('.codingcli')), ['auth.json']);
    put('[1]', '.client', 'settings.json');
    const broken = messages({ baseUrl: BASE, settings: true });
    await assert.rejects(broken, /settings\.json:1: not a JSON object/);
  });
});

describe('the Messages client', () => {
  const options = { baseUrl: `${BASE}/v1`, shell: 'sh' } as const;

  test('gets lines for a shell, with the root form of the address and the token by name', async () => {
    const input = {
      ...options,
      model: 'coder-1',
      opusModel: 'big-1',
      fableModel: 'f',
      discovery: true,
      cache1h: true,
    } as const;
    assert.equal(await messages(input), 0);
    assert.deepEqual(backend.data().trimEnd().split('\n'), [
      `export VENDOR_BASE_URL='${BASE}'`,
      `export VENDOR_MODEL='coder-1'`,
      `export VENDOR_DEFAULT_OPUS_MODEL='big-1'`,
      `export VENDOR_DEFAULT_SONNET_MODEL='coder-1'`,
      `export VENDOR_DEFAULT_HAIKU_MODEL='coder-1'`,
      `export VENDOR_DEFAULT_FABLE_MODEL='f'`,
      `export CLIENT_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY='1'`,
      `export ENABLE_PROMPT_CACHING_1H='1'`,
      `export VENDOR_AUTH_TOKEN="$RELAY_API_KEY"`,
    ]);
    assert.match(backend.info(), /\.client\/cache\/gateway-models\.json/);
    assert.match(backend.info(), /reads its token from RELAY_API_KEY, which is not set/);
  });

  test('has no models of ours where none is named, keeps to its own, and warns of variables that would defeat its own', async () => {
    assert.equal(await messages(options), 0);
    assert.doesNotMatch(backend.data(), /MODEL|CONTEXT/);
    Object.assign(backend.env, {
      VENDOR_API_KEY: 'planted',
      DISABLE_PROMPT_CACHING: '1',
      FORCE_PROMPT_CACHING_5M: '1',
    });
    await messages({ ...options, cache1h: true });
    for (const name of ['VENDOR_API_KEY', 'DISABLE_PROMPT_CACHING', 'FORCE_PROMPT_CACHING_5M'])
      assert.ok(backend.info().includes(`${name} is set in your environment: remove it`), name);
    assert.doesNotMatch(backend.info(), /planted/);
  });

  test('may have them in its settings, beside existing ones', async () => {
    put('{\n  "theme": "dark",\n  "env": {\n    "VENDOR_API_KEY": "sk-planted"\n  }\n}\n', '.client', 'settings.json');
    const input = { ...options, tokenStdin: true, write: true } as const;
    assert.equal(await messages(input, { input: piped(TOKEN) }), 0);
    assert.equal(
      read('.client', 'settings.json'),
      `{\n  "theme": "dark",\n  "env": {\n    "VENDOR_API_KEY": "sk-planted",\n    "VENDOR_BASE_URL": "${BASE}",\n    "VENDOR_AUTH_TOKEN": "${TOKEN}"\n  }\n}\n`,
    );
    assert.match(backend.info(), /VENDOR_API_KEY is set in .*settings\.json: remove it/);
    assert.doesNotMatch(backend.info(), /planted/);
  });

  test('must set the token itself when its settings must not contain one', async () => {
    await messages({ ...options, settings: true, write: true });
    assert.match(backend.info(), /set VENDOR_AUTH_TOKEN for the client/);
    assert.deepEqual(JSON.parse(read('.client', 'settings.json')), { env: { VENDOR_BASE_URL: BASE } });
  });
});

describe('every client', () => {
  const options = { ...WINDOW, baseUrl: BASE, model: 'coder-1' };

  test('uses the names of a profile', async () => {
    const named = { ...options, profile: VENDOR_NAMES, write: true } as const;
    await codingCli({ ...named, tokenStdin: true }, { input: piped(TOKEN) });
    await buildCli(named);
    const folders = readdirSync(backend.home).filter((name) => name.startsWith('.'));
    assert.equal(folders.length, 2);
    assert.ok(!folders.some((name) => /codingcli|buildcli/.test(name)), folders.join());
    await messages({ baseUrl: BASE, profile: VENDOR_NAMES, shell: 'sh' });
    assert.doesNotMatch(backend.data(), /VENDOR/);
  });

  test('is shown the location of a mistake in a profile', async () => {
    put('header_prefix: x\nclients: { build_cli: { config_file: relative } }\n', 'p.yaml');
    const input = { ...options, profile: home('p.yaml') };
    await assert.rejects(buildCli(input), {
      exit_code: 78,
      message: /p\.yaml:2:\d+: /,
    });
    await assert.rejects(buildCli({ ...options, profile: home('none') }), /none/);
  });

  test('warns of an address over http that is not this machine; an address may have the path of an API behind it', async () => {
    const input = { ...options, baseUrl: 'http://gateway.internal:8080', print: true } as const;
    assert.equal(await buildCli(input), 0);
    assert.match(backend.data(), /^base_url = "http:\/\/gateway\.internal:8080\/v1"$/m);
    assert.match(
      backend.info(),
      /http exposes the token and the prompts on the network to http:\/\/gateway\.internal:8080/,
    );
    for (const path of ['', '/', '/v1', '/v1/', '/v1/messages', '/v1/chat/completions', '/v1/responses']) {
      await messages({ baseUrl: `${BASE}/llm${path}`, json: true });
      const { variables } = JSON.parse(backend.data().trim().split('\n').at(-1)!);
      assert.equal(variables.VENDOR_BASE_URL, `${BASE}/llm`, path);
    }
  });

  test('accepts the token itself, as the forms of client managers have it, with a warning', async () => {
    await codingCli({ ...options, apiKey: TOKEN, write: true });
    assert.deepEqual(JSON.parse(read('.codingcli', 'auth.json')), { COMPAT_API_KEY: TOKEN });
    assert.match(backend.info(), /use --token-stdin/);
    assert.doesNotMatch(backend.info() + backend.data(), /planted/);
    const both = { ...options, apiKey: TOKEN, tokenStdin: true } as const;
    await assert.rejects(codingCli(both), /exclude each other/);
  });

  test('is printed without a token at hand', async () => {
    assert.equal(await codingCli({ ...options, print: true }), 0);
    assert.match(backend.data(), /"COMPAT_API_KEY": "<hidden>"/);
    assert.match(backend.data(), /^requires_compat_auth = true$/m);
    const checked = { ...options, print: true, check: true } as const;
    await assert.rejects(codingCli(checked), /no token: use --token-stdin/);
  });

  test('rejects an invalid address, and a key in place of a name', async () => {
    const input = typing();
    for (const baseUrl of ['gateway', 'https://u:hunter2@x.example.com', 'ftp://x']) {
      await assert.rejects(buildCli({ ...options, baseUrl }, { input }), { exit_code: 64 });
    }
    await buildCli({ ...options, baseUrl: 'http://localhost:8080/v1', print: true }, { input });
    for (const apiKeyEnv of [TOKEN, 'sk-planted', '$NAME', '']) {
      await assert.rejects(buildCli({ ...options, apiKeyEnv }, { input }), (error: Error) => {
        return /expects the name of an environment variable/.test(error.message) && !/planted/.test(error.message);
      });
    }
    for (const text of ['', 'short', 'two words here', `${TOKEN}\nplanted`, `planted${'\x00'}0000`]) {
      const given = { ...options, tokenStdin: true } as const;
      await assert.rejects(codingCli(given, { input: piped(text) }), (error: Error) => {
        return /one line of 8 to 8192/.test(error.message) && !/planted/.test(error.message);
      });
    }
    await assert.rejects(codingCli(options, { input }), /no token: use --token-stdin/);
    await buildCli({ ...options, alias: 'constructor', print: true }, { input });
    assert.match(backend.data(), /^\[model\.constructor\]\nmodel = "coder-1"$/m);
    for (const alias of ['a.b', '__proto__', '', 'a b']) {
      await assert.rejects(buildCli({ ...options, alias }, { input }), /--alias: expected letters/);
    }
  });
});
