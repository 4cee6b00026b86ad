import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { beforeEach, describe, test } from 'node:test';
import { type ScriptedGateway, startScriptedGateway } from '../../client/scripted-gateway.ts';
import { cli, startCli } from '../support.ts';
import { backend, buildCli, codingCli, home, messages, read, useBackend } from './set-up.ts';

const TOKEN = 'gw_planted_token_1';
const WINDOW = { contextWindow: 500_000 };

useBackend();

describe('a gateway that is queried first', () => {
  let gateway: ScriptedGateway;
  beforeEach(async () => {
    gateway = await startScriptedGateway();
    backend.env.RELAY_API_KEY = TOKEN;
  });
  const input = () =>
    ({ ...WINDOW, baseUrl: `${gateway.url}/v1`, model: 'coder-1', check: true, write: true }) as const;
  const run = () => buildCli(input());

  test('with the model permits writing, warns when its window is smaller, and configures its window unless overridden', async () => {
    gateway.scripts.set('/v1/models/coder-1', () => ({ body: { id: 'coder-1', context_window: 200_000 } }));
    assert.equal(await run(), 0);
    assert.equal(gateway.requests[0]!.headers.authorization, `Bearer ${TOKEN}`);
    assert.match(backend.info(), /takes 200000 tokens, less than 500000: .* --context-window 200000/);
    const asked = { baseUrl: gateway.url, model: 'coder-1', check: true, write: true, apiKey: TOKEN } as const;
    await buildCli(asked);
    assert.match(read('.buildcli', 'config.toml'), /^context_window = 200000$/m);
    await codingCli(asked);
    const coding = read('.codingcli', 'config.toml');
    assert.match(coding, /^model_context_window = 200000\nmodel_auto_compact_token_limit = 190000$/m);
    await messages(asked);
    assert.match(read('.client', 'settings.json'), /"CLIENT_CODE_MAX_CONTEXT_TOKENS": "200000"/);
    await messages({ ...asked, contextWindow: 100_000 });
    assert.match(read('.client', 'settings.json'), /"CLIENT_CODE_MAX_CONTEXT_TOKENS": "100000"/);
  });

  test("reads the window without --check, too; if unknown, writes and reports the clients' default", async () => {
    const asked = { baseUrl: gateway.url, model: 'coder-1', write: true, apiKey: TOKEN } as const;
    for (const [response, window] of [
      [{ body: { id: 'coder-1', context_window: 128_000 } }, 128_000],
      [{ body: { id: 'coder-1' } }, 200_000],
      [{ status: 500, body: {} }, 200_000],
    ] as const) {
      gateway.scripts.set('/v1/models/coder-1', () => response);
      const before = backend.info().length;
      assert.equal(await buildCli(asked), 0);
      assert.match(read('.buildcli', 'config.toml'), new RegExp(`^context_window = ${window}$`, 'm'));
      assert.equal(await codingCli(asked), 0);
      assert.match(read('.codingcli', 'config.toml'), new RegExp(`^model_context_window = ${window}$`, 'm'));
      const said = backend.info().slice(before);
      await messages(asked);
      const settings = JSON.parse(read('.client', 'settings.json')) as { env: Record<string, string> };
      if (window === 128_000) assert.equal(settings.env.CLIENT_CODE_MAX_CONTEXT_TOKENS, '128000');
      assert.equal(/unknown context window of coder-1 at \S+: using 200000 tokens/.test(said), window === 200_000);
      assert.match(said, /using neutral names, which no real client reads; .* --profile shipped/);
    }
    const before = backend.info().length;
    await codingCli({ ...asked, profile: 'shipped' });
    assert.match(read('.codex', 'config.toml'), /^model = "coder-1"$/m);
    assert.doesNotMatch(backend.info().slice(before), /neutral/);
  });

  test('that knows only lists is asked for one; without the model the available ones are listed, and nothing is written', async () => {
    gateway.scripts.set('/v1/models?limit=1000', () => ({ body: { data: [{ id: 'coder-2' }, { id: 7 }, null] } }));
    await assert.rejects(run(), {
      exit_code: 1,
      message: /has no model "coder-1" for this token: did you mean `coder-2`\? For another/,
    });
    gateway.scripts.set('/v1/models?limit=1000', () => ({ body: { data: [] } }));
    await assert.rejects(run(), /its token group allows no model/);
    assert.ok(!existsSync(home('.buildcli')));
    gateway.scripts.set('/v1/models?limit=1000', () => ({ body: { data: [{ id: 'coder-1' }] } }));
    assert.equal(await run(), 0);
    const asked = { baseUrl: gateway.url, model: 'coder-1', haikuModel: 'codr-1', check: true, shell: 'sh' } as const;
    await assert.rejects(messages(asked), /has no model "codr-1" for this token: did you mean `coder-1`/);
  });

  test('that rejects the token, or is none, ends it with a remedy', async () => {
    const path = '/v1/models/coder-1';
    gateway.scripts.set(path, () => ({ status: 401, body: { error: { message: 'It expired.\x1b[2J' } } }));
    await assert.rejects(run(), {
      exit_code: 1,
      message: /rejects the credential: It expired\.\uFFFD\[2J\. Create a token/,
    });
    gateway.scripts.set(path, () => ({ status: 401, body: { error: { message: 'invalid x-api-key' } } }));
    await assert.rejects(run(), /rejects the credential: invalid x-api-key\. Create a token/);
    gateway.scripts.set(path, () => ({ status: 200, body: '<html>' }));
    await assert.rejects(run(), { exit_code: 69, message: /check the address of the gateway/ });
    gateway.scripts.set(path, () => ({ status: 302, headers: { location: '/login' } }));
    await assert.rejects(run(), /redirect/);
    delete backend.env.RELAY_API_KEY;
    await assert.rejects(run(), { exit_code: 64, message: /token in RELAY_API_KEY, which is not set/ });
  });

  test('is queried for the validity of the token where no model is fixed', async () => {
    const options = { baseUrl: gateway.url, check: true, shell: 'sh' } as const;
    gateway.scripts.set('/v1/models?limit=1000', () => ({ body: { data: [] } }));
    assert.equal(await messages(options), 0);
    assert.match(backend.info(), /accepts the token/);
    gateway.scripts.set('/v1/models?limit=1000', () => ({ status: 403, body: {} }));
    await assert.rejects(messages(options), /rejects the credential/);
  });
});

describe('the program itself', () => {
  test('reads a token from standard input and shows it nowhere', async () => {
    const options = ['coding-cli', '--base-url', 'https://gateway.example.com', '--model', 'coder-1', '--token-stdin'];
    const running = startCli(['client', ...options, '--write', '--json'], { env: backend.env });
    running.process.stdin!.end(`${TOKEN}\r\n`);
    const { exit_code, stdout, stderr } = await running.ended;
    assert.equal(exit_code, 0, stderr);
    assert.equal(JSON.parse(stdout).client, 'coding-cli');
    assert.doesNotMatch(stdout + stderr, /planted/);
    assert.deepEqual(JSON.parse(readFileSync(home('.codingcli', 'auth.json'), 'utf8')), { COMPAT_API_KEY: TOKEN });
  });

  test('takes no window that is none', async () => {
    const wish = ['client', 'build-cli', '--base-url', 'https://gateway.example.com', '--model', 'coder-1'];
    for (const window of ['0', '200k', '-5', '1e6', '99999999999'])
      assert.equal((await cli([...wish, '--context-window', window], { env: backend.env })).exit_code, 64, window);
    assert.ok(!existsSync(home('.buildcli')));
  });
});
