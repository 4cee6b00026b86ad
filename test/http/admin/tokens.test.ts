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
const make = (who: string, body: object = {}) => bench.done(201, who, 'POST', TOKENS, { name: 'laptop', ...body });

/** Asserts that a token may not be made so. */
const refused = (status: number, message: RegExp, who: string, input: object) =>
  bench.refused(status, message, who, 'POST', TOKENS, { name: 'x', ...input });
const rotate = (who: string, id: string, input?: object) => bench.ask(who, 'POST', `${TOKENS}/${id}/rotate`, input);
const notRotated = (status: number, message: RegExp, who: string, id: string, input?: object) =>
  bench.refused(status, message, who, 'POST', `${TOKENS}/${id}/rotate`, input);

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
    assert.deepEqual(await bench.get('alice', `${TOKENS}/${id}`), { id, ...made });
  });

  test('is only for token groups one is a member of', async () => {
    assert.equal((await make('bob', { group: 'everything' })).group, 'everything');
    await refused(403, /"everything": your token groups are coders\.$/, 'alice', { group: 'everything' });
    await refused(403, /"wheel": your token groups/, 'alice', { group: 'wheel' });
    // The group of those who are members nowhere is not one more for the others.
    await refused(403, /"visitors"/, 'alice', { group: 'visitors' });
    assert.equal((await make('nina')).group, 'visitors');
  });

  test('for another user, or for another team, is for administrators', async () => {
    await refused(403, /omit "user"/, 'alice', { user: 'bob@example.com' });
    await refused(403, /yours is "search"/, 'alice', { team: 'sales' });
    await refused(403, /you have none/, 'alice', { project: 'apollo' });
    assert.equal((await make('alice', { team: 'search', user: 'Alice@Example.com' })).team, 'search');
    const input = { group: 'everything', team: 'sales', project: 'apollo' };
    const made = await make('root', { ...input, user: 'CI@example.com' });
    const owned = { user: 'ci@example.com', self_service: false, created_by: 'root@example.com' };
    assert.partialDeepStrictEqual(made, { ...input, ...owned });
    await refused(400, /gateway\.yaml has coders, everything or visitors/, 'root', { group: 'wheel' });
  });

  test('more than fifty times is one time too many, until one is revoked', async () => {
    const ids = [];
    for (let i = 0; i < 50; i++) ids.push((await make('olga', { name: `n${i}` })).id);
    await refused(409, / at most 50 .* revoke an unused one/, 'olga', {});
    assert.equal((await bench.ask('olga', 'DELETE', `${TOKENS}/${ids[0]}`)).status, 200);
    await make('olga');
  });

  test('rejects unusual texts, and expiries that are past, too late or given twice', async () => {
    const wrong: [object, RegExp][] = [
      [{ name: '\u202egnp.exe' }, /printable/],
      [{ name: 'a\ud800b' }, /printable/],
      [{ '<script>': 1 }, /Unknown field with an invalid name/],
      [{ expires_at: '2020-01-01T00:00:00Z' }, /is in the past/],
      [{ expires_at: '2036-03-18T00:00:00Z' }, /too late: expected 2036-03-1\dT12:\S+Z at the latest/],
      [{ expires_in_seconds: 316_224_001 }, /whole number from 1 to 316224000/],
      [{ expires_in_seconds: 60, expires_at: '2030-01-01T00:00:00Z' }, /not both/],
    ];
    for (const [input, message] of wrong) await refused(400, message, 'alice', input);
  });
});

describe('rotating an access token', () => {
  test('leaves the old one an hour, a day or nothing', async () => {
    const old = await make('alice', { expires_in_seconds: 7_200 });
    const { status, body } = await rotate('alice', old.id, { overlap_seconds: 60 });
    assert.equal(status, 201);
    assert.notEqual(body.token, old.token);
    assert.equal(body.expires_at, old.expires_at);
    assert.deepEqual([body.replaces.id, body.replaces.state, body.replaces.replaced_by], [old.id, 'replaced', body.id]);
    assert.equal(body.replaces.expires_at, '2026-03-10T12:01:00.000Z');
    await notRotated(409, /was already replaced by tok_/, 'alice', old.id);
    const again = await rotate('alice', body.id, { overlap_seconds: 0, expires_at: null });
    assert.equal(again.body.expires_at, null);
    assert.equal(again.body.replaces.state, 'expired');
    // Not longer than it would have lived.
    const last = await rotate('alice', (await make('alice', { expires_in_seconds: 5 })).id);
    assert.equal(last.body.replaces.expires_at, '2026-03-10T12:00:05.000Z');
    await notRotated(400, /from 0 to 2592000/, 'alice', again.body.id, { overlap_seconds: -1 });
  });

  test('does not give its owner more than an administrator gave', async () => {
    const granted = await make('root', { user: 'alice@example.com', group: 'everything', expires_in_seconds: 60 });
    for (const input of [{ expires_at: null }, { expires_in_seconds: 61 }]) {
      await notRotated(403, /admin role required to extend a token/i, 'alice', granted.id, input);
    }
    const { body } = await rotate('alice', granted.id, { expires_in_seconds: 30 });
    const { group, self_service, expires_at } = body;
    assert.deepEqual([group, self_service, expires_at], ['everything', false, '2026-03-10T12:00:30.000Z']);
  });

  test("is rejected in a token group after one's membership ended", async () => {
    const input = { user: 'alice@example.com', group: 'everything', name: 'old', self_service: true };
    await notRotated(403, /"everything"/, 'alice', (await createToken(bench.by, input)).id);
  });
});

