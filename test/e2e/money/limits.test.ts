/** Every kind of limit through the real gateway: what it admits, what it rejects, and how callers and administrators see it. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Clock, CounterName } from '../../../engine/api.ts';
import { frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import type { Changing } from '../../../engine/domain/audit/admin-changes.ts';
import { nameCounted } from '../../../engine/domain/budget/limits/limit-names.ts';
import { clearLimit, grantLimit, revokeGrant, setLimit } from '../../../engine/domain/budget/limits/limit-settings.ts';
import { readLimits } from '../../../engine/domain/budget/limits/limit-statuses.ts';
import { assertNarrow } from '../../cli/at-gateway.ts';
import { cli } from '../../cli/support.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { answerJson, EVENT_STREAM, message, sse } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { alsoClose } from '../../support/use.ts';
import { keepRequests } from '../streams/kept-requests.ts';
import { ask, bearer, messagesBody, open, type Response, readAll, send } from '../support/client.ts';
import { operation } from '../support/operation.ts';
import { auditRecord, ledgerRow, ledgerRows, nothingReserved, reserved } from '../support/state.ts';
import { useGateway, useUpstream } from '../support/use-gateway.ts';
import { answerDollar, DOLLAR_TOKENS, dollarModel } from './dollar-models.ts';

/** It moves only on a test's command: no test sees two minutes. */
const clock = frozenClock('2026-11-25T10:00:00Z');
const DAY_ENDS = '2026-11-26T00:00:00.000Z';
const USD = 1_000_000_000;

async function boot(spend_limits: object, at: Clock = clock, database_url?: string): Promise<TestGateway> {
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    clock: at,
    config: {
      models: [dollarModel('coder-1'), dollarModel('coder-2')],
      token_groups: ['all', 'bots', 'contractors'].map((name) => ({ name, models: ['*'] })),
      spend_limits: { reserve: 'worst_case', ...spend_limits },
      rules: { 'is-contractor': { in: ['contractors', { var: 'principal.groups' }] } },
    },
    ...(database_url !== undefined && { database_url }),
  });
  return alsoClose(gateway);
}

const upstream = useUpstream(answerDollar);

/** Requests something that costs so many dollars. */
const dollar = (gateway: TestGateway, token = gateway.token, { model = 'coder-1', dollars = 1 } = {}) =>
  ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS * dollars, model });

/** Sends a request once everything before it is settled. */
async function next(gateway: TestGateway): Promise<string> {
  await nothingReserved(gateway.database);
  const response = await dollar(gateway);
  return response.status === 200 ? 'ok' : response.json().error.rule;
}

test('counting tokens is a request like any other for a limit on requests at once', async () => {
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

test('forwards no more requests than a limit by the minute, whether they succeed or not', async () => {
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

test('tokens by the minute count as the estimate at first and as the usage in the end', async () => {
  const gateway = await boot({ rules: [{ name: 'tpm', scope: 'user', tokens_per_minute: 2400 }] });
  upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 100 }));
  for (let i = 0; i < 4; i++) assert.equal(await next(gateway), 'ok');
  upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 1000 }));
  assert.deepEqual([await next(gateway), await next(gateway)], ['ok', 'tpm']);
  const oversized = await ask(gateway.url, gateway.token, { max_tokens: 9000 });
  assert.deepEqual([oversized.status, oversized.headers['x-should-retry']], [429, 'false']);
});

test('counting tokens continues under a limit below the spent amount', async () => {
  const gateway = await boot({ defaults: { user_daily_usd: 5 } });
  assert.equal(await next(gateway), 'ok');
  await nothingReserved(gateway.database);
  const name: CounterName = { scope: 'user', key: 'dev@example.com', window: 'day', unit: 'nano_usd' };
  const by = { database: gateway.database, clock, actor: { kind: 'command', name: 'test' } } as const;
  await setLimit(by, { name, amount: USD / 2 });
  assert.equal(await next(gateway), 'set at run time');
  const path = '/v1/messages/count_tokens';
  const counted = await send(gateway.url, { path, headers: bearer(gateway.token), body: messagesBody() });
  assert.equal(counted.status, 200, counted.text);
});

