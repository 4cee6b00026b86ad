import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { before, describe, it, test } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/api.ts';
import { OperationError } from '../../../engine/base/contract/operation-error.ts';
import { type FrozenClock, frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import { type Actor, type Changing, listChanges } from '../../../engine/domain/audit/admin-changes.ts';
import { deprovision } from '../../../engine/domain/identity/deprovisioning/deprovision.ts';
import { SESSIONS_CHANNEL } from '../../../engine/domain/identity/sessions/sessions.ts';
import { AccessTokens } from '../../../engine/domain/identity/tokens/access-tokens.ts';
import {
  generateToken,
  hashToken,
  isWellFormedToken,
  TOKENS_CHANNEL,
} from '../../../engine/domain/identity/tokens/token-format.ts';
import {
  createToken,
  listTokens,
  revokeToken,
  rotateToken,
  theOne,
  tokenState,
} from '../../../engine/domain/identity/tokens/tokens.ts';
import { quietLog, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { addSession as putSession } from '../sessions/people.ts';

const start = '2026-03-10T12:00:00Z';
const now = Date.parse(start);
const actor: Actor = { kind: 'command', name: 'root@host' };
const gateway: Actor = { kind: 'gateway', name: 'sign-in' };

let by: Changing;
const { database, store } = useTestStore();
before(() => {
  by = { database, clock: frozenClock(start), actor };
});

let people = 0;
const somebody = () => `person${++people}@example.com`;
const wish = (user: string) => ({ user, group: 'coders', name: 'laptop' });
const changesOf = async (subject: string) =>
  (await listChanges(store.database, { limit: 1000 })).filter((change) => change.subject === subject).reverse();

const addSession = (user: string, id: string, begun = new Date(start)) =>
  putSession({ database }, { user, id, at: begun });

async function heard(channel: string, change: () => Promise<unknown>): Promise<string[]> {
  const messages: string[] = [];
  await (await store.another()).listen(
    channel,
    (payload) => void messages.push(payload),
    () => {},
  );
  await change();
  await until('something was announced', () => messages.length > 0);
  return messages;
}

const alice = { user: 'alice@example.com', group: 'coders', name: 'laptop' };

describe('the form of an access token', () => {
  it('tells every wrong character, every swap of neighbours and every cut', () => {
    const token = generateToken();
    const place = fc.integer({ min: 3, max: token.length - 2 });
    fc.assert(
      fc.property(place, fc.constantFrom('0', 'a', 'Z', '_', 'é', ' '), (i, other) => {
        const changed = token.slice(0, i) + other + token.slice(i + 1);
        assert.equal(isWellFormedToken(changed), changed === token);
        const swapped = token.slice(0, i) + token[i + 1] + token[i] + token.slice(i + 2);
        assert.equal(isWellFormedToken(swapped), swapped === token);
        assert.equal(isWellFormedToken(token.slice(0, i)), false);
      }),
    );
    for (const text of ['', 'gw_', `${token} `, `${token}\n`, token.toUpperCase()])
      assert.equal(isWellFormedToken(text), false);
  });
});

describe('administering access tokens', () => {
  it('does not guess which token is meant', async () => {
    const carol = { ...alice, user: 'carol@example.com' };
    const made = [await createToken(by, carol), await createToken(by, carol)];
    const found = await listTokens(database, carol);
    assert.throws(
      () => theOne('the name', found, now),
      ({ message }: Error) => made.every(({ id }) => message.includes(id)),
    );
    await assert.rejects(revokeToken(by, 'tok_none'), /no token has the id "tok_none"; "appscli tokens list"/);
  });
});

describe('verifying access tokens', () => {
  /** Counts its lookups. Make tokens before: a change announced during a lookup keeps its result out of the cache. */
  async function openCounting(clock: FrozenClock = frozenClock(start), goes_on_without = () => false) {
    const seen = { lookups: 0, away: false, silence: Promise.resolve(), reconnect: () => {} };
    let listening = Promise.resolve();
    const announced = Promise.withResolvers<void>();
    // Where it listened late, what is read at the same moment would not be kept.
    let later = 0;
    const tokens = new AccessTokens({
      clock: { ...clock, monotonic: () => clock.monotonic() + later },
      log: quietLog,
      every: () => () => {},
      goes_on_without,
      database: {
        async query(name, text, values) {
          if (name === 'token_lookup') seen.lookups++;
          if (seen.away) throw new StageError('store_unavailable', 'switched off by the test');
          await seen.silence;
          return database.query(name, text, values);
        },
        listen(channel, onMessage, onReconnect) {
          seen.reconnect = onReconnect;
          const receive = (payload: string) => (payload === 'until here' ? announced.resolve() : onMessage(payload));
          // Where another verification is connecting, this one listens late, and is informed.
          listening = database.listen(channel, receive, () => {
            onReconnect();
            announced.resolve();
          });
          return listening;
        },
      },
    });
    await listening;
    // Notifications arrive in order: those of the tokens made before must not arrive during a lookup.
    await store.rows('select pg_notify($1, $2)', TOKENS_CHANNEL, 'until here');
    await announced.promise;
    later = 1;
    return { tokens, seen, clock };
  }

  it('finds the principal, at once the second time, and all who come at the same time by one lookup', async () => {
    const { token, id } = await createToken(by, { ...alice, team: 'search', project: 'apollo' });
    const { tokens, seen } = await openCounting();
    const principal = await tokens.verify(token);
    assert.deepEqual(principal, {
      id: 'user:alice@example.com',
      email: 'alice@example.com',
      kind: 'access_token',
      groups: ['coders'],
      roles: [],
      team: 'search',
      project: 'apollo',
      token: { id, name: 'laptop', group: 'coders' },
    });
    assert.equal(tokens.verify(token), principal);
    assert.equal(seen.lookups, 1);
    const more = await Promise.all(Array.from({ length: 5 }, () => createToken(by, alice)));
    const together = await openCounting();
    const all = await Promise.all(more.flatMap((each) => [1, 2].map(() => together.tokens.verify(each.token))));
    assert.equal(new Set(all.map((each) => each.token.id)).size, 5);
    assert.equal(together.seen.lookups, 1);
  });

  it('rejects malformed tokens without a query, unknown ones with one, and repeats none of them', async () => {
    const { tokens, seen } = await openCounting();
    const unknown = generateToken();
    for (const text of ['gw_nonsense', unknown.slice(0, -1), 'my-secret-password']) {
      assert.throws(() => tokens.verify(text), { code: 'credential_invalid', message: /malformed/ });
    }
    assert.equal(seen.lookups, 0);
    await assert.rejects(async () => tokens.verify(unknown), { code: 'credential_invalid', message: /is unknown/ });
    for (const text of [unknown, unknown.slice(0, -1), 'my-secret-password']) {
      assert.throws(
        () => tokens.verify(text),
        ({ message }: Error) => !message.includes(text.slice(3)),
      );
    }
    assert.equal(seen.lookups, 1);
  });

  it('rejects a cached token from the moment it expires', async () => {
    const expires_at = new Date(Date.parse(start) + 10_000);
    const { token } = await createToken(by, { ...alice, expires_at });
    const { tokens, clock } = await openCounting();
    await tokens.verify(token);
    clock.advance(9_999);
    assert.ok(tokens.verify(token));
    clock.advance(1);
    assert.throws(() => tokens.verify(token), {
      code: 'credential_expired',
      message: /expired on 2026-03-10T12:00:10/,
    });
  });

  it('looks again after 30 s, and after notifications may have been missed, also during a lookup', async () => {
    const { token } = await createToken(by, alice);
    const { tokens, seen, clock } = await openCounting();
    const lookupsAfter = async (change: () => unknown) => {
      change();
      await tokens.verify(token);
      return seen.lookups;
    };
    assert.equal(await lookupsAfter(() => {}), 1);
    assert.equal(await lookupsAfter(() => clock.advance(29_999)), 1);
    assert.equal(await lookupsAfter(() => clock.advance(1)), 2);
    assert.equal(await lookupsAfter(seen.reconnect), 3);
    clock.advance(30_000);
    const looking = tokens.verify(token);
    seen.reconnect();
    await looking;
    assert.equal(await lookupsAfter(() => {}), 5);
  });

  it('waits two and a half seconds for a database that is silent, and remembers what it says later', async () => {
    const { token, id } = await createToken(by, alice);
    const { tokens, seen, clock } = await openCounting();
    const { promise, resolve } = Promise.withResolvers<void>();
    seen.silence = promise;
    const asked = [tokens.verify(token), tokens.verify(token)];
    clock.advance(2500);
    for (const each of asked) await assert.rejects(async () => each, { code: 'store_unavailable', status: 503 });
    const again = tokens.verify(token);
    resolve();
    assert.equal((await again).token.id, id);
    assert.equal(seen.lookups, 1);
    assert.equal(clock.next(), undefined, 'no timer is left');
  });

  it('does not let made-up tokens pile up while the database is silent', async () => {
    const { tokens, seen } = await openCounting();
    const { promise, resolve } = Promise.withResolvers<void>();
    seen.silence = promise;
    const flood = Array.from({ length: 10_000 }, () => Promise.resolve(tokens.verify(generateToken())).catch(() => {}));
    // No clock moves: whoever comes now is not kept waiting.
    await assert.rejects(async () => tokens.verify(generateToken()), { code: 'store_unavailable' });
    resolve();
    await Promise.all(flood);
  });

  it('goes on with tokens it saw within the hour while the database is away, where that is wanted', async () => {
    const [seen_before, revoked, other] = [
      await createToken(by, alice),
      await createToken(by, alice),
      await createToken(by, alice),
    ];
    const { tokens, seen, clock } = await openCounting(undefined, () => true);
    await tokens.verify(seen_before.token);
    await tokens.verify(revoked.token);
    await revokeToken(by, revoked.id);
    await until('the revocation is announced', async () => {
      return (await Promise.resolve(tokens.verify(revoked.token)).catch(({ code }) => code)) === 'credential_revoked';
    });
    seen.away = true;
    seen.reconnect();
    assert.equal((await tokens.verify(seen_before.token)).token.id, seen_before.id);
    const { lookups } = seen;
    clock.advance(999);
    await tokens.verify(seen_before.token);
    assert.equal(seen.lookups, lookups, 'it does not ask again at once');
    await assert.rejects(async () => tokens.verify(other.token), { code: 'store_unavailable' });
    await assert.rejects(async () => tokens.verify(revoked.token), { code: 'credential_revoked' });
    clock.advance(3_600_000);
    await assert.rejects(async () => tokens.verify(seen_before.token), { code: 'store_unavailable' });
    seen.away = false;
    await tokens.verify(seen_before.token);
    clock.advance(30_000);
    const { promise, resolve } = Promise.withResolvers<void>();
    seen.silence = promise;
    const asked = tokens.verify(seen_before.token);
    clock.advance(500);
    assert.equal((await asked).token.id, seen_before.id, 'it does not wait long for a silent database');
    resolve();
  });

  it('notes the last use at most once a minute, and shrugs when it cannot', async () => {
    const { token } = await createToken(by, { ...alice, user: 'user@example.com' });
    const { tokens, clock, seen } = await openCounting();
    const lastUse = async () =>
      (await listTokens(database, { user: 'user@example.com' }))[0]?.last_used_at?.toISOString();
    await tokens.verify(token);
    await tokens.flush();
    assert.equal(await lastUse(), '2026-03-10T12:00:00.000Z');
    clock.advance(59_000);
    await tokens.verify(token);
    await tokens.flush();
    assert.equal(await lastUse(), '2026-03-10T12:00:00.000Z');
    clock.advance(1000);
    await tokens.verify(token);
    seen.away = true;
    await tokens.flush();
    seen.away = false;
    clock.advance(60_000);
    await tokens.verify(token);
    await tokens.close();
    assert.equal(await lastUse(), '2026-03-10T12:02:00.000Z');
  });
});

describe('rotating an access token', () => {
  it('makes the newest of its name, and ten at once make one', async () => {
    const user = somebody();
    const first = await createToken(by, wish(user));
    const second = await rotateToken(by, first.id);
    assert.equal(theOne('the name', await listTokens(database, { user }), now)?.id, second.id);
    const another = { ...by, database: await store.another() };
    const results = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) => rotateToken(i % 2 === 0 ? by : another, second.id)),
    );
    const won = results.filter(({ status }) => status === 'fulfilled');
    assert.equal(won.length, 1);
    for (const result of results) if (result.status === 'rejected') assert.ok(result.reason instanceof OperationError);
    assert.equal((await listTokens(store.database, { user })).length, 3);
  });

  it('rejects a token that is revoked, expired, replaced or unknown', async () => {
    const user = somebody();
    const revoked = await createToken(by, wish(user));
    await revokeToken(by, revoked.id);
    await assert.rejects(rotateToken(by, revoked.id), /is revoked already, since 2026-03-10/);
    const expired = await createToken(by, { ...wish(user), expires_at: new Date(now - 1) });
    await assert.rejects(rotateToken(by, expired.id), /is expired already, since 2026-03-10T11/);
    const replaced = await createToken(by, { ...wish(user), name: 'other' });
    const { id } = await rotateToken(by, replaced.id);
    await assert.rejects(rotateToken(by, replaced.id), new RegExp(`was already replaced by ${id}`));
    await assert.rejects(rotateToken(by, 'tok_none'), { problem: 'missing' });
  });

  it('lists the old one first, though made in the same instant, and leaves the new one when the old is revoked', async () => {
    const user = somebody();
    const ids = [(await createToken(by, wish(user))).id];
    for (let i = 0; i < 9; i++) ids.push((await rotateToken(by, ids.at(-1)!)).id);
    const listed = (await listTokens(store.database, { user })).map(({ id }) => id);
    assert.deepEqual(listed, ids);
    const [old = '', made = ''] = ids.slice(-2);
    assert.ok(!(await revokeToken(by, old)).also_revoked.includes(made));
    assert.equal((await revokeToken(by, made)).id, made);
  });
});

