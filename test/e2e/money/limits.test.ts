/** Every kind of limit through the real gateway: what it lets through, what it refuses, and what callers are told. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import {
  answerBytes,
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { keepRequests } from '../streams/kept-requests.ts';
import { ask, bearer, messagesBody, open, type Response, send } from '../support/client.ts';
import { auditRecord, nothingReserved } from '../support/state.ts';
import { answerDollar, DOLLAR_TOKENS, dollarModel } from './dollar-models.ts';

const UNIFIED = 'vendor-ratelimit-unified-';

/** It goes on only where a test says so: no test sees two minutes. */
const clock = frozenClock('2026-11-25T10:00:00Z');
let upstream: ScriptedUpstream;
const gateways: TestGateway[] = [];

async function boot(spend_limits: object): Promise<TestGateway> {
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    clock,
    config: {
      models: [dollarModel('coder-1'), dollarModel('coder-2')],
      token_groups: ['all', 'contractors'].map((name) => ({ name, models: ['*'] })),
      spend_limits: { reserve: 'worst_case', ...spend_limits },
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

function told({ headers }: Response): Record<string, unknown> {
  const ours = Object.entries(headers).filter(([name]) => name.startsWith(UNIFIED));
  return Object.fromEntries(ours.map(([name, value]) => [name.slice(UNIFIED.length), value]));
}

describe('requests at once', () => {
  const limits = { rules: [{ name: 'parallel', scope: ['user', 'model'], concurrency: 3 }] };

  test('no more are forwarded than the limit says, and each that ends makes room for one', async () => {
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

  test('one that the client gave up makes room, too', async () => {
    const gateway = await boot({ rules: [{ name: 'single', scope: 'user', concurrency: 1 }] });
    upstream.script = () => {};
    const { abort } = open(gateway.url, {
      headers: bearer(gateway.token),
      body: messagesBody({ max_tokens: 1000 }),
    });
    await upstream.arrived(1);
    assert.equal((await dollar(gateway)).status, 429);
    abort();
    upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 1 }));
    let is_served = false;
    const served = until('there is room', async () => (await dollar(gateway)).status === 200).then(() => {
      is_served = true;
    });
    // The answer that nobody waits for may be read on for a second.
    await until('it is served', () => {
      clock.advance(1000);
      return is_served;
    });
    await served;
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

test('counting tokens goes on under a limit that was set below what is spent already', async () => {
  const gateway = await boot({ defaults: { user_daily_usd: 5 } });
  assert.equal(await next(gateway), 'ok');
  await nothingReserved(gateway.database);
  await gateway.database.knex('limit_settings').insert({
    ...{ scope: 'user', key: 'dev@example.com', window_kind: 'day', unit: 'nano_usd', amount: 500_000_000 },
    ...{ set_at: new Date(clock.now()), set_by: 'test' },
  });
  assert.equal(await next(gateway), 'defaults.user_daily_usd');
  const path = '/v1/messages/count_tokens';
  const counted = await send(gateway.url, { path, headers: bearer(gateway.token), body: messagesBody() });
  assert.equal(counted.status, 200, counted.text);
});

describe('by the minute', () => {
  test('no more requests are forwarded than the limit says, whether they succeed or not', async () => {
    const gateway = await boot({ rules: [{ name: 'rpm', scope: 'user', requests_per_minute: 5 }] });
    const answers = await Promise.all(Array.from({ length: 20 }, () => dollar(gateway)));
    const [sent, refused] = [200, 429].map((status) => answers.filter((each) => each.status === status));
    assert.deepEqual([sent!.length, refused!.length, upstream.requests.length], [5, 15, 5]);
    const { error } = refused![0]!.json();
    const patience = 60 - Math.floor((clock.now() % 60_000) / 1000);
    assert.equal(refused![0]!.headers['retry-after'], String(patience));
    assert.match(
      error.message,
      /^The limit of 5 requests per minute for user .* try again in \d+ seconds?\. Spend rule /,
    );
    assert.equal(await next(gateway), 'rpm');
    clock.advance(60_000);
    assert.equal(await next(gateway), 'ok');
  });

  test('tokens count as what is likely at first and as what was used in the end', async () => {
    const gateway = await boot({ rules: [{ name: 'tpm', scope: 'user', tokens_per_minute: 2400 }] });
    upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 100 }));
    for (let i = 0; i < 4; i++) assert.equal(await next(gateway), 'ok');
    upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 1000 }));
    assert.deepEqual([await next(gateway), await next(gateway)], ['ok', 'tpm']);
    const oversized = await ask(gateway.url, gateway.token, { max_tokens: 9000 });
    assert.deepEqual([oversized.status, oversized.headers['x-should-retry']], [400, 'false']);
  });
});

