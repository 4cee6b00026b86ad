import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  type GatewayConfig,
  type ModelConfig,
  matchesGlob,
  type RoutingRuleConfig,
  type UpstreamConfig,
} from '../../engine/api.ts';
import type { RouteUpstream } from '../../engine/base/contract/config.ts';
import type { Unavailable, UpstreamStates } from '../../engine/base/contract/services.ts';
import { sessionKey } from '../../engine/domain/protocols/index.ts';
import { type Facts, type FakeContext, openStage, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import resolveRoute from '../../stages/resolve-route.ts';
import { raisedBy } from '../support/raised.ts';

const ALICE: Facts = {
  'request.protocol': 'messages',
  'request.model': 'coder-1',
  'request.tool_count': 3,
  'principal.email': 'alice@example.com',
  'principal.groups': ['all'],
  'principal.token.group': 'all',
};

/** Upstreams of a route, to be tried in this order. */
const inOrder = (...names: readonly string[]): readonly RouteUpstream[] =>
  names.map((upstream, index) => ({ upstream, order: index + 1, weight: 1 }));

/** A `routing` section: these rules, else the upstream `main`. */
const routingSection = (rules: readonly RoutingRuleConfig[]): GatewayConfig['routing'] => ({
  default_upstreams: inOrder('main'),
  attempts: { max: 4, seconds: 280, unconfirmed: true },
  rules,
});

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

const refusal = (facts: Facts) => raisedBy(() => route([], facts));

/** A request that names a further model. */
const naming = (value: string): Facts => ({
  'request.privileged_fields': { 'models[0]': { field: 'models', value } },
});

describe('resolve-route', () => {
  it('uses the default upstream when no rule matches', () => {
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

  it("sets the upstream's name for the model and its capabilities", () => {
    const facts = Object.entries(route([{ name: 'to-spare', upstream: 'spare' }]));
    const routed = facts.filter(([path]) => path.startsWith('route.') && !path.endsWith('nano_usd'));
    assert.deepEqual(Object.fromEntries(routed), {
      'route.upstream': 'spare',
      'route.protocol': 'messages',
      'route.upstream_model': 'coder-1@2026',
      'route.rule': 'to-spare',
      'route.supports.count_tokens': false,
      'route.supports.prompt_cache_1h': false,
    });
  });

  it('matches a rule by the region of the client, in whatever case', () => {
    const rules = [{ name: 'hit', upstream: 'spare', region: 'EU' }];
    assert.equal(ruleTaken(rules, { 'request.region': 'eu' }), 'hit');
  });

  it('checks that the same upstream serves further models of the request', () => {
    const rules: Rule[] = [{ upstream: 'spare', when: { '===': [{ var: 'request.model' }, 'writer-1'] } }];
    assert.deepEqual(route(rules, naming('coder-2'))['request.other_models'], ['coder-2']);
    const expected = { code: 'model_not_found', message: /^models\[0\]: .*"main"/ };
    assert.throws(() => route(rules, naming('writer-1')), expected);
    assert.deepEqual(route([], naming('coder-1'))['request.other_models'], ['coder-1'], 'it may run once more');
    assert.throws(() => route([], naming('unheard-of')), { code: 'model_not_found' });
  });

  it('routes by the estimated cost, which is none for counting tokens', () => {
    const when = { '>': [{ var: 'route.estimate_nano_usd' }, 30_000_000] };
    const taken = (input: number, output?: number, more?: Facts) => {
      const sizes = { 'request.input_tokens_estimate': input, 'request.max_tokens': output };
      return ruleTaken([{ name: 'expensive', upstream: 'spare', when }], { ...sizes, ...more });
    };
    assert.deepEqual([taken(5000, 1000), taken(5001, 1000), taken(150_000)], ['default', 'expensive', 'expensive']);
    assert.equal(taken(150_000, undefined, { 'request.protocol': 'count_tokens' }), 'default');
  });

  it('estimates every choice within the bounds of the model, with its longest output without a limit', () => {
    const estimate = (facts: Facts) => route([], facts)['route.estimate_nano_usd'];
    assert.equal(estimate({}), 64_000 * 15_000);
    const huge = { 'request.input_tokens_estimate': 10 ** 9, 'request.max_tokens': Number.MAX_SAFE_INTEGER };
    assert.equal(estimate(huge), 200_000 * 3000 + 64_000 * 15_000);
    assert.equal(estimate({ 'request.max_tokens': 100, 'request.choices': 3 }), 3 * 100 * 15_000);
    assert.equal(estimate({ ...huge, 'request.protocol': 'count_tokens' }), 0);
  });

  it('routes by facts of the model', () => {
    const can = (fact: string) => ruleTaken([{ name: 'hit', upstream: 'spare', when: { var: fact } }]);
    assert.equal(can('model.supports.images'), 'hit');
    const small = [{ name: 'small', upstream: 'spare', when: { '<': [{ var: 'model.context_window' }, 200_001] } }];
    assert.equal(ruleTaken(small), 'small');
    const family = [{ name: 'writers', upstream: 'spare', when: { '===': [{ var: 'model.family' }, 'writer'] } }];
    assert.equal(ruleTaken(family), 'default');
    assert.equal(ruleTaken(family, { 'request.model': 'writer-1' }), 'writers');
  });

  it('rejects a model by the requested name, truncated, also for a token of a removed group', () => {
    const error = refusal({ 'request.alias': 'latest', 'principal.token.group': 'writers' });
    assert.match(error.message, /^Model not found: "latest"; the token group "writers" may not use it/);
    assert.deepEqual(error.details, { model: 'latest', token_group: 'writers' });
    assert.doesNotMatch(error.message, /coder|writer-1/);
    assert.match(refusal({ 'principal.token.group': 'gone' }).message, /token group "gone"/);
    assert.ok(refusal({ 'request.model': 'x'.repeat(100_000) }).message.length < 400);
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

  /** The reference's description of a rule, word by word. */
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

  it('uses the first enforced match, and reports the first shadow rule with another route', () => {
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

describe('the protocol of a request to an upstream', () => {
  const [main, spare] = stageConfig().upstreams;
  const [coder] = stageConfig().models;

  function asked(protocol: string, spoken: UpstreamConfig['protocols'], model: Partial<ModelConfig> = {}) {
    const upstreams = [{ ...main!, protocols: spoken }, spare!];
    const stage = openStage(resolveRoute, { config: stageConfig({ upstreams, models: [{ ...coder!, ...model }] }) });
    const ctx = stage.request({ facts: { ...ALICE, 'request.protocol': protocol } });
    stage.hooks.request!(ctx);
    return ctx.written;
  }
  const protocol = (served: string, ...spoken: UpstreamConfig['protocols']) => asked(served, spoken)['route.protocol'];

  it("is the client's own if the upstream speaks it, else the upstream's first; for counting tokens Messages", () => {
    assert.equal(protocol('messages', 'messages'), 'messages');
    assert.equal(protocol('chat', 'messages'), 'messages');
    assert.equal(protocol('chat', 'responses', 'chat'), 'chat');
    assert.equal(protocol('responses', 'chat', 'responses'), 'responses');
    assert.equal(protocol('responses', 'chat'), 'chat');
    assert.equal(protocol('messages', 'responses', 'chat'), 'responses');
    assert.equal(protocol('count_tokens', 'messages'), 'messages');
    assert.equal(protocol('count_tokens', 'chat'), 'chat', 'where the upstream has it');
  });

  it('the 1-hour prompt cache needs both an upstream and a model that support it', () => {
    const supports = { ...coder!.supports, prompt_cache_1h: false, thinking: 'none' as const };
    const facts = asked('messages', ['messages'], { supports });
    assert.equal(facts['route.supports.prompt_cache_1h'], false);
    assert.equal(facts['model.supports.prompt_cache_1h'], false);
    assert.equal(facts['model.supports.thinking'], false);
    assert.equal(asked('messages', ['messages'])['route.supports.prompt_cache_1h'], true);
  });
});

const CALLER: Facts = { ...ALICE, 'principal.id': 'token:alice' };

const { region: _, ...main } = stageConfig().upstreams[0]!;

type Policy = UpstreamConfig['on_unsupported_cache'];

interface Among {
  /** The options of each upstream beside its name. */
  readonly upstreams?: Readonly<Record<string, Partial<UpstreamConfig>>>;
  readonly route?: readonly RouteUpstream[];
  readonly context_windows?: Readonly<Record<string, number>>;
  /** A matching rule's setting for prompts cached for an hour. */
  readonly rule?: Policy;
  readonly facts?: Facts;
  readonly url?: string;
  readonly unavailable?: Readonly<Record<string, Unavailable>>;
  readonly affinities?: Readonly<Record<string, string>>;
  readonly stages?: readonly string[];
  readonly protocol?: string;
  readonly body?: string;
}

const NOW = 1_000_000;

/** A stage whose upstreams differ from `main` in the test's options, and in their name, cache and account. */
function open({ upstreams = { a: {}, b: {}, c: {} }, route, unavailable = {}, affinities = {}, ...options }: Among) {
  const { context_windows, rule, stages, protocol } = options;
  const names = route ?? inOrder(...Object.keys(upstreams));
  const rules = rule ? [{ name: 'r', mode: 'enforce', upstreams: names, on_unsupported_cache: rule } as const] : [];
  const config = stageConfig({
    upstreams: Object.entries(upstreams).map(([name, more]): UpstreamConfig => {
      return { ...main, name, cache_pool: `upstream ${name}`, state_boundary: `upstream ${name}`, ...more };
    }),
    models: stageConfig().models.map((model) => ({ ...model, ...(context_windows && { context_windows }) })),
    routing: { ...routingSection(rules), default_upstreams: names },
  });
  const stage = openStage(resolveRoute, { config, now: NOW, ...(stages && { stages }), ...(protocol && { protocol }) });
  const states = stage.services.upstreams as { -readonly [K in keyof UpstreamStates]: UpstreamStates[K] };
  const known = new Map(Object.entries(affinities));
  const remembered: [string, string, number][] = [];
  states.unavailable = (upstream) => unavailable[upstream];
  states.affinity = (session) => known.get(session);
  states.remember = (session, upstream, seconds) => {
    known.set(session, upstream);
    remembered.push([session, upstream, seconds]);
  };
  return {
    remembered,
    stage,
    ask({ facts, url, body }: Pick<Among, 'facts' | 'url' | 'body'>) {
      const ctx = stage.request({
        facts: { ...CALLER, ...(protocol && { 'request.protocol': protocol }), ...facts },
        ...(url !== undefined && { url }),
        ...(body !== undefined && { body }),
      });
      stage.hooks.request!(ctx);
      return ctx;
    },
  };
}

function takeAmong(options: Among = {}) {
  const { candidates, written } = open(options).ask(options);
  const names = candidates!.map(({ upstream }) => upstream.name);
  const dropped = written['route.dropped'] as string[] | undefined;
  return { candidates: candidates!, written, chosen: [names.join(' '), ...(dropped ?? [])].join(', ') };
}

/** The candidates in order, and behind a comma each those that are none, with the reason. */
const chosen = (options: Among) => takeAmong(options).chosen;

const failure = (options: Among) => raisedBy(() => takeAmong(options));

const CHAT = { protocols: ['chat'] } as const;
const DECISIVE: Facts = { 'request.privileged_fields': { service_tier: { field: 'service_tier', value: 'flex' } } };
const TIERED = { a: {}, b: { allow_fields: ['service_tier'] } };

const until = (because: Unavailable['because'], seconds?: number, last?: string): Unavailable => {
  return { because, until: seconds === undefined ? undefined : NOW + seconds * 1000, last };
};

describe('candidates', () => {
  it('are listed in order, each with its facts; a single one without further facts', () => {
    const { chosen, written, candidates } = takeAmong({ upstreams: { a: { region: 'eu' }, b: {} } });
    assert.equal(chosen, 'a b');
    assert.deepEqual(written['route.candidates'], ['a', 'b']);
    assert.deepEqual([written['route.upstream'], written['route.region']], ['a', 'eu']);
    assert.equal(candidates[1]!.facts['route.upstream'], 'b');
    assert.ok('route.region' in candidates[1]!.facts, "the first one's claim is released");
    const alone = takeAmong({ upstreams: { a: {} } });
    assert.deepEqual([alone.chosen, alone.written['route.candidates']], ['a', undefined]);
  });

  it('exclude upstreams that do not speak the protocol or count tokens, unless the pipeline translates or none can', () => {
    const stages = ['forward'];
    assert.equal(chosen({ upstreams: { a: CHAT, b: {} } }), 'a b');
    assert.equal(chosen({ upstreams: { a: CHAT, b: {} }, stages }), 'b, a: protocol');
    // The sending stage reports it.
    assert.equal(chosen({ upstreams: { a: CHAT }, stages }), 'a');
    const upstreams = { a: { supports: { ...main.supports, count_tokens: false } }, b: {} };
    assert.equal(chosen({ upstreams, facts: { 'request.protocol': 'count_tokens' } }), 'b, a: protocol');
  });

  it('exclude upstreams that do not allow a privileged field; if none does, the request is rejected', () => {
    assert.equal(chosen({ upstreams: TIERED, facts: DECISIVE }), 'b, a: privileged');
    assert.equal(chosen({ upstreams: TIERED, url: '/v1/messages?service_tier=flex' }), 'b, a: privileged');
    assert.match(failure({ facts: DECISIVE }).message, /"a"/);
  });

  it('exclude upstreams with a smaller context window than the request needs, if another has a larger one', () => {
    const sized = (input: number, output?: number, more: Among = { context_windows: { a: 1000, b: 50_000 } }) => {
      const facts = { 'request.input_tokens_estimate': input, 'request.max_tokens': output, ...more.facts };
      return chosen({ ...more, facts });
    };
    assert.equal(sized(900), 'a b c');
    assert.equal(sized(900, 101), 'b c, a: context_window');
    // Whether it is too long for all of them depends on the longest window.
    for (const input of [50_001, 10 ** 9]) assert.equal(sized(input), 'c, a: context_window, b: context_window');
    const images = { context_windows: { a: 1000 }, facts: { 'request.image_count': 1 } };
    assert.equal(sized(10 ** 9, undefined, images), 'a b c', 'its length is unknown');
    assert.equal(sized(10 ** 9, undefined, {}), 'a b c', 'one window is no reason');
  });

  it('exclude unavailable upstreams; if all are, the one that recovers first is tried, but never a drained one', () => {
    const but = (b: Unavailable | undefined, a = until('open', 9)) =>
      chosen({ unavailable: { a, ...(b && { b }), c: until('drained') } });
    assert.equal(but(undefined), 'b, a: open, c: drained');
    assert.equal(but(until('limited', 4)), 'b, a: open, c: drained');
    assert.equal(but(until('model_missing')), 'a, b: model_missing, c: drained');
    // A lone one responds at once, and knows more.
    for (const why of ['limited', 'credential', 'model_missing'] as const)
      assert.equal(chosen({ upstreams: { a: {} }, unavailable: { a: until(why, 5) } }), 'a');
  });

  it('have their own names for the further models of a request', () => {
    const { candidates, written } = takeAmong({ facts: naming('coder-2') });
    assert.deepEqual(written['request.other_models'], ['coder-2']);
    assert.deepEqual(candidates[2]!.facts['request.other_models'], ['coder-2']);
  });
});

describe('a route without an available upstream', () => {
  it('fails at once, with the last error and the time of the next try: 1 to 60 whole seconds', () => {
    const lone = (seconds: number) =>
      failure({ upstreams: { a: {} }, unavailable: { a: until('open', seconds, 'status 529') } });
    const { code, status, details, message } = lone(7.2);
    assert.deepEqual([code, status], ['upstream_unavailable', 503]);
    assert.deepEqual(details, { upstream: 'a', because: 'open', last: 'status 529' });
    assert.match(message, /"a".*status 529.*8 s/);
    const waits = [7.2, 0, 0.1, 59.1, 500].map((seconds) => lone(seconds).headers['retry-after']);
    assert.equal(waits.join(), '8,1,1,60,60');
  });

  it('fails if the only remaining upstream has an open breaker, or all are drained', () => {
    const drained = until('drained');
    const left = failure({ unavailable: { a: drained, b: until('open', 3), c: drained } });
    assert.equal(left.details.upstream, 'b');
    const none = failure({ unavailable: { a: drained, b: drained, c: drained } });
    assert.equal(none.details.because, 'drained');
    assert.match(none.message, /administrator/);
    assert.ok(Number(none.headers['retry-after']) > 0);
  });
});

const OK = { status: 200 } as never;
const namesOf = ({ candidates }: FakeContext) => candidates!.map(({ upstream }) => upstream.name);
const session: Facts = { 'request.session_key': 'session-1' };
const AT_B = { 'session-1 coder-1': 'b' };

describe('a session', () => {
  it('stays at its upstream as long as that is available', () => {
    const at = (home: string, options: Among = {}) =>
      chosen({ facts: session, affinities: { 'session-1 coder-1': home }, ...options });
    assert.equal(at('c'), 'c a b');
    assert.equal(at('c', { unavailable: { c: until('open', 5) } }), 'a b, c: open');
    assert.equal(at('c', { facts: { ...session, 'request.protocol': 'count_tokens' } }), 'c a b');
    assert.equal(at('gone'), 'a b c');
  });

  it('has an affinity to the upstream that served it, as long as its prompts are cached there', () => {
    const shared = { state_boundary: 'one account' };
    const { stage, remembered, ask } = open({ upstreams: { a: shared, b: shared } });
    const respond = (requested: string, status: number) =>
      stage.hooks.response!(ask({ facts: { ...session, 'cache.requested_ttl': requested } }), { status } as never);
    respond('5m', 400);
    assert.deepEqual(remembered, []);
    respond('5m', 200);
    respond('1h', 200);
    assert.deepEqual(remembered, [
      ['session-1 coder-1', 'a', 300],
      ['session-1 coder-1', 'a', 3600],
    ]);
    const alone = open({ upstreams: { a: {} } });
    alone.stage.hooks.response!(alone.ask({ facts: session }), OK);
    assert.deepEqual(alone.remembered, [], 'none on a route with one upstream');
  });

  it('has a separate affinity for each model, because caches are per model', () => {
    const { stage, ask } = open({ upstreams: { a: {}, b: {} }, affinities: { 'session-1 coder-1': 'b' } });
    const first = (model: string) => namesOf(ask({ facts: { ...session, 'request.model': model } }))[0];
    assert.deepEqual(['coder-1', 'coder-2'].map(first), ['b', 'a']);
    stage.hooks.response!(ask({ facts: { ...session, 'request.model': 'coder-2' } }), OK);
    assert.deepEqual(['coder-1', 'coder-2'].map(first), ['b', 'a']);
  });
});

describe('a request that only its upstream can read', () => {
  const holding: Facts = { ...session, 'request.holds_state': true };
  const upstreams = { a: { state_boundary: 'x' }, b: { state_boundary: 'y' }, c: { state_boundary: 'x' } };

  it('stays within the state boundary of its upstream', () => {
    assert.equal(chosen({ upstreams, facts: holding }), 'a c, b: state_boundary');
    assert.equal(chosen({ upstreams, facts: holding, affinities: AT_B }), 'b, a: state_boundary, c: state_boundary');
    assert.equal(chosen({ upstreams, facts: session }), 'a b c');
  });

  it('does so long after its prompts have left the cache', () => {
    const { stage, ask } = open({ upstreams, affinities: AT_B });
    const { upstreams: states } = stage.services;
    stage.hooks.response!(ask({ facts: session }), OK);
    const { affinity } = states;
    Object.assign(states, { affinity: (key: string) => (key === 'session-1 coder-1' ? undefined : affinity(key)) });
    assert.deepEqual(namesOf(ask({ facts: holding })), ['b']);
    assert.equal(namesOf(ask({ facts: session }))[0], 'a');
  });

  it('waits for that one, and never fails over to one that cannot read it', () => {
    const unavailable = { b: until('open', 7, 'status 529') };
    const error = failure({ upstreams, facts: holding, affinities: AT_B, unavailable });
    assert.equal(error.code, 'upstream_unavailable');
    assert.equal(error.headers['retry-after'], '7');
    assert.match(error.message, /"b".*status 529.*only it can read/);
    const without_first = chosen({ upstreams, facts: holding, unavailable: { a: until('open', 7) } });
    assert.equal(without_first, 'c, b: state_boundary, a: open');
  });

  it("is rejected with that upstream's error if only others could serve it", () => {
    const refused = { upstreams: { a: TIERED.b, b: {} }, facts: { ...holding, ...DECISIVE }, affinities: AT_B };
    assert.match(failure(refused).message, /^service_tier: .*"b"/);
    const translated = { upstreams: { a: {}, b: CHAT }, facts: holding, affinities: AT_B, stages: ['forward'] };
    assert.equal(chosen(translated), 'b, a: state_boundary');
  });

  it('continues a stored response at the upstream that stores it', () => {
    const { stage, ask } = open({ upstreams, protocol: 'responses' });
    const stored = ask({ facts: { 'request.session_key': 'session-2' }, body: '{}' });
    stored.replaceFacts({ 'route.upstream': 'b' });
    const data = '{"type":"response.created","response":{"id":"resp_1","object":"response"}}';
    stage.hooks.event!(stored, { name: 'response.created', data });
    stage.hooks.event!(stored, { name: 'response.completed', data: '{"response":{"id":"resp_2"}}' });
    const continuing = (id: string) => {
      const other = { 'request.session_key': 'other', 'request.continues': sessionKey('stored', id) };
      return namesOf(ask({ facts: { ...holding, ...other }, body: '{}' }));
    };
    assert.deepEqual(continuing('resp_1'), ['b']);
    assert.deepEqual(continuing('resp_2'), ['a', 'c'], 'unknown');
    const unstored = ask({ facts: { 'request.session_key': 'session-2' }, body: '{"store":false}' });
    stage.hooks.event!(unstored, { name: undefined, data: '{"id":"resp_2"}' });
    assert.deepEqual(continuing('resp_2'), ['a', 'c']);
  });
});

/** Upstreams by name: whether each caches prompts for an hour, or its policy for such requests. */
type Keeping = Readonly<Record<string, true | Policy>>;

type HourOptions = Pick<Among, 'rule' | 'unavailable' | 'facts'>;

function keeping(how: Keeping, { facts, ...options }: HourOptions = {}): Among {
  const upstreams: Record<string, Partial<UpstreamConfig>> = {};
  for (const [name, can] of Object.entries(how)) {
    const supports = { ...main.supports, prompt_cache_1h: can === true };
    upstreams[name] = { supports, ...(can !== true && { on_unsupported_cache: can }) };
  }
  return { upstreams, facts: { 'cache.requested_ttl': '1h', ...facts }, ...options };
}

/** Each upstream with its requested lifetime, behind commas the ones excluded now, and last the ones excluded even then. */
function lifetimes(how: Keeping, options?: HourOptions): string {
  const { candidates, written } = takeAmong(keeping(how, options));
  const asks = candidates.map(({ upstream, facts }) => `${upstream.name} ${facts['cache.effective_ttl']}`);
  assert.ok(asks[0]!.endsWith(` ${written['cache.effective_ttl']}`));
  const is_shorter = asks[0]!.endsWith('5m') && options?.facts?.['cache.requested_ttl'] === undefined;
  assert.equal(written['cache.downgraded'], is_shorter);
  const dropped = [written, candidates.at(-1)!.facts].map((facts) => facts['route.dropped'] as string[] | undefined);
  return [asks.join(' '), ...dropped.map((each) => each?.join(' ').replaceAll(': cache', ''))].join(', ');
}

describe('a request with a 1-hour prompt cache', () => {
  it('goes unchanged to an upstream that supports it, and to others only on failover', () => {
    const asks = { short: 'downgrade', long: true, last: 'downgrade' } as const;
    assert.equal(lifetimes(asks), 'long 1h short 5m last 5m, short last, ');
    assert.equal(lifetimes({ long: true, no: 'refuse', short: 'downgrade' }), 'long 1h short 5m, no short, no');
  });

  it('is downgraded to five minutes if no available upstream supports it', () => {
    assert.equal(lifetimes({ a: 'downgrade', b: 'downgrade' }), 'a 5m b 5m, , ');
    assert.equal(lifetimes({ a: 'downgrade' }), 'a 5m, , ');
    const away = { unavailable: { long: until('open') } };
    assert.equal(lifetimes({ long: true, short: 'downgrade' }, away), 'short 5m, long: open, ');
  });

  it('follows the policy of the matching rule, else that of the upstream', () => {
    assert.equal(lifetimes({ a: 'pass' }), 'a 1h, , ');
    assert.equal(lifetimes({ a: 'refuse', b: 'downgrade' }), 'b 5m, a, ');
    assert.equal(lifetimes({ a: 'refuse' }, { rule: 'downgrade' }), 'a 5m, , ');
    assert.equal(lifetimes({ a: 'refuse', b: 'downgrade' }, { rule: 'pass' }), 'a 1h b 1h, , ');
    assert.equal(failure(keeping({ a: 'downgrade' }, { rule: 'refuse' })).code, 'invalid_request');
    assert.equal(lifetimes({ a: 'downgrade' }, { facts: { 'request.protocol': 'count_tokens' } }), 'a 5m, , ');
  });

  it('is rejected with a remedy if every upstream rejects it', () => {
    const { code, status, details, message } = failure(keeping({ a: 'refuse' }));
    assert.deepEqual([code, status], ['invalid_request', 400]);
    assert.deepEqual(details, { param: 'cache_control.ttl', upstream: 'a' });
    assert.match(message, /The upstream "a" does not cache prompts of this model for an hour.*Request five minutes/);
    assert.match(failure(keeping({ a: 'refuse', b: 'refuse' })).message, /The upstreams "a" and "b" do not cache/);
  });

  it('is routed as usual with a shorter lifetime', () => {
    for (const asked of ['5m', 'none']) {
      const facts = { 'cache.requested_ttl': asked };
      assert.equal(lifetimes({ a: 'refuse', b: true }, { facts }), `a ${asked} b ${asked}, , `);
      const without_b = { facts, unavailable: { b: until('open') } };
      assert.equal(lifetimes({ a: 'refuse', b: true }, without_b), `a ${asked}, b: open, `);
    }
  });
});