describe('cutting a person off', () => {
  it('ends sessions, pending sign-ins and the selected tokens, and notifies every replica', async () => {
    const user = somebody();
    await addSession(user, `ses_${user}`);
    const given = await createToken(by, wish(user));
    const made = await createToken(by, { ...wish(user), self_service: true });
    await store.rows(
      `insert into device_grants (id, device_code_hash, user_code, status, client, client_address, created_at, expires_at, person, sealed_grant)
       values ($2, $1, $2, 'approved', 'x', 'x', $3, $3, jsonb_build_object('email', $4::text), 'sealed')`,
      Buffer.from(user),
      user,
      new Date(start),
      user,
    );
    const because = 'the identity provider refused';
    const messages = await heard(SESSIONS_CHANNEL, async () => {
      const ended = await deprovision(by, {
        user: user.toUpperCase(),
        actor: gateway,
        because,
        tokens: 'self_service',
      });
      assert.deepEqual(ended, { known: true, sessions: 1, tokens: 1 });
    });
    assert.deepEqual(messages, [`ses_${user}`]);
    const [grant] = await store.rows(
      'select status, person, sealed_grant from device_grants where user_code = $1',
      user,
    );
    assert.deepEqual(grant, { status: 'denied', person: null, sealed_grant: null });
    const states = Object.fromEntries(
      (await listTokens(store.database, { user })).map((token) => [token.id, tokenState(token, now)]),
    );
    assert.deepEqual(states, { [given.id]: 'active', [made.id]: 'revoked' });
    const [change] = await changesOf(`ses_${user}`);
    assert.deepEqual([change!.actor, change!.action, change!.at], [gateway, 'session.end', new Date(start)]);
    assert.equal(change!.after!.because, because);
    const actions = (await changesOf(user)).map(({ action }) => action);
    assert.deepEqual(actions, ['person.deprovision']);
    assert.deepEqual(await deprovision(by, { user, actor: gateway, because, tokens: 'all' }), {
      known: true,
      sessions: 0,
      tokens: 1,
    });
  });

  it('counts and records every session that ends: those in force, and those of the last day, whose tokens may live on', async () => {
    const user = somebody();
    const ages = { force: -3600, day: 3600, days: 36 * 3600 };
    for (const [name, seconds] of Object.entries(ages)) {
      await addSession(user, `ses_${name}_${user}`);
      await store.rows(
        'update sessions set expires_at = $1 where id = $2',
        new Date(now - seconds * 1000),
        `ses_${name}_${user}`,
      );
    }
    const { sessions } = await deprovision(by, { user, actor: gateway, because: 'gone', tokens: 'none' });
    assert.equal(sessions, 2);
    const recorded = await Promise.all(Object.keys(ages).map((name) => changesOf(`ses_${name}_${user}`)));
    const counts = recorded.map(({ length }) => length);
    assert.deepEqual(counts, [1, 1, 0]);
  });

  it('leaves nothing to someone who makes tokens at the same moment, on another gateway', async () => {
    for (let round = 0; round < 10; round++) {
      const user = somebody();
      const session_id = `ses_race_${round}`;
      await addSession(user, session_id);
      const first = await createToken(by, wish(user));
      const thief = { ...by, session_id, actor: { kind: 'person', name: user } } as const;
      const attempts = Promise.allSettled([
        ...Array.from({ length: 6 }, () => createToken(thief, { ...wish(user), self_service: true })),
        rotateToken(thief, first.id),
        deprovision(by, { user, actor, because: 'stolen', tokens: 'all' }),
        ...Array.from({ length: 6 }, () => createToken(thief, { ...wish(user), self_service: true })),
      ]);
      for (const result of await attempts) {
        if (result.status === 'rejected')
          assert.ok(['StageError', 'OperationError'].includes(result.reason.name), result.reason);
      }
      const alive = (await listTokens(store.database, { user })).filter(
        (token) => tokenState(token, now) !== 'revoked',
      );
      assert.deepEqual(alive, []);
      await assert.rejects(createToken(thief, wish(user)), { code: 'credential_revoked' });
      await assert.rejects(rotateToken(thief, (await createToken(by, wish(user))).id), {
        code: 'credential_revoked',
      });
    }
  });

  it('leaves no token that an administrator puts in the place of another at the same moment', async () => {
    const another = { ...by, database: await store.another() };
    for (let round = 0; round < 20; round++) {
      const user = somebody();
      const olds = await Promise.all([1, 2, 3, 4].map(() => createToken(by, wish(user))));
      await Promise.allSettled([
        ...olds.map(({ id }) => rotateToken(another, id)),
        deprovision(by, { user, actor, because: 'stolen', tokens: 'all' }),
      ]);
      const tokens = await listTokens(store.database, { user });
      assert.deepEqual([...new Set(tokens.map((token) => tokenState(token, now)))], ['revoked']);
    }
  });
});

