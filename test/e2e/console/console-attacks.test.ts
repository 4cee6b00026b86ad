/** What other sites, other users and thieves of cookies can do with the console: nothing. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { ADMIN_OPERATIONS, type DescribedOperation } from '../../../engine/edge/admin/description.ts';
import { type ConsolePerson, OF_CONSOLE, personIn, signInToConsole } from '../../support/console.ts';
import { approveAt, createBrowser } from '../../support/identity/browser-by-fetch.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { closing } from '../../support/use.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const AUTH = { admin_groups: ['admins'], session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' } };

const scene = useSignInScene({ people: { host: 'localhost' }, auth: AUTH });
const { provider, gateway } = scene;
/** An administrator and a developer. */
let anna: ConsolePerson;
let ben: ConsolePerson;

before(async () => {
  [anna, ben] = [await signInToConsole(gateway.url, 'anna'), await signInToConsole(gateway.url, 'ben')];
});

const OPERATIONS = [...ADMIN_OPERATIONS.values()];
const MUTATIONS = OPERATIONS.filter(({ method }) => method !== 'GET');
const FEED = 'text/event-stream';
const nameOf = ({ method, path }: DescribedOperation) => `${method} ${path}`;
/** A path with something in the place of each of its names. */
const pathOf = ({ path, path_names }: DescribedOperation, value = 'nobody@example.com') =>
  path_names.reduce((filled, name) => filled.replace(`{${name}}`, encodeURIComponent(value)), path);
const changes = async () => (await gateway.database.knex('admin_changes')).length;

