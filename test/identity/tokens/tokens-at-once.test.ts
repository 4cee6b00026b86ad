import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { deprovision } from '../../../engine/identity/deprovisioning/deprovision.ts';
import { listTokens } from '../../../engine/identity/tokens/list-tokens.ts';
import { rotateToken } from '../../../engine/identity/tokens/rotate-token.ts';
import { createToken, revokeToken } from '../../../engine/identity/tokens/tokens.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { type TestStore, useTestStore } from '../../support/store.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

test('making a token, renewing the session and cutting its owner off never wait for each other in a circle', async () => {
  const user = 'busy@example.com';
  const by = { database: store.database, clock: systemClock, actor: { kind: 'person', name: user } } as const;
  const other = await store.another();
  await createToken(by, { user, group: 'all', name: 'first' });
  for (let round = 0; round < 25; round++) {
    const session_id = `ses_${round}`;
    await store.database.query(
      'test_add_session',
      `insert into sessions (id, principal_id, person, sealed_grant, client, client_address, created_at, checked_at, expires_at)
       values ($1, $2, '{}', '', '', '', now(), now(), now() + interval '1 day')`,
      [session_id, `user:${user}`],
    );
    const hash = randomBytes(32);
    await store.database.query(
      'test_add_refresh_token',
      'insert into refresh_tokens (hash, session_id, created_at) values ($1, $2, now())',
      [hash, session_id],
    );
    const renew = () =>
      other.query('test_finish_renewal', "select finish_renewal($1, $2, '::1', $3, $4, $5, '', now())", [
        session_id,
        hash,
        JSON.stringify({
          email: user,
          issuer: 'https://id.example.com',
          subject: '1',
          name: 'B',
          groups: [`g${round}`],
        }),
        '',
        randomBytes(32),
      ]);
    const make = () => createToken({ ...by, session_id }, { user, group: 'all', name: 'n', self_service: true });
    const results = await Promise.allSettled([
      make(),
      renew(),
      make(),
      renew(),
      deprovision(
        { ...by, database: other },
        { user, actor: by.actor, because: 'x', tokens: round % 2 ? 'suspend' : 'all' },
      ),
      make(),
      renew(),
    ]);
    for (const result of results) {
      if (result.status === 'rejected')
        // PostgreSQL would end a circle by failing one of its statements.
        assert.equal(result.reason.code, 'credential_revoked', String(result.reason.cause));
    }
  }
});

test('ten tokens at the same moment, on two gateways, are never more than the limit allows', async () => {
  const by = { database: store.database, clock: systemClock, actor: { kind: 'person', name: 'x' } } as const;
  const other = { ...by, database: await store.another() };
  for (let round = 0; round < 20; round++) {
    const user = `u${round}@example.com`;
    const wish = { user, group: 'all', name: 'n', self_service: true, max_self_service: 3 };
    await createToken(by, wish);
    const made = await Promise.allSettled(Array.from({ length: 10 }, (_, i) => createToken(i % 2 ? by : other, wish)));
    assert.equal(made.filter(({ status }) => status === 'fulfilled').length, 2);
    assert.equal((await listTokens(store.database, { user })).length, 3);
  }
});

test('revoking a token with all it replaced, while its owner is deprovisioned, ends each of them once', async () => {
  const by = { database: store.database, clock: systemClock, actor: { kind: 'command', name: 'x' } } as const;
  const other = { ...by, database: await store.another() };
  for (let round = 0; round < 20; round++) {
    const user = `chain${round}@example.com`;
    let { id } = await createToken(by, { user, group: 'all', name: 'n' });
    for (let i = 0; i < 6; i++) ({ id } = await rotateToken(by, { id }));
    const results = await Promise.allSettled([
      revokeToken(by, { id }),
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
