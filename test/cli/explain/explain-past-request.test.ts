/** A request that the audit log remembers, judged by the configuration of today. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { describeDryRun } from '../../../engine/cli/explain/describe-dry-run.ts';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { replayRecord } from '../../../engine/explain/past-request.ts';
import { load } from '../../../engine/load/index.ts';
import type { Counted } from '../../../engine/money/limits/counted.ts';
import type { Counter } from '../../../engine/money/reports/spending.ts';
import type { Loaded } from '../../../engine/source/spec.ts';
import { stages } from '../../../stages/index.ts';
import { createProject, type Project } from '../../load/support/project.ts';

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
  - stage: fail
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

let project: Project;
let usable: { loaded: Loaded; config: GatewayConfig };
before(async () => {
  project = createProject({
    'gateway.yaml': CONFIG,
    'pipelines/messages.yaml': PIPELINE,
    'pipelines/files.yaml': FILES,
    'policies/guests.yaml': POLICY,
  });
  const loaded = await load(project.path('gateway.yaml'), { stages, env: {}, environment: 'ignored' });
  assert.ok(loaded.config, JSON.stringify(loaded.diagnostics));
  usable = { loaded, config: loaded.config };
});
after(() => project.remove());

const replay = (change: object, balances: readonly Counter[] = [], more: Partial<Counted> = {}) =>
  replayRecord(usable, { record: { ...RECORD, ...change }, counted: { balances, ...more } });
const fates = (change: object) => Object.fromEntries(replay(change).stages.map(({ id, fate }) => [id, fate]));

describe('a past request', () => {
  it('goes through its pipeline up to the stage that answers', () => {
    const { 'too-long': too_long, 'resolve-route': route, forward, audit } = fates({});
    assert.deepEqual([too_long, route, forward, audit], ['skipped', 'runs', 'runs', 'runs']);
    const refused = replay({ max_tokens: 5000 });
    assert.deepEqual(
      refused.stages.map(({ fate }) => fate),
      ['runs', 'runs', 'runs', 'unreached', 'unreached', 'unreached', 'unreached', 'runs', 'unknown'],
    );
    assert.deepEqual([refused.routing, refused.spending, refused.facts['route.upstream']], [[], [], undefined]);
  });

  it('takes the route of today', () => {
    assert.equal(replay({}).facts['route.upstream'], 'main');
    const { facts, routing, spending } = replay({ model: 'mini-1', upstream: 'main', route_rule: 'default' });
    assert.deepEqual([facts['route.upstream'], facts['route.rule']], ['spare', 'mini-to-spare']);
    assert.deepEqual([routing[0]?.held, spending[0]?.name], [true, 'few']);
  });

  it('goes to the upstream of its pipeline where that names one, whether it has a model or not', () => {
    for (const model of ['(none)', 'coder-1']) {
      const run = replay({ path: '/v1/files', protocol: 'none', model });
      assert.deepEqual([run.facts['route.upstream'], run.facts['route.rule']], ['other', undefined]);
      assert.match(describeDryRun(run, 80).join('\n'), /-> upstream other, by its pipeline\n/);
    }
  });

  it('is routed by what its model can do, and asked in a protocol that the upstream speaks', () => {
    const { facts } = replay({ model: 'coder-1', alias: 'coder-latest', choices: 2, image_count: 1 });
    assert.deepEqual([facts['route.rule'], facts['route.protocol']], ['blind', 'chat']);
    assert.deepEqual([facts['request.alias'], facts['request.choices']], ['coder-latest', 2]);
    assert.deepEqual([facts['model.supports.images'], facts['model.context_window']], [true, 200_000]);
    assert.equal(replay({ image_count: 0 }).facts['route.protocol'], 'messages');
  });

  it('gets no route for a model that its caller may not use any more', () => {
    const not_in_policy = { groups: ['all', 'guests'] };
    for (const change of [{ model: 'gone-1' }, { token_group: 'interns' }, not_in_policy]) {
      const { stages: steps, routing, facts } = replay(change);
      assert.equal(steps.find(({ id }) => id === 'resolve-route')?.raised?.code, 'model_not_found');
      assert.equal(steps.find(({ id }) => id === 'forward')?.fate, 'unreached');
      assert.deepEqual([routing, facts['route.upstream']], [[], undefined]);
    }
  });

  it('is told which token group or policy keeps the model from its caller', () => {
    const reason = (change: object) => replay(change).stages.find(({ id }) => id === 'resolve-route')?.raised?.message;
    assert.equal(reason({ token_group: 'interns' }), 'the token group interns may not use coder-1');
    assert.equal(reason({ groups: ['guests'] }), 'the policy guests does not list coder-1');
    assert.equal(reason({ groups: ['guests'], model: 'mini-1' }), undefined);
    assert.equal(reason({ groups: [], token_group: undefined }), undefined);
  });

  it('is refused by an access rule of today, also for what only its rules of then looked at', () => {
    const when = { '===': [{ var: 'request.headers.x-team' }, 'red'] };
    const access = { rules: [{ name: 'no-red', when, mode: 'enforce' as const }] };
    const change = (seen: object) =>
      replayRecord(
        { loaded: usable.loaded, config: { ...usable.config, access } },
        { record: { ...RECORD, seen }, counted: { balances: [] } },
      );
    const refused = change({ 'request.headers.x-team': 'red', 'route.upstream': 'other' });
    const route = refused.stages.find(({ id }) => id === 'resolve-route');
    assert.deepEqual(route?.raised, { code: 'forbidden', message: 'the access rule no-red refuses it' });
    assert.equal(refused.stages.find(({ id }) => id === 'forward')?.fate, 'unreached');
    assert.equal(refused.facts['route.upstream'], 'main');
    assert.deepEqual(refused.spending, []);
    const served = change({ 'request.headers.x-team': 'blue' });
    assert.equal(served.stages.find(({ id }) => id === 'forward')?.fate, 'runs');
  });

  it('is judged by what its route supports, and charged nothing for counting tokens', () => {
    const path = '/v1/messages/count_tokens';
    const counted = replay({ path });
    assert.equal(counted.stages.find(({ id }) => id === 'fail')?.fate, 'skipped');
    assert.deepEqual(counted.spending, []);
    const refused = replay({ path, model: 'mini-1' });
    assert.equal(refused.stages.find(({ id }) => id === 'fail')?.fate, 'runs');
    assert.equal(refused.stages.find(({ id }) => id === 'forward')?.fate, 'unreached');
  });

  it('is told in words, with what nobody knows any more', () => {
    const text = describeDryRun(replay({}), 80).join('\n');
    assert.match(text, /^The request 0b9e4c1e-\S+\s+of\s+2026-03-10T12:00:00\.000Z, by\s+the\s+rules\s+as/);
    assert.match(text, /2 {2}failures may run \(finally\)\n +it depends on upstream\.status, not in the audit log/);
  });

  it('is told with the trace that it belongs to, where its record has one', () => {
    const trace_id = '0af7651916cd43dd8448eb211c80319c';
    assert.match(describeDryRun(replay({ trace_id }), 80).join('\n'), new RegExp(`^Its trace: ${trace_id}$`, 'm'));
    assert.doesNotMatch(describeDryRun(replay({}), 80).join('\n'), /trace/);
  });

  it('is served by a pipeline of today, or not at all', () => {
    assert.throws(() => replay({ path: '/v0/old' }), /no pipeline serves POST \/v0\/old any more/);
  });
});

describe('the limits of a past request', () => {
  const mine: Counter = {
    scope: 'user',
    key: 'ann@example.com',
    window: 'day',
    unit: 'nano_usd',
    spent: 2_500_000_000,
    reserved: 400_000_000,
    most: 400_000_000,
    in_flight: 1,
  };

  it('are those it comes under today, with what is used now and what it likely costs', () => {
    const other: Counter = { ...mine, key: 'bob@example.com' };
    const { limits } = replay({ estimate_usd: 0.2 }, [other, mine]);
    assert.deepEqual(limits, [
      {
        rule: 'few',
        scope: 'user',
        key: 'ann@example.com',
        window: 'day',
        unit: 'usd',
        limit: 3,
        spent: 2.5,
        reserved: 0.4,
        needed: 0.2,
        room: false,
      },
    ]);
  });

  it('are those that were set and granted at run time', () => {
    const { scope, key, window, unit } = mine;
    const name = { scope, key, window, unit };
    const limitsOf = (more: Partial<Counted>) =>
      replay({ estimate_usd: 0.2 }, [mine], more).limits.map(({ limit, room }) => [limit, room]);
    assert.deepEqual(limitsOf({ settings: [{ ...name, amount: 9_000_000_000 }] }), [[9, true]]);
    const grant = { ...name, amount: 100_000_000, expires_at: Date.parse('2100-01-01') };
    assert.deepEqual(limitsOf({ grants: [grant] }), [[3.1, true]]);
    assert.deepEqual(limitsOf({ settings: [{ ...name, amount: 0 }], grants: [grant] }), [[0.1, false]]);
    assert.deepEqual(limitsOf({ settings: [{ ...name, key: 'bob@example.com', amount: 0 }] }), [[3, false]]);
  });

  it('in shadow mode are told as well, as for a request to come', () => {
    const { config, loaded } = usable;
    const { rules, ...others } = config.spend_limits!;
    const shadow = { name: 'fewer', scope: 'user', window: 'day', limit_usd: 1, mode: 'shadow' } as const;
    const trial = { ...config, spend_limits: { ...others, rules: [...rules, shadow] } };
    const { limits } = replayRecord({ loaded, config: trial }, { record: RECORD, counted: { balances: [mine] } });
    assert.deepEqual(
      limits.map(({ rule, limit }) => [rule, limit]),
      [
        ['few', 3],
        ['fewer', 1],
      ],
    );
  });

  it('do not count for a request that would not be charged', () => {
    assert.deepEqual(replay({ max_tokens: 2000 }, [mine]).limits, []);
  });
});
