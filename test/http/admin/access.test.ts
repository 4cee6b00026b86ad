import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createToken, listTokens } from '../../../engine/domain/identity/tokens/tokens.ts';
import { type Answer, adminBench, pick } from './support.ts';

const bench = adminBench();

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
  test("reports the caller's identity and permissions", async () => {
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
    assert.equal((await bench.get('bob', ME)).name, null);
    assert.deepEqual((await bench.get('root', ME)).may_make_tokens_in, ['coders', 'everything', 'visitors']);
  });

  test('explains why the caller has no models', async () => {
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

  test('is anonymous without a credential or with an invalid one', async () => {
    for (const [headers, code] of [
      [{}, 'credential_missing'],
      [{ cookie: 'session=alice' }, 'credential_missing'],
      [{ authorization: 'Basic YWxpY2U6' }, 'credential_invalid'],
      [{ authorization: 'Bearer' }, 'credential_missing'],
      [{ authorization: 'Bearer alice bob' }, 'credential_invalid'],
      [{ authorization: 'Bearer mallory' }, 'credential_invalid'],
      [{ authorization: 'Bearer gw_nonsense' }, 'credential_invalid'],
    ] as [Record<string, string>, string][]) {
      const response = await bench.send('POST', TOKENS, { headers, body: 'x'.repeat(100_000) });
      says(response, 401, code, /./);
      assert.equal(response.headers.get('www-authenticate'), 'Bearer');
      assert.equal(response.headers.get('x-should-retry'), 'false');
    }
  });

  test('is no page of another site: there are no cookies and no CORS', async () => {
    const headers = { origin: 'https://evil.example', authorization: 'Bearer alice' };
    const read = await bench.send('GET', ME, { headers });
    assert.equal(read.status, 200);
    for (const name of ['access-control-allow-origin', 'set-cookie']) assert.equal(read.headers.get(name), null);
  });
});

describe('a request that is wrong', () => {
  test('has a body that is not JSON, or too large', async () => {
    const authorization = 'Bearer alice';
    const json = { authorization, 'content-type': 'application/json; charset=utf-8' };
    const gzip = { ...json, 'content-encoding': 'gzip' };
    const lzw = { ...json, 'content-encoding': 'compress' };
    const text = { authorization, 'content-type': 'text/plain' };
    const wrong: [Record<string, string>, string | Buffer, number, string, RegExp][] = [
      [text, '{"name":"x"}', 415, 'invalid_request', /application\/json/],
      [{ authorization }, 'name=x', 415, 'invalid_request', /must be JSON/],
      [json, '{"name":', 400, 'invalid_json', /ends too early/],
      [json, Buffer.from([0x22, 0xff, 0x22]), 400, 'invalid_encoding', /UTF-8/],
      [json, `{"name":"${'x'.repeat(65_536)}"}`, 413, 'body_too_large', /65536 bytes/],
      [gzip, gzipSync('{"name":'), 400, 'invalid_json', /ends too early/],
      [gzip, '{"name":"x"}', 400, 'invalid_encoding', /cannot be decompressed/],
      [gzip, gzipSync(Buffer.alloc(1_000_000)), 413, 'body_too_large', /65536 bytes when decompressed/],
      [lzw, '{}', 415, 'invalid_encoding', /"compress" .* not supported/],
      [json, '\ufeff{"name":"x"}', 400, 'invalid_json', /byte order mark/],
      [json, '[{"name":"x"}]', 400, 'invalid_request', /JSON object/],
      [json, '{"name":"x","name":"y"}', 400, 'invalid_request', /name\b.* more than once/],
      [json, '{"name":"x","n\\u0061me":"y"}', 400, 'invalid_request', /name\b.* more than once/],
      [json, '{"__proto__":{"user":"bob@example.com"},"name":"x"}', 400, 'invalid_request', /__proto__/],
    ];
    for (const [headers, body, status, code, message] of wrong) {
      says(await bench.send('POST', TOKENS, { headers, body: body as never }), status, code, message);
    }
    assert.equal((await listTokens(bench.database, { user: 'alice@example.com' })).length, 0);
  });

  test('has an unknown path or method', async () => {
    says(await bench.ask('alice', 'GET', '/admin/api/nothing'), 404, 'path_not_found', /openapi\.json/);
    says(await bench.ask('alice', 'GET', '/admin/api/Tokens'), 404, 'path_not_found', /openapi\.json/);
    says(await bench.ask('alice', 'GET', '/admin/api/tokens/%ff'), 400, 'bad_http', /percent-encoding/);
    const wrong = await bench.ask('alice', 'PUT', TOKENS);
    says(wrong, 405, 'method_not_allowed', /supports GET, HEAD, POST, not PUT/);
    assert.equal(wrong.headers.get('allow'), 'GET, HEAD, POST');
    await bench.refused(400, /"dry_run"/, 'root', 'POST', `${TOKENS}?dry_run=1`, { name: 'x' });
    assert.equal((await bench.ask('alice', 'HEAD', ME)).status, 200);
  });
});

describe('failures', () => {
  test('of the database is 503 and changes nothing', async () => {
    const { id } = (await bench.ask('bob', 'POST', TOKENS, { name: 'kept' })).body;
    const limit = { user: 'a@example.com', window: 'day', usd: 1 };
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
        ['bob', 'GET', '/admin/api/limits'],
        ['root', 'PUT', '/admin/api/limits', limit],
        ['root', 'POST', '/admin/api/limits/grants', { ...limit, expires_in_seconds: 9 }],
      ] as const) {
        await bench.refused(503, /./, who, method, path, body);
      }
      assert.equal((await bench.ask('bob', 'GET', ME)).status, 200);
    });
    assert.equal((await bench.get('bob', `${TOKENS}/${id}`)).state, 'active');
  });
});

