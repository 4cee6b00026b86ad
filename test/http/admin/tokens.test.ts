/** Access tokens over the admin API: who makes, rotates and sees which, how many there may be, and the groups they are in. */
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { deprovision } from '../../../engine/domain/identity/deprovisioning/deprovision.ts';
import { createToken, revokeToken, rotateToken } from '../../../engine/domain/identity/tokens/tokens.ts';
import { adminAtDatabase } from '../../../engine/edge/cli/admin.ts';
import { commandsOf } from '../../cli/at-gateway.ts';
import { adminBench, config, pick } from './support.ts';

const verified = {
  ...config,
  auth: { ...config.auth, oidc: {}, personal_tokens: { suspend_after_days: 30 } },
} as unknown as GatewayConfig;
const bench = adminBench(verified, { each: true });

const GROUPS = '/admin/api/token-groups';
const DAY_MS = 86_400_000;

const TOKENS = '/admin/api/tokens';
const make = async (who: string, body: object = {}) => {
  const made = await bench.ask(who, 'POST', TOKENS, { name: 'laptop', ...body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
};

describe('making an access token', () => {
  test('for oneself uses the token group and the team of the session', async () => {
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
    await bench.refused(403, /"everything": your token groups are coders\.$/, 'alice', 'POST', TOKENS, {
      name: 'x',
      group: 'everything',
    });
    await bench.refused(403, /"wheel": your token groups/, 'alice', 'POST', TOKENS, { name: 'x', group: 'wheel' });
    // The group of those who are members nowhere is not one more for the others.
    await bench.refused(403, /"visitors"/, 'alice', 'POST', TOKENS, { name: 'x', group: 'visitors' });
    assert.equal((await make('nina')).group, 'visitors');
  });

  test('for another user, or for another team, is for administrators', async () => {
    await bench.refused(403, /omit "user"/, 'alice', 'POST', TOKENS, { name: 'x', user: 'bob@example.com' });
    await bench.refused(403, /yours is "search"/, 'alice', 'POST', TOKENS, { name: 'x', team: 'sales' });
    await bench.refused(403, /you have none/, 'alice', 'POST', TOKENS, { name: 'x', project: 'apollo' });
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
    await bench.refused(400, /gateway\.yaml has coders, everything or visitors/, 'root', 'POST', TOKENS, {
      name: 'x',
      group: 'wheel',
    });
  });

  test('more than fifty times is one time too many, until one is revoked', async () => {
    const ids = [];
    for (let i = 0; i < 50; i++) ids.push((await make('olga', { name: `n${i}` })).id);
    await bench.refused(409, / at most 50 .* revoke an unused one/, 'olga', 'POST', TOKENS, { name: 'x' });
    assert.equal((await bench.ask('olga', 'DELETE', `${TOKENS}/${ids[0]}`)).status, 200);
    await make('olga');
  });

  test('rejects missing, unknown, malformed or past input', async () => {
    const wrong: [object | null, RegExp][] = [
      [{}, /"name" is missing/],
      [{ name: '' }, /"name" is wrong: expected a non-empty text/],
      [{ name: 7 }, /expected a text\./],
      [{ name: 'x'.repeat(255) }, /at most 254/],
      [{ name: 'a\u0000b' }, /printable/],
      [{ name: '\u202egnp.exe' }, /printable/],
      [{ name: 'a\ud800b' }, /printable/],
      [{ nmae: 'x' }, /did you mean `name`\?$/],
      [{ name: 'x', '<script>': 1 }, /Unknown field with an invalid name/],
      [{ name: 'x', user: 'nobody' }, /expected an e-mail address/],
      [{ name: 'x', expires_at: 'tomorrow' }, /expected a time such as/],
      [{ name: 'x', expires_at: '2027-02-31T00:00:00Z' }, /expected a time such as/],
      [{ name: 'x', expires_at: '2020-01-01T00:00:00Z' }, /is in the past/],
      [{ name: 'x', expires_at: '2036-03-18T00:00:00Z' }, /too late: expected 2036-03-1\dT12:\S+Z at the latest/],
      [{ name: 'x', expires_at: '9999-12-31T23:59:59Z' }, /too late/],
      [{ name: 'x', expires_in_seconds: 316_224_001 }, /whole number from 1 to 316224000/],
      [{ name: 'x', expires_in_seconds: 0 }, /whole number from 1/],
      [{ name: 'x', expires_in_seconds: 1.5 }, /whole number/],
      [{ name: 'x', expires_in_seconds: '60' }, /whole number/],
      [{ name: 'x', expires_in_seconds: 60, expires_at: '2030-01-01T00:00:00Z' }, /not both/],
      [[], /must be a JSON object/],
      [null, /must be a JSON object/],
    ];
    for (const [body, message] of wrong) await bench.refused(400, message, 'alice', 'POST', TOKENS, body);
  });
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
    await bench.refused(409, /was already replaced by tok_/, 'alice', 'POST', `${TOKENS}/${old.id}/rotate`);
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
    await bench.refused(400, /from 0 to 2592000/, 'alice', 'POST', `${TOKENS}/${again.body.id}/rotate`, {
      overlap_seconds: -1,
    });
  });

  test('does not give its owner more than an administrator gave', async () => {
    const granted = await make('root', { user: 'alice@example.com', group: 'everything', expires_in_seconds: 60 });
    const path = `${TOKENS}/${granted.id}/rotate`;
    for (const body of [{ expires_at: null }, { expires_in_seconds: 61 }]) {
      await bench.refused(403, /admin role required to extend a token/i, 'alice', 'POST', path, body);
    }
    const { body } = await bench.ask('alice', 'POST', path, { expires_in_seconds: 30 });
    assert.deepEqual(
      [body.group, body.self_service, body.expires_at],
      ['everything', false, '2026-03-10T12:00:30.000Z'],
    );
  });

  test("is rejected in a token group after one's membership ended", async () => {
    const { id } = await createToken(bench.by, {
      user: 'alice@example.com',
      group: 'everything',
      name: 'old',
      self_service: true,
    });
    await bench.refused(403, /"everything"/, 'alice', 'POST', `${TOKENS}/${id}/rotate`);
  });
});

