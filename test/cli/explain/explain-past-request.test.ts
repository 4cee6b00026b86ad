import assert from 'node:assert/strict';
import { before, describe, it, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import type { Loaded } from '../../../engine/base/source/spec.ts';
import type { Balance, Counted } from '../../../engine/domain/budget/limits/headroom.ts';
import { describeDryRun } from '../../../engine/edge/cli/explain/describe.ts';
import { explain } from '../../../engine/edge/cli/explain/explain.ts';
import type { DryRun } from '../../../engine/pipeline/explain/dry-run.ts';
import { replayRecord } from '../../../engine/pipeline/explain/past-request.ts';
import { recordFor } from '../../../engine/pipeline/explain/trace.ts';
import { load } from '../../../engine/pipeline/load/index.ts';
import { stages } from '../../../stages/index.ts';
import { createProject } from '../../load/support/project.ts';
import { assertNarrow } from '../at-gateway.ts';
import { collectingContext } from '../support.ts';

const CONFIG = `server: { listen: "127.0.0.1:8080", public_url: "https://gateway.example.com" }
upstreams:
  - { name: main, base_url: "https://api.example.com", api_key_env: UPSTREAM_KEY }
  - { name: spare, base_url: "https://spare.example.com", api_key_env: SPARE_KEY, supports: { count_tokens: false } }
  - { name: other, type: compat, base_url: "https://other.example.com/v1", api_key_env: OTHER_KEY }
models:
  - { id: coder-1, aliases: [coder-latest], pricing: { input: 3, output: 15 } }
  - { id: mini-1, pricing: { input: 1, output: 5 } }
token_groups:
  - { name: all, models: ["*"] }
  - { name: interns, models: ["mini-*"] }
routing:
  default_upstream: main
  rules:
    - { name: mini-to-spare, models: [mini-1], upstream: spare }
    - { name: blind, when: { and: [{ ">": [{ var: request.image_count }, 0] }, { var: model.supports.images }] }, upstream: other }
spend_limits:
  reserve: worst_case
  rules:
    - { name: few, scope: user, window: day, limit_usd: 3 }
pipelines: pipelines
policies: { managed: {} }
`;

const POLICY = `policy: guests
version: 1
summary: For guests.
match: { groups: [guests] }
settings: { availableModels: [mini-1] }
`;

const PIPELINE = `pipeline: messages
version: 2
summary: Refuses long answers.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: reject
    id: too-long
    when: { ">": [{ var: request.max_tokens }, 1000] }
    options: { error: invalid_request }
  - stage: resolve-route
  - stage: check-budget
  - stage: meter-usage
  - stage: forward
finally:
  - stage: audit
  - stage: audit
    id: failures
    when: { ">": [{ var: upstream.status }, 499] }
`;

const FILES = `pipeline: files
version: 1
summary: Forwards files.
match: { methods: [POST], paths: [/v1/files], protocol: none }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: route-to
    options: { upstream: other, per_request_usd: 0.5 }
  - stage: check-budget
  - stage: meter-usage
  - stage: forward
finally:
  - stage: audit
`;

const RECORD = {
  request_id: '0b9e4c1e-0000-4000-8000-000000000001',
  at: '2026-03-10T12:00:01.000Z',
  received_at: '2026-03-10T12:00:00.000Z',
  method: 'POST',
  path: '/v1/messages',
  protocol: 'messages',
  model: 'coder-1',
  max_tokens: 100,
  user: 'ann@example.com',
  groups: ['all'],
  token_group: 'all',
};

const project = createProject({
  'gateway.yaml': CONFIG,
  'pipelines/messages.yaml': PIPELINE,
  'pipelines/files.yaml': FILES,
  'policies/guests.yaml': POLICY,
});
let usable: { loaded: Loaded; config: GatewayConfig };
before(async () => {
  const loaded = await load(project.path('gateway.yaml'), { stages, env: {}, environment: 'ignored' });
  assert.ok(loaded.config, JSON.stringify(loaded.diagnostics));
  usable = { loaded, config: loaded.config };
});

const replay = (change: object, balances: readonly Balance[] = [], more: Partial<Counted> = {}) =>
  replayRecord(usable, { record: { ...RECORD, ...change }, counted: { balances, ...more } });
const fates = (change: object) => Object.fromEntries(replay(change).stages.map(({ id, fate }) => [id, fate]));

describe('a past request', () => {
  it('passes its pipeline up to the responding stage', () => {
    const { 'too-long': too_long, 'resolve-route': route, forward, audit } = fates({});
    assert.deepEqual([too_long, route, forward, audit], ['skipped', 'runs', 'runs', 'runs']);
    const refused = replay({ max_tokens: 5000 });
    assert.deepEqual(
      refused.stages.map(({ fate }) => fate),
      ['runs', 'runs', 'runs', 'unreached', 'unreached', 'unreached', 'unreached', 'runs', 'unknown'],
    );
    assert.deepEqual([refused.routing, refused.spending, refused.facts['route.upstream']], [[], [], undefined]);
  });

  it('uses the current route, or the upstream of its pipeline if fixed, with or without a model', () => {
    assert.equal(replay({}).facts['route.upstream'], 'main');
    const { facts, routing, spending } = replay({ model: 'mini-1', upstream: 'main', route_rule: 'default' });
    assert.deepEqual([facts['route.upstream'], facts['route.rule']], ['spare', 'mini-to-spare']);
    assert.deepEqual([routing[0]?.held, spending[0]?.name], [true, 'few']);
    for (const model of ['(none)', 'coder-1']) {
      const run = replay({ path: '/v1/files', protocol: 'none', model });
      assert.deepEqual([run.facts['route.upstream'], run.facts['route.rule']], ['other', undefined]);
      assert.match(describeDryRun(run).join('\n'), /-> upstream other, by its pipeline\n/);
    }
  });

  it("is routed by its model's features, in a protocol that the upstream speaks", () => {
    const { facts } = replay({ model: 'coder-1', alias: 'coder-latest', choices: 2, image_count: 1 });
    assert.deepEqual([facts['route.rule'], facts['route.protocol']], ['blind', 'chat']);
    assert.deepEqual([facts['request.alias'], facts['request.choices']], ['coder-latest', 2]);
    assert.deepEqual([facts['model.supports.images'], facts['model.context_window']], [true, 200_000]);
    assert.equal(replay({ image_count: 0 }).facts['route.protocol'], 'messages');
  });

  it('gets no route for a model that its caller lost, and reports the token group or policy that denies it', () => {
    const not_in_policy = { groups: ['all', 'guests'] };
    for (const change of [{ model: 'gone-1' }, { token_group: 'interns' }, not_in_policy]) {
      const { stages: steps, routing, facts } = replay(change);
      assert.equal(steps.find(({ id }) => id === 'resolve-route')?.raised?.code, 'model_not_found');
      assert.equal(steps.find(({ id }) => id === 'forward')?.fate, 'unreached');
      assert.deepEqual([routing, facts['route.upstream']], [[], undefined]);
    }
    const reason = (change: object) => replay(change).stages.find(({ id }) => id === 'resolve-route')?.raised?.message;
    assert.equal(reason({ token_group: 'interns' }), 'the token group interns may not use coder-1');
    assert.equal(reason({ groups: ['guests'] }), 'the policy guests does not list coder-1');
    assert.equal(reason({ groups: ['guests'], model: 'mini-1' }), undefined);
    assert.equal(reason({ groups: [], token_group: undefined }), undefined);
  });

  it('is rejected by a current access rule, also for facts that only its former rules read', () => {
    const when = { '===': [{ var: 'request.headers.x-team' }, 'red'] };
    const access = { rules: [{ name: 'no-red', when, mode: 'enforce' as const }] };
    const change = (seen: object) =>
      replayRecord(
        { loaded: usable.loaded, config: { ...usable.config, access } },
        { record: { ...RECORD, seen }, counted: { balances: [] } },
      );
    const refused = change({ 'request.headers.x-team': 'red', 'route.upstream': 'other' });
    const route = refused.stages.find(({ id }) => id === 'resolve-route');
    assert.deepEqual(route?.raised, { code: 'forbidden', message: 'the access rule no-red rejects it' });
    assert.equal(refused.stages.find(({ id }) => id === 'forward')?.fate, 'unreached');
    assert.equal(refused.facts['route.upstream'], 'main');
    assert.deepEqual(refused.spending, []);
    const served = change({ 'request.headers.x-team': 'blue' });
    assert.equal(served.stages.find(({ id }) => id === 'forward')?.fate, 'runs');
  });

  it('is evaluated by what its route supports, and costs nothing for token counting', () => {
    const path = '/v1/messages/count_tokens';
    const counted = replay({ path });
    assert.equal(counted.stages.find(({ id }) => id === 'reject')?.fate, 'skipped');
    assert.deepEqual(counted.spending, []);
    const refused = replay({ path, model: 'mini-1' });
    assert.equal(refused.stages.find(({ id }) => id === 'reject')?.fate, 'runs');
    assert.equal(refused.stages.find(({ id }) => id === 'forward')?.fate, 'unreached');
  });

  it('is explained in words, with its recorded trace and unrecorded facts; not at all if its pipeline no longer exists', () => {
    const text = describeDryRun(replay({})).join('\n');
    assert.match(text, /^Request 0b9e4c1e-\S+\s+of\s+2026-03-10T12:00:00\.000Z,\s+evaluated\s+with/);
    assert.match(
      text,
      /2 {2}failures may run \(finally\)\n +unknown: it depends on upstream\.status, which the audit log lacks/,
    );
    const trace_id = '0af7651916cd43dd8448eb211c80319c';
    assert.match(describeDryRun(replay({ trace_id })).join('\n'), new RegExp(`^Trace: ${trace_id}$`, 'm'));
    assert.doesNotMatch(describeDryRun(replay({})).join('\n'), /trace/);
    assert.throws(() => replay({ path: '/v0/old' }), /no pipeline serves POST \/v0\/old any more/);
  });
});

describe('the limits of a past request', () => {
  const mine: Balance = {
    scope: 'user',
    key: 'ann@example.com',
    window: 'day',
    unit: 'nano_usd',
    spent: 2_500_000_000,
    reserved: 400_000_000,
    most: 400_000_000,
    in_flight: 1,
  };

  it('are the current ones, with current usage and likely cost', () => {
    const other: Balance = { ...mine, key: 'bob@example.com' };
    const { limits } = replay({ estimate_usd: 0.2 }, [other, mine]);
    const counted = { scope: 'user', key: 'ann@example.com', window: 'day', unit: 'usd' };
    assert.deepEqual(limits, [
      { rule: 'few', ...counted, limit: 3, spent: 2.5, reserved: 0.4, needed: 0.2, room: false },
    ]);
  });

  it('in shadow mode are reported as well, but none for a request that would not be charged', () => {
    const { config, loaded } = usable;
    const { rules, ...others } = config.spend_limits!;
    const shadow = { name: 'fewer', scope: 'user', window: 'day', limit_usd: 1, mode: 'shadow' } as const;
    const trial = { ...config, spend_limits: { ...others, rules: [...rules, shadow] } };
    const { limits } = replayRecord({ loaded, config: trial }, { record: RECORD, counted: { balances: [mine] } });
    const found = limits.map(({ rule, limit }) => `${rule} ${limit}`);
    assert.deepEqual(found, ['few 3', 'fewer 1']);
    assert.deepEqual(replay({ max_tokens: 2000 }, [mine]).limits, []);
  });
});

const ROUTES = `server: { listen: "127.0.0.1:8080", public_url: "https://gateway.example.com" }
upstreams:
  - { name: main, base_url: "https://api.example.com", api_key_env: UPSTREAM_KEY }
  - { name: spare, base_url: "https://spare.example.com", api_key_env: SPARE_KEY, supports: { prompt_cache_1h: false } }
  - { name: other, type: compat, base_url: "https://other.example.com/v1", api_key_env: OTHER_KEY }
  - { name: strict, base_url: "https://strict.example.com", api_key_env: STRICT_KEY, on_unsupported_cache: refuse, supports: { prompt_cache_1h: false } }
models:
  - { id: coder-1, max_output_tokens: 64000, upstream_ids: { spare: coder-1@2026 }, pricing: { input: 3, output: 15 } }
  - { id: mini-1, max_output_tokens: 64000, pricing: { input: 1, output: 5 } }
  - { id: lone-1, max_output_tokens: 64000, pricing: { input: 1, output: 5 } }
  - { id: far-1, max_output_tokens: 64000, pricing: { input: 1, output: 5 } }
token_groups: [{ name: all, models: ["*"] }]
routing:
  default_upstreams: [main, spare, other, strict]
  rules:
    - { name: shared, models: [mini-1], upstreams: [{ upstream: spare, weight: 3 }, { upstream: main, weight: 1 }, { upstream: other, order: 2 }] }
    - { name: far, models: [far-1], upstreams: [spare, other] }
    - { name: lone, models: [lone-1], upstream: spare, on_unsupported_cache: pass }
`;

const cached = [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', ttl: '1h' } }];
const request = (model: string, more: object = {}) =>
  JSON.stringify({ model, max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }], ...more });

