import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { listTokens } from '../../../engine/identity/tokens/list-tokens.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { anyText } from '../../support/any-text.ts';
import { times } from '../../support/times.ts';
import { type AdminBench, type Answer, useAdminApi } from './support.ts';

let bench: AdminBench;
useAdminApi((opened) => {
  bench = opened;
});

const ME = '/admin/api/me';
const TOKENS = '/admin/api/tokens';
const says = ({ status, body }: Answer, expected: number, code: string, message: RegExp) => {
  assert.equal(status, expected, JSON.stringify(body));
  assert.equal(body.type, 'error');
  assert.equal(body.error.code, code);
  assert.match(body.error.message, message);
  assert.match(body.request_id, /^[0-9a-f-]{36}$/);
};

describe('who gets in', () => {
  test('is told who they are and what that allows', async () => {
    const { body, headers } = await bench.ask('alice', 'GET', ME);
    assert.deepEqual(body, {
      email: 'alice@example.com',
      name: 'Alice Archer',
      groups: ['engineering'],
      team: 'search',
      project: null,
      roles: [],
      session_id: 'ses_alice',
      token_group: 'coders',
      models: ['coder-1'],
      no_models_because: null,
      may_make_tokens_in: ['coders'],
      own_tokens: 0,
      own_tokens_suspended: false,
      own_tokens_suspend_at: null,
    });
    assert.equal(headers.get('content-type'), 'application/json');
    assert.equal(headers.get('cache-control'), 'no-store');
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    assert.match(headers.get('x-gateway-request-id')!, /^[0-9a-f-]{36}$/);
    assert.equal((await bench.ask('bob', 'GET', ME)).body.name, null);
    assert.deepEqual((await bench.ask('root', 'GET', ME)).body.may_make_tokens_in, [
      'coders',
      'everything',
      'visitors',
    ]);
  });

  test('is told why there are no models for them', async () => {
    const { body } = await bench.ask('lone', 'GET', ME);
    assert.deepEqual([body.token_group, body.models], [null, []]);
    assert.match(
      body.no_models_because,
      /^you are a member of no token group \(your groups are lodgers, guests\); an administrator adds one of your groups/,
    );
  });

  test('sends a session token, as Authorization or as x-api-key', async () => {
    assert.equal((await bench.send('GET', ME, { headers: { 'x-api-key': 'alice' } })).body.email, 'alice@example.com');
    const both = { authorization: 'bearer bob', 'x-api-key': 'alice' };
    assert.equal((await bench.send('GET', ME, { headers: both })).body.email, 'bob@example.com');
  });

  test('is nobody without a credential or with one that is no good', async () => {
    for (const [headers, code] of [
      [{}, 'credential_missing'],
      [{ cookie: 'session=alice' }, 'credential_missing'],
      [{ authorization: 'Basic YWxpY2U6' }, 'credential_invalid'],
      [{ authorization: 'Bearer' }, 'credential_missing'],
      [{ authorization: 'Bearer alice bob' }, 'credential_invalid'],
      [{ authorization: 'Bearer mallory' }, 'credential_invalid'],
      [{ authorization: 'Bearer gw_nonsense' }, 'credential_invalid'],
    ] as [Record<string, string>, string][]) {
      const answer = await bench.send('POST', TOKENS, { headers, body: 'x'.repeat(100_000) });
      says(answer, 401, code, /./);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
      assert.equal(answer.headers.get('x-should-retry'), 'false');
    }
  });

  test('is not an access token, whosever it is', async () => {
    const { token } = await createToken(bench.by, { user: 'root@example.com', group: 'everything', name: 'stolen' });
    const answer = await bench.ask(token, 'GET', TOKENS);
    says(answer, 403, 'forbidden', /Sign in with "npx --yes https:\/\/gateway\.example\.com\/client\.tgz login"/);
  });

  test('is no page of another site: there are no cookies and no CORS', async () => {
    const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' };
    const preflight = await bench.send('OPTIONS', TOKENS, { headers });
    assert.equal(preflight.status, 405);
    const asked = await bench.send('GET', ME, { headers: { ...headers, authorization: 'Bearer alice' } });
    for (const answer of [preflight, asked]) {
      for (const name of ['access-control-allow-origin', 'set-cookie']) assert.equal(answer.headers.get(name), null);
    }
  });
});

