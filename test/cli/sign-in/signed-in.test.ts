import assert from 'node:assert/strict';
import { existsSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { StartError } from '../../../engine/base/contract/start-error.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { whoami } from '../../../engine/edge/cli/account.ts';
import { logout, token } from '../../../engine/edge/cli/sign-in.ts';
import { freshCredentials, openCredentials } from '../../../engine/edge/client/credentials.ts';
import { createAsk } from '../../../engine/edge/client/http.ts';
import {
  type Backend,
  createBackend,
  credentialsFor,
  drive,
  keep,
  kept,
  NOW,
  oauthError,
  type ScriptedGateway,
  startScriptedGateway,
  tokens,
} from '../../client/scripted-gateway.ts';
import { failure } from '../at-gateway.ts';

let gateway: ScriptedGateway;
let backend: Backend;
let clock = frozenClock(NOW);
const other = 'https://other.example.com';

beforeEach(async () => {
  gateway = await startScriptedGateway();
  backend = createBackend();
  clock = frozenClock(NOW);
});

const run = (given = {}, context = backend.context) => drive(clock, token({ ...context, clock }, given));
const refreshes = () => gateway.to('/oauth/token').length;

async function refused(given = {}): Promise<StartError> {
  const error = await failure(run(given));
  assert.equal(backend.data(), '');
  return error;
}

describe('a token', () => {
  test('that stays valid is printed alone, with --json with its expiry, without a request', async () => {
    keep(backend, { [gateway.url]: credentialsFor(3000) });
    assert.equal(await run(), 0);
    assert.equal(backend.data(), 'access-0\n');
    assert.equal(backend.info(), '');
    await run({ json: true });
    const expires_at = '2027-01-31T12:50:00.000Z';
    const [, json] = backend.data().split('\n');
    assert.deepEqual(JSON.parse(json!), { token: 'access-0', expires_at, base_url: gateway.url });
    assert.deepEqual(gateway.requests, []);
  });

  test('in the last tenth of its life is renewed, and so is the refresh token', async () => {
    keep(backend, { [gateway.url]: credentialsFor(359), [other]: credentialsFor(1) });
    await run({ baseUrl: gateway.url });
    assert.equal(backend.data(), `${gateway.access_token}\n`);
    assert.equal(kept(backend)[gateway.url]?.refresh_token, gateway.refresh_token);
    assert.equal(kept(backend)[gateway.url]?.expires_at, '2027-01-31T13:00:00.000Z');
    assert.deepEqual(kept(backend)[other], credentialsFor(1));
    assert.deepEqual(readdirSync(dirname(backend.path)), ['credentials.json']);
  });

  test('keeps refresh token and e-mail address where the gateway names no new ones', async () => {
    keep(backend, { [gateway.url]: credentialsFor(0) });
    gateway.scripts.set('/oauth/token', () => tokens({ refresh_token: undefined, email: undefined }));
    await run();
    assert.equal(kept(backend)[gateway.url]?.refresh_token, 'refresh-0');
    assert.equal(kept(backend)[gateway.url]?.email, 'alice@example.com');
  });

  test('that was given while the clock was wrong is renewed', async () => {
    keep(backend, { [gateway.url]: credentialsFor(365 * 86_400) });
    await run();
    assert.equal(backend.data(), `${gateway.access_token}\n`);
  });

  test('of a gateway that gives no refresh tokens is printed while it lives, and then it is over', async () => {
    keep(backend, { [gateway.url]: credentialsFor(1, { refresh_token: undefined }) });
    await run();
    assert.equal(backend.data(), 'access-0\n');
    backend = createBackend();
    keep(backend, { [gateway.url]: credentialsFor(-1, { refresh_token: undefined }) });
    assert.equal((await refused()).exit_code, 1);
    assert.deepEqual(gateway.requests, []);
  });
});

describe('many calls at once', () => {
  test('make one refresh, and all print the new token', async () => {
    keep(backend, { [gateway.url]: credentialsFor(-10) });
    await Promise.all(Array.from({ length: 20 }, () => run()));
    assert.equal(refreshes(), 1);
    assert.equal(backend.data(), `${gateway.access_token}\n`.repeat(20));
  });

  test('while one renews, the others print the token that still lives', async () => {
    keep(backend, { [gateway.url]: credentialsFor(300) });
    const asked = Promise.withResolvers<void>();
    gateway.scripts.set('/oauth/token', () => {
      asked.resolve();
      return { never: true };
    });
    // The same person at another terminal.
    const stuck = token({ ...createBackend().context, env: backend.env, clock }, {}).catch(() => {});
    await asked.promise;
    await run();
    assert.equal(backend.data(), 'access-0\n');
    assert.equal(refreshes(), 1);
    gateway.close();
    await stuck;
  });

  test('a process that died while it renewed keeps no one waiting', async () => {
    keep(backend, { [gateway.url]: credentialsFor(-10) });
    symlinkSync('999999999-gone', `${backend.path}.lock`);
    await run();
    assert.equal(backend.data(), `${gateway.access_token}\n`);
  });
});

describe('a gateway that does not renew', () => {
  test('because the sign-in is over: exit code 1, what to do, and the credentials are forgotten', async () => {
    keep(backend, { [gateway.url]: credentialsFor(300), [other]: credentialsFor(1) });
    for (const status of [401, 400]) {
      keep(backend, { [gateway.url]: credentialsFor(300), [other]: credentialsFor(1) });
      const body = { error: 'invalid_grant', error_description: 'alice is not in \x1b[1mgroup eng' };
      gateway.scripts.set('/oauth/token', () => ({ status, body }));
      const error = await refused({ baseUrl: gateway.url });
      assert.equal(error.exit_code, 1);
      assert.equal(
        error.message,
        `your sign-in at ${gateway.url} has ended: alice is not in \uFFFD[1mgroup eng. Run: appscli login --base-url ${gateway.url}`,
      );
      assert.deepEqual(Object.keys(kept(backend)), [other]);
    }
    assert.match((await refused({ baseUrl: gateway.url })).message, /^you are not signed in at http\S+\. Run: /);
  });

  const troubles: [string, () => void][] = [
    ['its identity provider is away', () => script(oauthError('temporarily_unavailable', 503))],
    ['something else answers', () => script({ status: 200, body: '<html>Sign in to the Wi-Fi</html>' })],
    ['it wants another client', () => script(oauthError('invalid_client', 401))],
    ['it redirects', () => script({ status: 302, headers: { location: 'https://elsewhere.example.com' } })],
    ['nothing listens', () => gateway.close()],
    [
      'its discovery document leads elsewhere',
      () => Object.assign(gateway.discovery, { token_endpoint: 'https://evil.example.com' }),
    ],
  ];
  const script = (reply: object) => void gateway.scripts.set('/oauth/token', () => reply);

  for (const [what, begin] of troubles) {
    test(`${what}: a token that lives is printed, for one that does not exit code 69, and no one is signed out`, async () => {
      begin();
      keep(backend, { [gateway.url]: credentialsFor(5) });
      assert.equal(await run(), 0);
      assert.equal(backend.data(), 'access-0\n');
      backend = createBackend();
      keep(backend, { [gateway.url]: credentialsFor(-5) });
      const error = await refused();
      assert.equal(error.exit_code, 69);
      assert.equal(kept(backend)[gateway.url]?.refresh_token, 'refresh-0');
      assert.equal(existsSync(`${backend.path}.lock`), false);
    });
  }

  test('because another machine renews at this moment: it retries a second later', async () => {
    keep(backend, { [gateway.url]: credentialsFor(-5) });
    const replies = [
      oauthError('temporarily_unavailable', 503, { 'retry-after': '1' }),
      tokens({ access_token: 'later' }),
    ];
    gateway.scripts.set('/oauth/token', () => replies.shift()!);
    await run();
    assert.equal(backend.data(), 'later\n');
    assert.equal(clock.now() - Date.parse(NOW), 1000);
  });
});

test('a refresh token is not used where the next one can not be written down', async () => {
  keep(backend, { [gateway.url]: credentialsFor(-5) });
  const file = openCredentials(backend.env);
  const full = () => {
    throw new StartError('the disk is full');
  };
  const credentials = { ...file, write: full };
  const renewing = freshCredentials({ credentials, ask: createAsk(), clock, base_url: gateway.url });
  await assert.rejects(renewing, { message: 'the disk is full' });
  assert.equal(refreshes(), 0);
});

test('something that is no lock, where the lock belongs, is reported', async () => {
  keep(backend, { [gateway.url]: credentialsFor(-5) });
  writeFileSync(`${backend.path}.lock`, '');
  assert.match((await refused()).message, /credentials\.json cannot be written: .*lock/);
});

describe('which gateway is meant', () => {
  test('--base-url, else APPSCLI_BASE_URL, else the only one', async () => {
    keep(backend, {
      [other]: credentialsFor(3000, { access_token: 'access-other' }),
      [gateway.url]: credentialsFor(3000),
    });
    await run({ baseUrl: `${other}/` });
    assert.equal(backend.data(), 'access-other\n');
    await run({}, { ...backend.context, env: { ...backend.env, APPSCLI_BASE_URL: gateway.url } });
    assert.equal(backend.data(), 'access-other\naccess-0\n');
  });

  test('several sign-ins without a named gateway are listed; a gateway without a sign-in is named', async () => {
    keep(backend, { [other]: credentialsFor(3000), [gateway.url]: credentialsFor(3000) });
    const error = await refused();
    assert.equal(error.exit_code, 64);
    assert.match(error.message, /choose one of https:\/\/other\.example\.com, http:.*--base-url or APPSCLI_BASE_URL/);
    const baseUrl = 'https://third.example.com';
    const { exit_code, message } = await refused({ baseUrl });
    const shown = `you are not signed in at ${baseUrl}. Run: appscli login --base-url ${baseUrl}`;
    assert.deepEqual([exit_code, message], [1, shown]);
  });
});

describe('appscli whoami', () => {
  const me = {
    email: 'alice@example.com',
    name: 'Alice Archer',
    groups: ['eng', 'staff'],
    team: 'platform',
    project: null,
    roles: [],
    token_group: 'all',
    session_id: 'ses_1',
    models: Array.from({ length: 12 }, (_, i) => `coder-${i}`),
    no_models_because: null,
    may_make_tokens_in: [],
    own_tokens: null,
    own_tokens_suspended: null,
    own_tokens_suspend_at: null,
  };

  beforeEach(() => keep(backend, { [gateway.url]: credentialsFor(3000) }));

  test('who it is, with what and for how long, in 80 columns', async () => {
    gateway.scripts.set('/admin/api/me', () => ({ body: me }));
    assert.equal(await whoami({ ...backend.context, clock }, {}), 0);
    assert.equal(
      backend.data(),
      `alice@example.com at ${gateway.url}
Name         Alice Archer
Groups       eng, staff
Team         platform
Token group  all
Models       coder-0, coder-1, coder-2, coder-3, coder-4, coder-5, coder-6,
             coder-7, coder-8, coder-9, coder-10, coder-11
Token until  2027-01-31 12:50 UTC
`,
    );
    assert.equal(gateway.to('/admin/api/me')[0]?.headers.authorization, 'Bearer access-0');
  });

  test('that there are no models is reported, and why', async () => {
    const none = { ...me, token_group: null, models: [] };
    const no_models_because = 'you are a member of no token group (your groups are eng); an administrator adds one';
    gateway.scripts.set('/admin/api/me', () => ({ body: { ...none, no_models_because } }));
    await whoami({ ...backend.context, clock }, {});
    assert.match(
      backend.data().replace(/\s+/g, ' '),
      /Models none: you are a member of no token group \(your groups are eng\);/,
    );
    backend = createBackend();
    keep(backend, { [gateway.url]: credentialsFor(3000) });
    gateway.scripts.set('/admin/api/me', () => ({ body: none }));
    await whoami({ ...backend.context, clock }, {});
    assert.match(backend.data(), /^Models +none: ask your gateway administrator/m);
  });

  test('with --json it is the response of the gateway, without the token', async () => {
    gateway.scripts.set('/admin/api/me', () => ({ body: me }));
    await whoami({ ...backend.context, clock }, { json: true });
    const token_expires_at = '2027-01-31T12:50:00.000Z';
    assert.deepEqual(JSON.parse(backend.data()), { base_url: gateway.url, ...me, token_expires_at });
  });

  test('a gateway that does not return the account gives the reason instead', async () => {
    for (const [reply, words] of [
      [{ status: 403, body: { error: { message: 'Not for\nyou.' } } }, /^StartError: Not for you\.$/],
      [{ body: '<html>' }, /status 200, not in JSON/],
    ] as const) {
      gateway.scripts.set('/admin/api/me', () => reply);
      await assert.rejects(whoami({ ...backend.context, clock }, {}), words);
    }
  });
});

describe('appscli logout', () => {
  test('signing out ends the session and the token at the gateway, and forgets them here', async () => {
    keep(backend, { [gateway.url]: credentialsFor(3000), [other]: credentialsFor(3000) });
    assert.equal(await logout(backend.context, { baseUrl: gateway.url }), 0);
    assert.deepEqual(
      gateway.to('/oauth/revoke').map(({ form }) => form),
      [
        { token: 'refresh-0', token_type_hint: 'refresh_token' },
        { token: 'access-0', token_type_hint: 'access_token' },
      ],
    );
    assert.deepEqual(Object.keys(kept(backend)), [other]);
    assert.equal(backend.info(), `Signed out of ${gateway.url}.\n`);
  });

  test('an unavailable gateway cannot revoke the sign-in, and the message states that it stays valid', async () => {
    keep(backend, { [gateway.url]: credentialsFor(3000) });
    gateway.close();
    assert.equal(await logout(backend.context, {}), 69);
    assert.deepEqual(kept(backend), {});
    assert.match(backend.info(), /^appscli: no response from .*: connection refused$/m);
    assert.match(
      backend.info(),
      /it\s+stays\s+valid\s+until\s+it\s+expires,\s+or\s+until\s+"appscli\s+sessions\s+end"/,
    );
    for (const line of backend.info().split('\n')) assert.ok(line.length <= 80, line);
  });

  test('a gateway that rejects, or can not revoke, is no reason to keep the credentials', async () => {
    keep(backend, { [gateway.url]: credentialsFor(3000) });
    gateway.scripts.set('/oauth/revoke', () => ({ status: 503, body: { error: 'temporarily_unavailable' } }));
    assert.equal(await logout(backend.context, {}), 69);
    assert.deepEqual(kept(backend), {});
    keep(backend, { [gateway.url]: credentialsFor(3000) });
    delete gateway.discovery.revocation_endpoint;
    assert.equal(await logout(backend.context, {}), 69);
    assert.deepEqual(kept(backend), {});
  });

  test('--all signs out everywhere', async () => {
    const second = await startScriptedGateway();
    keep(backend, { [gateway.url]: credentialsFor(3000), [second.url]: credentialsFor(3000) });
    assert.equal(await logout(backend.context, { all: true }), 0);
    assert.deepEqual(kept(backend), {});
    assert.equal(gateway.to('/oauth/revoke').length + second.to('/oauth/revoke').length, 4);
  });

  test('without a sign-in the command reports that', async () => {
    assert.equal(await logout(backend.context, {}), 0);
    assert.equal(await logout(backend.context, { all: true }), 0);
    assert.equal(await logout(backend.context, { baseUrl: other }), 0);
    assert.equal(
      backend.info(),
      `You are not signed in anywhere.\nYou are not signed in anywhere.\nYou are not signed in at ${other}.\n`,
    );
  });
});