describe('money', () => {
  test('is limited by week, by combination and by group, each by itself', async () => {
    const gateway = await boot({
      defaults: { user_weekly_usd: 4, token_daily_usd: 3 },
      rules: [
        { name: 'pair', scope: ['user', 'model'], window: 'month', limit_usd: 2 },
        { name: 'groups', scope: 'user', window: 'day', limit_usd_by_group: { contractors: 1 } },
      ],
    });
    assert.deepEqual([await next(gateway), await next(gateway), await next(gateway)], ['ok', 'ok', 'pair']);
    assert.equal(await next(gateway, gateway.token, 'coder-2'), 'ok');
    assert.equal(await next(gateway, gateway.token, 'coder-2'), 'defaults.token_daily_usd');
    const other = await gateway.newToken({ name: 'other' });
    assert.deepEqual([await next(gateway, other, 'coder-2'), await next(gateway, other, 'coder-2')], ['ok', 'pair']);
    const contractor = await gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
    assert.deepEqual([await next(gateway, contractor), await next(gateway, contractor)], ['ok', 'groups']);
  });

  test('with several limits exceeded, the one that resets last is told first and all are listed', async () => {
    const gateway = await boot({
      defaults: { user_daily_usd: 0.5, user_monthly_usd: 0.5 },
      rules: [{ name: 'parallel', scope: 'user', concurrency: 1 }],
      advice: 'Ask in #ai-platform.',
    });
    const { error } = (await dollar(gateway)).json();
    assert.equal(error.rule, 'defaults.user_monthly_usd');
    assert.deepEqual(
      error.exceeded.map(({ rule }: { rule: string }) => rule),
      ['defaults.user_monthly_usd', 'defaults.user_daily_usd'],
    );
    assert.match(error.message, /\. Ask in #ai-platform\. Spend rule /);
  });
});

describe('what a caller is told', () => {
  test('on every answer how its limits stand, instead of what the upstream says about its own', async () => {
    const gateway = await boot({ defaults: { user_daily_usd: 4, user_monthly_usd: 1000 } });
    upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 1000 }), 200, {
      'vendor-ratelimit-unified-status': 'rejected',
      'Vendor-RateLimit-Requests-Remaining': '3',
    });
    const answers: Record<string, unknown>[] = [];
    for (let i = 0; i < 4; i++) {
      await nothingReserved(gateway.database);
      const answer = await dollar(gateway);
      assert.equal(answer.headers['vendor-ratelimit-requests-remaining'], undefined);
      answers.push(told(answer));
    }
    assert.deepEqual(
      answers.map((each) => [each.status, each['overage-utilization'], each['overage-surpassed-threshold']]),
      [
        ['allowed', '0.25', undefined],
        ['allowed', '0.50', undefined],
        ['allowed_warning', '0.75', '0.75'],
        ['allowed_warning', '0.99', '0.95'],
      ],
    );
    await nothingReserved(gateway.database);
    const refused = await dollar(gateway);
    const midnight = Date.parse(refused.json().error.resets_at) / 1000;
    assert.deepEqual(told(refused), {
      status: 'rejected',
      reset: String(midnight),
      'overage-reset': String(midnight),
      'overage-utilization': '1',
      'overage-surpassed-threshold': '1',
      'overage-period': 'daily',
      'overage-disabled-reason': 'org_spend_cap_reached',
    });
    assert.equal(answers[0]!.reset, String(midnight));
  });

  test('without a limit nothing, and what the upstream says when it refuses is passed on', async () => {
    const gateway = await boot({});
    const from_upstream = { 'content-type': 'application/json', 'vendor-ratelimit-unified-status': 'rejected' };
    upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 1 }), 200, from_upstream);
    assert.deepEqual(told(await dollar(gateway)), {});
    upstream.script = answerBytes(429, from_upstream, '{"type":"error","error":{}}');
    assert.deepEqual(told(await dollar(gateway)), { status: 'rejected' });
  });

  test('when it asks, what it has spent and which limits it comes under', async () => {
    const gateway = await boot({ defaults: { user_daily_usd: 4, user_monthly_usd: 100, team_monthly_usd: 50 } });
    const ada = await gateway.newToken({ user: 'ada@example.com', team: 'search' });
    const usage = async (token: string) => {
      const answer = await send(gateway.url, { method: 'GET', path: '/api/oauth/usage', headers: bearer(token) });
      assert.equal(answer.status, 200, answer.text);
      const { extra_usage, limits } = answer.json();
      return { extra_usage, limits: limits.map((each: Record<string, unknown>) => [each.rule, each.percent]) };
    };
    assert.deepEqual((await usage(ada)).limits, [
      ['defaults.user_daily_usd', 0],
      ['defaults.team_monthly_usd', 0],
      ['defaults.user_monthly_usd', 0],
    ]);
    await dollar(gateway, ada);
    await dollar(gateway);
    await nothingReserved(gateway.database);
    const { extra_usage, limits } = await usage(ada);
    assert.deepEqual(limits, [
      ['defaults.user_daily_usd', 25],
      ['defaults.team_monthly_usd', 2],
      ['defaults.user_monthly_usd', 1],
    ]);
    const { daily } = extra_usage;
    assert.deepEqual([daily.limit, daily.used_credits, daily.utilization], [400, 100, 25]);
    assert.deepEqual([extra_usage.monthly_limit, extra_usage.used_credits, extra_usage.currency], [400, 100, 'USD']);
    assert.equal((await send(gateway.url, { method: 'GET', path: '/api/oauth/usage', headers: [] })).status, 401);
  });

  test('when it asks without having a limit, what it has spent this month all the same', async () => {
    const gateway = await boot({});
    await dollar(gateway);
    await nothingReserved(gateway.database);
    const path = '/api/oauth/usage';
    const { extra_usage, limits } = (
      await send(gateway.url, { method: 'GET', path, headers: bearer(gateway.token) })
    ).json();
    assert.deepEqual([limits, extra_usage.monthly_limit, extra_usage.utilization], [[], null, null]);
    assert.deepEqual(
      [extra_usage.used_credits, extra_usage.weekly.used_credits, extra_usage.daily.used_credits],
      [100, 100, 100],
    );
  });
});

test('a typical reservation lets more through at once than the worst case would, and none that could pass the bound', async () => {
  const gateway = await boot({ defaults: { user_daily_usd: 100 }, reserve: 'typical', overshoot_percent: 10 });
  // What is typical is known from twenty requests on.
  upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 10 }));
  const askLittle = async () => (await ask(gateway.url, gateway.token, { max_tokens: 1000 })).status;
  for (let i = 0; i < 20; i++) assert.equal(await askLittle(), 200);
  await nothingReserved(gateway.database);
  // What the database has settled the gateway has heard of by the time it holds money again.
  assert.equal(await askLittle(), 200);
  await nothingReserved(gateway.database);
  const { letGo } = keepRequests(upstream, answerDollar);
  const all = Array.from({ length: 8 }, () => ask(gateway.url, gateway.token, { max_tokens: 20_000 }));
  const statuses: number[] = [];
  for (const each of all) void each.then(({ status }) => statuses.push(status));
  await until('those without room are refused', () => statuses.length >= 3);
  assert.deepEqual(statuses, [429, 429, 429], 'five times 20 dollars fit into 110, and no sixth');
  await letGo(5);
  await Promise.all(all);
  await nothingReserved(gateway.database);
});