const routes = createProject({
  'gateway.yaml': ROUTES,
  'plain.json': request('coder-1'),
  'cached.json': request('coder-1', { system: cached }),
  'far.json': request('far-1', { system: cached }),
  'lone.json': request('lone-1'),
  'shared.json': request('mini-1'),
});

async function explained(file: string, path?: string): Promise<{ readonly run: DryRun; readonly text: string }> {
  const word = routes.path(file);
  const input = { config: routes.path('gateway.yaml'), config_named: true, word, ...(path && { path }) };
  const [asked, shown] = [collectingContext(), collectingContext()];
  assert.equal(await explain(asked.context, { ...input, json: true }), 0);
  assert.equal(await explain(shown.context, input), 0);
  return { run: JSON.parse(asked.data()) as DryRun, text: shown.data() };
}

const brief = ({ upstreams }: DryRun) =>
  upstreams.map(({ upstream, turn, dropped }) => `${upstream} ${turn ?? dropped}`);

describe('a future request with several upstreams', () => {
  test('lists every candidate upstream in order, and which need translation', async () => {
    const { run, text } = await explained('plain.json');
    assert.deepEqual(brief(run), ['main 1', 'spare 2', 'other 3', 'strict 4']);
    assert.equal(run.upstreams[1]?.upstream_model, 'coder-1@2026');
    assert.match(text, /\n {2}3 {2}other, translated into chat\n/);
  });

  test('reports why an upstream of its route is skipped', async () => {
    const { run, text } = await explained('cached.json');
    const dropped = Object.fromEntries(run.upstreams.map(({ upstream, dropped }) => [upstream, dropped]));
    assert.deepEqual([dropped.main, dropped.spare, dropped.strict], [undefined, 'cache', 'cache']);
    const [spare, strict] = ['spare', 'strict'].map((name) => run.upstreams.find(({ upstream }) => upstream === name));
    assert.deepEqual([spare?.cache_downgraded, spare?.is_last_resort], [true, true]);
    assert.deepEqual([strict?.cache_downgraded, strict?.is_last_resort], [undefined, undefined]);
    assert.match(text, /\n {2}- {2}spare, with a five-minute prompt cache: it\s+does\s+not\s+cache[^(]+\(cache\)\n/);
    assertNarrow(/^Upstreams, .*?\n\n/ms.exec(text)![0]);
  });

  test('leaves its protocol neither for a lifetime that the translation drops nor for a missing feature', async () => {
    const far = (await explained('far.json')).run;
    assert.deepEqual(brief(far), ['spare 1', 'other 2']);
    assert.equal(far.upstreams[0]?.cache_downgraded, true);
    const { run, text } = await explained('plain.json', '/v1/messages/count_tokens');
    assert.deepEqual(brief(run), ['main 1', 'spare 2', 'strict 3', 'other protocol']);
    assert.match(text, /\n {2}- {2}other: it does not speak/);
    const lone = await explained('lone.json');
    assert.deepEqual(lone.run.upstreams, []);
    assert.doesNotMatch(lone.text, /Upstreams, in order/);
    assert.match(lone.text, /-> upstream spare, by the rule lone/);
  });
});

test('the rules show the upstreams of a route, their order and shares', async () => {
  const { context, data } = collectingContext();
  await explain(context, { config: routes.path('gateway.yaml'), config_named: true, word: 'rules' });
  assert.match(data(), /1 {2}shared goes to spare \(75 %\) or main \(25 %\), then other\n/);
  assert.match(data(), /3 {2}lone goes to spare \(on_unsupported_cache: pass\)\n/);
  assert.match(data(), /4 {2}default goes to main, then spare, then other, then strict\n/);
});

const ATTEMPT = {
  upstream_model: 'mini-1',
  certainty: 'answered',
  sends: 1,
  upstream_request_id: null,
  cost_nano_usd: 0,
  possibly_billed_nano_usd: null,
} as const;

describe('a past request with several upstreams', () => {
  async function replay(change: object, attempts?: Parameters<typeof replayRecord>[1]['attempts']) {
    const loaded = await load(routes.path('gateway.yaml'), { stages, env: {}, environment: 'ignored' });
    const remembered = {
      record: { ...RECORD, model: 'mini-1', ...change },
      counted: { balances: [] },
      ...(attempts && { attempts }),
    };
    const run = replayRecord({ loaded, config: loaded.config! }, remembered);
    return { run, text: describeDryRun(run).join('\n') };
  }

  test('lists the current upstreams, with the share of sessions if the session is unknown', async () => {
    const { run, text } = await replay({});
    assert.deepEqual(brief(run), ['spare 1', 'main 2', 'other 3']);
    assert.match(
      text,
      /1 {2}spare \(75 % of the sessions\)\n {2}2 {2}main \(25 % of the sessions\)\n {2}3 {2}other, tr/,
    );
  });

  test('lists the upstreams that would be skipped for its features', async () => {
    const { run } = await replay({ model: 'coder-1', cache_ttl: '1h', cache_requested_ttl: '1h' });
    assert.equal(run.facts['route.upstream'], 'main');
    const skipped = run.upstreams.filter(({ dropped }) => dropped === 'cache').map(({ upstream }) => upstream);
    assert.deepEqual(skipped, ['spare', 'other', 'strict']);
  });

  test('has the attempts of its ledger row, with their consequences', async () => {
    const first = { ...ATTEMPT, n: 1, upstream: 'spare', status: 502, outcome: 'bad_gateway', ms: 33.4 };
    const second = { ...ATTEMPT, n: 2, upstream: 'main', status: 200, outcome: 'answered', ms: 120 };
    const { text } = await replay({}, [
      { ...first, reason: 'next_unconfirmed', possibly_billed_nano_usd: 3_000_000 },
      { ...second, reason: 'served' },
    ]);
    assert.match(
      text,
      /What happened\n {2}Served by main, after spare.*\n {2}1 {2}spare: bad_gateway, status 502, 33 ms, possibly\s+billed:/,
    );
    assert.match(text, /\(next_unconfirmed\)\n {2}2 {2}main: answered, status 200, 120 ms; its\s+response/);
    assertNarrow(text);
  });

  test('has those of its audit record where that has them, and what was not asked', async () => {
    const outcome = { status: 429, outcome: 'limited', reason: 'exhausted', ms: 5 };
    const limited = { ...ATTEMPT, n: 1, upstream: 'other', ...outcome };
    const { run, text } = await replay({ attempts: [limited], dropped: ['main: open'] });
    assert.deepEqual(run.past?.attempts, [limited]);
    assert.match(
      text,
      /1 {2}other: limited, status 429, 5 ms; ended: .*\n(?: {7}.*\n)* {2}- {2}main: it failed too often/,
    );
    assert.deepEqual((await replay({ attempts: 1 })).run.past?.attempts, []);
  });
});

test('shows an odd record of a stage without its setter and grantor, as far as it is readable', () => {
  const limit = { rule: 'few', set_by: 'ann', grants: [null, 7, { amount: 1, granted_by: 'bob' }] };
  const { limits } = recordFor({ is_admin: false }, { limits: [null, 7, limit, { grants: 'none' }] });
  assert.deepEqual(limits, [null, 7, { rule: 'few', grants: [{ amount: 1 }] }, {}]);
});