/** How a page of another site makes the browser of an administrator send something. */
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const TEXT = { 'content-type': 'text/plain' };
const JSON_BODY = { 'content-type': 'application/json' };
const MARKED = { ...JSON_BODY, 'x-console': '1' };
const FORGED: Readonly<Record<string, Record<string, string>>> = {
  'a form of another site': { ...FORM, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' },
  'a form of a neighbour': { ...FORM, 'sec-fetch-site': 'same-site' },
  'text that looks like JSON': { ...TEXT, 'sec-fetch-site': 'cross-site' },
  'JSON of another site, where no preflight stopped it': { ...MARKED, 'sec-fetch-site': 'cross-site' },
  'JSON without the header of the console': { ...JSON_BODY, 'sec-fetch-site': 'same-origin' },
  'text with the header of the console': { ...TEXT, ...OF_CONSOLE },
  'JSON of a browser with only a wrong origin': { ...MARKED, origin: 'https://evil.example' },
  'JSON of a page without an origin': { ...MARKED, origin: 'null' },
  'JSON without any origin': MARKED,
};

describe('another site', () => {
  for (const [what, headers] of Object.entries(FORGED)) {
    it(`changes nothing with ${what}, by any operation`, async () => {
      const before = await changes();
      for (const operation of MUTATIONS) {
        const { status, body } = await anna.send(operation.method, pathOf(operation), { headers, body: '{}' });
        assert.deepEqual([status, body.error?.code], [403, 'forbidden'], nameOf(operation));
        assert.match(body.error.message, /did not come from the console/);
      }
      const out = await anna.send('POST', '/console/sign-out', { headers, body: '{}' });
      assert.equal(out.status, 403);
      // Browsers omit the cookie from another site's requests, and still heed a cookie in the response.
      const without = await fetch(`${gateway.url}/console/sign-out`, { method: 'POST', headers, body: '{}' });
      assert.deepEqual([without.status, without.headers.getSetCookie()], [403, []]);
      assert.equal(await changes(), before);
    });
  }

  it('reads nothing, as a script, a picture or by fetch', async () => {
    for (const operation of OPERATIONS.filter(({ method }) => method === 'GET')) {
      for (const headers of [
        { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'script' },
        { 'sec-fetch-site': 'same-site', 'sec-fetch-dest': 'image' },
        { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example', 'x-console': '1' },
        { 'sec-fetch-site': 'none' },
        {},
      ] as Record<string, string>[]) {
        const { status, headers: answered } = await anna.send('GET', pathOf(operation), { headers });
        assert.equal(status, 403, nameOf(operation));
        assert.equal(answered.get('access-control-allow-origin'), null);
      }
    }
    const preflight = await fetch(`${gateway.url}/admin/api/tokens`, {
      method: 'OPTIONS',
      headers: { origin: 'https://evil.example', 'access-control-request-headers': 'x-console' },
    });
    assert.equal(preflight.headers.get('access-control-allow-origin'), null);
    assert.equal(preflight.headers.get('access-control-allow-headers'), null);
  });

  it('shows no page of the console in a frame of its own', async () => {
    const paths = ['', '/', '/usage', '/session', '/sign-in', '/link', '/signed-out', '/sign-out', '/nothing.js'];
    for (const path of [...paths.map((each) => `/console${each}`), '/oauth/callback']) {
      const { headers } = await createBrowser().request(`${gateway.url}${path}`);
      assert.match(headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/, path);
      assert.equal(headers.get('x-frame-options'), 'DENY', path);
    }
  });
});

describe('a cookie', () => {
  it('is rejected by models, and by every other bearer endpoint', async () => {
    const headers = { ...OF_CONSOLE, ...JSON_BODY };
    for (const path of ['/v1/models', '/managed/settings']) {
      assert.ok([401, 404].includes((await anna.send('GET', path, { headers })).status), path);
    }
    for (const path of ['/v1/messages', '/v1/chat/completions', '/v1/responses', '/v1/traces']) {
      const { status } = await anna.send('POST', path, { headers, body: '{"model":"coder-1"}' });
      assert.ok([401, 404].includes(status), `${path}: ${status}`);
    }
  });

  it('does not replace an invalid bearer', async () => {
    for (const credential of [{ authorization: 'Bearer nonsense' }, { 'x-api-key': 'gw_nonsense' }]) {
      const headers = { ...OF_CONSOLE, ...credential } as Record<string, string>;
      assert.equal((await anna.send('GET', '/admin/api/people', { headers })).status, 401);
    }
  });

  it('is invalid with a credential of another kind, a made-up one, or two', async () => {
    const { access_token, refresh_token } = await scene.signIn('anna');
    const [name, value] = anna.cookie.split('=') as [string, string];
    const other = `${'A'.repeat(42)}A`;
    const values = [access_token, refresh_token, gateway.token, other, '', `${value}x`, 'x'.repeat(10_000)];
    for (const each of values) {
      const headers = { ...OF_CONSOLE, cookie: `${name}=${each}` };
      assert.equal((await anna.send('GET', '/admin/api/me', { headers })).status, 401, each.slice(0, 20));
    }
    const two = { ...OF_CONSOLE, cookie: `${name}=${other}; ${name}=${value}` };
    assert.equal((await anna.send('GET', '/admin/api/me', { headers: two })).status, 401);
  });

  it('is not created by a bearer: the console stays closed', async () => {
    const { access_token } = await scene.signIn('anna');
    const headers = { ...OF_CONSOLE, authorization: `Bearer ${access_token}` };
    const response = await fetch(`${gateway.url}/console/session`, { headers });
    assert.equal(((await response.json()) as { person: unknown }).person, null);
    assert.deepEqual(response.headers.getSetCookie(), []);
  });

  it('planted in a browser before it signs in is not the one it has then', async () => {
    const mallory = await signInToConsole(gateway.url, 'ben');
    const victim = createBrowser();
    const [name] = mallory.cookie.split('=') as [string];
    const left = await victim.request(`${gateway.url}/console/sign-in`);
    const callback = await approveAt(left.headers.get('location')!, 'anna');
    const own = [...victim.cookies(gateway.url)].map(([key, value]) => `${key}=${value}`);
    const back = await victim.request(callback, { headers: { cookie: [...own, mallory.cookie].join('; ') } });
    assert.equal(back.status, 303);
    const input = personIn(gateway.url, victim);
    assert.notEqual(input.cookie, mallory.cookie);
    assert.match(input.cookie, new RegExp(`^${name}=`));
    assert.equal((await input.call('GET', '/admin/api/me')).body.email, 'anna@example.com');
    const planted = { ...OF_CONSOLE, cookie: mallory.cookie };
    assert.equal((await input.send('GET', '/admin/api/me', { headers: planted })).status, 401);
  });

  it('of a sign-in is good in the browser that began it, once', async () => {
    const browser = createBrowser();
    const left = await browser.request(`${gateway.url}/console/sign-in`);
    const callback = await approveAt(left.headers.get('location')!, 'anna');
    const elsewhere = await createBrowser().request(callback);
    assert.equal(elsewhere.status, 400);
    assert.deepEqual(elsewhere.headers.getSetCookie(), []);
    const attempt = [...browser.cookies(gateway.url)].map(([key, value]) => `${key}=${value}`).join('; ');
    assert.equal((await browser.request(callback)).status, 303);
    const again = await createBrowser().request(callback, { headers: { cookie: attempt } });
    assert.notEqual(again.status, 303, 'the provider rejects a used code');
    assert.ok(!again.headers.getSetCookie().some((line) => /^gw_session/.test(line)));
  });
});

/** The id of a user's rejected request, once the audit log has it. */
async function recordedRequest(token: string): Promise<string> {
  const response = await fetch(`${gateway.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': token, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'no-such-model', max_tokens: 1, messages: [{ role: 'user', content: 'hello' }] }),
  });
  assert.equal(response.status, 404);
  const id = response.headers.get('x-gateway-request-id')!;
  await until('it is recorded', async () => (await anna.call('GET', `/admin/api/requests/${id}`)).status === 200);
  return id;
}

describe('a filter', () => {
  it('is a value and no part of a statement, and no database error is shown', async () => {
    const hostile = `a'"; drop table audit_log; --%_\\$1`;
    let asked = 0;
    for (const operation of OPERATIONS.filter((each) => each.method === 'GET')) {
      for (const [name, schema] of Object.entries((operation.query.properties ?? {}) as Record<string, object>)) {
        if ('enum' in schema || operation.file_type === FEED) continue;
        const query = new URLSearchParams({ [name]: hostile });
        const { status, body } = await anna.call('GET', `${pathOf(operation)}?${query}`);
        assert.ok(status < 500, `${operation.name} ${name}`);
        assert.doesNotMatch(String(body.error?.message), /syntax error|invalid input|relation|\.ts:/, operation.name);
        asked++;
      }
    }
    assert.ok(asked > 100, `${asked} were asked`);
  });
});