it('the list of changes has who, when, before and after of every change of a token, and no token, hash or prefix', async () => {
  const user = somebody();
  const old = await createToken(by, { ...wish(user), team: 'search' });
  const made = await rotateToken(by, old.id, { overlap_seconds: 60 });
  await revokeToken({ ...by, actor: { kind: 'person', name: 'boss@example.com' } }, made.id);
  const about = [...(await changesOf(old.id)), ...(await changesOf(made.id))];
  assert.deepEqual(
    about.map(({ actor, action }) => `${actor.kind} ${actor.name} ${action}`),
    [
      'command root@host token.create',
      'command root@host token.rotate',
      'person boss@example.com token.revoke',
      'command root@host token.create',
      'person boss@example.com token.revoke',
    ],
  );
  const [created, rotated] = about;
  assert.deepEqual(about.at(-1)!.before, { user, group: 'coders', name: 'laptop', expires_at: null });
  assert.equal(created!.before, null);
  assert.deepEqual(created!.after, {
    user,
    group: 'coders',
    name: 'laptop',
    team: 'search',
    project: null,
    expires_at: null,
    self_service: false,
  });
  assert.deepEqual(rotated!.before, { expires_at: null });
  assert.equal(rotated!.after!.replaced_by, made.id);
  const text = JSON.stringify(about);
  for (const { token, prefix } of [old, made]) {
    for (const secret of [token.slice(3), hashToken(token), prefix]) assert.ok(!text.includes(secret));
  }
});

