/** Reports of limits: each names the limits of its subject, and each rejection names the author of the limit. */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { createModelCatalog } from '../../../engine/domain/upstreams/models.ts';
import { programCaller } from '../../../engine/edge/admin/calls.ts';
import { operationOf } from '../../../engine/edge/admin/description.ts';
import { createRunOperation } from '../../../engine/edge/admin/operations.ts';
import { loadToRun } from '../../../engine/edge/gateway/reload.ts';
import { stages } from '../../../stages/index.ts';
import { assertNarrow } from '../../cli/at-gateway.ts';
import { cli } from '../../cli/support.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { keepRequests } from '../streams/kept-requests.ts';
import { ask } from '../support/client.ts';
import { auditRecord } from '../support/state.ts';
import { answerDollar, DOLLAR_TOKENS, dollarModel } from './dollar-models.ts';

let upstream: ScriptedUpstream;
const gateways: TestGateway[] = [];
before(async () => {
  upstream = await startUpstream(answerDollar);
});
after(async () => {
  for (const gateway of gateways) await gateway.close();
  await upstream?.close();
});

async function boot(spend_limits: object): Promise<TestGateway> {
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    config: {
      models: [dollarModel('coder-1'), dollarModel('coder-2')],
      token_groups: ['all', 'bots', 'contractors'].map((name) => ({ name, models: ['*'] })),
      spend_limits: { time_zone: 'UTC', reserve: 'worst_case', ...spend_limits },
    },
  });
  gateways.push(gateway);
  return gateway;
}

/** The output of a command, in any lines. */
async function command(gateway: TestGateway, ...words: readonly string[]): Promise<string> {
  const ended = await cli([...words, '--config', gateway.config_file], { env: gateway.env });
  assert.equal(ended.exit_code, 0, ended.stderr);
  if (words[0] === 'limits') assertNarrow(ended.stdout);
  return ended.stdout.replace(/\s+/g, ' ');
}

/** The admin API's response for an administrator, or a developer by their address. */
async function operation(gateway: TestGateway, name: string, input: object, as?: string) {
  const { database, config_file, env } = gateway;
  const { config, loaded } = await loadToRun(config_file, { stages, env, environment: 'required' });
  const run = createRunOperation({
    ...{ config, database, clock: systemClock, sessions: undefined, models: createModelCatalog(config) },
    explained: { loaded, directory: dirname(config_file) },
  });
  const root = programCaller('command', 'root', { kind: 'command', name: 'root@host' });
  const caller = as === undefined ? root : { ...root, email: as, is_admin: false };
  // biome-ignore lint/suspicious/noExplicitAny: the description defines it.
  return (await run(operationOf(name as never), caller, { path: {}, query: {}, body: undefined, ...input })) as any;
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
    gateway = await boot({ defaults: { user_daily_usd: 50 }, rules: RULES });
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
      of: () => ['--team', 'platform'],
      expected: ['team platform per month: 900 USD', 'team platform at once: 8 requests'],
      hidden: ['of-search', 'dear-model', 'of-members'],
    },
    {
      of: () => ['--team', 'sales'],
      expected: ['team sales per month: no limit'],
      hidden: ['of-search', 'of-platform', 'at-once', 'limited for some'],
    },
    {
      of: () => ['--user', 'ana@example.com'],
      expected: [
        'user ana@example.com per day: 30 USD',
        'gateway.yaml: 9 USD (chosen), for requests where request.model is "coder-2"',
        'team search per month: 500 USD',
        'project website per month: 60 USD',
      ],
      hidden: ['of-platform', 'of-contractors', 'of-cleo', 'share', 'of-bots'],
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
      of: () => ['--user', 'cleo@example.com'],
      expected: ['user cleo@example.com per day: 3 USD'],
      hidden: ['of-contractors', 'share', 'team '],
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
    gateway = await boot({
      defaults: { user_daily_usd: 5 },
      rules: [
        { name: 'of-team', scope: 'team', window: 'month', limit_usd: 0.1 },
        { name: 'pace', scope: 'user', requests_per_minute: 1000 },
        { name: 'parallel', scope: 'user', concurrency: 100 },
        { name: 'single', when: is('principal.team', 'one'), scope: 'user', concurrency: 1 },
      ],
    });
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
    'set to nothing': {
      changes: (user) => limits('set', '--user', user, '--window', 'day', '--usd', '0'),
      rule: 'set at run time',
      client: new RegExp(`Retrying will not help: .* is 0 .* Limit set at run time, ${AT}[.:]`),
      admin: /Set at run time by command /,
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
    'set for requests by the minute': {
      changes: (user) => limits('set', '--user', user, '--window', 'minute', '--requests', '0'),
      rule: 'set at run time',
      client: new RegExp(`is 0 requests per minute\\. .* Limit set at run time, ${AT}\\.`),
      admin: /Set at run time by command /,
    },
    'set for requests at once': {
      changes: (user) => limits('set', '--user', user, '--window', 'open', '--requests', '0'),
      rule: 'set at run time',
      client: new RegExp(`is 0 requests at once\\. .* Limit set at run time, ${AT}\\.`),
      admin: /Set at run time by command /,
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
        assert.match(tail, /refused by limit "set at run time": Set at run time by command /);
        const now = await command(gateway, 'explain', id);
        assert.match(now, /set at run time by command /);
      }
    });
  }

  test('before the body is read reports it as well', async () => {
    const user = 'early@example.com';
    const token = await gateway.newToken({ user, team: 'one' });
    const grant = ['--user', user, '--team', 'one', '--window', 'month', '--usd', '5', ...grantUntil];
    await limits('grant', ...grant);
    await limits('set', '--user', user, '--window', 'open', '--requests', '1');
    upstream.requests.length = 0;
    const { open } = keepRequests(upstream, answerDollar);
    const first = ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS });
    await upstream.arrived(1);
    const response = await ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS });
    assert.equal(response.status, 429, response.text);
    assert.match(response.json().error.message, new RegExp(`Limit set at run time, ${AT}: 1 request is in flight`));
    const id = String(response.headers['x-gateway-request-id']);
    const { record } = (await auditRecord(gateway.database, id)) as { record: Record<string, unknown> };
    assert.deepEqual([record.spend_rule, record.stage], ['set at run time', 'read-body']);
    assert.match(JSON.stringify(record.limits), /"set_by":"command [^"]+"/);
    open();
    assert.equal((await first).status, 200);
  });
});