describe('sessions', () => {
  test('are listed in pages, and ended by administrators', async () => {
    for (let i = 0; i < 5; i++) await bench.addSession('pager@example.com', `ses_page_${i}`);
    const first = await bench.get('root', '/admin/api/sessions?user=pager@example.com&limit=3');
    const path = `/admin/api/sessions?user=pager@example.com&limit=3&after=${first.next}`;
    const second = await bench.get('root', path);
    assert.deepEqual([first.sessions.length, second.sessions.length, second.next], [3, 2, null]);
    await bench.refused(400, /"after"/, 'root', 'GET', '/admin/api/sessions?after=ses_none');
    assert.equal((await bench.ask('root', 'DELETE', '/admin/api/sessions/ses_page_0')).status, 200);
  });
});

describe('deprovisioning a user', () => {
  test('ends sessions and tokens, and is for administrators', async () => {
    const path = '/admin/api/people/Carol@Example.com/deprovision';
    await bench.refused(404, /Unknown person/, 'root', 'POST', path);
    await bench.addSession('carol@example.com', 'ses_carol');
    const carol = { user: 'carol@example.com', group: 'coders' };
    await createToken(bench.by, { ...carol, name: 'given' });
    await createToken(bench.by, { ...carol, name: 'made', self_service: true });
    await bench.refused(403, /admin role required \(auth\.admin_groups\)/i, 'alice', 'POST', path);
    await bench.refused(400, /all, self_service or none/, 'root', 'POST', path, { tokens: 'some' });
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

describe('whose an address is', () => {
  test('is shown and changed by administrators alone', async () => {
    const path = '/admin/api/people/Dora@Example.com/rebind';
    await bench.refused(403, /admin role required \(auth\.admin_groups\)/i, 'alice', 'GET', '/admin/api/people');
    await bench.refused(403, /admin role required \(auth\.admin_groups\)/i, 'alice', 'POST', path);
    await bench.refused(404, /Unknown person/, 'root', 'POST', path);
    await createToken(bench.by, { user: 'dora@example.com', group: 'coders', name: 'given' });
    await bench.addSession('dora@example.com', 'ses_dora');
    const dora = async () => (await bench.get('root', '/admin/api/people?user=Dora@example.com')).people;
    const own = { own_tokens: 0, own_tokens_suspended: false, own_tokens_suspend_at: null };
    const person = { email: 'dora@example.com', name: null, groups: [], is_admin: false, refused_at: null };
    const unbound = { issuer: null, subject: null, signed_in_at: null, has_given_tokens: true };
    const known = { ...person, ...unbound, ...own, tokens: 1, console_sessions: 0 };
    assert.deepEqual(await dora(), [{ ...known, client_sessions: 1, open_to_sign_in: false }]);
    await bench.refused(400, /keep or revoke/, 'root', 'POST', path, { tokens: 'some' });
    const open = await bench.ask('root', 'POST', path);
    assert.deepEqual(open.body, { user: 'dora@example.com', sessions: 1, tokens: 0 });
    assert.deepEqual(await dora(), [{ ...known, client_sessions: 0, open_to_sign_in: true }]);
    const revoked = await bench.ask('root', 'POST', path, { tokens: 'revoke' });
    assert.deepEqual(revoked.body, { user: 'dora@example.com', sessions: 0, tokens: 1 });
    await bench.refused(400, /auth\.oidc in gateway\.yaml is not set/, 'root', 'POST', path, { subject: 'd-7' });
  });
});

describe('users and their sessions', () => {
  test('are found by a part of address or name, a page at a time', async () => {
    for (const name of ['finder1', 'finder2', 'finder3']) await bench.addSession(`${name}@example.com`, `ses_${name}`);
    const asked = async (query: string) => await bench.get('root', `/admin/api/people?${query}`);
    const emails = ({ people }: { people: { email: string }[] }) => pick(people, 'email');
    const first = await asked('search=FINDER&limit=2');
    assert.deepEqual(emails(first), ['finder1@example.com', 'finder2@example.com']);
    assert.equal(first.next, 'finder2@example.com');
    const rest = await asked(`search=finder&limit=2&after=${first.next}`);
    assert.deepEqual([emails(rest), rest.next], [['finder3@example.com'], null]);
    assert.deepEqual(emails(await asked('search=%25')), []);
  });

  test("end all at once: any user's for administrators, otherwise one's own", async () => {
    const end = (who: string, body: object) => bench.ask(who, 'POST', '/admin/api/sessions/end', body);
    for (const id of ['ses_o1', 'ses_o2']) await bench.addSession('olga@example.com', id);
    says(await end('alice', { user: 'olga@example.com' }), 403, 'forbidden', /admin role required/i);
    says(await end('alice', { user: 'nobody@example.com' }), 403, 'forbidden', /admin role required/i);
    assert.deepEqual((await end('olga', { keep: 'current' })).body, { user: 'olga@example.com', sessions: 2 });
    const { body } = await bench.ask('olga', 'GET', '/admin/api/sessions');
    assert.deepEqual(pick(body.sessions, 'id'), ['ses_olga']);
    const olgas = { user: 'olga@example.com' };
    assert.deepEqual((await end('root', olgas)).body, { ...olgas, sessions: 1 });
    assert.deepEqual((await end('root', olgas)).body, { ...olgas, sessions: 0 });
    const [change] = (await bench.get('root', '/admin/api/changes')).changes;
    const { action, actor, before } = change;
    assert.deepEqual([action, actor.name, before.user], ['session.end', 'root@example.com', 'olga@example.com']);
    await bench.addSession('olga@example.com', 'ses_olga_again');
  });
});
