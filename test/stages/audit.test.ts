import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AttemptRecord } from '../../engine/api.ts';
import { type Facts, openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import audit from '../../stages/audit.ts';
import { failed, served } from './attempts.ts';

const NOON = Date.parse('2026-03-10T12:00:00Z');

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';

const ARRIVED: Facts = {
  'request.id': 'req-1',
  'request.method': 'POST',
  'request.path': '/v1/messages',
  'request.protocol': 'messages',
  'request.received_at': NOON - 1234,
};

async function recorded(facts: Facts, options: object = { table: true }, attempts: readonly AttemptRecord[] = []) {
  const stage = openStage(audit, { options, now: NOON });
  const secret = 'planted-secret';
  const ctx = stage.request({
    facts: { ...ARRIVED, ...facts },
    headers: {
      authorization: `Bearer ${secret}`,
      'x-api-key': secret,
      traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01`,
    },
    url: `/v1/messages?key=${secret}`,
    body: JSON.stringify({ messages: [{ role: 'user', content: secret }] }),
  });
  ctx.attempts = attempts;
  await stage.hooks.finally!(ctx);
  assert.ok(!JSON.stringify([stage.audit, [...stage.lines]]).includes(secret));
  return stage;
}

describe('audit', () => {
  it('says of a request that went out while the database was away that nothing was reserved for it', async () => {
    const { audit: records } = await recorded({ 'spend.reserved_nano_usd': 0, 'spend.unreserved': true });
    assert.deepEqual([records[0]!.reserved_usd, records[0]!.unreserved], [0, true]);
  });

  it('keeps no more of a model identifier than one can be long', async () => {
    const { audit: records } = await recorded({ 'request.model': `coder${'x'.repeat(1_000_000)}` });
    assert.equal(records[0]!.model, `coder${'x'.repeat(195)}`);
  });

  it('records who asked for what, which rules decided and what came of it', async () => {
    const { audit: records, lines } = await recorded({
      'principal.id': 'user:alice@example.com',
      'principal.email': 'alice@example.com',
      'principal.team': 'search',
      'principal.project': 'apollo',
      'principal.token.id': 'tok_1',
      'principal.token.name': 'laptop',
      'principal.token.group': 'all',
      'principal.groups': ['all'],
      'request.client.address': '10.0.0.7',
      'request.region': 'eu',
      'request.body_bytes': 400,
      'request.max_tokens': 64,
      'request.tool_count': 1,
      'request.message_count': 2,
      'request.input_tokens_estimate': 100,
      'request.input_tokens_max': 400,
      'request.cache.ttl': '5m',
      'cache.requested_ttl': '1h',
      'cache.effective_ttl': '5m',
      'cache.downgraded': true,
      'request.agent': 'main',
      'route.worst_case_nano_usd': 1_500_000_000,
      'route.estimate_nano_usd': 1_500_000_000,
      'spend.reserved_nano_usd': 2_000_000,
      'request.client.name': 'coder-cli',
      'request.client.version': '2.1.0',
      'request.session_id': 'session-1',
      'request.model': 'coder-1',
      'request.alias': 'coder-latest',
      'request.choices': 2,
      'request.image_count': 3,
      'request.stream': true,
      'request.other_models': ['coder-2'],
      'request.service_tier': 'priority',
      'request.speed': 'fast',
      'request.inference_geo': 'us',
      'request.dropped_headers': ['openai-project'],
      'route.upstream': 'main',
      'route.protocol': 'chat',
      'route.upstream_model': 'coder-1-large',
      'route.rule': 'default',
      'route.candidates': ['main', 'spare'],
      'route.dropped': ['other: open'],
      'upstream.status': 200,
      'upstream.attempts': 2,
      'upstream.ttfb_ms': 240.7,
      'upstream.retry': 'stale_socket',
      'upstream.certainty': 'answered',
      'upstream.request_id': 'up-1',
      'usage.input_tokens': 10,
      'usage.output_tokens': 20,
      'usage.cache_read_input_tokens': 3,
      'usage.cache_write_5m_input_tokens': 2,
      'usage.cache_write_1h_input_tokens': 1,
      'usage.cost_nano_usd': 367_650,
      'usage.provenance': { cost: 'estimate' },
      'usage.possibly_billed_nano_usd': 1_000_000,
      'outcome.status': 200,
      'outcome.aborted': false,
      'outcome.drained': true,
      'outcome.duration_ms': 1234.5,
      'outcome.shadow': ['routing:to-spare'],
      'outcome.replaced': { redact: 2 },
      'translation.losses': ['foreign_reasoning'],
    });
    assert.deepEqual(records, [
      {
        at: '2026-03-10T12:00:00.000Z',
        request_id: 'req-1',
        trace_id: TRACE_ID,
        user: 'alice@example.com',
        principal: 'user:alice@example.com',
        token_id: 'tok_1',
        team: 'search',
        project: 'apollo',
        protocol: 'messages',
        method: 'POST',
        path: '/v1/messages',
        model: 'coder-1',
        alias: 'coder-latest',
        choices: 2,
        image_count: 3,
        stream: true,
        other_models: ['coder-2'],
        service_tier: 'priority',
        speed: 'fast',
        inference_geo: 'us',
        dropped_headers: ['openai-project'],
        upstream: 'main',
        upstream_protocol: 'chat',
        upstream_model: 'coder-1-large',
        route_rule: 'default',
        candidates: ['main', 'spare'],
        dropped: ['other: open'],
        spend_rule: null,
        reserved_usd: 0.002,
        unreserved: undefined,
        status: 200,
        upstream_status: 200,
        sends: 2,
        attempts: undefined,
        retry: 'stale_socket',
        certainty: 'answered',
        upstream_request_id: 'up-1',
        error: null,
        stage: null,
        aborted: false,
        drained: true,
        rewrites: [],
        replaced: { redact: 2 },
        losses: ['foreign_reasoning'],
        shadow: ['routing:to-spare'],
        input_tokens: 10,
        output_tokens: 20,
        cache_read_tokens: 3,
        cache_write_5m_tokens: 2,
        cache_write_1h_tokens: 1,
        cost_usd: 0.00036765,
        cost_from: 'estimate',
        possibly_billed_usd: 0.001,
        ttfb_ms: 241,
        duration_ms: 1235,
        client: 'coder-cli',
        client_version: '2.1.0',
        session_id: 'session-1',
        received_at: '2026-03-10T11:59:58.766Z',
        address: '10.0.0.7',
        region: 'eu',
        groups: ['all'],
        token_name: 'laptop',
        token_group: 'all',
        body_bytes: 400,
        max_tokens: 64,
        tool_count: 1,
        message_count: 2,
        input_tokens_estimate: 100,
        input_tokens_max: 400,
        cache_ttl: '5m',
        cache_requested_ttl: '1h',
        cache_effective_ttl: '5m',
        cache_downgraded: true,
        agent: 'main',
        estimate_usd: 1.5,
        worst_case_usd: 1.5,
      },
    ]);
    assert.equal(lines.size, 0);
  });

  it('leaves out what is not known of the inputs of rules, and shadow rules that did not hold', async () => {
    const { audit: records } = await recorded({});
    const text = JSON.stringify(records[0]);
    for (const key of ['shadow', 'cache_effective_ttl', 'cache_downgraded', 'address', 'max_tokens', 'estimate_usd'])
      assert.ok(!text.includes(`"${key}"`), key);
  });

  it('tells every attempt of several, and of one that was not answered', async () => {
    const attemptsOf = async (...attempts: AttemptRecord[]) =>
      (await recorded({}, { table: true }, attempts)).audit[0]!.attempts;
    assert.deepEqual(await attemptsOf(failed(), served(2)), [failed(), served(2)]);
    assert.deepEqual(await attemptsOf(failed()), [failed()]);
    assert.equal(await attemptsOf(served(1)), undefined);
  });

  it('records a refusal with its code, stage and rule', async () => {
    const { audit: records } = await recorded({
      'spend.rule': 'defaults.user_daily_usd',
      'outcome.status': 429,
      'outcome.error': 'spend_limit_exceeded',
      'error.stage': 'check-budget',
      'outcome.rewrites': ['max_tokens'],
    });
    const { error, stage, spend_rule, status, rewrites, user, ...rest } = records[0]!;
    assert.deepEqual(
      { error, stage, spend_rule, status, rewrites, user },
      {
        error: 'spend_limit_exceeded',
        stage: 'check-budget',
        spend_rule: 'defaults.user_daily_usd',
        status: 429,
        rewrites: ['max_tokens'],
        user: null,
      },
    );
    assert.equal(rest.cost_usd, undefined);
  });

  it('writes JSON lines as well, or instead', async () => {
    const both = await recorded({}, { table: true, json_lines: 'audit.jsonl' });
    assert.deepEqual(both.lines.get('audit.jsonl'), both.audit);
    const only = await recorded({}, { table: false, json_lines: '-' });
    assert.equal(only.lines.get('-')?.length, 1);
    assert.equal(only.audit.length, 0);
  });

  it('is refused at load when it would record nothing', () => {
    const problems = audit.check!({ table: false }, stageConfig());
    assert.deepEqual(problems, ['with "table: false" and no "json_lines" nothing is recorded anywhere']);
    assert.deepEqual(audit.check!({ table: true }, stageConfig()), []);
  });
});
