import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RoutingRuleConfig } from '../../engine/api.ts';
import { StageError } from '../../engine/errors.ts';
import resolveRoute from '../../stages/resolve-route.ts';
import { type Facts, openStage, stageConfig } from '../support/stage-harness.ts';

const ALICE: Facts = {
  'request.model': 'coder-1',
  'request.tool_count': 3,
  'principal.email': 'alice@example.com',
  'principal.groups': ['all'],
  'principal.token.group': 'all',
};

function route(rules: readonly RoutingRuleConfig[], facts: Facts = {}): Record<string, unknown> {
  const stage = openStage(resolveRoute, { config: stageConfig({ routing: { default_upstream: 'main', rules } }) });
  const ctx = stage.request({ facts: { ...ALICE, ...facts } });
  assert.equal(stage.hooks.request!(ctx), undefined);
  return ctx.written;
}

function ruleTaken(rules: readonly RoutingRuleConfig[], facts: Facts = {}): unknown {
  return route(rules, facts)['route.rule'];
}

function refusal(facts: Facts): StageError {
  try {
    route([], facts);
  } catch (error) {
    assert.ok(error instanceof StageError);
    return error;
  }
  throw new assert.AssertionError({ message: 'the model was found' });
}

describe('resolve-route', () => {
  it('takes the default upstream when no rule matches', () => {
    assert.deepEqual(route([]), {
      'route.upstream': 'main',
      'route.upstream_model': 'coder-1',
      'route.region': 'eu',
      'route.rule': 'default',
      'route.supports.count_tokens': true,
      'route.supports.prompt_cache_1h': true,
    });
  });

  it('says what the chosen upstream calls the model and what it supports', () => {
    assert.deepEqual(route([{ name: 'to-spare', upstream: 'spare' }]), {
      'route.upstream': 'spare',
      'route.upstream_model': 'coder-1@2026',
      'route.rule': 'to-spare',
      'route.supports.count_tokens': false,
      'route.supports.prompt_cache_1h': false,
    });
  });

  it('matches a rule by user, team, any of the groups, or model glob', () => {
    const by = (rule: Partial<RoutingRuleConfig>, facts?: Facts) =>
      ruleTaken([{ name: 'hit', upstream: 'spare', ...rule }], facts);
    assert.equal(by({ user: 'alice@example.com' }), 'hit');
    assert.equal(by({ user: 'bob@example.com' }), 'default');
    assert.equal(by({ team: 'search' }, { 'principal.team': 'search' }), 'hit');
    assert.equal(by({ team: 'search' }, { 'principal.team': 'ads' }), 'default');
    assert.equal(by({ team: 'search' }), 'default');
    assert.equal(by({ group: 'research' }, { 'principal.groups': ['all', 'research'] }), 'hit');
    assert.equal(by({ group: 'research' }), 'default');
    assert.equal(by({ models: ['writer-*', 'coder-*'] }), 'hit');
    assert.equal(by({ models: ['writer-*'] }), 'default');
  });

  it('matches a rule only when all of its fields match', () => {
    const rules = [{ name: 'hit', upstream: 'spare', user: 'alice@example.com', team: 'search', models: ['coder-1'] }];
    assert.equal(ruleTaken(rules, { 'principal.team': 'search' }), 'hit');
    assert.equal(ruleTaken(rules, { 'principal.team': 'ads' }), 'default');
    assert.equal(ruleTaken(rules, { 'principal.team': 'search', 'request.model': 'coder-2' }), 'default');
  });

  it('lets a condition over facts decide', () => {
    const rules = [{ name: 'many-tools', upstream: 'spare', when: { '>': [{ var: 'request.tool_count' }, 2] } }];
    assert.equal(ruleTaken(rules), 'many-tools');
    assert.equal(ruleTaken(rules, { 'request.tool_count': 2 }), 'default');
  });

  it('takes the first rule that matches', () => {
    const rules = [
      { name: 'first', upstream: 'spare', models: ['coder-2'] },
      { name: 'second', upstream: 'spare', models: ['coder-*'] },
      { name: 'third', upstream: 'main' },
    ];
    assert.equal(ruleTaken(rules), 'second');
    assert.equal(ruleTaken(rules, { 'request.model': 'coder-2' }), 'first');
  });

  it('names a rule without a name by its place in the file', () => {
    assert.equal(ruleTaken([{ upstream: 'spare', team: 'ads' }, { upstream: 'spare' }]), 'routing.rules[1]');
  });

  it('refuses an unknown model and says where the known ones are listed', () => {
    const error = refusal({ 'request.model': 'coder-9' });
    assert.equal(error.code, 'model_not_found');
    assert.equal(error.status, 404);
    assert.match(error.message, /^Model not found: "coder-9"/);
    assert.match(error.message, /GET \/v1\/models/);
    assert.deepEqual(error.details, { model: 'coder-9' });
  });

  it('refuses a model outside the token group, naming the group and no other model', () => {
    const error = refusal({ 'principal.token.group': 'writers' });
    assert.equal(error.code, 'model_not_found');
    assert.match(error.message, /token group "writers"/);
    assert.deepEqual(error.details, { model: 'coder-1', token_group: 'writers' });
    assert.doesNotMatch(error.message, /coder-2|writer-1/);
  });

  it('lets a token of a group that no longer exists use nothing', () => {
    assert.match(refusal({ 'principal.token.group': 'gone' }).message, /token group "gone"/);
  });

  it('does not repeat a model identifier of any length', () => {
    assert.ok(refusal({ 'request.model': 'x'.repeat(100_000) }).message.length < 400);
  });

  it('finds the last of 500 rules in less than 100 microseconds', () => {
    const rules = Array.from({ length: 500 }, (_, i) => ({
      name: `rule-${i}`,
      upstream: 'spare',
      group: i === 499 ? 'all' : `group-${i}`,
      models: ['coder-*'],
    }));
    const config = stageConfig({ routing: { default_upstream: 'main', rules } });
    const stage = openStage(resolveRoute, { config });
    const durations = Array.from({ length: 200 }, () => {
      const ctx = stage.request({ facts: ALICE });
      const start = performance.now();
      stage.hooks.request!(ctx);
      assert.equal(ctx.written['route.rule'], 'rule-499');
      return (performance.now() - start) * 1000;
    });
    // The fastest run is the cost; the others are the machine's other work.
    assert.ok(Math.min(...durations) < 100, `the fastest of 200 took ${Math.min(...durations)} us`);
  });
});