describe('a request that is wrong', () => {
  test('has a body that is not JSON, or too large', async () => {
    const authorization = 'Bearer alice';
    const json = { authorization, 'content-type': 'application/json; charset=utf-8' };
    const post = (headers: Record<string, string>, body: string | Buffer) =>
      bench.send('POST', TOKENS, { headers, body: body as NonNullable<RequestInit['body']> });
    says(
      await post({ authorization, 'content-type': 'text/plain' }, '{"name":"x"}'),
      415,
      'invalid_request',
      /application\/json/,
    );
    says(await post({ authorization }, 'name=x'), 415, 'invalid_request', /must be JSON/);
    says(await post(json, '{"name":'), 400, 'invalid_json', /ends too early/);
    says(await post(json, Buffer.from([0x22, 0xff, 0x22])), 400, 'invalid_encoding', /UTF-8/);
    says(await post(json, `{"name":"${'x'.repeat(65_536)}"}`), 413, 'body_too_large', /65536 bytes/);
    const gzip = { ...json, 'content-encoding': 'gzip' };
    says(await post(gzip, gzipSync('{"name":')), 400, 'invalid_json', /ends too early/);
    says(await post(gzip, '{"name":"x"}'), 400, 'invalid_encoding', /cannot be decompressed/);
    says(await post(gzip, gzipSync(Buffer.alloc(1_000_000))), 413, 'body_too_large', /65536 bytes without/);
    says(
      await post({ ...json, 'content-encoding': 'compress' }, '{}'),
      415,
      'invalid_encoding',
      /"compress" .* not served/,
    );
    says(await post(json, '\ufeff{"name":"x"}'), 400, 'invalid_json', /byte order mark/);
    says(await post(json, '[{"name":"x"}]'), 400, 'invalid_request', /JSON object/);
    for (const twice of ['{"name":"x","name":"y"}', '{"name":"x","n\\u0061me":"y"}']) {
      says(await post(json, twice), 400, 'invalid_request', /name\b.* more than once/);
    }
    says(await post(json, '{"__proto__":{"user":"bob@example.com"},"name":"x"}'), 400, 'invalid_request', /__proto__/);
    assert.equal((await listTokens(bench.database, { user: 'alice@example.com' })).length, 0);
  });

  test('goes to a path or with a method that is not there', async () => {
    says(await bench.ask('alice', 'GET', '/admin/api/nothing'), 404, 'path_not_found', /openapi\.json/);
    says(await bench.ask('alice', 'GET', '/admin/api/Tokens'), 404, 'path_not_found', /openapi\.json/);
    says(await bench.ask('alice', 'GET', '/admin/api/tokens/%ff'), 400, 'bad_http', /percent-encoding/);
    const wrong = await bench.ask('alice', 'PUT', TOKENS);
    says(wrong, 405, 'method_not_allowed', /takes GET, HEAD, POST, not PUT/);
    assert.equal(wrong.headers.get('allow'), 'GET, HEAD, POST');
    says(await bench.ask('root', 'POST', `${TOKENS}?dry_run=1`, { name: 'x' }), 400, 'invalid_request', /"dry_run"/);
    assert.equal((await bench.ask('alice', 'HEAD', ME)).status, 200);
  });
});

