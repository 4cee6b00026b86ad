import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { NO_TELEMETRY, type Operation } from '../../../engine/base/contract/telemetry.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import { deprovision } from '../../../engine/domain/identity/deprovisioning/deprovision.ts';
import { startEndedGrants } from '../../../engine/domain/identity/deprovisioning/ended-grants.ts';
import {
  type AccountCheck,
  checkAccount,
  startAccountChecks,
} from '../../../engine/domain/identity/deprovisioning/recheck-session.ts';
import type { Identity } from '../../../engine/domain/identity/identity.ts';
import type { Person } from '../../../engine/domain/identity/provider/admit.ts';
import {
  ProviderError,
  type ProviderGrant,
  type ProviderProblem,
} from '../../../engine/domain/identity/provider/provider.ts';
import { createSessions } from '../../../engine/domain/identity/sessions/sessions.ts';
import { quietLog, useTestStore } from '../../support/store.ts';
import { authWith, configWith } from '../sessions/configuration.ts';
import { addToken, anyPerson, approveSignIn, openGrantsAndForm, START, signIn } from '../sessions/people.ts';

const { store } = useTestStore();

const TEN_MINUTES_MS = 600_000;
const DAY_MS = 24 * 3_600_000;

let clock: FrozenClock;
let revoked_grants: string[];
let answer: () => boolean;
let ended: ReturnType<typeof startEndedGrants>;
let key_is_elsewhere = false;

function open() {
  const opened = startEndedGrants({
    database: store.database,
    clock,
    log: quietLog,
    every: () => () => {},
    revocations: { onRevoked: () => () => true },
  });
  opened.use({
    isVerified: ({ issuer }: Pick<Person, 'issuer'>) => issuer === 'https://id.example.com',
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
        revoked_grants.push(String(refresh_token));
        return answer();
      },
    },
  } as never);
  return opened;
}

beforeEach(async () => {
  // A sweep takes in the sessions of every test before.
  await store.rows('delete from sessions');
  await store.rows('delete from ended_grants');
  clock = frozenClock(START);
  revoked_grants = [];
  answer = () => true;
  ended = open();
});

/** Signs somebody in with a provider's grant of this name; returns the session's id. */
async function begin(person: Person, grant: string): Promise<string> {
  return (await signIn(openGrantsAndForm({ database: store.database, clock, refresh_days: 1 }), person, grant)).id;
}

const end = (session: string) =>
  createSessions({ database: store.database, clock }).end(session, 'signed out', 'person');
const waiting = async () => (await store.rows('select sealed_grant from ended_grants')).length;