/** Spends a dollar, or is refused by the rule that is returned. */
async function spend(gateway: TestGateway, token: string, model = 'coder-1'): Promise<string> {
  const response = await dollar(gateway, token, { model });
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

async function counters(gateway: TestGateway): Promise<Record<string, { spent: number; reserved: number }>> {
  await nothingReserved(gateway.database);
  const rows: Record<string, unknown>[] = await gateway.database.knex('spend_counters').select('*');
  return Object.fromEntries(
    rows.map((row) => [
      `${row.scope} ${row.key} ${row.window_kind}`,
      { spent: Number(row.spent), reserved: Number(row.reserved) },
    ]),
  );
}

const only = (usd: number) => ({ spent: usd * USD, reserved: 0 });

test("other users' spending counts against a model's limit, and only the rule's callers are rejected", async () => {
  const rule = { name: 'share', when: { rule: 'is-contractor' }, scope: 'model', window: 'month', limit_usd: 2 };
  const gateway = await boot({ rules: [rule] });
  const contractor = await gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
  assert.deepEqual(await dollars(gateway, gateway.token, 2), ['spent', 'spent']);
  assert.equal(await spend(gateway, contractor), 'share: model month 2');
  assert.equal(await spend(gateway, contractor, 'coder-2'), 'spent');
  assert.equal(await spend(gateway, gateway.token), 'spent');
  assert.deepEqual(await counters(gateway), {
    'user dev@example.com day': only(3),
    'user cy@example.com day': only(1),
    'model coder-1 month': only(3),
    'model coder-2 month': only(1),
  });
});

test('a request over the limit of its model is rejected, and sent to no model with headroom either', async () => {
  const gateway = await boot({ rules: [{ name: 'expensive', scope: 'model', window: 'day', limit_usd: 1 }] });
  assert.deepEqual(await dollars(gateway, gateway.token, 2), ['spent', 'expensive: model day 1']);
  const found = upstream.requests.map(({ body }) => JSON.parse(body.toString()).model);
  assert.deepEqual(found, ['coder-1']);
  assert.equal(await spend(gateway, gateway.token, 'coder-2'), 'spent');
});

test('a rule in shadow mode rejects no one, and audit rows show whom it would have rejected', async () => {
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

function assertSpendError(response: Response, limit: { scope: string; window: string; limit_usd: number }): void {
  assert.equal(response.status, 429, response.text);
  const { type, error, request_id } = response.json();
  assert.deepEqual([type, error.type, error.code], ['error', 'billing_error', 'spend_limit_exceeded']);
  assert.deepEqual({ scope: error.scope, window: error.window, limit_usd: error.limit_usd }, limit);
  assert.equal(request_id, response.headers['x-gateway-request-id']);
  assert.equal(typeof error.rule, 'string');
  assert.equal(error.resets_at, DAY_ENDS);
  const seconds = (Date.parse(error.resets_at) - clock.now()) / 1000;
  assert.equal(response.headers['retry-after'], String(seconds));
  assert.equal(response.headers['x-should-retry'], 'false');
  assert.match(error.message, new RegExp(`${limit.limit_usd}`), 'the message names the limit');
}

test('of 200 concurrent requests against a limit for 50, exactly 50 are forwarded and the rest rejected', async () => {
  const gateway = await boot({ defaults: { user_daily_usd: 50 }, on_exceeded: 'deny', reserve: 'worst_case' });
  const upstream_gate = keepRequests(upstream, answerDollar);
  const refused: Response[] = [];
  const all = Array.from({ length: 200 }, async () => {
    const response = await dollar(gateway);
    if (response.status !== 200) refused.push(response);
    return response;
  });
  await until('150 are rejected', () => refused.length === 150);
  await upstream.arrived(50);
  assert.equal(upstream.requests.length, 50);
  assert.deepEqual(await reserved(gateway.database), { nano_usd: 50 * USD, reservations: 50 });
  for (const response of refused) assertSpendError(response, { scope: 'user', window: 'day', limit_usd: 50 });
  assert.match(refused[0]!.json().error.message, /reserved|in flight/, 'it reports the budget as reserved, not spent');

  upstream_gate.open();
  const answered = await Promise.all(all);
  assert.equal(answered.filter(({ status }) => status === 200).length, 50);
  await nothingReserved(gateway.database);
  assert.equal(upstream.requests.length, 50);
  assert.deepEqual(await counters(gateway), { 'user dev@example.com day': only(50) });
  const rows = await ledgerRows(gateway.database);
  assert.equal(rows.length, 50);
  assert.equal(
    rows.reduce((sum, row) => sum + row.cost_nano_usd, 0),
    50 * USD,
  );
  assertSpendError(await dollar(gateway), { scope: 'user', window: 'day', limit_usd: 50 });
});

for (const reserve of ['worst_case', 'typical']) {
  test(`a request that may cost more than is left is not sent, ${reserve}, and one that fits still is`, async () => {
    const gateway = await boot({ defaults: { user_daily_usd: 10 }, on_exceeded: 'deny', reserve });
    upstream.script = ({ received, ...rest }) =>
      answerJson(message({ input_tokens: 5, output_tokens: JSON.parse(received.body.toString()).max_tokens }))({
        received,
        ...rest,
      });
    assert.equal((await dollar(gateway, gateway.token, { dollars: 7 })).status, 200);
    await nothingReserved(gateway.database);
    const oversized = await dollar(gateway, gateway.token, { dollars: 4 });
    assert.equal(oversized.status, 429, oversized.text);
    assert.equal(oversized.json().error.spent_usd, 7);
    assert.equal((await dollar(gateway, gateway.token, { dollars: 64 })).status, 429);
    assert.equal((await dollar(gateway, gateway.token, { dollars: 3 })).status, 200);
    await nothingReserved(gateway.database);
    assert.equal((await ask(gateway.url, gateway.token, { max_tokens: 1 })).status, 429);
    assert.equal(upstream.requests.length, 2);
    assert.deepEqual(await counters(gateway), { 'user dev@example.com day': only(10) });
  });
}

test('the pool of a team is used up for all but the caller with a grant, until the grant is revoked', async () => {
  const gateway = await boot({ rules: [{ name: 'pool', scope: 'team', window: 'month', limit_usd: 0 }] });
  const { database } = gateway;
  const tokenOf = (user: string) => gateway.newToken({ user, team: 'search' });
  const [ann, ben] = [await tokenOf('ann@example.com'), await tokenOf('ben@example.com')];
  assert.equal(await spend(gateway, ann), 'pool: team month 0');
  const by = { database, clock, actor: { kind: 'command', name: 'test' } } as const;
  const spend_limits = { defaults: {}, rules: [{ name: 'pool', scope: 'team', window: 'month', limit_usd: 0 }] };
  const config = { spend_limits, models: [], upstreams: [] } as never;
  const of = { user: 'ann@example.com', team: 'search' };
  const name = nameCounted(config, { of, window: 'month', unit: 'nano_usd' });
  const { id } = await grantLimit(by, { name, amount: USD, expires_at: new Date(clock.now() + 3_600_000) });
  assert.deepEqual([await spend(gateway, ann), await spend(gateway, ben)], ['spent', 'pool: team month 0']);
  const [limit] = await readLimits({ database, clock, config }, [name]);
  assert.deepEqual([limit!.counted, limit!.limit, limit!.grants.length], [true, 1, 1]);
  await revokeGrant(by, id);
  assert.equal(await spend(gateway, ann), 'pool: team month 0');
});

describe('a limit that changes at run time', () => {
  const HOUR_MS = 3_600_000;
  /** Two replicas: a change must count at the one it was not made at. */
  let replicas: readonly [TestGateway, TestGateway];
  let by: Changing;
  before(async () => {
    const limits = { defaults: { user_daily_usd: 1 } };
    const first = await boot(limits);
    replicas = [first, await boot(limits, clock, first.env.TEST_DATABASE_URL!)];
    by = { database: first.database, clock, actor: { kind: 'person', name: 'root@example.com' } };
  });

  let people = 0;
  /** A caller with a day of their own to spend, and the results of their requests, each at the other replica. */
  async function newCaller() {
    const user = `u${++people}@example.com`;
    const token = await replicas[0].newToken({ user });
    const name: CounterName = { scope: 'user', key: user, window: 'day', unit: 'nano_usd' };
    let turn = 0;
    const ask = async (): Promise<string> => {
      const response = await dollar(replicas[turn++ % 2]!, token);
      if (response.status === 200) return 'spent';
      const { error } = response.json();
      return `${error.code} ${error.limit_usd}`;
    };
    return { name, ask };
  }

  const refused = (limit: number) => `spend_limit_exceeded ${limit}`;

  test('a set limit replaces that of gateway.yaml, up or down, until it is cleared', async () => {
    const { name, ask } = await newCaller();
    await setLimit(by, { name, amount: 0 });
    assert.equal(await ask(), refused(0));
    await setLimit(by, { name, amount: 2 * USD });
    assert.deepEqual([await ask(), await ask(), await ask()], ['spent', 'spent', refused(2)]);
    const { id } = await grantLimit(by, { name, amount: USD, expires_at: new Date(clock.now() + HOUR_MS) });
    assert.deepEqual([await ask(), await ask()], ['spent', refused(3)]);
    await revokeGrant(by, id);
    await clearLimit(by, name);
    assert.equal(await ask(), refused(1));
  });
});

/** The output of a command, in any lines. */
async function command(gateway: TestGateway, ...words: readonly string[]): Promise<string> {
  const ended = await cli([...words, '--config', gateway.config_file], { env: gateway.env });
  assert.equal(ended.exit_code, 0, ended.stderr);
  if (words[0] === 'limits') assertNarrow(ended.stdout);
  return ended.stdout.replace(/\s+/g, ' ');
}

const is = (fact: string, value: string) => ({ '===': [{ var: fact }, value] });
const has = (group: string) => ({ in: [group, { var: 'principal.groups' }] });

describe('a limit with a condition', () => {
  const monthly = { window: 'month' };
  const daily = { window: 'day' };
  const RULES = [
    { name: 'of-search', when: is('principal.team', 'search'), scope: 'team', ...monthly, limit_usd: 500 },
    { name: 'of-platform', when: is('principal.team', 'platform'), scope: 'team', ...monthly, limit_usd: 900 },
    {
      ...{ name: 'dear-model', scope: 'team', ...monthly, limit_usd: 40 },
      when: { and: [is('principal.team', 'search'), is('request.model', 'coder-1')] },
    },
    { name: 'of-contractors', when: has('contractors'), scope: 'user', ...daily, limit_usd: 20 },
    { name: 'of-members', when: is('principal.team', 'search'), scope: 'user', ...daily, limit_usd: 30 },
    {
      ...{ name: 'by-group', scope: 'user', window: 'week', limit_usd: 400 },
      limit_usd_by_group: { contractors: 100, bots: 900 },
    },
    { name: 'of-cleo', when: is('principal.email', 'cleo@example.com'), scope: 'user', ...daily, limit_usd: 3 },
    { name: 'of-website', when: is('principal.project', 'website'), scope: 'project', ...monthly, limit_usd: 60 },
    { name: 'of-bots', when: is('principal.token.group', 'bots'), scope: 'token', ...daily, limit_usd: 7 },
    { name: 'share', when: has('contractors'), scope: 'model', ...monthly, limit_usd: 80 },
    { name: 'at-once', when: is('principal.team', 'platform'), scope: 'team', concurrency: 8 },
    {
      ...{ name: 'chosen', scope: 'user', ...daily, limit_usd: 9 },
      when: { if: [is('principal.team', 'search'), is('request.model', 'coder-2'), has('bots')] },
    },
  ];
  let gateway: TestGateway;
  let bot: string;
  before(async () => {
    gateway = await boot({ defaults: { user_daily_usd: 50 }, rules: RULES }, systemClock);
    await gateway.newToken({ user: 'ana@example.com', team: 'search', project: 'website' });
    await gateway.newToken({ user: 'cy@example.com', group: 'contractors', team: 'platform' });
    await gateway.newToken({ user: 'cleo@example.com' });
    await gateway.newToken({ user: 'both@example.com', group: 'contractors' });
    await gateway.newToken({ user: 'both@example.com', name: 'other' });
    await gateway.newToken({ user: 'bot@example.com', group: 'bots', name: 'bot' });
    const { id } = await gateway.database.knex('access_tokens').where({ name: 'bot' }).first('id');
    bot = id;
  });

  const SUBJECTS: readonly {
    readonly of: () => readonly string[];
    readonly expected: readonly string[];
    readonly hidden: readonly string[];
  }[] = [
    {
      of: () => ['--team', 'search'],
      expected: [
        'team search per month: 500 USD',
        'gateway.yaml: 500 USD (of-search)',
        'gateway.yaml: 40 USD (dear-model), for requests where request.model is "coder-1"',
        'of-members: 30 USD, each user per day',
        'by-group: 100 USD for contractors, 900 USD for bots, 400 USD for others, each user per week',
      ],
      hidden: ['of-platform', 'at-once', 'of-search),', 'principal.team', 'of-cleo', 'of-contractors', 'of-website'],
    },
    {
      of: () => ['--user', 'cy@example.com'],
      expected: [
        'user cy@example.com per day: 20 USD',
        'user cy@example.com per week: 100 USD',
        'team platform per month: 900 USD',
        'share: 80 USD, each model per month',
      ],
      hidden: ['of-search', 'of-members', 'of-cleo', 'chosen'],
    },
    {
      // With one token it is for their requests, with the other it is not.
      of: () => ['--user', 'both@example.com'],
      expected: [
        'user both@example.com per day: 50 USD',
        'gateway.yaml: 20 USD (of-contractors), for requests where principal.groups has "contractors"',
      ],
      hidden: [],
    },
    {
      of: () => ['--token', bot],
      expected: ['per day: 7 USD', 'gateway.yaml: 7 USD (of-bots)'],
      hidden: ['of-contractors', 'of-search'],
    },
    {
      of: () => ['--model', 'coder-1'],
      expected: [
        'gateway.yaml: 80 USD (share), for requests where principal.groups has "contractors"',
        'limited for some',
      ],
      hidden: ['of-search', 'false'],
    },
  ];
  test('is reported to the callers in its scope, and for a conditional limit, with its condition', async () => {
    for (const { of, expected, hidden } of SUBJECTS) {
      const text = await command(gateway, 'limits', 'list', ...of());
      for (const each of expected) assert.ok(text.includes(each), `${of().join(' ')} lacks ${each}:\n${text}`);
      for (const each of hidden) assert.ok(!text.includes(each), `${of().join(' ')} has ${each}:\n${text}`);
    }
  });

  test('is reported to a developer without a word about other users', async () => {
    const { limits, written } = await operation(gateway, 'listLimits', {}, 'both@example.com');
    const text = JSON.stringify([limits, written]);
    assert.ok(!text.includes('cleo'), text);
    const day = limits.find(({ scope }: { scope: string }) => scope === 'user');
    assert.deepEqual(
      [day.limit, day.rules.map(({ rule }: { rule: string }) => rule)],
      [50, ['defaults.user_daily_usd', 'of-contractors']],
    );
    assert.deepEqual([day.rules[1].always, day.rules[1].condition], [false, null]);
    const ana = await operation(gateway, 'listLimits', {}, 'ana@example.com');
    const team = ana.limits.find(({ scope }: { scope: string }) => scope === 'team');
    assert.deepEqual([team.of, team.limit], [{ team: 'search' }, 500]);
    assert.equal(team.rules[1].condition, 'request.model is "coder-1"');
  });
});

describe('an error', () => {
  const AT = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d UTC`;
  let gateway: TestGateway;
  before(async () => {
    const spend_limits = {
      defaults: { user_daily_usd: 5 },
      rules: [
        { name: 'of-team', scope: 'team', window: 'month', limit_usd: 0.1 },
        { name: 'pace', scope: 'user', requests_per_minute: 1000 },
        { name: 'parallel', scope: 'user', concurrency: 100 },
        { name: 'single', when: is('principal.team', 'one'), scope: 'user', concurrency: 1 },
      ],
    };
    gateway = await boot(spend_limits, systemClock);
  });

  const limits = async (...words: readonly string[]) => {
    const ended = await cli(['limits', ...words, '--config', gateway.config_file], { env: gateway.env });
    assert.equal(ended.exit_code, 0, ended.stderr);
  };
  const grantUntil = ['--expires', '3d'];

  /** The origin of a limit, and its description. */
  const CASES: Readonly<
    Record<
      string,
      {
        readonly changes: (user: string) => Promise<unknown>;
        readonly team?: string;
        readonly rule: string;
        /** In the response to the client. */
        readonly client: RegExp;
        /** The author, for administrators. */
        readonly admin: RegExp;
      }
    >
  > = {
    'set by the command line': {
      changes: (user) => limits('set', '--user', user, '--window', 'day', '--usd', '0.5', '--reason', 'a-secret-why'),
      rule: 'set at run time',
      client: new RegExp(`Retrying will not help: .* Limit set at run time, ${AT}: `),
      admin: new RegExp(String.raw`Set at run time by command \S+, ${AT}\.`),
    },
    'set by the admin API': {
      changes: (user) =>
        operation(gateway, 'setLimit', { body: { user, window: 'day', usd: 0.5, reason: 'a-secret-why' } }),
      rule: 'set at run time',
      client: new RegExp(`Limit set at run time, ${AT}: `),
      admin: /Set at run time by command root@host, /,
    },
    'set, with a grant on top': {
      changes: async (user) => {
        await limits('set', '--user', user, '--window', 'day', '--usd', '0.5');
        await limits('grant', '--user', user, '--window', 'day', '--usd', '0.25', ...grantUntil);
      },
      rule: 'set at run time',
      client: new RegExp(`0\\.75 USD .* Limit set at run time, ${AT}, with 0\\.25 USD granted until ${AT}: `),
      admin: new RegExp(
        String.raw`Set at run time by command .* Includes a grant of 0\.25 USD by command \S+, ${AT}, until ${AT}\.`,
      ),
    },
    'granted to one person within that of a team': {
      changes: (user) =>
        limits('grant', '--user', user, '--team', 'pool', '--window', 'month', '--usd', '0.2', ...grantUntil),
      team: 'pool',
      rule: 'of-team',
      client: new RegExp(`0\\.2 USD for user .* and team pool.* Granted at run time, until ${AT}: `),
      admin: new RegExp(String.raw`Includes a grant of 0\.2 USD by command \S+, ${AT}, until ${AT}\.`),
    },
    'of gateway.yaml': {
      changes: async () => {},
      team: 'plain',
      rule: 'of-team',
      client: /Spend rule of-team: /,
      admin: /Defined in \S*gateway\.yaml:\d+\./,
    },
  };

  let people = 0;
  for (const [name, { changes, team, rule, client, admin }] of Object.entries(CASES)) {
    test(`for a limit ${name} names its origin, and administrators only to administrators`, async () => {
      const user = `told${++people}@example.com`;
      const token = await gateway.newToken({ user, ...(team !== undefined && { team }) });
      await changes(user);
      const response = await ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS });
      assert.equal(response.status, 429, response.text);
      const { error } = response.json();
      assert.match(error.message, client);
      assert.deepEqual([error.rule, error.exceeded[0].rule], [rule, rule]);
      const hidesPeople = (text: string) => assert.doesNotMatch(text, /command |root@host|a-secret-why/);
      hidesPeople(response.text);

      const id = String(response.headers['x-gateway-request-id']);
      const { record } = (await auditRecord(gateway.database, id)) as { record: Record<string, unknown> };
      assert.equal(record.spend_rule, rule);
      const { trace } = await operation(gateway, 'getRequest', { path: { id } });
      assert.match(`${trace.why} ${trace.limits[0].changed}`, admin);
      const own = await operation(gateway, 'getRequest', { path: { id } }, user);
      hidesPeople(JSON.stringify(own));
      assert.match(own.trace.why, client);
      const tail = await command(gateway, 'audit', 'tail', '--user', user);
      if (rule === 'set at run time') {
        assert.match(JSON.stringify(record.limits), /"set_by":"command [^"]+"/);
        assert.match(trace.why, / Set by command \S+\./);
        assert.ok(!trace.why.includes('gateway.yaml'), trace.why);
        assert.match(tail.replace(/\s+/g, ' '), /Rejected: .* Set by command /);
        const now = await command(gateway, 'explain', id);
        assert.match(now, /set at run time by command /);
      }
    });
  }
});

describe('a top-up', () => {
  const spend_limits = { defaults: { user_daily_usd: 50 }, reserve: 'typical', overshoot_percent: 5 };
  const { upstream, gateway } = useGateway({ spend_limits });

  const text = (said: string) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: said } });

  test('a stream above the typical cost reserves more and more of the limit while it runs', async () => {
    // 10 x 3000 + 10 x 15000 = 180,000 nano-USD each.
    upstream.script = answerJson(message({ input_tokens: 10, output_tokens: 10 }));
    for (let i = 0; i < 25; i++) assert.equal((await ask(gateway.url, gateway.token)).status, 200);
    await nothingReserved(gateway.database);

    const { promise: paused, resolve: goOn } = Promise.withResolvers<void>();
    upstream.script = async ({ res }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      const usage = { input_tokens: 10, output_tokens: 1 };
      res.write(sse({ type: 'message_start', message: { type: 'message', content: [], usage } }));
      for (let i = 0; i < 200; i++) res.write(sse(text('abcd')));
      await paused;
      res.write(sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 200 } }));
      res.end(sse({ type: 'message_stop' }));
    };
    const body = messagesBody({ max_tokens: 10_000, stream: true });
    const head = await open(gateway.url, { headers: bearer(gateway.token), body }).head;
    // Begun with about 180,000; 10 x 3000 + 200 x 15000 are spent by now.
    await until('the spent amount is reserved', async () => (await reserved(gateway.database)).nano_usd >= 3_030_000);
    const { nano_usd, reservations } = await reserved(gateway.database);
    assert.equal(reservations, 1);
    assert.ok(nano_usd < 10_000 * 15_000, `${nano_usd} are reserved, and not all that it may cost`);
    goOn();
    const response = await readAll(head);
    const row = await ledgerRow(gateway.database, String(response.headers['x-gateway-request-id']));
    assert.equal(row.cost_nano_usd, 3_030_000);
    await nothingReserved(gateway.database);
  });
});
