import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { UpstreamConfig } from '../../engine/api.ts';
import type { RouteUpstream } from '../../engine/contract/config.ts';
import { StageError } from '../../engine/contract/errors.ts';
import type { Closed, UpstreamStates } from '../../engine/contract/services.ts';
import { sessionKey } from '../../engine/protocols/index.ts';
import { type Facts, openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import resolveRoute from '../../stages/resolve-route.ts';
import { inOrder, routingSection } from '../support/routing.ts';

const ALICE: Facts = {
  'request.protocol': 'messages',
  'request.model': 'coder-1',
  'principal.id': 'token:alice',
  'principal.email': 'alice@example.com',
  'principal.groups': ['all'],
  'principal.token.group': 'all',
};

const { region: _, ...main } = stageConfig().upstreams[0]!;

interface Wishes {
  /** What each upstream is beside its name. */
  readonly upstreams?: Readonly<Record<string, Partial<UpstreamConfig>>>;
  readonly route?: readonly RouteUpstream[];
  /** Of every model. */
  readonly context_windows?: Readonly<Record<string, number>>;
  readonly facts?: Facts;
  readonly url?: string;
  readonly closed?: Readonly<Record<string, Closed>>;
  readonly homes?: Readonly<Record<string, string>>;
  readonly stages?: readonly string[];
  readonly protocol?: string;
  readonly body?: string;
}

const NOW = 1_000_000;

/** A stage whose upstreams differ from `main` in what the test says, and in their name, cache and account. */
function open({ upstreams = { a: {}, b: {}, c: {} }, route, closed = {}, homes = {}, ...wishes }: Wishes) {
  const { context_windows, stages, protocol } = wishes;
  const config = stageConfig({
    upstreams: Object.entries(upstreams).map(([name, more]): UpstreamConfig => {
      return { ...main, name, cache_pool: `upstream ${name}`, state_boundary: `upstream ${name}`, ...more };
    }),
    models: stageConfig().models.map((model) => ({ ...model, ...(context_windows && { context_windows }) })),
    routing: { ...routingSection(), default_upstreams: route ?? inOrder(...Object.keys(upstreams)) },
  });
  const stage = openStage(resolveRoute, { config, now: NOW, ...(stages && { stages }), ...(protocol && { protocol }) });
  const states = stage.services.upstreams as { -readonly [K in keyof UpstreamStates]: UpstreamStates[K] };
  const known = new Map(Object.entries(homes));
  const settled: [string, string, number][] = [];
  states.closed = (upstream) => closed[upstream];
  states.home = (session) => known.get(session);
  states.settle = (session, upstream, seconds) => {
    known.set(session, upstream);
    settled.push([session, upstream, seconds]);
  };
  return {
    settled,
    stage,
    ask({ facts, url, body }: Pick<Wishes, 'facts' | 'url' | 'body'>) {
      const ctx = stage.request({
        facts: { ...ALICE, ...(protocol && { 'request.protocol': protocol }), ...facts },
        ...(url !== undefined && { url }),
        ...(body !== undefined && { body }),
      });
      stage.hooks.request!(ctx);
      return ctx;
    },
  };
}

function take(wishes: Wishes = {}) {
  const ctx = open(wishes).ask(wishes);
  return {
    names: ctx.candidates!.map(({ upstream }) => upstream.name),
    dropped: ctx.written['route.dropped'],
    written: ctx.written,
    candidates: ctx.candidates!,
  };
}

function failure(wishes: Wishes): StageError {
  try {
    take(wishes);
  } catch (error) {
    assert.ok(error instanceof StageError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: 'there were candidates' });
}

const until = (because: Closed['because'], seconds?: number, last?: string): Closed => {
  return { because, until: seconds === undefined ? undefined : NOW + seconds * 1000, last };
};

describe('candidates', () => {
  it('are the upstreams of the route in order, with what is told of the request while it is with each', () => {
    const { names, written, candidates } = take({ upstreams: { a: { region: 'eu' }, b: {} } });
    assert.deepEqual(names, ['a', 'b']);
    assert.deepEqual(written['route.candidates'], ['a', 'b']);
    assert.equal(written['route.dropped'], undefined);
    assert.equal(written['route.upstream'], 'a');
    assert.equal(written['route.region'], 'eu');
    assert.equal(candidates[1]!.facts['route.upstream'], 'b');
    assert.ok('route.region' in candidates[1]!.facts, 'what the first has is taken back');
  });

  it('are one where a route has one, and no more facts than that are written', () => {
    const { names, written } = take({ upstreams: { a: {} } });
    assert.deepEqual(names, ['a']);
    assert.equal(written['route.candidates'], undefined);
  });

  it('leave out what does not speak the protocol, unless the pipeline translates', () => {
    const upstreams = { a: { protocols: ['chat'] }, b: {} } as const;
    assert.deepEqual(take({ upstreams }).names, ['a', 'b']);
    const { names, dropped } = take({ upstreams, stages: ['forward'] });
    assert.deepEqual(names, ['b']);
    assert.deepEqual(dropped, ['a: protocol']);
    // Where nobody speaks it, the stage that sends says so.
    assert.deepEqual(take({ upstreams: { a: upstreams.a }, stages: ['forward'] }).names, ['a']);
    assert.deepEqual(take({ upstreams: { a: upstreams.a, c: upstreams.a }, stages: [] }).names, ['a']);
  });

  it('leave out what does not count tokens where that is asked', () => {
    const upstreams = { a: { supports: { ...main.supports, count_tokens: false } }, b: {} };
    const { names, dropped } = take({ upstreams, facts: { 'request.protocol': 'count_tokens' } });
    assert.deepEqual([names, dropped], [['b'], ['a: protocol']]);
  });

  it('leave out where a field that chooses who serves or pays is not allowed, and refuse it where that is everywhere', () => {
    const decisive = { 'request.decisive_fields': { service_tier: { field: 'service_tier', value: 'flex' } } };
    const upstreams = { a: {}, b: { allow_fields: ['service_tier'] } };
    const { names, dropped } = take({ upstreams, facts: decisive });
    assert.deepEqual([names, dropped], [['b'], ['a: decisive']]);
    assert.match(failure({ facts: decisive }).message, /"a"/);
    const asked = { upstreams, url: '/v1/messages?service_tier=flex' };
    assert.deepEqual(take(asked).names, ['b']);
  });

  it('name the further models of a request as each of them has them', () => {
    const facts = { 'request.decisive_fields': { 'models[0]': { field: 'models', value: 'coder-2' } } };
    const { candidates, written } = take({ facts });
    assert.deepEqual(written['request.other_models'], ['coder-2']);
    assert.deepEqual(candidates[2]!.facts['request.other_models'], ['coder-2']);
  });

  it('leave out where the model reads less than the request likely is, if it reads more elsewhere', () => {
    const facts = (input: number, output?: number): Facts => ({
      'request.input_tokens_estimate': input,
      'request.max_tokens': output,
    });
    const context_windows = { a: 1000, b: 50_000 };
    const ask = (more: Facts) => take({ context_windows, facts: more });
    assert.deepEqual(ask(facts(900)).names, ['a', 'b', 'c']);
    assert.deepEqual(ask(facts(900, 101)).names, ['b', 'c']);
    assert.deepEqual(ask(facts(50_001)).dropped, ['a: context_window', 'b: context_window']);
    // Whether it is too long for all of them, the one with the longest window knows.
    assert.deepEqual(ask(facts(10 ** 9)).names, ['c']);
    assert.deepEqual(ask({ ...facts(10 ** 9), 'request.image_count': 1 }).names, ['a', 'b', 'c']);
    assert.deepEqual(take({ facts: facts(10 ** 9) }).names, ['a', 'b', 'c'], 'one window is no reason');
  });

  it('leave out what is closed, each with its reason', () => {
    const closed = { a: until('open', 5), c: until('drained') };
    const { names, dropped } = take({ closed });
    assert.deepEqual(names, ['b']);
    assert.deepEqual(dropped, ['a: open', 'c: drained']);
  });

  it('are the one that is asked again first where all are closed, but never one that is drained', () => {
    const closed = { a: until('open', 9), b: until('limited', 4), c: until('drained') };
    const { names, dropped } = take({ closed });
    assert.deepEqual(names, ['b']);
    assert.deepEqual(dropped, ['a: open', 'c: drained']);
    assert.deepEqual(take({ closed: { ...closed, b: until('model_missing') } }).names, ['a']);
  });
});

describe('a route that no upstream serves now', () => {
  it('fails at once with the last error and when the upstream is asked again', () => {
    const lone = failure({ upstreams: { a: {} }, closed: { a: until('open', 7.2, 'status 529') } });
    assert.equal(lone.code, 'upstream_unavailable');
    assert.equal(lone.status, 503);
    assert.deepEqual(lone.details, { upstream: 'a', because: 'open', last: 'status 529' });
    assert.equal(lone.headers['retry-after'], '8');
    assert.match(lone.message, /"a".*status 529.*8 s/);
  });

  it('tells a wait of whole seconds from 1 to 60', () => {
    const wait = (seconds: number) =>
      failure({ upstreams: { a: {} }, closed: { a: until('open', seconds) } }).headers['retry-after'];
    assert.deepEqual([wait(0), wait(0.1), wait(59.1), wait(500)], ['1', '1', '60', '60']);
  });

  it('fails where the only upstream that is left is open, or all are drained', () => {
    const drained = until('drained');
    const left = failure({ closed: { a: drained, b: until('open', 3), c: drained } });
    assert.equal(left.details.upstream, 'b');
    const none = failure({ closed: { a: drained, b: drained, c: drained } });
    assert.equal(none.details.because, 'drained');
    assert.match(none.message, /administrator/);
    assert.ok(Number(none.headers['retry-after']) > 0);
  });

  it('asks a lone upstream that is limited, or that refused a credential: it answers at once, and knows more', () => {
    for (const because of ['limited', 'credential', 'model_missing'] as const)
      assert.deepEqual(take({ upstreams: { a: {} }, closed: { a: until(because, 5) } }).names, ['a']);
  });
});

describe('a session', () => {
  const session: Facts = { 'request.session_key': 'session-1' };

  it('stays where it is at home as long as that takes requests', () => {
    const homes = { 'session-1 coder-1': 'c' };
    assert.deepEqual(take({ facts: session, homes }).names, ['c', 'a', 'b']);
    assert.deepEqual(take({ facts: session, homes, closed: { c: until('open', 5) } }).names, ['a', 'b']);
    assert.deepEqual(take({ facts: { ...session, 'request.protocol': 'count_tokens' }, homes }).names[0], 'c');
    assert.deepEqual(take({ facts: session, homes: { 'session-1 coder-1': 'gone' } }).names, ['a', 'b', 'c']);
  });

  it('is at home where it is served, for as long as its prompts are kept there', () => {
    const shared = { state_boundary: 'one account' };
    const { stage, settled, ask } = open({ upstreams: { a: shared, b: shared } });
    const ctx = ask({ facts: { ...session, 'cache.requested_ttl': '5m' } });
    const head = (status: number) => ({ status }) as never;
    stage.hooks.response!(ctx, head(400));
    assert.deepEqual(settled, []);
    stage.hooks.response!(ctx, head(200));
    assert.deepEqual(settled, [['session-1 coder-1', 'a', 300]]);
    const long = ask({ facts: { ...session, 'cache.requested_ttl': '1h' } });
    stage.hooks.response!(long, head(200));
    assert.deepEqual(settled[1], ['session-1 coder-1', 'a', 3600]);
  });

  it('has a home of its own for each of its models, as those have caches of their own', () => {
    const { stage, ask } = open({ upstreams: { a: {}, b: {} }, homes: { 'session-1 coder-1': 'b' } });
    const first = (model: string) =>
      ask({ facts: { ...session, 'request.model': model } }).candidates![0]!.upstream.name;
    assert.deepEqual(['coder-1', 'coder-2'].map(first), ['b', 'a']);
    stage.hooks.response!(ask({ facts: { ...session, 'request.model': 'coder-2' } }), { status: 200 } as never);
    assert.deepEqual(['coder-1', 'coder-2'].map(first), ['b', 'a']);
  });

  it('is nowhere at home on a route with one upstream', () => {
    const { stage, settled, ask } = open({ upstreams: { a: {} } });
    stage.hooks.response!(ask({ facts: session }), { status: 200 } as never);
    assert.deepEqual(settled, []);
  });
});

describe('a request that only its upstream can read', () => {
  const holding: Facts = { 'request.session_key': 'session-1', 'request.holds_state': true };
  const upstreams = { a: { state_boundary: 'x' }, b: { state_boundary: 'y' }, c: { state_boundary: 'x' } };

  it('goes within the boundary of the upstream that it came from', () => {
    assert.deepEqual(take({ upstreams, facts: holding }).names, ['a', 'c']);
    const { names, dropped } = take({ upstreams, facts: holding, homes: { 'session-1 coder-1': 'b' } });
    assert.deepEqual([names, dropped], [['b'], ['a: state_boundary', 'c: state_boundary']]);
    const { 'request.holds_state': _, ...free } = holding;
    assert.deepEqual(take({ upstreams, facts: free }).names, ['a', 'b', 'c']);
  });

  it('does so long after its prompts are no longer kept there', () => {
    const { stage, ask } = open({ upstreams, homes: { 'session-1 coder-1': 'b' } });
    const { upstreams: states } = stage.services;
    stage.hooks.response!(ask({ facts: { 'request.session_key': 'session-1' } }), { status: 200 } as never);
    const { home } = states;
    Object.assign(states, { home: (key: string) => (key === 'session-1 coder-1' ? undefined : home(key)) });
    assert.deepEqual(
      ask({ facts: holding }).candidates!.map(({ upstream }) => upstream.name),
      ['b'],
    );
    assert.equal(ask({ facts: { 'request.session_key': 'session-1' } }).candidates![0]!.upstream.name, 'a');
  });

  it('waits for that one, and never goes to one that cannot read it', () => {
    const closed = { b: until('open', 7, 'status 529') };
    const error = failure({ upstreams, facts: holding, homes: { 'session-1 coder-1': 'b' }, closed });
    assert.equal(error.code, 'upstream_unavailable');
    assert.equal(error.headers['retry-after'], '7');
    assert.match(error.message, /"b".*status 529.*only it can read/);
    assert.deepEqual(take({ upstreams, facts: holding, closed: { a: until('open', 7) } }).names, ['c']);
  });

  it('is refused as by that one where it could be served only elsewhere', () => {
    const decisive = { 'request.decisive_fields': { service_tier: { field: 'service_tier', value: 'flex' } } };
    const allowed = { allow_fields: ['service_tier'] };
    const homes = { 'session-1 coder-1': 'b' };
    const refused = { upstreams: { a: allowed, b: {} }, facts: { ...holding, ...decisive }, homes };
    assert.match(failure(refused).message, /^service_tier: .*"b"/);
    const chat = { protocols: ['chat'] as const };
    const { names, dropped } = take({ upstreams: { a: {}, b: chat }, facts: holding, homes, stages: ['forward'] });
    assert.deepEqual([names, dropped], [['b'], ['a: state_boundary']]);
  });

  it('continues a stored response where that is kept', () => {
    const { stage, ask } = open({ upstreams, protocol: 'responses' });
    const stored = ask({ facts: { 'request.session_key': 'session-2' }, body: '{}' });
    stored.replaceFacts({ 'route.upstream': 'b' });
    const data = '{"type":"response.created","response":{"id":"resp_1","object":"response"}}';
    stage.hooks.event!(stored, { name: 'response.created', data });
    stage.hooks.event!(stored, { name: 'response.completed', data: '{"response":{"id":"resp_2"}}' });
    const continuing = (id: string) =>
      ask({
        facts: { ...holding, 'request.session_key': 'other', 'request.continues': sessionKey('stored', id) },
        body: '{}',
      }).candidates!.map(({ upstream }) => upstream.name);
    assert.deepEqual(continuing('resp_1'), ['b']);
    assert.deepEqual(continuing('resp_2'), ['a', 'c'], 'unknown');
    const unstored = ask({ facts: { 'request.session_key': 'session-2' }, body: '{"store":false}' });
    stage.hooks.event!(unstored, { name: undefined, data: '{"id":"resp_2"}' });
    assert.deepEqual(continuing('resp_2'), ['a', 'c']);
  });
});