describe('the provider is informed that a session ended', () => {
  it('however it ended, once, and nothing of it is kept', async () => {
    const person = anyPerson();
    await end(await begin(person, 'signed-out'));
    await ended.sweep();
    await begin(anyPerson({ email: 'cut@example.com' }), 'cut-off');
    const actor = { kind: 'command', name: 'test' } as const;
    await deprovision(
      { database: store.database, clock },
      { user: 'cut@example.com', actor, because: 'x', tokens: 'none' },
    );
    await ended.sweep();
    await begin(anyPerson(), 'run-out');
    clock.advance(DAY_MS + 1);
    await ended.sweep();
    await ended.sweep();
    const own = ['signed-out', 'cut-off', 'run-out'];
    const revoked_of_own = revoked_grants.filter((grant) => own.includes(grant));
    assert.deepEqual(revoked_of_own, own);
    assert.equal(await waiting(), 0);
  });

  it('when the last one of the account does: providers end all of an account at once', async () => {
    const person = anyPerson();
    const [first, second] = [await begin(person, 'first'), await begin(person, 'second')];
    await begin(anyPerson(), 'of somebody else');
    await end(first);
    await ended.sweep();
    assert.deepEqual(revoked_grants, []);
    const grants = openGrantsAndForm({ database: store.database, clock, refresh_days: 1 });
    const device_code = await approveSignIn(grants, person, 'third');
    await end(second);
    await ended.sweep();
    assert.deepEqual(revoked_grants, [], 'a sign-in is about to become a session');
    const third = await grants.poll(device_code);
    await ended.sweep();
    assert.deepEqual(revoked_grants, []);
    assert.ok(third.outcome === 'signed_in' && (await end(third.session.id)));
    await ended.sweep();
    assert.deepEqual(revoked_grants.sort(), ['first', 'second', 'third']);
  });

  it('by one replica', async () => {
    const sessions = await Promise.all(Array.from({ length: 8 }, (_, n) => begin(anyPerson(), `grant-${n}`)));
    for (const session of sessions) await end(session);
    const replicas = [ended, open(), open()];
    await Promise.all(replicas.map((replica) => replica.sweep()));
    assert.deepEqual(
      [...revoked_grants].sort(),
      sessions.map((_, n) => `grant-${n}`),
    );
  });

  it('once more when it did not answer, and then no more', async () => {
    answer = () => {
      throw new ProviderError('unavailable', 'it is down');
    };
    await end(await begin(anyPerson(), 'unheard'));
    for (let tries = 0; tries < 4; tries++) {
      await ended.sweep();
      await ended.sweep();
      clock.advance(TEN_MINUTES_MS);
    }
    assert.deepEqual(revoked_grants, ['unheard', 'unheard']);
    assert.equal(await waiting(), 0);
  });

  it('by a replica that has the key, and one that has not goes on with the others', async () => {
    key_is_elsewhere = true;
    await end(await begin(anyPerson(), 'of a key elsewhere'));
    clock.advance(1000);
    await end(await begin(anyPerson(), 'of a key here'));
    for (let tries = 0; tries < 4; tries++) {
      await ended.sweep();
      assert.deepEqual(revoked_grants, ['of a key here']);
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
    const own = revoked_grants.filter((grant) => grant === 'of a key elsewhere');
    assert.equal(own.length, 2, 'it still has its two tries');
    assert.equal(await waiting(), 0);
  });

  it('unless it has no endpoint for that, is another one now, or the key is gone', async () => {
    answer = () => false;
    await end(await begin(anyPerson(), 'no-route'));
    await ended.sweep();
    await end(await begin(anyPerson({ issuer: 'https://former.example.com' }), 'former'));
    await end(await begin(anyPerson(), 'of another key'));
    await ended.sweep();
    assert.deepEqual(revoked_grants, ['no-route']);
    assert.equal(await waiting(), 0);
  });
});

type Says = Readonly<Record<string, ProviderProblem | Partial<Person>>>;

/** Signs somebody in once for each answer, oldest first, and asks about them. */
async function ask(says: Says, during?: (id: string) => Promise<unknown>) {
  const { database } = store;
  const clock = frozenClock(START);
  const person = anyPerson();
  const grants = openGrantsAndForm({ database, clock, refresh_days: 30 });
  const sessions = createSessions({ database, clock });
  const ids: string[] = [];
  for (const kept of Object.keys(says)) {
    ids.push((await signIn(grants, person, kept)).id);
    clock.advance(1000);
  }
  await during?.(ids[0]!);
  const asked: string[] = [];
  const identity = {
    sessions,
    tokens: {
      open: async (sealed: string) =>
        sealed === 'unreadable' ? undefined : { subject: person.subject, refresh_token: sealed },
      seal: async ({ refresh_token }: { refresh_token: string }) => refresh_token,
    },
    provider: {
      async recheck({ refresh_token }: { refresh_token: string }) {
        asked.push(refresh_token);
        const answer = says[refresh_token]!;
        if (typeof answer === 'string') throw new ProviderError(answer, 'the test says so');
        return { claims: { ...person, ...answer }, grant: { refresh_token: `${refresh_token}-next` } };
      },
    },
    admit: (claims: Person) => (claims.groups.includes('nobody') ? refusal(claims) : { person: claims }),
    isVerified: () => true,
    catchUp: async () => {},
  } as unknown as Identity;
  const asking = { config: configWith(), identity, database, clock, log: quietLog, telemetry: NO_TELEMETRY };
  const answer = await checkAccount(asking, person.email);
  const left = await sessions.list({ user: person.email });
  return { answer, asked, left: left.map(({ id }) => ids.indexOf(id)).sort(), person };
}

const refusal = ({ groups }: Person) => {
  const misses = { came: groups, expected: ['staff'], hint: '' };
  return { refused: 'group', message: '', detail: 'in none of the groups', misses };
};

describe('checking a user', () => {
  const cases: readonly [string, Says, AccountCheck, readonly string[], readonly number[]][] = [
    ['verified by the session that was used last', { a: {}, b: {} }, 'verified', ['b'], [0, 1]],
    ['verified by an older session than one that is refused', { a: {}, b: 'refused' }, 'verified', ['b', 'a'], [0]],
    ['refused by all sessions', { a: 'refused', b: 'refused' }, 'refused', ['b', 'a'], []],
    ['whom there is nothing to ask about with', { a: 'unaskable', unreadable: {} }, 'unaskable', ['a'], [0, 1]],
    ['while the provider is down', { a: 'unavailable' }, 'unavailable', ['a'], [0]],
    ['while the gateway is registered wrongly', { a: 'invalid' }, 'unavailable', ['a'], [0]],
    ['refused by one session, unclear by another', { a: 'unavailable', b: 'refused' }, 'unavailable', ['b', 'a'], [0]],
    ['not admitted any more', { a: {}, b: { groups: ['nobody'] } }, 'not_admitted', ['b'], []],
    ['who has another address now', { a: { email: 'other@example.com' } }, 'unaskable', ['a'], []],
  ];
  for (const [who, says, answer, asked, left] of cases) {
    it(`who is ${who}: ${answer}`.replace('who is w', 'w'), async () => {
      const found = await ask(says);
      assert.deepEqual({ answer: found.answer, asked: found.asked, left: found.left }, { answer, asked, left });
    });
  }

  it('leaves a session alone that its client is just renewing', async () => {
    const busy = await ask({ a: {} }, (id) =>
      store.rows(`update sessions set refreshing_until = created_at + interval '1 hour' where id = $1`, id),
    );
    assert.deepEqual([busy.answer, busy.asked], ['busy', []]);
  });

  it("keeps the provider's tokens for the next check, and its data about the user", async () => {
    const { person } = await ask({ a: { groups: ['staff', 'leads'] } });
    const rows = await store.rows(
      `select s.sealed_grant, s.refreshing_until, p.groups from sessions s join principals p on p.id = s.principal_id where p.email = $1`,
      person.email,
    );
    assert.deepEqual(rows, [{ sealed_grant: 'a-next', refreshing_until: null, groups: ['staff', 'leads'] }]);
  });

  it('gives back what the provider gave last when a session ends, not what that replaced', async () => {
    await store.rows('delete from ended_grants');
    for (const now of [{ groups: ['nobody'] }, { email: 'other@example.com' }]) {
      await ask({ a: now });
      const given = await store.rows('delete from ended_grants returning sealed_grant');
      assert.deepEqual(given, [{ sealed_grant: 'a-next' }]);
    }
  });
});

const MINUTE_MS = 60_000;

it('people who were not asked about, because the provider went away, come next and not an interval later', async () => {
  const { database } = store;
  const clock = frozenClock(START);
  const people = new Map<string, Person>();
  for (let n = 0; n < 3; n++) {
    const person = anyPerson();
    people.set(person.email, person);
    await signIn(openGrantsAndForm({ database, clock }), person);
    await addToken(store, person.email, true);
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
    admit: () => ({ person: people.get(asked.at(-1)!) }),
    isVerified({ email }: Person) {
      asked.push(email);
      return true;
    },
    catchUp: async () => {},
  } as unknown as Identity;
  const auth = authWith({ personal_tokens: { check_minutes: 60, suspend_after_days: 2 } });
  const config = configWith(auth);
  const revoked_grants: Operation[] = [];
  const checks = startAccountChecks({
    database,
    clock,
    log: quietLog,
    telemetry: { operation: (operation) => void revoked_grants.push(operation) },
    signIn: () => ({ config, identity }),
  });
  clock.advance(60 * MINUTE_MS);
  await checks.check();
  assert.equal(asked.length, 1, 'the first finds out that it is away');
  is_down = false;
  clock.advance(2 * MINUTE_MS);
  await checks.check();
  assert.deepEqual([...asked].sort(), [...people.keys()].sort());
  clock.advance(2 * MINUTE_MS);
  await checks.check();
  assert.equal(asked.length, 3, 'nobody again before the interval is over');
  const said = (name: string, attribute: string) =>
    revoked_grants.filter((operation) => operation.name === name).map(({ attributes }) => attributes[attribute]);
  const outcomes = said('gateway.account_check', 'gateway.account_check.outcome');
  assert.deepEqual(outcomes, ['unavailable', 'verified', 'verified'], 'telemetry is revoked_grants what came of each');
  const changes = said('gateway.admin_change', 'gateway.admin.action');
  assert.deepEqual(changes, ['token.revoke', 'token.revoke'], 'and of the tokens in groups that they have left');
  await checks.close();
});