test('revoking an access token ends its predecessor, once', async () => {
  const old = await make('alice');
  const { body: current } = await bench.ask('alice', 'POST', `${TOKENS}/${old.id}/rotate`);
  const { body } = await bench.ask('alice', 'DELETE', `${TOKENS}/${current.id}`);
  assert.deepEqual([body.state, body.also_revoked], ['revoked', [old.id]]);
  await bench.refused(409, /is revoked already, since 2026-03-10/, 'alice', 'DELETE', `${TOKENS}/${old.id}`);
  for (const id of ['tok_%00', "tok_'", 'x'.repeat(65), '..']) {
    assert.equal((await bench.ask('alice', 'DELETE', `${TOKENS}/${id}`)).status, 404, id);
  }
});

test("a predecessor counts as one's own for as long as it works", async () => {
  const make = (name: string) => bench.ask('nina', 'POST', TOKENS, { name });
  const rotate = (id: string) => bench.ask('nina', 'POST', `${TOKENS}/${id}/rotate`, { overlap_seconds: 60 });
  const refused = async (asked: ReturnType<typeof make>, message: RegExp) => {
    const { status, body } = await asked;
    assert.equal(status, 409);
    assert.match(body.error.message, message);
  };
  const ids = [];
  for (let i = 0; i < 50; i++) ids.push((await make(`n${i}`)).body.id);
  const input = await createToken(bench.by, { user: 'nina@example.com', group: 'visitors', name: 'given' });
  let [last] = ids;
  for (let i = 0; i < 50; i++) last = (await rotate(last)).body.id;
  await refused(rotate(last), /^A user can create at most 100 .* including replaced ones that still work, and nina@/);
  assert.equal((await rotate(input.id)).status, 201, 'tokens made by an administrator do not count');
  for (const id of ids.slice(1)) await bench.ask('nina', 'DELETE', `${TOKENS}/${id}`);
  await refused(make('x'), /^A user can create at most 50 .* including replaced ones that still work, and nina@/);
  bench.clock.advance(60_000);
  assert.equal((await make('x')).status, 201);
  assert.equal((await rotate(last)).status, 201);
});

