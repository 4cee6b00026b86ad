/** `appscli limits`: its output and arguments; the operations are in `test/http/admin/limits.test.ts`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatInZone, startOfDate } from '../../engine/base/kit/zoned-time.ts';
import { count, limitedConfig } from '../http/admin/limits-config.ts';
import { adminBench } from '../http/admin/support.ts';
import { createProject } from '../load/support/project.ts';
import { createTestDatabase } from '../support/database.ts';
import { gatewayConfig } from '../support/gateway.ts';
import { use } from '../support/use.ts';
import { assertNarrow, assertRefused, commandsOf } from './at-gateway.ts';
import { cli, type Ended, jsonLines } from './support.ts';

/** Names of hosts and accounts decide where lines break. */
const inOneLine = (text: string) => text.replace(/\s+/g, ' ');

const BY_GROUP = {
  ...{ name: 'by-group', scope: 'user', window: 'month', limit_usd: 400 },
  limit_usd_by_group: { contractors: 100, staff: 900 },
};
const LIMITS = {
  defaults: { user_daily_usd: 50 },
  rules: [{ name: 'per-model', scope: ['team', 'model'], window: 'month', limit_usd: 200 }],
};

describe('on the database', () => {
  const database = use(createTestDatabase, ({ drop }) => drop());
  function runWith(spend_limits: object, ...arguments_: readonly string[]): Promise<Ended> {
    const token_groups = ['all', 'contractors', 'staff'].map((name) => ({ name, models: ['*'] }));
    const config = gatewayConfig('http://127.0.0.1:9', { token_groups, spend_limits });
    const project = createProject({ 'gateway.yaml': JSON.stringify(config) });
    const env = { ...process.env, TEST_DATABASE_URL: database.url };
    return cli([...arguments_, '--config', project.path('gateway.yaml')], { env });
  }
  const run = (...arguments_: readonly string[]) => runWith(LIMITS, ...arguments_);
  const succeedWith: typeof runWith = async (...input) => {
    const ended = await runWith(...input);
    assert.equal(ended.exit_code, 0, ended.stderr);
    assertNarrow(ended.stderr);
    return ended;
  };
  const succeed = (...arguments_: readonly string[]) => succeedWith(LIMITS, ...arguments_);

  test('a limit is set, listed, cleared, and every step is in the log', async () => {
    const whose = ['--user', 'Ana@Example.com', '--window', 'day'];
    const done = await succeed('limits', 'set', ...whose, '--usd', '100.25', '--reason', 'research');
    assert.equal(done.stdout, '');
    assert.match(
      inOneLine(done.stderr),
      /^Set user ana@example\.com per day to 100\.25 USD\. In force now: user ana@example\.com per day: 100\.25 USD 0 USD spent, 100\.25 left; resets \S+ 00:00 UTC set to 100\.25 USD by command \S+, \S+ \S+ UTC: research gateway\.yaml: 50 USD \(defaults\.user_daily_usd\), replaced $/,
    );
    const again = await succeed('limits', 'set', ...whose, '--usd', '0', '--json');
    const { previous, now } = JSON.parse(again.stdout);
    assert.deepEqual([previous, now.limit, now.unit, again.stderr], [100.25, 0, 'usd', '']);
    const listed = await succeed('limits', 'list');
    assertNarrow(listed.stdout);
    assert.match(
      listed.stdout,
      /^In gateway\.yaml:\ndefaults\.user_daily_usd: 50 USD, each user per day\nper-model: 200 USD, each team and model per month\n\nSet or granted:\n(?:.*\n)*?user ana@example\.com per day: 0 USD\n/,
    );
    const cleared = await succeed('limits', 'clear', ...whose);
    assert.match(cleared.stderr, /^Removed the limit of 0 USD for user ana@example\.com per day\. In force/);
    assert.match(cleared.stderr, /\nuser ana@example\.com per day: 50 USD\n/);
    const changes = jsonLines(await succeed('audit', 'changes', '--json'));
    const actions = changes.filter(({ subject }) => subject.includes('ana@')).map(({ action }) => action);
    assert.deepEqual(actions, ['limit.set', 'limit.set', 'limit.clear']);
    assert.equal((await run('limits', 'clear', ...whose)).exit_code, 1);
  });

  test('a grant is temporary, listed with its id, and revoked by it', async () => {
    const whose = ['--team', 'search', '--model', 'coder-1', '--window', 'month'];
    const granted = await succeed('limits', 'grant', ...whose, '--usd', '20', '--expires', '3d', '--reason', 'release');
    const [, id = ''] =
      /^Grant (grt_\w{13}): 20 USD more for team search and model coder-1 per month, until \S+ \S+ UTC\. /.exec(
        inOneLine(granted.stderr),
      ) ?? [];
    assert.match(granted.stderr, /\nteam search and model coder-1 per month: 220 USD\n/);
    const { stdout } = await succeed('limits', 'list', '--team', 'search', '--json');
    const found = JSON.parse(stdout).limits.find(({ scope }: { scope: string }) => scope === 'team+model');
    assert.equal(found.grants[0].id, id);
    const revoked = await succeed('limits', 'revoke', id);
    assert.match(revoked.stderr, /^Revoked grt_\w+: 20 USD for team search and model coder-1 per month\.\nIn/);
    const again = await run('limits', 'revoke', id);
    assert.equal(again.exit_code, 1);
    assert.match(again.stderr, /is revoked already, since/);
  });

  test('a date is midnight in the configured zone, and shows its name', async () => {
    const limits = { ...LIMITS, time_zone: 'Asia/Kolkata' };
    const day = formatInZone(Date.now() + 5 * 86_400_000, 'Asia/Kolkata').slice(0, 10);
    const whose = ['--user', 'kim@example.com', '--window', 'day'];
    const granted = await succeedWith(limits, 'limits', 'grant', ...whose, '--usd', '20', '--expires', day);
    assert.match(inOneLine(granted.stderr), new RegExp(`^Grant grt_\\w+: .* until ${day} 00:00 Asia/Kolkata\\. `));
    const shown = inOneLine((await succeedWith(limits, 'limits', 'list', '--user', 'kim@example.com')).stdout);
    assert.match(shown, new RegExp(`plus 20 USD until ${day} 00:00 Asia/Kolkata, grt_`));
    assert.match(shown, /; resets \S+ 00:00 Asia\/Kolkata/);
    const { stdout } = await succeedWith(limits, 'limits', 'list', '--user', 'kim@example.com', '--json');
    const found = JSON.parse(stdout).limits.find(({ grants }: { grants: unknown[] }) => grants.length > 0);
    assert.equal(found.grants[0].expires_at, startOfDate(day, 'Asia/Kolkata')!.toISOString());
  });

  test('reports limits by group, missing ones, and those removed from gateway.yaml', async () => {
    const by_group = { rules: [BY_GROUP] };
    for (const group of ['contractors', 'staff']) {
      const token = ['--user', 'bob@example.com', '--group', group, '--name', group];
      await succeedWith(by_group, 'tokens', 'create', ...token);
    }
    const printed = (await succeedWith(by_group, 'limits', 'list', '--user', 'bob@example.com')).stdout;
    assert.match(printed, /^user bob@example\.com per month: limited by group$/m);
    assert.match(printed, /gateway\.yaml: 100 USD for contractors, 900 USD for staff \(by-group\)/);
    const grant = ['limits', 'grant', '--user', 'zoe@example.com', '--usd', '5', '--expires', '1h', '--window'];
    const idle = 'It has no limit: a grant has an effect only on top of one.';
    assert.ok((await succeedWith(by_group, ...grant, 'day')).stderr.includes(idle));
    assert.ok(!(await succeedWith(by_group, ...grant, 'month')).stderr.includes(idle));
    const gone = ['--team', 'gone', '--model', 'coder-1', '--window', 'month'];
    await succeed('limits', 'set', ...gone, '--usd', '5');
    for (const options of [[], ['--team', 'gone']]) {
      const { stdout } = await succeedWith({ rules: [] }, 'limits', 'list', ...options);
      assert.match(stdout, /^team gone and model coder-1 per month: no limit$/m);
      assert.match(inOneLine(stdout), /gateway\.yaml has no such limit: set or granted amounts have no effect/);
    }
  });

  test('reports a wrong command line and changes nothing', async () => {
    const ana = '--user a@example.com --window';
    await assertRefused(
      (...words) => run('limits', ...words),
      [
        ['set --window day --usd 1', /whose limit\? Name a user, team,/],
        [`set ${ana} day`, /no amount: use --usd/],
        [`set ${ana} day --usd 1 --tokens 1`, /--tokens exclude each other/],
        [`set ${ana} day --usd 1e3`, /Expected a number below 10000000/],
        [`set ${ana} day --usd 9999999`, /up to 4000000/],
        [`set ${ana} year --usd 1`, /Allowed choices are day, week/],
        [`set ${ana} week --usd 1`, /gateway\.yaml does not count USD by user per week/],
        ['set --team a --model codr-1 --window month --usd 1', /did you mean `coder-1`/],
        [`grant ${ana} day --usd 1`, /required option '--expires/],
        [`grant ${ana} day --usd 1 --expires 2020-01-01`, /2020-01-01 has begun/],
        [`grant ${ana} day --usd 1 --expires 2020-01-32`, /Expected a duration such as 30d/],
        [`clear ${ana} minute`, /choose one with --unit/],
        [`list --token gw_${'a'.repeat(40)}`, /the token is a credential; name a token by its id, as "[^"]+" sh/],
        [
          'clear --token tok_0 --window minute --unit tokens',
          /no limit of tokens is set for token tok_0 per minute/,
          1,
        ],
      ],
    );
  });
});

describe('at a running gateway', () => {
  const bench = adminBench(limitedConfig);

  test('all users see their own and are denied the rest', async () => {
    const row = { key: 'alice@example.com', window: 'day', start: '2026-03-10T00:00:00Z', scope: 'user' };
    await count(bench.database, { ...row, spent: 49_000_000_000, reserved: 2_000_000_000, in_flight: 2 });
    const alice = commandsOf('alice', bench.url);
    const { stdout } = await alice('limits', 'list');
    assert.match(
      stdout,
      /user alice@example\.com per day: 50 USD\n {4}49 USD spent, 2 reserved by 2 requests in flight, 0 left; resets 2026-03-11\n {6}00:00 UTC\n {4}gateway\.yaml: 50 USD \(defaults\.user_daily_usd\)\n {4}gateway\.yaml: 1 USD \(trial\), shadow mode \(only recorded\)\n/,
    );
    assert.match(stdout, /gateway\.yaml: 10 USD \(nights\), for requests where request\.model is "coder-1"\n/);
    assertNarrow(stdout);
    const denied = await alice('limits', 'set', '--user', 'alice@example.com', '--window', 'day', '--usd', '1000');
    assert.equal(denied.exit_code, 1);
    assert.match(denied.stderr, /^appscli: Admin role required/);
  });

  test('setting one prints its consequences', async () => {
    const row = { scope: 'user', key: 'spent@example.com', window: 'day', start: '2026-03-10T00:00:00Z' };
    await count(bench.database, { ...row, spent: 12_000_000_000 });
    const root = commandsOf('root', bench.url);
    const CASES: readonly (readonly [given: string, says: RegExp])[] = [
      [
        '--user spent@example.com --window day --usd 10',
        /\nAlready spent 12 USD: further requests are rejected until 2026-03-11 00:00 UTC\.\n$/,
      ],
      ['--user nil@example.com --window day --usd 0', /\nA limit of 0 rejects every request\.\n$/],
      ['--team some --window minute --requests 2', /\nIt applies to requests of slow\.\n$/],
      [
        '--user carol@example.com --window minute --tokens 500',
        /\n {4}0 tokens used, 500 left; resets 2026-03-10 12:01 UTC\n/,
      ],
    ];
    for (const [input, says] of CASES) {
      const { stderr } = await root('limits', 'set', ...input.split(' '));
      assert.match(stderr, says);
      assertNarrow(stderr);
    }
  });
});