describe('trouble', () => {
  test('of the database is 503 and changes nothing', async () => {
    const { id } = (await bench.ask('bob', 'POST', TOKENS, { name: 'kept' })).body;
    await bench.withoutStore(async () => {
      for (const [who, method, path, body] of [
        ['bob', 'GET', TOKENS],
        ['bob', 'POST', TOKENS, { name: 'x' }],
        ['bob', 'GET', `${TOKENS}/${id}`],
        ['bob', 'DELETE', `${TOKENS}/${id}`],
        ['bob', 'POST', `${TOKENS}/${id}/rotate`],
        ['bob', 'GET', '/admin/api/sessions'],
        ['bob', 'DELETE', '/admin/api/sessions/ses_bob'],
        ['root', 'POST', '/admin/api/people/bob@example.com/deprovision'],
        ['root', 'GET', '/admin/api/changes'],
      ] as const) {
        says(await bench.ask(who, method, path, body), 503, 'store_unavailable', /./);
      }
      assert.equal((await bench.ask('bob', 'GET', ME)).status, 200);
    });
    assert.equal((await bench.ask('bob', 'GET', `${TOKENS}/${id}`)).body.state, 'active');
  });

  test('is never made by a body, whatever it holds', async () => {
    const name = fc.constantFrom('name', 'group', 'user', 'team', 'project', 'expires_at', 'expires_in_seconds', '');
    const value = fc.oneof(fc.jsonValue(), anyText(), fc.constant('coders'), fc.constant(null));
    await fc.assert(
      fc.asyncProperty(fc.dictionary(name, value), fc.boolean(), async (body, as_admin) => {
        const { status } = await bench.ask(as_admin ? 'root' : 'fay', 'POST', TOKENS, body);
        assert.ok([201, 400, 403, 409].includes(status), `${status}: ${JSON.stringify(body)}`);
      }),
      { numRuns: times(30) },
    );
  });
});

describe('sessions', () => {
  test('are listed and ended by their owner, and exist for nobody else', async () => {
    await bench.addSession('alice@example.com', 'ses_other');
    await bench.addSession('bob@example.com', 'ses_bobs');
    const mine = (await bench.ask('alice', 'GET', '/admin/api/sessions')).body.sessions;
    assert.deepEqual(
      mine.map(({ id, current, client }: Record<string, unknown>) => [id, current, client]),
      [
        ['ses_alice', true, 'test/1'],
        ['ses_other', false, 'test/1'],
      ],
    );
    says(await bench.ask('alice', 'GET', '/admin/api/sessions?user=bob@example.com'), 403, 'forbidden', /bob@/);
    says(await bench.ask('alice', 'DELETE', '/admin/api/sessions/ses_bobs'), 404, 'not_found', /among yours/);
    says(await bench.ask('alice', 'DELETE', '/admin/api/sessions/ses_none'), 404, 'not_found', /among yours/);
    assert.deepEqual((await bench.ask('alice', 'DELETE', '/admin/api/sessions/ses_other')).body, {
      id: 'ses_other',
      ended: true,
    });
    says(await bench.ask('alice', 'DELETE', '/admin/api/sessions/ses_other'), 404, 'not_found', /to end/);
    const left = (await bench.ask('alice', 'GET', '/admin/api/sessions?ended=true')).body.sessions;
    assert.equal(left.length, 2);
    assert.equal(left.find(({ id }: { id: string }) => id === 'ses_other').revoked_because, 'ended by its owner');
    assert.equal((await bench.ask('root', 'DELETE', '/admin/api/sessions/ses_bobs')).status, 200);
  });

  test('are listed in pages', async () => {
    for (let i = 0; i < 5; i++) await bench.addSession('pager@example.com', `ses_page_${i}`);
    const first = (await bench.ask('root', 'GET', '/admin/api/sessions?user=pager@example.com&limit=3')).body;
    const path = `/admin/api/sessions?user=pager@example.com&limit=3&after=${first.next}`;
    const second = (await bench.ask('root', 'GET', path)).body;
    assert.deepEqual([first.sessions.length, second.sessions.length, second.next], [3, 2, null]);
    says(await bench.ask('root', 'GET', '/admin/api/sessions?after=ses_none'), 400, 'invalid_request', /"after"/);
  });
});

