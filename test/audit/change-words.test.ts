import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ADMIN_ACTION_NAMES,
  type AdminAction,
  type AdminChange,
  changeInWords,
} from '../../engine/domain/audit/admin-changes.ts';

const ANA = { kind: 'person', name: 'ana@example.com' } as const;
const until = '2027-01-31T17:00:00+00:00';

type Change = Partial<Omit<AdminChange, 'action'>> & { readonly action: AdminAction };
const say = (change: Change, zone = 'UTC') =>
  changeInWords({ actor: ANA, subject: 'x', before: null, after: null, ...change }, zone);

test('a change is one sentence with actor, action, target, expiry and reason', () => {
  const cases: [Change, string][] = [
    [
      {
        action: 'token.create',
        after: { user: 'bob@example.com', name: 'laptop', group: 'all', expires_at: until, replaces: 'tok_1' },
      },
      'made the access token "laptop" of bob@example.com, group all, which replaces tok_1 until 2027-01-31 17:00 (UTC)',
    ],
    [
      { action: 'token.create', after: { user: ANA.name, name: 'laptop', group: 'all', expires_at: null } },
      'made the access token "laptop" of their own, group all',
    ],
    [
      { action: 'token.move', subject: 'tok_1', before: { owner: 'user:a@x.com' }, after: { owner: 'user:b@x.com' } },
      'moved the access token tok_1 from a@x.com to b@x.com',
    ],
    [
      {
        action: 'session.end',
        before: { user: 'bob@example.com', client: 'coding-cli/2', created_at: until },
        after: { because: 'lost laptop' },
      },
      'ended the session of bob@example.com that began 2027-01-31 17:00 (UTC) with coding-cli/2 (lost laptop)',
    ],
    [
      { action: 'person.deprovision', subject: 'bob@example.com', after: { tokens: 'all', because: 'left' } },
      'deprovisioned bob@example.com: sessions ended, all access tokens revoked (left)',
    ],
    [
      { action: 'person.rebind', subject: 'bob@example.com', after: { subject: null, sessions: 1, tokens: 0 } },
      'reassigned the address bob@example.com to the next account that signs in with it; 1 session and no access tokens ended',
    ],
    [
      {
        action: 'limit.set',
        subject: 'user bob@example.com per day',
        before: { usd: 10 },
        after: { usd: 0.0000001, reason: 'trial' },
      },
      'set the limit of user bob@example.com per day to 0.0000001 USD, before 10 USD (trial)',
    ],
    [
      {
        action: 'limit.grant',
        after: { to: 'user bob@example.com per day', usd: 20, expires_at: until, reason: 'demo' },
      },
      'granted 20 USD more per day to user bob@example.com until 2027-01-31 17:00 (UTC) (demo)',
    ],
    [
      { action: 'limit.revoke', before: { to: 'team search at once', requests: 3, expires_at: until } },
      'revoked the grant of 3 requests more at once to team search until 2027-01-31 17:00 (UTC)',
    ],
    [{ action: 'upstream.drain', subject: 'main', after: { reason: 'errors' } }, 'drained the upstream main (errors)'],
    [
      { action: 'ledger.reprice', subject: '2027-01-01.. * at *', after: { requests: 1, difference_usd: '-0.5' } },
      'repriced 1 request (2027-01-01.. * at *): 0.5 USD less',
    ],
  ];
  for (const [change, sentence] of cases) assert.equal(say(change), `ana@example.com ${sentence}`);
});

test("times name the gateway's time zone", () => {
  const change = { action: 'limit.grant', after: { to: 'user b per day', usd: 1, expires_at: until } } as const;
  assert.match(say(change, 'Asia/Kathmandu'), / until 2027-01-31 22:45 \(Asia\/Kathmandu\)$/);
});

test('every actor is distinguishable', () => {
  const by = (kind: AdminChange['actor']['kind'], name: string) =>
    say({ action: 'upstream.resume', subject: 'main', actor: { kind, name } }).replace(/ ended .*/, '');
  assert.deepEqual(
    [by('command', 'root@host'), by('gateway', 'sign-in'), by('service', 'ci (svc_1)')],
    ['root@host at the command line', 'The gateway (sign-in)', 'Service token ci (svc_1)'],
  );
});

test('every action has its words, with any missing or odd fields', () => {
  for (const action of ADMIN_ACTION_NAMES) {
    for (const values of [null, {}, { name: 7, user: ['x'], expires_at: 'never', to: {}, usd: '1', scopes: 'x' }]) {
      const sentence = say({ action, before: values, after: values });
      assert.match(sentence, /^ana@example\.com \S/);
      assert.ok(!/undefined|\[object/.test(sentence), sentence);
    }
  }
  assert.equal(say({ action: 'cat.feed' as AdminAction, subject: 'tom' }), 'ana@example.com did cat.feed to tom');
  assert.equal(say({ action: 'constructor' as AdminAction, subject: 'x' }), 'ana@example.com did constructor to x');
});
