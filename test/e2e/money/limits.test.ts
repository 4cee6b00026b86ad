/** Every kind of limit through the real gateway: what it admits, what it rejects, and what callers see. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { keepRequests } from '../streams/kept-requests.ts';
import { ask, bearer, messagesBody, send } from '../support/client.ts';
import { auditRecord, nothingReserved } from '../support/state.ts';
import { answerDollar, DOLLAR_TOKENS, dollarModel } from './dollar-models.ts';

/** It moves only on a test's command: no test sees two minutes. */
const clock = frozenClock('2026-11-25T10:00:00Z');
let upstream: ScriptedUpstream;
const USD = 1_000_000_000;
const gateways: TestGateway[] = [];

async function boot(spend_limits: object): Promise<TestGateway> {
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    clock,
    config: {
      models: [dollarModel('coder-1'), dollarModel('coder-2')],
      token_groups: ['all', 'contractors'].map((name) => ({ name, models: ['*'] })),
      spend_limits: { reserve: 'worst_case', ...spend_limits },
      rules: { 'is-contractor': { in: ['contractors', { var: 'principal.groups' }] } },
    },
  });
  gateways.push(gateway);
  return gateway;
}

before(async () => {
  upstream = await startUpstream();
});
after(async () => {
  for (const gateway of gateways) await gateway.close();
  await upstream?.close();
});
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.script = answerDollar;
});

const dollar = (gateway: TestGateway, token = gateway.token, model = 'coder-1') =>
  ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS, model });

/** Sends a request once everything before it is settled. */
async function next(gateway: TestGateway, token?: string, model?: string): Promise<string> {
  await nothingReserved(gateway.database);
  const response = await dollar(gateway, token, model);
  return response.status === 200 ? 'ok' : response.json().error.rule;
}

describe('requests at once', () => {
  const limits = { rules: [{ name: 'parallel', scope: ['user', 'model'], concurrency: 3 }] };

  test('forwards no more than the limit, and each finished one frees a slot', async () => {
    const gateway = await boot(limits);
    const { letGo } = keepRequests(upstream, answerDollar);
    const first = Array.from({ length: 3 }, () => dollar(gateway));
    await upstream.arrived(3);
    const refused = await Promise.all(Array.from({ length: 20 }, () => dollar(gateway)));
    for (const response of refused) {
      const { error } = response.json();
      assert.deepEqual([response.status, error.type, error.code], [429, 'rate_limit_error', 'rate_limit_exceeded']);
      assert.deepEqual([error.limit, error.unit, error.window, error.in_flight], [3, 'requests', 'open', 3]);
      assert.deepEqual([response.headers['retry-after'], response.headers['x-should-retry']], ['3', 'true']);
      assert.match(
        error.message,
        /3 requests at once for user dev@example.com and model coder-1 is reached.*Spend rule parallel: 3 requests/,
      );
    }
    const elsewhere = dollar(gateway, gateway.token, 'coder-2');
    await upstream.arrived(4);
    await letGo(4);
    await Promise.all([...first, elsewhere]);
    await nothingReserved(gateway.database);
    upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 1 }));
    assert.deepEqual([await next(gateway), await next(gateway)], ['ok', 'ok']);
    const { record } = await auditRecord(gateway.database, String(refused[0]!.headers['x-gateway-request-id']));
    const { error, spend_rule } = record as Record<string, unknown>;
    assert.deepEqual([error, spend_rule], ['rate_limit_exceeded', 'parallel']);
  });

  test('counting tokens is a request like any other', async () => {
    const gateway = await boot({ rules: [{ name: 'single', scope: 'user', concurrency: 1 }] });
    const { letGo } = keepRequests(upstream, answerDollar);
    const first = dollar(gateway);
    await upstream.arrived(1);
    const counted = await send(gateway.url, {
      path: '/v1/messages/count_tokens',
      headers: bearer(gateway.token),
      body: messagesBody(),
    });
    assert.equal(counted.status, 429, counted.text);
    await letGo(1);
    await first;
  });
});

test('counting tokens continues under a limit below the spent amount', async () => {
  const gateway = await boot({ defaults: { user_daily_usd: 5 } });
  assert.equal(await next(gateway), 'ok');
  await nothingReserved(gateway.database);
  await gateway.database.knex('limit_settings').insert({
    ...{ scope: 'user', key: 'dev@example.com', window_kind: 'day', unit: 'nano_usd', amount: 500_000_000 },
    ...{ set_at: new Date(clock.now()), set_by: 'test' },
  });
  assert.equal(await next(gateway), 'set at run time');
  const path = '/v1/messages/count_tokens';
  const counted = await send(gateway.url, { path, headers: bearer(gateway.token), body: messagesBody() });
  assert.equal(counted.status, 200, counted.text);
});