describe('deprovisioning somebody', () => {
  test('ends sessions and tokens, and is for administrators', async () => {
    const path = '/admin/api/people/Carol@Example.com/deprovision';
    says(await bench.ask('root', 'POST', path), 404, 'not_found', /Nobody/);
    await bench.addSession('carol@example.com', 'ses_carol');
    const carol = { user: 'carol@example.com', group: 'coders' };
    await createToken(bench.by, { ...carol, name: 'given' });
    await createToken(bench.by, { ...carol, name: 'made', self_service: true });
    says(await bench.ask('alice', 'POST', path), 403, 'forbidden', /alice@example\.com is none/);
    says(
      await bench.ask('root', 'POST', path, { tokens: 'some' }),
      400,
      'invalid_request',
      /all, self_service or none/,
    );
    const ended = await bench.ask('root', 'POST', path, { tokens: 'self_service', because: 'left the company' });
    assert.deepEqual(ended.body, { user: 'carol@example.com', sessions: 1, tokens: 1, service_tokens: [] });
    assert.deepEqual((await bench.ask('root', 'POST', path)).body, {
      user: 'carol@example.com',
      sessions: 0,
      tokens: 1,
      service_tokens: [],
    });
    for (const email of ['nobody', '%00@x', "'@x", 'a%20b@x']) {
      assert.equal((await bench.ask('root', 'POST', `/admin/api/people/${email}/deprovision`)).status, 404, email);
    }
  });
});

describe('the list of changes', () => {
  test('says who changed what, and never shows a token', async () => {
    const { body: made } = await bench.ask('bob', 'POST', TOKENS, { name: 'noted' });
    const { body: rotated } = await bench.ask('bob', 'POST', `${TOKENS}/${made.id}/rotate`, { overlap_seconds: 60 });
    await bench.ask('root', 'DELETE', `${TOKENS}/${rotated.id}`);
    says(await bench.ask('bob', 'GET', '/admin/api/changes'), 403, 'forbidden', /administrators/);
    const { changes } = (await bench.ask('root', 'GET', '/admin/api/changes?limit=1000')).body;
    const about = changes.filter(({ subject }: { subject: string }) => [made.id, rotated.id].includes(subject));
    assert.deepEqual(
      about
        .map(({ actor, action, subject }: Record<string, unknown>) => [
          (actor as { name: string }).name,
          action,
          subject,
        ])
        .sort(),
      [
        ['bob@example.com', 'token.create', made.id],
        ['bob@example.com', 'token.create', rotated.id],
        ['bob@example.com', 'token.rotate', made.id],
        ['root@example.com', 'token.revoke', made.id],
        ['root@example.com', 'token.revoke', rotated.id],
      ].sort(),
    );
    const text = JSON.stringify(changes) + bench.logs.join();
    for (const token of [made.token, rotated.token]) assert.ok(!text.includes(token.slice(3, 20)));
  });

  test('comes in pages, the newest first, from a moment on', async () => {
    for (let i = 0; i < 6; i++) await bench.ask('bob', 'POST', TOKENS, { name: `page${i}` });
    const first = (await bench.ask('root', 'GET', '/admin/api/changes?limit=4')).body;
    assert.equal(first.changes.length, 4);
    assert.equal(first.next, first.changes[3].id);
    const second = (await bench.ask('root', 'GET', `/admin/api/changes?limit=4&before=${first.next}`)).body;
    assert.ok(second.changes.every(({ id }: { id: number }) => id < first.next));
    assert.deepEqual((await bench.ask('root', 'GET', '/admin/api/changes?since=2030-01-01')).body, {
      changes: [],
      next: null,
    });
    for (const query of ['since=yesterday', 'before=-1', 'before=x', 'limit=99999']) {
      says(await bench.ask('root', 'GET', `/admin/api/changes?${query}`), 400, 'invalid_request', /is wrong: expected/);
    }
  });
});

