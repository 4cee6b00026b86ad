import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { type Principal, StageError } from '../../../engine/api.ts';
import type { Changing } from '../../../engine/audit/admin-changes.ts';
import { OperationError } from '../../../engine/contract/operation-error.ts';
import { AccessTokens } from '../../../engine/identity/tokens/access-tokens.ts';
import { listTokens } from '../../../engine/identity/tokens/list-tokens.ts';
import { generateToken, hashToken, isWellFormedToken } from '../../../engine/identity/tokens/token-format.ts';
import { createToken, revokeToken } from '../../../engine/identity/tokens/tokens.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import type { Database } from '../../../engine/store/database.ts';
import { openTestStore, quietLog, type TestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const start = '2026-03-10T12:00:00Z';
const alice = { user: 'alice@example.com', group: 'coders', name: 'laptop' };

let store: TestStore;
let database: Database;
let by: Changing;

before(async () => {
  store = await openTestStore();
  database = store.database;
  by = { database, clock: frozenClock(start), actor: { kind: 'command', name: 'root@host' } };
});
after(() => store.close());

describe('the form of an access token', () => {
  it('is gw_ and 49 letters and digits, different every time', () => {
    const tokens = Array.from({ length: 50 }, generateToken);
    for (const token of tokens) {
      assert.match(token, /^gw_[0-9A-Za-z]{49}$/);
      assert.ok(isWellFormedToken(token));
    }
    assert.equal(new Set(tokens).size, 50);
  });

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
  it('stores the hash of a token and never the token', async () => {
    const { token, id } = await createToken(by, { ...alice, team: 'search', project: 'apollo' });
    const [row] = await database.query<{ text: string; hash: Buffer }>(
      'test_token',
      'select t::text as text, hash from access_tokens t where id = $1',
      [id],
    );
    assert.equal(row!.hash.toString('base64'), hashToken(token));
    assert.ok(!row!.text.includes(token));
    assert.ok(!row!.text.includes(token.slice(8)));
  });

  it('lists what is known of a token', async () => {
    const expires_at = new Date('2030-01-01T00:00:00Z');
    const { id, prefix, token } = await createToken(by, { ...alice, user: 'Lister@Example.com', expires_at });
    const [seen, ...others] = await listTokens(database, { user: 'lister@example.com' });
    assert.equal(others.length, 0);
    assert.ok(seen!.created_at instanceof Date);
    assert.deepEqual(
      { ...seen, created_at: undefined },
      {
        id,
        prefix,
        user: 'lister@example.com',
        group: 'coders',
        name: 'laptop',
        team: null,
        project: null,
        created_at: undefined,
        created_by: 'command root@host',
        self_service: false,
        expires_at,
        last_used_at: null,
        revoked_at: null,
        replaced_by: null,
        verified_at: null,
        is_blocked: false,
        put_off_until: null,
      },
    );
    assert.ok(token.startsWith(prefix) && prefix.length < 10);
    assert.ok((await listTokens(database)).some((each) => each.id === id));
  });

  it('refuses names that are empty, endless or unprintable', async () => {
    for (const wrong of [{ user: ' ' }, { user: 'a b' }, { name: '' }, { group: 'x'.repeat(255) }, { team: 'a\nb' }]) {
      await assert.rejects(createToken(by, { ...alice, ...wrong }), OperationError);
    }
  });

  it('revokes by id or by name and user, once', async () => {
    const bob = { ...alice, user: 'bob@example.com' };
    const first = await createToken(by, bob);
    const revoked = await revokeToken(by, { id: first.id });
    assert.ok(revoked.revoked_at instanceof Date);
    await assert.rejects(revokeToken(by, { id: first.id }), /is revoked already, since 2026-03-10/);
    const second = await createToken(by, bob);
    assert.equal((await revokeToken(by, { user: 'Bob@example.com', name: 'laptop' })).id, second.id);
  });

  it('does not guess which token is meant', async () => {
    const carol = { ...alice, user: 'carol@example.com' };
    const made = [await createToken(by, carol), await createToken(by, carol)];
    const revoking = revokeToken(by, { user: 'carol@example.com', name: 'laptop' });
    await assert.rejects(revoking, ({ message }: Error) => made.every(({ id }) => message.includes(id)));
    await assert.rejects(revokeToken(by, { id: 'tok_none' }), /no token has the id "tok_none"; "appscli tokens list"/);
  });
});

describe('verifying access tokens', () => {
  /**
   * Opens a verification that counts its lookups, on a database that may be switched off. Make tokens before: what is
   * announced during a lookup keeps its result out of the cache.
   */
  async function openCounting(clock: FrozenClock = frozenClock(start), goes_on_without = () => false) {
    const seen = { lookups: 0, away: false, silence: Promise.resolve(), reconnect: () => {} };
    let listening = Promise.resolve();
    const tokens = new AccessTokens({
      clock,
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
          listening = database.listen(channel, onMessage, onReconnect);
          return listening;
        },
      },
    });
    await listening;
    return { tokens, seen, clock };
  }

  it('finds the principal, and answers at once the second time', async () => {
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
  });

  it('asks the database once for many who come at the same time', async () => {
    const made = await Promise.all(Array.from({ length: 5 }, () => createToken(by, alice)));
    const { tokens, seen } = await openCounting();
    const all = await Promise.all(made.flatMap(({ token }) => [tokens.verify(token), tokens.verify(token)]));
    assert.equal(new Set(all.map(({ token }) => token.id)).size, 5);
    assert.equal(seen.lookups, 1);
  });

  it('refuses a malformed token without asking the database', async () => {
    const { tokens, seen } = await openCounting();
    assert.throws(() => tokens.verify('gw_nonsense'), { code: 'credential_invalid', message: /malformed/ });
    assert.equal(seen.lookups, 0);
  });

  it('refuses an unknown token, and remembers that it is unknown', async () => {
    const { tokens, seen } = await openCounting();
    const token = generateToken();
    await assert.rejects(async () => tokens.verify(token), { code: 'credential_invalid', message: /does not know/ });
    assert.throws(() => tokens.verify(token), { code: 'credential_invalid' });
    assert.equal(seen.lookups, 1);
  });

  it('never repeats a credential in an error', async () => {
    const { tokens } = await openCounting();
    const unknown = generateToken();
    for (const text of [unknown, unknown.slice(0, -1), 'my-secret-password']) {
      await assert.rejects(
        async () => tokens.verify(text),
        ({ message }: Error) => !message.includes(text.slice(3)),
      );
    }
  });

  it('refuses a cached token from the moment it expires', async () => {
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

  it('learns of a revocation from another process at once', async () => {
    const { token, id } = await createToken(by, alice);
    const { tokens } = await openCounting();
    await tokens.verify(token);
    await revokeToken({ ...by, database: await store.another() }, { id });
    const error = await until('the token is refused', async () => {
      try {
        await tokens.verify(token);
        return undefined;
      } catch (refusal) {
        return refusal as StageError;
      }
    });
    assert.equal(error.code, 'credential_revoked');
  });

  it('looks again after 30 s, and after notifications may have been missed', async () => {
    const { token } = await createToken(by, alice);
    const { tokens, seen, clock } = await openCounting();
    await tokens.verify(token);
    clock.advance(29_999);
    await tokens.verify(token);
    assert.equal(seen.lookups, 1);
    clock.advance(1);
    await tokens.verify(token);
    assert.equal(seen.lookups, 2);
    seen.reconnect();
    await tokens.verify(token);
    assert.equal(seen.lookups, 3);
  });

  it('does not keep what was read before a change was announced', async () => {
    const { token } = await createToken(by, alice);
    const { tokens, seen } = await openCounting();
    const looking = tokens.verify(token);
    seen.reconnect();
    await looking;
    await tokens.verify(token);
    assert.equal(seen.lookups, 2);
  });

  it('answers store_unavailable, never 401, when the database is away and the token is not cached', async () => {
    const [cached, other] = [await createToken(by, alice), await createToken(by, alice)];
    const { tokens, seen } = await openCounting();
    await tokens.verify(cached.token);
    seen.away = true;
    await assert.rejects(async () => tokens.verify(other.token), { code: 'store_unavailable', status: 503 });
    assert.ok(!((await tokens.verify(cached.token)) instanceof Promise));
    seen.away = false;
    const principal: Principal = await tokens.verify(other.token);
    assert.equal(principal.token.id, other.id);
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
    await revokeToken(by, { id: revoked.id });
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
  });

  it('does not wait long for a silent database before it goes on', async () => {
    const { token, id } = await createToken(by, alice);
    const { tokens, seen, clock } = await openCounting(undefined, () => true);
    await tokens.verify(token);
    clock.advance(30_000);
    const { promise, resolve } = Promise.withResolvers<void>();
    seen.silence = promise;
    const asked = tokens.verify(token);
    clock.advance(500);
    assert.equal((await asked).token.id, id);
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