test('fifty replacements at the same moment never leave more than the limit allows', async () => {
  const each = (ids: readonly string[]) =>
    Promise.all(ids.map((id) => bench.ask('olga', 'POST', `${TOKENS}/${id}/rotate`, {})));
  const made = Array.from({ length: 50 }, (_, i) => bench.ask('olga', 'POST', TOKENS, { name: `n${i}` }));
  const ids = (await Promise.all(made)).map(({ body }) => body.id);
  const rotated = (await each(ids.slice(0, 30))).map(({ body }) => body.id);
  const statuses = (await each([...rotated, ...ids.slice(30)])).map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 201).length, 20);
  assert.equal(statuses.filter((status) => status === 409).length, 30);
});

async function statesOf(user: string): Promise<Record<string, string>> {
  const { tokens } = await bench.get('root', `${TOKENS}?user=${user}`);
  return Object.fromEntries(pick(tokens, 'id', 'state'));
}

test('made by a user is suspended while the user is excluded, and one given to them is not', async () => {
  const user = 'bob@example.com';
  const input = { user, group: 'coders', name: 'laptop' };
  const made = { ...input, self_service: true };
  const [given, own, replaced, revoked] = [
    await createToken(bench.by, input),
    await createToken(bench.by, made),
    await createToken(bench.by, made),
    await createToken(bench.by, made),
  ];
  const successor = await rotateToken(bench.by, replaced.id);
  await bench.ask('bob', 'DELETE', `${TOKENS}/${revoked.id}`);
  const states = (own_state: string, replaced_state: string) => ({
    [given.id]: 'active',
    [own.id]: own_state,
    [replaced.id]: replaced_state,
    [successor.id]: own_state,
    [revoked.id]: 'revoked',
  });
  assert.deepEqual(await statesOf(user), states('active', 'replaced'));
  await deprovision(bench.by, { user, actor: bench.by.actor, because: 'not let in', tokens: 'suspend' });
  assert.deepEqual(await statesOf(user), states('suspended', 'suspended'));
  assert.equal((await bench.get('root', `${TOKENS}/${own.id}`)).state, 'suspended');

  const { stdout } = await commandsOf('root', bench.url)('tokens', 'list', '--user', user);
  assert.equal(stdout.match(/ suspended$/gm)?.length, 3);
  const at_database = (await adminAtDatabase(verified, bench.database)('listTokens', { user })).tokens;
  assert.deepEqual(Object.fromEntries(pick(at_database, 'id', 'state')), states('suspended', 'expired'));
  for (const token of at_database) assert.ok(!('verified_at' in token) && !('is_blocked' in token));
});

const ask = (who: string, path: string) => bench.get(who, path);
const named = async (who: string, query: string): Promise<string[]> =>
  pick((await ask(who, `${TOKENS}?${query}`)).tokens, 'name');

async function makeTokens() {
  const at = (days: number) => new Date(bench.clock.now() + days * DAY_MS);
  const make = (user: string, name: string, group: string, more: object = {}) => {
    bench.clock.advance(1);
    return createToken(bench.by, { user: `${user}@example.com`, name, group, ...more });
  };
  await make('alice', 'laptop', 'coders', { self_service: true });
  await make('alice', 'old', 'coders', { expires_at: at(1) });
  const gone = await make('alice', 'Lost%', 'visitors');
  await revokeToken(bench.by, gone.id);
  await make('bob', 'desk', 'coders', { self_service: true });
  await make('bob', 'ci', 'left-behind');
  await bench.database.query(
    'test_blocked',
    `update principals set blocked_at = now() where email = 'bob@example.com'`,
    [],
  );
  bench.clock.advance(2 * DAY_MS);
}

