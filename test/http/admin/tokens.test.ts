import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { listTokens } from '../../../engine/identity/tokens/list-tokens.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { type AdminBench, useAdminApi } from './support.ts';

let bench: AdminBench;
useAdminApi((opened) => {
  bench = opened;
});

const TOKENS = '/admin/api/tokens';
const make = async (who: string, body: object = {}) => {
  const made = await bench.ask(who, 'POST', TOKENS, { name: 'laptop', ...body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
};
const CODES: Readonly<Record<number, string>> = {
  400: 'invalid_request',
  403: 'forbidden',
  404: 'not_found',
  409: 'conflict',
};
const refused = async (status: number, message: RegExp, who: string, method: string, path: string, body?: unknown) => {
  const answer = await bench.ask(who, method, path, body);
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  assert.match(answer.body.error.message, message);
  assert.equal(answer.body.error.code, CODES[status]);
  return answer;
};

describe('making an access token', () => {
  test('for oneself takes the token group and the team of the session', async () => {
    const { token, id, ...made } = await make('alice', { expires_in_seconds: 3600 });
    assert.match(token, /^gw_/);
    assert.deepEqual(made, {
      prefix: token.slice(0, 7),
      user: 'alice@example.com',
      group: 'coders',
      name: 'laptop',
      team: 'search',
      project: null,
      created_at: '2026-03-10T12:00:00.000Z',
      created_by: 'alice@example.com',
      self_service: true,
      expires_at: '2026-03-10T13:00:00.000Z',
      last_used_at: null,
      revoked_at: null,
      replaced_by: null,
      state: 'active',
      suspends_at: null,
    });
    const { status, body } = await bench.ask('alice', 'GET', `${TOKENS}/${id}`);
    assert.equal(status, 200);
    assert.deepEqual(body, { id, ...made });
  });

  test('is only for token groups one is a member of', async () => {
    assert.equal((await make('bob', { group: 'everything' })).group, 'everything');
    await refused(403, /"everything": you may make them in coders\.$/, 'alice', 'POST', TOKENS, {
      name: 'x',
      group: 'everything',
    });
    await refused(403, /"wheel": you may/, 'alice', 'POST', TOKENS, { name: 'x', group: 'wheel' });
    // The group of those who are members nowhere is not one more for the others.
    await refused(403, /"visitors"/, 'alice', 'POST', TOKENS, { name: 'x', group: 'visitors' });
    assert.equal((await make('nina')).group, 'visitors');
  });

  test('for somebody else, or for another team, is for administrators', async () => {
    await refused(403, /leave "user" out/, 'alice', 'POST', TOKENS, { name: 'x', user: 'bob@example.com' });
    await refused(403, /yours is "search"/, 'alice', 'POST', TOKENS, { name: 'x', team: 'sales' });
    await refused(403, /you have none/, 'alice', 'POST', TOKENS, { name: 'x', project: 'apollo' });
    assert.equal((await make('alice', { team: 'search', user: 'Alice@Example.com' })).team, 'search');
    const made = await make('root', { user: 'CI@example.com', group: 'everything', team: 'sales', project: 'apollo' });
    const { user, group, team, project, self_service, created_by } = made;
    assert.deepEqual(
      { user, group, team, project, self_service, created_by },
      {
        user: 'ci@example.com',
        group: 'everything',
        team: 'sales',
        project: 'apollo',
        self_service: false,
        created_by: 'root@example.com',
      },
    );
    await refused(400, /gateway\.yaml has coders, everything or visitors/, 'root', 'POST', TOKENS, {
      name: 'x',
      group: 'wheel',
    });
  });

  test('more than fifty times is one time too many, until one is revoked', async () => {
    const ids = [];
    for (let i = 0; i < 50; i++) ids.push((await make('olga', { name: `n${i}` })).id);
    await refused(409, /^At most 50 .* revoke one/, 'olga', 'POST', TOKENS, { name: 'x' });
    assert.equal((await bench.ask('olga', 'DELETE', `${TOKENS}/${ids[0]}`)).status, 200);
    await make('olga');
  });

  test('refuses what is missing, unknown, of the wrong kind or past', async () => {
    const wrong: [object | null, RegExp][] = [
      [{}, /"name" is missing/],
      [{ name: '' }, /"name" is wrong: expected a text that is not empty/],
      [{ name: 7 }, /expected a text\./],
      [{ name: 'x'.repeat(255) }, /at most 254/],
      [{ name: 'a\u0000b' }, /can be printed/],
      [{ name: '\u202egnp.exe' }, /can be printed/],
      [{ name: 'a\ud800b' }, /can be printed/],
      [{ nmae: 'x' }, /did you mean `name`\?$/],
      [{ name: 'x', '<script>': 1 }, /Unknown field with a name that is no word/],
      [{ name: 'x', user: 'nobody' }, /expected an e-mail address/],
      [{ name: 'x', expires_at: 'tomorrow' }, /expected a time such as/],
      [{ name: 'x', expires_at: '2027-02-31T00:00:00Z' }, /expected a time such as/],
      [{ name: 'x', expires_at: '2020-01-01T00:00:00Z' }, /has passed/],
      [{ name: 'x', expires_at: '2036-03-18T00:00:00Z' }, /too far away: expected 2036-03-1\dT12:\S+Z at the latest/],
      [{ name: 'x', expires_at: '9999-12-31T23:59:59Z' }, /too far away/],
      [{ name: 'x', expires_in_seconds: 316_224_001 }, /whole number from 1 to 316224000/],
      [{ name: 'x', expires_in_seconds: 0 }, /whole number from 1/],
      [{ name: 'x', expires_in_seconds: 1.5 }, /whole number/],
      [{ name: 'x', expires_in_seconds: '60' }, /whole number/],
      [{ name: 'x', expires_in_seconds: 60, expires_at: '2030-01-01T00:00:00Z' }, /not both/],
      [[], /must be a JSON object/],
      [null, /must be a JSON object/],
    ];
    for (const [body, message] of wrong) await refused(400, message, 'alice', 'POST', TOKENS, body);
  });
});

describe('somebody else’s access token', () => {
  test('does not exist for people, and does for administrators', async () => {
    const { id } = await make('bob');
    for (const [method, path, body] of [
      ['GET', `${TOKENS}/${id}`],
      ['DELETE', `${TOKENS}/${id}`],
      ['POST', `${TOKENS}/${id}/rotate`, {}],
    ] as const) {
      const foreign = await refused(
        404,
        /^There is no access token tok_\w+ among yours\.$/,
        'alice',
        method,
        path,
        body,
      );
      const unknown = await bench.ask('alice', method, path.replace(id, 'tok_0000000000000'), body);
      assert.equal(unknown.status, 404);
      assert.equal(unknown.body.error.message.replace('tok_0000000000000', id), foreign.body.error.message);
    }
    assert.equal((await bench.ask('root', 'GET', `${TOKENS}/${id}`)).body.user, 'bob@example.com');
    assert.equal((await bench.ask('root', 'DELETE', `${TOKENS}/${id}`)).body.state, 'revoked');
  });

  test('is not listed', async () => {
    await Promise.all([make('alice'), make('bob')]);
    const mine = (await bench.ask('alice', 'GET', TOKENS)).body.tokens;
    assert.ok(mine.length > 0 && mine.every(({ user }: { user: string }) => user === 'alice@example.com'));
    await refused(403, /Only administrators see/, 'alice', 'GET', `${TOKENS}?user=bob@example.com`);
    const theirs = (await bench.ask('root', 'GET', `${TOKENS}?user=BOB@example.com`)).body.tokens;
    assert.ok(theirs.length > 0 && theirs.every(({ user }: { user: string }) => user === 'bob@example.com'));
  });
});

test('a list comes in pages that miss and repeat nothing', async () => {
  for (let i = 0; i < 9; i++) await make('bob');
  const all = (await listTokens(bench.database)).map(({ id }) => id);
  const seen: string[] = [];
  for (let after = ''; ; ) {
    const { body } = await bench.ask('root', 'GET', `${TOKENS}?limit=7${after}`);
    seen.push(...body.tokens.map(({ id }: { id: string }) => id));
    if (body.next === null) break;
    after = `&after=${body.next}`;
  }
  assert.deepEqual(seen, all);
  for (const query of [
    'limit=0',
    'limit=1001',
    'limit=x',
    'after=tok_nothing',
    'colour=red',
    'limit=1&limit=2',
    'user=%00@x',
  ]) {
    await refused(400, /./, 'root', 'GET', `${TOKENS}?${query}`);
  }
});

describe('rotating an access token', () => {
  test('leaves the old one an hour, a day or nothing', async () => {
    const old = await make('alice', { expires_in_seconds: 7_200 });
    const { status, body } = await bench.ask('alice', 'POST', `${TOKENS}/${old.id}/rotate`, { overlap_seconds: 60 });
    assert.equal(status, 201);
    assert.notEqual(body.token, old.token);
    assert.equal(body.expires_at, old.expires_at);
    assert.deepEqual([body.replaces.id, body.replaces.state, body.replaces.replaced_by], [old.id, 'replaced', body.id]);
    assert.equal(body.replaces.expires_at, '2026-03-10T12:01:00.000Z');
    await refused(409, /is replaced already, by tok_/, 'alice', 'POST', `${TOKENS}/${old.id}/rotate`);
    const again = await bench.ask('alice', 'POST', `${TOKENS}/${body.id}/rotate`, {
      overlap_seconds: 0,
      expires_at: null,
    });
    assert.equal(again.body.expires_at, null);
    assert.equal(again.body.replaces.state, 'expired');
    // Not longer than it would have lived.
    const last = await bench.ask(
      'alice',
      'POST',
      `${TOKENS}/${(await make('alice', { expires_in_seconds: 5 })).id}/rotate`,
    );
    assert.equal(last.body.replaces.expires_at, '2026-03-10T12:00:05.000Z');
    await refused(400, /from 0 to 2592000/, 'alice', 'POST', `${TOKENS}/${again.body.id}/rotate`, {
      overlap_seconds: -1,
    });
  });

  test('does not give its owner more than an administrator gave', async () => {
    const granted = await make('root', { user: 'alice@example.com', group: 'everything', expires_in_seconds: 60 });
    const path = `${TOKENS}/${granted.id}/rotate`;
    for (const body of [{ expires_at: null }, { expires_in_seconds: 61 }]) {
      await refused(403, /only administrators make it live longer/, 'alice', 'POST', path, body);
    }
    const { body } = await bench.ask('alice', 'POST', path, { expires_in_seconds: 30 });
    assert.deepEqual(
      [body.group, body.self_service, body.expires_at],
      ['everything', false, '2026-03-10T12:00:30.000Z'],
    );
  });

  test('is refused in a token group one is not a member of any more', async () => {
    const { id } = await createToken(bench.by, {
      user: 'alice@example.com',
      group: 'everything',
      name: 'old',
      self_service: true,
    });
    await refused(403, /"everything"/, 'alice', 'POST', `${TOKENS}/${id}/rotate`);
  });
});

test('revoking an access token ends what it replaced, once', async () => {
  const old = await make('alice');
  const { body: current } = await bench.ask('alice', 'POST', `${TOKENS}/${old.id}/rotate`);
  const { body } = await bench.ask('alice', 'DELETE', `${TOKENS}/${current.id}`);
  assert.deepEqual([body.state, body.also_revoked], ['revoked', [old.id]]);
  await refused(409, /is revoked already, since 2026-03-10/, 'alice', 'DELETE', `${TOKENS}/${old.id}`);
  for (const id of ['tok_%00', "tok_'", 'x'.repeat(65), '..']) {
    assert.equal((await bench.ask('alice', 'DELETE', `${TOKENS}/${id}`)).status, 404, id);
  }
});
