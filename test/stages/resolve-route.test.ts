import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type ModelConfig, matchesGlob, type RoutingRuleConfig, type UpstreamConfig } from '../../engine/api.ts';
import { StageError } from '../../engine/contract/errors.ts';
import { type Facts, openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import resolveRoute from '../../stages/resolve-route.ts';
import { inOrder, routingSection } from '../support/routing.ts';

const ALICE: Facts = {
  'request.protocol': 'messages',
  'request.model': 'coder-1',
  'request.tool_count': 3,
  'principal.email': 'alice@example.com',
  'principal.groups': ['all'],
  'principal.token.group': 'all',
};

type Rule = Partial<Omit<RoutingRuleConfig, 'upstreams'>> & { readonly upstream: string };

function take(rules: readonly Rule[], facts: Facts = {}) {
  const complete = rules.map(({ upstream, ...rule }, index): RoutingRuleConfig => {
    return { name: `rule-${index}`, mode: 'enforce', upstreams: inOrder(upstream), ...rule };
  });
  const config = stageConfig({ routing: routingSection(complete) });
  const stage = openStage(resolveRoute, { config });
  const ctx = stage.request({ facts: { ...ALICE, ...facts } });
  assert.equal(stage.hooks.request!(ctx), undefined);
  return ctx;
}

const route = (rules: readonly Rule[], facts?: Facts) => take(rules, facts).written;
const ruleTaken = (rules: readonly Rule[], facts?: Facts) => route(rules, facts)['route.rule'];

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
    assert.deepEqual(route([], { 'request.input_tokens_estimate': 1000, 'request.max_tokens': 500 }), {
      'route.estimate_nano_usd': 1000 * 3000 + 500 * 15_000,
      'route.worst_case_nano_usd': 1000 * 3000 + 500 * 15_000,
      'model.family': 'coder',
      'model.context_window': 200_000,
      'model.max_output_tokens': 64_000,
      'model.supports.tools': true,
      'model.supports.images': true,
      'model.supports.thinking': true,
      'model.supports.prompt_cache_1h': true,
      'route.upstream': 'main',
      'route.protocol': 'messages',
      'route.upstream_model': 'coder-1',
      'route.region': 'eu',
      'route.rule': 'default',
      'route.supports.count_tokens': true,
      'route.supports.prompt_cache_1h': true,
      'cache.effective_ttl': 'none',
      'cache.downgraded': false,
    });
  });

  it('says what the chosen upstream calls the model and what it supports', () => {
    const facts = route([{ name: 'to-spare', upstream: 'spare' }]);
    const {
      'route.estimate_nano_usd': _,
      'route.worst_case_nano_usd': _worst,
      ...routed
    } = Object.fromEntries(Object.entries(facts).filter(([path]) => path.startsWith('route.')));
    assert.deepEqual(routed, {
      'route.upstream': 'spare',
      'route.protocol': 'messages',
      'route.upstream_model': 'coder-1@2026',
      'route.rule': 'to-spare',
      'route.supports.count_tokens': false,
      'route.supports.prompt_cache_1h': false,
    });
  });

  it('matches a rule by user, team, any of the groups, project, region of the client, or model glob', () => {
    const by = (rule: Partial<Rule>, facts?: Facts) => ruleTaken([{ name: 'hit', upstream: 'spare', ...rule }], facts);
    assert.equal(by({ user: 'alice@example.com' }), 'hit');
    assert.equal(by({ user: 'bob@example.com' }), 'default');
    assert.equal(by({ team: 'search' }, { 'principal.team': 'search' }), 'hit');
    assert.equal(by({ team: 'search' }, { 'principal.team': 'ads' }), 'default');
    assert.equal(by({ team: 'search' }), 'default');
    assert.equal(by({ group: 'research' }, { 'principal.groups': ['all', 'research'] }), 'hit');
    assert.equal(by({ group: 'research' }), 'default');
    assert.equal(by({ project: 'apollo' }, { 'principal.project': 'apollo' }), 'hit');
    assert.equal(by({ project: 'apollo' }), 'default');
    assert.equal(by({ region: 'EU' }, { 'request.region': 'eu' }), 'hit');
    assert.equal(by({ region: 'eu' }), 'default');
    assert.equal(by({ models: ['writer-*', 'coder-*'] }), 'hit');
    assert.equal(by({ models: ['writer-1', 'coder-1'] }), 'hit');
    assert.equal(by({ models: ['writer-*'] }), 'default');
  });

  it('finds for a model that is named beside the requested one whether the same upstream serves it', () => {
    const naming = (value: string): Facts => ({
      'request.decisive_fields': { 'models[0]': { field: 'models', value } },
    });
    const rules: Rule[] = [{ upstream: 'spare', when: { '===': [{ var: 'request.model' }, 'writer-1'] } }];
    assert.deepEqual(route(rules, naming('coder-2'))['request.other_models'], ['coder-2']);
    assert.throws(() => route(rules, naming('writer-1')), {
      code: 'model_not_found',
      message: /^models\[0\]: .*"main"/,
    });
    assert.deepEqual(route([], naming('coder-1'))['request.other_models'], ['coder-1'], 'it may run once more');
    assert.throws(() => route([], naming('unheard-of')), { code: 'model_not_found' });
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

  it('lets the likely cost decide', () => {
    const rules = [
      { name: 'expensive', upstream: 'spare', when: { '>': [{ var: 'route.estimate_nano_usd' }, 30_000_000] } },
    ];
    const sizes = (input: number, output: number): Facts => ({
      'request.input_tokens_estimate': input,
      'request.max_tokens': output,
    });
    assert.equal(ruleTaken(rules, sizes(5000, 1000)), 'default');
    assert.equal(ruleTaken(rules, sizes(5001, 1000)), 'expensive');
  });

  it('does not take counting tokens, which is free, for an answer', () => {
    const rules = [
      { name: 'expensive', upstream: 'spare', when: { '>': [{ var: 'route.estimate_nano_usd' }, 30_000_000] } },
    ];
    const facts = { 'request.input_tokens_estimate': 150_000 };
    assert.equal(ruleTaken(rules, facts), 'expensive');
    const { 'route.rule': rule, 'route.estimate_nano_usd': estimate } = route(rules, {
      ...facts,
      'request.protocol': 'count_tokens',
    });
    assert.deepEqual([rule, estimate], ['default', 0]);
  });

  it('estimates no more than the model can read and write, and its longest answer where none is asked for', () => {
    const estimate = (facts: Facts) => route([], facts)['route.estimate_nano_usd'];
    assert.equal(estimate({}), 64_000 * 15_000);
    const huge = { 'request.input_tokens_estimate': 10 ** 9, 'request.max_tokens': Number.MAX_SAFE_INTEGER };
    assert.equal(estimate(huge), 200_000 * 3000 + 64_000 * 15_000);
  });

  it('estimates as many answers as are asked for', () => {
    const facts = { 'request.max_tokens': 100, 'request.choices': 3 };
    assert.equal(route([], facts)['route.estimate_nano_usd'], 3 * 100 * 15_000);
  });

  it('lets what the model is and can do decide', () => {
    const can = (fact: string) => ruleTaken([{ name: 'hit', upstream: 'spare', when: { var: fact } }]);
    assert.equal(can('model.supports.images'), 'hit');
    const small = [{ name: 'small', upstream: 'spare', when: { '<': [{ var: 'model.context_window' }, 200_001] } }];
    assert.equal(ruleTaken(small), 'small');
    const family = [{ name: 'writers', upstream: 'spare', when: { '===': [{ var: 'model.family' }, 'writer'] } }];
    assert.equal(ruleTaken(family), 'default');
    assert.equal(ruleTaken(family, { 'request.model': 'writer-1' }), 'writers');
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

  it('refuses a model by the name the client used', () => {
    const error = refusal({ 'request.alias': 'latest', 'principal.token.group': 'writers' });
    assert.match(error.message, /^Model not found: "latest"; the token group "writers" may not use it/);
    assert.equal(error.details?.model, 'latest');
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
});

describe('a routing rule in shadow mode', () => {
  const shadow = { name: 'trial', upstream: 'spare', mode: 'shadow' } as const;

  it('decides nothing, and is reported where it would have sent the request elsewhere', () => {
    const ctx = take([shadow]);
    assert.equal(ctx.written['route.upstream'], 'main');
    assert.equal(ctx.written['route.rule'], 'default');
    assert.deepEqual(ctx.shadows, ['routing:trial']);
  });

  it('is not reported when it does not match, changes nothing, or comes too late to decide', () => {
    assert.deepEqual(take([{ ...shadow, group: 'research' }]).shadows, []);
    assert.deepEqual(take([{ ...shadow, upstream: 'main' }]).shadows, []);
    assert.deepEqual(take([shadow, { name: 'hit', upstream: 'spare' }]).shadows, []);
    assert.deepEqual(take([{ name: 'hit', upstream: 'main' }, shadow]).shadows, []);
  });

  it('lets the rules below it decide, and only the first one that matters is reported', () => {
    const rules = [
      { ...shadow, name: 'same', upstream: 'main' },
      shadow,
      { ...shadow, name: 'later' },
      { name: 'hit', upstream: 'main' },
    ];
    const ctx = take(rules);
    assert.equal(ctx.written['route.rule'], 'hit');
    assert.deepEqual(ctx.shadows, ['routing:trial']);
  });
});

describe('routing by any rules', () => {
  const name = fc.constantFrom('a', 'b');
  const rule = fc.record(
    {
      upstream: fc.constantFrom('main', 'spare'),
      mode: fc.constantFrom('enforce' as const, 'shadow' as const),
      user: name,
      team: name,
      group: name,
      project: name,
      region: name,
      models: fc.uniqueArray(fc.constantFrom('coder-*', 'coder-1', 'coder-2', '*-1'), { minLength: 1 }),
    },
    { requiredKeys: ['upstream', 'mode'] },
  );
  const caller = fc.record(
    {
      'request.model': fc.constantFrom('coder-1', 'coder-2'),
      'principal.email': name,
      'principal.groups': fc.uniqueArray(name),
      'principal.team': name,
      'principal.project': name,
      'request.region': name,
    },
    { requiredKeys: ['request.model', 'principal.email', 'principal.groups'] },
  );

  /** What the reference says of a rule, word by word. */
  function matches(each: Partial<RoutingRuleConfig>, facts: Facts): boolean {
    const is = (wanted: string | undefined, path: keyof Facts) => wanted === undefined || facts[path] === wanted;
    return (
      is(each.user, 'principal.email') &&
      is(each.team, 'principal.team') &&
      is(each.project, 'principal.project') &&
      is(each.region, 'request.region') &&
      (each.group === undefined || (facts['principal.groups'] as string[]).includes(each.group)) &&
      (each.models === undefined || each.models.some((glob) => matchesGlob(glob, String(facts['request.model']))))
    );
  }

  it('takes the first that matches and is in force, and reports the first in shadow mode that would have changed it', () => {
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 8 }), caller, (rules, facts) => {
        const matching = rules.flatMap((each, index) =>
          matches(each, facts) ? [{ ...each, name: `rule-${index}` }] : [],
        );
        const decisive = matching.findIndex(({ mode }) => mode === 'enforce');
        const { upstream, name } = matching[decisive] ?? { upstream: 'main', name: 'default' };
        const before = decisive < 0 ? matching : matching.slice(0, decisive);
        const trial = before.find((each) => each.upstream !== upstream);
        const ctx = take(rules, { 'principal.token.group': 'all', ...facts });
        assert.deepEqual([ctx.written['route.upstream'], ctx.written['route.rule']], [upstream, name]);
        assert.deepEqual(ctx.shadows, trial === undefined ? [] : [`routing:${trial.name}`]);
      }),
    );
  });
});