test('making a token, renewing the session and cutting its owner off never wait for each other in a circle', async () => {
  const user = 'busy@example.com';
  const by = { database: store.database, clock: systemClock, actor: { kind: 'person', name: user } } as const;
  const other = await store.another();
  await createToken(by, { user, group: 'all', name: 'first' });
  for (let round = 0; round < 25; round++) {
    const session_id = `ses_${round}`;
    await addSession(user, session_id, new Date());
    const hash = randomBytes(32);
    await store.rows(
      'insert into refresh_tokens (hash, session_id, created_at) values ($1, $2, now())',
      hash,
      session_id,
    );
    const renew = () =>
      other.query('test_finish_renewal', "select finish_renewal($1, $2, '::1', $3, $4, $5, '', now())", [
        session_id,
        hash,
        JSON.stringify({ email: user, issuer: 'https://id.example.com', subject: '1', groups: [`g${round}`] }),
        '',
        randomBytes(32),
      ]);
    const make = () => createToken({ ...by, session_id }, { user, group: 'all', name: 'n', self_service: true });
    const what = { user, actor: by.actor, because: 'x', tokens: round % 2 ? 'suspend' : 'all' } as const;
    const cut_off = () => deprovision({ ...by, database: other }, what);
    const tasks = [make, renew, make, renew, cut_off, make, renew];
    const results = await Promise.allSettled(tasks.map((task) => task()));
    for (const result of results) {
      if (result.status === 'rejected')
        // PostgreSQL would end a circle by failing one of its statements.
        assert.equal(result.reason.code, 'credential_revoked', String(result.reason.cause));
    }
  }
});

test('revoking a token with all it replaced, while its owner is deprovisioned, ends each of them once', async () => {
  const by = { database: store.database, clock: systemClock, actor: { kind: 'command', name: 'x' } } as const;
  const other = { ...by, database: await store.another() };
  for (let round = 0; round < 20; round++) {
    const user = `chain${round}@example.com`;
    let { id } = await createToken(by, { user, group: 'all', name: 'n' });
    for (let i = 0; i < 6; i++) ({ id } = await rotateToken(by, id));
    const results = await Promise.allSettled([
      revokeToken(by, id),
      deprovision(other, { user, actor: by.actor, because: 'x', tokens: 'all' }),
    ]);
    const reasons = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.problem] : []));
    assert.ok(
      reasons.every((problem) => problem === 'conflict'),
      String(reasons),
    );
    assert.ok((await listTokens(store.database, { user })).every(({ revoked_at }) => revoked_at !== null));
  }
});