describe('a developer', () => {
  it('is denied every operation of administrators, with any input', async () => {
    const before = await changes();
    const operations = OPERATIONS.filter(({ needs_admin }) => needs_admin);
    assert.ok(operations.length > 10);
    for (const operation of operations) {
      const body = operation.method === 'GET' ? undefined : {};
      const { status, body: said } = await ben.call(operation.method, pathOf(operation), body);
      assert.deepEqual([status, said.error?.code], [403, 'forbidden'], nameOf(operation));
    }
    assert.equal(await changes(), before);
  });

  it("finds another user's records no more than missing ones", async () => {
    const made = await anna.call('POST', '/admin/api/tokens', { name: 'private', group: 'all' });
    const { session_id } = (await anna.call('GET', '/admin/api/me')).body;
    const request = await recordedRequest(made.body.token);
    /** An administrator's objects, by the operation that takes their id; `null` where none has an owner. */
    const belonging: Readonly<Record<string, string | null>> = {
      getToken: made.body.id,
      revokeToken: made.body.id,
      rotateToken: made.body.id,
      endSession: session_id,
      getRequest: request,
      explainRequest: request,
    };
    const open = OPERATIONS.filter(({ needs_admin, path_names }) => !needs_admin && path_names.length > 0);
    for (const operation of open) {
      const id = belonging[operation.name];
      assert.ok(id !== undefined, `${operation.name} is not tried here: say what of an administrator it could reach`);
      if (id === null) continue;
      const unknown = id.replace(/.{4}$/, 'zzzz');
      const body = operation.method === 'GET' ? undefined : {};
      const [theirs, nobodys] = [id, unknown].map((each) => ben.call(operation.method, pathOf(operation, each), body));
      const said = async (answer: typeof theirs, each: string) => {
        const { status, body: problem } = await answer!;
        return [status, problem.error?.code, String(problem.error?.message).replaceAll(each, 'ID')];
      };
      const response = await said(theirs, id);
      assert.equal(response[0], 404, operation.name);
      assert.deepEqual(response, await said(nobodys, unknown), operation.name);
    }
    assert.equal((await anna.call('GET', '/admin/api/me')).status, 200, 'nothing was ended');
  });

  it('sees no other user in any list, and may not query one', async () => {
    await anna.call('POST', '/admin/api/tokens', { name: 'private', group: 'all' });
    for (const operation of OPERATIONS.filter((each) => each.method === 'GET' && !each.needs_admin)) {
      if (operation.path_names.length > 0) continue;
      // A stream of events has no end to wait for, and is rejected as well for a HEAD request.
      if (operation.file_type === FEED) {
        const asked = `${gateway.url}${operation.path}?user=anna@example.com`;
        const { status } = await ben.browser.request(asked, { method: 'HEAD', headers: OF_CONSOLE });
        assert.equal(status, 403, operation.name);
        continue;
      }
      const { status, body } = await ben.call('GET', operation.path);
      const text = JSON.stringify(body);
      assert.ok(status < 500, `${operation.name}: ${text}`);
      assert.doesNotMatch(text, /anna/i, operation.name);
      if (!Object.hasOwn((operation.query.properties ?? {}) as object, 'user')) continue;
      const asked = await ben.call('GET', `${operation.path}?user=anna@example.com`);
      assert.doesNotMatch(JSON.stringify(asked.body).replace(/"message":"[^"]*"/, ''), /anna/i, operation.name);
    }
  });
});

describe('without TLS', () => {
  it('rejects sign-ins from another machine: others could take the cookie', async () => {
    await using plain = closing(await bootSignIn({ provider, auth: AUTH, public_url: 'http://gateway.example.com' }));
    const response = await createBrowser().request(`${plain.url}/console/sign-in`);
    assert.equal(response.status, 403);
    assert.match(await response.text(), /The console needs HTTPS/);
    assert.deepEqual(response.headers.getSetCookie(), []);
  });
});

describe('behind TLS', () => {
  it('the cookie is for this host alone, and one without the prefix is none', async () => {
    const issuer = 'https://gateway.example.com';
    provider.register(`${issuer}/oauth/callback`);
    await using secure = closing(await bootSignIn({ provider, auth: AUTH, public_url: issuer }));
    const browser = createBrowser();
    const left = await browser.request(`${secure.url}/console/sign-in?back_to=/console/usage`);
    const callback = await approveAt(left.headers.get('location')!, 'anna');
    const back = await browser.request(`${secure.url}${callback.pathname}${callback.search}`);
    assert.equal(back.headers.get('location'), `${issuer}/console/usage`);
    const set = back.headers.getSetCookie().find((line) => /gw_session/.test(line))!;
    assert.match(set, /^__Host-gw_session=[\w-]{59}; Path=\/; HttpOnly; SameSite=Lax; Secure$/);
    const value = browser.cookies(secure.url).get('__Host-gw_session')!;
    const statusWith = async (cookie: string) =>
      (await fetch(`${secure.url}/admin/api/me`, { headers: { ...OF_CONSOLE, cookie } })).status;
    assert.equal(await statusWith(`__Host-gw_session=${value}`), 200);
    for (const name of ['gw_session', '__host-gw_session', '__Secure-gw_session', 'x__Host-gw_session']) {
      assert.equal(await statusWith(`${name}=${value}`), 401, name);
    }
  });
});
