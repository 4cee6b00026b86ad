import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Facts, openStage, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import routeTo from '../../stages/route-to.ts';
import { raisedBy } from '../support/raised.ts';

const ALICE: Facts = {
  'request.protocol': 'none',
  'request.model': 'coder-1',
  'request.received_at': 0,
  'request.input_tokens_estimate': 1000,
  'request.input_tokens_max': 4000,
  'principal.email': 'alice@example.com',
  'principal.groups': ['all'],
  'principal.token.group': 'all',
};

interface Asked {
  readonly options?: object;
  readonly facts?: Facts;
  readonly headers?: Readonly<Record<string, string>>;
  readonly config?: Parameters<typeof stageConfig>[0];
}

function route({ options = {}, facts = {}, headers = {}, config }: Asked = {}) {
  const stage = openStage(routeTo, {
    config: stageConfig(config),
    options: { upstream: 'main', ...options },
    protocol: 'none',
  });
  const ctx = stage.request({ facts: { ...ALICE, ...facts }, headers });
  assert.equal(stage.hooks.request!(ctx), undefined);
  return ctx;
}

const refusal = (asked: Asked) => raisedBy(() => route(asked));

const NONE: Facts = { 'request.model': '(none)' };

describe('route-to', () => {
  it('sends a request to its upstream, whatever the routes, and sets the facts of model and cost', () => {
    const { written, candidates } = route({ options: { upstream: 'spare' } });
    const facts = ['route.upstream', 'route.rule', 'model.family', 'route.per_request_nano_usd'];
    assert.deepEqual(
      facts.map((path) => written[path]),
      ['spare', undefined, 'coder', undefined],
    );
    assert.equal(candidates?.length, 1);
    assert.ok((written['route.worst_case_nano_usd'] as number) > 0);
  });

  it('rejects a request of unknown cost, by default', () => {
    const { code, message } = refusal({ facts: NONE });
    assert.deepEqual([code, /per_request_usd/.test(message)], ['forbidden', true]);
    assert.equal(route({ facts: NONE, options: { unknown_cost: 'allow' } }).written['route.worst_case_nano_usd'], 0);
    const { written } = route({ facts: NONE, options: { per_request_usd: 0.05 } });
    assert.equal(written['route.per_request_nano_usd'], 50_000_000);
    assert.equal(written['route.worst_case_nano_usd'], 50_000_000);
  });

  it('names the setting that would allow the model in a line of a file, and that setting works', () => {
    const config = stageConfig();
    const line = { 'file line 7: body.model': { field: 'model', value: 'no-model' } };
    const asked = { facts: { ...NONE, 'request.privileged_fields': line }, options: { per_request_usd: 0 } };
    const { message } = refusal(asked);
    assert.match(message, /^file line 7: body\.model: Model not found: "no-model"/);
    const [, field] = /can add "([^"]+)" to `allow_fields`/.exec(message)!;
    assert.equal(field, 'lines[].body.model');
    const upstreams = config.upstreams.map((upstream) => ({ ...upstream, allow_fields: [field!] }));
    assert.equal(route({ ...asked, config: { upstreams } }).written['route.upstream'], 'main');
  });

  it('rejects unknown and denied models, privileged models and accounts', () => {
    const field = (name: string, value: string): Facts => ({
      'request.privileged_fields': { [name]: { field: name, value } },
    });
    const denied = { 'principal.token.group': 'writers' };
    for (const facts of [{ 'request.model': 'no-model' }, denied, field('model', 'no-model')])
      assert.equal(refusal({ facts }).code, 'model_not_found');
    assert.equal(refusal({ facts: field('organization', 'other') }).code, 'invalid_request');
    assert.deepEqual(route({ facts: field('model', 'coder-1') }).written['request.other_models'], ['coder-1']);
  });

  it("rejects a form with another model name than the upstream's, because forms are not rewritten", () => {
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    assert.equal(route({ headers }).written['route.upstream'], 'main');
    const { code, message } = refusal({ headers, facts: { 'request.alias': 'best' } });
    assert.deepEqual([code, /knows the model "best" as "coder-1"/.test(message)], ['invalid_request', true]);
  });

  it('evaluates the access rules of gateway.yaml for each model of a request, by its family', () => {
    const rules = [{ name: 'no-coder', models: ['coder-1'], when: true, mode: 'enforce', message: 'Not now.' }];
    assert.equal(refusal({ config: { access: { rules } } as never }).code, 'forbidden');
    const family = { '===': [{ var: 'model.family' }, 'writer'] };
    const config = { access: { rules: [{ name: 'no-writer', when: family, mode: 'enforce' }] } } as never;
    const beside = (model: string): Facts => ({
      'request.privileged_fields': { 'requests[0].params.model': { field: 'model', value: model } },
    });
    assert.deepEqual(route({ config, facts: beside('coder-2') }).written['request.other_models'], ['coder-2']);
    assert.equal(refusal({ config, facts: beside('writer-1') }).code, 'forbidden');
    assert.equal(refusal({ config, facts: { 'request.model': 'writer-1', ...beside('coder-2') } }).code, 'forbidden');
  });

  it('evaluates rules for all models also for a request without a model', () => {
    const by_caller = { '===': [{ var: 'principal.email' }, 'alice@example.com'] };
    const config = { access: { rules: [{ name: 'not-alice', when: by_caller, mode: 'enforce' }] } } as never;
    const options = { per_request_usd: 0.05 };
    assert.equal(refusal({ config, options, facts: NONE }).code, 'forbidden');
    const facts = { ...NONE, 'principal.email': 'ben@example.com' };
    assert.equal(route({ config, options, facts }).written['route.upstream'], 'main');
  });

  it('rejects an option without effect', () => {
    const check = (options: object) => routeTo.check!({ upstream: 'main', ...options }, stageConfig());
    assert.deepEqual(check({ unknown_cost: 'refuse', per_request_usd: 0.05 }), []);
    assert.match(check({ unknown_cost: 'allow', per_request_usd: 0.05 })[0]!, /has no effect/);
  });
});