describe('by the minute', () => {
  test('forwards no more requests than the limit, whether they succeed or not', async () => {
    const gateway = await boot({ rules: [{ name: 'rpm', scope: 'user', requests_per_minute: 5 }] });
    const responses = await Promise.all(Array.from({ length: 20 }, () => dollar(gateway)));
    const [sent, refused] = [200, 429].map((status) => responses.filter((each) => each.status === status));
    assert.deepEqual([sent!.length, refused!.length, upstream.requests.length], [5, 15, 5]);
    const { error } = refused![0]!.json();
    const wait_seconds = 60 - Math.floor((clock.now() % 60_000) / 1000);
    assert.equal(refused![0]!.headers['retry-after'], String(wait_seconds));
    assert.match(
      error.message,
      /^This request would exceed the limit of 5 requests per minute for user .* try again in \d+ seconds?\. Spend rule /,
    );
    assert.equal(await next(gateway), 'rpm');
    clock.advance(60_000);
    assert.equal(await next(gateway), 'ok');
  });

  test('tokens count as the estimate at first and as the usage in the end', async () => {
    const gateway = await boot({ rules: [{ name: 'tpm', scope: 'user', tokens_per_minute: 2400 }] });
    upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 100 }));
    for (let i = 0; i < 4; i++) assert.equal(await next(gateway), 'ok');
    upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 1000 }));
    assert.deepEqual([await next(gateway), await next(gateway)], ['ok', 'tpm']);
    const oversized = await ask(gateway.url, gateway.token, { max_tokens: 9000 });
    assert.deepEqual([oversized.status, oversized.headers['x-should-retry']], [429, 'false']);
  });
});

/** Spends a dollar, or is refused by the rule that is returned. */
async function spend(gateway: TestGateway, token: string, model = 'coder-1'): Promise<string> {
  const response = await dollar(gateway, token, model);
  if (response.status === 200) return 'spent';
  const { error } = response.json();
  assert.deepEqual([response.status, error.code], [429, 'spend_limit_exceeded'], response.text);
  assert.ok(error.message.includes(`Spend rule ${error.rule}`), error.message);
  return `${error.rule}: ${error.scope} ${error.window} ${error.limit_usd}`;
}

/** Spends dollars one after the other and returns what happened to each. */
async function dollars(gateway: TestGateway, token: string, count: number, model?: string): Promise<string[]> {
  const results: string[] = [];
  while (results.length < count) results.push(await spend(gateway, token, model));
  return results;
}

async function spent(gateway: TestGateway): Promise<Record<string, number>> {
  await nothingReserved(gateway.database);
  const rows: Record<string, unknown>[] = await gateway.database.knex('spend_counters').select('*');
  const name = (row: Record<string, unknown>) => `${row.scope} ${row.key} ${row.window_kind}`;
  return Object.fromEntries(rows.map((row) => [name(row), Number(row.spent) / USD]));
}

test('a rule limits its callers beside the general limit, and the rejection names it', async () => {
  const rule = { name: 'contractors', when: { rule: 'is-contractor' }, scope: 'user', window: 'day', limit_usd: 2 };
  const gateway = await boot({ rules: [rule], defaults: { user_daily_usd: 3 } });
  const contractor = await gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
  const refused = 'contractors: user day 2';
  assert.deepEqual(await dollars(gateway, contractor, 3), ['spent', 'spent', refused]);
  const general = 'defaults.user_daily_usd: user day 3';
  assert.deepEqual(await dollars(gateway, gateway.token, 4), ['spent', 'spent', 'spent', general]);
});

test("other users' spending counts against a model's limit, and only the rule's callers are rejected", async () => {
  const rule = { name: 'share', when: { rule: 'is-contractor' }, scope: 'model', window: 'month', limit_usd: 2 };
  const gateway = await boot({ rules: [rule] });
  const contractor = await gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
  assert.deepEqual(await dollars(gateway, gateway.token, 2), ['spent', 'spent']);
  assert.equal(await spend(gateway, contractor), 'share: model month 2');
  assert.equal(await spend(gateway, contractor, 'coder-2'), 'spent');
  assert.equal(await spend(gateway, gateway.token), 'spent');
  assert.deepEqual(await spent(gateway), {
    'user dev@example.com day': 3,
    'user cy@example.com day': 1,
    'model coder-1 month': 3,
    'model coder-2 month': 1,
  });
});

test('a request over the limit of its model is rejected, and sent to no model with headroom either', async () => {
  const gateway = await boot({ rules: [{ name: 'expensive', scope: 'model', window: 'day', limit_usd: 1 }] });
  assert.deepEqual(await dollars(gateway, gateway.token, 2), ['spent', 'expensive: model day 1']);
  assert.deepEqual(
    upstream.requests.map(({ body }) => JSON.parse(body.toString()).model),
    ['coder-1'],
  );
  assert.equal(await spend(gateway, gateway.token, 'coder-2'), 'spent');
});

test('a rule in shadow mode refuses nobody, and audit rows say whom it would have refused', async () => {
  const trial = { name: 'trial', scope: 'user', window: 'day', limit_usd: 1, mode: 'shadow' };
  const gateway = await boot({ rules: [trial], defaults: { user_daily_usd: 2 } });
  const shadows: unknown[] = [];
  for (let round = 0; round < 3; round++) {
    const response = await ask(gateway.url, gateway.token, { max_tokens: DOLLAR_TOKENS });
    const { record } = await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']));
    const { shadow, spend_rule } = record as { shadow?: string[]; spend_rule: string | null };
    shadows.push([response.status, shadow, spend_rule]);
  }
  assert.deepEqual(shadows, [
    [200, undefined, null],
    [200, ['spend:trial'], null],
    [429, undefined, 'defaults.user_daily_usd'],
  ]);
});
