import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { createManagedPolicies } from '../../../engine/domain/policies/managed-policies.ts';
import { openPolicyFetches } from '../../../engine/domain/policies/policy-fetches.ts';
import { policy } from '../../policies/support/policies.ts';
import { quietLog } from '../../support/store.ts';
import { adminBench, config, NOW, pick } from './support.ts';

const managed = { enabled: true, directory: 'policies', default_policy: 'standard' };
const policies = [
  policy('standard', { model: 'coder-1', permissions: { deny: ['WebFetch'] } }),
  policy('science', { model: 'writer-1', permissions: { deny: ['Bash'] } }, { groups: ['science'], priority: 5 }),
  policy('partners', { availableModels: ['coder'] }, { email_domains: ['partner.example'], priority: 9 }),
];
const with_policies = { ...config, policies: { managed } } as unknown as GatewayConfig;

const bench = adminBench(with_policies, { policies });

const ask = (who: string, path = '', status = 200) => bench.get(who, `/admin/api/policies${path}`, status);

describe('managed policies', () => {
  test('are listed with their audience and its size', async () => {
    await bench.addSession('pat@partner.example', 'ses_pat');
    const listed = await ask('root');
    const people = (await bench.rows<{ id: string }>('select id from principals')).length;
    assert.deepEqual([listed.enabled, listed.people], [true, people]);
    assert.deepEqual(pick(listed.policies, 'name', 'is_default', 'people', 'file'), [
      ['standard', true, people, 'standard.yaml'],
      ['science', false, 1, 'science.yaml'],
      ['partners', false, 1, 'partners.yaml'],
    ]);
    assert.deepEqual(listed.policies[1].groups, ['science']);
    assert.deepEqual(listed.policies[2].email_domains, ['partner.example']);
  });

  test('of a user are reported with the source of each setting', async () => {
    const preview = await ask('root', '/effective?user=Bob@example.com');
    assert.deepEqual(preview.groups, ['engineering', 'science']);
    assert.equal(preview.groups_from, 'sign_in');
    assert.deepEqual(pick(preview.policies, 'name', 'because'), [
      ['standard', { by: 'default', name: null }],
      ['science', { by: 'group', name: 'science' }],
    ]);
    assert.deepEqual(preview.settings, { model: 'writer-1', permissions: { deny: ['WebFetch', 'Bash'] } });
    assert.deepEqual(pick(preview.origins, 'path', 'value', 'policy', 'replaces'), [
      [['model'], 'writer-1', 'science', ['standard']],
      [['permissions', 'deny'], 'WebFetch', 'standard', []],
      [['permissions', 'deny'], 'Bash', 'science', []],
    ]);
    const services = createManagedPolicies(with_policies, policies);
    assert.equal(preview.checksum, services.of({ email: 'bob@example.com', groups: ['science'] })!.checksum);
  });

  test('are previewed for other groups and for unseen users', async () => {
    const asked = await ask('root', '/effective?user=alice@example.com&groups=x,%20science');
    assert.deepEqual([asked.groups, asked.groups_from, asked.fetched], [['x', 'science'], 'question', null]);
    assert.equal(asked.settings.model, 'writer-1');
    const guest = await ask('root', '/effective?user=new@partner.example');
    assert.deepEqual(guest.policies.at(-1).because, { by: 'email_domain', name: 'partner.example' });
    assert.deepEqual([guest.models, guest.models_policy, guest.signed_in_at], [['coder-1'], 'partners', null]);
    assert.deepEqual((await ask('root', '/effective?user=alice@example.com&groups=')).groups, []);
  });

  test('are for administrators, and to others their own', async () => {
    await ask('alice', '', 403);
    await ask('alice', '/people', 403);
    const own = await ask('alice', '/effective');
    assert.deepEqual([own.user, own.settings.model], ['alice@example.com', 'coder-1']);
    const known = await ask('alice', '/effective?user=bob@example.com', 403);
    const unknown = await ask('alice', '/effective?user=nobody@example.com', 403);
    const brief = ({ error }: { error: { message: string } }) => error.message.replace(/(bob|nobody)@/, '@');
    assert.equal(brief(known), brief(unknown));
    await ask('alice', '/effective?groups=science', 403);
  });

  test('are reported per user, with whether a client of theirs has them', async () => {
    const fetches = openPolicyFetches({ ...bench, log: quietLog, every: () => () => {} });
    const services = createManagedPolicies(with_policies, policies, fetches.note);
    const give = (user: string, groups: readonly string[]) => {
      const email = `${user}@example.com`;
      services.served(`user:${email}`, services.of({ email, groups })!);
    };
    give('bob', ['science']);
    give('alice', ['science']);
    give('nobody', []);
    await fetches.flush();
    const { people } = await ask('root', '/people');
    const of = (user: string) => people.find((each: { user: string }) => each.user === `${user}@example.com`);
    const now = new Date(NOW).toISOString();
    assert.deepEqual(pick(['bob', 'alice', 'nina'].map(of), 'fetched', 'fetched_at', 'policies'), [
      ['current', now, ['standard', 'science']],
      ['older', now, ['standard']],
      ['never', null, ['standard']],
    ]);
    bench.clock.advance(30_000);
    give('bob', ['science']);
    give('alice', []);
    await fetches.close();
    const later = new Date(bench.clock.now()).toISOString();
    const alice = (await ask('root', '/people?user=alice@example.com')).people;
    assert.deepEqual([alice[0].fetched, alice[0].fetched_at, alice.length], ['current', later, 1]);
    const bob = await ask('root', '/effective?user=bob@example.com');
    assert.deepEqual([bob.fetched, bob.fetched_at], ['current', now], 'once in a minute');
    const first = await ask('root', '/people?limit=1');
    assert.equal(first.next, 'alice@example.com');
    assert.equal((await ask('root', `/people?limit=1&after=${first.next}`)).people[0].user, 'bob@example.com');
    const science = await ask('root', '/people?policy=science');
    assert.deepEqual(pick(science.people, 'user'), ['bob@example.com']);
    assert.ok((await ask('root', '/people?policy=standard')).people.length > 5);
    const { error } = await ask('root', '/people?policy=sience', 404);
    assert.match(error.message, /did you mean `science`/);
  });
});
