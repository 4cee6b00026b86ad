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

    const { access_token, refresh_token } = kept();
    assert.equal(await logout(backend.context, {}), 0);
    await until('the gateway refuses the token', async () => (await listModels(bearer)) === 401);
    const words = backend.info() + backend.data().replace(bearer, '');
    for (const secret of [access_token, refresh_token]) assert.ok(!words.includes(secret));
  });
});
