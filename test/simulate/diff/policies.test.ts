/** What changes for whom when managed policies change. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Policy } from '../../../engine/base/source/spec.ts';
import { describeChanges } from '../../../engine/edge/cli/diff.ts';
import type { Usable } from '../../../engine/edge/simulate/diff/change.ts';
import { diffConfigurations } from '../../../engine/edge/simulate/diff/index.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { policy } from '../../policies/support/policies.ts';

interface Side {
  readonly default_policy?: string;
  readonly enabled?: boolean;
  readonly policies: readonly Policy[];
}

function usable({ policies, ...managed }: Side): Usable {
  const config = stageConfig({ policies: { managed: { enabled: true, directory: '/policies', ...managed } } });
  return { config, policies, pipelines: [], directory: '/' };
}

async function shown(before: Side, after: Side): Promise<string[]> {
  const [title = 'Policies', ...lines] = describeChanges(await diffConfigurations(usable(before), usable(after)));
  assert.equal(title, 'Policies');
  return lines.map((line) => line.replace(/^ {2}/, ''));
}

const STANDARD = policy('standard', { model: 'coder-1', permissions: { deny: ['Bash'] } });
const BASE: Side = { default_policy: 'standard', policies: [STANDARD] };

describe('what two sets of policies differ in', () => {
  it('is nothing when people get the same from other files', async () => {
    const renamed = policy('base', { permissions: { deny: ['Bash'] }, model: 'coder-1' });
    assert.deepEqual(await shown(BASE, { default_policy: 'base', policies: [renamed] }), []);
    const off = { enabled: false, policies: [STANDARD] };
    assert.deepEqual(await shown(off, { policies: [] }), []);
  });

  it('is reported for those who get other settings', async () => {
    const team = policy('team', { model: 'coder-2', permissions: { deny: ['WebFetch'] } }, { groups: ['team'] });
    assert.deepEqual(await shown(BASE, { ...BASE, policies: [STANDARD, team] }), [
      'group team: model coder-1 -> coder-2',
      '  permissions.deny ["Bash"] -> ["Bash","WebFetch"]',
    ]);
  });

  it('is reported once for people for whom the same changes', async () => {
    const other = policy('standard', { model: 'writer-1', permissions: { deny: ['Bash'] } });
    const team = policy('team', { tips: false }, { groups: ['team'], email_domains: ['partner.example'] });
    assert.deepEqual(await shown({ ...BASE, policies: [STANDARD, team] }, { ...BASE, policies: [other, team] }), [
      'everybody: model coder-1 -> writer-1',
    ]);
  });

  it('is reported for users with several policies when their order changes', async () => {
    const ants = policy('ants', { model: 'coder-2' }, { groups: ['a'] });
    const bees = (priority: number, settings: object = { model: 'writer-1' }) =>
      policy('bees', settings, { groups: ['b'], priority });
    const side = (...policies: Policy[]): Side => ({ ...BASE, policies: [STANDARD, ...policies] });
    assert.deepEqual(await shown(side(ants, bees(1)), side(ants, bees(-1))), [
      'policy ants: now overrides bees, for people who get both',
    ]);
    assert.deepEqual(await shown(side(ants, bees(1)), side(ants, bees(5))), []);
    const tips = { tips: false };
    assert.deepEqual(await shown(side(ants, bees(1, tips)), side(ants, bees(-1, tips))), []);
  });

  it('is reported for long lists by removed and added items', async () => {
    const hosts = Array.from({ length: 10 }, (_, index) => `host-${index}`);
    const allowing = (list: readonly string[]): Side => ({ ...BASE, policies: [policy('standard', { hosts: list })] });
    assert.deepEqual(await shown(allowing(hosts), allowing([...hosts.slice(2), 'new'])), [
      'everybody: hosts loses "host-0", "host-1"; gains "new"',
    ]);
    const reordered = (await shown(allowing(hosts), allowing(hosts.toReversed()))).join('');
    assert.match(reordered, /hosts\s+\["host-0",.*"host-9"\]\s+->\s+\["host-9",/);
  });

  it('shows nothing that a terminal would act upon', async () => {
    const odd = policy('standard', { model: '\u001b[31mred\u0007\nPolicies' });
    assert.deepEqual((await shown(BASE, { ...BASE, policies: [odd] })).slice(0, 1), [
      'everybody: model coder-1 -> "\\u001b[31mred\\u0007\\nPolicies"',
    ]);
    const plain = policy('standard', { model: '\u001b[31mred' });
    assert.ok(!(await shown(BASE, { ...BASE, policies: [plain] })).join('').includes('\u001b'));
  });

  it('is not confused by settings that are called like something every object has', async () => {
    const odd = policy('team', { toString: 'x', valueOf: { length: 1 } }, { groups: ['team'] });
    assert.deepEqual(await shown(BASE, { ...BASE, policies: [STANDARD, odd] }), [
      'group team: toString nothing -> x',
      '  valueOf nothing -> {"length":1}',
    ]);
  });

  it('names the models that a list takes away or gives back', async () => {
    const narrow = policy('team', { availableModels: ['coder'] }, { email_domains: ['partner.example'] });
    const wide = policy('team', { availableModels: ['*'] }, { email_domains: ['partner.example'] });
    const [narrower, wider] = [narrow, wide].map((other): Side => ({ ...BASE, policies: [STANDARD, other] }));
    const partners = 'people at partner.example: may';
    assert.deepEqual(await shown(wider!, narrower!), [`${partners} no longer use writer-1`]);
    assert.deepEqual(await shown(narrower!, wider!), [`${partners} now use writer-1 as far as policies go`]);
    assert.deepEqual(await shown(BASE, narrower!), [`${partners} no longer use writer-1`]);
  });

  it('is reported for those who get a policy at all, or none any more', async () => {
    const team = policy('team', { model: 'coder-2' }, { groups: ['team'] });
    const [nothing, something] = [{ policies: [] }, { policies: [team] }];
    assert.deepEqual(await shown(nothing, something), ['group team: gets a policy', '  model nothing -> coder-2']);
    assert.deepEqual(await shown(something, { ...something, enabled: false }), [
      'group team: gets no policy any more',
      '  model coder-2 -> nothing',
    ]);
  });
});
