import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AttemptRecord } from '../../engine/api.ts';
import { type Facts, openStage, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
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
  ctx.attempted.records = attempts;
  await stage.hooks.finally!(ctx);
  assert.ok(!JSON.stringify([stage.audit, [...stage.lines]]).includes(secret));
  return stage;
}

/** Facts of a request, each with the column of its record, and the value there where that differs. */
const COLUMNS: readonly (readonly [fact: string, value: unknown, column: string, shown?: unknown])[] = [
  ['principal.id', 'user:alice@example.com', 'principal'],
  ['principal.email', 'alice@example.com', 'user'],
  ['principal.team', 'search', 'team'],
  ['principal.project', 'apollo', 'project'],
  ['principal.token.id', 'tok_1', 'token_id'],
  ['principal.token.name', 'laptop', 'token_name'],
  ['principal.token.group', 'all', 'token_group'],
  ['principal.groups', ['all'], 'groups'],
  ['request.client.address', '10.0.0.7', 'address'],
  ['request.region', 'eu', 'region'],
  ['request.body_bytes', 400, 'body_bytes'],
  ['request.max_tokens', 64, 'max_tokens'],
  ['request.tool_count', 1, 'tool_count'],
  ['request.message_count', 2, 'message_count'],
  ['request.input_tokens_estimate', 100, 'input_tokens_estimate'],
  ['request.input_tokens_max', 400, 'input_tokens_max'],
  ['request.cache.ttl', '5m', 'cache_ttl'],
  ['cache.requested_ttl', '1h', 'cache_requested_ttl'],
  ['cache.effective_ttl', '5m', 'cache_effective_ttl'],
  ['cache.downgraded', true, 'cache_downgraded'],
  ['request.agent', 'main', 'agent'],
  ['route.worst_case_nano_usd', 1_500_000_000, 'worst_case_usd', 1.5],
  ['route.estimate_nano_usd', 1_500_000_000, 'estimate_usd', 1.5],
  ['spend.reserved_nano_usd', 2_000_000, 'reserved_usd', 0.002],
  ['request.client.name', 'coder-cli', 'client'],
  ['request.client.version', '2.1.0', 'client_version'],
  ['request.session_id', 'session-1', 'session_id'],
  ['request.model', 'coder-1', 'model'],
  ['request.alias', 'coder-latest', 'alias'],
  ['request.choices', 2, 'choices'],
  ['request.image_count', 3, 'image_count'],
  ['request.stream', true, 'stream'],
  ['request.other_models', ['coder-2'], 'other_models'],
  ['request.service_tier', 'priority', 'service_tier'],
  ['request.speed', 'fast', 'speed'],
  ['request.inference_geo', 'us', 'inference_geo'],
  ['request.dropped_headers', ['openai-project'], 'dropped_headers'],
  ['route.upstream', 'main', 'upstream'],
  ['route.protocol', 'chat', 'upstream_protocol'],
  ['route.upstream_model', 'coder-1-large', 'upstream_model'],
  ['route.rule', 'default', 'route_rule'],
  ['route.candidates', ['main', 'spare'], 'candidates'],
  ['route.dropped', ['other: open'], 'dropped'],
  ['upstream.status', 200, 'upstream_status'],
  ['upstream.attempts', 2, 'sends'],
  ['upstream.ttfb_ms', 240.7, 'ttfb_ms', 241],
  ['upstream.retry', 'stale_socket', 'retry'],
  ['upstream.certainty', 'answered', 'certainty'],
  ['upstream.request_id', 'up-1', 'upstream_request_id'],
  ['usage.input_tokens', 10, 'input_tokens'],
  ['usage.output_tokens', 20, 'output_tokens'],
  ['usage.cache_read_input_tokens', 3, 'cache_read_tokens'],
  ['usage.cache_write_5m_input_tokens', 2, 'cache_write_5m_tokens'],
  ['usage.cache_write_1h_input_tokens', 1, 'cache_write_1h_tokens'],
  ['usage.cost_nano_usd', 367_650, 'cost_usd', 0.00036765],
  ['usage.provenance', { cost: 'estimate' }, 'cost_from', 'estimate'],
  ['usage.possibly_billed_nano_usd', 1_000_000, 'possibly_billed_usd', 0.001],
  ['outcome.status', 200, 'status'],
  ['outcome.aborted', false, 'aborted'],
  ['outcome.drained', true, 'drained'],
  ['outcome.duration_ms', 1234.5, 'duration_ms', 1235],
  ['outcome.shadow', ['routing:to-spare'], 'shadow'],
  ['outcome.replaced', { redact: 2 }, 'replaced'],
  ['translation.losses', ['foreign_reasoning'], 'losses'],
];

