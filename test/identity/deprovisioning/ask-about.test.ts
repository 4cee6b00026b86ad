import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NO_TELEMETRY } from '../../../engine/contract/telemetry.ts';
import { type AskedAbout, askAbout } from '../../../engine/identity/deprovisioning/ask-about.ts';
import type { Identity } from '../../../engine/identity/index.ts';
import type { Person } from '../../../engine/identity/provider/admit.ts';
import { ProviderError, type ProviderProblem } from '../../../engine/identity/provider/provider.ts';
import { listRefusals } from '../../../engine/identity/provider/refused-sign-ins.ts';
import { createSessions } from '../../../engine/identity/sessions/sessions.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { quietLog, type TestStore, useTestStore } from '../../support/store.ts';
import { configWith } from '../sessions/configuration.ts';
import { approveSignIn, DEVICE, openGrantsAndForm, START, somebody } from '../sessions/people.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

/** What the provider says of a session, by what is kept of it. */
type Says = Readonly<Record<string, ProviderProblem | Partial<Person>>>;

/** Signs somebody in once for each answer, oldest first, and asks about them. */
async function ask(says: Says, during?: (id: string) => Promise<unknown>) {
  const { database } = store;
  const clock = frozenClock(START);
  const person = somebody();
  const grants = openGrantsAndForm({ database, clock, refresh_days: 30 });
  const sessions = createSessions({ database, clock });
  const ids: string[] = [];
  for (const kept of Object.keys(says)) {
    const polled = await grants.poll(await approveSignIn(grants, person, kept));
    assert.equal(polled.outcome, 'signed_in');
    ids.push(polled.outcome === 'signed_in' ? polled.session.id : '');
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
  const answer = await askAbout(asking, person.email);
  const left = await sessions.list({ user: person.email });
  return { answer, asked, left: left.map(({ id }) => ids.indexOf(id)).sort(), person };
}

const refusal = ({ groups }: Person) => ({
  refused: 'group',
  message: '',
  detail: 'in none of the groups',
  misses: { came: groups, expected: ['staff'], hints: [] },
});

describe('asking about somebody', () => {
  const cases: readonly [string, Says, AskedAbout, readonly string[], readonly number[]][] = [
    ['verified by the session that was used last', { a: {}, b: {} }, 'verified', ['b'], [0, 1]],
    ['verified by an older session than one that is refused', { a: {}, b: 'refused' }, 'verified', ['b', 'a'], [0]],
    ['refused by all sessions', { a: 'refused', b: 'refused' }, 'refused', ['b', 'a'], []],
    ['whom there is nothing to ask about with', { a: 'unaskable', unreadable: {} }, 'unaskable', ['a'], [0, 1]],
    ['while the provider is down', { a: 'unavailable' }, 'unavailable', ['a'], [0]],
    ['while the gateway is registered wrongly', { a: 'invalid' }, 'unavailable', ['a'], [0]],
    [
      'refused by one session while another gets no answer',
      { a: 'unavailable', b: 'refused' },
      'unavailable',
      ['b', 'a'],
      [0],
    ],
    ['not admitted any more', { a: {}, b: { groups: ['nobody'] } }, 'not_admitted', ['b'], []],
    ['who has another address now', { a: { email: 'other@example.com' } }, 'unaskable', ['a'], []],
  ];
  for (const [who, says, answer, asked, left] of cases) {
    it(`who is ${who}: ${answer}`.replace('who is w', 'w'), async () => {
      const found = await ask(says);
      assert.deepEqual({ answer: found.answer, asked: found.asked, left: found.left }, { answer, asked, left });
    });
  }

  it('notes why somebody is not admitted any more, for those who ask about them', async () => {
    const { person } = await ask({ a: {}, b: { groups: ['nobody'] } });
    const [noted, ...more] = await listRefusals(store.database, { user: person.email });
    assert.equal(more.length, 0);
    const { refused, detail, groups, expected, ...by } = noted!;
    assert.deepEqual([refused, groups, expected], ['group', ['nobody'], ['staff']]);
    assert.equal(detail, 'when the identity provider was asked about them: in none of the groups');
    assert.deepEqual(
      [by.client, by.client_address, by.request_id, by.subject],
      [DEVICE.client, DEVICE.client_address, '', person.subject],
    );
  });

  it('leaves a session alone that its client is just renewing', async () => {
    const busy = await ask({ a: {} }, (id) =>
      store.database.query(
        'test_busy',
        `update sessions set refreshing_until = created_at + interval '1 hour' where id = $1`,
        [id],
      ),
    );
    assert.deepEqual([busy.answer, busy.asked], ['busy', []]);
  });

  it('keeps what the provider gave for the next time, and what it said of the person', async () => {
    const { person } = await ask({ a: { groups: ['staff', 'leads'] } });
    const rows = await store.database.query<object>(
      'test_kept',
      `select s.sealed_grant, s.refreshing_until, p.groups from sessions s join principals p on p.id = s.principal_id where p.email = $1`,
      [person.email],
    );
    assert.deepEqual(rows, [{ sealed_grant: 'a-next', refreshing_until: null, groups: ['staff', 'leads'] }]);
  });

  it('gives back what the provider gave last when a session ends, not what that replaced', async () => {
    await store.database.query('test_clear', 'delete from ended_grants', []);
    for (const now of [{ groups: ['nobody'] }, { email: 'other@example.com' }]) {
      await ask({ a: now });
      const given = await store.database.query<object>(
        'test_given',
        'delete from ended_grants returning sealed_grant',
        [],
      );
      assert.deepEqual(given, [{ sealed_grant: 'a-next' }]);
    }
  });
});
