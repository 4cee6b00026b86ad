import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import type { EffectivePolicy } from '../../engine/base/contract/services.ts';
import { canonicalJson } from '../../engine/base/kit/json/canonical.ts';
import { toValue } from '../../engine/base/source/node.ts';
import type { Policy } from '../../engine/base/source/spec.ts';
import {
  createManagedPolicies,
  isDenyKey,
  mergeSettings,
  policiesFor,
} from '../../engine/domain/policies/managed-policies.ts';
import { createModelCatalog } from '../../engine/domain/upstreams/models.ts';
import { stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import { collectGarbage } from '../support/heap.ts';
import { policy, settingsNode } from './support/policies.ts';

function configured(managed: object = {}): GatewayConfig {
  return stageConfig({ policies: { managed: { enabled: true, directory: '/policies', ...managed } } });
}

function managed(policies: readonly Policy[], section: object = {}) {
  return createManagedPolicies(configured(section), policies);
}

const person = (groups: readonly string[] = [], email = 'dev@example.com') => ({ groups, email });

describe('who gets which policy', () => {
  const all = [
    policy('standard', { model: 'coder-1', order: ['standard'] }),
    policy('late', { order: ['late'] }, { groups: ['a'], priority: 10 }),
    policy('zebra', { order: ['zebra'] }, { groups: ['a', 'b'] }),
    policy('ant', { order: ['ant'] }, { groups: ['b'], email_domains: ['partner.example'] }),
  ];
  const service = managed(all, { default_policy: 'standard' });

  it('begins with the default policy, then the lowest priority, then by name', () => {
    assert.deepEqual(service.of(person())?.names, ['standard']);
    assert.deepEqual(service.of(person(['b', 'a']))?.names, ['standard', 'ant', 'zebra', 'late']);
    assert.deepEqual(service.of(person(['b', 'a']))?.settings, { model: 'coder-1', order: ['late'] });
  });

  it('matches groups exactly and e-mail domains in any case', () => {
    assert.deepEqual(service.of(person(['B']))?.names, ['standard']);
    assert.deepEqual(service.of(person([], 'x@Partner.EXAMPLE'))?.names, ['standard', 'ant']);
    assert.deepEqual(service.of(person([], 'x@sub.partner.example'))?.names, ['standard']);
    assert.deepEqual(service.of(person([], 'a@partner.example@example.com'))?.names, ['standard']);
    assert.deepEqual(service.of(person([], ''))?.names, ['standard']);
  });

  it('gives nothing to users without a matching policy, and nothing at all when it is off', () => {
    assert.equal(managed(all).of(person(['c'])), undefined);
    assert.equal(managed(all, { default_policy: 'standard', enabled: false }).of(person(['a'])), undefined);
    assert.equal(createManagedPolicies(stageConfig(), all).of(person(['a'])), undefined);
    assert.deepEqual(policiesFor(configured({ enabled: false }).policies?.managed, all, person(['a'])), []);
  });

  it('serves an empty policy as an empty mapping, which differs from none', () => {
    const empty = managed([policy('empty', {}, { groups: ['a'] })]).of(person(['a']))!;
    assert.deepEqual(JSON.parse(empty.body), { uuid: empty.uuid, checksum: empty.checksum, settings: {} });
  });

  it('returns one response for equal users, for any order of their groups', () => {
    assert.equal(service.of(person(['a', 'b'])), service.of(person(['b', 'c', 'a'], 'other@example.com')));
  });

  it('keeps the uuid while settings change, and the checksum while names do', () => {
    const one = managed([policy('p', { a: 1 }, { groups: ['a'] })]).of(person(['a']))!;
    const changed = managed([policy('p', { a: 2 }, { groups: ['a'] })]).of(person(['a']))!;
    const renamed = managed([policy('q', { a: 1 }, { groups: ['a'] })]).of(person(['a']))!;
    assert.equal(one.uuid, changed.uuid);
    assert.notEqual(one.checksum, changed.checksum);
    assert.notEqual(one.uuid, renamed.uuid);
    assert.equal(one.checksum, renamed.checksum);
    assert.match(one.uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.equal(one.etag, `"${one.checksum}"`);
  });

  it('is cached for many combinations of large policies only within the memory limit', async () => {
    const max_chars = 1e6;
    const hosts = Array.from({ length: 20 }, (_, index) => `${'x'.repeat(500)}-${index}.example.com`);
    const large = Array.from({ length: 7 }, (_, index) =>
      policy(`p${index}`, { [`hosts_${index}`]: hosts }, { groups: [`g${index}`] }),
    );
    const service = createManagedPolicies(configured(), large, undefined, max_chars);
    // All users stay, as those of cached credentials do.
    const all_people = Array.from({ length: 128 }, (_, mask) =>
      person(large.flatMap(({ match }, bit) => ((mask >> bit) & 1 ? match.groups : []))),
    );
    const charsOf = (outcomes: readonly (EffectivePolicy | undefined)[]) =>
      outcomes.reduce((sum, outcome) => sum + (outcome?.body.length ?? 0), 0);
    const served = all_people.flatMap((each) => service.of(each) ?? []);
    assert.ok(charsOf(served) > 4 * max_chars);
    const known = served.splice(0).map((outcome) => new WeakRef(outcome));
    await collectGarbage();
    const kept = charsOf(known.map((outcome) => outcome.deref()));
    assert.ok(kept > max_chars / 2 && kept <= max_chars, `${kept} characters`);
    assert.equal(Object.keys(service.of(all_people[3]!)!.settings).length, 2);
  });
});

describe('the models a policy allows', () => {
  const all = [
    policy('standard', { availableModels: ['coder'] }),
    policy('writers', { availableModels: ['writer-*', 'gone'] }, { groups: ['writers'] }),
    policy('plain', { model: 'x' }, { groups: ['plain', 'writers'] }),
  ];
  const config = configured({ default_policy: 'standard' });
  const policies = createManagedPolicies(config, all);
  const models = createModelCatalog(config, policies);
  const refusals = (groups: readonly string[], token_group = 'all') =>
    models.all.map((model) => models.refusal({ token_group, ...person(groups) }, model));

  it('are those of the last policy, by family or glob', () => {
    assert.deepEqual([...policies.of(person(['plain']))!.models!], ['coder-1', 'coder-2']);
    assert.deepEqual([...policies.of(person(['writers']))!.models!], ['writer-1']);
    assert.equal(policies.of(person(['writers']))!.models_policy, 'writers');
  });

  it('are the only ones, and the rejection names the policy', () => {
    const by_standard = { by: 'policy', policy: 'standard' };
    assert.deepEqual(refusals(['plain']), [undefined, undefined, by_standard]);
    const by_writers = { by: 'policy', policy: 'writers' };
    assert.deepEqual(refusals(['writers']), [by_writers, by_writers, undefined]);
  });

  it("never widen a token group's permissions", () => {
    const by_group = { by: 'token_group', token_group: 'writers' };
    assert.deepEqual(refusals(['plain'], 'writers'), [by_group, by_group, { by: 'policy', policy: 'standard' }]);
  });

  it('are all where no policy has a list', () => {
    const open = createManagedPolicies(configured({ default_policy: 'plain' }), [policy('plain', { model: 'x' })]);
    assert.equal(open.of(person())?.models, undefined);
    const catalog = createModelCatalog(config, open);
    const caller = { token_group: 'all', ...person() };
    assert.ok(catalog.all.every((model) => catalog.refusal(caller, model) === undefined));
  });
});

const merge = (...all: object[]): unknown => toValue(all.map(settingsNode).reduce(mergeSettings));

/** Any settings that could stand in a file, `__proto__` left out, which is a load error. */
const anySettings = fc
  .dictionary(
    fc.string({ minLength: 1, maxLength: 4 }).filter((key) => key !== '__proto__'),
    fc.jsonValue({ maxDepth: 3 }).filter((value) => !JSON.stringify(value).includes('__proto__')),
    { maxKeys: 5 },
  )
  // What JSON can't say, such as -0, is not what this is about, and neither are keys that are empty.
  .map((value) => JSON.parse(JSON.stringify(value)) as object)
  .filter((value) => !JSON.stringify(value).includes('"":'));

describe('laying settings over others', () => {
  it('merges mappings key by key and replaces everything else', () => {
    const base = { model: 'a', nested: { kept: 1, changed: [1, 2], deeper: { x: 1 } } };
    const over = { model: 'b', nested: { changed: [3], deeper: { y: 2 } }, fresh: true };
    assert.deepEqual(merge(base, over), {
      model: 'b',
      nested: { kept: 1, changed: [3], deeper: { x: 1, y: 2 } },
      fresh: true,
    });
  });

  it('replaces allow lists and unites deny lists, in order and without repetition', () => {
    const base = { permissions: { allow: ['a', 'b'], deny: ['x', { tool: 'y' }] } };
    const over = { permissions: { allow: ['c'], deny: ['z', 'x', { tool: 'y' }] } };
    assert.deepEqual(merge(base, over), { permissions: { allow: ['c'], deny: ['x', { tool: 'y' }, 'z'] } });
  });

  it('lets a value of another type replace a mapping as a whole', () => {
    assert.deepEqual(merge({ a: { b: 1 } }, { a: 2 }), { a: 2 });
    assert.deepEqual(merge({ a: [1] }, { a: { b: 1 } }), { a: { b: 1 } });
    assert.deepEqual(merge({ a: { b: 1 } }, { a: null }), { a: null });
  });

  it('recognizes deny lists by the first or last word of their key', () => {
    const deny = ['deny', 'DENY', 'denied_tools', 'disallowedTools', 'blockedMarketplaces', 'deny-read', 'toolsDenied'];
    for (const key of [...deny, 'disabledServers', 'forbidden', 'denyWrite', 'DENYList', 'hostDenylist', 'blocklist'])
      assert.ok(isDenyKey(key), key);
    for (const key of ['allow', 'unblocked', 'blocking', 'denying', 'enabled', 'denials', '', 'ask_denied_later'])
      assert.ok(!isDenyKey(key), key);
  });

  it('never shrinks a deny list', () => {
    const deny = fc.array(fc.oneof(fc.string(), fc.integer(), fc.record({ tool: fc.string() })), { maxLength: 5 });
    fc.assert(
      fc.property(fc.array(deny, { minLength: 1, maxLength: 4 }), (lists) => {
        const all = lists.map((list) => ({ permissions: { deny: list } }));
        const merged = merge(...all) as { permissions: { deny: unknown[] } };
        const texts = merged.permissions.deny.map(canonicalJson);
        for (const item of lists.flat()) assert.ok(texts.includes(canonicalJson(item)));
      }),
    );
  });

  it('changes nothing when settings are laid over themselves, or when either side is empty', () => {
    fc.assert(
      fc.property(anySettings, (settings) => {
        const text = canonicalJson(settings);
        assert.equal(canonicalJson(merge({}, settings)), text);
        assert.equal(canonicalJson(merge(settings, {})), text);
      }),
    );
  });
});