test('revoking an access token ends its predecessor, once', async () => {
  const old = await make('alice');
  const { body: current } = await rotate('alice', old.id);
  const { body } = await bench.ask('alice', 'DELETE', `${TOKENS}/${current.id}`);
  assert.deepEqual([body.state, body.also_revoked], ['revoked', [old.id]]);
  await bench.refused(409, /is revoked already, since 2026-03-10/, 'alice', 'DELETE', `${TOKENS}/${old.id}`);
  for (const id of ['tok_%00', "tok_'", 'x'.repeat(65), '..']) {
    assert.equal((await bench.ask('alice', 'DELETE', `${TOKENS}/${id}`)).status, 404, id);
  }
});

test("a predecessor counts as one's own for as long as it works", async () => {
  const overlap = { overlap_seconds: 60 };
  const most = (count: number) =>
    new RegExp(`^A user can create at most ${count} .* including replaced ones that still work, and nina@`);
  const ids = [];
  for (let i = 0; i < 50; i++) ids.push((await make('nina', { name: `n${i}` })).id);
  const input = await createToken(bench.by, { user: 'nina@example.com', group: 'visitors', name: 'given' });
  let [last] = ids;
  for (let i = 0; i < 50; i++) last = (await rotate('nina', last, overlap)).body.id;
  await notRotated(409, most(100), 'nina', last, overlap);
  assert.equal((await rotate('nina', input.id, overlap)).status, 201, 'tokens of an administrator do not count');
  for (const id of ids.slice(1)) await bench.ask('nina', 'DELETE', `${TOKENS}/${id}`);
  await refused(409, most(50), 'nina', {});
  bench.clock.advance(60_000);
  await make('nina');
  assert.equal((await rotate('nina', last, overlap)).status, 201);
});

test('fifty replacements at the same moment never leave more than the limit allows', async () => {
  const each = (ids: readonly string[]) => Promise.all(ids.map((id) => rotate('olga', id, {})));
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
  const given = await createToken(bench.by, input);
  const [own, replaced, revoked] = await Promise.all([1, 2, 3].map(() => createToken(bench.by, made)));
  const successor = await rotateToken(bench.by, replaced!.id);
  await bench.ask('bob', 'DELETE', `${TOKENS}/${revoked!.id}`);
  const states = (own_state: string, replaced_state: string) => ({
    [given.id]: 'active',
    [own!.id]: own_state,
    [replaced!.id]: replaced_state,
    [successor.id]: own_state,
    [revoked!.id]: 'revoked',
  });
  assert.deepEqual(await statesOf(user), states('active', 'replaced'));
  await deprovision(bench.by, { user, actor: bench.by.actor, because: 'not let in', tokens: 'suspend' });
  assert.deepEqual(await statesOf(user), states('suspended', 'suspended'));
  assert.equal((await bench.get('root', `${TOKENS}/${own!.id}`)).state, 'suspended');

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
  await bench.rows(`update principals set blocked_at = now() where email = 'bob@example.com'`);
  bench.clock.advance(2 * DAY_MS);
}

describe('token groups', () => {
  beforeEach(makeTokens);

  test('are reported with what they open, who may create tokens in them, and how many exist', async () => {
    const { token_groups } = await ask('root', GROUPS);
    const of = (name: string, models: string[], members: string[], more: object = {}) => {
      const shared = { is_configured: true, is_for_everybody_else: false, may_make: true };
      return { name, models, members, ...shared, tokens: { in_force: 0, suspended: 0, last_used_at: null }, ...more };
    };
    assert.deepEqual(token_groups, [
      of('coders', ['coder-1'], ['engineering'], { tokens: { in_force: 2, suspended: 1, last_used_at: null } }),
      of('everything', ['coder-1', 'writer-1'], ['science', 'operators-in-chief']),
      of('visitors', ['writer-1'], [], { is_for_everybody_else: true }),
      of('left-behind', [], [], {
        ...{ is_configured: false, may_make: false, tokens: { in_force: 1, suspended: 0, last_used_at: null } },
      }),
    ]);
  });

  test("of others, and others' tokens in one's own, are visible only to administrators", async () => {
    const [coders, ...others] = (await ask('alice', GROUPS)).token_groups;
    assert.deepEqual([coders.name, coders.tokens.in_force, others], ['coders', 1, []]);
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
