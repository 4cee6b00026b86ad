import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import {
  createSessions,
  openSessionActivity,
  type Sessions,
} from '../../../engine/domain/identity/sessions/sessions.ts';
import { type Keychain, type RenewalAnswer, startTerminal, type Terminal } from '../../support/identity/terminals.ts';
import { quietLog, useTestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';
import { anyPerson, DEVICE, openGrantsAndForm, START, sent, signIn } from './people.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const TTL = 60 * MINUTE;
const HOME = DEVICE.client_address;
const ELSEWHERE = '203.0.113.9';

let replicas: readonly Database[];
const { store } = useTestStore();

/** A day of one user: gateways, their session tokens, and the stored sign-in. */
async function beginDay() {
  replicas ??= [store.database, await store.another()];
  const clock = frozenClock(START);
  const gateways = replicas.map((database) => createSessions({ database, clock, busy_timeout_ms: 0 }));
  const grants = openGrantsAndForm({ database: store.database, clock, refresh_days: 30 });
  const session_activity = openSessionActivity({ database: store.database, log: quietLog, every: () => () => {} });
  const person = anyPerson();
  const { id, refresh_token } = await signIn(grants, person);
  const stored = { access_token: String(clock.now()), refresh_token, expires_at: clock.now() + TTL };
  const keychain: Keychain = { stored, locked: false };
  const use = async (issued_at: number) => {
    session_activity.note(id, issued_at);
    await session_activity.flush();
  };
  return { clock, gateways, grants, person, session_id: id, keychain, use };
}

async function renew(sessions: Sessions, clock: FrozenClock, refresh_token: string, from: string) {
  const presented = sent(refresh_token, from);
  const begun = await sessions.beginRefresh(presented);
  if (begun.outcome === 'busy') return 'later';
  if (begun.outcome !== 'ready' && begun.outcome !== 'repeated') return 'invalid_grant';
  const session =
    begun.outcome === 'repeated'
      ? begun.session
      : await sessions.finishRefresh(begun.session.id, { ...presented, ...begun.session });
  const access_token = String(clock.now());
  return session === undefined
    ? 'invalid_grant'
    : { access_token, refresh_token: session.refresh_token, expires_at: clock.now() + TTL };
}

type Step =
  | { readonly step: 'wait'; readonly ms: number }
  | { readonly step: 'ask'; readonly terminal: number; readonly replica: number }
  | { readonly step: 'hear'; readonly terminal: number; readonly lost: boolean };

const TERMINALS = 4;
const terminal = fc.nat(TERMINALS - 1);
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 2,
      arbitrary: fc.record({ step: fc.constant('wait' as const), ms: fc.constantFrom(1, 900, 8 * SECOND) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        step: fc.constant('wait' as const),
        ms: fc.constantFrom(31 * SECOND, 5 * MINUTE, 56 * MINUTE, 9 * 60 * MINUTE),
      }),
    },
    { weight: 4, arbitrary: fc.record({ step: fc.constant('ask' as const), terminal, replica: fc.nat(1) }) },
    {
      weight: 5,
      arbitrary: fc.record({ step: fc.constant('hear' as const), terminal, lost: fc.boolean() }),
    },
  ),
  { minLength: 20, maxLength: 90 },
);

const CLIENT_PATIENCE = 10 * SECOND;