describe('audit', () => {
  it('records that a request sent during a database outage has no reservation', async () => {
    const { audit: records } = await recorded({ 'spend.reserved_nano_usd': 0, 'spend.unreserved': true });
    assert.deepEqual([records[0]!.reserved_usd, records[0]!.unreserved], [0, true]);
  });

  it('truncates an overlong model identifier', async () => {
    const { audit: records } = await recorded({ 'request.model': `coder${'x'.repeat(1_000_000)}` });
    assert.equal(records[0]!.model, `coder${'x'.repeat(195)}`);
  });

  it('records the caller, the request, the deciding rules and the outcome', async () => {
    const { audit: records, lines } = await recorded(Object.fromEntries(COLUMNS));
    assert.deepEqual(JSON.parse(JSON.stringify(records)), [
      {
        ...Object.fromEntries(COLUMNS.map(([, value, column, shown = value]) => [column, shown])),
        at: '2026-03-10T12:00:00.000Z',
        request_id: 'req-1',
        trace_id: TRACE_ID,
        protocol: 'messages',
        method: 'POST',
        path: '/v1/messages',
        spend_rule: null,
        error: null,
        stage: null,
        rewrites: [],
        received_at: '2026-03-10T11:59:58.766Z',
      },
    ]);
    assert.equal(lines.size, 0);
  });

  it('omits unknown facts of rules, and shadow rules that did not match', async () => {
    const { audit: records } = await recorded({});
    const text = JSON.stringify(records[0]);
    for (const key of ['shadow', 'cache_effective_ttl', 'cache_downgraded', 'address', 'max_tokens', 'estimate_usd'])
      assert.ok(!text.includes(`"${key}"`), key);
  });

  it('records every attempt of several, and a single one without a response', async () => {
    const attemptsOf = async (...attempts: AttemptRecord[]) =>
      (await recorded({}, { table: true }, attempts)).audit[0]!.attempts;
    assert.deepEqual(await attemptsOf(failed(), served(2)), [failed(), served(2)]);
    assert.deepEqual(await attemptsOf(failed()), [failed()]);
    assert.equal(await attemptsOf(served(1)), undefined);
  });

  it('records a rejection with its code, stage and rule', async () => {
    const { audit: records } = await recorded({
      'spend.rule': 'defaults.user_daily_usd',
      'outcome.status': 429,
      'outcome.error': 'spend_limit_exceeded',
      'error.stage': 'check-budget',
      'outcome.rewrites': ['max_tokens'],
    });
    const { error, stage, spend_rule, status, rewrites, user, cost_usd } = records[0]!;
    assert.deepEqual([error, stage, spend_rule], ['spend_limit_exceeded', 'check-budget', 'defaults.user_daily_usd']);
    assert.deepEqual([status, rewrites, user, cost_usd], [429, ['max_tokens'], null, undefined]);
  });

  it('writes JSON lines as well, or instead', async () => {
    const both = await recorded({}, { table: true, json_lines: 'audit.jsonl' });
    assert.deepEqual(both.lines.get('audit.jsonl'), both.audit);
    const only = await recorded({}, { table: false, json_lines: '-' });
    assert.equal(only.lines.get('-')?.length, 1);
    assert.equal(only.audit.length, 0);
  });

  it('is rejected at load when it would record nothing', () => {
    const problems = audit.check!({ table: false }, stageConfig());
    assert.deepEqual(problems, ['`table: false` without `json_lines` records nothing: set one of them']);
    assert.deepEqual(audit.check!({ table: true }, stageConfig()), []);
  });
});
