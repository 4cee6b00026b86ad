import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ask } from '../support/client.ts';
import { auditRecord, nothingReserved } from '../support/state.ts';
import { answerDollar, DOLLAR_TOKENS, dollarModel } from './dollar-models.ts';

const USD = 1_000_000_000;

let upstream: ScriptedUpstream;
const gateways: TestGateway[] = [];

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

async function boot(rules: readonly object[], defaults: object = {}): Promise<TestGateway> {
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    config: {
      models: [dollarModel('coder-1'), dollarModel('coder-2')],
      token_groups: ['all', 'contractors'].map((name) => ({ name, models: ['*'] })),
      spend_limits: { defaults, reserve: 'worst_case', rules },
      rules: { 'is-contractor': { in: ['contractors', { var: 'principal.groups' }] } },
    },
  });
  gateways.push(gateway);
  return gateway;
}

/** Spends a dollar, or is refused by the rule that is returned. */
async function dollar(gateway: TestGateway, token: string, model = 'coder-1'): Promise<string> {
  const response = await ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS, model });
  if (response.status === 200) return 'spent';
  const { error } = response.json();
  assert.deepEqual([response.status, error.code], [429, 'spend_limit_exceeded'], response.text);
  assert.ok(error.message.includes(`Spend rule ${error.rule}`), error.message);
  return `${error.rule}: ${error.scope} ${error.window} ${error.limit_usd}`;
}

/** Spends dollars one after the other and tells what happened to each. */
async function dollars(gateway: TestGateway, token: string, count: number, model?: string): Promise<string[]> {
  const results: string[] = [];
  while (results.length < count) results.push(await dollar(gateway, token, model));
  return results;
}

async function spent(gateway: TestGateway): Promise<Record<string, number>> {
  await nothingReserved(gateway.database);
  const rows: Record<string, unknown>[] = await gateway.database.knex('spend_counters').select('*');
  const name = (row: Record<string, unknown>) => `${row.scope} ${row.key} ${row.window_kind}`;
  return Object.fromEntries(rows.map((row) => [name(row), Number(row.spent) / USD]));
}

test('a rule limits those it is for beside the limit of everybody, and the refusal names it', async () => {
  const rule = { name: 'contractors', when: { rule: 'is-contractor' }, scope: 'user', window: 'day', limit_usd: 2 };
  const gateway = await boot([rule], { user_daily_usd: 3 });
  const contractor = await gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
  const refused = 'contractors: user day 2';
  assert.deepEqual(await dollars(gateway, contractor, 3), ['spent', 'spent', refused]);
  const everybody = 'defaults.user_daily_usd: user day 3';
  assert.deepEqual(await dollars(gateway, gateway.token, 4), ['spent', 'spent', 'spent', everybody]);
});

test('what others spend counts against the limit of a model, and only those the rule is for are refused', async () => {
  const rule = { name: 'share', when: { rule: 'is-contractor' }, scope: 'model', window: 'month', limit_usd: 2 };
  const gateway = await boot([rule]);
  const contractor = await gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
  assert.deepEqual(await dollars(gateway, gateway.token, 2), ['spent', 'spent']);
  assert.equal(await dollar(gateway, contractor), 'share: model month 2');
  assert.equal(await dollar(gateway, contractor, 'coder-2'), 'spent');
  assert.equal(await dollar(gateway, gateway.token), 'spent');
  assert.deepEqual(await spent(gateway), {
    'user dev@example.com day': 3,
    'user cy@example.com day': 1,
    'model coder-1 month': 3,
    'model coder-2 month': 1,
  });
});

test('a request over the limit of its model is refused, and sent neither as it is nor to a model that has room', async () => {
  const gateway = await boot([{ name: 'expensive', scope: 'model', window: 'day', limit_usd: 1 }]);
  assert.deepEqual(await dollars(gateway, gateway.token, 2), ['spent', 'expensive: model day 1']);
  assert.deepEqual(
    upstream.requests.map(({ body }) => JSON.parse(body.toString()).model),
    ['coder-1'],
  );
  assert.equal(await dollar(gateway, gateway.token, 'coder-2'), 'spent');
});

test('projects and upstreams have limits too, and who has no project is under none of a project', async () => {
  const gateway = await boot([
    { name: 'per-project', scope: 'project', window: 'day', limit_usd: 1 },
    { name: 'provider', scope: 'upstream', window: 'day', limit_usd: 4 },
  ]);
  const apollo = await gateway.newToken({ user: 'ann@example.com', project: 'apollo' });
  const gemini = await gateway.newToken({ user: 'ann@example.com', project: 'gemini' });
  assert.deepEqual(await dollars(gateway, apollo, 2), ['spent', 'per-project: project day 1']);
  assert.deepEqual(await dollars(gateway, gemini, 1), ['spent']);
  assert.deepEqual(await dollars(gateway, gateway.token, 3), ['spent', 'spent', 'provider: upstream day 4']);
});

test('of 60 concurrent requests of many users against a model with room for 10, exactly 10 are forwarded', async () => {
  const rules = [
    { name: 'roomy', scope: 'model', window: 'day', limit_usd: 12 },
    { name: 'tight', scope: 'model', window: 'day', limit_usd: 10 },
  ];
  const gateway = await boot(rules, { user_daily_usd: 50 });
  const users = ['ann', 'bob', 'cy', 'dee'].map((name) => gateway.newToken({ user: `${name}@example.com` }));
  const tokens = await Promise.all(users);
  const results = await Promise.all(Array.from({ length: 60 }, (_, i) => dollar(gateway, tokens[i % 4]!)));
  assert.equal(results.filter((result) => result === 'spent').length, 10);
  assert.deepEqual([...new Set(results)].toSorted(), ['spent', 'tight: model day 10']);
  assert.equal(upstream.requests.length, 10);
  assert.equal((await spent(gateway))['model coder-1 day'], 10);
});

test('a rule in shadow mode refuses nobody, and audit rows say whom it would have refused', async () => {
  const trial = { name: 'trial', scope: 'user', window: 'day', limit_usd: 1, mode: 'shadow' };
  const gateway = await boot([trial], { user_daily_usd: 2 });
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
