import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { deprovision } from '../../../engine/identity/deprovisioning/deprovision.ts';
import { type EndedGrants, startEndedGrants } from '../../../engine/identity/deprovisioning/ended-grants.ts';
import type { Person } from '../../../engine/identity/provider/admit.ts';
import { ProviderError, type ProviderGrant } from '../../../engine/identity/provider/provider.ts';
import { createSessions } from '../../../engine/identity/sessions/sessions.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { quietLog, type TestStore, useTestStore } from '../../support/store.ts';
import { approveSignIn, openGrantsAndForm, START, somebody } from '../sessions/people.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

const TEN_MINUTES_MS = 600_000;
const DAY_MS = 24 * 3_600_000;

let clock: FrozenClock;
let told: string[];
let answer: () => boolean;
let ended: EndedGrants;
let key_is_elsewhere = false;
let onRevoked: (() => void) | undefined;

function open(vouched = 'https://id.example.com'): EndedGrants {
  const opened = startEndedGrants({
    database: store.database,
    clock,
    log: quietLog,
    every: () => () => {},
    revocations: {
      onRevoked(listener) {
        onRevoked = () => listener(undefined);
        return () => {};
      },
    },
  });
  opened.use({
    isVerified: ({ issuer }: Pick<Person, 'issuer'>) => issuer === vouched,
    tokens: {
      async open(sealed: string) {
        if (sealed === 'of a key elsewhere' && key_is_elsewhere) {
          throw new StageError('temporarily_unavailable', 'another gateway has the key');
        }
        return sealed === 'of another key' ? undefined : { refresh_token: sealed };
      },
    },
    provider: {
      revoke: async ({ refresh_token }: ProviderGrant) => {
        told.push(String(refresh_token));
        return answer();
      },
    },
  } as never);
  return opened;
}

beforeEach(() => {
  clock = frozenClock(START);
  told = [];
  answer = () => true;
  ended = open();
});

/** Signs somebody in with a provider's grant of this name; returns the session's id. */
async function begin(person: Person, grant: string): Promise<string> {
  const grants = openGrantsAndForm({ database: store.database, clock, refresh_days: 1 });
  const polled = await grants.poll(await approveSignIn(grants, person, grant));
  assert.equal(polled.outcome, 'signed_in');
  return polled.outcome === 'signed_in' ? polled.session.id : '';
}

const end = (session: string) =>
  createSessions({ database: store.database, clock }).end(session, 'signed out', 'person');
const waiting = async () =>
  (await store.database.query<{ sealed_grant: string }>('test_ended', 'select sealed_grant from ended_grants', []))
    .length;

describe('the provider is told that a session ended', () => {
  it('however it ended, once, and nothing of it is kept', async () => {
    const person = somebody();
    await end(await begin(person, 'signed-out'));
    await ended.sweep();
    await begin(somebody({ email: 'cut@example.com' }), 'cut-off');
    const actor = { kind: 'command', name: 'test' } as const;
    await deprovision(
      { database: store.database, clock },
      { user: 'cut@example.com', actor, because: 'x', tokens: 'none' },
    );
    await ended.sweep();
    await begin(somebody(), 'run-out');
    clock.advance(DAY_MS + 1);
    await ended.sweep();
    await ended.sweep();
    const own = ['signed-out', 'cut-off', 'run-out'];
    assert.deepEqual(
      told.filter((grant) => own.includes(grant)),
      own,
    );
    assert.equal(await waiting(), 0);
  });

  it('as soon as it ends, without a timer', async () => {
    await end(await begin(somebody(), 'at-once'));
    onRevoked?.();
    await ended.close();
    assert.deepEqual(told, ['at-once']);
  });

  it('when the last one of the account does: providers end all of an account at once', async () => {
    const person = somebody();
    const [first, second] = [await begin(person, 'first'), await begin(person, 'second')];
    await begin(somebody(), 'of somebody else');
    await end(first);
    await ended.sweep();
    assert.deepEqual(told, []);
    const grants = openGrantsAndForm({ database: store.database, clock, refresh_days: 1 });
    const device_code = await approveSignIn(grants, person, 'third');
    await end(second);
    await ended.sweep();
    assert.deepEqual(told, [], 'a sign-in is about to become a session');
    const third = await grants.poll(device_code);
    await ended.sweep();
    assert.deepEqual(told, []);
    assert.ok(third.outcome === 'signed_in' && (await end(third.session.id)));
    await ended.sweep();
    assert.deepEqual(told.sort(), ['first', 'second', 'third']);
  });

  it('by one replica', async () => {
    const sessions = await Promise.all(Array.from({ length: 8 }, (_, n) => begin(somebody(), `grant-${n}`)));
    for (const session of sessions) await end(session);
    const replicas = [ended, open(), open()];
    await Promise.all(replicas.map((replica) => replica.sweep()));
    assert.deepEqual(
      [...told].sort(),
      sessions.map((_, n) => `grant-${n}`),
    );
  });

  it('once more when it did not answer, and then no more', async () => {
    answer = () => {
      throw new ProviderError('unavailable', 'it is down');
    };
    await end(await begin(somebody(), 'unheard'));
    for (let tries = 0; tries < 4; tries++) {
      await ended.sweep();
      await ended.sweep();
      clock.advance(TEN_MINUTES_MS);
    }
    assert.deepEqual(told, ['unheard', 'unheard']);
    assert.equal(await waiting(), 0);
  });

  it('by a replica that has the key, and one that has not goes on with the others', async () => {
    key_is_elsewhere = true;
    await end(await begin(somebody(), 'of a key elsewhere'));
    clock.advance(1000);
    await end(await begin(somebody(), 'of a key here'));
    for (let tries = 0; tries < 4; tries++) {
      await ended.sweep();
      assert.deepEqual(told, ['of a key here']);
      clock.advance(TEN_MINUTES_MS);
    }
    key_is_elsewhere = false;
    answer = () => {
      answer = () => true;
      throw new ProviderError('unavailable', 'it is down');
    };
    await ended.sweep();
    clock.advance(TEN_MINUTES_MS);
    await ended.sweep();
    const own = told.filter((grant) => grant === 'of a key elsewhere');
    assert.equal(own.length, 2, 'it still has its two tries');
    assert.equal(await waiting(), 0);
  });

  it('unless it has no endpoint for that, is another one now, or the key is gone', async () => {
    answer = () => false;
    await end(await begin(somebody(), 'no-route'));
    await ended.sweep();
    await end(await begin(somebody({ issuer: 'https://former.example.com' }), 'former'));
    await end(await begin(somebody(), 'of another key'));
    await ended.sweep();
    assert.deepEqual(told, ['no-route']);
    assert.equal(await waiting(), 0);
  });
});
