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
  const LIST = '/v1/models?limit=1000';
  let gateway: ScriptedGateway;
  beforeEach(async () => {
    gateway = await startScriptedGateway();
    backend.env.RELAY_API_KEY = TOKEN;
  });
  const lists = (...data: unknown[]) =>
    gateway.scripts.set(LIST, ({ headers }) =>
      headers.authorization === `Bearer ${TOKEN}` ? { body: { data } } : { status: 401, body: {} },
    );
  const input = () =>
    ({ ...WINDOW, baseUrl: `${gateway.url}/v1`, model: 'coder-1', check: true, write: true }) as const;
  const run = () => buildCli(input());

  test('with the model permits writing, warns when its window is smaller, and configures its window unless overridden', async () => {
    lists({ id: 'coder-1', context_window: 200_000 });
    assert.equal(await run(), 0);
    assert.equal(gateway.requests[0]!.headers.authorization, `Bearer ${TOKEN}`);
    assert.match(backend.info(), /500000 tokens, but coder-1 takes 200000: .* context window of the client to 200000/);
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
      [{ body: { data: [{ id: 'coder-1', context_window: 128_000 }] } }, 128_000],
      [{ body: { data: [{ id: 'coder-1' }] } }, 200_000],
      [{ status: 500, body: {} }, 200_000],
    ] as const) {
      gateway.scripts.set(LIST, () => response);
      const before = backend.info().length;
      assert.equal(await buildCli(asked), 0);
      assert.match(read('.buildcli', 'config.toml'), new RegExp(`^context_window = ${window}$`, 'm'));
      assert.equal(await codingCli(asked), 0);
      assert.match(read('.codingcli', 'config.toml'), new RegExp(`^model_context_window = ${window}$`, 'm'));
      const printed = backend.info().slice(before);
      await messages(asked);
      const settings = JSON.parse(read('.client', 'settings.json')) as { env: Record<string, string> };
      if (window === 128_000) assert.equal(settings.env.CLIENT_CODE_MAX_CONTEXT_TOKENS, '128000');
      assert.equal(/unknown context window of coder-1 at \S+: using 200000 tokens/.test(printed), window === 200_000);
      assert.match(printed, /using neutral names, which no real client reads; .* --profile shipped/);
    }
    const before = backend.info().length;
    await codingCli({ ...asked, profile: 'shipped' });
    assert.match(read('.codex', 'config.toml'), /^model = "coder-1"$/m);
    assert.doesNotMatch(backend.info().slice(before), /neutral/);
  });

  test('ends it without the model, with the available ones, or when it rejects the token; nothing is written', async () => {
    lists({ id: 'coder-2' }, { id: 7 }, null);
    await assert.rejects(run(), { exit_code: 1, message: /the model "coder-1" is not .*did you mean `coder-2`\?/ });
    lists();
    await assert.rejects(run(), { exit_code: 1, message: /its token group allows none/ });
    gateway.scripts.set(LIST, () => ({ status: 401, body: { error: { message: 'It expired.' } } }));
    await assert.rejects(run(), {
      exit_code: 1,
      message: /does not know the token .*message of the gateway: It expired\./,
    });
    for (const [response, message] of [
      [{ status: 200, body: '<html>' }, /expected JSON/],
      [{ status: 302, headers: { location: '/login' } }, /redirect/],
      [{ status: 404, body: {} }, /no model list at this address/],
      [{ status: 429, body: {} }, /overloaded/],
      [{ status: 500, body: {} }, /expected a model list, got status 500/],
    ] as const) {
      gateway.scripts.set(LIST, () => response);
      await assert.rejects(run(), { exit_code: 69, message });
    }
    backend.env.RELAY_API_KEY = 'two words';
    await assert.rejects(run(), { exit_code: 64, message: /the variable RELAY_API_KEY contains no valid token/ });
    delete backend.env.RELAY_API_KEY;
    await assert.rejects(run(), { exit_code: 64, message: /--check: the variable RELAY_API_KEY is not set/ });
    assert.ok(!existsSync(home('.buildcli')));
    backend.env.RELAY_API_KEY = TOKEN;
    lists({ id: 'coder-1' });
    assert.equal(await run(), 0);
    const asked = { baseUrl: gateway.url, model: 'coder-1', haikuModel: 'codr-1', check: true, shell: 'sh' } as const;
    await assert.rejects(messages(asked), /the model "codr-1" is not .*did you mean `coder-1`/);
  });

  test('is queried for the validity of the token where no model is fixed', async () => {
    lists({ id: 'coder-1' });
    assert.equal(await messages({ baseUrl: gateway.url, check: true, shell: 'sh' }), 0);
    assert.match(backend.info(), /Token: accepted; 1 model available/);
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