describe('whose an address is', () => {
  test('is shown and changed by administrators alone', async () => {
    const path = '/admin/api/people/Dora@Example.com/rebind';
    says(await bench.ask('alice', 'GET', '/admin/api/people'), 403, 'forbidden', /alice@example\.com is none/);
    says(await bench.ask('alice', 'POST', path), 403, 'forbidden', /alice@example\.com is none/);
    says(await bench.ask('root', 'POST', path), 404, 'not_found', /Nobody/);
    await createToken(bench.by, { user: 'dora@example.com', group: 'coders', name: 'given' });
    await bench.addSession('dora@example.com', 'ses_dora');
    const dora = async () => (await bench.ask('root', 'GET', '/admin/api/people?user=Dora@example.com')).body.people;
    const own = { own_tokens: 0, own_tokens_suspended: false, own_tokens_suspend_at: null };
    const person = { email: 'dora@example.com', name: null, groups: [], is_admin: false, refused_at: null };
    const unbound = { issuer: null, subject: null, signed_in_at: null, has_given_tokens: true };
    const known = { ...person, ...unbound, ...own, tokens: 1, console_sessions: 0 };
    assert.deepEqual(await dora(), [{ ...known, client_sessions: 1, open_to_sign_in: false }]);
    says(await bench.ask('root', 'POST', path, { tokens: 'some' }), 400, 'invalid_request', /keep or revoke/);
    const open = await bench.ask('root', 'POST', path);
    assert.deepEqual(open.body, { user: 'dora@example.com', sessions: 1, tokens: 0 });
    assert.deepEqual(await dora(), [{ ...known, client_sessions: 0, open_to_sign_in: true }]);
    const revoked = await bench.ask('root', 'POST', path, { tokens: 'revoke' });
    assert.deepEqual(revoked.body, { user: 'dora@example.com', sessions: 0, tokens: 1 });
    says(await bench.ask('root', 'POST', path, { subject: 'd-7' }), 400, 'invalid_request', /auth\.oidc names none/);
  });
});

describe('people and their sessions', () => {
  test('are found by a part of address or name, a page at a time', async () => {
    for (const name of ['finder1', 'finder2', 'finder3']) await bench.addSession(`${name}@example.com`, `ses_${name}`);
    const asked = async (query: string) => (await bench.ask('root', 'GET', `/admin/api/people?${query}`)).body;
    const emails = ({ people }: { people: { email: string }[] }) => people.map(({ email }) => email);
    const first = await asked('search=FINDER&limit=2');
    assert.deepEqual(emails(first), ['finder1@example.com', 'finder2@example.com']);
    assert.equal(first.next, 'finder2@example.com');
    const rest = await asked(`search=finder&limit=2&after=${first.next}`);
    assert.deepEqual([emails(rest), rest.next], [['finder3@example.com'], null]);
    assert.deepEqual(emails(await asked('search=%25')), []);
  });

  test('end all at once: for administrators anybody, for everybody their own', async () => {
    const end = (who: string, body: object) => bench.ask(who, 'POST', '/admin/api/sessions/end', body);
    for (const id of ['ses_o1', 'ses_o2']) await bench.addSession('olga@example.com', id);
    says(await end('alice', { user: 'olga@example.com' }), 403, 'forbidden', /only administrators/i);
    says(await end('alice', { user: 'nobody@example.com' }), 403, 'forbidden', /only administrators/i);
    assert.deepEqual((await end('olga', { keep: 'current' })).body, { user: 'olga@example.com', sessions: 2 });
    const { body } = await bench.ask('olga', 'GET', '/admin/api/sessions');
    assert.deepEqual(
      body.sessions.map(({ id }: { id: string }) => id),
      ['ses_olga'],
    );
    const olgas = { user: 'olga@example.com' };
    assert.deepEqual((await end('root', olgas)).body, { ...olgas, sessions: 1 });
    assert.deepEqual((await end('root', olgas)).body, { ...olgas, sessions: 0 });
    const [change] = (await bench.ask('root', 'GET', '/admin/api/changes')).body.changes;
    assert.deepEqual(
      [change.action, change.actor.name, change.before.user],
      ['session.end', 'root@example.com', 'olga@example.com'],
    );
    await bench.addSession('olga@example.com', 'ses_olga_again');
  });
});