describe('the protocol an upstream is asked in', () => {
  const [main, spare] = stageConfig().upstreams;
  const [coder] = stageConfig().models;
  const protocols = (...names: UpstreamConfig['protocols']): UpstreamConfig => ({ ...main!, protocols: names });

  function asked(
    protocol: string,
    upstream: UpstreamConfig,
    model: Partial<ModelConfig> = {},
  ): Record<string, unknown> {
    const config = stageConfig({ upstreams: [upstream, spare!], models: [{ ...coder!, ...model }] });
    const stage = openStage(resolveRoute, { config });
    const ctx = stage.request({ facts: { ...ALICE, 'request.protocol': protocol } });
    stage.hooks.request!(ctx);
    return ctx.written;
  }
  const protocol = (served: string, upstream: UpstreamConfig) => asked(served, upstream)['route.protocol'];

  it("is the client's own where the upstream has it, and the first it has otherwise", () => {
    assert.equal(protocol('messages', protocols('messages')), 'messages');
    assert.equal(protocol('chat', protocols('messages')), 'messages');
    assert.equal(protocol('chat', protocols('responses', 'chat')), 'chat');
    assert.equal(protocol('responses', protocols('chat', 'responses')), 'responses');
    assert.equal(protocol('responses', protocols('chat')), 'chat');
    assert.equal(protocol('messages', protocols('responses', 'chat')), 'responses');
  });

  it('is Messages for counting tokens, where the upstream has it', () => {
    assert.equal(protocol('count_tokens', protocols('messages')), 'messages');
    assert.equal(protocol('count_tokens', protocols('chat')), 'chat');
  });

  it('a prompt is kept for an hour only where both the upstream and the model allow it', () => {
    const supports = { ...coder!.supports, prompt_cache_1h: false, thinking: 'none' as const };
    const facts = asked('messages', protocols('messages'), { supports });
    assert.equal(facts['route.supports.prompt_cache_1h'], false);
    assert.equal(facts['model.supports.prompt_cache_1h'], false);
    assert.equal(facts['model.supports.thinking'], false);
    assert.equal(asked('messages', protocols('messages'))['route.supports.prompt_cache_1h'], true);
  });
});
