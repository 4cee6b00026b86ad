import assert from 'node:assert/strict';
import { request } from 'node:http';
import { it } from 'node:test';
import type { Clock } from '../../../engine/api.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { makeLink } from '../../../engine/domain/identity/sessions/console-sessions.ts';
import { OF_CONSOLE, personIn } from '../../support/console.ts';
import { freePort } from '../../support/free-port.ts';
import { bootGateway } from '../../support/gateway.ts';
import { createBrowser } from '../../support/identity/browser-by-fetch.ts';
import { use } from '../../support/use.ts';

let ahead_ms = 0;
const clock: Clock = { ...systemClock, now: () => Date.now() + ahead_ms };

const gateway = use(async () => {
  const port = await freePort();
  const server = { listen: `127.0.0.1:${port}`, public_url: `http://127.0.0.1:${port}` };
  return bootGateway({ upstream_url: 'http://127.0.0.1:9', clock, config: { server } });
});

const newLink = async () =>
  `${gateway.url}/console/link?once=${await makeLink({ database: gateway.database, clock }, 'root@host')}`;

it('a link opens the console for an administrator, once', async () => {
  const link = await newLink();
  const browser = createBrowser();
  const opened = await browser.request(link);
  assert.deepEqual([opened.status, opened.headers.get('location')], [303, `${gateway.url}/console`]);
  const somebody = personIn(gateway.url, browser);
  const { person, sign_in } = (await somebody.call('GET', '/console/session')).body;
  assert.deepEqual([person, sign_in], [{ email: 'root@host', name: null, is_admin: true }, 'link']);
  const made = await somebody.call('POST', '/admin/api/tokens', { user: 'ana@example.com', group: 'all', name: 'x' });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { changes } = (await somebody.call('GET', '/admin/api/changes')).body;
  assert.deepEqual(changes[0].actor, { kind: 'command', name: 'root@host' });
  const again = await createBrowser().request(link);
  assert.equal(again.status, 404);
  assert.match(await again.text(), /already used, or is older than a minute/);
  assert.equal((await somebody.call('POST', '/console/sign-out')).status, 200);
  assert.equal((await somebody.call('GET', '/admin/api/me')).status, 401);
});

it('a link is good for a minute', async () => {
  const link = await newLink();
  ahead_ms += 61_000;
  assert.equal((await createBrowser().request(link)).status, 404);
});

it('neither the link nor its session is for requests that came through a proxy', async () => {
  const browser = createBrowser();
  const link = await newLink();
  for (const header of ['x-forwarded-for', 'forwarded', 'via', 'x-real-ip']) {
    const refused = await browser.request(link, { headers: { [header]: '127.0.0.1' } });
    assert.equal(refused.status, 403, header);
    assert.match(await refused.text(), /opens only on the gateway host/);
  }
  assert.equal((await browser.request(link)).status, 303, 'it was not used up');
  const headers = { ...OF_CONSOLE, 'x-forwarded-for': '192.0.2.7' };
  const { status, body } = await personIn(gateway.url, browser).send('GET', '/admin/api/people', { headers });
  assert.equal(status, 403);
  assert.match(body.error.message, /set auth\.oidc in gateway\.yaml/);
});

it('a link is no picture in a page of another site', async () => {
  const link = new URL(await newLink());
  // fetch would not send these as they are.
  const statusWith = (headers: Record<string, string>) =>
    new Promise((resolve) => request(link, { headers }, (res) => resolve(res.resume().statusCode)).end());
  assert.equal(await statusWith({ 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'image' }), 403);
  assert.equal(await statusWith({}), 303);
});

it('if sign-in is off, its page explains what to do', async () => {
  const page = await createBrowser().request(`${gateway.url}/console/sign-in`);
  assert.equal(page.status, 404);
  assert.match(await page.text(), /Run &quot;appscli console&quot; on the gateway host/);
});
