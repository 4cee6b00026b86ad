import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AttemptRecord } from '../../engine/api.ts';
import { FACTS } from '../../engine/base/contract/facts.ts';
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

const VALUES = { string: 'text', number: 7, boolean: true, strings: ['one', 'two'], object: { one: 1 } };
/** Facts that a record shows in another form. */
const CONVERTED: Readonly<Record<string, readonly [value: unknown, shown: unknown]>> = {
  'request.received_at': [NOON - 1234, '2026-03-10T11:59:58.766Z'],
  'upstream.ttfb_ms': [240.7, 241],
  'outcome.duration_ms': [1234.5, 1235],
  'route.worst_case_nano_usd': [1_500_000_000, 1.5],
  'route.estimate_nano_usd': [1_500_000_000, 1.5],
  'spend.reserved_nano_usd': [2_000_000, 0.002],
  'usage.cost_nano_usd': [367_650, 0.00036765],
  'usage.possibly_billed_nano_usd': [1_000_000, 0.001],
};
/** Each fact with a field in records: its value, the field and what that shows. */
const FIELDS = Object.entries(FACTS).flatMap(([path, { record, kind }]) => {
  const value = VALUES[kind];
  const [given, shown] = CONVERTED[path] ?? [value, value];
  return record === undefined ? [] : [{ path, given, record, shown }];
});

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
    const { audit: records, lines } = await recorded({
      ...Object.fromEntries(FIELDS.map(({ path, given }) => [path, given])),
      'cache.downgraded': true,
      'cache.effective_ttl': '5m',
      'usage.provenance': { cost: 'estimate' },
    });
    assert.deepEqual(JSON.parse(JSON.stringify(records)), [
      {
        ...Object.fromEntries(FIELDS.map(({ record, shown }) => [record, shown])),
        at: '2026-03-10T12:00:00.000Z',
        trace_id: TRACE_ID,
        cache_downgraded: true,
        cache_effective_ttl: '5m',
        cost_from: 'estimate',
      },
    ]);
    const names = FIELDS.map(({ record }) => record);
    for (const name of ['user', 'team', 'token_id', 'model', 'upstream', 'spend_rule', 'cost_usd', 'status', 'error'])
      assert.ok(names.includes(name), name);
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
