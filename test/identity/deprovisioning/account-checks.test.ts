import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Operation } from '../../../engine/contract/telemetry.ts';
import { startAccountChecks } from '../../../engine/identity/deprovisioning/account-checks.ts';
import type { Identity } from '../../../engine/identity/index.ts';
import type { Person } from '../../../engine/identity/provider/admit.ts';
import { ProviderError } from '../../../engine/identity/provider/provider.ts';
import { createSessions } from '../../../engine/identity/sessions/sessions.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { quietLog, type TestStore, useTestStore } from '../../support/store.ts';
import { authWith, configWith } from '../sessions/configuration.ts';
import { openGrantsAndForm, START, signIn, somebody } from '../sessions/people.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

const MINUTE_MS = 60_000;

it('people who were not asked about, because the provider went away, come next and not an interval later', async () => {
  const { database } = store;
  const clock = frozenClock(START);
  const people = new Map<string, Person>();
  for (let n = 0; n < 3; n++) {
    const person = somebody();
    people.set(person.email, person);
    await signIn(openGrantsAndForm({ database, clock }), person);
    await database.query(
      'test_own_token',
      `insert into access_tokens (id, hash, prefix, principal_id, token_group, name, self_service)
       values ($1::text, sha256($1::text::bytea), 'gw_test', 'user:' || $2, 'all', 'test', true)`,
      [`tok_${n}`, person.email],
    );
    clock.advance(1000);
  }
  let is_down = true;
  const asked: string[] = [];
  const identity = {
    sessions: createSessions({ database, clock }),
    tokens: { open: async () => ({}), seal: async () => 'sealed' },
    provider: {
      async recheck() {
        if (is_down) throw new ProviderError('unavailable', 'it is down');
        return { claims: {}, grant: {} };
      },
      reach: async () => {},
    },
    admit: () => {
      throw new Error('unused');
    },
    isVerified({ email }: Person) {
      asked.push(email);
      return true;
    },
    catchUp: async () => {},
  } as unknown as Identity;
  const auth = authWith({ self_made_tokens: { check_minutes: 60, suspend_after_days: 2 } });
  const config = configWith(auth);
  const told: Operation[] = [];
  const checks = startAccountChecks({
    database,
    clock,
    log: quietLog,
    telemetry: { operation: (operation) => void told.push(operation) },
    signIn: () => ({ config, identity }),
  });
  clock.advance(60 * MINUTE_MS);
  await checks.check();
  assert.equal(asked.length, 1, 'the first finds out that it is away');
  is_down = false;
  Object.assign(identity, { admit: () => ({ person: people.get(asked.at(-1)!) }) });
  clock.advance(2 * MINUTE_MS);
  await checks.check();
  assert.deepEqual([...asked].sort(), [...people.keys()].sort());
  clock.advance(2 * MINUTE_MS);
  await checks.check();
  assert.equal(asked.length, 3, 'nobody again before the interval is over');
  const said = (name: string, attribute: string) =>
    told.filter((operation) => operation.name === name).map(({ attributes }) => attributes[attribute]);
  const outcomes = said('gateway.account_check', 'gateway.account_check.outcome');
  assert.deepEqual(outcomes, ['unavailable', 'verified', 'verified'], 'telemetry is told what came of each');
  const changes = said('gateway.admin_change', 'gateway.admin.action');
  assert.deepEqual(changes, ['token.revoke', 'token.revoke'], 'and of the tokens in groups that they have left');
  await checks.close();
});
