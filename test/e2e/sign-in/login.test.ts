/** The command line against the real gateway in front of a real identity provider. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Clock } from '../../../engine/api.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { whoami } from '../../../engine/edge/cli/account.ts';
import { login, logout, token } from '../../../engine/edge/cli/sign-in.ts';
import { createBackend } from '../../client/scripted-gateway.ts';
import { confirmInBrowser } from '../../support/identity/sign-in.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({ auth: { login_notice: 'Use is logged.' } });

/** The machine's time, without waiting. */
const clock: Clock = { ...systemClock, after: (_ms, task) => systemClock.after(0, task) };

test('a user who signs in gets a working token with their name, and is rejected once signed out', async () => {
  const { url } = scene.gateway;
  const backend = createBackend();
  const { terminal } = backend.context;
  let confirmed: Promise<unknown> | undefined;
  // As soon as the code is shown, the user confirms it in a browser.
  const info = (text: string) => {
    terminal.info(text);
    const code = /^ {2}([A-Z]{4}-[A-Z]{4})$/m.exec(text)?.[1];
    if (code !== undefined) confirmed ??= confirmInBrowser(url, code, 'anna');
  };
  // The token is requested from the gateway once the user is done in the browser.
  const patient: Clock = { ...clock, after: (ms, task) => clock.after(ms, () => void confirmed!.then(task, task)) };
  const context = { ...backend.context, terminal: { ...terminal, info }, clock: patient };
  assert.equal(await login(context, { baseUrl: url, browser: false }), 0);
  assert.match(backend.info(), /\| Use is logged\.\n/);
  assert.match(backend.info(), /Signed in at http\S+ as anna@example\.com\./);
  await token({ ...backend.context, clock }, {});
  const bearer = backend.data().trim();
  assert.equal(await scene.statusOf(bearer), 200);

  assert.equal(await whoami({ ...backend.context, clock }, {}), 0);
  assert.match(backend.data(), /^anna@example\.com at http\S+\nName {9}Anna Adler\nGroups {7}engineering, admins\n/m);
  assert.match(backend.data(), /^Models {7}coder-1, mapped-1$/m);

  const { access_token, refresh_token } = JSON.parse(readFileSync(backend.path, 'utf8')).gateways[url];
  assert.equal(await logout(backend.context, {}), 0);
  await scene.refused(bearer);
  const words = backend.info() + backend.data().replace(bearer, '');
  for (const secret of [access_token, refresh_token]) assert.ok(!words.includes(secret));
});
