import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../engine/services/clock.ts';
import { createToken, listTokens } from '../../engine/services/tokens.ts';
import { type TestStore, useTestStore } from '../support/store.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
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