describe('token groups', () => {
  beforeEach(makeTokens);

  test('are reported with what they open, who may create tokens in them, and how many exist', async () => {
    const { token_groups } = await ask('root', GROUPS);
    assert.deepEqual(token_groups, [
      {
        ...{ name: 'coders', is_configured: true, models: ['coder-1'], members: ['engineering'] },
        ...{ is_for_everybody_else: false, may_make: true },
        tokens: { in_force: 2, suspended: 1, last_used_at: null },
      },
      {
        ...{ name: 'everything', is_configured: true, models: ['coder-1', 'writer-1'] },
        ...{ members: ['science', 'operators-in-chief'], is_for_everybody_else: false, may_make: true },
        tokens: { in_force: 0, suspended: 0, last_used_at: null },
      },
      {
        ...{ name: 'visitors', is_configured: true, models: ['writer-1'], members: [] },
        ...{ is_for_everybody_else: true, may_make: true },
        tokens: { in_force: 0, suspended: 0, last_used_at: null },
      },
      {
        ...{ name: 'left-behind', is_configured: false, models: [], members: [] },
        ...{ is_for_everybody_else: false, may_make: false },
        tokens: { in_force: 1, suspended: 0, last_used_at: null },
      },
    ]);
  });

  test("of others, and others' tokens in one's own, are visible only to administrators", async () => {
    const { token_groups } = await ask('alice', GROUPS);
    assert.deepEqual(
      token_groups.map(({ name, tokens }: { name: string; tokens: { in_force: number } }) => [name, tokens.in_force]),
      [['coders', 1]],
    );
    const bobs = (await ask('bob', GROUPS)).token_groups;
    assert.deepEqual(pick(bobs, 'name', 'members', 'may_make'), [
      ['coders', ['engineering'], true],
      ['everything', ['science'], true],
      ['left-behind', [], false],
    ]);
  });
});

describe('the list of access tokens', () => {
  beforeEach(makeTokens);

  test('is narrowed by group, by state and by a part of a text', async () => {
    assert.deepEqual(await named('root', 'group=coders'), ['laptop', 'old', 'desk']);
    assert.deepEqual(await named('root', 'group=coders&state=in_force'), ['laptop', 'desk']);
    assert.deepEqual(await named('root', 'state=active'), ['laptop', 'ci']);
    assert.deepEqual(await named('root', 'state=suspended'), ['desk']);
    assert.deepEqual(await named('root', 'state=expired'), ['old']);
    assert.deepEqual(await named('root', 'state=revoked'), ['Lost%']);
    assert.deepEqual(await named('root', 'search=LOST%25'), ['Lost%']);
    assert.deepEqual(await named('root', 'search=bob@'), ['desk', 'ci']);
    assert.deepEqual(await named('root', 'search=%25'), ['Lost%']);
    assert.deepEqual(await named('root', 'state=replaced'), []);
  });

  test("shows no other user's, with any filter", async () => {
    assert.deepEqual(await named('alice', 'search=bob'), []);
    assert.deepEqual(await named('alice', 'group=left-behind'), []);
    assert.deepEqual(await named('alice', 'search=example&state=in_force'), ['laptop']);
  });

  test('begins with the newest on request, page by page', async () => {
    const first = await ask('root', `${TOKENS}?order=newest&limit=2`);
    assert.equal(first.tokens.length, 2);
    const second = await ask('root', `${TOKENS}?order=newest&limit=10&after=${first.next}`);
    const oldest = await ask('root', TOKENS);
    const ids = (tokens: readonly { id: string }[]) => pick(tokens, 'id');
    assert.deepEqual([...ids(first.tokens), ...ids(second.tokens)], ids(oldest.tokens).reverse());
  });

  test('is suspended by the same rule in a filter as in the list', async () => {
    for (const days of [0, 20, 7, 1.5, 400]) {
      bench.clock.advance(days * DAY_MS);
      const { tokens } = await ask('root', TOKENS);
      for (const state of ['active', 'suspended', 'expired', 'revoked', 'replaced']) {
        const shown = tokens.filter((token: { state: string }) => token.state === state);
        const found = await named('root', `state=${state}`);
        assert.deepEqual(found, pick(shown, 'name'), `${state} ${days} days later`);
      }
    }
  });
});