describe('terminals that share a sign-in', () => {
  it('never have to sign in again, however they renew, whatever is lost, over whichever replica', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('adopting', 'reading', 'locking'), { minLength: TERMINALS, maxLength: TERMINALS }),
        steps,
        async (kinds, plan) => {
          const { clock, gateways, keychain, use } = await beginDay();
          const terminals = kinds.map((kind) => startTerminal(kind, keychain));
          const under_way = new Map<Terminal, { answer: RenewalAnswer; since: number }>();
          const hear = async (one: Terminal, lost: boolean) => {
            const asked = under_way.get(one);
            if (asked === undefined) return;
            under_way.delete(one);
            one.take(lost || clock.now() - asked.since > CLIENT_PATIENCE ? 'later' : asked.answer);
            // It renewed because it had a request to send, and now sends it.
            if (one.tokens.expires_at > clock.now()) await use(Number(one.tokens.access_token));
          };
          const ask = async (one: Terminal, replica: number) => {
            if (under_way.has(one)) return;
            const token = one.send(clock.now());
            if (token === undefined) return;
            under_way.set(one, { answer: await renew(gateways[replica]!, clock, token, HOME), since: clock.now() });
          };
          for (const step of plan) {
            if (step.step === 'wait') clock.advance(step.ms);
            else if (step.step === 'ask') await ask(terminals[step.terminal]!, step.replica);
            else await hear(terminals[step.terminal]!, step.lost);
          }
          for (const one of terminals) await hear(one, true);
          clock.advance(2 * TTL);
          for (const one of terminals) {
            // The thief renews the adopted token of hours ago next.
            for (let tries = 0; tries < 3 && one.tokens.expires_at <= clock.now(); tries++) {
              await ask(one, tries % 2);
              await hear(one, false);
            }
            assert.equal(one.out, false, `${one.kind} was signed out`);
            assert.ok(one.tokens.expires_at > clock.now(), `${one.kind} cannot go on`);
          }
        },
      ),
      { numRuns: times(12) },
    );
  });

  it('that lose every response for a day continue with their token', async () => {
    const { clock, gateways, keychain } = await beginDay();
    const { refresh_token } = keychain.stored;
    for (let hour = 0; hour < 24; hour++) {
      clock.advance(TTL);
      assert.equal(typeof (await renew(gateways[hour % 2]!, clock, refresh_token!, HOME)), 'object');
    }
  });
});

describe('a thief with the files of a sign-in', () => {
  /** Renewals of the user and of the thief in any order, each more than half a minute after the one before. */
  const order = fc.array(fc.constantFrom('person', 'thief'), { minLength: 2, maxLength: 14 });

  it('is out, or the user learns of it at the next renewal and ends it by signing in again', async () => {
    await fc.assert(
      fc.asyncProperty(order, fc.constantFrom(HOME, ELSEWHERE), async (turns, thief_address) => {
        const { clock, gateways, grants, person, keychain, use, session_id } = await beginDay();
        const stored_tokens = { person: keychain.stored.refresh_token!, thief: keychain.stored.refresh_token! };
        const refused = { person: false, thief: false };
        for (const who of turns) {
          clock.advance(TTL);
          if (refused[who]) continue;
          const from = who === 'thief' ? thief_address : HOME;
          const response = await renew(gateways[0]!, clock, stored_tokens[who], from);
          if (typeof response === 'string') refused[who] = true;
          else {
            stored_tokens[who] = response.refresh_token!;
            // No renewal is in vain.
            await use(Number(response.access_token));
          }
        }
        // From the first renewal of the second of them on, one of them is out, and stays out.
        const both_renewed = turns.includes('person') && turns.includes('thief');
        assert.equal(refused.person || refused.thief, both_renewed);
        assert.ok(!(refused.person && refused.thief), 'a rejection does not sign out the other');
        if (!refused.person) return;
        const still = await renew(gateways[0]!, clock, stored_tokens.thief, thief_address);
        assert.ok(typeof still === 'object', 'the person was rejected because the thief goes on');
        await signIn(grants, person);
        // With the thief at the same address, nothing distinguishes the two: reported, and ended by hand.
        const is_over = thief_address === ELSEWHERE;
        const [session] = (await gateways[0]!.list({ user: person.email, ended: true })).filter(
          ({ id }) => id === session_id,
        );
        assert.equal(session?.revoked_at !== null, is_over);
        const response = await renew(gateways[1]!, clock, still.refresh_token!, thief_address);
        assert.equal(response === 'invalid_grant', is_over);
      }),
      { numRuns: times(10) },
    );
  });
});
