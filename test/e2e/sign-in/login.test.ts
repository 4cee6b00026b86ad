/** The command line against the real gateway in front of a real identity provider. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Clock } from '../../../engine/api.ts';
import { login } from '../../../engine/cli/sign-in/login.ts';
import { logout } from '../../../engine/cli/sign-in/logout.ts';
import { token } from '../../../engine/cli/sign-in/token.ts';
import { whoami } from '../../../engine/cli/sign-in/whoami.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { startCli } from '../../cli/support.ts';
import { type Backend, createBackend } from '../../client/scripted-gateway.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { PEOPLE, startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn, confirmInBrowser } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';

let provider: TestIdentityProvider;
let gateway: TestGateway;
let backend: Backend;
let base_url = '';

/** The machine's time and what has been waited for: waiting takes no time. The gateway goes by it as well. */
let ahead_ms = 0;
const clock: Clock = {
  ...systemClock,
  now: () => Date.now() + ahead_ms,
  after(milliseconds, task) {
    ahead_ms += milliseconds;
    return systemClock.after(0, task);
  },
};

before(async () => {
  provider = await startIdentityProvider();
  gateway = await bootSignIn({
    provider,
    clock: { ...systemClock, now: clock.now },
    oidc: { allowed_groups: ['engineering'] },
    auth: { login_notice: 'Use is logged.', limits: { device_authorizations: 1000, code_submissions: 1000 } },
  });
  base_url = gateway.url;
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});
beforeEach(() => {
  backend = createBackend();
  provider.setMode('up');
  for (const [sub, person] of Object.entries(PEOPLE)) provider.people.set(sub, structuredClone(person));
});

/** Signs in; as soon as the code is shown, the person confirms it in a browser and signs in as `sub`. */
async function signIn(sub: string): Promise<number> {
  let confirmed: Promise<unknown> | undefined;
  const { terminal } = backend.context;
  const context = {
    ...backend.context,
    terminal: {
      ...terminal,
      info(text: string) {
        terminal.info(text);
        const code = /^ {2}([A-Z]{4}-[A-Z]{4})$/m.exec(text)?.[1];
        if (code !== undefined) confirmed ??= confirmInBrowser(base_url, code, sub);
      },
    },
  };
  const patient: typeof fetch = async (url, init) => {
    if (String(url).endsWith('/oauth/token')) await confirmed;
    return fetch(url, init);
  };
  return login(context, { baseUrl: base_url, browser: false }, { clock, fetch: patient });
}

const kept = () => JSON.parse(readFileSync(backend.path, 'utf8')).gateways[base_url];
const listModels = (bearer: string) =>
  fetch(`${base_url}/v1/models`, { headers: { authorization: `Bearer ${bearer}` } }).then(({ status }) => status);

async function printed(): Promise<string> {
  const before = backend.data().length;
  await token(backend.context, {}, { clock });
  return backend.data().slice(before).trim();
}

/** Lets the access token come to its last minutes. */
function nearItsEnd(): void {
  ahead_ms += 3590_000;
}

describe('somebody who may sign in', () => {
  test('gets a token that works, is known by name, and is refused once signed out', async () => {
    assert.equal(await signIn('anna'), 0);
    assert.match(backend.info(), /\| Use is logged\.\n/);
    assert.match(backend.info(), /Signed in at http\S+ as anna@example\.com\./);
    const bearer = await printed();
    assert.equal(await listModels(bearer), 200);

    assert.equal(await whoami(backend.context, {}, { clock }), 0);
    assert.match(backend.data(), /^anna@example\.com at http\S+\nName {9}Anna Adler\nGroups {7}engineering, admins\n/m);
    assert.match(backend.data(), /^Models {7}coder-1, mapped-1$/m);

    assert.equal(await logout(backend.context, {}), 0);
    await until('the gateway refuses the token', async () => (await listModels(bearer)) === 401);
  });

  test('gets a new token when the old one comes to its end, from any number of calls once', async () => {
    await signIn('anna');
    const first = kept();
    nearItsEnd();
    const all = await Promise.all(Array.from({ length: 20 }, () => token(backend.context, {}, { clock })));
    assert.deepEqual(new Set(all), new Set([0]));
    assert.notEqual(kept().access_token, first.access_token);
    assert.notEqual(kept().refresh_token, first.refresh_token);
    assert.equal(await listModels(await printed()), 200);
    ahead_ms += 3600_000;
    assert.equal(await listModels(await printed()), 200);
  });

  test('stays signed in while the identity provider is down, and longer than its token lives', async () => {
    await signIn('anna');
    const { access_token } = kept();
    nearItsEnd();
    provider.setMode('down');
    assert.equal(await printed(), access_token);
    ahead_ms += 60_000;
    await assert.rejects(token(backend.context, {}, { clock }), { exit_code: 69, message: /status 503/ });
    provider.setMode('up');
    assert.equal(await listModels(await printed()), 200);
  });

  test('who signs in again ends the sign-in before', async () => {
    await signIn('anna');
    const { access_token } = kept();
    await signIn('anna');
    await until('the gateway refuses the first token', async () => (await listModels(access_token)) === 401);
    assert.equal(await listModels(await printed()), 200);
  });
});

describe('somebody who may not', () => {
  test('because of the groups hears why', async () => {
    await assert.rejects(signIn('ben'), { exit_code: 1, message: /^the sign-in was refused/ });
  });

  test('any more, has to sign in again', async () => {
    for (const remove of [
      () => provider.people.delete('anna'),
      () => Object.assign(provider.people.get('anna')!, { groups: ['marketing'] }),
    ]) {
      backend = createBackend();
      provider.people.set('anna', structuredClone(PEOPLE.anna));
      await signIn('anna');
      nearItsEnd();
      remove();
      await assert.rejects(token(backend.context, {}, { clock }), {
        exit_code: 1,
        message: /Run: appscli login --base-url/,
      });
      assert.equal(kept(), undefined);
    }
  });
});

test('as processes: login, token, whoami, logout, with nothing secret in the words', async () => {
  // The clock of the processes is the machine's.
  ahead_ms = 0;
  const env = { ...backend.env, APPSCLI_BASE_URL: base_url, APPSCLI_DEBUG: '1' };
  const running = startCli(['login', '--no-browser'], { env });
  const code = await until('it shows the code', () => /^ {2}([A-Z]{4}-[A-Z]{4})$/m.exec(running.stderr())?.[1]);
  await confirmInBrowser(base_url, code, 'anna');
  const signed_in = await running.ended;
  assert.equal(signed_in.exit_code, 0, signed_in.stderr);
  const { access_token, refresh_token } = kept();
  const run = async (command: string) => startCli([command], { env }).ended;
  assert.equal((await run('token')).stdout, `${access_token}\n`);
  const who = await run('whoami');
  assert.match(who.stdout, /^anna@example\.com at /);
  const signed_out = await run('logout');
  assert.equal(signed_out.exit_code, 0, signed_out.stderr);
  const words = [signed_in, who, signed_out].map(({ stdout, stderr }) => stdout + stderr).join();
  for (const secret of [access_token, refresh_token]) assert.ok(!words.includes(secret));
});
